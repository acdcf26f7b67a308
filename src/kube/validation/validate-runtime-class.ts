/** Rules for RuntimeClasses, on creation and on update. */
import { invalidFields, requiredField } from './field-errors.ts';
import type { FieldError } from './field-errors.ts';
import { validateLabels } from '../values/labels.ts';
import { dnsLabelProblems, dnsSubdomainProblems } from '../values/names.ts';
import type { RuntimeClass } from '../objects/runtime-class.ts';
import { immutableErrors, validateObjectMeta, validateObjectMetaUpdate } from './validate-metadata.ts';
import { containerResourceErrors } from './validate-resources.ts';
import { tolerationErrors } from './validate-scheduling.ts';

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
