/** What every write needs: where to, who asks, and how. */
import type { Clock } from '../../base/clock.ts';
import type { User } from '../identity/user.ts';
import type { AdmissionStep } from '../admission/admission.ts';
import type { Random } from '../random.ts';
import { parseStored } from '../stored-value.ts';
import { entityTooLarge } from '../status.ts';
import type { Decision, Store } from '../store/store.ts';
import type { ApiRequest } from './api-request.ts';
import type { FieldTracking } from './field-tracking.ts';
import type { WriteOptions } from './write-options.ts';

/** What handlers of requests need of a store; it may be in another thread. */
export type RequestStore = Pick<Store, 'revision' | 'get' | 'list' | 'update' | 'subscribe'>;

export interface WriteDeps {
  readonly store: RequestStore;
  readonly clock: Clock;
  readonly random: Random;
  readonly admission: readonly AdmissionStep[];
  readonly fields: FieldTracking;
}

export interface WriteContext {
  readonly user: User;
  /** Whose fields the changed ones become. */
  readonly manager: string;
  readonly dryRun: boolean;
  /** A write of the server's own, made on the main thread. */
  readonly isController?: boolean;
  readonly signal: AbortSignal;
}

/** A class for its getter: the signal is made when somebody waits for something, which few writes do. */
export class RequestContext implements WriteContext {
  readonly user: User;
  readonly manager: string;
  readonly dryRun: boolean;
  readonly #request: Pick<ApiRequest, 'signal'>;

  constructor(
    request: Pick<ApiRequest, 'user' | 'signal'>,
    { manager, dryRun }: Pick<WriteOptions, 'manager' | 'dryRun'>,
  ) {
    this.user = request.user;
    this.manager = manager;
    this.dryRun = dryRun;
    this.#request = request;
  }

  get signal(): AbortSignal {
    return this.#request.signal;
  }
}

export interface Written {
  /** JSON, as it is stored. */
  readonly text: string;
  readonly created: boolean;
  /** The write emptied the finalizers of an object that was only waiting for that. */
  readonly removed: boolean;
}

/** What etcd takes of a real server, so that what is written here can go there. */
const objectBytesMax = 1.5 * 1024 * 1024;

/** An object that was larger already may get smaller. */
function checkSize(value: string, before = ''): void {
  const bytes = value.length * 3 > objectBytesMax ? Buffer.byteLength(value) : 0;
  if (bytes <= objectBytesMax || value.length <= before.length) return;
  const { metadata } = parseStored(value);
  const fields = Buffer.byteLength(JSON.stringify(metadata.managedFields ?? []));
  throw entityTooLarge(
    `with its defaults and ${fields} bytes of managedFields the object takes ${bytes} bytes, limit is ${objectBytesMax}`,
  );
}

type Outcome<R> = { readonly value: R } | { readonly thrown: unknown };

/** A refusal inside of a decision must not reach the store as an exception: other writes share its transaction. */
export async function decideAndWrite<R>(
  store: Pick<Store, 'update'>,
  key: string,
  decide: (current: string | undefined, revision: number) => Decision<R>,
): Promise<R> {
  const outcome = await store.update<Outcome<R>>(key, (current, revision) => {
    try {
      const decision = decide(current?.value, revision);
      if (decision.kind === 'put') checkSize(decision.value, current?.value);
      return { ...decision, result: { value: decision.result } };
    } catch (thrown) {
      return { kind: 'keep', result: { thrown } };
    }
  });
  if ('thrown' in outcome) throw outcome.thrown;
  return outcome.value;
}
