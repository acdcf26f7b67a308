/**
 * Which volume a claim gets. Volumes that are free are kept in order of size for each class, mode and set of access modes, so that
 * the cost of a search does not grow with the number of volumes. Pure: it holds what it is given and changes nothing else.
 *
 * Order of preference: the set with the fewest access modes that has all that are asked for; in it a volume that is reserved for
 * the claim, whatever its class and labels; then the smallest that is large enough.
 */
import type { PersistentVolumeClaim } from '../../kube/kinds/storage/persistent-volume-claim.ts';
import type { PersistentVolume } from '../../kube/kinds/storage/persistent-volume.ts';
import { classOf, requestedBytes } from '../../kube/references/claims.ts';
import { goQuote } from '../../kube/values/go-text.ts';
import { labelMatcher, requirementsOf } from '../../kube/values/labels.ts';
import { readQuantity } from '../../kube/values/quantity.ts';

interface VolumeSearch {
  /** Only a volume that is reserved for the claim will do: the scheduler finds the others. */
  readonly reservedOnly?: boolean;
  /** Of free volumes only these. */
  readonly admits?: (volume: PersistentVolume) => boolean;
}

/** Free volumes that differ in size and labels alone, in order of size, and of name where the size is the same. */
interface Shelf {
  readonly modes: readonly string[];
  readonly volumes: { readonly size: bigint; readonly volume: PersistentVolume }[];
}

export class VolumeIndex {
  readonly #volumes = new Map<string, PersistentVolume>();
  /** By class, volume mode, attributes class; then by access modes. */
  readonly #free = new Map<string, Map<string, Shelf>>();
  /** Names of volumes whose claimRef names this claim, by `namespace/name`. */
  readonly #reserved = new Map<string, Set<string>>();

  get(name: string): PersistentVolume | undefined {
    return this.#volumes.get(name);
  }

  all(): Iterable<PersistentVolume> {
    return this.#volumes.values();
  }

