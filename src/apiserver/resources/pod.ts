/** Pods: what an update may touch, how they end, and what each of their subresources exchanges. Their table is in `pod-columns.ts`. */
import { bindingKind, evictionKind } from '../../kube/kinds/pod/pod-requests.ts';
import { podSpec } from '../../kube/kinds/pod/pod-spec.ts';
import { type PodStatus, validatePodStatusUpdate } from '../../kube/kinds/pod/pod-status.ts';
import { validateEphemeralContainersUpdate } from '../../kube/kinds/pod/pod-update-validation.ts';
import { type Pod, defaultPod, podKind } from '../../kube/kinds/pod/pod.ts';
import { qualityOfService } from '../../kube/references/pod-resources.ts';
import { means } from '../../kube/schema/equality.ts';
import { type ExchangedKind, keepFields, proxyOf, resource } from '../model/resource.ts';
import { podColumns, podRowConditions } from './pod-columns.ts';
import { podWarnings } from './pod-warnings.ts';

/** Asked for in the query, without a body. */
function optionsKind(kind: string): ExchangedKind {
  return { group: '', version: 'v1', kind };
}

const partVerbs = ['get', 'patch', 'update'];
const streamVerbs = ['create', 'get'];

export const pods = resource(podKind, {
  subresources: [
    { name: 'status', verbs: partVerbs, update: { prepare: prepareStatus, validate: validatePodStatusUpdate } },
    { name: 'log', verbs: ['get'] },
    { name: 'exec', kind: optionsKind('PodExecOptions'), verbs: streamVerbs },
    { name: 'attach', kind: optionsKind('PodAttachOptions'), verbs: streamVerbs },
    { name: 'portforward', kind: optionsKind('PodPortForwardOptions'), verbs: streamVerbs },
    proxyOf('Pod'),
    { name: 'binding', kind: bindingKind, verbs: ['create'] },
    { name: 'eviction', kind: evictionKind, verbs: ['create'] },
    {
      name: 'ephemeralcontainers',
      verbs: partVerbs,
      update: { prepare: prepareEphemeralContainers, validate: validateEphemeralContainersUpdate },
    },
  ],
  prepareForCreate: (object) => ({
    ...object,
    metadata: { ...object.metadata, generation: 1 },
    status: {
      phase: 'Pending',
      ...((object.spec.schedulingGates ?? []).length > 0 && { conditions: [gatedCondition] }),
      // Of the limits alone, where nothing is said of requests: defaults decide, and the node counts with them.
      qosClass: qualityOfService(defaultPod(object).spec),
    },
  }),
  prepareForUpdate: (object, old) => withGeneration(keepFields(object, old, 'status'), old),
  deletion: { graceSeconds },
  warnings: ({ spec }) => podWarnings(spec, 'spec'),
  fields: {
    'spec.nodeName': ({ spec }) => spec.nodeName ?? '',
    // What the field was called by clients of long ago.
    'spec.host': ({ spec }) => spec.nodeName ?? '',
    'spec.restartPolicy': ({ spec }) => spec.restartPolicy ?? '',
    'spec.schedulerName': ({ spec }) => spec.schedulerName ?? '',
    'spec.serviceAccountName': ({ spec }) => spec.serviceAccountName ?? '',
    'spec.hostNetwork': ({ spec }) => String(spec.hostNetwork ?? false),
    'status.phase': ({ status }) => status?.phase ?? '',
    'status.podIP': ({ status }) => status?.podIPs?.[0]?.ip ?? '',
    // The API takes this name and never gives it a value.
    'status.podIPs': () => '',
    'status.nominatedNodeName': ({ status }) => status?.nominatedNodeName ?? '',
  },
  columns: podColumns,
  rowConditions: podRowConditions,
  deleteAnswers: 'object',
});

const gatedCondition = {
  type: 'PodScheduled',
  status: 'False',
  reason: 'SchedulingGated',
  message: 'Scheduling is blocked due to non-empty scheduling gates',
};

/** Counts the versions of the spec. Only the server sets it. */
function withGeneration(object: Pod, old: Pod): Pod {
  const before = old.metadata.generation ?? 0;
  const generation = means(podSpec, object.spec, old.spec) ? before : before + 1;
  return { ...object, metadata: { ...object.metadata, generation } };
}

/** The status is the node's to say, but not who owns the pod, nor what the server knows better. */
function prepareStatus(object: Pod, old: Pod): Pod {
  const metadata = keepFields(object.metadata, old.metadata, 'ownerReferences', 'deletionTimestamp', 'generation');
  const status = object.status ?? {};
  const before = old.status ?? {};
  const qosClass = status.qosClass || before.qosClass;
  const observedGeneration = status.observedGeneration || before.observedGeneration;
  const resourceClaimStatuses = status.resourceClaimStatuses ?? before.resourceClaimStatuses;
  return {
    ...object,
    metadata,
    spec: old.spec,
    status: {
      ...status,
      ...(qosClass !== undefined && { qosClass }),
      ...(observedGeneration !== undefined && { observedGeneration }),
      ...(resourceClaimStatuses && { resourceClaimStatuses }),
      ...(status.conditions && { conditions: withObservedGenerations(status.conditions, before.conditions ?? []) }),
    },
  };
}

type Conditions = NonNullable<PodStatus['conditions']>;

/** A client that does not know of generations does not take them away. There may be several conditions of one type. */
function withObservedGenerations(conditions: Conditions, before: Conditions): Conditions {
  const known = [...before];
  return conditions.map((condition) => {
    const index = known.findIndex(({ type }) => type === condition.type);
    const [old] = index < 0 ? [] : known.splice(index, 1);
    const observedGeneration = condition.observedGeneration || old?.observedGeneration;
    return observedGeneration === undefined ? condition : { ...condition, observedGeneration };
  });
}

function prepareEphemeralContainers(object: Pod, old: Pod): Pod {
  const { ephemeralContainers: _, ...spec } = old.spec;
  const { ephemeralContainers } = object.spec;
  const { resourceVersion } = object.metadata;
  const metadata = { ...old.metadata, ...(resourceVersion !== undefined && { resourceVersion }) };
  return withGeneration(
    { ...old, metadata, spec: { ...spec, ...(ephemeralContainers && { ephemeralContainers }) } },
    old,
  );
}

/** A pod that never ran or has ended needs no grace period. */
function graceSeconds({ spec, status }: Pod, requested: number | undefined): number {
  if ((spec.nodeName ?? '') === '' || status?.phase === 'Failed' || status?.phase === 'Succeeded') return 0;
  const seconds = requested ?? spec.terminationGracePeriodSeconds ?? 0;
  return seconds < 0 ? 1 : seconds;
}
