/**
 * Reports this node to the cluster: registers it, then inspects the machine every few seconds and sends what changed, and
 * everything now and then. The lease, which shows that the node is alive, is in node-lease.ts.
 *
 *   register ──▶ look ──▶ rest until the next look is due ──▶ look ──▶ …        a look that finds no change sends nothing
 *                         └── cut short by touch(), and once as soon as a starting node is ready
 */
import { onAbort } from '../base/abort.ts';
import { type Pausing, pauseOf } from '../base/clock.ts';
import { messageOf } from '../base/errors.ts';
import type { ApiClient } from '../client/api/api-client.ts';
import type { Node } from '../kube/kinds/node.ts';
import { type EventSink, nodeEventObject } from './event-recorder.ts';
import {
  type MachineFacts,
  type NodeSettings,
  type Observed,
  type RuntimeFacts,
  hasChanged,
  isReadyNode,
  observedStatus,
} from './node-status.ts';
import { type NodeNotice, type OwnNode, nodeResource } from './own-node.ts';
import { initialNode, machineLabels, nodePatch, registerNode } from './registration.ts';

interface NodeReporterDeps extends Pausing {
  readonly client: Pick<ApiClient, 'create' | 'get' | 'patch'>;
  /** For what must get through: without a rate, and with a patience shorter than the time between two looks. */
  readonly heartbeat: Pick<ApiClient, 'get' | 'patch'>;
  readonly ownNode: Pick<OwnNode, 'current' | 'saw'>;
  readonly events: EventSink;
  readonly machine: () => MachineFacts;
  /** Why no pod should come to this node; none: it is ready. */
  readonly problems: () => readonly string[];
  /** Undefined while that is not yet known. */
  readonly volumesInUse: () => readonly string[] | undefined;
  readonly isUnderDiskPressure: () => boolean;
  readonly runtime: () => RuntimeFacts;
  /** Called with the volumes in use that the cluster has received. */
  readonly reportedInUse: (names: readonly string[]) => void;
  /** 0 to 1. */
  readonly random: () => number;
  readonly notify: (notice: NodeNotice) => void;
}

const triesMax = 5;
/** Nodes that started together should not report together. */
const jitter = 0.04;
/** A starting node is looked at this often, so that pods need not wait for the next look. */
const startLookMs = 100;
const startMsMax = 120_000;
/** Repeated touches are answered at most this often. */
const touchMsMin = 100;

export class NodeReporter {
  readonly #deps: NodeReporterDeps;
  readonly #settings: NodeSettings;
  #reportedAt: number | undefined;
  /** The last report, and the version of the Node that it made. */
  #sent: { readonly version: string | undefined; readonly node: Node } | undefined;
  /** Added to the time between two reports, so that those of many nodes drift apart. */
  #delayMs = 0;
  #isUnschedulable = false;
  #isStarting = true;
  #isTouched = false;
  #wake: () => void = () => {};

  constructor(deps: NodeReporterDeps, settings: NodeSettings) {
    this.#deps = deps;
    this.#settings = settings;
  }

  /** Something in the status has changed: report it now. */
  touch(): void {
    this.#isTouched = true;
    this.#wake();
  }

