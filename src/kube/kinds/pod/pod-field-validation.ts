/** Rules for the smaller fields of a pod: choices, gates, claims. */
import {
  type FieldError,
  duplicateField,
  forbiddenField,
  invalidField,
  invalidFields,
  placedAt,
  requiredField,
  tooLongField,
  unsupportedField,
} from '../../schema/field-errors.ts';
import type { ObjectMeta } from '../../schema/meta.ts';
import { type FieldPath, keyPart } from '../../schema/schema.ts';
import { goQuote } from '../../values/go-text.ts';
import type { Labels } from '../../values/labels.ts';
import {
  descendingPathProblems,
  dnsLabelProblems,
  dnsSubdomainProblems,
  qualifiedNameProblems,
} from '../../values/names.ts';
import { addressProblems, searchDomainProblems } from '../../values/network-names.ts';
import { isMirrorPod, mirrorAnnotation } from './pod-identity.ts';
import { type PodSpec, allContainers } from './pod-spec.ts';

/** In the order in which the API server lists them. */
const choices = {
  restartPolicy: ['Always', 'OnFailure', 'Never'],
  dnsPolicy: ['ClusterFirstWithHostNet', 'ClusterFirst', 'Default', 'None'],
  preemptionPolicy: ['PreemptLowerPriority', 'Never'],
};

export function choiceErrors(field: keyof typeof choices, value: string, path: FieldPath): FieldError[] {
  if (value === '') return [requiredField(path)];
  return choices[field].includes(value) ? [] : [unsupportedField(path, value, choices[field])];
}

export function preemptionErrors(policy: string | undefined, path: FieldPath): FieldError[] {
  return policy === undefined ? [] : choiceErrors('preemptionPolicy', policy, path);
}

export function gateErrors({ readinessGates = [], schedulingGates = [] }: PodSpec, path: FieldPath): FieldError[] {
  const errors = readinessGates.flatMap(({ conditionType }, index) =>
    invalidFields(
      [...path, 'readinessGates', index, 'conditionType'],
      conditionType,
      qualifiedNameProblems(conditionType),
    ),
  );
  const seen = new Set<string>();
  for (const [index, { name }] of schedulingGates.entries()) {
    const here = [...path, 'schedulingGates', index];
    errors.push(...placedAt([...here, 'name'], invalidFields(here, name, qualifiedNameProblems(name))));
    if (seen.has(name)) errors.push(...placedAt([...here, 'name'], [duplicateField(here, name)]));
    seen.add(name);
  }
  return errors;
}

const systems = ['linux', 'windows'];

/** Which fields suit which system is left to the node, and only Linux nodes exist here. */
export function osErrors({ os }: PodSpec, path: FieldPath): FieldError[] {
  if (os === undefined) return [];
  if (os.name === '') return [requiredField([...path, 'os', 'name'])];
  return systems.includes(os.name) ? [] : [unsupportedField([...path, 'os'], os.name, systems)];
}

type Claims = NonNullable<PodSpec['resourceClaims']>;

export function resourceClaimErrors(claims: Claims, metadata: ObjectMeta | undefined, path: FieldPath): FieldError[] {
  const isMirror = metadata !== undefined && isMirrorPod({ metadata });
  const names = new Set<string>();
  return claims.flatMap((claim, index) => {
    const here = [...path, index];
    if (isMirror) {
      const refusal = forbiddenField([keyPart('')], 'static pods do not support resource claims');
      return placedAt(here, [refusal]);
    }
    const { name, resourceClaimName: own, resourceClaimTemplateName: template } = claim;
    const errors: FieldError[] = [];
    if (name === '') errors.push(requiredField([...here, 'name']));
    else if (names.has(name)) errors.push(duplicateField([...here, 'name'], name));
    else errors.push(...invalidFields([...here, 'name'], name, dnsLabelProblems(name)));
    names.add(name);
    if (own !== undefined && template !== undefined) {
      const detail = 'at most one of `resourceClaimName` or `resourceClaimTemplateName` may be specified';
      errors.push(invalidField(here, claim, detail));
    }
    if (own === undefined && template === undefined) {
      const detail = 'must specify one of: `resourceClaimName`, `resourceClaimTemplateName`';
      errors.push(invalidField(here, claim, detail));
    }
    for (const [field, value] of [
      ['resourceClaimName', own] as const,
      ['resourceClaimTemplateName', template] as const,
    ]) {
      if (value !== undefined) errors.push(...invalidFields([...here, field], value, dnsSubdomainProblems(value)));
    }
    return errors;
  });
}

export function schedulingGroupErrors(
  { schedulingGroup, evictionResponders = [] }: PodSpec,
  path: FieldPath,
): FieldError[] {
  if (schedulingGroup === undefined) return [];
  const { podGroupName: name } = schedulingGroup;
  const here = [...path, 'podGroupName'];
  const errors =
    name === undefined
      ? [invalidField(here, null, 'must specify one of: `podGroupName`')]
      : invalidFields(here, name, dnsSubdomainProblems(name));
  if (evictionResponders.length === 0) return errors;
  return [...errors, forbiddenField(path, 'may not be set when evictionResponders is set')];
}

// Rules for what a pod shares with its host and what it is called: network, users, names, resolver.

/** The C library reads no more than these. */
const nameserverCountMax = 3;
const searchCountMax = 32;
const searchLengthMax = 2048;
/** The longest host name that Linux keeps. */
const hostnameBytesMax = 64;

