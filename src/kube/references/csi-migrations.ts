/**
 * Kinds of volumes that were part of Kubernetes once and are served by CSI drivers now, one row for each: what its driver is called,
 * and what becomes of the fields of a volume and of the parameters of a class. The fields of
 * these sources have no shape, so each is read as what it should be.
 */
import type { Volume } from '../kinds/pod/volume.ts';
import type { PersistentVolume } from '../kinds/storage/persistent-volume.ts';
import type { ObjectMeta } from '../schema/meta.ts';
import { goQuote } from '../values/go-text.ts';
import { type DriverTopology, awsRegion, gceRegion, labelledZones, notTranslated } from './csi-topology.ts';

export type Fields = Readonly<Record<string, unknown>>;
export type Csi = NonNullable<PersistentVolume['spec']['csi']>;
type Parameters = Readonly<Record<string, string>>;

export interface Migration {
  /** The name that the kind had as a plugin, and as a provisioner. */
  readonly plugin: string;
  readonly driver: string;
  readonly topology?: DriverTopology;
  /** `of` is the PersistentVolume, or has the name of the volume in the pod; `namespace` is where Secrets are. */
  csi(fields: Fields, of: ObjectMeta, namespace: string): Omit<Csi, 'driver'>;
  /** Of the PersistentVolume that an inline volume becomes: it names the directory where the disk is staged. */
  nameOf?(fields: Fields, volumeHandle: string): string;
  modeOf?(fields: Fields): string;
  accessModes?(given: readonly string[]): readonly string[];
  /** The handle on a node, for one that does not say where the disk is. */
  repaired?(volumeHandle: string, nodeId: string): string;
  /** Back from CSI. */
  fields(csi: Csi): Fields;
  annotations?(csi: Csi): Parameters;
  /** What becomes of one parameter of a class, by its name in lower case; undefined: it stays as it is. */
  parameter?(name: string, value: string, key: string): Parameters | undefined;
  readonly takesZones?: true;
  /** Added to the parameters of every class. */
  readonly extra?: Parameters;
}

const fsTypeParameter = (name: string, value: string): Parameters | undefined =>
  name === 'fstype' ? { 'csi.storage.k8s.io/fstype': value } : undefined;
const shared = (fields: Fields): string => (fields['readOnly'] === true ? 'ReadOnlyMany' : 'ReadWriteOnce');
const resourceGroup = 'kubernetes.io/azure-file-resource-group';
const unspecified = 'UNSPECIFIED';
const authSecret = { name: 'openstorage.io/auth-secret-name', namespace: 'openstorage.io/auth-secret-namespace' };
const secretUses = 'provisioner controller-publish node-publish node-stage controller-expand node-expand'.split(' ');
const vSphereParameters = new Set(
  `datastore diskformat hostfailurestotolerate forceprovisioning cachereservation diskstripes objectspacereservation
   iopslimit`.split(/\s+/),
);

