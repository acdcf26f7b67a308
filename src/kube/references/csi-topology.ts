/**
 * Where storage can be reached, in the two vocabularies there are for it: the zones and regions that Kubernetes labels nodes with,
 * and the keys that a CSI driver has for the same. Pure; for csi-translation.ts.
 */
import { OperatingError } from '../../base/errors.ts';
import type { NodeSelectorTerm } from '../kinds/storage/node-selector.ts';
import type { PersistentVolume } from '../kinds/storage/persistent-volume.ts';
import type { StorageClass } from '../kinds/storage/storage-class.ts';

/** How a driver names places. */
export interface DriverTopology {
  readonly zone: string;
  /** Such a driver has a key for regions too, and knows one zone for a volume. */
  readonly region?: string;
  /** The driver's volumes keep what they say of nodes; only classes are translated. */
  readonly ofClassesAlone?: true;
  /** The region that zones are in, by their names. */
  readonly regionOf?: RegionOf;
}

type RegionOf = (zones: readonly string[]) => string;

interface Labels {
  readonly zone: string;
  readonly region: string;
}

const stable: Labels = { zone: 'topology.kubernetes.io/zone', region: 'topology.kubernetes.io/region' };
const beta: Labels = {
  zone: 'failure-domain.beta.kubernetes.io/zone',
  region: 'failure-domain.beta.kubernetes.io/region',
};

/** Between the zones of a label. */
const separator = '__';

/** With the driver's keys in its node affinity, which the volume's labels fill in where they are all there is. */
export function withDriverTopology(volume: PersistentVolume, topology: DriverTopology): PersistentVolume {
  if (topology.ofClassesAlone) return volume;
  const labels = labelsInUse(volume);
  const zoned = moved(volume, labels.zone, topology.zone, topology.region === undefined);
  if (topology.region !== undefined) return moved(zoned, labels.region, topology.region, false);
  // Newer nodes do not have the old label any more.
  return labels === beta ? renamed(zoned, beta.region, stable.region) : zoned;
}

/** With the labels of Kubernetes in its node affinity and on itself. */
export function withKubernetesTopology(volume: PersistentVolume, topology: DriverTopology): PersistentVolume {
  if (topology.ofClassesAlone) return volume;
  const labels = labelsInUse(volume);
  const isSingle = topology.region !== undefined;
  let changed = renamed(volume, topology.zone, labels.zone);
  if (isSingle) changed = renamed(changed, topology.region, labels.region);
  if (topology.regionOf !== undefined) changed = withRegions(changed, labels, topology.regionOf);
  const [zones, regions] = [valuesOf(changed, labels.zone), valuesOf(changed, labels.region)];
  const isPlaced = isSingle ? regions.length > 0 : topology.regionOf !== undefined && regions.length === 1;
  if (zones.length === 0 && !isPlaced) return changed;
  const derived = {
    ...(zones.length > 0 && { [labels.zone]: zones.slice(0, isSingle ? 1 : undefined).join(separator) }),
    ...(isPlaced && { [labels.region]: regions[0] ?? '' }),
  };
  return { ...changed, metadata: { ...changed.metadata, labels: { ...derived, ...changed.metadata.labels } } };
}

/** Where a class allows volumes, in the driver's terms. `zones` come from its parameters. */
export function driverTopologies(
  allowed: StorageClass['allowedTopologies'] = [],
  zones: readonly string[] | undefined,
  topology: DriverTopology,
): NonNullable<StorageClass['allowedTopologies']> {
  if (zones !== undefined && allowed.length > 0) {
    throw notTranslated('cannot simultaneously set allowed topologies and zone/zones parameters');
  }
  const terms = zones === undefined ? allowed : [{ matchLabelExpressions: [{ key: stable.zone, values: zones }] }];
  return terms.map(({ matchLabelExpressions = [] }) => ({
    matchLabelExpressions: matchLabelExpressions.map(({ key: given, values }) => {
      const key = given === stable.zone || given === beta.zone ? topology.zone : given;
      // Azure's regions without zones number their fault domains like zones, and the driver has one zone without a name there.
      const isNumbered = topology.ofClassesAlone && key === topology.zone;
      return { key, values: isNumbered ? values.map((value) => (/^\d+$/.test(value) ? '' : value)) : values };
    }),
  }));
}

/** The zones of one label of a volume. */
export function labelledZones({ metadata: { labels = {} } }: Pick<PersistentVolume, 'metadata'>): readonly string[] {
  const zones = labels[beta.zone] || labels[stable.zone] || '';
  return zones === '' ? [] : zones.split(separator);
}