  async run(signal: AbortSignal): Promise<void> {
    this.#record('Normal', 'Starting', 'Starting kubelet.');
    const startedAt = this.#deps.clock.now();
    try {
      if (this.#settings.registersNode) await this.#register(signal);
      for (;;) {
        this.#isTouched = false;
        if (await this.#look(signal)) await this.#rest(startedAt, signal);
        else await pauseOf(this.#deps)(this.#lookMs(), signal);
      }
    } catch (error) {
      if (!signal.aborted) throw error;
    }
  }

  async #register(signal: AbortSignal): Promise<void> {
    let changes: readonly string[] = [];
    const { node, isNew } = await registerNode(
      this.#deps,
      () => {
        const initial = initialNode(this.#settings, this.#observe());
        changes = initial.changes;
        return initial.node;
      },
      signal,
    );
    this.#deps.ownNode.saw(node);
    if (isNew) this.#recordChanges(changes);
  }

  /** Answers whether it worked. What is known is changed where it must be; after a failure, what the server has is asked for first. */
  async #look(signal: AbortSignal): Promise<boolean> {
    const { heartbeat, ownNode, notify } = this.#deps;
    const { nodeName: name } = this.#settings;
    for (let tries = 1; ; tries += 1) {
      try {
        const known = tries === 1 ? ownNode.current() : undefined;
        await this.#report(known ?? (await heartbeat.get(nodeResource, { name }, signal)), signal);
        return true;
      } catch (error) {
        signal.throwIfAborted();
        if (tries < triesMax) continue;
        notify({ kind: 'NodeStatusFailed', name, error });
        return false;
      }
    }
  }

  async #report(before: Node, signal: AbortSignal): Promise<void> {
    const { heartbeat, ownNode, reportedInUse, random } = this.#deps;
    const { nodeName: name, nodeStatusReportMs } = this.#settings;
    const observed = this.#observe();
    const { status, changes } = observedStatus(before.status ?? {}, observed, this.#settings);
    const labels = { ...before.metadata.labels, ...machineLabels(observed) };
    const after: Node = { ...before, metadata: { ...before.metadata, labels }, status };
    this.#recordSchedulable(before);
    // An older server leaves out fields that it does not know: sent again, they would be news for ever.
    const sent = this.#sent?.version === before.metadata.resourceVersion ? this.#sent : undefined;
    const isNews = hasChanged(sent?.node ?? before, after);
    const sinceMs = this.#reportedAt === undefined ? Infinity : observed.nowMs - this.#reportedAt;
    if (!isNews && sinceMs < nodeStatusReportMs + this.#delayMs) return reportedInUse(status.volumesInUse ?? []);
    this.#delayMs = isNews || this.#reportedAt === undefined ? nodeStatusReportMs * (random() - 0.5) : 0;
    const place = { name, subresource: 'status', type: 'strategic' } as const;
    const answer = await heartbeat.patch(nodeResource, place, nodePatch(before, after), signal);
    this.#reportedAt = observed.nowMs;
    this.#sent = { version: answer.metadata.resourceVersion, node: after };
    ownNode.saw(answer);
    if (isReadyNode(answer)) this.#isStarting = false;
    this.#recordChanges(changes);
    this.#recordReboot(before, observed);
    reportedInUse(answer.status?.volumesInUse ?? []);
  }

  /** Until the next look. */
  #lookMs(): number {
    return this.#settings.nodeStatusUpdateMs * (1 + jitter * this.#deps.random());
  }

  async #rest(startedAt: number, signal: AbortSignal): Promise<void> {
    const { clock, problems } = this.#deps;
    const restedAt = clock.now();
    const until = restedAt + this.#lookMs();
    for (let now = restedAt; now < until; now = clock.now()) {
      if (now >= startedAt + startMsMax) this.#isStarting = false;
      if (this.#isTouched) return this.#pause(restedAt + touchMsMin - now, signal, false);
      await this.#pause(this.#isStarting ? Math.min(startLookMs, until - now) : until - now, signal, true);
      if (this.#isStarting && problems().length === 0) {
        // Once: with the server away, looking more often would only add to its trouble.
        this.#isStarting = false;
        return;
      }
    }
  }

  async #pause(ms: number, signal: AbortSignal, canBeTouched: boolean): Promise<void> {
    signal.throwIfAborted();
    if (ms <= 0) return;
    const touched = new AbortController();
    const stopListening = onAbort(signal, () => touched.abort());
    if (canBeTouched) this.#wake = () => touched.abort();
    await this.#deps.clock.sleep(ms, touched.signal).catch(() => signal.throwIfAborted());
    stopListening();
    this.#wake = () => {};
  }

  #observe(): Observed {
    const { clock, problems, volumesInUse, isUnderDiskPressure, runtime, notify, machine } = this.#deps;
    const common = {
      nowMs: clock.now(),
      problems: problems(),
      volumesInUse: volumesInUse(),
      isUnderDiskPressure: isUnderDiskPressure(),
      runtime: runtime(),
    };
    try {
      return { ...common, machine: machine() };
    } catch (error) {
      notify({ kind: 'MachineUnreadable', error });
      return { ...common, machine: undefined, problems: [...common.problems, messageOf(error)] };
    }
  }

  #recordChanges(changes: readonly string[]): void {
    const { nodeName } = this.#settings;
    for (const reason of changes) this.#record('Normal', reason, `Node ${nodeName} status is now: ${reason}`);
  }

  #recordSchedulable({ spec }: Node): void {
    const isUnschedulable = spec?.unschedulable ?? false;
    if (isUnschedulable === this.#isUnschedulable) return;
    this.#isUnschedulable = isUnschedulable;
    this.#recordChanges([isUnschedulable ? 'NodeNotSchedulable' : 'NodeSchedulable']);
  }

  #recordReboot({ status }: Node, { machine }: Observed): void {
    const before = status?.nodeInfo?.bootID ?? '';
    if (machine === undefined || before === '' || before === machine.bootId) return;
    const text = `Node ${this.#settings.nodeName} has been rebooted, boot id: ${machine.bootId}`;
    this.#record('Warning', 'Rebooted', text);
  }

  #record(type: 'Normal' | 'Warning', reason: string, message: string): void {
    const { events, ownNode } = this.#deps;
    const object = nodeEventObject(this.#settings.nodeName, ownNode.current()?.metadata.uid);
    events.record({ object, type, reason, message });
  }
}
