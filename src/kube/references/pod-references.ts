/**
 * What a pod refers to: every API object that it names, and by which field. Names only, all in the pod's own namespace.
 * Whether an object exists is not asked here, and what a claim leads to (its volume, the volume's secrets) is not followed.
 *
 * This is the only list. Admission, the node's permissions, the object managers, the volumes and mirror pods each need a part
 * of it and select by `kind`, `via` and `use`.
 */
import type { Container } from '../kinds/pod/container.ts';
import { type PodSpec, allContainers } from '../kinds/pod/pod-spec.ts';
import type { Pod } from '../kinds/pod/pod.ts';
import type { Volume, VolumeSourceName } from '../kinds/pod/volume.ts';
import { claimNameOf } from './volume-spec.ts';

/** The kinds that a pod can name, each with the resource of the API that serves it. */
const resources = {
  ServiceAccount: 'serviceaccounts',
  Secret: 'secrets',
  ConfigMap: 'configmaps',
  PersistentVolumeClaim: 'persistentvolumeclaims',
  ResourceClaim: 'resourceclaims',
  CSIDriver: 'csidrivers',
  Endpoints: 'endpoints',
  ClusterTrustBundle: 'clustertrustbundles',
  PodCertificate: 'podcertificates',
} as const;
export type ReferencedKind = keyof typeof resources;

export interface PodReference {
  readonly kind: ReferencedKind;
  /** Empty where the pod need not name the object: a trust bundle chosen by its signer, the account behind a token. */
  readonly name: string;
  /** A field of the spec, the environment of any container, or the source of a volume. */
  readonly via: 'serviceAccountName' | 'imagePullSecrets' | 'resourceClaims' | 'environment' | VolumeSourceName;
  /**
   * `shown`: a volume shows its content, so its changes have to reach the disk. `read`: it is read when a container starts, an
   * image is pulled or a driver mounts a volume.
   */
  readonly use: 'shown' | 'read';
}

/** Each reference once, also those of volumes that no container mounts. */
export function referencesOf(pod: Pod): readonly PodReference[] {
  const found = new Map<string, PodReference>();
  for (const reference of everyReference(pod)) {
    found.set(`${reference.kind}/${reference.via}/${reference.name}`, reference);
  }
  return [...found.values()];
}

/** The names of one kind, each once, whichever way the pod names it. */
export function namesOf(references: readonly PodReference[], kind: ReferencedKind): ReadonlySet<string> {
  return new Set(references.filter((one) => one.kind === kind && one.name !== '').map(({ name }) => name));
}

const sourceWords: Partial<Record<PodReference['via'], string>> = {
  configMap: 'configmap',
  secret: 'secret',
  csi: 'CSI',
  glusterfs: 'glusterFS',
  ephemeral: 'ephemeral',
  azureFile: 'azureFile',
  projected: 'projected',
};

/** As refusals spell it: the resource, and the kind of volume where several lead to it. */
export function referenceWords({ kind, via }: Pick<PodReference, 'kind' | 'via'>): string {
  const resource = resources[kind];
  const source = kind === 'ClusterTrustBundle' || kind === 'PodCertificate' ? undefined : sourceWords[via];
  return source === undefined ? resource : `${resource} (via ${source} volumes)`;
}

function* everyReference(pod: Pod): Generator<PodReference> {
  const { serviceAccountName, imagePullSecrets = [], resourceClaims = [], volumes = [] } = pod.spec;
  yield* named('ServiceAccount', serviceAccountName, 'serviceAccountName');
  for (const { name } of imagePullSecrets) yield* named('Secret', name, 'imagePullSecrets');
  for (const { resourceClaimName: name = '' } of resourceClaims) {
    yield { kind: 'ResourceClaim', name, via: 'resourceClaims', use: 'read' };
  }
  for (const { envFrom = [], env = [] } of allContainers(pod.spec)) {
    for (const { configMapRef, secretRef } of envFrom) {
      yield* named('ConfigMap', configMapRef?.name, 'environment');
      yield* named('Secret', secretRef?.name, 'environment');
    }
    for (const { valueFrom } of env) {
      if (valueFrom === undefined) continue;
      yield* named('ConfigMap', valueFrom.configMapKeyRef?.name, 'environment');
      yield* named('Secret', valueFrom.secretKeyRef?.name, 'environment');
    }
  }
  for (const volume of volumes) yield* volumeReferences(pod, volume);
}

/** An empty name refers to nothing: old API servers let it through. */
function* named(kind: ReferencedKind, name: string | undefined, via: PodReference['via']): Generator<PodReference> {
  if (name !== undefined && name !== '') yield { kind, name, via, use: 'read' };
}

/** Sources that are carried along unread (see foreignVolumeSources) and keep a secret's name in the same place. */
const carriedWithSecretRef = ['cephfs', 'cinder', 'flexVolume', 'rbd', 'scaleIO', 'iscsi', 'storageos'] as const;

