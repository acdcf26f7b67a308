/**
 * What waits for the disk: one commit at a time, each of all that came while the last was under way. What a commit does, and
 * what is undone when it fails, the store says; nothing here knows keys or values.
 */
import type { LoggedChange } from './change-log.ts';

/** One update on its way to the disk. */
export interface Waiting {
  /** Undefined when nothing is written and only the state that was decided on must be durable. */
  readonly change: LoggedChange | undefined;
}

interface CommitQueueDeps {
  /** Resolves when the group is on disk and published. */
  commit(group: readonly Waiting[]): Promise<void>;
  /** A commit has failed: undoes all that is not on disk, and answers why, for all who wait. */
  rollBack(error: unknown): unknown;
}

interface Entry {
  readonly waiting: Waiting;
  done(): void;
  failed(error: unknown): void;
}

/** An ordinary write takes some 5 µs to encode and hand over: a commit holds up the event loop for a few milliseconds. */
const commitUpdatesMax = 1_000;
const commitBytesMax = 8 * 1024 * 1024;

export class CommitQueue {
  readonly #deps: CommitQueueDeps;
  #entries: Entry[] = [];
  #committing: Promise<void> | undefined;

  constructor(deps: CommitQueueDeps) {
    this.#deps = deps;
  }

  get length(): number {
    return this.#entries.length;
  }

  /** Resolves when it is on disk. */
  add(waiting: Waiting): Promise<void> {
    return new Promise((done, failed) => {
      this.#entries.push({ waiting, done, failed });
      this.#committing ??= this.#commitAll();
    });
  }

  /** Resolves when nothing waits any more. */
  async emptied(): Promise<void> {
    while (this.#committing !== undefined) await this.#committing;
  }

  /** One turn of the event loop before each commit gathers the requests that came in together. */
  async #commitAll(): Promise<void> {
    while (this.#entries.length > 0) {
      await new Promise((resolve) => setImmediate(resolve));
      const group = this.#takeGroup();
      try {
        await this.#deps.commit(group.map(({ waiting }) => waiting));
      } catch (error) {
        // Updates behind the failed ones were decided on top of them, so they go too.
        const failed = [...group, ...this.#entries];
        this.#entries = [];
        const reason = this.#deps.rollBack(error);
        for (const entry of failed) entry.failed(reason);
        continue;
      }
      for (const entry of group) entry.done();
    }
    this.#committing = undefined;
  }

  #takeGroup(): Entry[] {
    let bytes = 0;
    let count = 0;
    for (const { waiting } of this.#entries) {
      if (count >= commitUpdatesMax || bytes > commitBytesMax) break;
      bytes += waiting.change?.value.length ?? 0;
      count += 1;
    }
    return this.#entries.splice(0, count);
  }
}
