/**
 * Attaches the volumes of one driver to nodes and detaches them, as Kubernetes' external attacher does: for each VolumeAttachment
 * that names the driver it calls it and writes down what came of it. Which volumes belong on which nodes is decided by others.
 *
 * ```text
 *   asked ──finalizers, node ID──▶ ControllerPublishVolume ──▶ attached ──deleted──▶ ControllerUnpublishVolume ──finalizer goes──▶ gone
 * ```
 *
 * The finalizer stands from before the first call until the driver has confirmed the last one, and goes before the status is
 * written: a VolumeAttachment with the finalizer that says "not attached" would be detached once more.
 */
import { status as grpcStatus } from '@grpc/grpc-js';
import { OperatingError, messageOf } from '../../base/errors.ts';
import {
  type Cluster,
  type ControllerDeps,
  type Kind,
  kindNamed,
  updateSame,
} from '../../controllers/cluster/cluster.ts';
import { WorkQueue } from '../../controllers/cluster/work-queue.ts';
import type { StorageView } from '../../controllers/storage/storage-view.ts';
import { ControllerServiceCapability_RPC_Type as Capability } from '../../grpc/messages/csi_pb.ts';
import type { CsiNode } from '../../kube/kinds/storage/csi.ts';
import type { PersistentVolume } from '../../kube/kinds/storage/persistent-volume.ts';
import type { VolumeAttachment } from '../../kube/kinds/storage/volume-attachment.ts';
import { annotated, withFinalizer, withoutFinalizer } from '../../kube/references/claims.ts';
import { repairedHandle, translatedVolume } from '../../kube/references/csi-translation.ts';
import { goQuote } from '../../kube/values/go-text.ts';
import { timestamp } from '../../kube/values/times.ts';
import { DriverError } from '../failures.ts';
import type { Strings } from '../requests.ts';
import { type ControllerDriver, call } from './controller-driver.ts';
import { RefusedError, secretsOf, volumeCapability } from './requests.ts';

const nodeIdAnnotation = 'csi.alpha.kubernetes.io/node-id';

type Status = NonNullable<VolumeAttachment['status']>;
type VolumeSpec = PersistentVolume['spec'];
type Source = NonNullable<VolumeSpec['csi']>;

/** What a call is about. */
interface Target {
  readonly source: Source;
  readonly request: { readonly volumeId: string; readonly nodeId: string; readonly secrets: Strings };
}

export class Attacher {
  readonly #driver: ControllerDriver;
  readonly #deps: ControllerDeps;
  readonly #view: StorageView;
  readonly #cluster: Cluster;
  readonly #queue: WorkQueue;
  readonly #signal: AbortSignal;
  readonly #attachments: Kind;
  readonly #csiNodes: Kind;
  readonly #finalizer: string;
  /** Of all drivers: the volume and the node, by key. */
  readonly #known = new Map<string, { readonly volumeName: string; readonly nodeName: string }>();
  readonly #detached: (volume: PersistentVolume) => void;

  /** `detached` is called when the last attachment of a volume has gone. */
  constructor(
    driver: ControllerDriver,
    deps: ControllerDeps,
    view: StorageView,
    detached: (volume: PersistentVolume) => void,
    signal: AbortSignal,
  ) {
    this.#driver = driver;
    this.#deps = deps;
    this.#view = view;
    this.#cluster = deps.clusterFor('csi-attacher', signal);
    this.#queue = new WorkQueue(`csi-attacher ${driver.name}`, deps);
    this.#signal = signal;
    this.#attachments = kindNamed(this.#cluster, 'storage.k8s.io/v1', 'VolumeAttachment');
    this.#csiNodes = kindNamed(this.#cluster, 'storage.k8s.io/v1', 'CSINode');
    this.#finalizer = finalizerOf(driver.name);
    this.#detached = detached;
  }

