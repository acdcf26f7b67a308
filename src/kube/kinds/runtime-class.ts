/** A way to run containers that a node offers under a handler's name. */
import { type FieldError, invalidFields, requiredField } from '../schema/field-errors.ts';
import { objectFields } from '../schema/meta.ts';
import {
  immutableErrors,
  validateLabels,
  validateObjectMeta,
  validateObjectMetaUpdate,
} from '../schema/metadata-validation.ts';
import { type Of, list, map, object, quantity, required, string, described } from '../schema/schema.ts';
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

/** Rules for RuntimeClasses, on creation and on update. */
export function validateRuntimeClass({ metadata, handler, overhead, scheduling }: RuntimeClass): FieldError[] {
  return [
    ...validateObjectMeta(metadata, { name: dnsSubdomainProblems, scope: 'cluster' }),
    ...(handler === '' ? [requiredField(['handler'])] : invalidFields(['handler'], handler, dnsLabelProblems(handler))),
    ...(overhead?.podFixed ? containerResourceErrors({ limits: overhead.podFixed }, new Set(), ['overhead']) : []),
    ...validateLabels(scheduling?.nodeSelector ?? {}, ['scheduling', 'nodeSelector']),
    ...tolerationErrors(scheduling?.tolerations ?? [], ['scheduling', 'tolerations']),
  ];
}

export function validateRuntimeClassUpdate(runtimeClass: RuntimeClass, old: RuntimeClass): FieldError[] {
  return [
    ...validateRuntimeClass(runtimeClass),
    ...validateObjectMetaUpdate(runtimeClass.metadata, old.metadata),
    ...immutableErrors(runtimeClass.handler, old.handler, ['handler']),
  ];
}
