/**
 * Attaches volumes of CSI drivers to the nodes whose pods use them, and detaches them, by VolumeAttachments that a driver's
 * attacher fulfils. Nodes read `volumesAttached` in their status before they mount, and a volume leaves that list before it is
 * detached. Decisions are made in plan.ts from what is; a restart decides the same again.
 */
import { untilAborted } from '../../base/abort.ts';
import { type Timer, Timers } from '../../base/timers.ts';
import type { Pod } from '../../kube/kinds/pod/pod.ts';
import type { CsiDriver, CsiNode } from '../../kube/kinds/storage/csi.ts';
import type { PersistentVolume } from '../../kube/kinds/storage/persistent-volume.ts';
import type { VolumeAttachment } from '../../kube/kinds/storage/volume-attachment.ts';
import { migratedPlugins } from '../../kube/references/csi-translation.ts';
import { type Cluster, type ControllerDeps, type Kind, coreKind, kindNamed } from '../cluster/cluster.ts';
import { WorkQueue } from '../cluster/work-queue.ts';
import { type StorageView, claimId } from '../storage/storage-view.ts';
import { ActualAttachments } from './actual-attachments.ts';
import { DesiredAttachments, csiVolumeIn } from './desired-attachments.ts';
import { AttachmentOperations } from './operations.ts';
import { planVolume } from './plan.ts';

const controller = 'attachdetach-controller';
/** Kubernetes' default. */
const unmountMs = 6 * 60_000;
/** Looks wait for storage and for the lists of nodes: those of other volumes, and of other nodes, must not wait with them. */
const parallelMax = 100;
/** As often as Kubernetes compares what it believes with what is. */
const sweepMs = 60_000;

export interface ForceDetachSetting {
  /** A node that is not ready keeps what it uses, however long. */
  readonly disablesForceDetachOnTimeout: boolean;
}

export interface AttachDetachDeps extends ControllerDeps, Partial<ForceDetachSetting> {}

export async function runAttachDetach(deps: AttachDetachDeps, view: StorageView, signal: AbortSignal): Promise<void> {
  await new AttachDetach(deps, view, signal).run(signal);
}

class AttachDetach {
  readonly #deps: AttachDetachDeps;
  readonly #view: StorageView;
  readonly #cluster: Cluster;
  /** Unique names of volumes. */
  readonly #queue: WorkQueue;
  readonly #timers: Timers;
  readonly #due = new Map<string, Timer>();
  readonly #desired: DesiredAttachments;
  readonly #actual: ActualAttachments;
  readonly #operations: AttachmentOperations;
  readonly #viewStarted: Promise<void>;