  /** Follows the attachments: what is there already is known when it resolves. Returns how to stop. */
  async start(): Promise<readonly (() => void)[]> {
    await this.#cluster.ready([this.#attachments, this.#csiNodes]);
    return [
      this.#cluster.watch(this.#attachments, ({ type, key, object }) => {
        this.#attachmentChanged(key, object as VolumeAttachment, type === 'put');
      }),
      // A driver that was not registered yet.
      this.#cluster.watch(this.#csiNodes, ({ object }) => {
        for (const [key, { nodeName }] of this.#known) if (nodeName === object.metadata.name) this.#queue.touch(key);
      }),
    ];
  }

  run(signal: AbortSignal): Promise<void> {
    return this.#queue.run((key) => this.#look(key), signal);
  }

  volumeChanged(volume: PersistentVolume): void {
    if (this.#mayRelease(volume)) this.#queue.touch(this.#view.keyOfVolume(volume.metadata.name));
  }

  /** A node that the volume is or may be attached to. */
  attachedNode(volumeName: string): string | undefined {
    return [...this.#known.values()].find((one) => one.volumeName === volumeName)?.nodeName;
  }

  #attachmentChanged(key: string, { spec }: VolumeAttachment, isThere: boolean): void {
    const volumeName = spec.source.persistentVolumeName ?? '';
    if (isThere) this.#known.set(key, { volumeName, nodeName: spec.nodeName });
    else this.#known.delete(key);
    if (isThere && spec.attacher === this.#driver.name) this.#queue.touch(key);
    const volume = isThere ? undefined : this.#view.volumes.get(volumeName);
    if (volume === undefined) return;
    this.volumeChanged(volume);
    this.#detached(volume);
  }

  async #look(key: string): Promise<void> {
    const object = await this.#cluster.get(key);
    if (object === undefined) return;
    if (this.#cluster.placeOf(key).kind?.kind === 'PersistentVolume') {
      return this.#release(key, object as PersistentVolume);
    }
    const attachment = object as VolumeAttachment;
    if (attachment.spec.attacher !== this.#driver.name) return;
    const isGoing = attachment.metadata.deletionTimestamp !== undefined;
    const isHeld = attachment.metadata.finalizers?.includes(this.#finalizer) === true;
    if (isGoing ? !isHeld : attachment.status?.attached === true) return;
    // Nothing can be attached: it is where it is asked for already.
    if (!this.#driver.capabilities.has(Capability.PUBLISH_UNPUBLISH_VOLUME) && !isGoing) {
      return this.#setStatus(key, attachment, attached({}));
    }
    try {
      await (isGoing ? this.#detach(key, attachment) : this.#attach(key, attachment));
    } catch (error) {
      if (!this.#signal.aborted) await this.#setStatus(key, attachment, this.#failed(error, isGoing));
      throw error;
    }
  }

  async #attach(key: string, attachment: VolumeAttachment): Promise<void> {
    const spec = await this.#heldSpec(attachment);
    const { source, request } = await this.#target(attachment, spec, false);
    const published = {
      ...request,
      readonly: source.readOnly === true && this.#driver.capabilities.has(Capability.PUBLISH_READONLY),
      volumeCapability: volumeCapability(this.#driver, spec, source.fsType),
      volumeContext: source.volumeAttributes ?? {},
    };
    if (!(await this.#hold(key, attachment, request.nodeId))) return;
    const { publishContext } = await call(this.#driver, 'controllerPublishVolume', published, this.#signal);
    const size = Buffer.byteLength(JSON.stringify(publishContext));
    if (size > contextBytesMax) {
      throw new OperatingError(
        'BadAnswer',
        `the driver answered with a publish_context of ${size} bytes: it is too large`,
      );
    }
    await this.#setStatus(key, attachment, attached(publishContext));
  }

  async #detach(key: string, attachment: VolumeAttachment): Promise<void> {
    // A driver that could attach volumes may have been replaced by one that cannot.
    if (this.#driver.capabilities.has(Capability.PUBLISH_UNPUBLISH_VOLUME)) {
      const { request } = await this.#target(attachment, await this.#specOf(attachment), true);
      await call(this.#driver, 'controllerUnpublishVolume', request, this.#signal);
    }
    await updateSame(this.#cluster, key, attachment, (current) => withoutFinalizer(current, this.#finalizer));
    await this.#setStatus(key, attachment, () => ({ attached: false }));
  }

  async #target(attachment: VolumeAttachment, { csi: source }: VolumeSpec, mayBeGone: boolean): Promise<Target> {
    if (source === undefined) throw new RefusedError('pv spec contained non-csi source that was not migrated');
    const secrets = await secretsOf(this.#cluster, source.controllerPublishSecretRef);
    const nodeId = await this.#nodeIdOf(attachment, mayBeGone);
    const volumeId = repairedHandle(source.driver, source.volumeHandle, nodeId);
    return { source, request: { volumeId, nodeId, secrets } };
  }

  /** The volume's specification, with a volume that stays as long as it may be attached. */
  async #heldSpec(attachment: VolumeAttachment): Promise<VolumeSpec> {
    const { persistentVolumeName: name } = attachment.spec.source;
    const spec = await this.#specOf(attachment);
    if (name === undefined) return spec;
    let isGoing = false;
    await this.#cluster.update(this.#view.keyOfVolume(name), (volume) => {
      isGoing = volume.metadata.deletionTimestamp !== undefined;
      return isGoing ? volume : withFinalizer(volume, this.#finalizer);
    });
    if (isGoing) throw new RefusedError(`PersistentVolume ${goQuote(name)} is marked for deletion`);
    return spec;
  }

  async #specOf({ spec: { source } }: VolumeAttachment): Promise<VolumeSpec> {
    const { persistentVolumeName: name, inlineVolumeSpec } = source;
    if (name === undefined) return inlineVolumeSpec as VolumeSpec;
    const volume = (await this.#cluster.get(this.#view.keyOfVolume(name))) as PersistentVolume | undefined;
    if (volume === undefined) throw new RefusedError(`persistentvolume ${goQuote(name)} not found`);
    return translatedVolume(volume).spec;
  }

  /** A node that is gone, or whose driver is, is still detached from. */
  async #nodeIdOf({ metadata, spec: { nodeName } }: VolumeAttachment, mayBeGone: boolean): Promise<string> {
    const key = this.#cluster.keyOf(this.#csiNodes, '', nodeName);
    const csiNode = (await this.#cluster.get(key)) as CsiNode | undefined;
    const { name } = this.#driver;
    const known = csiNode?.spec.drivers.find((driver) => driver.name === name)?.nodeID;
    const nodeId = known ?? (mayBeGone ? metadata.annotations?.[nodeIdAnnotation] : undefined);
    if (nodeId !== undefined) return nodeId;
    throw new RefusedError(
      csiNode === undefined
        ? `csinode.storage.k8s.io ${goQuote(nodeName)} not found`
        : `CSINode ${nodeName} does not contain driver ${name}`,
    );
  }

  /** Before the call. False: it is going, or gone. */
  async #hold(key: string, attachment: VolumeAttachment, nodeId: string): Promise<boolean> {
    let isHeld = false;
    await updateSame(this.#cluster, key, attachment, (current) => {
      isHeld = current.metadata.deletionTimestamp === undefined;
      return isHeld ? annotated(withFinalizer(current, this.#finalizer), [nodeIdAnnotation], nodeId) : current;
    });
    return isHeld;
  }

  #failed(error: unknown, isGoing: boolean): (status: Status) => Status {
    const message = Buffer.from(messageOf(error)).subarray(0, messageBytesMax).toString();
    const errorCode = error instanceof DriverError && !isGoing ? grpcStatus[error.code] : undefined;
    const failure = { message, ...(errorCode !== undefined && { errorCode }) };
    const field = isGoing ? 'detachError' : 'attachError';
    return (status) => {
      const before = status[field];
      // What is said already keeps its time: a write for each try would wake those who wait for a change.
      if (before?.message === message && before.errorCode === errorCode) return status;
      return { ...status, [field]: { time: timestamp(this.#deps.clock.now()), ...failure } };
    };
  }

  #setStatus(key: string, attachment: VolumeAttachment, change: (status: Status) => Status): Promise<void> {
    const changed = (current: VolumeAttachment): VolumeAttachment => {
      const before = current.status ?? { attached: false };
      const after = change(before);
      return after === before ? current : { ...current, status: after };
    };
    return updateSame(this.#cluster, key, attachment, changed, 'status');
  }

  #mayRelease({ metadata }: PersistentVolume): boolean {
    return metadata.deletionTimestamp !== undefined && metadata.finalizers?.includes(this.#finalizer) === true;
  }

  /** A volume that is deleted takes no new attachment, so that none can come between the question and the write. */
  async #release(key: string, volume: PersistentVolume): Promise<void> {
    if (!this.#mayRelease(volume)) return;
    const all = await this.#cluster.list(this.#attachments);
    const { name } = volume.metadata;
    if (all.some(({ object }) => (object as VolumeAttachment).spec.source.persistentVolumeName === name)) return;
    await updateSame(this.#cluster, key, volume, (current) => withoutFinalizer(current, this.#finalizer));
  }
}

/** The API server refuses longer ones. */
const contextBytesMax = 250 * 1024;
/** A little less than it allows: where a character was cut, its replacement is longer. */
const messageBytesMax = 1_020;

function attached(context: Readonly<Record<string, string>>): (status: Status) => Status {
  const hasContext = Object.keys(context).length > 0;
  return ({ attachError: _error, attachmentMetadata: _context, ...status }) => ({
    ...status,
    attached: true,
    ...(hasContext && { attachmentMetadata: context }),
  });
}

/** The external attacher's, so that either can take over. */
function finalizerOf(driver: string): string {
  const name = driver.replace(/[^a-zA-Z0-9-]/g, '-');
  return `external-attacher/${name.endsWith('-') ? `${name}X` : name}`;
}
