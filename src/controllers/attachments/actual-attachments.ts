/**
 * What is attached where, as far as the API shows it: VolumeAttachments and the status of nodes, kept by watches. A restart finds
 * all of it again. Only what was asked for and does not show yet, and what failed how often, is of this process.
 */
import { isDeepStrictEqual } from 'node:util';
import { BackOff } from '../../base/back-off.ts';
import type { Node } from '../../kube/kinds/node.ts';
import type { VolumeAttachment } from '../../kube/kinds/storage/volume-attachment.ts';
import { type CsiVolume, attachmentName, csiVolumeName, csiVolumeOf } from '../../kube/references/csi-volumes.ts';
import { type AttachmentFacts, type NodeState, belongsInList } from './plan.ts';

/** Its presence counts, not its value. */
const managed = 'volumes.kubernetes.io/controller-managed-attach-detach';
const outOfService = 'node.kubernetes.io/out-of-service';
/** The pauses of Kubernetes between two tries. */
const retries = { firstMs: 500, msMax: 122_000 };
/** API servers give a write up after a minute; twice that, for those with another setting. */
const writeMsMax = 2 * 60_000;

/** One volume on one node. */
export class Attachment {
  readonly volume: string;
  readonly csi: CsiVolume;
  readonly node: string;
  /** Of its VolumeAttachment. */
  readonly name: string;
  /** The VolumeAttachment was written, or may have been, and does not show yet. */
  isRequested = false;
  /** When the answer to that write was lost; 0: it was not. */
  lostAtMs = 0;
  /** It leaves the node's list before it is detached. */
  isWithdrawn = false;
  isRefusalReported = false;
  operation: AttachmentFacts['operation'];
  undesiredSinceMs: number | undefined;
  retryAtMs = 0;
  listAtMs = 0;
  readonly #backOff = new BackOff(retries);
  readonly #listBackOff = new BackOff(retries);

  constructor(csi: CsiVolume, node: string) {
    this.csi = csi;
    this.node = node;
    this.volume = csiVolumeName(csi);
    this.name = attachmentName(csi, node);
  }

  /** Another volume of another driver may have this name too. */
  isOf({ spec: { attacher, nodeName } }: VolumeAttachment): boolean {
    return attacher === this.csi.driver && nodeName === this.node;
  }

  failed(nowMs: number): void {
    this.operation = undefined;
    this.isWithdrawn = false;
    this.retryAtMs = nowMs + this.#backOff.next();
  }

  succeeded(): void {
    this.operation = undefined;
    this.isRefusalReported = false;
    this.retryAtMs = 0;
    this.#backOff.reset();
  }

  listFailed(nowMs: number): void {
    this.listAtMs = nowMs + this.#listBackOff.next();
  }

  isListedAgain(): void {
    this.listAtMs = 0;
    this.#listBackOff.reset();
  }

  /** There is nothing to delete. A write whose answer was lost may still take effect: until it cannot, the volume is held. */
  notFound(nowMs: number): void {
    this.isWithdrawn = false;
    this.operation = undefined;
    const settledAtMs = this.lostAtMs === 0 ? 0 : this.lostAtMs + writeMsMax;
    if (nowMs < settledAtMs) this.retryAtMs = settledAtMs;
    else this.isRequested = false;
  }
}

interface NodeFacts {
  readonly state: NodeState;
  readonly listed: ReadonlySet<string>;
  /** Of a node that is gone: as it last was. Undefined: unknown. */
  readonly inUse: ReadonlySet<string> | undefined;
}

const unknownNode: NodeFacts = {
  state: { isNodePresent: false, isNodeManaged: false, isNodeReady: false, isNodeOutOfService: false },
  listed: new Set(),
  inUse: undefined,
};

export class ActualAttachments {
  readonly #touched: (volume: string) => void;
  readonly #byVolume = new Map<string, Map<string, Attachment>>();
  /** More than one only where somebody wants it: handle, driver and node are joined without anything between them. */
  readonly #byName = new Map<string, readonly Attachment[]>();
  /** All VolumeAttachments, those of others too, by name. */
  readonly #objects = new Map<string, VolumeAttachment>();
  readonly #nodes = new Map<string, NodeFacts>();

  /** `touched` is called with every volume that may need another look. */
  constructor(touched: (volume: string) => void) {
    this.#touched = touched;
  }

  volumes(): Iterable<string> {
    return this.#byVolume.keys();
  }

  of(volume: string): Iterable<Attachment> {
    return this.#byVolume.get(volume)?.values() ?? [];
  }

  /** The one that there is, or a new one without anything. */
  take(csi: CsiVolume, node: string): Attachment {
    const known = this.#byVolume.get(csiVolumeName(csi))?.get(node);
    if (known !== undefined) return known;
    const attachment = new Attachment(csi, node);
    this.#byName.set(attachment.name, [...this.#named(attachment.name), attachment]);
    const nodes = this.#byVolume.get(attachment.volume) ?? new Map<string, Attachment>();
    this.#byVolume.set(attachment.volume, nodes.set(node, attachment));
    return attachment;
  }

  forget(attachment: Attachment): void {
    const { volume, node, name } = attachment;
    const others = this.#named(name).filter((one) => one !== attachment);
    if (others.length === 0) this.#byName.delete(name);
    else this.#byName.set(name, others);
    const nodes = this.#byVolume.get(volume);
    nodes?.delete(node);
    if (nodes?.size === 0) this.#byVolume.delete(volume);
  }

