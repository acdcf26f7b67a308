/**
 * All rules for an object of any kind: those of the kind, and those for metadata that hold for every kind, so that a name that
 * a kind forgot to look at never becomes a key of the store.
 */
import type { FieldError } from '../kube/validation/field-errors.ts';
import { pathSegmentProblems } from '../kube/values/names.ts';
import { validateObjectMeta, validateObjectMetaUpdate } from '../kube/validation/validate-metadata.ts';
import type { MetadataRules } from '../kube/validation/validate-metadata.ts';
import type { KubeObject, Resource, Subresource } from './resource.ts';

/** The kind's own words come first; where it has any, they are enough. */
export function validateNewObject(resource: Resource, object: KubeObject): readonly FieldError[] {
  const errors = resource.validate(object);
  return errors.length > 0 ? once(errors) : validateObjectMeta(object.metadata, commonRules(resource));
}

/** With a subresource, by its rules in place of the main ones. */
export function validateChangedObject(
  resource: Resource,
  object: KubeObject,
  old: KubeObject,
  subresource?: Subresource,
): readonly FieldError[] {
  const own = subresource?.update?.validate(object, old) ?? resource.validateUpdate(object, old);
  return once([
    ...validateObjectMeta(object.metadata, commonRules(resource)),
    ...validateObjectMetaUpdate(object.metadata, old.metadata),
    ...own,
  ]);
}

function commonRules({ namespaced }: Resource): MetadataRules {
  return { name: pathSegmentProblems, scope: namespaced ? 'namespace' : 'cluster' };
}

/** The same complaint may come from both sides; it is said once. */
function once(errors: readonly FieldError[]): readonly FieldError[] {
  return [...new Map(errors.map((error) => [error.message, error])).values()];
}
