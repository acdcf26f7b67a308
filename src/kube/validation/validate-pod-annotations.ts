/** Rules for the annotations that the API server itself understands on pods. */
import { type PodSpec, allContainers } from '../objects/pod.ts';
import type { FieldPath } from '../objects/schema.ts';
import { mirrorAnnotation as mirror } from '../pod-identity.ts';
import { goQuote } from '../values/go-quote.ts';
import type { Labels } from '../values/labels.ts';
import { descendingPathProblems } from '../values/names.ts';
import { type FieldError, invalidField, invalidFields, keyPart, placedAt } from './field-errors.ts';

const deletionCost = 'controller.kubernetes.io/pod-deletion-cost';
const seccompOfPod = 'seccomp.security.alpha.kubernetes.io/pod';
const seccompOfContainer = 'container.seccomp.security.alpha.kubernetes.io/';
const appArmorOfContainer = 'container.apparmor.security.beta.kubernetes.io/';
const int32Min = -(2 ** 31);
const int32Max = 2 ** 31 - 1;

export function podAnnotationErrors(annotations: Labels, spec: PodSpec, path: FieldPath): FieldError[] {
  const errors: FieldError[] = [];
  const value = (key: string): string | undefined => (Object.hasOwn(annotations, key) ? annotations[key] : undefined);
  const mirrored = value(mirror);
  if (mirrored !== undefined && (spec.nodeName ?? '') === '') {
    const detail = 'must set spec.nodeName if mirror pod annotation is set';
    errors.push(invalidField([...path, keyPart(mirror)], mirrored, detail));
  }
  const cost = value(deletionCost);
  if (cost !== undefined && !isCost(cost)) {
    errors.push(invalidField([...path, keyPart(deletionCost)], cost, 'must be a 32bit integer'));
  }
  for (const key of [seccompOfPod, ...Object.keys(annotations).filter((name) => name.startsWith(seccompOfContainer))]) {
    const profile = value(key);
    if (profile === undefined) continue;
    errors.push(...placedAt([...path, keyPart(key)], seccompErrors(profile, [...path, key])));
  }
  return [...errors, ...appArmorErrors(annotations, spec, path)];
}

/** A number as Go writes one: no plus, no zeros in front. */
function isCost(text: string): boolean {
  return /^(0|[1-9]\d*|-\d+)$/.test(text) && Number(text) >= int32Min && Number(text) <= int32Max;
}

function seccompErrors(profile: string, path: FieldPath): FieldError[] {
  if (['runtime/default', 'docker/default', 'unconfined'].includes(profile)) return [];
  const local = 'localhost/';
  if (!profile.startsWith(local)) return [invalidField(path, profile, 'must be a valid seccomp profile')];
  const file = profile.slice(local.length);
  return invalidFields(path, file, descendingPathProblems(file));
}

function appArmorErrors(annotations: Labels, spec: PodSpec, path: FieldPath): FieldError[] {
  const errors: FieldError[] = [];
  const names = new Set(allContainers(spec).map(({ name }) => name));
  for (const [key, profile] of Object.entries(annotations)) {
    if (!key.startsWith(appArmorOfContainer)) continue;
    const here = [...path, keyPart(key)];
    const container = key.slice(appArmorOfContainer.length);
    if (!names.has(container)) errors.push(invalidField(here, container, 'container not found'));
    if (!['', 'runtime/default', 'unconfined'].includes(profile) && !profile.startsWith('localhost/')) {
      errors.push(invalidField(here, profile, `invalid AppArmor profile name: ${goQuote(profile)}`));
    }
  }
  return errors;
}
