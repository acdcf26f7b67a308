/** The effects of the attach/detach controller: VolumeAttachments, the lists of nodes, and Events, a step of the plan at a time. */
import { OperatingError, messageOf } from '../../base/errors.ts';
import type { Node } from '../../kube/kinds/node.ts';
import type { CsiNode } from '../../kube/kinds/storage/csi.ts';
import type { VolumeAttachment } from '../../kube/kinds/storage/volume-attachment.ts';
import type { KubeObject } from '../../kube/schema/kind.ts';
import { goQuote } from '../../kube/values/go-text.ts';
import {
  type Cluster,
  type ControllerDeps,
  type Kind,
  coreKind,
  kindNamed,
  refusalCode,
  unlessRefused,
} from '../cluster/cluster.ts';
import { type ControllerEvent, ControllerEvents } from '../cluster/events.ts';
import type { ActualAttachments, Attachment } from './actual-attachments.ts';
import type { DesiredAttachments, DesiredVolume } from './desired-attachments.ts';
import type { Step } from './plan.ts';

/** The list of a node grows with each volume, and all who follow nodes read all of it: what comes together is written together. */
const listPauseMs = 20;
/** An attacher is a program of somebody else: what it says goes into Events. */
const problemCharactersMax = 1_024;

interface OperationDeps extends Pick<ControllerDeps, 'clock' | 'random' | 'notify'> {
  readonly controller: string;
  readonly cluster: Cluster;
  readonly desired: DesiredAttachments;
  readonly actual: ActualAttachments;
  readonly signal: AbortSignal;
}

