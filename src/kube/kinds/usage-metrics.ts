/** What nodes and pods use now, as `kubectl top` and autoscalers read it: made when it is asked for, never stored. */
import { resourceKind } from '../schema/kind.ts';
import { objectFields } from '../schema/meta.ts';
import { type Of, described, list, object, required, resourceList, string, time } from '../schema/schema.ts';

const measured = { ...objectFields, timestamp: required(time), window: required(string) };
const texts = {
  timestamp: 'When it was measured.',
  window: 'The time before that, over which the use of processors is the mean.',
};

const nodeMetricsShape = described(
  { text: 'What a node uses.', fields: { ...texts, usage: 'Processors and memory.' } },
  object({ ...measured, usage: required(resourceList) }),
);
export interface NodeMetrics extends Of<typeof nodeMetricsShape> {}

const podMetricsShape = described(
  { text: 'What a pod uses.', fields: { ...texts, containers: 'What each of its containers uses.' } },
  object({
    ...measured,
    containers: required(list(object({ name: required(string), usage: required(resourceList) }), 'name')),
  }),
);
export interface PodMetrics extends Of<typeof podMetricsShape> {}

// Without a singular name: `node` and `pod` are the objects themselves.
const group = { group: 'metrics.k8s.io', version: 'v1beta1', singular: '' };

export const nodeMetricsKind = resourceKind<NodeMetrics>({
  ...group,
  kind: 'NodeMetrics',
  plural: 'nodes',
  namespaced: false,
  shape: nodeMetricsShape,
});

export const podMetricsKind = resourceKind<PodMetrics>({
  ...group,
  kind: 'PodMetrics',
  plural: 'pods',
  namespaced: true,
  shape: podMetricsShape,
});
