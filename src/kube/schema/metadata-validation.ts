/**
 * Rules for `metadata` that hold for every kind: names, labels, annotations, owners, finalizers. What a kind's own name must
 * look like is a parameter. Nothing is generated here: a name is expected to be there, as the API server does.
 */
import { goQuote } from '../values/go-text.ts';
import type { LabelExpression, LabelSelector, Labels } from '../values/labels.ts';
import {
  type Problems,
  dnsLabelProblems,
  dnsSubdomainProblems,
  labelValueProblems,
  qualifiedNameProblems,
} from '../values/names.ts';
import {
  type FieldError,
  addErrors,
  forbiddenField,
  invalidField,
  invalidFields,
  requiredField,
  tooLongField,
} from './field-errors.ts';
import type { ObjectMeta, OwnerReference } from './meta.ts';
import type { FieldPath } from './schema.ts';

/** What is wrong with a name, one message for each thing. */
type NameRule = (name: string) => readonly string[];

interface MetadataRules {
  readonly name: NameRule;
  readonly scope: 'namespace' | 'cluster';
}

const annotationSizeBytesMax = 256 * 1024;
/** Each such message carries all owners: a thousand of them would be a thousand times as long as the object. */
const extraControllersTold = 8;
export const finalizersOfKubernetes = new Set(['kubernetes', 'orphan', 'foregroundDeletion']);

export function validateObjectMeta(
  meta: ObjectMeta,
  rules: MetadataRules,
  path: FieldPath = ['metadata'],
): FieldError[] {
  const errors: FieldError[] = [];
  addErrors(errors, generateNameErrors(meta, rules.name, path), nameErrors(meta, rules.name, path));
  addErrors(errors, namespaceErrors(meta, rules.scope, path), nonNegativeGeneration(meta, path));
  addErrors(errors, mapErrors(meta, path), ownerReferenceErrors(meta.ownerReferences, path));
  addErrors(errors, finalizerErrors(meta.finalizers, path), standardFinalizerErrors(meta.finalizers, path));
  return errors;
}

export function validateObjectMetaUpdate(
  meta: ObjectMeta,
  old: ObjectMeta,
  path: FieldPath = ['metadata'],
): FieldError[] {
  const errors: FieldError[] = [];
  if (old.deletionTimestamp !== undefined) addErrors(errors, newFinalizerErrors(meta, old, [...path, 'finalizers']));
  if ((meta.resourceVersion ?? '') === '') {
    errors.push(invalidField([...path, 'resourceVersion'], '', 'must be specified for an update'));
  }
  addErrors(errors, nonNegativeGeneration(meta, path));
  if ((meta.generation ?? 0) < (old.generation ?? 0)) {
    errors.push(invalidField([...path, 'generation'], meta.generation ?? 0, 'must not be decremented'));
  }
  for (const field of ['name', 'namespace', 'uid'] as const) {
    const [now, before] = [meta[field] ?? '', old[field] ?? ''];
    if (now !== before) addErrors(errors, immutableErrors(now, before, [...path, field]));
  }
  for (const field of ['creationTimestamp', 'deletionTimestamp', 'deletionGracePeriodSeconds'] as const) {
    const [now, before] = [meta[field] ?? null, old[field] ?? null];
    if (now !== before) addErrors(errors, immutableErrors(now, before, [...path, field]));
  }
  addErrors(errors, mapErrors(meta, path), ownerReferenceErrors(meta.ownerReferences, path));
  addErrors(errors, standardFinalizerErrors(meta.finalizers, path));
  return errors;
}

function mapErrors({ labels, annotations }: ObjectMeta, path: FieldPath): readonly FieldError[] {
  if (labels === undefined && annotations === undefined) return [];
  return [
    ...validateLabels(labels ?? {}, [...path, 'labels']),
    ...validateAnnotations(annotations ?? {}, [...path, 'annotations']),
  ];
}

function nonNegativeGeneration({ generation = 0 }: ObjectMeta, path: FieldPath): readonly FieldError[] {
  return generation < 0 ? nonNegativeErrors(generation, [...path, 'generation']) : [];
}

export function validateAnnotations(annotations: Labels, path: FieldPath): FieldError[] {
  const errors = Object.keys(annotations).flatMap((key) =>
    invalidFields(path, key, qualifiedNameProblems(key.toLowerCase())),
  );
  return [...errors, ...annotationSizeErrors(annotations, path)];
}

/** Keys count as well as values. */
export function annotationSizeErrors(annotations: Labels, path: FieldPath): FieldError[] {
  let sizeBytes = 0;
  for (const [key, value] of Object.entries(annotations)) {
    sizeBytes += Buffer.byteLength(key) + Buffer.byteLength(value);
  }
  return sizeBytes > annotationSizeBytesMax ? [tooLongField(path, annotationSizeBytesMax)] : [];
}

