/** HorizontalPodAutoscalers: how many replicas a workload should have, from what its pods use. */
import {
  type FieldError,
  forbiddenField,
  invalidField,
  invalidFields,
  requiredField,
} from '../../schema/field-errors.ts';
import { unsupportedField } from '../../schema/field-errors.ts';
import { resourceKind } from '../../schema/kind.ts';
import { labelSelector, objectFields } from '../../schema/meta.ts';
import { nonNegativeErrors, validateObjectMeta, validateObjectMetaUpdate } from '../../schema/metadata-validation.ts';
import { positiveErrors, positiveQuantityErrors } from '../../schema/number-validation.ts';
import {
  type FieldPath,
  type Of,
  described,
  int32,
  integer,
  list,
  object,
  quantity,
  required,
  string,
  time,
} from '../../schema/schema.ts';
import { dnsLabelProblems, dnsSubdomainProblems, pathSegmentProblems } from '../../values/names.ts';
import { containerResourceNameErrors } from '../pod/resource-validation.ts';

const reference = object({ kind: required(string), name: required(string), apiVersion: string });
const identifier = object({ name: required(string), selector: labelSelector });
const target = object({ type: required(string), value: quantity, averageValue: quantity, averageUtilization: int32 });
const current = object({ value: quantity, averageValue: quantity, averageUtilization: int32 });

const metric = object({
  type: required(string),
  object: object({ describedObject: required(reference), target: required(target), metric: required(identifier) }),
  pods: object({ metric: required(identifier), target: required(target) }),
  resource: object({ name: required(string), target: required(target) }),
  containerResource: object({ name: required(string), container: required(string), target: required(target) }),
  external: object({ metric: required(identifier), target: required(target) }),
});
const metricStatus = object({
  type: required(string),
  object: object({ describedObject: required(reference), current: required(current), metric: required(identifier) }),
  pods: object({ metric: required(identifier), current: required(current) }),
  resource: object({ name: required(string), current: required(current) }),
  containerResource: object({ name: required(string), container: required(string), current: required(current) }),
  external: object({ metric: required(identifier), current: required(current) }),
});
const scalingRules = object({
  stabilizationWindowSeconds: int32,
  selectPolicy: string,
  policies: list(object({ type: required(string), value: required(int32), periodSeconds: required(int32) })),
  tolerance: quantity,
});

const autoscalerShape = described(
  {
    text: 'How many replicas a workload should have, from what its pods use. Nothing in this server acts on it.',
    fields: { spec: 'Which workload, and by which measures.', status: 'What there is, and what should be.' },
  },
  object({
    ...objectFields,
    spec: object({
      scaleTargetRef: required(reference),
      minReplicas: int32,
      maxReplicas: required(int32),
      metrics: list(metric),
      behavior: object({ scaleUp: scalingRules, scaleDown: scalingRules }),
    }),
    status: object({
      observedGeneration: integer,
      lastScaleTime: time,
      currentReplicas: int32,
      desiredReplicas: required(int32),
      currentMetrics: list(metricStatus),
      conditions: list(
        object({
          type: required(string),
          status: required(string),
          lastTransitionTime: time,
          reason: string,
          message: string,
        }),
        'type',
      ),
    }),
  }),
);
export interface HorizontalPodAutoscaler extends Of<typeof autoscalerShape> {}
type Spec = NonNullable<HorizontalPodAutoscaler['spec']>;
export type Metric = Of<typeof metric>;
export type MetricStatus = Of<typeof metricStatus>;
type Target = Of<typeof target>;
type Rules = Of<typeof scalingRules>;

