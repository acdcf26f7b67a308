/**
 * Nodes without machines, a CSI driver's attacher that does what a test says, and the attach/detach controller, on a store in memory.
 * The storage behind them outlives every process and sees what must never happen.
 */
import { WorkQueue } from '../../controllers/cluster/work-queue.ts';
import { type Cluster, type Kind, coreKind, kindNamed, unlessRefused } from '../../controllers/cluster/cluster.ts';
import { type AttachDetachDeps, runAttachDetach } from '../../controllers/attachments/attach-detach.ts';
import { runCompanion, serviceAccounts } from '../../controllers/default-objects.ts';
import { runStorage } from '../../controllers/storage/storage.ts';
import { runVolumeBinder } from '../../controllers/storage/volume-binder.ts';
import type { Node } from '../../kube/kinds/node.ts';
import type { Pod } from '../../kube/kinds/pod/pod.ts';
import type { PersistentVolumeClaim } from '../../kube/kinds/storage/persistent-volume-claim.ts';
import type { PersistentVolume } from '../../kube/kinds/storage/persistent-volume.ts';
import type { VolumeAttachment } from '../../kube/kinds/storage/volume-attachment.ts';
import { attachmentName, csiVolumeName, isForOneNode } from '../../kube/references/csi-volumes.ts';
import { claimNameOf } from '../../kube/references/volume-spec.ts';
import type { KubeObject } from '../../kube/schema/kind.ts';
import { newClaim, newVolume, podWithClaims } from '../fakes/storage-builders.ts';
import { type PartyDeps, StorageWorld } from './storage-world.ts';

export const driver = 'disks.example.com';
const finalizer = 'external-attacher/disks-example-com';
const managed = { 'volumes.kubernetes.io/controller-managed-attach-detach': 'true' };
const storageGroup = 'storage.k8s.io/v1';

/** Turns in which every party sees a change, before time passes. */
const momentTurns = 30;

/** What the attacher does when it is asked for this handle and node; `silent`: it does it, and the answer gets lost. */
type Answer = 'ok' | 'refuse' | 'hang' | 'silent';

export interface AttacherScript {
  attach: (handle: string, node: string) => Answer;
  detach: (handle: string, node: string) => Answer;
  /** Of a refusal; absent: `attachError of the test`. */
  problem?: string;
}

/** What is really attached, and mounted, as `handle node`. */
class SharedStorage {
  readonly attached = new Set<string>();
  readonly mounted = new Set<string>();
  readonly violations: string[] = [];
  /** Volumes for one node, by handle. */
  readonly exclusive = new Set<string>();
  /** Nodes that are known to be down: what they had mounted is no longer used. */
  readonly down = new Set<string>();
  readonly log: string[] = [];

  attach(handle: string, node: string): void {
    const id = `${handle} ${node}`;
    if (this.attached.has(id)) return;
    this.attached.add(id);
    this.log.push(`attach ${id}`);
    const count = [...this.attached].filter((one) => one.startsWith(`${handle} `)).length;
    if (this.exclusive.has(handle) && count > 1) this.violations.push(`${handle} is attached to ${count} nodes`);
  }

  detach(handle: string, node: string): void {
    const id = `${handle} ${node}`;
    if (this.mounted.has(id) && !this.down.has(node)) this.violations.push(`${id} is detached while mounted`);
    if (this.down.has(node)) this.mounted.delete(id);
    if (this.attached.delete(id)) this.log.push(`detach ${id}`);
  }

  mount(handle: string, node: string): void {
    const id = `${handle} ${node}`;
    if (!this.attached.has(id)) this.violations.push(`${id} is mounted and not attached`);
    this.mounted.add(id);
  }
}

export class AttachmentWorld {
  readonly storage: StorageWorld;
  readonly disks: SharedStorage;
  readonly script: AttacherScript;
  readonly #pokes: Set<() => void>;

  private constructor(storage: StorageWorld, disks: SharedStorage, script: AttacherScript, pokes: Set<() => void>) {
    this.storage = storage;
    this.disks = disks;
    this.script = script;
    this.#pokes = pokes;
  }

