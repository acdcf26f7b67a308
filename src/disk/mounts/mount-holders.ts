/**
 * What keeps a directory from being unmounted: mounts below it, and processes that stand in it or have a file of it open. For
 * messages, so it is best effort: a process that this user may not inspect, or that ends meanwhile, is left out.
 */
import { readFile, readdir, readlink } from 'node:fs/promises';
import { isWithin, readMountsBelow } from './mount-table.ts';

/** A message with more names helps no further. */
const holdersMax = 5;
/** Enough for a crowded node. A link takes microseconds to read, so this many take a second. */
const linksMax = 100_000;
const pathCharactersMax = 200;

/** `process 4711 (sleep), by its working directory`. Names processes and mount points, never files. */
export async function mountHolders(directory: string): Promise<readonly string[]> {
  const holders = readMountsBelow(directory)
    .filter(({ mountPoint }) => mountPoint !== directory)
    .map(({ mountPoint }) => `the mount ${mountPoint.slice(0, pathCharactersMax)}`);
  const budget = { links: linksMax };
  for (const pid of (await entriesOf('/proc')).filter((name) => /^\d+$/.test(name))) {
    if (holders.length >= holdersMax || budget.links <= 0) break;
    const how = await useOf(pid, directory, budget);
    if (how !== undefined) holders.push(`process ${pid} (${await commandOf(pid)}), by ${how}`);
  }
  return holders.slice(0, holdersMax);
}

async function useOf(pid: string, directory: string, budget: { links: number }): Promise<string | undefined> {
  const leadsInto = async (link: string): Promise<boolean> => {
    budget.links -= 1;
    const target = await readlink(`/proc/${pid}/${link}`).catch(() => '');
    return target !== '' && isWithin(directory, target);
  };
  if (await leadsInto('cwd')) return 'its working directory';
  if (await leadsInto('root')) return 'its root directory';
  for (const descriptor of await entriesOf(`/proc/${pid}/fd`)) {
    if (budget.links <= 0) return undefined;
    if (await leadsInto(`fd/${descriptor}`)) return 'an open file';
  }
  return undefined;
}

/** The kernel's name for it, at most 15 characters. A process may give itself any. */
async function commandOf(pid: string): Promise<string> {
  const name = await readFile(`/proc/${pid}/comm`, 'utf8').catch(() => 'ended');
  return name.trim().replace(/[^\x20-\x7e]/g, '?');
}

async function entriesOf(path: string): Promise<readonly string[]> {
  return readdir(path).catch(() => []);
}
