import {
  clusterTrustBundleProjection,
  configMapVolumeSource,
  csiVolumeSource,
  downwardApiFile,
  downwardApiVolumeSource,
  emptyDirVolumeSource,
  fieldReference,
  keyToPath,
  projectedVolumeSource,
  resourceFieldReference,
  secretVolumeSource,
  serviceAccountTokenProjection,
  volumeProjection,
  volumeShape,
} from '../../kube/kinds/pod/volume.ts';
import { hostPathVolumeSource, nfsVolumeSource } from '../../kube/kinds/storage/volume-sources.ts';
import type { Definition } from './definition.ts';
import { shapeAt } from './shape-at.ts';

const core = 'io.k8s.api.core.v1';
const mode = 'The permission bits of files that do not set their own, 0644 if absent. JSON knows only decimal numbers.';
const user = 'The owner of files that do not set their own, as a user id.';

export const volumeDefinitions: readonly Definition[] = [
  {
    shape: volumeShape,
    name: `${core}.Volume`,
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
  {
    shape: configMapVolumeSource,
    name: `${core}.ConfigMapVolumeSource`,
    text: 'The entries of a ConfigMap as files: each key is a file name, each value its content. Updates reach the files.',
    fields: {
      name: 'The name of the ConfigMap, in the namespace of the pod.',
      items:
        'The entries to show, and where. If absent, all of them under their keys. A key that is missing is an error.',
      defaultMode: mode,
      optional: 'Whether the ConfigMap, or its keys, may be missing.',
      defaultUser: user,
    },
  },
  {
    shape: secretVolumeSource,
    name: `${core}.SecretVolumeSource`,
    text: 'The entries of a Secret as files, in memory alone. Updates reach the files.',
    fields: {
      secretName: 'The name of the Secret, in the namespace of the pod.',
      items:
        'The entries to show, and where. If absent, all of them under their keys. A key that is missing is an error.',
      defaultMode: mode,
      optional: 'Whether the Secret, or its keys, may be missing.',
      defaultUser: user,
    },
  },
  {
    shape: keyToPath,
    name: `${core}.KeyToPath`,
    text: 'One entry and the file it becomes.',
    fields: {
      key: 'The key of the entry.',
      path: 'The file, below the volume. It may not contain "..".',
      mode: 'The permission bits of the file.',
      user: 'The owner of the file, as a user id.',
    },
  },
  {
    shape: downwardApiVolumeSource,
    name: `${core}.DownwardAPIVolumeSource`,
    text: 'Facts about the pod as files. Changes of labels and annotations reach the files.',
    fields: { items: 'The files.', defaultMode: mode, defaultUser: user },
  },
  {
    shape: downwardApiFile,
    name: `${core}.DownwardAPIVolumeFile`,
    text: 'One file with one fact about the pod.',
    fields: {
      path: 'The file, below the volume. It may not contain "..".',
      fieldRef: 'A field of the pod: annotations, labels, name, namespace, uid.',
      resourceFieldRef: 'A limit or request of a container.',
      mode: 'The permission bits of the file.',
      user: 'The owner of the file, as a user id.',
    },
  },
  {
    shape: fieldReference,
    name: `${core}.ObjectFieldSelector`,
    text: 'A field of the pod.',
    fields: {
      apiVersion: 'The version of the API that the path is written in; v1 if absent.',
      fieldPath: 'The field.',
    },
  },
  {
    shape: resourceFieldReference,
    name: `${core}.ResourceFieldSelector`,
    text: 'A limit or request of a container, in some unit.',
    fields: {
      containerName: 'The container. In an environment it is the container itself if absent.',
      resource: 'What to show: limits.cpu, requests.memory.',
      divisor: 'The unit the value is given in; 1 if absent.',
    },
  },
  {
    shape: projectedVolumeSource,
    name: `${core}.ProjectedVolumeSource`,
    text: 'Several sources in one directory, updated together.',
    fields: {
      sources: 'The sources. Of two files at the same path the later one is seen.',
      defaultMode: mode,
      defaultUser: user,
    },
  },
  {
    shape: volumeProjection,
    name: `${core}.VolumeProjection`,
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
  {
    shape: shapeAt(volumeProjection, 'configMap'),
    name: `${core}.ObjectProjection`,
    text: 'Entries of a ConfigMap or a Secret.',
    fields: {
      name: 'The name of the object, in the namespace of the pod.',
      items: 'The entries to show, and where. If absent, all of them under their keys.',
      optional: 'Whether the object, or its keys, may be missing.',
    },
  },
  {
    shape: serviceAccountTokenProjection,
    name: `${core}.ServiceAccountTokenProjection`,
    text: 'A token of the service account of the pod.',
    fields: {
      audience: 'Who the token is for; the API server if absent.',
      expirationSeconds: 'How long the token holds, 3600 if absent, at least 600. A new one comes before it ends.',
      path: 'The file, below the volume.',
      user: 'The owner of the file, as a user id.',
    },
  },
  {
    shape: clusterTrustBundleProjection,
    name: `${core}.ClusterTrustBundleProjection`,
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
  {
    shape: emptyDirVolumeSource,
    name: `${core}.EmptyDirVolumeSource`,
    text: 'An empty directory that all containers of the pod share and that is removed with the pod.',
    fields: {
      medium: 'Memory for a file system in memory, else the disk of the node.',
      sizeLimit: 'How much may be in it.',
      mode: 'The permission bits of the directory.',
    },
  },
  {
    shape: hostPathVolumeSource,
    name: `${core}.HostPathVolumeSource`,
    text: 'A file or directory of the node itself. It gives the pod power over the node.',
    fields: {
      path: 'The path on the node.',
      type: 'What must be there, or is made: DirectoryOrCreate, Directory, FileOrCreate, File, Socket. Nothing is checked if empty.',
    },
  },
  {
    shape: nfsVolumeSource,
    name: `${core}.NFSVolumeSource`,
    text: 'A directory that an NFS server exports.',
    fields: { server: 'The server.', path: 'The exported path.', readOnly: 'Whether it is mounted for reading alone.' },
  },
  {
    shape: csiVolumeSource,
    name: `${core}.CSIVolumeSource`,
    text: 'A volume of a CSI driver that lives as long as the pod.',
    fields: {
      driver: 'The name of the driver.',
      readOnly: 'Whether it is mounted for reading alone.',
      fsType: 'The file system, if the driver asks for one.',
      volumeAttributes: 'What the driver needs to know.',
      nodePublishSecretRef: 'A Secret that is given to the driver.',
    },
  },
];
