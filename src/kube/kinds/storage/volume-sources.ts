/** Storage that no plugin of ours reads, for pods and PersistentVolumes alike: it is carried along and counts as a source. */
import {
  type FieldError,
  invalidField,
  invalidFields,
  requiredField,
  tooLongField,
  unsupportedField,
} from '../../schema/field-errors.ts';
import { type FieldPath, type Of, any, boolean, object, required, string, described } from '../../schema/schema.ts';
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

export const foreignVolumeSources = {
  awsElasticBlockStore: any,
  azureDisk: any,
  azureFile: any,
  cephfs: any,
  cinder: any,
  fc: any,
  flexVolume: any,
  flocker: any,
  gcePersistentDisk: any,
  glusterfs: any,
  iscsi: any,
  photonPersistentDisk: any,
  portworxVolume: any,
  quobyte: any,
  rbd: any,
  scaleIO: any,
  storageos: any,
  vsphereVolume: any,
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