  constructor(deps: AttachDetachDeps, view: StorageView, signal: AbortSignal) {
    this.#deps = deps;
    this.#view = view;
    this.#cluster = deps.clusterFor(controller, signal);
    this.#queue = new WorkQueue(controller, deps, parallelMax);
    this.#timers = new Timers(deps.clock);
    const touched = (volume: string): void => this.#queue.touch(volume);
    this.#desired = new DesiredAttachments(view, touched);
    this.#actual = new ActualAttachments(touched);
    this.#operations = new AttachmentOperations({
      ...deps,
      controller,
      cluster: this.#cluster,
      desired: this.#desired,
      actual: this.#actual,
      signal,
    });
    this.#viewStarted = new Promise((resolve) => {
      view.follow({
        podChanged: (key, pod) => this.#desired.setPod(key, pod),
        claimChanged: (id) => this.#setPodsOf(id),
        volumeChanged: (_name, volume, before) => this.#volumeChanged(volume, before),
        started: resolve,
      });
    });
  }

  async run(signal: AbortSignal): Promise<void> {
    const kind = (name: string): Kind => kindNamed(this.#cluster, 'storage.k8s.io/v1', name);
    const [attachment, driver, csiNode] = [kind('VolumeAttachment'), kind('CSIDriver'), kind('CSINode')];
    const node = coreKind(this.#cluster, 'Node');
    // Nothing is decided before everything is known: what seems to be used by no pod would be detached.
    await Promise.race([this.#viewStarted, untilAborted(signal)]);
    await this.#cluster.ready([driver, csiNode, node, attachment]);
    if (signal.aborted) return;
    const stops = [
      this.#cluster.watch(driver, ({ type, object }) => this.#driverChanged(type, object as CsiDriver)),
      this.#cluster.watch(csiNode, ({ type, object }) => this.#csiNodeChanged(type, object as CsiNode)),
      this.#cluster.watch(node, ({ type, object }) =>
        this.#actual.setNode(object.metadata.name, type === 'put' ? object : undefined),
      ),
      this.#cluster.watch(attachment, ({ type, object }) => this.#attachmentChanged(type, object as VolumeAttachment)),
    ];
    try {
      await Promise.all([
        this.#queue.run((volume) => this.#look(volume, signal), signal),
        this.#timers.run(signal),
        this.#sweep(signal),
      ]);
    } finally {
      for (const stop of stops) stop();
    }
  }

  #setPodsOf(id: string): void {
    for (const pod of this.#view.podsUsing(id)) this.#setPod(pod);
  }

  #volumeChanged(volume: PersistentVolume | undefined, before: PersistentVolume | undefined): void {
    if (volume === undefined) return;
    const { claimRef } = volume.spec;
    if (claimRef !== undefined) this.#setPodsOf(claimId(claimRef.namespace, claimRef.name));
    if (before !== undefined) return;
    for (const object of this.#actual.objects()) {
      if (object.spec.source.persistentVolumeName !== volume.metadata.name) continue;
      this.#actual.identify(object, csiVolumeIn(object, this.#view.volumes));
    }
  }

  #driverChanged(type: 'put' | 'delete', { metadata, spec }: CsiDriver): void {
    const isRequired = type === 'delete' || spec.attachRequired !== false;
    if (!this.#desired.setDriver(metadata.name, isRequired)) return;
    for (const pod of this.#view.pods()) this.#setPod(pod);
  }

  #csiNodeChanged(type: 'put' | 'delete', { metadata: { name, annotations } }: CsiNode): void {
    const plugins = type === 'put' ? (annotations?.[migratedPlugins] ?? '') : '';
    if (!this.#desired.setMigrated(name, plugins)) return;
    for (const pod of this.#view.podsOn(name)) this.#setPod(pod);
  }

  #setPod(pod: Pod): void {
    const { namespace = '', name } = pod.metadata;
    this.#desired.setPod(this.#cluster.keyOf(this.#view.kinds.pod, namespace, name), pod);
  }

  #attachmentChanged(type: 'put' | 'delete', object: VolumeAttachment): void {
    const current = type === 'put' ? object : undefined;
    this.#actual.setObject(object.metadata.name, current, current && csiVolumeIn(current, this.#view.volumes));
  }

  async #sweep(signal: AbortSignal): Promise<void> {
    for (;;) {
      await this.#deps.clock.sleep(sweepMs, signal).catch(() => {});
      if (signal.aborted) return;
      this.#actual.forgetNodes();
      for (const volume of [...this.#desired.volumes(), ...this.#actual.volumes()]) this.#queue.touch(volume);
    }
  }

  async #look(volume: string, signal: AbortSignal): Promise<void> {
    this.#due.get(volume)?.cancel();
    this.#due.delete(volume);
    const nowMs = this.#deps.clock.now();
    const desired = this.#desired.get(volume);
    const wanted = this.#desired.nodesOf(volume);
    // In the order of the pods: of several that want a free volume for one node the first gets it.
    if (desired !== undefined) for (const node of wanted) this.#actual.take(desired.csi, node);
    const attachments = new Map([...this.#actual.of(volume)].map((each) => [each.node, each]));
    for (const each of attachments.values()) {
      each.undesiredSinceMs = wanted.has(each.node) ? undefined : (each.undesiredSinceMs ?? nowMs);
    }
    const facts = [...attachments.values()].map((each) => this.#actual.factsOf(each, wanted.has(each.node), nowMs));
    const { steps, lookAgainAtMs } = planVolume(facts, {
      nowMs,
      isForOneNode: desired?.isForOneNode === true,
      unmountMsMax: this.#deps.disablesForceDetachOnTimeout === true ? undefined : unmountMs,
    });
    for (const step of steps) {
      const attachment = attachments.get(step.node);
      if (attachment === undefined) continue;
      // What fails on one node must not keep the others from their steps, now or later.
      await this.#operations.carryOut(step, attachment, desired).catch((error: unknown) => {
        signal.throwIfAborted();
        this.#operations.failed(step, attachment, error);
      });
    }
    if (steps.length > 0) this.#queue.touch(volume);
    else if (lookAgainAtMs !== undefined) {
      this.#due.set(
        volume,
        this.#timers.at(lookAgainAtMs, () => this.#queue.touch(volume)),
      );
    }
  }
}