export const horizontalPodAutoscalerKind = resourceKind<HorizontalPodAutoscaler>({
  group: 'autoscaling',
  version: 'v2',
  kind: 'HorizontalPodAutoscaler',
  plural: 'horizontalpodautoscalers',
  shortNames: ['hpa'],
  categories: ['all'],
  namespaced: true,
  shape: autoscalerShape,
  complete: (autoscaler) =>
    autoscaler.spec === undefined ? autoscaler : { ...autoscaler, spec: withDefaults(autoscaler.spec) },
  validate: (autoscaler) => [
    ...validateObjectMeta(autoscaler.metadata, { name: dnsSubdomainProblems, scope: 'namespace' }),
    ...autoscalerErrors(autoscaler),
  ],
  validateUpdate: (autoscaler, old) => [
    ...validateObjectMetaUpdate(autoscaler.metadata, old.metadata),
    ...autoscalerErrors(autoscaler, old),
  ],
  wire: {
    HorizontalPodAutoscaler:
      '1 metadata ObjectMeta, 2 spec HorizontalPodAutoscalerSpec, 3 status HorizontalPodAutoscalerStatus',
    HorizontalPodAutoscalerSpec: `
      1 scaleTargetRef! CrossVersionObjectReference, 2 minReplicas? int, 3 maxReplicas! int, 4 metrics [MetricSpec],
      5 behavior? HorizontalPodAutoscalerBehavior`,
    CrossVersionObjectReference: '1 kind!, 2 name!, 3 apiVersion',
    MetricSpec: `
      1 type!, 2 object? ObjectMetricSource, 3 pods? PodsMetricSource, 4 resource? ResourceMetricSource,
      7 containerResource? ContainerResourceMetricSource, 5 external? PodsMetricSource`,
    ObjectMetricSource:
      '1 describedObject! CrossVersionObjectReference, 2 target! MetricTarget, 3 metric! MetricIdentifier',
    PodsMetricSource: '1 metric! MetricIdentifier, 2 target! MetricTarget',
    ResourceMetricSource: '1 name!, 2 target! MetricTarget',
    ContainerResourceMetricSource: '1 name!, 2 target! MetricTarget, 3 container!',
    MetricIdentifier: '1 name!, 2 selector? LabelSelector',
    MetricTarget: '1 type!, 2 value? Quantity, 3 averageValue? Quantity, 4 averageUtilization? int',
    HorizontalPodAutoscalerBehavior: '1 scaleUp? HPAScalingRules, 2 scaleDown? HPAScalingRules',
    HPAScalingRules: `
      3 stabilizationWindowSeconds? int, 1 selectPolicy?, 2 policies [HPAScalingPolicy], 4 tolerance? Quantity`,
    HPAScalingPolicy: '1 type!, 2 value! int, 3 periodSeconds! int',
    HorizontalPodAutoscalerStatus: `
      1 observedGeneration? int, 2 lastScaleTime? Time, 3 currentReplicas int, 4 desiredReplicas! int,
      5 currentMetrics [MetricStatus], 6 conditions [HorizontalPodAutoscalerCondition]`,
    HorizontalPodAutoscalerCondition: '1 type!, 2 status!, 3 lastTransitionTime Time, 4 reason, 5 message',
    MetricStatus: `
      1 type!, 2 object? ObjectMetricStatus, 3 pods? PodsMetricStatus, 4 resource? ResourceMetricStatus,
      7 containerResource? ContainerResourceMetricStatus, 5 external? PodsMetricStatus`,
    ObjectMetricStatus:
      '1 metric! MetricIdentifier, 2 current! MetricValueStatus, 3 describedObject! CrossVersionObjectReference',
    PodsMetricStatus: '1 metric! MetricIdentifier, 2 current! MetricValueStatus',
    ResourceMetricStatus: '1 name!, 2 current! MetricValueStatus',
    ContainerResourceMetricStatus: '1 name!, 2 current! MetricValueStatus, 3 container!',
    MetricValueStatus: '1 value? Quantity, 2 averageValue? Quantity, 3 averageUtilization? int',
  },
});

const cpuOfMost: Metric = {
  type: 'Resource',
  resource: { name: 'cpu', target: { type: 'Utilization', averageUtilization: 80 } },
};
const policyOf = (type: string, value: number): NonNullable<Rules['policies']>[number] => ({
  type,
  value,
  periodSeconds: 15,
});
const scaleUp: Rules = {
  stabilizationWindowSeconds: 0,
  selectPolicy: 'Max',
  policies: [policyOf('Pods', 4), policyOf('Percent', 100)],
};
const scaleDown: Rules = { selectPolicy: 'Max', policies: [policyOf('Percent', 100)] };

function withDefaults(spec: Spec): Spec {
  const { minReplicas = 1, metrics = [], behavior } = spec;
  return {
    ...spec,
    minReplicas,
    metrics: metrics.length > 0 ? metrics : [cpuOfMost],
    ...(behavior && {
      behavior: {
        scaleUp: { ...scaleUp, ...behavior.scaleUp },
        scaleDown: { ...scaleDown, ...behavior.scaleDown },
      },
    }),
  };
}

