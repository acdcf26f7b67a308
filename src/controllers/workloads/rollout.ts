/**
 * What is to be done about the ReplicaSets of a Deployment: pure, decided from what is. One look carries out one round of steps and
 * looks again when they show, so that a crash between any two of them is a state like any other.
 *
 * The new set is the oldest whose template is the Deployment's; all others are old. How many pods there are at most and at least is
 * kept by counting what the sets are asked for (too many) and what they say is available (too few).
 */
import type { Deployment } from '../../kube/kinds/workloads/deployment.ts';
import type { ReplicaSet } from '../../kube/kinds/workloads/replica-set.ts';
import { partOf, sameTemplate } from '../../kube/kinds/workloads/workload.ts';

export interface Rollout {
  readonly deployment: Deployment;
  readonly newSet: ReplicaSet | undefined;
  /** The oldest first. */
  readonly oldSets: readonly ReplicaSet[];
}

export type RolloutStep =
  | { readonly kind: 'create'; readonly replicas: number; readonly annotations: Annotations }
  /** What the new set has from the Deployment besides its template. */
  | { readonly kind: 'revise'; readonly set: ReplicaSet; readonly annotations: Annotations }
  | { readonly kind: 'scale'; readonly set: ReplicaSet; readonly replicas: number; readonly annotations: Annotations }
  | { readonly kind: 'remove'; readonly set: ReplicaSet };

type Annotations = Readonly<Record<string, string>>;

const prefix = 'deployment.kubernetes.io/';
export const revisionAnnotation = `${prefix}revision`;
const historyAnnotation = `${prefix}revision-history`;
const desiredAnnotation = `${prefix}desired-replicas`;
const maxAnnotation = `${prefix}max-replicas`;
const historyLengthMax = 2_000;

/** Of the Deployment alone, or of the set alone. */
const notCopied: ReadonlySet<string> = new Set([
  'kubectl.kubernetes.io/last-applied-configuration',
  'deprecated.deployment.rollback.to',
  revisionAnnotation,
  historyAnnotation,
  desiredAnnotation,
  maxAnnotation,
]);

export function rolloutOf(deployment: Deployment, sets: readonly ReplicaSet[]): Rollout {
  const all = sets.toSorted(compareAge);
  const newSet = all.find(({ spec }) => sameTemplate(spec.template, deployment.spec.template));
  return { deployment, newSet, oldSets: all.filter((set) => set !== newSet) };
}

export function setsOf({ newSet, oldSets }: Rollout): readonly ReplicaSet[] {
  return newSet === undefined ? oldSets : [...oldSets, newSet];
}

interface Limits {
  readonly surge: number;
  readonly unavailable: number;
}

/** How many pods there may be above the number, and how many of it may be missing, on the way from one version to the next. */
export function limitsOf({ spec }: Deployment): Limits {
  const { replicas = 1, strategy } = spec;
  if (strategy?.type !== 'RollingUpdate') return { surge: 0, unavailable: 0 };
  const { maxSurge = 0, maxUnavailable = 0 } = strategy.rollingUpdate ?? {};
  const surge = partOf(replicas, maxSurge, 'up');
  const unavailable = partOf(replicas, maxUnavailable, 'down');
  // Rounded to nothing, neither way would be open.
  return { surge, unavailable: Math.min(replicas, surge === 0 && unavailable === 0 ? 1 : unavailable) };
}

/** `hasOldPods`: some pods of old sets have not ended. */
export function planRollout(rollout: Rollout, hasOldPods: boolean): readonly RolloutStep[] {
  const { deployment, newSet } = rollout;
  if (deployment.metadata.deletionTimestamp !== undefined) return [];
  const revised = newSet === undefined ? undefined : revise(rollout, newSet);
  if (revised !== undefined) return [revised];
  if (deployment.spec.paused === true) return [...scaleAll(rollout), ...cleanUp(rollout)];
  if (isScaled(rollout)) {
    const steps = scaleAll(rollout);
    if (steps.length > 0) return steps;
  }
  const steps = deployment.spec.strategy?.type === 'Recreate' ? recreate(rollout, hasOldPods) : roll(rollout);
  return steps.length === 0 && isComplete(deployment, deployment.status) ? cleanUp(rollout) : steps;
}

/** Everything that was asked for is there, and nothing else. */
export function isComplete({ metadata, spec }: Deployment, status: Deployment['status'] = {}): boolean {
  const { replicas = 1 } = spec;
  const counts = [status.updatedReplicas, status.replicas, status.availableReplicas];
  return (
    counts.every((count = 0) => count === replicas) && (status.observedGeneration ?? 0) >= (metadata.generation ?? 0)
  );
}

/** The number of pods was changed since the sets were given theirs. */
export function isScaled(rollout: Rollout): boolean {
  return setsOf(rollout).some((set) => {
    const desired = numberIn(set, desiredAnnotation);
    return sizeOf(set) > 0 && desired !== undefined && desired !== wantedOf(rollout);
  });
}