/** In a template a port may be left open: the pod made of it will get its container's. */
export function hostNetworkErrors(spec: PodSpec, isPod: boolean, path: FieldPath): FieldError[] {
  if (spec.hostNetwork !== true) return [];
  return spec.containers.flatMap(({ ports = [] }, index) =>
    ports.flatMap(({ hostPort = 0, containerPort }, portIndex) => {
      if (hostPort === containerPort || (!isPod && hostPort === 0)) return [];
      const here = [...path, 'containers', index, 'ports', portIndex, 'hostPort'];
      return [invalidField(here, hostPort, 'must match `containerPort` when `hostNetwork` is true')];
    }),
  );
}

export function hostUsersErrors(spec: PodSpec, path: FieldPath): FieldError[] {
  if (spec.hostUsers !== false) return [];
  const errors: FieldError[] = [];
  const detail = 'when `hostUsers` is false';
  if (spec.hostNetwork === true) errors.push(forbiddenField([...path, 'hostNetwork'], detail));
  for (const field of ['hostPID', 'hostIPC'] as const) {
    // The API server prints these two with a capital.
    const printed = [...path, field.replace('host', 'Host')];
    if (spec[field] === true) errors.push(...placedAt([...path, field], [forbiddenField(printed, detail)]));
  }
  for (const kind of ['initContainers', 'containers', 'ephemeralContainers'] as const) {
    for (const [index, { volumeDevices = [] }] of (spec[kind] ?? []).entries()) {
      if (volumeDevices.length > 0) errors.push(forbiddenField([...path, kind, index, 'volumeDevices'], detail));
    }
  }
  return errors;
}

export function hostnameErrors(
  { hostnameOverride: name, setHostnameAsFQDN, hostNetwork }: PodSpec,
  path: FieldPath,
): FieldError[] {
  if (name === undefined) return [];
  return [
    ...(setHostnameAsFQDN === true
      ? [forbiddenField(path, 'may not be specified when setHostnameAsFQDN is true')]
      : []),
    ...(hostNetwork === true ? [forbiddenField(path, 'may not be specified when hostNetwork is true')] : []),
    ...(Buffer.byteLength(name) > hostnameBytesMax ? [tooLongField(path, hostnameBytesMax)] : []),
    ...invalidFields(path, name, dnsSubdomainProblems(name)),
  ];
}

export function hostAliasErrors(aliases: NonNullable<PodSpec['hostAliases']>, path: FieldPath): FieldError[] {
  return aliases.flatMap(({ ip, hostnames = [] }, index) => [
    ...invalidFields([...path, index, 'ip'], ip, addressProblems(ip)),
    ...hostnames.flatMap((name, nameIndex) =>
      invalidFields([...path, index, 'hostnames', nameIndex], name, dnsSubdomainProblems(name)),
    ),
  ]);
}

export function dnsErrors({ dnsConfig, dnsPolicy }: PodSpec, path: FieldPath): FieldError[] {
  const { nameservers = [], searches = [], options = [] } = dnsConfig ?? {};
  if (dnsPolicy === 'None' && dnsConfig === undefined) {
    return [requiredField(path, 'must provide `dnsConfig` when `dnsPolicy` is None')];
  }
  if (dnsPolicy === 'None' && nameservers.length === 0) {
    const detail = 'must provide at least one DNS nameserver when `dnsPolicy` is None';
    return [requiredField([...path, 'nameservers'], detail)];
  }
  return [
    ...(nameservers.length > nameserverCountMax
      ? [
          invalidField(
            [...path, 'nameservers'],
            nameservers,
            `must not have more than ${nameserverCountMax} nameservers`,
          ),
        ]
      : []),
    ...nameservers.flatMap((address, index) =>
      invalidFields([...path, 'nameservers', index], address, addressProblems(address)),
    ),
    ...searchErrors(searches, [...path, 'searches']),
    ...options.flatMap(({ name = '' }, index) =>
      name === '' ? [requiredField([...path, 'options', index], 'must not be empty')] : [],
    ),
  ];
}

function searchErrors(searches: readonly string[], path: FieldPath): FieldError[] {
  const errors: FieldError[] = [];
  if (searches.length > searchCountMax) {
    errors.push(invalidField(path, searches, `must not have more than ${searchCountMax} search paths`));
  }
  if (Buffer.byteLength(searches.join(' ')) > searchLengthMax) {
    const detail = `must not have more than ${searchLengthMax} characters (including spaces) in the search list`;
    errors.push(invalidField(path, searches, detail));
  }
  for (const [index, search] of searches.entries()) {
    if (search === '.') continue;
    const domain = search.replace(/\.$/, '');
    errors.push(...invalidFields([...path, index], domain, searchDomainProblems(domain)));
  }
  return errors;
}

/** Rules for the annotations that the API server itself understands on pods. */
const deletionCost = 'controller.kubernetes.io/pod-deletion-cost';
const seccompOfPod = 'seccomp.security.alpha.kubernetes.io/pod';
const seccompOfContainer = 'container.seccomp.security.alpha.kubernetes.io/';
const appArmorOfContainer = 'container.apparmor.security.beta.kubernetes.io/';
const int32Min = -(2 ** 31);
const int32Max = 2 ** 31 - 1;

export function podAnnotationErrors(annotations: Labels, spec: PodSpec, path: FieldPath): FieldError[] {
  const errors: FieldError[] = [];
  const value = (key: string): string | undefined => (Object.hasOwn(annotations, key) ? annotations[key] : undefined);
  const mirrored = value(mirrorAnnotation);
  if (mirrored !== undefined && (spec.nodeName ?? '') === '') {
    const detail = 'must set spec.nodeName if mirror pod annotation is set';
    errors.push(invalidField([...path, keyPart(mirrorAnnotation)], mirrored, detail));
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
