/** The volumes a pod may name, as the API spells them. */
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
  described,
} from '../../schema/schema.ts';
import { defaultPullPolicy } from '../../values/image-reference.ts';
import { claimTemplate, defaultClaimSpec } from '../storage/persistent-volume-claim.ts';
import { foreignShapes } from '../storage/foreign-sources.ts';
import { defaultForeignSources } from '../storage/foreign-volumes.ts';
import { hostPathVolumeSource, nfsVolumeSource } from '../storage/volume-sources.ts';

const modeText =
  'The permission bits of files that do not set their own, 0644 if absent. JSON knows only decimal numbers.';
const userText = 'The owner of files that do not set their own, as a user id.';

const keyToPath = described(
  {
    name: 'io.k8s.api.core.v1.KeyToPath',
    text: 'One entry and the file it becomes.',
    fields: {
      key: 'The key of the entry.',
      path: 'The file, below the volume. It may not contain "..".',
      mode: 'The permission bits of the file.',
      user: 'The owner of the file, as a user id.',
    },
  },
  object({ key: required(string), path: required(string), mode: integer, user: integer }),
);
export interface KeyToPath extends Of<typeof keyToPath> {}

export const fieldReference = described(
  {
    name: 'io.k8s.api.core.v1.ObjectFieldSelector',
    text: 'A field of the pod.',
    fields: {
      apiVersion: 'The version of the API that the path is written in; v1 if absent.',
      fieldPath: 'The field.',
    },
  },
  atomic(object({ apiVersion: string, fieldPath: required(string) })),
);
export interface FieldReference extends Of<typeof fieldReference> {}

export const resourceFieldReference = described(
  {
    name: 'io.k8s.api.core.v1.ResourceFieldSelector',
    text: 'A limit or request of a container, in some unit.',
    fields: {
      containerName: 'The container. In an environment it is the container itself if absent.',
      resource: 'What to show: limits.cpu, requests.memory.',
      divisor: 'The unit the value is given in; 1 if absent.',
    },
  },
  atomic(object({ containerName: string, resource: required(string), divisor: quantity })),
);
export interface ResourceFieldReference extends Of<typeof resourceFieldReference> {}

const downwardApiFile = described(
  {
    name: 'io.k8s.api.core.v1.DownwardAPIVolumeFile',
    text: 'One file with one fact about the pod.',
    fields: {
      path: 'The file, below the volume. It may not contain "..".',
      fieldRef: 'A field of the pod: annotations, labels, name, namespace, uid.',
      resourceFieldRef: 'A limit or request of a container.',
      mode: 'The permission bits of the file.',
      user: 'The owner of the file, as a user id.',
    },
  },
  object({
    path: required(string),
    fieldRef: fieldReference,
    resourceFieldRef: resourceFieldReference,
    mode: integer,
    user: integer,
  }),
);
export interface DownwardApiFile extends Of<typeof downwardApiFile> {}

const configMapVolumeSource = described(
  {
    name: 'io.k8s.api.core.v1.ConfigMapVolumeSource',
    text: 'The entries of a ConfigMap as files: each key is a file name, each value its content. Updates reach the files.',
    fields: {
      name: 'The name of the ConfigMap, in the namespace of the pod.',
      items:
        'The entries to show, and where. If absent, all of them under their keys. A key that is missing is an error.',
      defaultMode: modeText,
      optional: 'Whether the ConfigMap, or its keys, may be missing.',
      defaultUser: userText,
    },
  },
  object({
    name: required(string),
    items: list(keyToPath),
    defaultMode: integer,
    optional: boolean,
    defaultUser: integer,
  }),
);
export interface ConfigMapVolumeSource extends Of<typeof configMapVolumeSource> {}

const secretVolumeSource = described(
  {
    name: 'io.k8s.api.core.v1.SecretVolumeSource',
    text: 'The entries of a Secret as files, in memory alone. Updates reach the files.',
    fields: {
      secretName: 'The name of the Secret, in the namespace of the pod.',
      items:
        'The entries to show, and where. If absent, all of them under their keys. A key that is missing is an error.',
      defaultMode: modeText,
      optional: 'Whether the Secret, or its keys, may be missing.',
      defaultUser: userText,
    },
  },
  object({
    secretName: string,
    items: list(keyToPath),
    defaultMode: integer,
    optional: boolean,
    defaultUser: integer,
  }),
);
export interface SecretVolumeSource extends Of<typeof secretVolumeSource> {}

const downwardApiVolumeSource = described(
  {
    name: 'io.k8s.api.core.v1.DownwardAPIVolumeSource',
    text: 'Facts about the pod as files. Changes of labels and annotations reach the files.',
    fields: { items: 'The files.', defaultMode: modeText, defaultUser: userText },
  },
  object({
    items: list(downwardApiFile),
    defaultMode: integer,
    defaultUser: integer,
  }),
);
export interface DownwardApiVolumeSource extends Of<typeof downwardApiVolumeSource> {}

const objectProjection = described(
  {
    name: 'io.k8s.api.core.v1.ObjectProjection',
    text: 'Entries of a ConfigMap or a Secret.',
    fields: {
      name: 'The name of the object, in the namespace of the pod.',
      items: 'The entries to show, and where. If absent, all of them under their keys.',
      optional: 'Whether the object, or its keys, may be missing.',
    },
  },
  object({ name: required(string), items: list(keyToPath), optional: boolean }),
);
export interface ObjectProjection extends Of<typeof objectProjection> {}

