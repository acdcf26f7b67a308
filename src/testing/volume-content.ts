/** Reads a projected volume the way tests want to compare it. For tests alone. */
import { lstatSync, readFileSync, readdirSync, readlinkSync } from 'node:fs';
import { join } from 'node:path';

/** `a.conf: text` for each visible file, through the first-level links, by path. Binary content reads as latin1. */
export function visibleFiles(volume: string): Record<string, string> {
  const found: Record<string, string> = {};
  for (const name of readdirSync(volume).sort()) {
    if (!name.startsWith('..')) Object.assign(found, filesBelow(volume, name));
  }
  return found;
}

/** What `..data` leads to, or undefined when it leads nowhere. */
export function liveFiles(volume: string): Record<string, string> | undefined {
  const live = liveVersion(volume);
  if (live === undefined) return undefined;
  return Object.assign(
    {},
    ...readdirSync(join(volume, live))
      .sort()
      .map((name) => filesBelow(join(volume, live), name)),
  );
}

export function liveVersion(volume: string): string | undefined {
  return readdirSync(volume).includes('..data') ? readlinkSync(join(volume, '..data')) : undefined;
}

function filesBelow(base: string, path: string): Record<string, string> {
  const full = join(base, path);
  const followed = lstatSync(full).isSymbolicLink() ? join(base, readlinkSync(full)) : full;
  if (!lstatSync(followed).isDirectory()) return { [path]: readFileSync(full, 'latin1') };
  return Object.assign(
    {},
    ...readdirSync(full)
      .sort()
      .map((name) => filesBelow(base, `${path}/${name}`)),
  );
}

/** Every name in the volume itself; the version's own is shown as `<version>`, so that it can be written in a test. */
export function namesIn(volume: string): string[] {
  const live = liveVersion(volume);
  return readdirSync(volume)
    .map((name) => (name === live ? '<version>' : name))
    .sort();
}
