/** The manifest files a user names with `-f`: a file, or a directory of them. Reads text; its meaning is not our concern. */
import { closeSync, openSync, readSync, readdirSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { errnoOf, errnoText } from '../../linux/system-call-error.ts';
import { DiskError } from '../mounts/disk-error.ts';

interface SourceFile {
  readonly name: string;
  readonly text: string;
}

// Of a directory only these are read, and not those of its subdirectories, as kubectl does.
const extensions = /\.(ya?ml|json)$/;
// Larger than any set of manifests an API server would take; a device or a log named by mistake ends here.
const sizeBytesMax = 64 * 1024 * 1024;
const chunkBytes = 64 * 1024;

export function readSourceFiles(path: string): readonly SourceFile[] {
  return sourcePaths(path).map((name) => ({ name, text: readText(name) }));
}

function sourcePaths(path: string): readonly string[] {
  if (!attempt(path, () => statSync(path)).isDirectory()) return [path];
  const names = attempt(path, () => readdirSync(path, { withFileTypes: true }))
    .filter((entry) => !entry.isDirectory() && extensions.test(entry.name))
    .map(({ name }) => name);
  if (names.length === 0)
    throw new DiskError(
      'UnreadableSource',
      `Cannot find a manifest in "${path}": it holds no .yaml, .yml or .json file`,
    );
  return names.sort().map((name) => join(path, name));
}

function readText(path: string): string {
  return decodeText(
    path,
    attempt(path, () => readBytes(path)),
  );
}

/** The size of a pipe or a device is not known beforehand, so the limit is checked while reading. */
function readBytes(path: string): Uint8Array {
  const file = openSync(path, 'r');
  try {
    const size = new SourceSize(path);
    const chunks: Uint8Array[] = [];
    for (;;) {
      const chunk = Buffer.allocUnsafe(chunkBytes);
      const length = readSync(file, chunk);
      if (length === 0) return Buffer.concat(chunks);
      size.add(length);
      chunks.push(chunk.subarray(0, length));
    }
  } finally {
    closeSync(file);
  }
}

/** Counts what is read of one source and refuses more than any manifest has. */
export class SourceSize {
  readonly #name: string;
  #bytes = 0;

  constructor(name: string) {
    this.#name = name;
  }

  add(bytes: number): void {
    this.#bytes += bytes;
    if (this.#bytes > sizeBytesMax)
      throw new DiskError(
        'UnreadableSource',
        `Cannot read "${this.#name}": it is larger than 64 MiB, which no manifest is`,
      );
  }
}

/** Bytes that are not UTF-8 would become other bytes in a ConfigMap, so they are refused. */
export function decodeText(name: string, bytes: Uint8Array): string {
  try {
    return new TextDecoder('utf-8', { fatal: true }).decode(bytes);
  } catch (cause) {
    throw new DiskError('UnreadableSource', `Cannot read "${name}": it is not UTF-8 text`, { cause });
  }
}

function attempt<T>(path: string, read: () => T): T {
  try {
    return read();
  } catch (cause) {
    if (cause instanceof DiskError) throw cause;
    const code = errnoOf(cause);
    if (code === undefined) throw cause;
    const why = code === 'ENOENT' ? 'there is no such file or directory' : errnoText(code);
    throw new DiskError('UnreadableSource', `Cannot read "${path}": ${why}`, { cause });
  }
}
