/**
 * Renews the lease that says this node is alive: a small object, written every few seconds, where the status would be too much.
 * After some time without renewal the control plane takes the node for lost.
 */
import { BackOff } from '../base/back-off.ts';
import { type Pausing, pauseOf } from '../base/clock.ts';
import type { ApiClient, ApiClientSettings } from '../client/api/api-client.ts';
import { BadRequestError, ConflictError, NotFoundError } from '../client/api/api-errors.ts';
import { leases, withShape } from '../client/api/resource-reference.ts';
import { type Lease, leaseShape } from '../kube/kinds/lease.ts';
import { microTimestamp } from '../kube/values/times.ts';
import { type NodeNotice, type OwnNode, nodeResource } from './own-node.ts';

interface NodeLeaseDeps extends Pausing {
  /** Without a rate, and with a patience shorter than the lease. */
  readonly heartbeat: Pick<ApiClient, 'get' | 'create' | 'update'>;
  readonly ownNode: Pick<OwnNode, 'current'>;
  /** 0 to 1. */
  readonly random: () => number;
  readonly notify: (notice: NodeNotice) => void;
}

interface NodeLeaseSettings {
  readonly nodeName: string;
  readonly leaseSeconds: number;
}

const namespace = 'kube-node-lease';
const triesMax = 5;
/** Renewed four times in its life, so that three may be lost. */
const renewalsPerLease = 4;
const jitter = 0.04;
const retries = { firstMs: 200, msMax: 7_000 };

type Owners = NonNullable<Lease['metadata']['ownerReferences']>;

interface HeldLease {
  readonly lease: Lease;
  readonly isNew: boolean;
}

const resource = withShape(leases, leaseShape);

export class NodeLease {
  readonly #deps: NodeLeaseDeps;
  readonly #settings: NodeLeaseSettings;
  /** The server's last answer. Only this node writes the lease, so it need not be read before it is renewed. */
  #latest: Lease | undefined;

  constructor(deps: NodeLeaseDeps, settings: NodeLeaseSettings) {
    this.#deps = deps;
    this.#settings = settings;
  }

  async run(signal: AbortSignal): Promise<void> {
    const { clock, random } = this.#deps;
    const renewMs = (this.#settings.leaseSeconds * 1_000) / renewalsPerLease;
    try {
      for (;;) {
        await this.#hold(signal);
        await clock.sleep(renewMs * (1 + jitter * random()), signal);
      }
    } catch (error) {
      if (!signal.aborted) throw error;
    }
  }

  async #hold(signal: AbortSignal): Promise<void> {
    if (this.#latest !== undefined && (await this.#renew(this.#latest, signal))) return;
    const { lease, isNew } = await this.#ensure(signal);
    this.#latest = lease;
    if (!isNew) await this.#renew(lease, signal);
  }

  async #renew(lease: Lease, signal: AbortSignal): Promise<boolean> {
    const { heartbeat } = this.#deps;
    const { nodeName: name } = this.#settings;
    let base = lease;
    for (let tries = 1; tries <= triesMax; tries += 1) {
      try {
        const renewed = this.#renewed(base, await this.#ownersOf(base, signal));
        this.#latest = await heartbeat.update(resource, { namespace, name }, renewed, signal);
        return true;
      } catch (error) {
        signal.throwIfAborted();
        // It is gone: some servers say so, others that they do not create with a version.
        if (error instanceof NotFoundError || error instanceof BadRequestError) return false;
        if (tries === triesMax) this.#tell(error);
        if (error instanceof ConflictError) base = (await this.#ensure(signal)).lease;
      }
    }
    return false;
  }

  async #ensure(signal: AbortSignal): Promise<HeldLease> {
    const backOff = new BackOff(retries);
    for (;;) {
      try {
        return await this.#find(signal);
      } catch (error) {
        signal.throwIfAborted();
        // The node may be about to be registered.
        if (!(error instanceof NotFoundError) || backOff.lastMs > 0) this.#tell(error);
      }
      await pauseOf(this.#deps)(backOff.next(), signal);
    }
  }

  async #find(signal: AbortSignal): Promise<HeldLease> {
    const { heartbeat } = this.#deps;
    const { nodeName: name } = this.#settings;
    try {
      return { lease: await heartbeat.get(resource, { namespace, name }, signal), isNew: false };
    } catch (error) {
      if (!(error instanceof NotFoundError)) throw error;
    }
    // A lease without an owner would outlive its node, so it waits for the node.
    const first = this.#renewed({ metadata: { name, namespace } }, await this.#nodeAsOwner(signal));
    return { lease: await heartbeat.create(resource, { namespace }, first, signal), isNew: true };
  }

  #renewed({ metadata, spec, ...rest }: Lease, ownerReferences: Owners): Lease {
    const { nodeName: holderIdentity, leaseSeconds: leaseDurationSeconds } = this.#settings;
    const renewTime = microTimestamp(this.#deps.clock.now());
    return {
      ...rest,
      metadata: { ...metadata, ownerReferences },
      spec: { ...spec, holderIdentity, leaseDurationSeconds, renewTime },
    };
  }

  async #ownersOf({ metadata: { ownerReferences = [] } }: Lease, signal: AbortSignal): Promise<Owners> {
    if (ownerReferences.length > 0) return ownerReferences;
    try {
      return await this.#nodeAsOwner(signal);
    } catch {
      signal.throwIfAborted();
      return []; // that the node lives matters more than who owns its lease
    }
  }

  async #nodeAsOwner(signal: AbortSignal): Promise<Owners> {
    const { heartbeat, ownNode } = this.#deps;
    const { nodeName: name } = this.#settings;
    const { metadata } = ownNode.current() ?? (await heartbeat.get(nodeResource, { name }, signal));
    return [{ apiVersion: 'v1', kind: 'Node', name, uid: metadata.uid ?? '' }];
  }

  #tell(error: unknown): void {
    this.#deps.notify({ kind: 'NodeLeaseFailed', name: this.#settings.nodeName, error });
  }
}

/** A heartbeat that is late by a whole period is worth less than the next one. */
export function heartbeatClientSettings(
  general: ApiClientSettings,
  { nodeStatusUpdateMs, leaseSeconds }: { readonly nodeStatusUpdateMs: number; readonly leaseSeconds: number },
): ApiClientSettings {
  const patienceMs = Math.min(nodeStatusUpdateMs, leaseSeconds * 1_000);
  return {
    ...general,
    rate: { perSecond: Infinity, burst: 1 },
    requestTimeoutMs: Math.min(general.requestTimeoutMs, patienceMs),
    retriesMax: 1,
    retryAfterMsMax: Math.min(general.retryAfterMsMax, patienceMs / 2),
  };
}
