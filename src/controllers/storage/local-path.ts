/**
 * Provisions volumes that are directories of this node, as an external provisioner does: it makes and deletes volumes, and leaves
 * the rest of a claim to the volume binder. The node that has the data deletes it, so this runs there; it promises no size.
 *
 * Where a directory is follows from the volume's name alone. What a volume says of its path is never deleted: a user who may
 * create volumes could write any path there.
 */
import { isDeepStrictEqual } from 'node:util';
import { messageOf } from '../../base/errors.ts';
import type { Node } from '../../kube/kinds/node.ts';
import type { PersistentVolumeClaim } from '../../kube/kinds/storage/persistent-volume-claim.ts';
import type { PersistentVolume } from '../../kube/kinds/storage/persistent-volume.ts';
import type { StorageClass } from '../../kube/kinds/storage/storage-class.ts';
import {
  classOf,
  defaultClassOf,
  provisionedBy,
  provisionerAnnotations,
  selectedNode,
  volumeNameFor,
  withoutFinalizer,
} from '../../kube/references/claims.ts';
import type { KubeObject } from '../../kube/schema/kind.ts';
import {
  type Cluster,
  type ControllerDeps,
  coreKind,
  deleteSame,
  kindNamed,
  unlessRefused,
  updateSame,
} from '../cluster/cluster.ts';
import { ControllerEvents } from '../cluster/events.ts';
import { WorkQueue } from '../cluster/work-queue.ts';
import type { News } from './binding.ts';
import type { StorageLoop } from './storage.ts';
import { type StorageView, claimId } from './storage-view.ts';

export const provisioner = 'mountlet.dev/local-path';
const className = 'local-path';
/** A volume that a user deletes waits until its data is gone. */
const finalizer = 'mountlet.dev/local-path';
const hostname = 'kubernetes.io/hostname';

export interface LocalDirectories {
  pathOf(volumeName: string): string;
  /** One that is there already is fine. */
  make(volumeName: string): Promise<void>;
  /** With all in it, and nothing that is mounted there. */
  remove(volumeName: string): Promise<void>;
  /** Names of volumes that have one. */
  list(): Promise<readonly string[]>;
  /** Leaves one that has something in it. */
  removeEmpty(volumeName: string): Promise<void>;
}

export interface LocalPath {
  readonly nodeName: string;
  readonly directories: LocalDirectories;
}

export function runLocalPath(local: LocalPath): StorageLoop {
  return async (deps, view, signal) => {
    const cluster = deps.clusterFor('local-path', signal);
    const loop = new LocalPathLoop(deps, cluster, view, local);
    await ensureClass(cluster);
    await loop.run(signal);
  };
}

/** Once: a user who wants another default takes the annotation away. */
async function ensureClass(cluster: Cluster): Promise<void> {
  const kind = kindNamed(cluster, 'storage.k8s.io/v1', 'StorageClass');
  const present = (await cluster.list(kind)).map(({ object }) => object as StorageClass);
  if (present.some(({ metadata }) => metadata.name === className)) return;
  // A cluster that has a default keeps it.
  const annotations =
    defaultClassOf(present) === undefined ? { 'storageclass.kubernetes.io/is-default-class': 'true' } : {};
  const storageClass: StorageClass = {
    metadata: { name: className, annotations },
    provisioner,
    reclaimPolicy: 'Delete',
    volumeBindingMode: 'WaitForFirstConsumer',
  };
  await unlessRefused(cluster.create(kind, '', storageClass), 409);
}

class LocalPathLoop {
  readonly #cluster: Cluster;
  readonly #view: StorageView;
  readonly #local: LocalPath;
  readonly #events: ControllerEvents;
  readonly #queue: WorkQueue;

