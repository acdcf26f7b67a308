/**
 * Volumes and classes of kinds that were part of Kubernetes once, as the CSI drivers know them that serve them now. Users go on
 * writing `awsElasticBlockStore`; whatever mounts, attaches or provisions reads `csi`. Pure, and nothing that is given is changed.
 */
import { messageOf } from '../../base/errors.ts';
import type { Volume } from '../kinds/pod/volume.ts';
import type { PersistentVolume } from '../kinds/storage/persistent-volume.ts';
import type { StorageClass } from '../kinds/storage/storage-class.ts';
import { isRecord } from '../schema/equality.ts';
import type { ObjectMeta } from '../schema/meta.ts';
import { type Csi, type Fields, type MigratedSource, type Migration, migrations, text } from './csi-migrations.ts';
import { driverTopologies, notTranslated, withDriverTopology, withKubernetesTopology } from './csi-topology.ts';

/** Drivers, by the names that their kinds had as plugins and provisioners; these in order. */
export const migratedDrivers: ReadonlyMap<string, string> = new Map(
  migrations.map(([, { plugin, driver }]) => [plugin, driver] as const).sort(([a], [b]) => (a < b ? -1 : 1)),
);
/** Lists, on a CSINode, the plugins whose volumes the node hands to their drivers. */
export const migratedPlugins = 'storage.alpha.kubernetes.io/migrated-plugins';

interface MigratedKind extends Pick<Migration, 'plugin' | 'driver'> {}

/** The kind of a volume in a pod or of a PersistentVolume's spec, if a driver has taken it over. */
export function migratedKindOf(sources: Volume | PersistentVolume['spec']): MigratedKind | undefined {
  return found(sources)?.migration;
}

/** As the driver knows it; the same object where it is of no such kind. */
export function translatedVolume(volume: PersistentVolume): PersistentVolume {
  const one = found(volume.spec);
  if (one === undefined) return volume;
  const { source, migration, fields } = one;
  const csi = csiOf(one, volume.metadata, text(fields['secretNamespace'] ?? volume.spec.claimRef?.namespace));
  const placed = migration.topology === undefined ? volume : withDriverTopology(volume, migration.topology);
  const { [source]: _, accessModes: given, ...spec } = placed.spec;
  const accessModes = given && (migration.accessModes?.(given) ?? given);
  return { ...placed, spec: { ...spec, ...(accessModes && { accessModes }), csi } };
}

/** The PersistentVolume that stands for a volume written in a pod, which the API has not; undefined where it is of no such kind. */
export function translatedInline(volume: Volume, podNamespace: string): PersistentVolume | undefined {
  const one = found(volume);
  if (one === undefined) return undefined;
  const { migration, fields } = one;
  // The pod's own namespace, whatever its source says: a pod must not reach the Secrets of another.
  const csi = csiOf(one, { name: volume.name }, podNamespace || 'default');
  const name = migration.nameOf?.(fields, csi.volumeHandle) ?? `${migration.driver}-${csi.volumeHandle}`;
  const accessModes = [migration.modeOf?.(fields) ?? 'ReadWriteOnce'];
  // As one path segment; a kubelet replaces the slashes when it makes the directory.
  return { metadata: { name: name.replaceAll('/', '~') }, spec: { accessModes, volumeMode: 'Filesystem', csi } };
}

/** A volume that a driver made for a class of the old kind, as a volume of that kind; the same object for other drivers. */
export function translatedBack(volume: PersistentVolume): PersistentVolume {
  const { csi, ...rest } = volume.spec;
  const [source, migration] = migrations.find(([, { driver }]) => driver === csi?.driver) ?? [];
  if (csi === undefined || source === undefined || migration === undefined) return volume;
  const fields = migration.fields(csi);
  const annotations = migration.annotations?.(csi);
  const metadata = annotations
    ? { ...volume.metadata, annotations: { ...volume.metadata.annotations, ...annotations } }
    : volume.metadata;
  const changed = { ...volume, metadata, spec: { ...rest, [source]: fields } };
  return migration.topology === undefined ? changed : withKubernetesTopology(changed, migration.topology);
}

/** A class of an old provisioner as its driver's provisioner reads it; the same object for other provisioners. */
export function translatedClass(given: StorageClass): StorageClass {
  const migration = migrations.find(([, { plugin }]) => plugin === given.provisioner)?.[1];
  if (migration === undefined) return given;
  const { driver: provisioner, takesZones = false, topology, extra = {} } = migration;
  const parameters: [string, string][] = [];
  let zones: readonly string[] | undefined;
  for (const [key, value] of Object.entries(given.parameters ?? {})) {
    const name = key.toLowerCase();
    if (takesZones && name === 'zone') zones = [value];
    else if (takesZones && name === 'zones') zones = value.split(',');
    else parameters.push(...Object.entries(migration.parameter?.(name, value, key) ?? { [key]: value }));
  }
  const allowedTopologies = topology && driverTopologies(given.allowedTopologies, zones, topology);
  return {
    ...given,
    provisioner,
    parameters: { ...Object.fromEntries(parameters), ...extra },
    ...(allowedTopologies !== undefined && allowedTopologies.length > 0 && { allowedTopologies }),
  };
}

/** The handle that the driver knows on this node, for one that was made without knowing where the disk is. */
export function repairedHandle(driver: string, volumeHandle: string, nodeId: string): string {
  const migration = migrations.find((one) => one[1].driver === driver)?.[1];
  return migration?.repaired?.(volumeHandle, nodeId) ?? volumeHandle;
}

interface Found {
  readonly source: MigratedSource;
  readonly migration: Migration;
  readonly fields: Fields;
}

function found(sources: Volume | PersistentVolume['spec']): Found | undefined {
  for (const [source, migration] of migrations) {
    const fields = sources[source];
    if (isRecord(fields)) return { source, migration, fields };
  }
  return undefined;
}

function csiOf({ source, migration, fields }: Found, of: ObjectMeta, namespace: string): Csi {
  try {
    const csi = migration.csi(fields, of, namespace);
    if (csi.volumeHandle === '') throw notTranslated(`${source} does not name its volume`);
    return { driver: migration.driver, ...csi };
  } catch (cause) {
    throw notTranslated(`failed to translate in-tree pv to CSI: ${messageOf(cause)}`);
  }
}