/** us-east-1a, us-gov-east-1a, us-west-2-lax-1a (local) and us-east-1-wl1-bos-wlz-1 (wavelength). */
export function awsRegion(zones: readonly string[]): string {
  return oneRegion(zones, (zone) => {
    const parts = zone.split('-');
    const last = parts.at(-1) ?? '';
    if ((parts.length === 3 || parts.length === 4) && last.length === 2) return zone.slice(0, -1);
    if (parts.length === 5 || parts.length === 7) return parts.slice(0, 3).join('-');
    throw notTranslated(`Unexpected zone format: ${zone} is not a valid AWS zone`);
  });
}

export function gceRegion(zones: readonly string[]): string {
  return oneRegion(zones, (zone) => {
    const parts = zone.split('-');
    if (parts.length === 3) return parts.slice(0, 2).join('-');
    throw notTranslated(`zone in unexpected format, expected: {locale}-{region}-{zone}, got: ${zone}`);
  });
}

function oneRegion(zones: readonly string[], regionOf: (zone: string) => string): string {
  if (zones.length === 0) throw notTranslated('no zones specified');
  const [region, ...others] = [...new Set(zones.map(regionOf))].sort();
  if (region !== undefined && others.length === 0) return region;
  const printed = [region, ...others].map((one) => `${one}:{}`).join(' ');
  throw notTranslated(`multiple or no regions gotten from zones, got: map[${printed}]`);
}

export function notTranslated(why: string): OperatingError {
  return new OperatingError('VolumeNotTranslated', why);
}

/** Node affinity decides before labels, and new names before old ones. */
function labelsInUse(volume: PersistentVolume): Labels {
  const keys = new Set(termsOf(volume).flatMap(({ matchExpressions = [] }) => matchExpressions.map(({ key }) => key)));
  const { labels = {} } = volume.metadata;
  const both = [stable, beta];
  return both.find(({ zone }) => keys.has(zone)) ?? both.find(({ zone }) => Object.hasOwn(labels, zone)) ?? stable;
}

function termsOf({ spec }: PersistentVolume): readonly NodeSelectorTerm[] {
  return spec.nodeAffinity?.required?.nodeSelectorTerms ?? [];
}

/** Sorted, each once. */
function valuesOf(volume: PersistentVolume, key: string): readonly string[] {
  const values = termsOf(volume).flatMap(({ matchExpressions = [] }) =>
    matchExpressions.flatMap((one) => (one.key === key ? (one.values ?? []) : [])),
  );
  return [...new Set(values)].sort();
}

type Requirements = NonNullable<NodeSelectorTerm['matchExpressions']>;

/** With the labels that each of the terms asks for changed. */
function withTerms(
  volume: PersistentVolume,
  terms: readonly NodeSelectorTerm[],
  change: (given: Requirements) => Requirements,
): PersistentVolume {
  if (terms.length === 0) return volume;
  const changed = ({ matchExpressions = [], ...term }: NodeSelectorTerm): NodeSelectorTerm => ({
    ...term,
    matchExpressions: change(matchExpressions),
  });
  return { ...volume, spec: { ...volume.spec, nodeAffinity: { required: { nodeSelectorTerms: terms.map(changed) } } } };
}

function renamed(volume: PersistentVolume, from: string, to: string): PersistentVolume {
  return withTerms(volume, termsOf(volume), (given) =>
    given.map((one) => (one.key === from ? { ...one, key: to } : one)),
  );
}

/** Under the new key in the node affinity, from the old key there or else from the volume's label. */
function moved(volume: PersistentVolume, from: string, to: string, isList: boolean): PersistentVolume {
  if (valuesOf(volume, from).length > 0) return renamed(volume, from, to);
  const label = volume.metadata.labels?.[from] ?? '';
  const places = (isList ? label.split(separator) : [label]).map((place) => place.trim());
  const values = [...new Set(places.filter((place) => place !== ''))].sort();
  if (values.length === 0) return volume;
  const terms = termsOf(volume);
  return withTerms(volume, terms.length === 0 ? [{}] : terms, (given) => [
    ...given,
    { key: to, operator: 'In', values },
  ]);
}

function withRegions(volume: PersistentVolume, { zone, region }: Labels, regionOf: RegionOf): PersistentVolume {
  return withTerms(volume, termsOf(volume), (given) => {
    if (given.some(({ key }) => key === region)) return given;
    const zones = given.flatMap(({ key, values = [] }) => (key === zone ? values : []));
    return [...given, { key: region, operator: 'In', values: [regionOf(zones)] }];
  });
}