  static async open(
    nodes: readonly string[] = ['a', 'b'],
    settings: Pick<AttachDetachDeps, 'disablesForceDetachOnTimeout'> = {},
  ): Promise<AttachmentWorld> {
    const disks = new SharedStorage();
    const script: AttacherScript = { attach: () => 'ok', detach: () => 'ok' };
    const pokes = new Set<() => void>();
    const storage = await StorageWorld.open({
      controllers: (deps, signal) =>
        Promise.all([
          runCompanion(serviceAccounts, deps, signal),
          runStorage({ ...deps, ...settings }, [runVolumeBinder, runAttachDetach], true, signal),
        ]),
      attacher: (deps, signal) => runAttacher(deps, { disks, script, pokes }, signal),
      ...Object.fromEntries(
        nodes.map((name) => [name, (deps: PartyDeps, signal: AbortSignal) => runNode(deps, name, disks, signal)]),
      ),
    });
    const world = new AttachmentWorld(storage, disks, script, pokes);
    for (const name of nodes) {
      await storage.create('v1', 'Node', { metadata: { name, annotations: managed } });
      await world.setReady(name, true);
    }
    await world.rest();
    return world;
  }

  close(): Promise<void> {
    return this.storage.close();
  }

  rest(): Promise<void> {
    return this.storage.rest();
  }

  /** Time passes, and what follows from it. */
  async pass(ms: number): Promise<void> {
    await this.storage.clock.advance(ms);
    await this.rest();
  }