  /** Names of volumes that point at this claim, by name alone. */
  pointingAt(namespace: string, name: string): readonly string[] {
    return [...(this.#reserved.get(`${namespace}/${name}`) ?? [])];
  }

  set(name: string, volume: PersistentVolume | undefined): void {
    const before = this.#volumes.get(name);
    if (before !== undefined) this.#remove(name, before);
    if (volume === undefined) return;
    this.#volumes.set(name, volume);
    const claim = claimOf(volume);
    if (claim !== undefined) {
      const names = this.#reserved.get(claim) ?? new Set();
      this.#reserved.set(claim, names.add(name));
    } else if (isFree(volume)) {
      const { volumes } = this.#shelf(volume);
      const entry = { size: sizeOf(volume), volume };
      volumes.splice(positionOf(volumes, entry.size, name), 0, entry);
    }
  }

  /** Throws a LabelSelectorError for a selector that means nothing. */
  find(
    claim: PersistentVolumeClaim,
    { reservedOnly = false, admits = () => true }: VolumeSearch = {},
  ): PersistentVolume | undefined {
    const size = requestedBytes(claim);
    const selects = labelMatcher(requirementsOf(claim.spec.selector ?? {}));
    const reserved = this.pointingAt(claim.metadata.namespace ?? '', claim.metadata.name)
      .flatMap((name) => this.#volumes.get(name) ?? [])
      .filter((volume) => isReservedFor(volume, claim) && couldHold(volume, claim));
    const shelves = reservedOnly ? [] : [...(this.#free.get(kindOf(claim)) ?? new Map<string, Shelf>()).values()];
    const own = reserved.filter(({ spec }) => hasAll(spec.accessModes ?? [], claim.spec.accessModes));
    const fitting = shelves.filter(({ modes }) => hasAll(modes, claim.spec.accessModes));
    const counts = [...own.map(modeCount), ...fitting.map(({ modes }) => modes.length)];
    for (const count of [...new Set(counts)].sort((one, other) => one - other)) {
      const mine = own.find((volume) => modeCount(volume) === count);
      if (mine !== undefined) return mine;
      const found = fitting
        .filter(({ modes }) => modes.length === count)
        .flatMap((shelf) => firstOf(shelf, size, ({ metadata }) => selects(metadata.labels ?? {}), admits) ?? [])
        .toSorted((one, other) => (one.size < other.size ? -1 : one.size > other.size ? 1 : 0))[0];
      if (found !== undefined) return found.volume;
    }
    return undefined;
  }

  #remove(name: string, volume: PersistentVolume): void {
    this.#volumes.delete(name);
    const claim = claimOf(volume);
    if (claim !== undefined) {
      const names = this.#reserved.get(claim);
      names?.delete(name);
      if (names?.size === 0) this.#reserved.delete(claim);
    } else if (isFree(volume)) {
      const { volumes } = this.#shelf(volume);
      const at = positionOf(volumes, sizeOf(volume), name);
      if (volumes[at]?.volume.metadata.name === name) volumes.splice(at, 1);
    }
  }

  #shelf(volume: PersistentVolume): Shelf {
    const kind = kindOf(volume);
    const shelves = this.#free.get(kind) ?? new Map<string, Shelf>();
    this.#free.set(kind, shelves);
    const modes = modesOf(volume.spec.accessModes);
    const shelf = shelves.get(modes.join()) ?? { modes, volumes: [] };
    shelves.set(modes.join(), shelf);
    return shelf;
  }
}

/** Why a claim that names this volume cannot have it; undefined when it can. Labels are not asked for. */
export function misfit(volume: PersistentVolume, claim: PersistentVolumeClaim): string | undefined {
  const { metadata, spec } = volume;
  if (metadata.deletionTimestamp !== undefined) return `the volume is marked for deletion ${goQuote(metadata.name)}`;
  if (sizeOf(volume) < requestedBytes(claim)) return 'requested PV is too small';
  if (classOf(volume) !== classOf(claim)) return 'storageClassName does not match';
  if ((spec.volumeAttributesClassName ?? '') !== (claim.spec.volumeAttributesClassName ?? ''))
    return 'volumeAttributesClassName does not match';
  if (!haveSameMode(volume, claim)) return 'incompatible volumeMode';
  return hasAll(spec.accessModes ?? [], claim.spec.accessModes) ? undefined : 'incompatible accessMode';
}

/** Whether a search for this claim could end at this volume when it is free. */
export function couldTake(claim: PersistentVolumeClaim, volume: PersistentVolume): boolean {
  if (misfit(volume, claim) !== undefined) return false;
  return labelMatcher(requirementsOf(claim.spec.selector ?? {}))(volume.metadata.labels ?? {});
}

/** By name, and by UID where the volume has one. */
export function isReservedFor({ spec: { claimRef } }: PersistentVolume, { metadata }: PersistentVolumeClaim): boolean {
  if (claimRef === undefined) return false;
  if (claimRef.name !== metadata.name || claimRef.namespace !== metadata.namespace) return false;
  return (claimRef.uid ?? '') === '' || claimRef.uid === metadata.uid;
}

export function haveSameMode(volume: PersistentVolume, claim: PersistentVolumeClaim): boolean {
  return (volume.spec.volumeMode ?? 'Filesystem') === (claim.spec.volumeMode ?? 'Filesystem');
}

/** Of a volume that is reserved for the claim: its class and labels do not count. */
function couldHold(volume: PersistentVolume, claim: PersistentVolumeClaim): boolean {
  return (
    volume.metadata.deletionTimestamp === undefined &&
    sizeOf(volume) >= requestedBytes(claim) &&
    haveSameMode(volume, claim) &&
    (volume.spec.volumeAttributesClassName ?? '') === (claim.spec.volumeAttributesClassName ?? '')
  );
}

function isFree({ metadata, status }: PersistentVolume): boolean {
  return status?.phase === 'Available' && metadata.deletionTimestamp === undefined;
}

function claimOf({ spec: { claimRef } }: PersistentVolume): string | undefined {
  return claimRef && `${claimRef.namespace ?? ''}/${claimRef.name ?? ''}`;
}

function kindOf(object: PersistentVolume | PersistentVolumeClaim): string {
  const { volumeMode = 'Filesystem', volumeAttributesClassName = '' } = object.spec;
  return JSON.stringify([classOf(object), volumeMode, volumeAttributesClassName]);
}

function modeCount({ spec }: PersistentVolume): number {
  return modesOf(spec.accessModes).length;
}

/** The smallest volume of a shelf that is large enough and passes all tests. */
function firstOf(
  { volumes }: Shelf,
  size: bigint,
  ...tests: readonly ((volume: PersistentVolume) => boolean)[]
): Shelf['volumes'][number] | undefined {
  for (let at = positionOf(volumes, size, ''); at < volumes.length; at += 1) {
    const entry = volumes[at];
    if (entry !== undefined && tests.every((passes) => passes(entry.volume))) return entry;
  }
  return undefined;
}

function modesOf(modes: readonly string[] = []): readonly string[] {
  return [...new Set(modes)].sort();
}

function hasAll(modes: readonly string[], wanted: readonly string[] = []): boolean {
  return wanted.every((mode) => modes.includes(mode));
}

function sizeOf({ spec }: PersistentVolume): bigint {
  return readQuantity(spec.capacity?.['storage'])?.value() ?? 0n;
}

/** Where an entry of this size and name is, or would be. */
function positionOf(volumes: Shelf['volumes'], size: bigint, name: string): number {
  let [low, high] = [0, volumes.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    const entry = volumes[middle];
    const isBefore =
      entry !== undefined && (entry.size < size || (entry.size === size && entry.volume.metadata.name < name));
    if (isBefore) low = middle + 1;
    else high = middle;
  }
  return low;
}