function* volumeReferences(pod: Pod, volume: Volume): Generator<PodReference> {
  yield* shownReferences(volume);
  const { csi, glusterfs, azureFile } = volume;
  if (csi !== undefined) yield { kind: 'CSIDriver', name: csi.driver, via: 'csi', use: 'read' };
  yield* named('Secret', csi?.nodePublishSecretRef?.name, 'csi');
  if (glusterfs !== undefined) {
    yield { kind: 'Endpoints', name: textAt(glusterfs, 'endpoints'), via: 'glusterfs', use: 'read' };
  }
  const claim = claimNameOf(pod, volume);
  if (claim !== undefined) {
    const via = volume.persistentVolumeClaim === undefined ? 'ephemeral' : 'persistentVolumeClaim';
    yield { kind: 'PersistentVolumeClaim', name: claim, via, use: 'read' };
  }
  if (azureFile !== undefined) {
    yield { kind: 'Secret', name: textAt(azureFile, 'secretName'), via: 'azureFile', use: 'read' };
  }
  for (const via of carriedWithSecretRef) yield* named('Secret', textAt(volume[via], 'secretRef', 'name'), via);
}

function* shownReferences({ configMap, secret, projected }: Volume): Generator<PodReference> {
  const shown = (kind: ReferencedKind, via: PodReference['via'], name = ''): PodReference => {
    return { kind, name, via, use: 'shown' };
  };
  if (configMap !== undefined) yield shown('ConfigMap', 'configMap', configMap.name);
  if (secret !== undefined) yield shown('Secret', 'secret', secret.secretName);
  for (const source of projected?.sources ?? []) {
    if (source.configMap !== undefined) yield shown('ConfigMap', 'projected', source.configMap.name);
    if (source.secret !== undefined) yield shown('Secret', 'projected', source.secret.name);
    if (source.serviceAccountToken !== undefined) yield shown('ServiceAccount', 'projected');
    if (source.clusterTrustBundle !== undefined) {
      yield shown('ClusterTrustBundle', 'projected', source.clusterTrustBundle.name);
    }
    if (source.podCertificate !== undefined) yield shown('PodCertificate', 'projected');
  }
}

/** Empty unless there is a string. Sources that no plugin reads are not parsed, so they may hold anything. */
function textAt(value: unknown, ...path: readonly string[]): string {
  let inner = value;
  for (const key of path) {
    if (typeof inner !== 'object' || inner === null || !Object.hasOwn(inner, key)) return '';
    inner = (inner as Readonly<Record<string, unknown>>)[key];
  }
  return typeof inner === 'string' ? inner : '';
}

/**
 * A pod without what refers to other objects, as a mirror pod has to be: API servers refuse a node's pod that refers to any, and
 * the objects of a static pod are in a folder, not at the server.
 */
export function withoutReferences(pod: Pod): Pod {
  const { imagePullSecrets: _secrets, serviceAccountName: _account, serviceAccount: _old, ...spec } = pod.spec;
  const { volumes = [], initContainers = [], containers } = spec;
  const gone = new Set(volumes.filter((volume) => refers(pod, volume)).map(({ name }) => name));
  const strip = (container: Container): Container => stripContainer(container, gone);
  const stripped: PodSpec = {
    ...spec,
    containers: containers.map(strip),
    ...(initContainers.length > 0 && { initContainers: initContainers.map(strip) }),
    ...(volumes.length > 0 && { volumes: volumes.filter(({ name }) => !gone.has(name)) }),
  };
  return { ...pod, spec: stripped };
}

function refers(pod: Pod, volume: Volume): boolean {
  return volumeReferences(pod, volume).next().done === false;
}

function stripContainer(container: Container, gone: ReadonlySet<string>): Container {
  const { env, envFrom, volumeMounts, volumeDevices, ...rest } = container;
  const isKept = ({ name }: { readonly name: string }): boolean => !gone.has(name);
  return {
    ...rest,
    ...(env && { env: env.filter(({ valueFrom }) => !valueFrom?.configMapKeyRef && !valueFrom?.secretKeyRef) }),
    ...(envFrom && { envFrom: envFrom.filter(({ configMapRef, secretRef }) => !configMapRef && !secretRef) }),
    ...(volumeMounts && { volumeMounts: volumeMounts.filter(isKept) }),
    ...(volumeDevices && { volumeDevices: volumeDevices.filter(isKept) }),
  };
}

/** Which volumes of a pod have to be mounted before it starts. */
interface UsedVolumes {
  /** Volumes some container wants as a file system. */
  readonly mounted: ReadonlySet<string>;
  /** Volumes some container wants as a raw block device. */
  readonly devices: ReadonlySet<string>;
}

/**
 * The volumes that count: a volume of the pod that no container mounts is never set up and never waited for. A
 * `fileKeyRef` alone does not make a volume used.
 */
export function usedVolumes(pod: Pod): UsedVolumes {
  const containers = allContainers(pod.spec);
  return {
    mounted: new Set(containers.flatMap(({ volumeMounts = [] }) => volumeMounts.map(({ name }) => name))),
    devices: new Set(containers.flatMap(({ volumeDevices = [] }) => volumeDevices.map(({ name }) => name))),
  };
}

/**
 * The uid every container of the pod runs as, init and ephemeral ones included; a container's own value beats the
 * pod's. One container without a value, or two that differ, means that there is no such user.
 */
export function commonRunAsUser({ spec }: Pick<Pod, 'spec'>): number | undefined {
  const users = new Set(
    allContainers(spec).map(({ securityContext }) => securityContext?.runAsUser ?? spec.securityContext?.runAsUser),
  );
  const [user] = users;
  return users.size === 1 ? user : undefined;
}
