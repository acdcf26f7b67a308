/** Rules for projected volumes: what each source may say, and that no two of them claim the same file by name. */
import { MountletError } from '../../../base/errors.ts';
import {
  type FieldError,
  addErrors,
  forbiddenField,
  invalidField,
  invalidFields,
  placedAt,
  placedBelow,
  requiredField,
  unsupportedText,
} from '../../schema/field-errors.ts';
import {
  annotationSizeErrors,
  isKubernetesSigner,
  signerInBundleName,
  signerNameErrors,
  trustBundleNameProblems,
  validateLabelSelector,
} from '../../schema/metadata-validation.ts';
import { fileModeErrors, idErrors } from '../../schema/number-validation.ts';
import type { FieldPath } from '../../schema/schema.ts';
import { checkedFieldLabel, splitSubscript } from '../../values/field-path.ts';
import { projectedPathProblems, qualifiedNameProblems } from '../../values/names.ts';
import { Quantity } from '../../values/quantity.ts';
import type {
  ClusterTrustBundleProjection,
  DownwardApiFile,
  FieldReference,
  KeyToPath,
  ObjectProjection,
  PodCertificateProjection,
  ProjectedVolumeSource,
  ResourceFieldReference,
  ServiceAccountTokenProjection,
  VolumeProjection,
} from './volume.ts';

const tokenSecondsMin = 10 * 60;
const tokenSecondsMax = 2 ** 32;
const certificateSecondsMin = 60 * 60;
const certificateSecondsMax = 91 * 24 * 60 * 60;
/** Kubernetes' own signers give no certificate for longer than a day. */
const kubernetesCertificateSecondsMax = 24 * 60 * 60;
const keyTypes = ['RSA3072', 'RSA4096', 'ECDSAP256', 'ECDSAP384', 'ECDSAP521', 'ED25519'];

/** The files named so far. Tokens and whole objects take no part: the API server leaves their conflicts to the node. */
class NamedFiles {
  readonly #paths = new Set<string>();
  readonly #volumePath: FieldPath;

  constructor(volumePath: FieldPath) {
    this.#volumePath = volumePath;
  }

