/** A template of pods on its own. Workloads carry theirs inside; this is one to be copied from. */
import type { FieldError } from '../schema/field-errors.ts';
import { resourceKind } from '../schema/kind.ts';
import { objectFields } from '../schema/meta.ts';
import { validateObjectMeta, validateObjectMetaUpdate } from '../schema/metadata-validation.ts';
import { type Of, described, object, required } from '../schema/schema.ts';
import { dnsSubdomainProblems } from '../values/names.ts';
import { validatePodTemplateSpec } from './pod/pod-validation.ts';
import { defaultPodTemplateSpec, podTemplateSpec } from './pod/pod.ts';

export const podTemplateShape = described(
  { text: 'A template that pods can be made from.', fields: { template: 'What the pods should be.' } },
  object({ ...objectFields, template: required(podTemplateSpec) }),
);
export interface PodTemplate extends Of<typeof podTemplateShape> {}

export const podTemplateKind = resourceKind<PodTemplate>({
  kind: 'PodTemplate',
  plural: 'podtemplates',
  namespaced: true,
  shape: podTemplateShape,
  complete: (given) => ({ ...given, template: defaultPodTemplateSpec(given.template) }),
  validate: ({ metadata, template }) => [
    ...validateObjectMeta(metadata, { name: dnsSubdomainProblems, scope: 'namespace' }),
    ...templateErrors(template),
  ],
  validateUpdate: ({ metadata, template }, old) => [
    ...validateObjectMetaUpdate(metadata, old.metadata),
    ...templateErrors(template),
  ],
  wire: {
    PodTemplate: '1 metadata ObjectMeta, 2 template PodTemplateSpec',
    PodTemplateSpec: '1 metadata ObjectMeta, 2 spec PodSpec',
  },
});

function templateErrors(template: PodTemplate['template']): readonly FieldError[] {
  return validatePodTemplateSpec(template, ['template']);
}
