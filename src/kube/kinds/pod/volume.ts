/** The volumes a pod may name, as the API spells them. Sources that no plugin of ours reads are carried along unread. */
import { labelSelector, localObjectReference } from '../../schema/meta.ts';
import {
  type Of,
  atomic,
  boolean,
  integer,
  list,
  map,
  object,
  quantity,
  required,
  string,
} from '../../schema/schema.ts';
import { defaultPullPolicy } from '../../values/image-reference.ts';
import { claimTemplate, defaultClaimSpec } from '../storage/persistent-volume-claim.ts';
import { foreignVolumeSources, hostPathVolumeSource, nfsVolumeSource } from '../storage/volume-sources.ts';

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

export const volumeShape = object({ name: required(string), ...volumeSources });
export interface Volume extends Of<typeof volumeShape> {}

export type VolumeSourceName = keyof typeof volumeSources;

export function defaultVolume(volume: Volume): Volume {
  const { name, ...sources } = volume;
  const present = Object.entries(sources).filter(([, source]) => source !== undefined);
  if (present.length === 0) return { name, emptyDir: {} };
  const entries = present.map(([kind, source]): [string, unknown] => {
    const complete = defaultsOf[kind as keyof Volume] as ((source: unknown) => unknown) | undefined;
    return [kind, complete === undefined ? source : complete(source)];
  });
  return { name, ...Object.fromEntries(entries) };
}

export function defaultFieldReference(reference: FieldReference): FieldReference {
  return { ...reference, apiVersion: reference.apiVersion || 'v1' };
}

function withMode<S extends { readonly defaultMode?: number }>(source: S): S {
  return { ...source, defaultMode: source.defaultMode ?? defaultFileMode };
}

function defaultFile(file: DownwardApiFile): DownwardApiFile {
  return file.fieldRef === undefined ? file : { ...file, fieldRef: defaultFieldReference(file.fieldRef) };
}

function defaultProjection(projection: VolumeProjection): VolumeProjection {
  const { downwardAPI, serviceAccountToken: token } = projection;
  return {
    ...projection,
    ...(downwardAPI?.items && { downwardAPI: { ...downwardAPI, items: downwardAPI.items.map(defaultFile) } }),
    ...(token && {
      serviceAccountToken: { ...token, expirationSeconds: token.expirationSeconds ?? tokenLifetimeSeconds },
    }),
  };
}

/** Defaults of a pod's volumes, as the API server sets them when an object is decoded. */
/** Readable by everyone, writable by the owner. */
const defaultFileMode = 0o644;

const tokenLifetimeSeconds = 3600;

type SourceDefaults = { readonly [K in keyof Volume]?: (source: NonNullable<Volume[K]>) => Volume[K] };

const defaultsOf: SourceDefaults = {
  hostPath: (source) => ({ ...source, type: source.type ?? '' }),
  secret: withMode,
  configMap: withMode,
  downwardAPI: (source) => ({ ...withMode(source), ...(source.items && { items: source.items.map(defaultFile) }) }),
  projected: (source) => ({
    ...withMode(source),
    ...(source.sources && { sources: source.sources.map(defaultProjection) }),
  }),
  ephemeral: ({ volumeClaimTemplate: template, ...source }) =>
    template === undefined
      ? source
      : { ...source, volumeClaimTemplate: { ...template, spec: defaultClaimSpec(template.spec) } },
  image: (source) => ({
    ...source,
    pullPolicy: source.pullPolicy || defaultPullPolicy(source.reference ?? ''),
  }),
};