  /** `csi`: the volume that its source names, where that is known. */
  setObject(name: string, object: VolumeAttachment | undefined, csi: CsiVolume | undefined): void {
    if (object === undefined) this.#objects.delete(name);
    else this.#objects.set(name, object);
    if (object !== undefined) this.identify(object, csi);
    for (const attachment of this.#named(name)) {
      if (object !== undefined) {
        attachment.isRequested = false;
        attachment.lostAtMs = 0;
      }
      this.#touched(attachment.volume);
    }
  }

  /** An object that others have made under another name is theirs. */
  identify({ metadata: { name }, spec: { nodeName } }: VolumeAttachment, csi: CsiVolume | undefined): void {
    if (csi === undefined || attachmentName(csi, nodeName) !== name) return;
    const isKnown = this.#byVolume.get(csiVolumeName(csi))?.has(nodeName) === true;
    if (!isKnown) this.#touched(this.take(csi, nodeName).volume);
  }

  objects(): Iterable<VolumeAttachment> {
    return this.#objects.values();
  }

  objectOf(attachment: Attachment): VolumeAttachment | undefined {
    const object = this.#objects.get(attachment.name);
    return object !== undefined && attachment.isOf(object) ? object : undefined;
  }

  setNode(name: string, node: Node | undefined): void {
    const before = this.#nodes.get(name) ?? unknownNode;
    const after = node === undefined ? { ...unknownNode, inUse: before.inUse } : factsOf(node);
    this.#nodes.set(name, after);
    for (const volume of after.listed) {
      const csi = csiVolumeOf(volume);
      if (csi !== undefined) this.take(csi, name);
    }
    const isSame = isDeepStrictEqual(before.state, after.state);
    for (const { volume, node: place } of this.#all()) {
      if (place !== name) continue;
      const isListed = before.listed.has(volume) !== after.listed.has(volume);
      const isUsed = before.inUse?.has(volume) !== after.inUse?.has(volume);
      if (!isSame || isListed || isUsed) this.#touched(volume);
    }
  }

  /** What the node's `volumesAttached` should be. Entries of volumes that are no CSI driver's stay. */
  listOf({ metadata: { name }, status }: Node): NonNullable<NonNullable<Node['status']>['volumesAttached']> {
    const current = status?.volumesAttached ?? [];
    const inUse = new Set(status?.volumesInUse);
    const listed = new Set(current.map((one) => one.name));
    const wanted = this.#all().filter((attachment) => {
      if (attachment.node !== name || attachment.isWithdrawn) return false;
      const { volume } = attachment;
      const state = this.#stateOf(attachment);
      return belongsInList({ state, isListed: listed.has(volume), isInUse: inUse.has(volume) });
    });
    const names = new Set(wanted.map(({ volume }) => volume));
    const kept = current.filter((one) => csiVolumeOf(one.name) === undefined || names.delete(one.name));
    return [...kept, ...[...names].map((volume) => ({ name: volume, devicePath: '' }))];
  }

  /** The list was written: the watch will say the same. */
  listed(name: string, volumes: readonly string[]): void {
    const node = this.#nodes.get(name);
    if (node !== undefined) this.#nodes.set(name, { ...node, listed: new Set(volumes) });
  }

  /** Nodes that are gone and have nothing attached. */
  forgetNodes(): void {
    const used = new Set(this.#all().map(({ node }) => node));
    for (const [name, { state }] of this.#nodes) {
      if (!state.isNodePresent && !used.has(name)) this.#nodes.delete(name);
    }
  }

  factsOf(attachment: Attachment, isDesired: boolean, nowMs: number): AttachmentFacts {
    const { node, volume, operation, retryAtMs, listAtMs, isRefusalReported } = attachment;
    const facts = this.#nodes.get(node) ?? unknownNode;
    const state = this.#stateOf(attachment);
    const { attachError, detachError } = this.objectOf(attachment)?.status ?? {};
    const problem = state === 'uncertain' ? attachError : state === 'ending' ? detachError : undefined;
    return {
      ...facts.state,
      node,
      isDesired,
      state,
      problem: problem && (problem.message ?? ''),
      operation,
      retryAtMs,
      listAtMs,
      undesiredSinceMs: attachment.undesiredSinceMs ?? nowMs,
      isRefusalReported,
      isListed: facts.listed.has(volume),
      // A node that was never seen may use it.
      isInUse: facts.inUse?.has(volume) ?? true,
    };
  }

  #named(name: string): readonly Attachment[] {
    return this.#byName.get(name) ?? [];
  }

  #all(): readonly Attachment[] {
    return [...this.#byName.values()].flat();
  }

  #stateOf(attachment: Attachment): AttachmentFacts['state'] {
    const object = this.objectOf(attachment);
    if (object === undefined) {
      if (attachment.isRequested) return attachment.operation?.kind === 'detach' ? 'ending' : 'uncertain';
      return this.#nodes.get(attachment.node)?.listed.has(attachment.volume) === true ? 'listed' : 'none';
    }
    const isEnding = object.metadata.deletionTimestamp !== undefined || attachment.operation?.kind === 'detach';
    if (isEnding) return 'ending';
    return object.status?.attached === true ? 'attached' : 'uncertain';
  }
}

function factsOf({ metadata, spec, status }: Node): NodeFacts {
  return {
    state: {
      isNodePresent: true,
      isNodeManaged: Object.hasOwn(metadata.annotations ?? {}, managed),
      isNodeReady: status?.conditions?.some((one) => one.type === 'Ready' && one.status === 'True') ?? false,
      isNodeOutOfService: spec?.taints?.some(({ key }) => key === outOfService) ?? false,
    },
    listed: new Set(status?.volumesAttached?.map(({ name }) => name)),
    inUse: new Set(status?.volumesInUse),
  };
}
