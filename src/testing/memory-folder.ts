/** A folder of manifests that a test writes to, and that tells of changes when the test says so. */
import type { FolderReader } from '../pods/sources/folder-reader.ts';
import { ChangeFeed } from '../objects/change-feed.ts';

export class MemoryFolder implements FolderReader {
  readonly path = '/manifests';
  readonly #feed = new ChangeFeed<void>();
  #files: Map<string, string | Error> | undefined;

  constructor(files: Readonly<Record<string, string>> | undefined) {
    this.#files = files === undefined ? undefined : new Map(Object.entries(files));
  }

  /** An error is thrown at whoever reads the file. */
  write(name: string, content: string | Error): void {
    this.#files ??= new Map();
    this.#files.set(name, content);
  }

  delete(name: string): void {
    this.#files?.delete(name);
  }

  vanish(): void {
    this.#files = undefined;
  }

  tell(): void {
    this.#feed.publish('changed', undefined);
  }

  list(): Promise<readonly string[] | undefined> {
    return Promise.resolve(this.#files && [...this.#files.keys()]);
  }

  read(name: string): Promise<string> {
    const content = this.#files?.get(name) ?? new Error(`ENOENT: ${name}`);
    return content instanceof Error ? Promise.reject(content) : Promise.resolve(content);
  }

  changes(signal: AbortSignal): AsyncIterable<void> {
    return this.#feed.changes(signal);
  }
}