function autoscalerErrors({ spec }: HorizontalPodAutoscaler, old?: HorizontalPodAutoscaler): FieldError[] {
  const {
    scaleTargetRef,
    minReplicas,
    maxReplicas,
    metrics = [],
    behavior,
  } = spec ?? {
    scaleTargetRef: { kind: '', name: '' },
    maxReplicas: 0,
  };
  const path = ['spec'];
  const errors: FieldError[] = [];
  if (minReplicas !== undefined && minReplicas < 1) {
    errors.push(invalidField([...path, 'minReplicas'], minReplicas, 'must be greater than or equal to 1'));
  }
  const here = [...path, 'maxReplicas'];
  if (maxReplicas === 0) errors.push(requiredField(here, 'must be set and greater than 0'));
  if (maxReplicas < 0) errors.push(invalidField(here, maxReplicas, 'must be greater than or equal to 1'));
  if (minReplicas !== undefined && maxReplicas < minReplicas) {
    errors.push(invalidField(here, maxReplicas, 'must be greater than or equal to `minReplicas`'));
  }
  const before = old?.spec?.scaleTargetRef;
  const isAsBefore = before?.apiVersion === scaleTargetRef.apiVersion && before?.kind === scaleTargetRef.kind;
  return [
    ...errors,
    ...referenceErrors(scaleTargetRef, [...path, 'scaleTargetRef']),
    ...(isAsBefore || scaleTargetRef.kind === 'ReplicationController' || (scaleTargetRef.apiVersion ?? '').includes('/')
      ? []
      : [
          invalidField(
            [...path, 'scaleTargetRef', 'apiVersion'],
            scaleTargetRef.apiVersion ?? '',
            'apiVersion must specify API group',
          ),
        ]),
    ...metrics.flatMap((one, index) => metricErrors(one, [...path, 'metrics', index])),
    ...(['scaleUp', 'scaleDown'] as const).flatMap((way) => rulesErrors(behavior?.[way], [...path, 'behavior', way])),
  ];
}

function referenceErrors(given: Of<typeof reference>, path: FieldPath): FieldError[] {
  return (['kind', 'name'] as const).flatMap((field) => {
    const here = [...path, field];
    return given[field] === ''
      ? [requiredField(here)]
      : invalidFields(here, given[field], pathSegmentProblems(given[field]));
  });
}

/** The field of a metric for each of its types. */
const sources = {
  ContainerResource: 'containerResource',
  External: 'external',
  Object: 'object',
  Pods: 'pods',
  Resource: 'resource',
} as const;
/** The order in which the API server looks for them; of several it checks the first. */
const sourceOrder = ['object', 'external', 'pods', 'resource', 'containerResource'] as const;

function metricErrors(given: Metric, path: FieldPath): FieldError[] {
  const { type } = given;
  const here = [...path, 'type'];
  if (!Object.hasOwn(sources, type)) {
    const unknown = unsupportedField(here, type, Object.keys(sources));
    return [...(type === '' ? [requiredField(here, 'must specify a metric source type')] : []), unknown];
  }
  const expected = sources[type as keyof typeof sources];
  const present = sourceOrder.filter((field) => given[field] !== undefined);
  const [first] = present;
  const missing = 'must populate information for the given metric source';
  return [
    ...(first === undefined ? [] : sourceErrors(given, first, [...path, first])),
    ...(given[expected] === undefined ? [requiredField([...path, expected], missing)] : []),
    ...(present.length > 1 ? present : [])
      .filter((field) => field !== expected)
      .map((field) => forbiddenField([...path, field], 'must populate the given metric source only')),
  ];
}