export class AttachmentOperations {
  readonly #deps: OperationDeps;
  readonly #attachments: Kind;
  readonly #nodes: Kind;
  readonly #pods: Kind;
  readonly #csiNodes: Kind;
  readonly #events: ControllerEvents;
  readonly #lists = new SharedWrites(
    (node) => this.#writeList(node),
    () => this.#deps.clock.sleep(listPauseMs, this.#deps.signal).catch(() => {}),
  );

  constructor(deps: OperationDeps) {
    const { controller, cluster } = deps;
    this.#deps = deps;
    this.#attachments = kindNamed(cluster, 'storage.k8s.io/v1', 'VolumeAttachment');
    this.#nodes = coreKind(cluster, 'Node');
    this.#pods = coreKind(cluster, 'Pod');
    this.#csiNodes = kindNamed(cluster, 'storage.k8s.io/v1', 'CSINode');
    this.#events = new ControllerEvents(controller, deps, cluster);
  }

  /** `desired` is there for every step of a node whose pods use the volume. */
  async carryOut(step: Step, attachment: Attachment, desired: DesiredVolume | undefined): Promise<void> {
    const { driver, volumeHandle } = attachment.csi;
    switch (step.kind) {
      case 'attach':
        if (desired !== undefined) await this.#attach(attachment, desired);
        return;
      case 'attached': {
        attachment.succeeded();
        const message = `AttachVolume.Attach succeeded for volume ${quotedName(attachment, desired)} `;
        return this.#record(attachment, () => ({ type: 'Normal', reason: 'SuccessfulAttachVolume', message }));
      }
      case 'attachFailed': {
        const late = `timed out waiting for external-attacher of ${driver} CSI driver to attach volume ${volumeHandle}`;
        return this.#attachFailed(attachment, desired, step.why ?? late);
      }
      case 'refuse': {
        attachment.isRefusalReported = true;
        const pods = this.#deps.desired.podsOn(attachment.volume, step.heldBy);
        const prefix = `Waiting for detach for volume ${quotedName(attachment, desired)} `;
        return this.#record(attachment, (pod) => warning(prefix + usedBy(pods, pod.metadata.namespace)));
      }
      case 'detach':
        return this.#detach(attachment, step.isForced);
      case 'detachFailed': {
        const late = `timed out waiting for external-attacher of unknown CSI driver to detach volume ${volumeHandle}`;
        attachment.operation = undefined;
        return this.#report(attachment, printable(step.why ?? late));
      }
      case 'forget':
        return this.#deps.actual.forget(attachment);
      case 'list':
        await this.#lists.write(step.node);
        return attachment.isListedAgain();
    }
  }

  /** Nothing but the list is left to be done again: what else fails has set its own time, or is an Event that is not missed. */
  failed({ kind }: Step, attachment: Attachment, error: unknown): void {
    if (kind === 'list') attachment.listFailed(this.#deps.clock.now());
    this.#report(attachment, error);
  }

  async #attach(attachment: Attachment, desired: DesiredVolume): Promise<void> {
    const { cluster, actual, clock } = this.#deps;
    const { name, node: nodeName, csi } = attachment;
    attachment.operation = { kind: 'attach', sinceMs: clock.now() };
    if (actual.objectOf(attachment) !== undefined) return;
    // Also when the answer is lost: then it may be there, or be there soon.
    const { isRequested } = attachment;
    attachment.isRequested = true;
    const spec = { attacher: csi.driver, nodeName, source: desired.source };
    try {
      await cluster.create(this.#attachments, '', { metadata: { name }, spec } as KubeObject);
    } catch (error) {
      const code = refusalCode(error);
      if (code === 409) return;
      if (typeof code === 'number' && code >= 400 && code < 500) attachment.isRequested = isRequested;
      else attachment.lostAtMs = clock.now();
      return this.#attachFailed(attachment, desired, messageOf(error));
    }
    // Apart from the creation: that this fails must not count as a creation that was refused.
    await this.#reportMissingDriver(attachment, desired);
  }

  async #attachFailed(attachment: Attachment, desired: DesiredVolume | undefined, why: string): Promise<void> {
    attachment.failed(this.#deps.clock.now());
    const message = `AttachVolume.Attach failed for volume ${quotedName(attachment, desired)} : ${printable(why)}`;
    await this.#record(attachment, () => warning(message));
  }

  /** In this order: once it is not listed, a node that does not use it yet will not begin to. */
  async #detach(attachment: Attachment, isForced: boolean): Promise<void> {
    const { clock, cluster, actual } = this.#deps;
    attachment.isWithdrawn = true;
    try {
      await this.#lists.write(attachment.node);
      if (!isForced) await this.#requireUnused(attachment);
      const key = cluster.keyOf(this.#attachments, '', attachment.name);
      const object = actual.objectOf(attachment) ?? ((await cluster.get(key)) as VolumeAttachment | undefined);
      if (object === undefined || !attachment.isOf(object)) return attachment.notFound(clock.now());
      const { uid } = object.metadata;
      await cluster.delete(key, uid === undefined ? {} : { uid });
    } catch (error) {
      if (refusalCode(error) !== 404) {
        attachment.failed(clock.now());
        return this.#report(attachment, error);
      }
      if (actual.objectOf(attachment) === undefined) return attachment.notFound(clock.now());
    }
    attachment.isWithdrawn = false;
    attachment.operation = { kind: 'detach', sinceMs: clock.now() };
  }

  async #requireUnused({ node: name, volume }: Attachment): Promise<void> {
    const { cluster } = this.#deps;
    const node: Node | undefined = await cluster.get(cluster.keyOf(this.#nodes, '', name));
    if (node?.status?.volumesInUse?.includes(volume) !== true) return;
    const why = 'volume is still in use by node, according to Node status';
    throw new OperatingError('VolumeInUse', `DetachVolume failed for volume ${goQuote(volume)} : ${why}`);
  }

  #report({ volume, node }: Attachment, error: unknown): void {
    const { controller, notify } = this.#deps;
    notify({ kind: 'ControllerFailed', controller, object: `${volume} on ${node}`, error });
  }

  async #writeList(name: string): Promise<void> {
    const { cluster, actual } = this.#deps;
    let listed: readonly string[] = [];
    const change = (object: KubeObject): KubeObject => {
      const { status }: Node = object;
      const current = status?.volumesAttached ?? [];
      const volumesAttached = actual.listOf(object);
      listed = volumesAttached.map((one) => one.name);
      const isSame = listed.length === current.length && listed.every((one, at) => one === current[at]?.name);
      return isSame ? object : ({ ...object, status: { ...status, volumesAttached } } as KubeObject);
    };
    // A node that is gone reads no list.
    await unlessRefused(cluster.update(cluster.keyOf(this.#nodes, '', name), change, 'status'), 404);
    actual.listed(name, listed);
  }

  /** An attacher says so too, where there is one; without it only the end of the wait would say something, and not what is missing. */
  async #reportMissingDriver(attachment: Attachment, desired: DesiredVolume): Promise<void> {
    const { cluster } = this.#deps;
    const { node, csi } = attachment;
    const found = (await cluster.get(cluster.keyOf(this.#csiNodes, '', node))) as CsiNode | undefined;
    if (found === undefined || found.spec.drivers.some(({ name }) => name === csi.driver)) return;
    const why = `CSINode ${node} does not contain driver ${csi.driver}, which has to run on the node`;
    await this.#record(attachment, () =>
      warning(`Waiting to attach volume ${quotedName(attachment, desired)} : ${why}`),
    );
  }

  /** An Event for each pod on the node that uses the volume. */
  async #record({ volume, node }: Attachment, eventFor: (pod: KubeObject) => ControllerEvent): Promise<void> {
    for (const pod of this.#deps.desired.podsOn(volume, [node])) {
      await this.#events.record(this.#pods, pod, eventFor(pod));
    }
  }
}

function printable(why: string): string {
  return why.slice(0, problemCharactersMax).replaceAll(/\p{Cc}+/gu, ' ');
}

function quotedName({ volume }: Attachment, desired: DesiredVolume | undefined): string {
  return goQuote(desired?.specName ?? volume);
}

function warning(message: string): ControllerEvent {
  return { type: 'Warning', reason: 'FailedAttachVolume', message };
}

/** The names of pods in other namespaces are not for the users of this one. */
function usedBy(pods: readonly KubeObject[], namespace: string | undefined): string {
  const local = pods.filter(({ metadata }) => metadata.namespace === namespace).map(({ metadata }) => metadata.name);
  const others = `${pods.length - local.length} pod(s) in different namespaces`;
  if (pods.length === 0) {
    return 'Volume is already exclusively attached to one node, waiting on detach before it can be attached to another node';
  }
  if (local.length === 0) return `Volume is already used by ${others}`;
  const named = `Volume is already used by pod(s) ${local.join(', ')}`;
  return local.length === pods.length ? named : `${named} and ${others}`;
}

/** One write at a time for each key, and then a pause. What is asked for meanwhile shares the next one: the running one may have missed it. */
class SharedWrites {
  readonly #act: (key: string) => Promise<void>;
  readonly #pause: () => Promise<void>;
  readonly #writes = new Map<string, { readonly over: Promise<void>; next?: Promise<void> }>();

  constructor(act: (key: string) => Promise<void>, pause: () => Promise<void>) {
    this.#act = act;
    this.#pause = pause;
  }

  write(key: string): Promise<void> {
    const write = this.#writes.get(key);
    if (write === undefined) return this.#start(key);
    write.next ??= write.over.then(() => this.#start(key));
    return write.next;
  }

  #start(key: string): Promise<void> {
    const running = this.#act(key);
    const paused = running.catch(() => {}).then(() => this.#pause());
    const over = paused.finally(() => {
      if (this.#writes.get(key)?.next === undefined) this.#writes.delete(key);
    });
    this.#writes.set(key, { over });
    return running;
  }
}
