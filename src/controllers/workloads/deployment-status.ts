/** What a Deployment says of its rollout: counts, and conditions that clients wait for. Pure. */
import type { Deployment, DeploymentCondition } from '../../kube/kinds/workloads/deployment.ts';
import type { ReplicaSet } from '../../kube/kinds/workloads/replica-set.ts';
import { timestamp } from '../../kube/values/times.ts';
import { type Rollout, availableOf, isComplete, isScaled, limitsOf, setsOf, sizeOf, sum } from './rollout.ts';

type Status = NonNullable<Deployment['status']>;
type Conditions = readonly DeploymentCondition[];

/** What has just happened, that the sets alone do not say. */
interface RolloutNews {
  /** The new set was created in this look. */
  readonly isCreated: boolean;
  readonly creationFailure: string | undefined;
}

/** As Kubernetes has it: no deadline. */
const noDeadlineSeconds = 2 ** 31 - 1;

export function statusOf(rollout: Rollout, { isCreated, creationFailure }: RolloutNews, nowMs: number): Status {
  const { deployment, newSet } = rollout;
  const { metadata, spec, status = {} } = deployment;
  const counts = countsOf(rollout);
  const isFollowed = metadata.deletionTimestamp === undefined && spec.paused !== true && !isScaled(rollout);
  const at = timestamp(nowMs);
  let conditions: Conditions = status.conditions ?? [];
  const say = (type: string, value: string, reason: string, message: string): void => {
    conditions = withCondition(conditions, { type, status: value, reason, message }, at);
  };
  const progress = progressOf(conditions);
  const isTimedOut = progress?.reason === 'ProgressDeadlineExceeded';
  if (metadata.deletionTimestamp === undefined && hasDeadline(deployment)) {
    // The clock of the deadline starts again when it goes on.
    const isPaused = progress?.reason === 'DeploymentPaused';
    if (spec.paused === true && !isPaused && !isTimedOut) {
      say('Progressing', 'Unknown', 'DeploymentPaused', 'Deployment is paused');
    } else if (spec.paused !== true && isPaused) {
      say('Progressing', 'Unknown', 'DeploymentResumed', 'Deployment is resumed');
    }
    if (creationFailure !== undefined) say('Progressing', 'False', 'ReplicaSetCreateError', creationFailure);
    else if (newSet !== undefined) {
      const name = `new replica set "${newSet.metadata.name}"`;
      if (isCreated) say('Progressing', 'True', 'NewReplicaSetCreated', `Created ${name}`);
      else if (progressOf(conditions) === undefined) {
        say('Progressing', 'True', 'FoundNewReplicaSet', `Found ${name}`);
      }
    }
  }
  const isEnough = (counts.availableReplicas ?? 0) >= (spec.replicas ?? 1) - limitsOf(deployment).unavailable;
  if (isEnough) say('Available', 'True', 'MinimumReplicasAvailable', 'Deployment has minimum availability.');
  else say('Available', 'False', 'MinimumReplicasUnavailable', 'Deployment does not have minimum availability.');
  if (isFollowed) {
    conditions = withProgress(rollout, conditions, counts, creationFailure !== undefined, nowMs);
    const [failure] = [newSet, ...setsOf(rollout)].flatMap((set) => failureOf(set));
    conditions =
      failure === undefined
        ? without(conditions, 'ReplicaFailure')
        : withCondition(conditions, failure, failure.lastTransitionTime ?? at);
  }
  const { collisionCount } = status;
  return {
    ...counts,
    ...(conditions.length > 0 && { conditions }),
    ...(collisionCount !== undefined && { collisionCount }),
  };
}

/** When the deadline has passed if nothing moves until then; undefined where there is none. */
export function deadlineMs(deployment: Deployment, status: Status): number | undefined {
  const progress = progressOf(status.conditions ?? []);
  const isOver = isComplete(deployment, status) || progress?.reason === 'ProgressDeadlineExceeded';
  if (progress === undefined || isOver || deployment.spec.paused === true || !hasDeadline(deployment)) return undefined;
  return Date.parse(progress.lastUpdateTime ?? '') + (deployment.spec.progressDeadlineSeconds ?? 0) * 1000;
}

