/** What the test driver is to do wrong, and what it says it can do. As a program it reads this from a file at each call. */
import type { JsonObject } from '@bufbuild/protobuf';
import type { status } from '@grpc/grpc-js';

export interface DriverScript {
  /** Names of the interface, such as `STAGE_UNSTAGE_VOLUME`. */
  readonly capabilities?: Partial<Record<'plugin' | 'controller' | 'node', readonly string[]>>;
  readonly faults?: readonly Fault[];
  /** What `NodeGetInfo` answers; 0: any number. */
  readonly volumesMax?: number;
  readonly isReady?: boolean;
}

/** The first fault that applies to a call is the one that happens. What is missing applies to all. */
export interface Fault {
  /** `NodeStageVolume` */
  readonly method?: string;
  readonly volume?: string;
  readonly node?: string;
  /** Calls that match and pass before it, and how often it happens then; for ever by default. */
  readonly skip?: number;
  readonly times?: number;
  /** Before the work (the default), which is then left undone, or after it, when only the answer is lost. */
  readonly moment?: 'before' | 'after';
  /** Waits first. */
  readonly delayMs?: number;
  /** Answers with this code and text. `{secrets}` in it becomes the values of all secrets of the request. */
  readonly code?: keyof typeof status;
  readonly message?: string;
  /** `hang`: no answer ever. `crash`: the process dies by SIGKILL. */
  readonly end?: 'hang' | 'crash';
  /** Other processes that die by SIGKILL then, before the work or after it: the one that asks. */
  readonly kills?: readonly number[];
  /** Fields of the answer, as JSON, in place of the true ones. */
  readonly answer?: JsonObject;
}

export const defaultCapabilities = {
  plugin: ['CONTROLLER_SERVICE', 'ONLINE'],
  controller: [
    'CREATE_DELETE_VOLUME',
    'PUBLISH_UNPUBLISH_VOLUME',
    'PUBLISH_READONLY',
    'EXPAND_VOLUME',
    'SINGLE_NODE_MULTI_WRITER',
  ],
  node: ['STAGE_UNSTAGE_VOLUME', 'GET_VOLUME_STATS', 'EXPAND_VOLUME', 'SINGLE_NODE_MULTI_WRITER'],
} as const;

export interface Called {
  readonly method: string;
  readonly volume: string;
  /** That it is about; empty where it is about none. */
  readonly node: string;
}

/** Counts how often each fault has matched: `skip` and `times` go on counting after a restart, with what the log kept. */
export class FaultCounts {
  readonly #matches: Map<string, number>;

  constructor(matches: Map<string, number>) {
    this.#matches = matches;
  }

  /** The fault to happen, if any, and all that matched. */
  next(faults: readonly Fault[], called: Called): { readonly fault: Fault | undefined; readonly matched: string[] } {
    const matching = faults.filter((fault) =>
      (['method', 'volume', 'node'] as const).every((field) => (fault[field] ?? called[field]) === called[field]),
    );
    const matched = matching.map((fault) => JSON.stringify(fault));
    const fault = matching.find(({ skip = 0, times = Number.POSITIVE_INFINITY }, index) => {
      const before = this.#matches.get(matched[index] ?? '') ?? 0;
      return before >= skip && before < skip + times;
    });
    for (const name of matched) this.#matches.set(name, (this.#matches.get(name) ?? 0) + 1);
    return { fault, matched };
  }
}
