import { closeSync, fsyncSync, openSync } from 'node:fs';

/** Returns when a file's content, or a directory's names, are on disk. */
export function syncPath(path: string): void {
  const descriptor = openSync(path, 'r');
  try {
    fsyncSync(descriptor);
  } finally {
    closeSync(descriptor);
  }
}