function sourceErrors(given: Metric, field: (typeof sourceOrder)[number], path: FieldPath): FieldError[] {
  const { object: objectMetric, external, pods, resource, containerResource } = given;
  const at = (name: string): FieldPath => [...path, 'target', name];
  const identified = field === 'object' ? objectMetric : field === 'external' ? external : pods;
  const measured = field === 'resource' ? resource : containerResource;
  const source = given[field];
  if (source === undefined) return [];
  const { value, averageValue, averageUtilization } = source.target;
  const errors = [
    ...(field === 'object' && objectMetric
      ? referenceErrors(objectMetric.describedObject, [...path, 'describedObject'])
      : []),
    ...(field === 'containerResource' && containerResource
      ? containerErrors(containerResource.container, [...path, 'container'])
      : []),
  ];
  if (field === 'object' || field === 'external' || field === 'pods') {
    const name = identified?.metric.name ?? '';
    const here = [...path, 'metric', 'name'];
    errors.push(
      ...(name === ''
        ? [requiredField(here, 'must specify a metric name')]
        : invalidFields(here, name, pathSegmentProblems(name))),
      ...targetErrors(source.target, [...path, 'target']),
    );
    if (field === 'pods' && averageValue === undefined) {
      errors.push(requiredField(at('averageValue'), 'must specify a positive target averageValue'));
    } else if (field !== 'pods' && value === undefined && averageValue === undefined) {
      const detail =
        field === 'object'
          ? 'must set either a target value or averageValue'
          : 'must set either a target value for metric or a per-pod target';
      errors.push(requiredField(at('averageValue'), detail));
    } else if (field === 'external' && value !== undefined && averageValue !== undefined) {
      errors.push(forbiddenField(at('value'), 'may not set both a target value for metric and a per-pod target'));
    }
    return errors;
  }
  const name = measured?.name ?? '';
  const here = [...path, 'name'];
  if (name === '') errors.push(requiredField(here, 'must specify a resource name'));
  else if (field === 'containerResource') errors.push(...containerResourceNameErrors(name, here));
  errors.push(...targetErrors(source.target, [...path, 'target']));
  if (averageUtilization === undefined && averageValue === undefined) {
    const detail = 'must set either a target raw value or a target utilization';
    errors.push(requiredField(at('averageUtilization'), detail));
  } else if (averageUtilization !== undefined && averageValue !== undefined) {
    errors.push(forbiddenField(at('averageValue'), 'may not set both a target raw value and a target utilization'));
  }
  return errors;
}

function containerErrors(container: string, path: FieldPath): FieldError[] {
  if (container === '') return [requiredField(path, 'must specify a container')];
  return invalidFields(path, container, dnsLabelProblems(container));
}

const targetTypes = new Set(['Utilization', 'Value', 'AverageValue']);

function targetErrors({ type, value, averageValue, averageUtilization }: Target, path: FieldPath): FieldError[] {
  const here = [...path, 'type'];
  const errors = type === '' ? [requiredField(here, 'must specify a metric target type')] : [];
  if (!targetTypes.has(type)) {
    errors.push(invalidField(here, type, 'must be either Utilization, Value, or AverageValue'));
  }
  for (const [field, amount] of Object.entries({ value, averageValue })) {
    const isWrong = amount !== undefined && positiveQuantityErrors(amount, path).length > 0;
    if (isWrong) errors.push(invalidField([...path, field], amount, 'must be positive'));
  }
  if (averageUtilization === undefined || averageUtilization > 0) return errors;
  return [...errors, invalidField([...path, 'averageUtilization'], averageUtilization, 'must be greater than 0')];
}

const [windowSecondsMax, periodSecondsMax] = [3600, 1800];
const choices = ['Disabled', 'Max', 'Min'];
const policyTypes = ['Percent', 'Pods'];

function rulesErrors(rules: Rules | undefined, path: FieldPath): FieldError[] {
  if (rules === undefined) return [];
  const { stabilizationWindowSeconds: seconds = 0, selectPolicy, policies = [] } = rules;
  const errors: FieldError[] = [];
  const window = [...path, 'stabilizationWindowSeconds'];
  if (seconds < 0) errors.push(invalidField(window, seconds, 'must be greater than or equal to zero'));
  if (seconds > windowSecondsMax) {
    errors.push(invalidField(window, seconds, `must be less than or equal to ${windowSecondsMax}`));
  }
  if (selectPolicy !== undefined && !choices.includes(selectPolicy)) {
    errors.push(unsupportedField([...path, 'selectPolicy'], selectPolicy, choices));
  }
  if (policies.length === 0) errors.push(requiredField([...path, 'policies'], 'must specify at least one Policy'));
  for (const [index, { type, value, periodSeconds }] of policies.entries()) {
    const here = [...path, 'policies', index];
    const period = [...here, 'periodSeconds'];
    if (!policyTypes.includes(type)) errors.push(unsupportedField([...here, 'type'], type, policyTypes));
    errors.push(...positiveErrors(value, [...here, 'value']), ...positiveErrors(periodSeconds, period));
    if (periodSeconds > periodSecondsMax) {
      errors.push(invalidField(period, periodSeconds, `must be less than or equal to ${periodSecondsMax}`));
    }
  }
  return errors;
}

export function validateAutoscalerStatus(
  { metadata, status }: HorizontalPodAutoscaler,
  old: HorizontalPodAutoscaler,
): FieldError[] {
  return [
    ...validateObjectMetaUpdate(metadata, old.metadata),
    ...nonNegativeErrors(status?.currentReplicas ?? 0, ['status', 'currentReplicas']),
    ...nonNegativeErrors(status?.desiredReplicas ?? 0, ['status', 'desiredReplicas']),
  ];
}
