/** UIDs of pods that changed, for any number of followers; each UID once however often it was told before it is taken. */
export class Changes {
  readonly #followers = new Set<{ readonly pending: Set<string>; wake: () => void }>();
  #closed = false;

  tell(podUid: string): void {
    for (const follower of this.#followers) {
      follower.pending.add(podUid);
      follower.wake();
    }
  }

  close(): void {
    this.#closed = true;
    for (const { wake } of this.#followers) wake();
  }

  /** Follows from the call on, not from the first `next`: nothing is missed in between. */
  follow(signal: AbortSignal): AsyncIterable<string> {
    const follower = { pending: new Set<string>(), wake: (): void => {} };
    this.#followers.add(follower);
    const wake = (): void => follower.wake();
    signal.addEventListener('abort', wake, { once: true });
    const iterate = async function* (this: Changes): AsyncGenerator<string> {
      try {
        for (;;) {
          const [next] = follower.pending;
          if (signal.aborted || this.#closed) return;
          if (next !== undefined) {
            follower.pending.delete(next);
            yield next;
            continue;
          }
          await new Promise<void>((resolve) => {
            follower.wake = resolve;
          });
        }
      } finally {
        this.#followers.delete(follower);
        signal.removeEventListener('abort', wake);
      }
    };
    return iterate.call(this);
  }
}
