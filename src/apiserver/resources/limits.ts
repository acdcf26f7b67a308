/**
 * LimitRanges, ResourceQuotas and PodDisruptionBudgets: nothing enforces them here, so none can be made; clients that list
 * them find none. That the group of the budgets exists tells `kubectl drain` that it can evict pods.
 */
import {
  type ResourceQuota,
  limitRangeKind,
  podDisruptionBudgetKind,
  resourceQuotaKind,
} from '../../kube/kinds/limits.ts';
import { ageColumn, nameColumn, text } from '../model/columns.ts';
import { resource } from '../model/resource.ts';

export const limitRanges = resource(limitRangeKind, {
  verbs: ['get', 'list', 'watch'],
  columns: [
    nameColumn,
    {
      name: 'Created At',
      type: 'date',
      description: 'When the object was created.',
      priority: 0,
      cell: ({ metadata }) => metadata.creationTimestamp ?? '<unknown>',
    },
  ],
});

export const resourceQuotas = resource(resourceQuotaKind, {
  verbs: ['get', 'list', 'watch'],
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

export const podDisruptionBudgets = resource(podDisruptionBudgetKind, {
  verbs: ['get', 'list', 'watch'],
  columns: [
    nameColumn,
    text('Min Available', 'How many pods must stay.', ({ spec }) => String(spec?.minAvailable ?? 'N/A')),
    text('Max Unavailable', 'How many pods may be gone.', ({ spec }) => String(spec?.maxUnavailable ?? 'N/A')),
    {
      name: 'Allowed Disruptions',
      type: 'integer',
      description: 'How many pods may go now.',
      priority: 0,
      cell: ({ status }) => status?.disruptionsAllowed ?? 0,
    },
    ageColumn,
  ],
});

function used({ status }: ResourceQuota, isWanted: (name: string) => boolean): string {
  return Object.entries(status?.hard ?? {})
    .filter(([name]) => isWanted(name))
    .map(([name, hard]) => `${name}: ${status?.used?.[name] ?? 0}/${hard}`)
    .sort()
    .join(', ');
}