function roll(rollout: Rollout): readonly RolloutStep[] {
  const { deployment, newSet, oldSets } = rollout;
  const wanted = wantedOf(rollout);
  const all = setsOf(rollout);
  const { surge, unavailable } = limitsOf(deployment);
  const size = newSet === undefined ? 0 : sizeOf(newSet);
  const room = Math.max(0, wanted + surge - sum(all, sizeOf));
  const grown = size > wanted ? wanted : size + Math.min(room, wanted - size);
  if (newSet === undefined) return [create(rollout, grown)];
  if (grown !== size) return resize(rollout, newSet, grown);
  const leastAvailable = wanted - unavailable;
  const cuttable = sum(all, sizeOf) - leastAvailable - (size - surelyAvailable(newSet));
  if (cuttable <= 0) return [];
  // Pods that do not serve anybody go first.
  const sizes = new Map(oldSets.map((set) => [set, sizeOf(set)]));
  let rest = cuttable;
  for (const set of oldSets) rest -= cut(sizes, set, Math.min(rest, sizeOf(set) - surelyAvailable(set)));
  rest = sum(all, surelyAvailable) - leastAvailable;
  for (const set of oldSets) rest -= cut(sizes, set, rest);
  return oldSets.flatMap((set) => resize(rollout, set, sizes.get(set) ?? 0));
}

function cut(sizes: Map<ReplicaSet, number>, set: ReplicaSet, most: number): number {
  const size = sizes.get(set) ?? 0;
  const count = Math.max(0, Math.min(size, most));
  sizes.set(set, size - count);
  return count;
}

/** Old and new pods never run together. */
function recreate(rollout: Rollout, hasOldPods: boolean): readonly RolloutStep[] {
  const { newSet, oldSets } = rollout;
  const steps = oldSets.flatMap((set) => resize(rollout, set, 0));
  if (steps.length > 0) return steps;
  // A set that has not heard of its new size may be creating pods at this moment.
  const isQuiet = oldSets.every(({ metadata, status }) => {
    return (status?.replicas ?? 0) === 0 && (status?.observedGeneration ?? 0) >= (metadata.generation ?? 0);
  });
  if (hasOldPods || !isQuiet) return [];
  return newSet === undefined ? [create(rollout, wantedOf(rollout))] : resize(rollout, newSet, wantedOf(rollout));
}

/** A changed number is shared among the sets as they have it now, so that a rollout that is stuck does not move by it. */
function scaleAll(rollout: Rollout): readonly RolloutStep[] {
  const { deployment, newSet, oldSets } = rollout;
  const wanted = wantedOf(rollout);
  const active = setsOf(rollout).filter((set) => sizeOf(set) > 0);
  const latest = newSet ?? oldSets.at(-1);
  const [only = latest] = active;
  if (active.length <= 1) return only === undefined ? [] : resize(rollout, only, wanted, true);
  if (newSet !== undefined && isSaturated(newSet, wanted)) {
    return oldSets.flatMap((set) => resize(rollout, set, 0));
  }
  if (deployment.spec.strategy?.type !== 'RollingUpdate') return [];
  const allowed = wanted > 0 ? wanted + limitsOf(deployment).surge : 0;
  const sizes = proportions(active, allowed, deployment.status?.replicas ?? 0);
  return active.flatMap((set) => resize(rollout, set, sizes.get(set) ?? 0, true));
}

function isSaturated(set: ReplicaSet, wanted: number): boolean {
  return [sizeOf(set), numberIn(set, desiredAnnotation), availableOf(set)].every((count) => count === wanted);
}

/** The size of each set if together they are to have `allowed` pods. `total`: how many there are, where no set knows how many it was of. */
function proportions(sets: readonly ReplicaSet[], allowed: number, total: number): ReadonlyMap<ReplicaSet, number> {
  const toAdd = allowed - sum(sets, sizeOf);
  const bySize = sets.toSorted((a, b) => sizeOf(b) - sizeOf(a) || (toAdd > 0 ? compareAge(b, a) : compareAge(a, b)));
  const sizes = new Map(bySize.map((set) => [set, sizeOf(set)]));
  let left = toAdd;
  for (const set of bySize) {
    const size = sizeOf(set);
    const whole = numberIn(set, maxAnnotation) || total;
    const fair = allowed === 0 ? -size : whole === 0 ? 0 : Math.round((size * allowed) / whole) - size;
    const share = left === 0 ? 0 : toAdd > 0 ? Math.min(fair, left) : Math.max(fair, left);
    sizes.set(set, size + share);
    left -= share;
  }
  const [first] = bySize;
  if (first !== undefined) sizes.set(first, Math.max(0, (sizes.get(first) ?? 0) + left));
  return sizes;
}