  /** `owner` is what the message blames: an object's name, or the path itself. */
  claim(path: string, owner: string, at: FieldPath): FieldError[] {
    if (!this.#paths.has(path)) {
      this.#paths.add(path);
      return [];
    }
    return placedAt(at, [invalidField(this.#volumePath, owner, 'conflicting duplicate paths')]);
  }
}

export function projectedErrors(source: ProjectedVolumeSource, path: FieldPath): FieldError[] {
  const files = new NamedFiles(path);
  return [
    ...fileModeErrors(source.defaultMode, [...path, 'defaultMode']),
    ...idErrors(source.defaultUser, [...path, 'defaultUser']),
    ...(source.sources ?? []).flatMap((projection, index) =>
      projectionErrors(projection, files, [...path, 'sources', index], path),
    ),
  ];
}

function projectionErrors(
  projection: VolumeProjection,
  files: NamedFiles,
  path: FieldPath,
  volumePath: FieldPath,
): FieldError[] {
  const { secret, configMap, downwardAPI, serviceAccountToken, clusterTrustBundle, podCertificate } = projection;
  const errors: FieldError[] = [];
  if (secret) addErrors(errors, objectErrors(secret, files, [...path, 'secret']));
  if (configMap) addErrors(errors, objectErrors(configMap, files, [...path, 'configMap']));
  for (const [index, item] of (downwardAPI?.items ?? []).entries()) {
    const printed = [...path, 'downwardAPI'];
    const real = [...printed, 'items', index];
    errors.push(...placedBelow(real, printed, downwardApiFileErrors(item, printed)));
    if (item.path !== '') errors.push(...files.claim(item.path, item.path, [...real, 'path']));
  }
  if (serviceAccountToken) {
    errors.push(...tokenErrors(serviceAccountToken, [...path, 'serviceAccountToken'], volumePath));
  }
  if (clusterTrustBundle) addErrors(errors, bundleErrors(clusterTrustBundle, files, [...path, 'clusterTrustBundle']));
  if (podCertificate) addErrors(errors, certificateErrors(podCertificate, files, [...path, 'podCertificate']));
  if (Object.values(projection).filter((source) => source !== undefined).length > 1) {
    errors.push(forbiddenField(path, 'may not specify more than 1 volume type per source'));
  }
  return errors;
}

function objectErrors({ name, items = [] }: ObjectProjection, files: NamedFiles, path: FieldPath): FieldError[] {
  const errors = name === '' ? [requiredField([...path, 'name'])] : [];
  for (const [index, item] of items.entries()) {
    const here = [...path, 'items', index];
    errors.push(...keyToPathErrors(item, here));
    if (item.path !== '') errors.push(...files.claim(item.path, name, [...here, 'path']));
  }
  return errors;
}

function tokenErrors(token: ServiceAccountTokenProjection, path: FieldPath, volumePath: FieldPath): FieldError[] {
  const { expirationSeconds: seconds } = token;
  const errors: FieldError[] = [];
  const secondsPath = [...path, 'expirationSeconds'];
  if (seconds === undefined) errors.push(requiredField(secondsPath));
  else if (seconds < tokenSecondsMin) {
    errors.push(invalidField(secondsPath, seconds, 'may not specify a duration less than 10 minutes'));
  } else if (seconds > tokenSecondsMax) {
    errors.push(invalidField(secondsPath, seconds, 'may not specify a duration larger than 2^32 seconds'));
  }
  // The API server reports the path of a token as if it were the volume's.
  const printed = [...volumePath, 'path'];
  const pathErrors =
    token.path === ''
      ? [requiredField(printed)]
      : invalidFields(printed, token.path, projectedPathProblems(token.path));
  return [...errors, ...placedAt([...path, 'path'], pathErrors), ...idErrors(token.user, [...path, 'user'])];
}

function bundleErrors(bundle: ClusterTrustBundleProjection, files: NamedFiles, path: FieldPath): FieldError[] {
  const filePath = [...path, 'path'];
  return [
    ...bundleChoiceErrors(bundle, path),
    ...(bundle.path === '' ? [requiredField(filePath)] : []),
    ...idErrors(bundle.user, [...path, 'user']),
    ...invalidFields(filePath, bundle.path, projectedPathProblems(bundle.path)),
    ...files.claim(bundle.path, bundle.path, filePath),
  ];
}

function bundleChoiceErrors(bundle: ClusterTrustBundleProjection, path: FieldPath): FieldError[] {
  const { name, signerName, labelSelector } = bundle;
  if (name !== undefined && signerName !== undefined) {
    const detail = 'only one of name and signerName may be used';
    return [invalidField(path, bundle, detail)];
  }
  if (name !== undefined) {
    const problems = trustBundleNameProblems(signerInBundleName(name))(name);
    const selectorPath = [...path, 'labelSelector'];
    return [
      ...(name === '' ? [requiredField([...path, 'name'], 'must be a valid object name')] : []),
      ...problems.map((problem) =>
        invalidField([...path, 'name'], name, `not a valid clustertrustbundlename: ${problem}`),
      ),
      ...(labelSelector === undefined
        ? []
        : [invalidField(selectorPath, labelSelector, 'labelSelector must be unset if name is specified')]),
    ];
  }
  if (signerName === undefined) return [requiredField(path, 'either name or signerName must be specified')];
  return [
    ...(signerName === '' ? [requiredField([...path, 'signerName'], 'must be a valid signer name')] : []),
    ...signerNameErrors(signerName, [...path, 'signerName']),
    ...validateLabelSelector(labelSelector, [...path, 'labelSelector']),
  ];
}

function certificateErrors(certificate: PodCertificateProjection, files: NamedFiles, path: FieldPath): FieldError[] {
  const { signerName = '', userAnnotations, keyType = '', maxExpirationSeconds: seconds } = certificate;
  const errors = signerNameErrors(signerName, [...path, 'signerName']);
  if (userAnnotations) addErrors(errors, userAnnotationErrors(userAnnotations, [...path, 'userAnnotations']));
  errors.push(...idErrors(certificate.user, [...path, 'user']));
  if (!keyTypes.includes(keyType)) errors.push(unsupportedText([...path, 'keyType'], keyType, keyTypes));
  if (seconds !== undefined) {
    const max = isKubernetesSigner(signerName) ? kubernetesCertificateSecondsMax : certificateSecondsMax;
    const refuse = (limit: string): FieldError =>
      invalidField([...path, 'maxExpirationSeconds'], seconds, `if provided, maxExpirationSeconds must be ${limit}`);
    if (seconds < certificateSecondsMin) errors.push(refuse(`>= ${certificateSecondsMin}`));
    if (seconds > max) errors.push(refuse(`<= ${max}`));
  }
  let count = 0;
  for (const field of ['credentialBundlePath', 'keyPath', 'certificateChainPath'] as const) {
    const file = certificate[field] ?? '';
    if (file === '') continue;
    count += 1;
    errors.push(...invalidFields([...path, field], file, projectedPathProblems(file)));
    errors.push(...files.claim(file, file, [...path, field]));
  }
  if (count > 0) return errors;
  const detail = 'specify at least one of credentialBundlePath, keyPath, and certificateChainPath';
  return [...errors, requiredField(path, detail)];
}

function userAnnotationErrors(annotations: Readonly<Record<string, string>>, path: FieldPath): FieldError[] {
  const errors = Object.keys(annotations).flatMap((name) => {
    const key = name.toLowerCase();
    if (key === '') return [requiredField(path)];
    const problems = qualifiedNameProblems(key);
    if (problems.length > 0 || key.includes('/')) return invalidFields(path, key, problems);
    return [invalidField(path, key, 'must be a domain-prefixed key (such as "acme.io/foo")')];
  });
  return [...errors, ...annotationSizeErrors(annotations, path)];
}

/**
 * Rules for one file of a volume: a key of an object, or a field of the pod. The key may be anything: whether the object has it
 * shows when the volume is set up.
 */
export function keyToPathErrors({ key, path: file, mode, user }: KeyToPath, path: FieldPath): FieldError[] {
  return [
    ...(key === '' ? [requiredField([...path, 'key'])] : []),
    ...(file === '' ? [requiredField([...path, 'path'])] : []),
    ...invalidFields([...path, 'path'], file, projectedPathProblems(file)),
    ...fileModeErrors(mode, [...path, 'mode']),
    ...idErrors(user, [...path, 'user']),
  ];
}

export function downwardApiFileErrors(item: DownwardApiFile, path: FieldPath): FieldError[] {
  return [
    ...(item.path === '' ? [requiredField([...path, 'path'])] : []),
    ...invalidFields([...path, 'path'], item.path, projectedPathProblems(item.path)),
    ...referenceErrors(item, path),
    ...fileModeErrors(item.mode, [...path, 'mode']),
    ...idErrors(item.user, [...path, 'user']),
  ];
}

function referenceErrors({ fieldRef, resourceFieldRef }: DownwardApiFile, path: FieldPath): FieldError[] {
  if (fieldRef !== undefined) {
    const errors = fieldReferenceErrors(fieldRef, volumeFields, [...path, 'fieldRef']);
    if (resourceFieldRef === undefined) return errors;
    const detail = 'fieldRef and resourceFieldRef can not be specified simultaneously';
    return [...errors, invalidField(path, 'resource', detail)];
  }
  if (resourceFieldRef === undefined) {
    return [requiredField(path, 'one of fieldRef and resourceFieldRef is required')];
  }
  return resourceFieldReferenceErrors(resourceFieldRef, 'file', [...path, 'resourceFieldRef']);
}

/** Rules for what a pod may read of itself: `fieldRef` and `resourceFieldRef`, in volumes and in variables. */
const volumeFields: readonly string[] = [
  'metadata.annotations',
  'metadata.labels',
  'metadata.name',
  'metadata.namespace',
  'metadata.uid',
];
export const environmentFields: readonly string[] = [
  'metadata.name',
  'metadata.namespace',
  'metadata.uid',
  'spec.nodeName',
  'spec.serviceAccountName',
  'status.hostIP',
  'status.hostIPs',
  'status.podIP',
  'status.podIPs',
];
const resources: readonly string[] = [
  'limits.cpu',
  'limits.ephemeral-storage',
  'limits.memory',
  'requests.cpu',
  'requests.ephemeral-storage',
  'requests.memory',
];

const cpuDivisors = ['1m', '1'];
const byteDivisors = ['1', '1k', '1M', '1G', '1T', '1P', '1E', '1Ki', '1Mi', '1Gi', '1Ti', '1Pi', '1Ei'];

export function fieldReferenceErrors(
  { apiVersion = '', fieldPath }: FieldReference,
  supported: readonly string[],
  path: FieldPath,
): FieldError[] {
  if (apiVersion === '') return [requiredField([...path, 'apiVersion'])];
  if (fieldPath === '') return [requiredField([...path, 'fieldPath'])];
  let label: string;
  try {
    label = checkedFieldLabel({ apiVersion, fieldPath });
  } catch (error) {
    if (!(error instanceof MountletError)) throw error;
    return [invalidField([...path, 'fieldPath'], fieldPath, `error converting fieldPath: ${error.message}`)];
  }
  const subscripted = splitSubscript(label);
  if (subscripted === undefined) {
    return supported.includes(label) ? [] : [unsupportedText([...path, 'fieldPath'], label, supported)];
  }
  const { path: map, subscript } = subscripted;
  const key = map === 'metadata.annotations' ? subscript.toLowerCase() : subscript;
  return invalidFields(path, key, qualifiedNameProblems(key));
}

/** A file must say whose resource it means; a variable means its own container's. */
export function resourceFieldReferenceErrors(
  reference: ResourceFieldReference,
  use: 'file' | 'variable',
  path: FieldPath,
): FieldError[] {
  const { containerName = '', resource } = reference;
  const errors: FieldError[] = [];
  if (use === 'file' && containerName === '') errors.push(requiredField([...path, 'containerName']));
  else if (resource === '') errors.push(requiredField([...path, 'resource']));
  else if (!resources.includes(resource) && !isHugePagesField(resource)) {
    errors.push(unsupportedText([...path, 'resource'], resource, resources));
  }
  return [...errors, ...divisorErrors(reference, [...path, 'divisor'])];
}

function divisorErrors({ resource, divisor }: ResourceFieldReference, path: FieldPath): FieldError[] {
  if (divisor === undefined) return [];
  const quantity = Quantity.parse(divisor);
  const [allowed, name] = divisorsFor(resource);
  if (name === undefined || quantity.isZero() || allowed.includes(String(quantity))) return [];
  const choices = allowed === cpuDivisors ? allowed.join(' and ') : allowed.join(', ');
  return [invalidField(path, resource, `only divisor's values ${choices} are supported with the ${name} resource`)];
}

function divisorsFor(resource: string): [readonly string[], string | undefined] {
  if (isHugePagesField(resource)) return [byteDivisors, 'hugepages'];
  switch (resource) {
    case 'limits.cpu':
    case 'requests.cpu':
      return [cpuDivisors, 'cpu'];
    case 'limits.memory':
    case 'requests.memory':
      return [byteDivisors, 'memory'];
    case 'limits.ephemeral-storage':
    case 'requests.ephemeral-storage':
      return [byteDivisors, 'local ephemeral storage'];
    default:
      return [[], undefined];
  }
}

function isHugePagesField(resource: string): boolean {
  return resource.startsWith('requests.hugepages-') || resource.startsWith('limits.hugepages-');
}
