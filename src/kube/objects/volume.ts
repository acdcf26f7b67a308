/** The volumes a pod may name, as the API spells them. Sources that no plugin of ours reads are carried along unread. */
import { foreignVolumeSources } from './foreign-volume-sources.ts';
import { labelSelector, localObjectReference } from './metadata.ts';
import { claimTemplate } from './persistent-volume.ts';
import { atomic, boolean, integer, list, map, object, quantity, required, string } from './schema.ts';
import type { Of } from './schema.ts';

export const keyToPath = object({ key: required(string), path: required(string), mode: integer, user: integer });
export interface KeyToPath extends Of<typeof keyToPath> {}

export const fieldReference = atomic(object({ apiVersion: string, fieldPath: required(string) }));
export interface FieldReference extends Of<typeof fieldReference> {}

export const resourceFieldReference = atomic(
  object({ containerName: string, resource: required(string), divisor: quantity }),
);
export interface ResourceFieldReference extends Of<typeof resourceFieldReference> {}

export const downwardApiFile = object({
  path: required(string),
  fieldRef: fieldReference,
  resourceFieldRef: resourceFieldReference,
  mode: integer,
  user: integer,
});
export interface DownwardApiFile extends Of<typeof downwardApiFile> {}

export const configMapVolumeSource = object({
  name: required(string),
  items: list(keyToPath),
  defaultMode: integer,
  optional: boolean,
  defaultUser: integer,
});
export interface ConfigMapVolumeSource extends Of<typeof configMapVolumeSource> {}

export const secretVolumeSource = object({
  secretName: string,
  items: list(keyToPath),
  defaultMode: integer,
  optional: boolean,
  defaultUser: integer,
});
export interface SecretVolumeSource extends Of<typeof secretVolumeSource> {}

export const downwardApiVolumeSource = object({
  items: list(downwardApiFile),
  defaultMode: integer,
  defaultUser: integer,
});
export interface DownwardApiVolumeSource extends Of<typeof downwardApiVolumeSource> {}

const objectProjection = object({ name: required(string), items: list(keyToPath), optional: boolean });
export interface ObjectProjection extends Of<typeof objectProjection> {}

export const serviceAccountTokenProjection = object({
  audience: string,
  expirationSeconds: integer,
  path: required(string),
  user: integer,
});
export interface ServiceAccountTokenProjection extends Of<typeof serviceAccountTokenProjection> {}

export const clusterTrustBundleProjection = object({
  name: string,
  signerName: string,
  labelSelector,
  optional: boolean,
  path: required(string),
  user: integer,
});
export interface ClusterTrustBundleProjection extends Of<typeof clusterTrustBundleProjection> {}

const podCertificateProjection = object({
  signerName: string,
  keyType: string,
  maxExpirationSeconds: integer,
  credentialBundlePath: string,
  keyPath: string,
  certificateChainPath: string,
  userAnnotations: map(string),
  user: integer,
});
export interface PodCertificateProjection extends Of<typeof podCertificateProjection> {}

export const volumeProjection = object({
  secret: objectProjection,
  configMap: objectProjection,
  downwardAPI: object({ items: list(downwardApiFile) }),
  serviceAccountToken: serviceAccountTokenProjection,
  clusterTrustBundle: clusterTrustBundleProjection,
  podCertificate: podCertificateProjection,
});
export interface VolumeProjection extends Of<typeof volumeProjection> {}

export const projectedVolumeSource = object({
  sources: list(volumeProjection),
  defaultMode: integer,
  defaultUser: integer,
});
export interface ProjectedVolumeSource extends Of<typeof projectedVolumeSource> {}

export const emptyDirVolumeSource = object({ medium: string, sizeLimit: quantity, mode: integer });
export interface EmptyDirVolumeSource extends Of<typeof emptyDirVolumeSource> {}

export const hostPathVolumeSource = object({ path: required(string), type: string });
export interface HostPathVolumeSource extends Of<typeof hostPathVolumeSource> {}

export const nfsVolumeSource = object({ server: required(string), path: required(string), readOnly: boolean });
export interface NfsVolumeSource extends Of<typeof nfsVolumeSource> {}

export const csiVolumeSource = object({
  driver: required(string),
  readOnly: boolean,
  fsType: string,
  volumeAttributes: map(string),
  nodePublishSecretRef: localObjectReference,
});

const volumeSources = {
  configMap: configMapVolumeSource,
  secret: secretVolumeSource,
  downwardAPI: downwardApiVolumeSource,
  projected: projectedVolumeSource,
  emptyDir: emptyDirVolumeSource,
  hostPath: hostPathVolumeSource,
  nfs: nfsVolumeSource,
  csi: csiVolumeSource,
  persistentVolumeClaim: object({ claimName: required(string), readOnly: boolean }),
  ephemeral: object({ volumeClaimTemplate: claimTemplate }),
  image: object({ reference: string, pullPolicy: string }),
  gitRepo: object({ repository: required(string), revision: string, directory: string }),
  ...foreignVolumeSources,
};

export const volume = object({ name: required(string), ...volumeSources });
export interface Volume extends Of<typeof volume> {}
export type VolumeSourceName = keyof typeof volumeSources;
