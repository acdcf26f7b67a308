/** A version of what a controller was asked for, kept so that it can go back. Its data never changes; which revision it is may. */
import { canonicalJson } from '../schema/equality.ts';
import { type FieldError, invalidField, requiredField } from '../schema/field-errors.ts';
import { resourceKind } from '../schema/kind.ts';
import { objectFields } from '../schema/meta.ts';
import { nonNegativeErrors, validateObjectMeta, validateObjectMetaUpdate } from '../schema/metadata-validation.ts';
import { type Of, any, described, integer, object, required } from '../schema/schema.ts';
import { dnsSubdomainProblems } from '../values/names.ts';

const controllerRevisionShape = described(
  {
    text: 'A version of what a controller was asked for.',
    fields: {
      data: 'What was asked for, in the form of the controller. It cannot be changed.',
      revision: 'Its number.',
    },
  },
  object({ ...objectFields, data: any, revision: required(integer) }),
);
export interface ControllerRevision extends Of<typeof controllerRevisionShape> {}

export const controllerRevisionKind = resourceKind<ControllerRevision>({
  group: 'apps',
  kind: 'ControllerRevision',
  plural: 'controllerrevisions',
  namespaced: true,
  shape: controllerRevisionShape,
  validate: validateControllerRevision,
  validateUpdate: (changed, old) => [
    ...validateObjectMetaUpdate(changed.metadata, old.metadata),
    ...validateControllerRevision(changed),
    ...(canonicalJson(changed.data) === canonicalJson(old.data)
      ? []
      : [invalidField(['data'], changed.data, 'field is immutable')]),
  ],
  wire: { ControllerRevision: '1 metadata ObjectMeta, 2 data? RawJson, 3 revision! int' },
});

function validateControllerRevision({ metadata, data, revision }: ControllerRevision): readonly FieldError[] {
  return [
    ...validateObjectMeta(metadata, { name: dnsSubdomainProblems, scope: 'namespace' }),
    ...(data === undefined ? [requiredField(['data'], 'data is mandatory')] : []),
    ...nonNegativeErrors(revision, ['revision']),
  ];
}