const rows = {
  awsElasticBlockStore: {
    plugin: 'kubernetes.io/aws-ebs',
    driver: 'ebs.csi.aws.com',
    topology: { zone: 'topology.ebs.csi.aws.com/zone', regionOf: awsRegion },
    csi: (fields) => ({
      volumeHandle: awsVolumeId(text(fields['volumeID'])),
      ...diskOf(fields),
      volumeAttributes: { partition: String(integer(fields['partition'])) },
    }),
    fields: (csi) => ({ volumeID: csi.volumeHandle, ...diskOf(csi), ...partitionOf(csi) }),
    takesZones: true,
    parameter: (name, value, key) =>
      name === 'iopspergb' ? { [key]: value, allowautoiopspergbincrease: 'true' } : fsTypeParameter(name, value),
  },
  azureDisk: {
    plugin: 'kubernetes.io/azure-disk',
    driver: 'disk.csi.azure.com',
    topology: { zone: 'topology.disk.csi.azure.com/zone', ofClassesAlone: true },
    csi: (fields) => {
      const kind = text(fields['kind'] ?? 'Managed');
      if (kind.toLowerCase() !== 'managed') throw notTranslated(`kind(${kind}) is not supported in csi migration`);
      const [cachingmode, fstype] = [text(fields['cachingMode']), text(fields['fsType'])];
      return {
        volumeHandle: text(fields['diskURI']),
        ...diskOf(fields),
        volumeAttributes: { kind: 'Managed', ...(cachingmode && { cachingmode }), ...(fstype && { fstype }) },
      };
    },
    nameOf: (_fields, volumeHandle) => volumeHandle,
    fields: (csi) => {
      const attributes = lowered(csi.volumeAttributes);
      const cachingMode = attributes.get('cachingmode') ?? '';
      return {
        diskName: azureDiskName(csi.volumeHandle),
        diskURI: csi.volumeHandle,
        fsType: attributes.get('fstype') || (csi.fsType ?? ''),
        readOnly: csi.readOnly ?? false,
        kind: 'Managed',
        ...(cachingMode !== '' && { cachingMode }),
      };
    },
    takesZones: true,
  },
  azureFile: {
    plugin: 'kubernetes.io/azure-file',
    driver: 'file.csi.azure.com',
    csi: (fields, { name, annotations }, namespace) => {
      const [secret, share] = [text(fields['secretName']), text(fields['shareName'])];
      if (namespace === '') {
        throw notTranslated('could not find a secret namespace in PersistentVolumeSource or ClaimRef');
      }
      const group = annotations?.[resourceGroup] ?? '';
      // Of the name that Azure gives the Secret of an account; any other is taken as the account's.
      const account = between(secret, ['azure-storage-account-'], '-secret') ?? secret;
      return {
        volumeHandle: [group, account, share, name, namespace].join('#'),
        ...(fields['readOnly'] === true && { readOnly: true }),
        volumeAttributes: { sharename: share },
        nodeStageSecretRef: { name: secret, namespace },
      };
    },
    nameOf: (_fields, volumeHandle) => volumeHandle,
    modeOf: () => 'ReadWriteMany',
    fields: (csi) => azureFileOf(csi).fields,
    annotations: (csi) => azureFileOf(csi).annotations,
  },
  cinder: {
    plugin: 'kubernetes.io/cinder',
    driver: 'cinder.csi.openstack.org',
    topology: { zone: 'topology.cinder.csi.openstack.org/zone' },
    csi: (fields) => ({ volumeHandle: text(fields['volumeID']), ...diskOf(fields), volumeAttributes: {} }),
    fields: (csi) => ({ volumeID: csi.volumeHandle, ...diskOf(csi) }),
    parameter: fsTypeParameter,
  },
  gcePersistentDisk: {
    plugin: 'kubernetes.io/gce-pd',
    driver: 'pd.csi.storage.gke.io',
    topology: { zone: 'topology.gke.io/zone', regionOf: gceRegion },
    csi: (fields, metadata) => {
      const [zone = unspecified, ...others] = labelledZones({ metadata });
      const place = others.length === 0 ? `zones/${zone}` : `regions/${gceRegion([zone, ...others])}`;
      const partition = integer(fields['partition']);
      return {
        volumeHandle: `projects/${unspecified}/${place}/disks/${text(fields['pdName'])}`,
        ...diskOf(fields),
        volumeAttributes: { partition: partition === 0 ? '' : String(partition) },
      };
    },
    nameOf: (fields) => `pd.csi.storage.gke.io-${text(fields['pdName'])}`,
    modeOf: shared,
    // The driver insists on modes that nothing has ever checked for these disks.
    accessModes: (given) => {
      const isWritten = given.some((mode) => mode === 'ReadWriteMany' || mode === 'ReadWriteOnce');
      return [!isWritten && given.includes('ReadOnlyMany') ? 'ReadOnlyMany' : 'ReadWriteOnce'];
    },
    repaired: gceRepaired,
    fields: (csi) => ({ pdName: gceHandle(csi.volumeHandle)[5], ...diskOf(csi), ...partitionOf(csi) }),
    takesZones: true,
    parameter: fsTypeParameter,
  },
  portworxVolume: {
    plugin: 'kubernetes.io/portworx-volume',
    driver: 'pxd.portworx.com',
    csi: (fields, { annotations = {} }) => {
      const [name, namespace] = [annotations[authSecret.name], annotations[authSecret.namespace]];
      const secret = name === undefined || namespace === undefined ? undefined : { name, namespace };
      return {
        volumeHandle: text(fields['volumeID']),
        ...fsTypeOf(fields),
        volumeAttributes: {},
        ...(secret && {
          controllerPublishSecretRef: secret,
          nodeStageSecretRef: secret,
          nodePublishSecretRef: secret,
          controllerExpandSecretRef: secret,
          nodeExpandSecretRef: secret,
        }),
      };
    },
    modeOf: shared,
    fields: (csi) => ({ volumeID: csi.volumeHandle, ...diskOf(csi) }),
    parameter: (name, value) => {
      const part = name === authSecret.name ? 'name' : name === authSecret.namespace ? 'namespace' : undefined;
      if (part === undefined) return undefined;
      return Object.fromEntries(secretUses.map((use) => [`csi.storage.k8s.io/${use}-secret-${part}`, value]));
    },
  },
  vsphereVolume: {
    plugin: 'kubernetes.io/vsphere-volume',
    driver: 'csi.vsphere.vmware.com',
    topology: { zone: 'topology.csi.vmware.com/zone', region: 'topology.csi.vmware.com/region' },
    csi: (fields) => {
      const storagepolicyname = text(fields['storagePolicyName']);
      return {
        volumeHandle: text(fields['volumePath']),
        ...fsTypeOf(fields),
        volumeAttributes: storagepolicyname === '' ? {} : { storagepolicyname },
      };
    },
    fields: (csi) => ({ volumePath: csi.volumeAttributes?.['initialvolumefilepath'] ?? '', ...fsTypeOf(csi) }),
    parameter: (name, value) => {
      if (name === 'storagepolicyname') return { [name]: value };
      return vSphereParameters.has(name) ? { [`${name}-migrationparam`]: value } : (fsTypeParameter(name, value) ?? {});
    },
    // The driver answers with the path of the disk, which is all that the old kind knows it by.
    extra: { csimigration: 'true' },
  },
} satisfies Partial<Record<keyof PersistentVolume['spec'] & keyof Volume, Migration>>;

