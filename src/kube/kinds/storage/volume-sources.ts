/** Volume sources that pods and PersistentVolumes have in common: shapes, rules, and the wire format of the old drivers. */
import {
  type FieldError,
  invalidField,
  invalidFields,
  requiredField,
  tooLongField,
  unsupportedField,
} from '../../schema/field-errors.ts';
import type { WireMessages } from '../../schema/kind.ts';
import { type FieldPath, type Of, boolean, described, object, required, string } from '../../schema/schema.ts';
import { backstepProblems, dnsSubdomainProblems } from '../../values/names.ts';

export const hostPathVolumeSource = described(
  {
    name: 'io.k8s.api.core.v1.HostPathVolumeSource',
    text: 'A file or directory of the node itself. It gives the pod power over the node.',
    fields: {
      path: 'The path on the node.',
      type: 'What must be there, or is made: DirectoryOrCreate, Directory, FileOrCreate, File, Socket. Nothing is checked if empty.',
    },
  },
  object({ path: required(string), type: string }),
);
export interface HostPathVolumeSource extends Of<typeof hostPathVolumeSource> {}

export const nfsVolumeSource = described(
  {
    name: 'io.k8s.api.core.v1.NFSVolumeSource',
    text: 'A directory that an NFS server exports.',
    fields: { server: 'The server.', path: 'The exported path.', readOnly: 'Whether it is mounted for reading alone.' },
  },
  object({ server: required(string), path: required(string), readOnly: boolean }),
);
export interface NfsVolumeSource extends Of<typeof nfsVolumeSource> {}

export const volumeSourceWire: WireMessages = {
  HostPathVolumeSource: '1 path!, 2 type?',
  NFSVolumeSource: '1 server!, 2 path!, 3 readOnly bool',
  GCEPersistentDiskVolumeSource: '1 pdName!, 2 fsType, 3 partition int, 4 readOnly bool',
  AWSElasticBlockStoreVolumeSource: '1 volumeID!, 2 fsType, 3 partition int, 4 readOnly bool',
  ISCSIVolumeSource: `
    1 targetPortal!, 2 iqn!, 3 lun! int, 4 iscsiInterface, 5 fsType, 6 readOnly bool, 7 portals [string],
    8 chapAuthDiscovery bool, 11 chapAuthSession bool, 10 secretRef? LocalObjectReference, 12 initiatorName?`,
  GlusterfsVolumeSource: '1 endpoints!, 2 path!, 3 readOnly bool',
  RBDVolumeSource: `
    1 monitors [string], 2 image!, 3 fsType, 4 pool, 5 user, 6 keyring, 7 secretRef? LocalObjectReference,
    8 readOnly bool`,
  FlexVolumeSource: '1 driver!, 2 fsType, 3 secretRef? LocalObjectReference, 4 readOnly bool, 5 options {string}',
  CinderVolumeSource: '1 volumeID!, 2 fsType, 3 readOnly bool, 4 secretRef? LocalObjectReference',
  CephFSVolumeSource: `
    1 monitors [string], 2 path, 3 user, 4 secretFile, 5 secretRef? LocalObjectReference, 6 readOnly bool`,
  FlockerVolumeSource: '1 datasetName, 2 datasetUUID',
  FCVolumeSource: '1 targetWWNs [string], 2 lun? int, 3 fsType, 4 readOnly bool, 5 wwids [string]',
  AzureFileVolumeSource: '1 secretName!, 2 shareName!, 3 readOnly bool',
  VsphereVirtualDiskVolumeSource: '1 volumePath!, 2 fsType, 3 storagePolicyName, 4 storagePolicyID',
  QuobyteVolumeSource: '1 registry!, 2 volume!, 3 readOnly bool, 4 user, 5 group, 6 tenant',
  AzureDiskVolumeSource: '1 diskName!, 2 diskURI!, 3 cachingMode?, 4 fsType?, 5 readOnly? bool, 6 kind?',
  PhotonPersistentDiskVolumeSource: '1 pdID!, 2 fsType',
  PortworxVolumeSource: '1 volumeID!, 2 fsType, 3 readOnly bool',
  ScaleIOVolumeSource: `
    1 gateway!, 2 system!, 3 secretRef? LocalObjectReference, 4 sslEnabled bool, 5 protectionDomain, 6 storagePool,
    7 storageMode, 8 volumeName, 9 fsType, 10 readOnly bool`,
  StorageOSVolumeSource: `
    1 volumeName, 2 volumeNamespace, 3 fsType, 4 readOnly bool, 5 secretRef? LocalObjectReference`,
};

/** Rules for volume sources that pods and PersistentVolumes have in common. */
const hostPathTypes = [
  '',
  'BlockDevice',
  'CharDevice',
  'Directory',
  'DirectoryOrCreate',
  'File',
  'FileOrCreate',
  'Socket',
];

/** A relative path is accepted: it is the node's business. */
export function hostPathErrors({ path: hostPath, type }: HostPathVolumeSource, path: FieldPath): FieldError[] {
  if (hostPath === '') return [requiredField([...path, 'path'])];
  const errors = invalidFields([...path, 'path'], hostPath, backstepProblems(hostPath));
  const isKnown = type === undefined || hostPathTypes.includes(type);
  return isKnown ? errors : [...errors, unsupportedField([...path, 'type'], type, hostPathTypes)];
}

export function nfsErrors({ server, path: exported }: NfsVolumeSource, path: FieldPath): FieldError[] {
  const errors = [...emptyErrors(server, [...path, 'server']), ...emptyErrors(exported, [...path, 'path'])];
  if (!exported.startsWith('/')) errors.push(invalidField([...path, 'path'], exported, 'must be an absolute path'));
  return errors;
}

export function csiDriverErrors(driver: string, path: FieldPath): FieldError[] {
  if (driver === '') return [requiredField(path)];
  const errors = Buffer.byteLength(driver) > 63 ? [tooLongField(path, 63)] : [];
  return [...errors, ...invalidFields(path, driver, dnsSubdomainProblems(driver.toLowerCase()))];
}

export function emptyErrors(value: string, path: FieldPath): FieldError[] {
  return value === '' ? [requiredField(path)] : [];
}
