/** StatefulSets and DaemonSets, whose versions are kept as ControllerRevisions: what the server decides of them, and their tables. */
import {
  type DaemonSet,
  daemonSetKind,
  daemonSetShape,
  validateDaemonSetStatusUpdate,
} from '../../kube/kinds/workloads/daemon-set.ts';
import {
  type StatefulSet,
  statefulSetKind,
  statefulSetShape,
  validateStatefulSetStatusUpdate,
} from '../../kube/kinds/workloads/stateful-set.ts';
import { compareByteOrder } from '../../kube/values/go-text.ts';
import { ageColumn, nameColumn, orNone, text } from '../model/columns.ts';
import { type Column, type Resource, keepFields, resource } from '../model/resource.ts';
import { scaleOf } from './scale.ts';
import { plainStatus } from './storage.ts';
import { counted, templateColumns, templateWarnings, withGeneration } from './workloads.ts';

export const statefulSets: Resource<StatefulSet> = resource(statefulSetKind, {
  subresources: [
    plainStatus<StatefulSet>(validateStatefulSetStatusUpdate),
    scaleOf<StatefulSet>(
      () => statefulSets,
      ({ spec }) => spec.selector,
    ),
  ],
  prepareForCreate: (object) => withGeneration({ ...object, status: { replicas: 0 } }, 1),
  warnings: templateWarnings,
  prepareForUpdate: (object, old) => counted(statefulSetShape, keepFields(object, old, 'status'), old),
  columns: [
    nameColumn,
    text('Ready', 'How many pods are ready, of how many.', ({ spec, status }) => {
      return `${status?.readyReplicas ?? 0}/${spec.replicas ?? 0}`;
    }),
    ageColumn,
    ...templateColumns<StatefulSet>(({ spec }) => spec).slice(0, 2),
  ],
});

function count(name: string, description: string, cell: Column<DaemonSet>['cell']): Column<DaemonSet> {
  return { name, type: 'integer', description, priority: 0, cell };
}

const noNodes = { desiredNumberScheduled: 0, currentNumberScheduled: 0, numberMisscheduled: 0, numberReady: 0 };

export const daemonSets: Resource<DaemonSet> = resource(daemonSetKind, {
  subresources: [plainStatus<DaemonSet>(validateDaemonSetStatusUpdate)],
  prepareForCreate: (object) => withGeneration({ ...object, status: noNodes }, 1),
  warnings: templateWarnings,
  prepareForUpdate: (object, old) => counted(daemonSetShape, keepFields(object, old, 'status'), old),
  columns: [
    nameColumn,
    count('Desired', 'On how many nodes it should run.', ({ status }) => status?.desiredNumberScheduled ?? 0),
    count('Current', 'How many of them have a pod of it.', ({ status }) => status?.currentNumberScheduled ?? 0),
    count('Ready', 'On how many its pod is ready.', ({ status }) => status?.numberReady ?? 0),
    count('Up-to-date', 'On how many its pod is of the newest template.', ({ status }) => {
      return status?.updatedNumberScheduled ?? 0;
    }),
    count('Available', 'On how many its pod has been ready for long enough.', ({ status }) => {
      return status?.numberAvailable ?? 0;
    }),
    text('Node Selector', 'The labels of its nodes.', ({ spec }) => {
      const pairs = Object.entries(spec.template.spec.nodeSelector ?? {}).map(([key, value]) => `${key}=${value}`);
      return orNone(pairs.sort(compareByteOrder).join(','));
    }),
    ageColumn,
    ...templateColumns<DaemonSet>(({ spec }) => spec),
  ],
});