export type MigratedSource = keyof typeof rows;
/** By the name of the source in volumes. */
export const migrations = Object.entries(rows) as readonly (readonly [MigratedSource, Migration])[];

export function text(value: unknown): string {
  return typeof value === 'string' ? value : '';
}

function integer(value: unknown): number {
  return typeof value === 'number' && Number.isSafeInteger(value) ? value : 0;
}

function fsTypeOf(fields: { readonly fsType?: unknown }): { readonly fsType?: string } {
  const fsType = text(fields.fsType);
  return fsType === '' ? {} : { fsType };
}

function diskOf(fields: { readonly fsType?: unknown; readonly readOnly?: unknown }): Pick<Csi, 'fsType' | 'readOnly'> {
  return { ...fsTypeOf(fields), ...(fields.readOnly === true && { readOnly: true }) };
}

function partitionOf({ volumeAttributes }: Csi): { readonly partition?: number } {
  const given = volumeAttributes?.['partition'] ?? '';
  if (given === '') return {};
  if (!/^[+-]?\d{1,9}$/.test(given)) throw notTranslated(`failed to convert partition ${given} to integer`);
  return Number(given) === 0 ? {} : { partition: Number(given) };
}

function lowered(attributes: Csi['volumeAttributes']): ReadonlyMap<string, string> {
  return new Map(Object.entries(attributes ?? {}).map(([key, value]) => [key.toLowerCase(), value]));
}

