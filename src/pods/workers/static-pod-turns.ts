/**
 * Static pods of one full name run one at a time, in the order in which they were added: a changed manifest is another pod with
 * the same name, and the old one has to end before it starts.
 */
export class StaticPodTurns {
  readonly #started = new Map<string, string>();
  readonly #waiting = new Map<string, Set<string>>();

  wait(fullName: string, uid: string): void {
    const line = this.#waiting.get(fullName) ?? new Set();
    this.#waiting.set(fullName, line.add(uid));
  }

  /** Takes the turn if it is this pod's. Pods in line that `mayStart` denies are skipped. */
  take(fullName: string, uid: string, mayStart: (uid: string) => boolean): boolean {
    const started = this.#started.get(fullName);
    if (started !== undefined) return started === uid;
    const line = this.#waiting.get(fullName) ?? new Set();
    for (const first of line) {
      if (first !== uid && mayStart(first)) return false;
      line.delete(first);
      if (first === uid) break;
    }
    if (line.size === 0) this.#waiting.delete(fullName);
    this.#started.set(fullName, uid);
    return true;
  }

  /** Gives the turn back, or leaves the line. Returns the pods that wait for it now. */
  release(fullName: string, uid: string): readonly string[] {
    if (this.#started.get(fullName) === uid) this.#started.delete(fullName);
    const line = this.#waiting.get(fullName);
    line?.delete(uid);
    if (line?.size === 0) this.#waiting.delete(fullName);
    return [...(line ?? [])];
  }
}
