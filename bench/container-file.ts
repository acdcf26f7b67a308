/** One file as a container sees it, through /proc/PID/root: who wrote something new to it learns when it could be read. */
import { readFileSync, watch } from 'node:fs';
import { join } from 'node:path';
import { errorCode } from '../src/base/errors.ts';

export class ContainerFile {
  readonly #path: string;
  readonly #watcher: ReturnType<typeof watch>;
  #awaited: { readonly content: string; readonly seen: (atMs: number) => void } | undefined;

  /** The volume's directory is watched, as programs do it; spinning would take the time of those who are measured. */
  constructor(directory: string, name: string) {
    this.#path = join(directory, name);
    this.#watcher = watch(directory, () => this.#look());
  }

  async readable(content: string, signal: AbortSignal): Promise<number> {
    signal.throwIfAborted();
    return await new Promise((resolve, reject) => {
      const stop = (): void => reject(signal.reason);
      signal.addEventListener('abort', stop, { once: true });
      const seen = (atMs: number): void => {
        signal.removeEventListener('abort', stop);
        resolve(atMs);
      };
      this.#awaited = { content, seen };
      this.#look();
    });
  }

  close(): void {
    this.#watcher.close();
  }

  #look(): void {
    if (this.#awaited === undefined || this.#read() !== this.#awaited.content) return;
    this.#awaited.seen(performance.now());
    this.#awaited = undefined;
  }

  /** Undefined: the version that `..data` named was taken away before its file was opened. Who opens again finds the new one. */
  #read(): string | undefined {
    for (let tries = 0; tries < 3; tries += 1) {
      try {
        return readFileSync(this.#path, 'utf8');
      } catch (error) {
        if (errorCode(error) !== 'ENOENT') throw error;
      }
    }
    return undefined;
  }
}
