/** A way to run containers that a node offers under a handler's name. */
import { type FieldError, invalidFields, requiredField } from '../schema/field-errors.ts';
import { resourceKind } from '../schema/kind.ts';
import { objectFields } from '../schema/meta.ts';
import {
  immutableErrors,
  validateLabels,
  validateObjectMeta,
  validateObjectMetaUpdate,
} from '../schema/metadata-validation.ts';
import { type Of, described, list, map, object, quantity, required, string } from '../schema/schema.ts';
import { dnsLabelProblems, dnsSubdomainProblems } from '../values/names.ts';
import { toleration } from './pod/pod-spec.ts';
import { containerResourceErrors } from './pod/resource-validation.ts';
import { tolerationErrors } from './pod/scheduling-validation.ts';

export const runtimeClassShape = described(
  {
    text: 'A way to run containers.',
    fields: {
      handler: 'What the node calls it. It cannot be changed.',
      overhead: 'What running a pod this way costs.',
      scheduling: 'The nodes that can do it.',
    },
  },
  object({
    ...objectFields,
    handler: required(string),
    overhead: object({ podFixed: map(quantity) }),
    scheduling: object({ nodeSelector: map(string), tolerations: list(toleration) }),
  }),
);
export interface RuntimeClass extends Of<typeof runtimeClassShape> {}

export const runtimeClassKind = resourceKind<RuntimeClass>({
  group: 'node.k8s.io',
  kind: 'RuntimeClass',
  plural: 'runtimeclasses',
  namespaced: false,
  shape: runtimeClassShape,
  validate: validateRuntimeClass,
  validateUpdate: validateRuntimeClassUpdate,
  wire: {
    RuntimeClass: '1 metadata ObjectMeta, 2 handler!, 3 overhead? Overhead, 4 scheduling? Scheduling',
    Overhead: '1 podFixed {Quantity}',
    Scheduling: '1 nodeSelector {string}, 2 tolerations [Toleration]',
  },
});

/** Rules for RuntimeClasses, on creation and on update. */
function validateRuntimeClass({ metadata, handler, overhead, scheduling }: RuntimeClass): FieldError[] {
  return [
    ...validateObjectMeta(metadata, { name: dnsSubdomainProblems, scope: 'cluster' }),
    ...(handler === '' ? [requiredField(['handler'])] : invalidFields(['handler'], handler, dnsLabelProblems(handler))),
    ...(overhead?.podFixed ? containerResourceErrors({ limits: overhead.podFixed }, new Set(), ['overhead']) : []),
    ...validateLabels(scheduling?.nodeSelector ?? {}, ['scheduling', 'nodeSelector']),
    ...tolerationErrors(scheduling?.tolerations ?? [], ['scheduling', 'tolerations']),
  ];
}

function validateRuntimeClassUpdate(runtimeClass: RuntimeClass, old: RuntimeClass): FieldError[] {
  return [
    ...validateRuntimeClass(runtimeClass),
    ...validateObjectMetaUpdate(runtimeClass.metadata, old.metadata),
    ...immutableErrors(runtimeClass.handler, old.handler, ['handler']),
  ];
}