export function nonNegativeErrors(value: number, path: FieldPath): FieldError[] {
  return value < 0 ? [invalidField(path, value, 'must be greater than or equal to 0')] : [];
}

export function immutableErrors(
  value: string | number | null,
  old: string | number | null,
  path: FieldPath,
): FieldError[] {
  return value === old ? [] : [invalidField(path, value, 'field is immutable')];
}

/** A prefix may end in a dash: something will follow it. The API server puts an `a` over the last two characters. */
export function asPrefix(rule: NameRule): NameRule {
  return (name) => rule(name.length > 1 && name.endsWith('-') ? `${name.slice(0, -2)}a` : name);
}

function generateNameErrors({ generateName = '' }: ObjectMeta, rule: NameRule, path: FieldPath): FieldError[] {
  return generateName === ''
    ? []
    : invalidFields([...path, 'generateName'], generateName, asPrefix(rule)(generateName));
}

function nameErrors({ name }: ObjectMeta, rule: NameRule, path: FieldPath): FieldError[] {
  if (name === '') return [requiredField([...path, 'name'], 'name or generateName is required')];
  const problems = rule(name);
  return problems.length === 0 ? [] : invalidFields([...path, 'name'], name, problems);
}

function namespaceErrors({ namespace = '' }: ObjectMeta, scope: MetadataRules['scope'], path: FieldPath): FieldError[] {
  const here = [...path, 'namespace'];
  if (scope === 'cluster') return namespace === '' ? [] : [forbiddenField(here, 'not allowed on this type')];
  return namespace === '' ? [requiredField(here)] : invalidFields(here, namespace, dnsLabelProblems(namespace));
}

function ownerReferenceErrors(owners: readonly OwnerReference[] = [], metadata: FieldPath): FieldError[] {
  if (owners.length === 0) return [];
  const path = [...metadata, 'ownerReferences'];
  const errors: FieldError[] = [];
  const controllers: string[] = [];
  for (const [index, owner] of owners.entries()) {
    errors.push(...ownerErrors(owner, [...path, index]));
    if (owner.controller !== true || controllers.length > extraControllersTold) continue;
    const name = `${owner.kind}/${owner.name}`;
    const [first] = controllers;
    controllers.push(name);
    if (first === undefined) continue;
    const detail = `Only one reference can have Controller set to true. Found "true" in references for ${first} and ${name}`;
    errors.push(invalidField(path, owners, detail));
  }
  return errors;
}

function ownerErrors(owner: OwnerReference, path: FieldPath): FieldError[] {
  const errors: FieldError[] = [];
  const parts = owner.apiVersion.split('/');
  if (owner.apiVersion === '') errors.push(requiredField([...path, 'apiVersion'], 'must not be empty'));
  else if (parts.length > 2 || parts.at(-1) === '') {
    errors.push(invalidField([...path, 'apiVersion'], owner.apiVersion, 'must be <group>/<version> or <version>'));
  }
  for (const field of ['kind', 'name', 'uid'] as const) {
    if (owner[field] === '') errors.push(requiredField([...path, field], 'must not be empty'));
  }
  if (owner.apiVersion === 'v1' && owner.kind === 'Event') {
    errors.push(invalidField(path, owner, '/v1, Kind=Event is disallowed from being an owner'));
  }
  return errors;
}

function finalizerErrors(finalizers: readonly string[] = [], metadata: FieldPath): FieldError[] {
  if (finalizers.length === 0) return [];
  const path = [...metadata, 'finalizers'];
  const errors = finalizers.flatMap((name) => invalidFields(path, name, qualifiedNameProblems(name)));
  if (finalizers.includes('orphan') && finalizers.includes('foregroundDeletion')) {
    errors.push(invalidField(path, finalizers, 'finalizer orphan and foregroundDeletion cannot be both set'));
  }
  return errors;
}

function standardFinalizerErrors(finalizers: readonly string[] = [], metadata: FieldPath): FieldError[] {
  if (finalizers.length === 0) return [];
  const path = [...metadata, 'finalizers'];
  const detail = 'name is neither a standard finalizer name nor is it fully qualified';
  return finalizers.flatMap((name, index) =>
    name.includes('/') || finalizersOfKubernetes.has(name) ? [] : [invalidField([...path, index], name, detail)],
  );
}

function newFinalizerErrors(meta: ObjectMeta, old: ObjectMeta, path: FieldPath): FieldError[] {
  const added = [...new Set(meta.finalizers)].filter((name) => !old.finalizers?.includes(name)).sort();
  if (added.length === 0) return [];
  const list = added.map((name) => goQuote(name)).join(', ');
  const detail = `no new finalizers can be added if the object is being deleted, found new finalizers []string{${list}}`;
  return [forbiddenField(path, detail)];
}

