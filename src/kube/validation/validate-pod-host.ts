/** Rules for what a pod shares with its host and what it is called: network, users, names, resolver. */
import { forbiddenField, invalidField, invalidFields, placedAt, requiredField, tooLongField } from './field-errors.ts';
import type { FieldError } from './field-errors.ts';
import { dnsSubdomainProblems } from '../values/names.ts';
import { addressProblems, searchDomainProblems } from '../values/network-names.ts';
import type { PodSpec } from '../objects/pod.ts';
import type { FieldPath } from '../objects/schema.ts';

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
