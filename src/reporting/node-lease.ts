/** Renews the lease by which the cluster knows that this node lives. */
import type { Clock } from '../base/clock.ts';
import type { ApiClient } from '../client/api-client.ts';
import { ConflictError, NotFoundError } from '../client/api-errors.ts';
import { leases, withShape } from '../client/resource-reference.ts';
import type { Lease } from '../kube/objects/lease.ts';
import { lease as leaseShape } from '../kube/objects/lease.ts';
import { microTimestamp } from '../kube/values/timestamp.ts';

const leaseResource = withShape(leases, leaseShape);
const namespace = 'kube-node-lease';
const triesMax = 5;
const firstDelayMs = 200;
const delayMsMax = 7000;

export interface NodeLeaseDeps {
  readonly client: Pick<ApiClient, 'get' | 'create' | 'update'>;
  readonly clock: Clock;
  /** 0 to 1. */
  readonly chance: () => number;
  readonly failed: (error: unknown) => void;
}

export interface NodeLeaseSettings {
  readonly nodeName: string;
  readonly nodeUid: string;
  readonly durationSeconds: number;
  readonly renewEveryMs: number;
}

export class NodeLease {
  readonly #deps: NodeLeaseDeps;
  readonly #settings: NodeLeaseSettings;
  /** As the server last had it: a renewal needs no question before it. */
  #latest: Lease | undefined;

  constructor(deps: NodeLeaseDeps, settings: NodeLeaseSettings) {
    this.#deps = deps;
    this.#settings = settings;
  }

  async run(signal: AbortSignal): Promise<void> {
    const { clock, chance } = this.#deps;
    while (!signal.aborted) {
      await this.#renew(signal).catch(() => {});
      await clock.sleep(this.#settings.renewEveryMs * (1 + 0.04 * chance()), signal).catch(() => {});
    }
  }

  async #renew(signal: AbortSignal): Promise<void> {
    if (this.#latest !== undefined && (await this.#update(signal))) return;
    for (let delayMs = firstDelayMs; !signal.aborted; delayMs = Math.min(2 * delayMs, delayMsMax)) {
      try {
        const { lease, isNew } = await this.#ensure(signal);
        this.#latest = lease;
        if (isNew || (await this.#update(signal))) return;
      } catch (error) {
        signal.throwIfAborted();
        this.#deps.failed(error);
      }
      await this.#deps.clock.sleep(delayMs, signal);
    }
  }

  async #ensure(signal: AbortSignal): Promise<{ lease: Lease; isNew: boolean }> {
    const { client } = this.#deps;
    const { nodeName: name } = this.#settings;
    try {
      return { lease: await client.get(leaseResource, { namespace, name }, signal), isNew: false };
    } catch (error) {
      if (!(error instanceof NotFoundError)) throw error;
    }
    return { lease: await client.create(leaseResource, { namespace }, this.#renewed(undefined), signal), isNew: true };
  }

  /** False when all tries failed. */
  async #update(signal: AbortSignal): Promise<boolean> {
    const { client, failed } = this.#deps;
    const { nodeName: name } = this.#settings;
    for (let tried = 0; tried < triesMax && !signal.aborted; tried += 1) {
      try {
        this.#latest = await client.update(leaseResource, { namespace, name }, this.#renewed(this.#latest), signal);
        return true;
      } catch (error) {
        signal.throwIfAborted();
        failed(error);
        if (error instanceof NotFoundError) break;
        // Somebody else has written it: the next try begins with what they wrote.
        if (error instanceof ConflictError) this.#latest = (await this.#ensure(signal)).lease;
      }
    }
    return false;
  }

  #renewed(lease: Lease | undefined): Lease {
    const { nodeName: name, nodeUid: uid, durationSeconds } = this.#settings;
    const ownerReferences = [{ apiVersion: 'v1', kind: 'Node', name, uid }];
    const metadata = lease?.metadata ?? { name, namespace };
    return {
      apiVersion: 'coordination.k8s.io/v1',
      kind: 'Lease',
      metadata: { ...metadata, ownerReferences: metadata.ownerReferences ?? ownerReferences },
      spec: {
        ...lease?.spec,
        holderIdentity: name,
        leaseDurationSeconds: durationSeconds,
        renewTime: microTimestamp(this.#deps.clock.now()),
      },
    };
  }
}
