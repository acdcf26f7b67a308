/**
 * What a cluster wants of pods as a whole: bounds, how important they are, how many must stay, how many there should be. Of these
 * only PriorityClasses and PodDisruptionBudgets have an effect here.
 */
import {
  type HorizontalPodAutoscaler,
  type Metric,
  type MetricStatus,
  horizontalPodAutoscalerKind,
  validateAutoscalerStatus,
} from '../../kube/kinds/policy/horizontal-pod-autoscaler.ts';
import { limitRangeKind } from '../../kube/kinds/policy/limit-range.ts';
import { podDisruptionBudgetKind, validateBudgetStatus } from '../../kube/kinds/policy/pod-disruption-budget.ts';
import { priorityClassKind, systemPriorityClasses } from '../../kube/kinds/policy/priority-class.ts';
import { type ResourceQuota, resourceQuotaKind, validateQuotaStatus } from '../../kube/kinds/policy/resource-quota.ts';
import type { ResourceList } from '../../kube/values/quantity.ts';
import { ageColumn, createdAtColumn, nameColumn, text, yesNo } from '../model/columns.ts';
import { type Column, keepFields, resource, specAndStatus, statusOf } from '../model/resource.ts';

export const limitRanges = resource(limitRangeKind, {
  withoutEffect: 'pods and claims get no defaults from it and keep to no bounds',
  columns: [nameColumn, createdAtColumn],
});

export const resourceQuotas = resource(resourceQuotaKind, {
  withoutEffect: 'nothing is counted and nothing refused',
  subresources: [statusOf(validateQuotaStatus)],
  // Clients wait until the status shows what was asked for; nothing else would write it.
  prepareForCreate: (object) => ({ ...object, status: quotaStatus(object.spec?.hard, {}) }),
  prepareForUpdate: (object, old) =>
    JSON.stringify(object.spec?.hard) === JSON.stringify(old.spec?.hard)
      ? keepFields(object, old, 'status')
      : { ...object, status: quotaStatus(object.spec?.hard, old.status?.used) },
  columns: [
    nameColumn,
    text('Request', 'What is asked for, of what may be.', (object) =>
      used(object, (name) => !name.startsWith('limits.')),
    ),
    text('Limit', 'What is allowed to be used, of what may be.', (object) =>
      used(object, (name) => name.startsWith('limits.')),
    ),
    ageColumn,
  ],
  deleteAnswers: 'object',
});

function quotaStatus(hard: ResourceList = {}, before: ResourceList = {}): NonNullable<ResourceQuota['status']> {
  return { hard, used: Object.fromEntries(Object.keys(hard).map((name) => [name, before[name] ?? '0'])) };
}

function used({ status }: ResourceQuota, isWanted: (name: string) => boolean): string {
  return Object.entries(status?.hard ?? {})
    .filter(([name]) => isWanted(name))
    .map(([name, hard]) => `${name}: ${status?.used?.[name] ?? 0}/${hard}`)
    .sort()
    .join(', ');
}

export const podDisruptionBudgets = resource(podDisruptionBudgetKind, {
  ...specAndStatus(podDisruptionBudgetKind, {
    disruptionsAllowed: 0,
    currentHealthy: 0,
    desiredHealthy: 0,
    expectedPods: 0,
  }),
  subresources: [statusOf(validateBudgetStatus)],
  columns: [
    nameColumn,
    text('Min Available', 'How many pods must stay.', ({ spec }) => String(spec?.minAvailable ?? 'N/A')),
    text('Max Unavailable', 'How many pods may be gone.', ({ spec }) => String(spec?.maxUnavailable ?? 'N/A')),
    count('Allowed Disruptions', 'How many pods may go now.', ({ status }) => status?.disruptionsAllowed ?? 0),
    ageColumn,
  ],
});

export const priorityClasses = resource(priorityClassKind, {
  prepareForCreate: (object) => ({ ...object, metadata: { ...object.metadata, generation: 1 } }),
  deletion: {
    refusal: ({ metadata: { name } }) =>
      systemPriorityClasses.some(({ metadata }) => metadata.name === name)
        ? 'this is a system priority class and cannot be deleted'
        : undefined,
  },
  columns: [
    nameColumn,
    count('Value', 'The priority of pods of the class.', ({ value }) => value),
    yesNo('Global-Default', 'Whether pods that name no class are of it.', ({ globalDefault = false }) => globalDefault),
    ageColumn,
    text('PreemptionPolicy', 'Whether its pods may end others.', ({ preemptionPolicy = '' }) => preemptionPolicy),
  ],
});

export const horizontalPodAutoscalers = resource(horizontalPodAutoscalerKind, {
  withoutEffect: 'it changes no number of replicas',
  subresources: [statusOf(validateAutoscalerStatus)],
  prepareForCreate: (object) => ({ ...object, status: { desiredReplicas: 0 } }),
  prepareForUpdate: (object, old) => keepFields(object, old, 'status'),
  columns: [
    nameColumn,
    text('Reference', 'What it is for.', ({ spec }) =>
      spec === undefined ? '' : `${spec.scaleTargetRef.kind}/${spec.scaleTargetRef.name}`,
    ),
    text('Targets', 'What is measured, and what should be.', targetsOf),
    text('MinPods', 'The least number of replicas.', ({ spec }) => String(spec?.minReplicas ?? '<unset>')),
    count('MaxPods', 'The largest number of replicas.', ({ spec }) => spec?.maxReplicas ?? 0),
    count('Replicas', 'How many replicas there are.', ({ status }) => status?.currentReplicas ?? 0),
    ageColumn,
  ],
});

const targetsShown = 2;

/** `cpu: 12%/80%` */
function targetsOf({ spec, status }: HorizontalPodAutoscaler): string {
  const { metrics = [] } = spec ?? {};
  if (metrics.length === 0) return '<none>';
  const all = metrics.map((metric, index) => targetOf(metric, status?.currentMetrics?.[index]));
  const shown = all.slice(0, targetsShown).join(', ');
  return all.length > targetsShown ? `${shown} + ${all.length - targetsShown} more...` : shown;
}

function targetOf(metric: Metric, measured: MetricStatus | undefined): string {
  const unknown = '<unknown>';
  const percent = (value: number | undefined, otherwise: string): string =>
    value === undefined ? otherwise : `${value}%`;
  const named = metric.resource ?? metric.containerResource;
  const now = measured?.resource?.current ?? measured?.containerResource?.current;
  if (named !== undefined) {
    const { averageValue, averageUtilization } = named.target;
    const shown =
      averageValue === undefined
        ? `${percent(now?.averageUtilization, unknown)}/${percent(averageUtilization, '<auto>')}`
        : `${now?.averageValue ?? unknown}/${averageValue}`;
    return `${named.name}: ${shown}`;
  }
  const source = metric.object ?? metric.pods ?? metric.external;
  if (source === undefined) return '<unknown type>';
  const { value, averageValue } = source.target;
  const current = measured?.object?.current ?? measured?.pods?.current ?? measured?.external?.current;
  if (averageValue === undefined) return `${current?.value ?? unknown}/${value ?? unknown}`;
  return `${current?.averageValue ?? unknown}/${averageValue}${metric.pods === undefined ? ' (avg)' : ''}`;
}

function count<T>(name: string, description: string, cell: (object: T) => number): Column<T> {
  return { name, type: 'integer', description, priority: 0, cell };
}
