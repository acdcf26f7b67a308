/** Keeps the cluster told about this node: that it exists, how it is, that it lives. */
import type { Clock } from '../base/clock.ts';
import { MountletError, messageOf } from '../base/errors.ts';
import type { ApiClient } from '../client/api-client.ts';
import type { Node } from '../kube/objects/node.ts';
import type { EventRecorder, EventSubject } from './event-recorder.ts';
import type { NodeFacts, NodeStatus } from './node-facts.ts';
import { NodeLease } from './node-lease.ts';
import type { NodeIdentity } from './node-registration.ts';
import { nodeResource, registerNode } from './node-registration.ts';
import { hasChanged, isReady, nodeStatus, statusEvents, statusPatch } from './node-status.ts';

export interface NodeReporterDeps {
  /** With a short timeout and no limit of its rate: a heartbeat that waits is none. */
  readonly client: Pick<ApiClient, 'get' | 'create' | 'update' | 'patch'>;
  readonly clock: Clock;
  /** 0 to 1. */
  readonly chance: () => number;
  readonly facts: () => Promise<NodeFacts>;
  readonly events: Pick<EventRecorder, 'record'>;
  readonly notify: (notice: NodeReportNotice) => void;
}

export type NodeReportNotice =
  | { readonly kind: 'NodeRegistered'; readonly name: string }
  | { readonly kind: 'NodeReportFailed'; readonly doing: 'register' | 'status' | 'lease'; readonly error: unknown };

export interface NodeReporterSettings {
  /** How often the status is looked at. */
  readonly statusEveryMs: number;
  /** How often it is sent though nothing has changed. */
  readonly reportEveryMs: number;
  readonly leaseSeconds: number;
  readonly leaseEveryMs: number;
}

/** The kubelet's numbers. */
export const nodeReporterDefaults: NodeReporterSettings = {
  statusEveryMs: 10_000,
  reportEveryMs: 300_000,
  leaseSeconds: 40,
  leaseEveryMs: 10_000,
};

const triesMax = 5;
// Until the node was Ready once, it is looked at this often, but not for longer than two minutes.
const firstLooksEveryMs = 100;
const firstLooksForMs = 120_000;

export class NodeStatusError extends MountletError {
  readonly reason = 'NodeStatusFailed';
  constructor(name: string, cause: unknown) {
    super(`Cannot report the status of node "${name}" after ${triesMax} tries: ${messageOf(cause)}`, { cause });
  }
}

export class NodeReporter {
  readonly #deps: NodeReporterDeps;
  readonly #identity: NodeIdentity;
  readonly #settings: NodeReporterSettings;
  /** As the server last had it. */
  #node: Node | undefined;
  #reportedAt: number | undefined;
  #spreadMs = 0;

  constructor(deps: NodeReporterDeps, identity: NodeIdentity, settings: NodeReporterSettings = nodeReporterDefaults) {
    this.#deps = deps;
    this.#identity = identity;
    this.#settings = settings;
  }

  /** Lives until the signal aborts; nothing that goes wrong with the server ends it. */
  async run(signal: AbortSignal): Promise<void> {
    const { client, clock, chance, facts } = this.#deps;
    const { name } = this.#identity;
    const { leaseSeconds: durationSeconds, leaseEveryMs: renewEveryMs } = this.#settings;
    try {
      const register = { client, clock, facts, failed: this.#failed('register') };
      this.#node = await registerNode(register, this.#identity, signal);
    } catch (error) {
      if (signal.aborted) return;
      throw error;
    }
    this.#deps.notify({ kind: 'NodeRegistered', name });
    this.#record('Starting', 'Starting kubelet.');
    // As if nothing had been known of it: that is what a start looks like in its events.
    this.#tellChanges(undefined, this.#node.status ?? {});
    const lease = new NodeLease(
      { client, clock, chance, failed: this.#failed('lease') },
      { nodeName: name, nodeUid: this.#node.metadata.uid ?? '', durationSeconds, renewEveryMs },
    );
    await Promise.all([lease.run(signal), this.#runStatus(signal)]);
  }

  async #runStatus(signal: AbortSignal): Promise<void> {
    const { clock, chance } = this.#deps;
    const slowFrom = clock.now() + firstLooksForMs;
    let isFirst = true;
    while (!signal.aborted) {
      await this.#report(signal).catch(this.#failed('status'));
      isFirst &&= !isReady(this.#node?.status ?? {}) && clock.now() < slowFrom;
      const delayMs = isFirst ? firstLooksEveryMs : this.#settings.statusEveryMs * (1 + 0.04 * chance());
      await clock.sleep(delayMs, signal).catch(() => {});
    }
  }

  async #report(signal: AbortSignal): Promise<void> {
    let last: unknown;
    for (let tried = 0; tried < triesMax && !signal.aborted; tried += 1) {
      try {
        await this.#tryReport(tried > 0, signal);
        return;
      } catch (error) {
        last = error;
      }
    }
    if (!signal.aborted) throw new NodeStatusError(this.#identity.name, last);
  }

  async #tryReport(isRetry: boolean, signal: AbortSignal): Promise<void> {
    const { client, clock, chance, facts } = this.#deps;
    const { name } = this.#identity;
    const { reportEveryMs } = this.#settings;
    const before = isRetry || this.#node === undefined ? await client.get(nodeResource, { name }, signal) : this.#node;
    const now = clock.now();
    const status = nodeStatus(before.status, await facts(), now);
    const isChanged = hasChanged(before.status, status);
    if (!isChanged && this.#reportedAt !== undefined && now - this.#reportedAt < reportEveryMs + this.#spreadMs) return;
    // Nodes that changed in the same moment must not report in the same moment for ever.
    const spreads = isChanged || this.#reportedAt === undefined;
    const place = { name, subresource: 'status', type: 'strategic' } as const;
    this.#node = await client.patch(nodeResource, place, statusPatch(before.status, status), signal);
    this.#spreadMs = spreads ? reportEveryMs * (chance() - 0.5) : 0;
    this.#reportedAt = now;
    this.#tellChanges(before.status, status);
  }

  #tellChanges(before: NodeStatus | undefined, after: NodeStatus): void {
    const { name } = this.#identity;
    for (const reason of statusEvents(before, after)) this.#record(reason, `Node ${name} status is now: ${reason}`);
  }

  #record(reason: string, message: string): void {
    this.#deps.events.record(this.#subject(), 'Normal', reason, message);
  }

  /** Its UID is its name: `kubectl describe node` looks for events under both. */
  #subject(): EventSubject {
    const { name } = this.#identity;
    return { apiVersion: 'v1', kind: 'Node', namespace: '', name, uid: name };
  }

  #failed(doing: 'register' | 'status' | 'lease'): (error: unknown) => void {
    return (error) => this.#deps.notify({ kind: 'NodeReportFailed', doing, error });
  }
}