function countsOf(rollout: Rollout): Status {
  const all = setsOf(rollout);
  const { newSet } = rollout;
  const replicas = sum(all, ({ status }) => status?.replicas ?? 0);
  const available = sum(all, availableOf);
  const counts = {
    replicas,
    updatedReplicas: newSet?.status?.replicas ?? 0,
    readyReplicas: sum(all, ({ status }) => status?.readyReplicas ?? 0),
    availableReplicas: available,
    unavailableReplicas: Math.max(0, sum(all, sizeOf) - available),
  };
  return {
    observedGeneration: rollout.deployment.metadata.generation ?? 0,
    // Zeros that Go would leave out are left out.
    ...Object.fromEntries(Object.entries(counts).filter(([, count]) => count > 0)),
    terminatingReplicas: sum(all, ({ status }) => status?.terminatingReplicas ?? 0),
  };
}

function withProgress(
  { deployment, newSet }: Rollout,
  conditions: Conditions,
  counts: Status,
  hasFailed: boolean,
  nowMs: number,
): Conditions {
  if (!hasDeadline(deployment)) return without(conditions, 'Progressing');
  const known = progressOf(conditions);
  const { replicas = 0, updatedReplicas = 0 } = counts;
  // Once complete it stays so, also while pods come and go.
  if (known?.reason === 'NewReplicaSetAvailable' && replicas === updatedReplicas) return conditions;
  const what =
    newSet === undefined ? `Deployment "${deployment.metadata.name}"` : `ReplicaSet "${newSet.metadata.name}"`;
  const at = timestamp(nowMs);
  const said = (status: string, reason: string, end: string): DeploymentCondition => {
    return { type: 'Progressing', status, reason, message: `${what} ${end}` };
  };
  if (isComplete(deployment, counts)) {
    return withCondition(conditions, said('True', 'NewReplicaSetAvailable', 'has successfully progressed.'), at);
  }
  if (!hasFailed && hasMoved(deployment.status ?? {}, counts)) {
    const moved = said('True', 'ReplicaSetUpdated', 'is progressing.');
    const since = known?.status === 'True' ? known.lastTransitionTime : undefined;
    const times = { lastUpdateTime: at, lastTransitionTime: since ?? at };
    return [...without(conditions, 'Progressing'), { ...moved, ...times }];
  }
  const deadline = deadlineMs(deployment, { ...counts, conditions });
  const isLate = known?.reason !== 'NewReplicaSetAvailable' && deadline !== undefined && deadline < nowMs;
  return isLate
    ? withCondition(conditions, said('False', 'ProgressDeadlineExceeded', 'has timed out progressing.'), at)
    : conditions;
}

/** More new pods, fewer old ones, more that are ready or available. */
function hasMoved(before: Status, now: Status): boolean {
  const old = ({ replicas = 0, updatedReplicas = 0 }: Status): number => replicas - updatedReplicas;
  const grew = (['updatedReplicas', 'readyReplicas', 'availableReplicas'] as const).some(
    (field) => (now[field] ?? 0) > (before[field] ?? 0),
  );
  return grew || old(now) < old(before);
}

function failureOf(set: ReplicaSet | undefined): readonly DeploymentCondition[] {
  const known = set?.status?.conditions?.find(({ type }) => type === 'ReplicaFailure');
  return known === undefined ? [] : [known];
}

function hasDeadline({ spec }: Deployment): boolean {
  return (spec.progressDeadlineSeconds ?? noDeadlineSeconds) !== noDeadlineSeconds;
}

function progressOf(conditions: Conditions): DeploymentCondition | undefined {
  return conditions.find(({ type }) => type === 'Progressing');
}

/** One with the same status and reason is left as it is, with its times. */
function withCondition(conditions: Conditions, next: DeploymentCondition, at: string): Conditions {
  const known = conditions.find(({ type }) => type === next.type);
  if (known?.status === next.status && known.reason === next.reason) return conditions;
  const since = known?.status === next.status ? known.lastTransitionTime : undefined;
  return [...without(conditions, next.type), { ...next, lastUpdateTime: at, lastTransitionTime: since ?? at }];
}

function without(conditions: Conditions, type: string): Conditions {
  return conditions.filter((condition) => condition.type !== type);
}