/** Old sets without pods, beyond those that are kept to go back to. */
function cleanUp({ deployment, oldSets }: Rollout): readonly RolloutStep[] {
  const kept = deployment.spec.revisionHistoryLimit ?? 10;
  const living = oldSets.filter(({ metadata }) => metadata.deletionTimestamp === undefined);
  const byRevision = living.toSorted((a, b) => Number(revisionOf(a) - revisionOf(b)) || compareAge(a, b));
  return byRevision
    .slice(0, Math.max(0, living.length - kept))
    .filter((set) => {
      const { metadata, status } = set;
      const isObserved = (status?.observedGeneration ?? 0) >= (metadata.generation ?? 0);
      return sizeOf(set) === 0 && (status?.replicas ?? 0) === 0 && isObserved;
    })
    .map((set) => ({ kind: 'remove', set }));
}

function create(rollout: Rollout, replicas: number): RolloutStep {
  const { annotations } = rollout.deployment.metadata;
  const revision = String(nextRevision(rollout));
  return {
    kind: 'create',
    replicas,
    annotations: { ...copied(annotations), [revisionAnnotation]: revision, ...sizeAnnotations(rollout) },
  };
}

/** `always`: also where only the annotations differ. */
function resize(rollout: Rollout, set: ReplicaSet, replicas: number, always = false): readonly RolloutStep[] {
  const annotations = { ...set.metadata.annotations, ...sizeAnnotations(rollout) };
  const isSame = replicas === sizeOf(set) && (!always || sameAnnotations(set, annotations));
  return isSame ? [] : [{ kind: 'scale', set, replicas, annotations }];
}

function sizeAnnotations(rollout: Rollout): Annotations {
  const wanted = wantedOf(rollout);
  const most = wanted + limitsOf(rollout.deployment).surge;
  return { [desiredAnnotation]: String(wanted), [maxAnnotation]: String(most) };
}

/** The new set has the highest revision; one that comes back gets a new number and remembers those it had. */
function revise(rollout: Rollout, set: ReplicaSet): RolloutStep | undefined {
  const { deployment } = rollout;
  const { annotations: old = {} } = set.metadata;
  const annotations: Record<string, string> = { ...old, ...copied(deployment.metadata.annotations) };
  const next = nextRevision(rollout);
  const before = old[revisionAnnotation];
  if (revisionOf(set) < next) {
    annotations[revisionAnnotation] = String(next);
    if (before !== undefined) annotations[historyAnnotation] = withRevision(old[historyAnnotation], before);
  }
  const isSame =
    sameAnnotations(set, annotations) && (set.spec.minReadySeconds ?? 0) === (deployment.spec.minReadySeconds ?? 0);
  return isSame ? undefined : { kind: 'revise', set, annotations };
}

function withRevision(history = '', revision: string): string {
  const numbers = [...history.split(',').filter((one) => one !== ''), revision];
  while (numbers.join(',').length > historyLengthMax) numbers.shift();
  return numbers.join(',');
}

function copied(annotations: Annotations = {}): Annotations {
  return Object.fromEntries(Object.entries(annotations).filter(([name]) => !notCopied.has(name)));
}

function sameAnnotations({ metadata }: ReplicaSet, annotations: Annotations): boolean {
  return Object.entries(annotations).every(([name, value]) => metadata.annotations?.[name] === value);
}

/** Clients read revisions as numbers of 64 bits, and an adopted set brings its own along. */
const revisionMax = 2n ** 63n - 1n;

function nextRevision({ oldSets }: Rollout): bigint {
  const highest = oldSets.map(revisionOf).reduce((a, b) => (a > b ? a : b), 0n);
  return highest < revisionMax ? highest + 1n : revisionMax;
}

function revisionOf({ metadata }: ReplicaSet): bigint {
  const text = metadata.annotations?.[revisionAnnotation] ?? '';
  const revision = /^\d{1,19}$/.test(text) ? BigInt(text) : 0n;
  return revision <= revisionMax ? revision : 0n;
}

function numberIn({ metadata }: ReplicaSet, annotation: string): number | undefined {
  const text = metadata.annotations?.[annotation] ?? '';
  return /^\d{1,15}$/.test(text) ? Number(text) : undefined;
}

function wantedOf({ deployment }: Rollout): number {
  return deployment.spec.replicas ?? 1;
}

export function sizeOf({ spec }: ReplicaSet): number {
  return spec.replicas ?? 1;
}

export function availableOf({ status }: ReplicaSet): number {
  return status?.availableReplicas ?? 0;
}

/** A set that has not yet shrunk to its size may take away what it still shows. */
function surelyAvailable(set: ReplicaSet): number {
  return Math.min(sizeOf(set), availableOf(set));
}

export function sum(sets: readonly ReplicaSet[], numberOf: (set: ReplicaSet) => number): number {
  return sets.reduce((total, set) => total + numberOf(set), 0);
}

function compareAge({ metadata: a }: ReplicaSet, { metadata: b }: ReplicaSet): number {
  const times = [a, b].map(({ creationTimestamp = '' }) => Date.parse(creationTimestamp) || 0);
  return (times[0] ?? 0) - (times[1] ?? 0) || (a.name < b.name ? -1 : 1);
}
