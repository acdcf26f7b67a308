/** Names of Kubernetes Events: that of the object and a moment, which no other event of it has. */
import type { Clock } from '../base/clock.ts';
import { dnsSubdomainProblems } from '../kube/values/names.ts';

export interface EventNamesDeps {
  readonly clock: Clock;
  /** 0 to 1. */
  readonly random: () => number;
  readonly uuid: () => string;
}

const nanosecondsPerMs = 1_000_000;

export class EventNames {
  readonly #deps: EventNamesDeps;
  #last = 0n;

  constructor(deps: EventNamesDeps) {
    this.#deps = deps;
  }

  /** `web.18a3f…`: nanoseconds in hexadecimal. A UUID where an object's name is none that an event could have. */
  next(objectName: string): string {
    const name = `${objectName}.${this.#nanoseconds().toString(16)}`;
    return dnsSubdomainProblems(name).length === 0 ? name : this.#deps.uuid();
  }

  /**
   * Our clock counts milliseconds, in which much may happen. What it does not know is chance, so that another who writes events
   * about the same object finds another name; and it never repeats, for the second of two equal names would be lost.
   */
  #nanoseconds(): bigint {
    const { clock, random } = this.#deps;
    const now =
      BigInt(Math.floor(clock.now())) * BigInt(nanosecondsPerMs) + BigInt(Math.floor(random() * nanosecondsPerMs));
    this.#last = now > this.#last ? now : this.#last + 1n;
    return this.#last;
  }
}
