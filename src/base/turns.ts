/**
 * Long work in short turns of the event loop, so that everything else goes on between them. A job is a generator that
 * yields wherever it may be interrupted, which is after a few microseconds of work; who runs it decides when it pauses.
 */
export type Steps<Result> = Generator<void, Result, void>;

/** Short enough that whatever needs several turns of its own, as an update of another volume, is not held up for long. */
const turnMs = 3;
/** More than a small volume takes: it is written in one turn also where the disk is slow, and a hundred of them do not queue. */
const stepsMin = 5;

/** Lets everything else go on between two pieces of work that may each be long. */
export function nextTurn(): Promise<void> {
  return new Promise((resolve) => void setImmediate(resolve));
}

/** Runs a job from beginning to end. */
export function atOnce<Result>(job: Steps<Result>): Result {
  let step = job.next();
  while (step.done !== true) step = job.next();
  return step.value;
}

export class Turns {
  readonly #now: () => number;
  readonly #waiting: (() => void)[] = [];

  constructor(now: () => number) {
    this.#now = now;
  }

  /**
   * Begins at once, and a job that fits into one turn is done then. Of those that do not, one has its turn in each turn of
   * the event loop, in order. An abort is thrown into the job where it pauses.
   */
  async run<Result>(job: Steps<Result>, signal?: AbortSignal): Promise<Result> {
    let beganMs = this.#now();
    let step = job.next();
    for (let steps = 1; step.done !== true; steps += 1) {
      const passedMs = steps < stepsMin ? 0 : this.#now() - beganMs;
      // A clock that was set back ends the turn too.
      if (passedMs >= turnMs || passedMs < 0) {
        await new Promise<void>((resolve) => this.inTurn(resolve));
        beganMs = this.#now();
        steps = 0;
      }
      step = signal?.aborted === true ? job.throw(signal.reason) : job.next();
    }
    return step.value;
  }

  /** Acts in a turn of the event loop that has no other of these. */
  inTurn(act: () => void): void {
    if (this.#waiting.push(act) === 1) setImmediate(() => this.#next());
  }

  #next(): void {
    this.#waiting.shift()?.();
    if (this.#waiting.length > 0) setImmediate(() => this.#next());
  }
}