const serviceAccountTokenProjection = described(
  {
    name: 'io.k8s.api.core.v1.ServiceAccountTokenProjection',
    text: 'A token of the service account of the pod.',
    fields: {
      audience: 'Who the token is for; the API server if absent.',
      expirationSeconds: 'How long the token holds, 3600 if absent, at least 600. A new one comes before it ends.',
      path: 'The file, below the volume.',
      user: 'The owner of the file, as a user id.',
    },
  },
  object({
    audience: string,
    expirationSeconds: integer,
    path: required(string),
    user: integer,
  }),
);
export interface ServiceAccountTokenProjection extends Of<typeof serviceAccountTokenProjection> {}

const clusterTrustBundleProjection = described(
  {
    name: 'io.k8s.api.core.v1.ClusterTrustBundleProjection',
    text: 'Certificates of authorities, from one bundle or from all of a signer.',
    fields: {
      name: 'The one bundle. Not together with signerName.',
      signerName: 'The signer whose bundles are taken.',
      labelSelector: 'Which bundles of the signer; none if absent.',
      optional: 'Whether there may be no such bundle.',
      path: 'The file, below the volume.',
      user: 'The owner of the file, as a user id.',
    },
  },
  object({
    name: string,
    signerName: string,
    labelSelector,
    optional: boolean,
    path: required(string),
    user: integer,
  }),
);
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

const volumeProjection = described(
  {
    name: 'io.k8s.api.core.v1.VolumeProjection',
    text: 'One source of a projected volume. Exactly one field is set.',
    fields: {
      secret: 'Entries of a Secret.',
      configMap: 'Entries of a ConfigMap.',
      downwardAPI: 'Facts about the pod.',
      serviceAccountToken: 'A token of the service account of the pod, renewed in time.',
      clusterTrustBundle: 'Certificates of authorities that the cluster trusts.',
      podCertificate: 'A key of the pod and a certificate for it.',
    },
  },
  object({
    secret: objectProjection,
    configMap: objectProjection,
    downwardAPI: object({ items: list(downwardApiFile) }),
    serviceAccountToken: serviceAccountTokenProjection,
    clusterTrustBundle: clusterTrustBundleProjection,
    podCertificate: podCertificateProjection,
  }),
);
export interface VolumeProjection extends Of<typeof volumeProjection> {}

const projectedVolumeSource = described(
  {
    name: 'io.k8s.api.core.v1.ProjectedVolumeSource',
    text: 'Several sources in one directory, updated together.',
    fields: {
      sources: 'The sources. Of two files at the same path the later one is seen.',
      defaultMode: modeText,
      defaultUser: userText,
    },
  },
  object({
    sources: list(volumeProjection),
    defaultMode: integer,
    defaultUser: integer,
  }),
);
export interface ProjectedVolumeSource extends Of<typeof projectedVolumeSource> {}

const emptyDirVolumeSource = described(
  {
    name: 'io.k8s.api.core.v1.EmptyDirVolumeSource',
    text: 'An empty directory that all containers of the pod share and that is removed with the pod.',
    fields: {
      medium: 'Memory for a file system in memory, else the disk of the node.',
      sizeLimit: 'How much may be in it.',
      mode: 'The permission bits of the directory.',
    },
  },
  object({ medium: string, sizeLimit: quantity, mode: integer }),
);
export interface EmptyDirVolumeSource extends Of<typeof emptyDirVolumeSource> {}

const csiVolumeSource = described(
  {
    name: 'io.k8s.api.core.v1.CSIVolumeSource',
    text: 'A volume of a CSI driver that lives as long as the pod.',
    fields: {
      driver: 'The name of the driver.',
      readOnly: 'Whether it is mounted for reading alone.',
      fsType: 'The file system, if the driver asks for one.',
      volumeAttributes: 'What the driver needs to know.',
      nodePublishSecretRef: 'A Secret that is given to the driver.',
    },
  },
  object({
    driver: required(string),
    readOnly: boolean,
    fsType: string,
    volumeAttributes: map(string),
    nodePublishSecretRef: localObjectReference,
  }),
);

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
  ...foreignShapes('pod'),
};

export const volumeShape = described(
  {
    name: 'io.k8s.api.core.v1.Volume',
    text: 'A directory, or a device, that containers of the pod can mount. Exactly one source says what is in it.',
    fields: {
      name: 'What containers call the volume when they mount it. A DNS label, unique in the pod.',
      configMap: 'The entries of a ConfigMap as files.',
      secret: 'The entries of a Secret as files, kept in memory.',
      downwardAPI: 'Facts about the pod as files.',
      projected: 'Several sources in one directory.',
      emptyDir: 'An empty directory that lives as long as the pod.',
      hostPath: 'A file or directory of the node itself.',
      nfs: 'A directory that an NFS server exports.',
      csi: 'A volume of a CSI driver that lives as long as the pod.',
      persistentVolumeClaim: 'The volume that a claim has.',
      ephemeral: 'The volume of a claim that is made for the pod and goes with it.',
      image: 'The content of an image, read-only.',
      gitRepo: 'No longer supported.',
    },
  },
  object({ name: required(string), ...volumeSources }),
);
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
  return { name, ...Object.fromEntries(entries), ...defaultForeignSources(sources) };
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

// Defaults of a pod's volumes, as the API server sets them when an object is decoded.

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