  constructor(deps: ControllerDeps, cluster: Cluster, view: StorageView, local: LocalPath) {
    this.#cluster = cluster;
    this.#view = view;
    this.#local = local;
    this.#events = new ControllerEvents(provisioner, deps, cluster);
    this.#queue = new WorkQueue('local-path', deps);
    view.follow({
      claimChanged: (_id, claim, before) => {
        if (claim !== undefined && this.#isOurs(claim)) this.#queue.touch(keyOf('claim', claim));
        if (claim === undefined && before !== undefined && isProvisionedByUs(before)) this.#touchDirectory(before);
      },
      // The claim itself does not change when its class comes back.
      classChanged: (name) => {
        for (const claim of view.claims.values()) {
          if (classOf(claim) === name && this.#isOurs(claim)) this.#queue.touch(keyOf('claim', claim));
        }
      },
      volumeChanged: (_name, volume) => {
        if (volume !== undefined && this.#mayGo(volume)) this.#queue.touch(keyOf('volume', volume));
      },
    });
  }

  async run(signal: AbortSignal): Promise<void> {
    for (const name of await this.#local.directories.list()) this.#queue.touch(`directory//${name}`);
    await this.#queue.run(async (key) => {
      const [kind, namespace = '', name = ''] = key.split('/');
      if (kind === 'volume') return this.#lookAtVolume(name);
      if (kind === 'directory') return this.#lookAtDirectory(name);
      const claim = this.#view.claims.get(claimId(namespace, name));
      if (claim !== undefined && this.#isOurs(claim)) await this.#provision(claim);
    }, signal);
  }

  #isOurs(claim: PersistentVolumeClaim): boolean {
    return (
      claim.metadata.deletionTimestamp === undefined &&
      (claim.spec.volumeName ?? '') === '' &&
      isProvisionedByUs(claim) &&
      ['', this.#local.nodeName].includes(nodeOf(claim))
    );
  }

  #touchDirectory(claim: PersistentVolumeClaim): void {
    this.#queue.touch(`directory//${volumeNameFor(claim)}`);
  }

  /** A directory that was made for a claim which went before it got its volume. Nothing was ever mounted there. */
  async #lookAtDirectory(name: string): Promise<void> {
    if ((await this.#cluster.get(this.#view.keyOfVolume(name))) !== undefined) return;
    const claims = await this.#cluster.list(this.#view.kinds.claim);
    if (claims.some(({ object }) => volumeNameFor(object) === name)) return;
    // The data of a volume that was kept, and deleted by hand, is in one too.
    await this.#local.directories.removeEmpty(name);
  }

  async #provision(claim: PersistentVolumeClaim): Promise<void> {
    const name = volumeNameFor(claim);
    const key = this.#view.keyOfVolume(name);
    if ((await this.#cluster.get(key)) !== undefined) return;
    const storageClass = this.#view.classes.get(classOf(claim));
    // The volume binder says that the class is missing.
    if (storageClass === undefined) return;
    const refusal = refusalOf(claim, storageClass);
    if (refusal !== undefined) return this.#record(claim, failed(refusal));
    // The scheduler took its choice back, and makes another.
    if (nodeOf(claim) === '') return;
    const { nodeName } = this.#local;
    const node = await this.#cluster.get(this.#cluster.keyOf(coreKind(this.#cluster, 'Node'), '', nodeName));
    try {
      if (node === undefined) throw new Error(`failed to get target node: nodes "${nodeName}" not found`);
      await this.#local.directories.make(name);
    } catch (error) {
      await this.#record(
        claim,
        failed(`failed to provision volume with StorageClass "${classOf(claim)}": ${messageOf(error)}`),
      );
      throw error;
    }
    const path = this.#local.directories.pathOf(name);
    const volume = volumeFor(claim, name, path, storageClass, node);
    try {
      await unlessRefused(this.#cluster.create(this.#view.kinds.volume, '', volume), 409);
    } catch (error) {
      this.#touchDirectory(claim);
      throw error;
    }
    await this.#record(claim, {
      type: 'Normal',
      reason: 'ProvisioningSucceeded',
      message: `Successfully provisioned volume ${name}`,
    });
  }

  /** Ours, perhaps on this node, and no longer in use. */
  #mayGo(volume: PersistentVolume): boolean {
    const { metadata, spec, status } = volume;
    if (metadata.annotations?.[provisionedBy] !== provisioner || !this.#hasOurPath(volume)) return false;
    if (metadata.deletionTimestamp !== undefined) {
      return status?.phase !== 'Bound' && (metadata.finalizers ?? []).includes(finalizer);
    }
    return status?.phase === 'Released' && spec.persistentVolumeReclaimPolicy === 'Delete';
  }

  /** Nodes may have the same root directory: the path alone does not say whose volume it is. */
  async #isHere(volume: PersistentVolume): Promise<boolean> {
    if (!this.#hasOurPath(volume)) return false;
    const { nodeName } = this.#local;
    const node = await this.#cluster.get(this.#cluster.keyOf(coreKind(this.#cluster, 'Node'), '', nodeName));
    return isDeepStrictEqual(volume.spec.nodeAffinity, affinityTo(node?.metadata.labels?.[hostname] ?? nodeName));
  }

  #hasOurPath({ metadata, spec }: PersistentVolume): boolean {
    return spec.local?.path === this.#local.directories.pathOf(metadata.name);
  }

  async #lookAtVolume(name: string): Promise<void> {
    const key = this.#view.keyOfVolume(name);
    const volume = (await this.#cluster.get(key)) as PersistentVolume | undefined;
    if (volume === undefined || !this.#mayGo(volume) || !(await this.#isHere(volume))) return;
    // A volume that is kept is deleted by hand: then its data stays.
    if (volume.spec.persistentVolumeReclaimPolicy === 'Delete') {
      try {
        await this.#local.directories.remove(name);
      } catch (error) {
        await this.#events.record(this.#view.kinds.volume, volume, {
          type: 'Warning',
          reason: 'VolumeFailedDelete',
          message: messageOf(error),
        });
        throw error;
      }
      await deleteSame(this.#cluster, key, volume);
    } else await this.#local.directories.removeEmpty(name);
    await updateSame(this.#cluster, key, volume, (current) => withoutFinalizer(current, finalizer));
  }

  #record(claim: PersistentVolumeClaim, news: News): Promise<void> {
    return this.#events.record(this.#view.kinds.claim, claim, news);
  }
}

function isProvisionedByUs({ metadata: { annotations = {} } }: PersistentVolumeClaim): boolean {
  return provisionerAnnotations.some((name) => annotations[name] === provisioner);
}

function keyOf(kind: 'claim' | 'volume', { metadata }: KubeObject): string {
  return `${kind}/${metadata.namespace ?? ''}/${metadata.name}`;
}

function failed(message: string): News {
  return { type: 'Warning', reason: 'ProvisioningFailed', message };
}

/** The node that the scheduler has chosen for a pod with the claim; empty: none. */
function nodeOf({ metadata }: PersistentVolumeClaim): string {
  return metadata.annotations?.[selectedNode] ?? '';
}

function refusalOf(claim: PersistentVolumeClaim, { metadata, volumeBindingMode }: StorageClass): string | undefined {
  const { spec } = claim;
  if (nodeOf(claim) === '' && volumeBindingMode !== 'WaitForFirstConsumer') {
    const why = 'a directory is made on the node of the first pod that uses it';
    return `${why}: StorageClass "${metadata.name}" needs volumeBindingMode: WaitForFirstConsumer`;
  }
  if (spec.volumeMode === 'Block') return `${provisioner} does not support block volume provisioning`;
  if (spec.dataSource !== undefined || spec.dataSourceRef !== undefined) {
    return `${provisioner} makes empty volumes: a claim with a data source needs a CSI driver`;
  }
  if (spec.selector !== undefined) return 'claim.Spec.Selector is not supported for dynamic provisioning';
  return undefined;
}

function volumeFor(
  claim: PersistentVolumeClaim,
  name: string,
  path: string,
  { reclaimPolicy = 'Delete', mountOptions }: StorageClass,
  node: Node,
): PersistentVolume {
  const { namespace = '', name: claimName, uid = '' } = claim.metadata;
  const place = node.metadata.labels?.[hostname] ?? node.metadata.name;
  return {
    metadata: { name, annotations: { [provisionedBy]: provisioner }, finalizers: [finalizer] },
    spec: {
      capacity: { storage: claim.spec.resources?.requests?.['storage'] ?? '0' },
      accessModes: claim.spec.accessModes ?? ['ReadWriteOnce'],
      claimRef: { apiVersion: 'v1', kind: 'PersistentVolumeClaim', namespace, name: claimName, uid },
      persistentVolumeReclaimPolicy: reclaimPolicy,
      storageClassName: classOf(claim),
      ...(mountOptions !== undefined && { mountOptions }),
      volumeMode: 'Filesystem',
      local: { path },
      nodeAffinity: affinityTo(place),
    },
  };
}

function affinityTo(place: string): NonNullable<PersistentVolume['spec']['nodeAffinity']> {
  return {
    required: { nodeSelectorTerms: [{ matchExpressions: [{ key: hostname, operator: 'In', values: [place] }] }] },
  };
}
