/** A folder of manifests on this machine. */
import { watch } from 'node:fs/promises';
import { readdir, open } from 'node:fs/promises';
import { join } from 'node:path';
import { MountletError, errorCode } from '../../base/errors.ts';
import type { FolderReader } from '../../pods/sources/folder-reader.ts';

export class FileTooLargeError extends MountletError {
  readonly reason = 'FileTooLarge';
  constructor(path: string, bytesMax: number) {
    super(`Cannot read "${path}": it is larger than ${bytesMax} bytes, which no manifest is`);
  }
}

export function folderReader(path: string): FolderReader {
  return {
    path,
    async list() {
      try {
        const entries = await readdir(path, { withFileTypes: true });
        return entries.filter((entry) => entry.isFile()).map(({ name }) => name);
      } catch (error) {
        if (errorCode(error) === 'ENOENT') return undefined;
        throw error;
      }
    },
    async read(name, bytesMax) {
      const file = await open(join(path, name));
      try {
        const { size } = await file.stat();
        if (size > bytesMax) throw new FileTooLargeError(join(path, name), bytesMax);
        return await file.readFile('utf8');
      } finally {
        await file.close();
      }
    },
    async *changes(signal) {
      for await (const _ of watch(path, { signal })) yield;
    },
  };
}
