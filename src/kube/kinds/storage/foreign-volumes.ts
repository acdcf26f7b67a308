/**
 * Kinds of volumes that no plugin of this node runs as they are, for pods and PersistentVolumes alike, in one table. Their objects
 * are accepted, completed, checked and stored as by any API server; their fields are in `foreign-sources.ts`. Some of them become
 * volumes of a CSI driver before they get to a plugin: references/csi-translation.ts.
 */
import { isEmpty, isRecord } from '../../schema/equality.ts';
import { type FieldError, requiredField } from '../../schema/field-errors.ts';
import type { FieldPath } from '../../schema/schema.ts';
import { goQuote } from '../../values/go-text.ts';
import { type ForeignName, type ForeignSource, type SourceUse, foreignRuleErrors } from './foreign-sources.ts';

interface ForeignKind {
  /** Fields that the API server insists on, in its order. */
  readonly required: readonly string[];
  /** What the API server puts in place of fields that are absent or empty. */
  readonly defaults?: Readonly<Record<string, string | number | boolean>>;
  /** The CSI driver that serves such storage. */
  readonly driver?: string;
  /** Kubernetes has no code for it any more. */
  readonly isRemoved?: true;
  /** What to do, where the answer is not a CSI driver. */
  readonly instead?: string;
}

const azureDisk = { cachingMode: 'ReadWrite', kind: 'Shared', fsType: 'ext4', readOnly: false };
const rbd = { pool: 'rbd', user: 'admin', keyring: '/etc/ceph/keyring' };

const foreignKinds: Readonly<Record<ForeignName, ForeignKind>> = {
  awsElasticBlockStore: { required: ['volumeID'] },
  azureDisk: { required: ['diskName', 'diskURI'], defaults: azureDisk },
  azureFile: { required: ['secretName', 'shareName'] },
  cephfs: { required: ['monitors'], driver: 'cephfs.csi.ceph.com', isRemoved: true },
  cinder: { required: ['volumeID'] },
  fc: { required: [] },
  flexVolume: { required: ['driver'] },
  flocker: { required: [], isRemoved: true },
  gcePersistentDisk: { required: ['pdName'] },
  glusterfs: { required: ['endpoints', 'path'], isRemoved: true },
  iscsi: {
    required: ['targetPortal', 'iqn'],
    defaults: { lun: 0, iscsiInterface: 'default' },
    driver: 'iscsi.csi.k8s.io',
  },
  photonPersistentDisk: { required: ['pdID'], isRemoved: true },
  portworxVolume: { required: ['volumeID'] },
  quobyte: { required: ['registry', 'volume'], driver: 'csi.quobyte.com', isRemoved: true },
  rbd: { required: ['monitors', 'image'], defaults: rbd, driver: 'rbd.csi.ceph.com', isRemoved: true },
  scaleIO: {
    required: ['gateway', 'system', 'volumeName'],
    defaults: { storageMode: 'ThinProvisioned', fsType: 'xfs' },
    driver: 'csi-vxflexos.dellemc.com',
    isRemoved: true,
  },
  storageos: { required: [], isRemoved: true },
  vsphereVolume: { required: ['volumePath'] },
};

/** Pods alone have it, and with fields of its own. */
const gitRepo: ForeignKind = {
  required: [],
  isRemoved: true,
  instead: 'clone the repository into an emptyDir in an init container',
};

/** The foreign sources of a volume, completed as by the API server. */
export function defaultForeignSources(sources: object): Partial<Record<ForeignName, ForeignSource>> {
  const completed: Partial<Record<ForeignName, ForeignSource>> = {};
  for (const [name, given] of foreignSourcesOf(sources)) {
    const absent = Object.entries(foreignKind(name)?.defaults ?? {}).filter(([key]) => isEmpty(given[key]));
    if (absent.length > 0) completed[name as ForeignName] = { ...given, ...Object.fromEntries(absent) };
  }
  return completed;
}

/** `path` is that of the source itself. */
export function foreignSourceErrors(name: string, given: unknown, path: FieldPath, use: SourceUse): FieldError[] {
  const kind = foreignKind(name);
  if (kind === undefined || !isRecord(given)) return [];
  const missing = kind.required.filter((field) => isEmpty(given[field]));
  return [
    ...missing.map((field) => requiredField([...path, field])),
    ...foreignRuleErrors(name as ForeignName, given, path, use),
  ];
}

/** Why no plugin runs a volume with these sources, and what to do; undefined where the kind is not in the table. */
export function foreignVolumeAdvice(sources: {
  readonly csi?: { readonly driver: string } | undefined;
}): string | undefined {
  if (sources.csi !== undefined)
    return `the volume needs the CSI driver ${goQuote(sources.csi.driver)}, which this node does not have`;
  const [[name] = ['']] = foreignSourcesOf(sources);
  const kind = foreignKind(name);
  if (kind === undefined) return undefined;
  const { driver, isRemoved, instead } = kind;
  const why = isRemoved ? 'are no longer supported by Kubernetes' : 'are not supported by this node';
  const way = driver === undefined ? "use a CSI driver of the storage's vendor" : `use the CSI driver ${driver}`;
  return `${name} volumes ${why}: ${instead ?? way}`;
}

function foreignSourcesOf(sources: object): [string, ForeignSource][] {
  return Object.entries(sources).filter(
    (entry): entry is [string, ForeignSource] => foreignKind(entry[0]) !== undefined && isRecord(entry[1]),
  );
}

function foreignKind(name: string): ForeignKind | undefined {
  if (name === 'gitRepo') return gitRepo;
  return Object.hasOwn(foreignKinds, name) ? foreignKinds[name as ForeignName] : undefined;
}