/** Names of certificate signers, and of the trust bundles that belong to them. */
const domainBytesMax = 253;
/** A domain, then a namespace and a name with a dot between them. */
const signerBytesMax = domainBytesMax + 1 + 63 + 1 + 253;

export function isKubernetesSigner(signerName: string): boolean {
  const [domain = ''] = signerName.split('/');
  return domain === 'kubernetes.io' || domain.endsWith('.kubernetes.io');
}

export function signerNameErrors(signerName: string, path: FieldPath): FieldError[] {
  if (signerName === '') return [requiredField(path)];
  const [domain = '', name = '', ...more] = signerName.split('/');
  if (!signerName.includes('/') || more.length > 0) {
    const detail = "must be a fully qualified domain and path of the form 'example.com/signer-name'";
    return [invalidField(path, signerName, detail)];
  }
  const errors: FieldError[] = [];
  if (Buffer.byteLength(domain) > domainBytesMax) errors.push(tooLongField(path, domainBytesMax));
  errors.push(...partErrors(domain, dnsLabelProblems, path));
  if (!domain.includes('.')) {
    errors.push(invalidField(path, domain, 'should be a domain with at least two segments separated by dots'));
  }
  errors.push(...partErrors(name, dnsSubdomainProblems, path));
  if (Buffer.byteLength(signerName) > signerBytesMax) errors.push(tooLongField(path, signerBytesMax));
  return errors;
}

/** Only the first bad part is reported: the next ones would say the same. */
function partErrors(text: string, rule: (part: string) => Problems, path: FieldPath): FieldError[] {
  for (const part of text.split('.')) {
    const problems = rule(part);
    if (problems.length === 0) continue;
    return invalidFields(
      path,
      text,
      problems.map((problem) => `validating label ${goQuote(part)}: ${problem}`),
    );
  }
  return [];
}

/** A bundle of a signer carries the signer's name in its own: `example.com:signer:name`. */
export function trustBundleNameProblems(signerName: string): (name: string) => Problems {
  return (name) => {
    if (signerName === '') {
      if (name.includes(':')) return ['ClusterTrustBundle without signer name must not have ":" in its name'];
      return dnsSubdomainProblems(name);
    }
    const prefix = `${signerName.replaceAll('/', ':')}:`;
    if (!name.startsWith(prefix)) {
      return [`ClusterTrustBundle for signerName ${signerName} must be named with prefix ${prefix}`];
    }
    return dnsSubdomainProblems(name.slice(prefix.length));
  };
}

/** The signer that a bundle's name speaks of; empty where it speaks of none. */
export function signerInBundleName(name: string): string {
  const end = name.lastIndexOf(':');
  return end < 0 ? '' : name.slice(0, end).replaceAll(':', '/');
}

export function validateLabelSelector(selector: LabelSelector | undefined, path: FieldPath): FieldError[] {
  if (selector === undefined) return [];
  const errors = validateLabels(selector.matchLabels ?? {}, [...path, 'matchLabels']);
  for (const [index, expression] of (selector.matchExpressions ?? []).entries()) {
    addErrors(errors, validateExpression(expression, [...path, 'matchExpressions', index]));
  }
  return errors;
}

export function validateLabels(labels: Labels, path: FieldPath): FieldError[] {
  const errors: FieldError[] = [];
  for (const [key, value] of Object.entries(labels)) {
    errors.push(...qualifiedNameProblems(key).map((problem) => invalidField(path, key, problem)));
    errors.push(...labelValueProblems(value).map((problem) => invalidField(path, value, problem)));
  }
  return errors;
}

function validateExpression({ key, operator, values = [] }: LabelExpression, path: FieldPath): FieldError[] {
  const errors: FieldError[] = [];
  const valuesPath = [...path, 'values'];
  if (operator === 'In' || operator === 'NotIn') {
    if (values.length === 0) {
      errors.push(requiredField(valuesPath, "must be specified when `operator` is 'In' or 'NotIn'"));
    }
  } else if (operator === 'Exists' || operator === 'DoesNotExist') {
    if (values.length > 0) {
      errors.push(forbiddenField(valuesPath, "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"));
    }
  } else errors.push(invalidField([...path, 'operator'], operator, 'not a valid selector operator'));
  errors.push(...qualifiedNameProblems(key).map((problem) => invalidField([...path, 'key'], key, problem)));
  for (const [index, value] of values.entries()) {
    errors.push(...labelValueProblems(value).map((problem) => invalidField([...valuesPath, index], value, problem)));
  }
  return errors;
}