  /** What hung or was refused is tried again by the attacher. */
  poke(): void {
    for (const poke of this.#pokes) poke();
  }

  /** A bound claim with this volume; its handle is `h-NAME`. */
  async disk(name: string, accessModes: readonly string[] = ['ReadWriteOnce']): Promise<void> {
    const { metadata, spec } = newVolume(name, { accessModes }) as PersistentVolume;
    const { hostPath: _, ...others } = spec;
    const csi = { driver, volumeHandle: `h-${name}` };
    const volume: PersistentVolume = {
      metadata,
      spec: { ...others, csi, claimRef: { namespace: 'shop', name, kind: 'PersistentVolumeClaim', apiVersion: 'v1' } },
    };
    if (isForOneNode(volume)) this.disks.exclusive.add(csi.volumeHandle);
    await this.storage.create('v1', 'PersistentVolume', volume);
    await this.storage.create('v1', 'PersistentVolumeClaim', newClaim({ name, accessModes, volumeName: name }));
    await this.rest();
  }

  async pod(name: string, node: string, ...claims: readonly string[]): Promise<void> {
    const { metadata, spec } = podWithClaims(name, claims) as Pod;
    await this.storage.create('v1', 'Pod', { metadata, spec: { ...spec, nodeName: node } } as KubeObject);
    await this.storage.turns(momentTurns);
  }

  async deletePod(name: string, options: { readonly now?: boolean } = {}): Promise<void> {
    const grace = options.now === true ? { gracePeriodSeconds: 0 } : {};
    await unlessRefused(this.storage.user.delete(this.storage.key('Pod', name), {}, grace), 404);
    await this.storage.turns(momentTurns);
  }

  async setReady(name: string, isReady: boolean): Promise<void> {
    const conditions = [{ type: 'Ready', status: isReady ? 'True' : 'Unknown' }];
    await this.setStatus(name, (status) => ({ ...status, conditions }));
  }

  async setStatus(name: string, change: (status: Node['status']) => Node['status']): Promise<void> {
    const set = (node: Node): KubeObject => ({ ...node, status: change(node.status) }) as KubeObject;
    await this.storage.user.update(this.storage.key('Node', name), set, 'status');
  }

  async taint(name: string, key: string): Promise<void> {
    const taints = [{ key, value: 'nodeshutdown', effect: 'NoExecute' }];
    await this.storage.user.update(
      this.storage.key('Node', name),
      (node) => ({ ...node, spec: { ...(node as Node).spec, taints } }) as KubeObject,
    );
  }

  /** The machine is gone, and all that ran on it. */
  async powerOff(name: string): Promise<void> {
    this.storage.kill(name);
    this.disks.down.add(name);
    await this.setReady(name, false);
  }

  /** The network is gone: the node goes on and the cluster does not hear of it. */
  async cutOff(name: string): Promise<void> {
    this.storage.kill(name);
    await this.setReady(name, false);
  }

  // What can be seen.

  /** `handle node state`, sorted. */
  attachments(): readonly string[] {
    return this.storage
      .all<VolumeAttachment>(storageGroup, 'VolumeAttachment')
      .map(({ metadata, spec, status }) => {
        const state = metadata.deletionTimestamp ? 'ending' : status?.attached === true ? 'attached' : 'uncertain';
        const handle = `h-${spec.source.persistentVolumeName}`;
        const isNamed = metadata.name === attachmentName({ driver, volumeHandle: handle }, spec.nodeName);
        return `${isNamed ? '' : 'misnamed '}${handle} ${spec.nodeName} ${state}`;
      })
      .sort();
  }

  status(name: string): NonNullable<Node['status']> {
    return this.storage.all<Node>('v1', 'Node').find(({ metadata }) => metadata.name === name)?.status ?? {};
  }

  listed(name: string): readonly string[] {
    return (this.status(name).volumesAttached ?? []).map((one) => one.name).sort();
  }

  /** `pod type reason: message`, each once, in order. */
  events(): readonly string[] {
    interface SeenEvent extends KubeObject {
      readonly involvedObject: { readonly name: string };
      readonly type: string;
      readonly reason: string;
      readonly message: string;
      readonly source: { readonly component: string };
    }
    return this.storage
      .all<SeenEvent>('v1', 'Event')
      .filter(({ source }) => source.component === 'attachdetach-controller')
      .sort((one, other) => suffixOf(one) - suffixOf(other))
      .map(({ involvedObject, type, reason, message }) => `${involvedObject.name} ${type} ${reason}: ${message}`);
  }

  /** What the controller wrote, in order: `create …`, `update …`, `delete …`. */
  writes(since = 0): readonly string[] {
    const prefix = 'controllers: ';
    return this.storage.points
      .slice(since)
      .filter((point) => point.startsWith(prefix) && /volumeattachments|\/minions\/|\/nodes\//.test(point))
      .map((point) => point.slice(prefix.length).trim());
  }

  keyOfAttachment(volume: string, node: string): string {
    const kind = kindNamed(this.storage.user, storageGroup, 'VolumeAttachment');
    return this.storage.user.keyOf(kind, '', attachmentName({ driver, volumeHandle: `h-${volume}` }, node));
  }
}

/** The world counts them. */
function suffixOf({ metadata: { name } }: KubeObject): number {
  return Number(name.slice(name.lastIndexOf('s') + 1));
}

export function volumeName(name: string): string {
  return csiVolumeName({ driver, volumeHandle: `h-${name}` });
}

interface AttacherParts {
  readonly disks: SharedStorage;
  readonly script: AttacherScript;
  readonly pokes: Set<() => void>;
}

/** As the external attacher: its finalizer first, then the driver, then the status; at the end the other way round. */
async function runAttacher(
  deps: PartyDeps,
  { disks, script, pokes }: AttacherParts,
  signal: AbortSignal,
): Promise<void> {
  const cluster = deps.clusterFor('attacher', signal);
  const kind = kindNamed(cluster, storageGroup, 'VolumeAttachment');
  const queue = new WorkQueue('attacher', deps);
  const keys = new Set<string>();
  const stop = cluster.watch(kind, ({ key }) => {
    keys.add(key);
    queue.touch(key);
  });
  const poke = (): void => {
    for (const key of keys) queue.touch(key);
  };
  pokes.add(poke);
  const write = (key: string, change: (object: VolumeAttachment) => VolumeAttachment, part?: string): Promise<void> =>
    unlessRefused(
      cluster.update(key, (object) => change(object as VolumeAttachment), part),
      404,
    );
  const fail = (key: string, what: 'attachError' | 'detachError'): Promise<void> =>
    write(
      key,
      (object) =>
        object.status?.[what] === undefined
          ? {
              ...object,
              status: {
                attached: false,
                ...object.status,
                [what]: { message: script.problem ?? `${what} of the test` },
              },
            }
          : object,
      'status',
    );
  const look = async (key: string): Promise<void> => {
    const object = (await cluster.get(key)) as VolumeAttachment | undefined;
    if (object === undefined || object.spec.attacher !== driver) return;
    const { nodeName: node, source } = object.spec;
    const handle = `h-${source.persistentVolumeName}`;
    const { finalizers = [], deletionTimestamp } = object.metadata;
    if (deletionTimestamp !== undefined) {
      const answer = script.detach(handle, node);
      if (!finalizers.includes(finalizer) || answer === 'hang') return;
      if (answer === 'refuse') return fail(key, 'detachError');
      await deps.effect(`driver detaches ${handle} ${node}`, async () => disks.detach(handle, node));
      if (answer === 'silent') return;
      return write(key, ({ metadata, ...rest }) => ({ ...rest, metadata: { ...metadata, finalizers: [] } }));
    }
    if (object.status?.attached === true) return;
    if (!finalizers.includes(finalizer)) {
      await write(key, ({ metadata, ...rest }) =>
        metadata.deletionTimestamp === undefined
          ? { ...rest, metadata: { ...metadata, finalizers: [finalizer] } }
          : { ...rest, metadata },
      );
      return queue.touch(key);
    }
    const answer = script.attach(handle, node);
    if (answer === 'hang') return;
    if (answer === 'refuse') return fail(key, 'attachError');
    await deps.effect(`driver attaches ${handle} ${node}`, async () => disks.attach(handle, node));
    if (answer === 'silent') return;
    await write(key, (current) => ({ ...current, status: { attached: true } }), 'status');
  };
  try {
    await queue.run(look, signal);
  } finally {
    pokes.delete(poke);
    stop();
  }
}

/** As a kubelet: it reports a volume as in use, then waits until it is listed as attached, then mounts it; at the end it unmounts first. */
async function runNode(deps: PartyDeps, name: string, disks: SharedStorage, signal: AbortSignal): Promise<void> {
  const cluster = deps.clusterFor(`node-${name}`, signal);
  const queue = new WorkQueue(`node-${name}`, deps);
  const kinds: readonly Kind[] = [
    coreKind(cluster, 'Pod'),
    coreKind(cluster, 'Node'),
    coreKind(cluster, 'PersistentVolumeClaim'),
    kindNamed(cluster, storageGroup, 'VolumeAttachment'),
  ];
  const stops = kinds.map((kind) => cluster.watch(kind, () => queue.touch(name)));
  try {
    await queue.run(() => syncNode(cluster, deps, name, disks), signal);
  } finally {
    for (const stop of stops) stop();
  }
}

async function syncNode(cluster: Cluster, deps: PartyDeps, name: string, disks: SharedStorage): Promise<void> {
  const key = cluster.keyOf(coreKind(cluster, 'Node'), '', name);
  const list = await cluster.list(coreKind(cluster, 'Pod'));
  const pods = list.map(({ object }) => object as Pod).filter(({ spec }) => spec.nodeName === name);
  const wanted = new Set<string>();
  for (const pod of pods) {
    if (pod.metadata.deletionTimestamp !== undefined) continue;
    for (const handle of await handlesOf(cluster, pod)) wanted.add(handle);
  }
  const mountedHere = (): string[] =>
    [...disks.mounted].filter((one) => one.endsWith(` ${name}`)).map((one) => one.slice(0, -name.length - 1));
  for (const handle of mountedHere()) {
    if (!wanted.has(handle))
      await deps.effect(`unmount ${handle}`, async () => disks.mounted.delete(`${handle} ${name}`));
  }
  const volumesInUse = [...new Set([...wanted, ...mountedHere()])]
    .map((volumeHandle) => csiVolumeName({ driver, volumeHandle }))
    .sort();
  const report = (object: KubeObject): KubeObject => {
    const { status }: Node = object;
    const isSame = (status?.volumesInUse ?? []).join() === volumesInUse.join();
    return isSame ? object : ({ ...object, status: { ...status, volumesInUse } } as KubeObject);
  };
  await unlessRefused(cluster.update(key, report, 'status'), 404);
  const node: Node | undefined = await cluster.get(key);
  for (const handle of wanted) {
    const csi = { driver, volumeHandle: handle };
    const isListed = node?.status?.volumesAttached?.some((one) => one.name === csiVolumeName(csi)) === true;
    if (!isListed || disks.mounted.has(`${handle} ${name}`)) continue;
    const kind = kindNamed(cluster, storageGroup, 'VolumeAttachment');
    const object = (await cluster.get(cluster.keyOf(kind, '', attachmentName(csi, name)))) as
      | VolumeAttachment
      | undefined;
    if (object?.status?.attached !== true || object.metadata.deletionTimestamp !== undefined) continue;
    await deps.effect(`mount ${handle}`, async () => disks.mount(handle, name));
  }
  for (const { metadata } of pods) {
    if (metadata.deletionTimestamp === undefined) continue;
    const pod = cluster.keyOf(coreKind(cluster, 'Pod'), metadata.namespace ?? '', metadata.name);
    const preconditions = metadata.uid === undefined ? {} : { uid: metadata.uid };
    await unlessRefused(cluster.delete(pod, preconditions, { gracePeriodSeconds: 0 }), 404, 409);
  }
}

async function handlesOf(cluster: Cluster, pod: Pod): Promise<readonly string[]> {
  const handles: string[] = [];
  for (const volume of pod.spec.volumes ?? []) {
    const name = claimNameOf(pod, volume);
    if (name === undefined) continue;
    const { namespace = '' } = pod.metadata;
    const claim = await cluster.get(cluster.keyOf(coreKind(cluster, 'PersistentVolumeClaim'), namespace, name));
    const { spec } = (claim ?? {}) as Partial<PersistentVolumeClaim>;
    const found = await cluster.get(cluster.keyOf(coreKind(cluster, 'PersistentVolume'), '', spec?.volumeName ?? ''));
    const handle = (found as PersistentVolume | undefined)?.spec.csi?.volumeHandle;
    if (handle !== undefined) handles.push(handle);
  }
  return handles;
}
