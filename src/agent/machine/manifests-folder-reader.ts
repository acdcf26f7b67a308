/**
 * The folder of manifests on disk, or a single file. Links are followed, because a ConfigMap may be mounted there; anything that
 * is not a regular file is left out. Files may be half written, vanish, or be replaced at any time.
 */
import { constants, watch } from 'node:fs';
import { open, readdir, stat } from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';
import { BackOff } from '../../base/back-off.ts';
import type { Clock } from '../../base/clock.ts';
import { errorCode, OperatingError } from '../../base/errors.ts';
import { WakeSignal } from '../../base/wake-signal.ts';
import { SourceSize, decodeText, readSourceFiles } from '../../disk/paths/source-files.ts';
import type { ManifestFile } from '../../kube/manifests/manifests.ts';
import type { FolderReader } from '../../pods/sources/manifests-folder.ts';

/** A folder that is not there may come: it is looked for this often at first, and less often later. */
const retries = { firstMs: 1_000, msMax: 20_000 };

export function manifestsFolderReader(path: string, clock: Clock): FolderReader {
  return {
    path: path.length > 1 ? path.replace(/\/+$/, '') : path,
    list: () => list(path),
    read: async (name, bytesMax) => await readRegularFile(await pathOf(path, name), bytesMax),
    changes: (signal) => changes(path, clock, signal),
  };
}

async function list(path: string): Promise<readonly string[] | undefined> {
  try {
    if (!(await stat(path)).isDirectory()) return [basename(path)];
    const names: string[] = [];
    for (const name of await readdir(path)) if (await isFile(join(path, name))) names.push(name);
    return names;
  } catch (error) {
    if (errorCode(error) === 'ENOENT') return undefined;
    throw error;
  }
}

/** A file that vanishes meanwhile is left out; one that cannot be inspected fails when it is read. */
async function isFile(path: string): Promise<boolean> {
  try {
    return (await stat(path)).isFile();
  } catch (error) {
    return errorCode(error) !== 'ENOENT';
  }
}

async function pathOf(path: string, name: string): Promise<string> {
  return (await stat(path)).isDirectory() ? join(path, name) : path;
}

/** Rejects with an OperatingError for anything but a regular file of that size. */
export async function readRegularFile(path: string, bytesMax: number): Promise<string> {
  // Without waiting: a pipe in the file's place would keep us for ever.
  const file = await open(path, constants.O_RDONLY | constants.O_NONBLOCK);
  try {
    if (!(await file.stat()).isFile()) throw new OperatingError('NotAFile', 'it is no regular file');
    const chunks: Buffer[] = [];
    let size = 0;
    for (;;) {
      const { bytesRead, buffer } = await file.read(Buffer.alloc(64 * 1024));
      if (bytesRead === 0) return Buffer.concat(chunks).toString('utf8');
      size += bytesRead;
      if (size > bytesMax) throw new OperatingError('FileTooLarge', `the file is larger than ${bytesMax} bytes`);
      chunks.push(buffer.subarray(0, bytesRead));
    }
  } finally {
    await file.close();
  }
}

/** Begins again when the folder is replaced by another, or comes to be. */
async function* changes(path: string, clock: Clock, signal: AbortSignal): AsyncGenerator<void> {
  const backOff = new BackOff(retries);
  while (!signal.aborted) {
    try {
      for await (const _ of events(await watchable(path), clock, signal)) {
        backOff.reset();
        yield;
      }
    } catch {
      // No changes are reported now; the folder is still read again periodically.
    }
    if (signal.aborted) return;
    await clock.sleep(backOff.next(), signal).catch(() => {});
    yield;
  }
}

/** A single file is watched through its folder: editors replace the file, which a watch on the old one does not report. */
async function watchable(path: string): Promise<string> {
  return (await stat(path)).isDirectory() ? path : dirname(path);
}

/** Ends when the folder itself is moved or removed. */
async function* events(folder: string, clock: Clock, signal: AbortSignal): AsyncGenerator<void> {
  const changed = new WakeSignal();
  const over = new AbortController();
  const watcher = watch(folder, { signal, persistent: false }, (event, name) => {
    changed.wake();
    if (event === 'rename' && name === basename(folder)) over.abort();
  });
  watcher.on('error', () => over.abort());
  watcher.once('close', () => over.abort());
  try {
    // Changes from before the watch began cause no event: have the folder read once.
    changed.wake();
    while (await changed.sleep(Infinity, clock, over.signal)) yield;
  } finally {
    watcher.close();
  }
}

/** The manifests a user names: files, directories, or `-` for what is piped in. */
const standardInput = '-';
const standardInputName = '<stdin>';

export async function readSources(
  paths: readonly string[],
  openStandardInput: () => AsyncIterable<Uint8Array>,
): Promise<readonly ManifestFile[]> {
  const files: ManifestFile[] = [];
  for (const path of paths) {
    if (path === standardInput) files.push({ name: standardInputName, text: await readAll(openStandardInput()) });
    else files.push(...readSourceFiles(path));
  }
  return files;
}

async function readAll(input: AsyncIterable<Uint8Array>): Promise<string> {
  const size = new SourceSize(standardInputName);
  const chunks: Uint8Array[] = [];
  for await (const chunk of input) {
    size.add(chunk.length);
    chunks.push(chunk);
  }
  return decodeText(standardInputName, Buffer.concat(chunks));
}