/** From `vol-1`, `aws:///vol-1` or `aws://zone/vol-1`. */
function awsVolumeId(given: string): string {
  const scheme = 'aws://';
  if (!given.startsWith(scheme)) return given;
  const [, ...path] = given.slice(scheme.length).split('/');
  const [id = '', ...others] = path.filter((part) => part !== '');
  if (id.startsWith('vol-') && others.length === 0) return id;
  throw notTranslated(`failed to translate Kubernetes ID to EBS Volume ID Invalid format for AWS volume (${given})`);
}

/** Projects, zones and disks with their names between them. */
const gceParts = 6;

function gceHandle(handle: string): readonly string[] {
  const parts = handle.split('/');
  if (parts.length >= gceParts) return parts;
  throw notTranslated(`volume handle has wrong number of elements; got ${parts.length}, wanted ${gceParts} or more`);
}

function gceRepaired(handle: string, nodeId: string): string {
  const [, project, kind, place = '', , disk] = gceHandle(handle);
  if (project !== unspecified) return handle;
  const node = nodeId.split('/');
  if (node.length < gceParts) {
    throw notTranslated(`node handle has wrong number of elements; got ${node.length}, wanted ${gceParts} or more`);
  }
  if (kind !== 'zones' && kind !== 'regions') {
    throw notTranslated(`expected volume handle to have zones or regions regionality value, got: ${kind}`);
  }
  const [, nodeProject, , zone = ''] = node;
  const known = place !== unspecified ? place : kind === 'zones' ? zone : gceRegion([zone]);
  return `projects/${nodeProject}/${kind}/${known}/disks/${disk}`;
}

function azureDiskName(uri: string): string {
  const path = ['/subscriptions/', '/resourceGroups/', '/providers/Microsoft.Compute/disks/'];
  const name = between(uri, path, '');
  if (name !== undefined) return name;
  throw notTranslated(`could not get disk name from ${uri}, correct format: ${path.join('...')}{name}`);
}

/** What stands between the last of these texts, which follow one another, and the end. Undefined if it is empty. */
function between(given: string, starts: readonly string[], end: string): string | undefined {
  let from = 0;
  for (const [index, start] of starts.entries()) {
    const isLast = index > 0 && index === starts.length - 1;
    const at = isLast ? given.lastIndexOf(start) : given.indexOf(start, from);
    if (at < from) return undefined;
    from = at + start.length;
  }
  const to = given.lastIndexOf(end);
  return to > from ? given.slice(from, to) : undefined;
}

/** The share is looked for in the attributes, its Secret there and in the reference, and both at last in the handle. */
function azureFileOf(csi: Csi): { readonly fields: Fields; readonly annotations: Parameters } {
  const attributes = lowered(csi.volumeAttributes);
  const { name = '', namespace = '' } = csi.nodeStageSecretRef ?? {};
  const share = attributes.get('sharename') ?? '';
  const secret = name || (attributes.get('secretname') ?? '');
  const parts = share !== '' && secret !== '' ? ['', '', ''] : csi.volumeHandle.split('#');
  if (parts.length < 3) {
    throw notTranslated(`error parsing volume id: ${goQuote(csi.volumeHandle)}, should at least contain two #`);
  }
  const [group = '', account = '', shareName = ''] = parts;
  return {
    fields: {
      secretName: secret || `azure-storage-account-${account}-secret`,
      shareName: share || shareName,
      secretNamespace: name === '' ? (attributes.get('secretnamespace') ?? 'default') : namespace,
      ...(csi.readOnly && { readOnly: true }),
    },
    annotations: group === '' ? {} : { [resourceGroup]: group },
  };
}
