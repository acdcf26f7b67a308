/** Rules for a pod's volumes: their names, that each has one source, and the sources themselves. */
import {
  type FieldError,
  addErrors,
  duplicateField,
  forbiddenField,
  invalidField,
  invalidFields,
  placedAt,
  placedBelow,
  requiredField,
  unsupportedField,
} from '../../schema/field-errors.ts';
import { directoryModeErrors, fileModeErrors, idErrors } from '../../schema/number-validation.ts';
import type { FieldPath } from '../../schema/schema.ts';
import { goQuote } from '../../values/go-text.ts';
import { descendingPathProblems, dnsLabelProblems, dnsSubdomainProblems } from '../../values/names.ts';
import { readQuantity } from '../../values/quantity.ts';
import { claimTemplateErrors } from '../storage/persistent-volume-claim.ts';
import { foreignSourceErrors } from '../storage/foreign-volumes.ts';
import { csiDriverErrors, emptyErrors, hostPathErrors, nfsErrors } from '../storage/volume-sources.ts';
import { downwardApiFileErrors, keyToPathErrors, projectedErrors } from './projected-validation.ts';
import type { Volume, VolumeSourceName } from './volume.ts';

type Source<N extends VolumeSourceName> = NonNullable<Volume[N]>;

type SourceRules = { readonly [N in VolumeSourceName]?: (source: Source<N>, path: FieldPath) => FieldError[] };

/** In the order in which the API server looks for sources: the second one it meets is the one too many. */
const sourceOrder: readonly VolumeSourceName[] = [
  'emptyDir',
  'hostPath',
  'gitRepo',
  'gcePersistentDisk',
  'awsElasticBlockStore',
  'secret',
  'nfs',
  'iscsi',
  'glusterfs',
  'flocker',
  'persistentVolumeClaim',
  'rbd',
  'cinder',
  'cephfs',
  'quobyte',
  'downwardAPI',
  'fc',
  'flexVolume',
  'configMap',
  'azureFile',
  'vsphereVolume',
  'photonPersistentDisk',
  'portworxVolume',
  'azureDisk',
  'storageos',
  'projected',
  'scaleIO',
  'csi',
  'ephemeral',
  'image',
];

/** As the API server spells these two in its message. */
const misspelt: Partial<Record<VolumeSourceName, string>> = { downwardAPI: 'downwarAPI', cephfs: 'cephFS' };

const rules: SourceRules = {
  emptyDir: ({ sizeLimit, mode }, path) => {
    const sizePath = [...path, 'sizeLimit'];
    const isNegative = (readQuantity(sizeLimit)?.sign() ?? 0) < 0;
    const text = 'SizeLimit field must be a valid resource quantity';
    return [...(isNegative ? [forbiddenField(sizePath, text)] : []), ...directoryModeErrors(mode, [...path, 'mode'])];
  },
  hostPath: hostPathErrors,
  gitRepo: ({ repository, directory = '' }, path) => [
    ...emptyErrors(repository, [...path, 'repository']),
    ...invalidFields([...path, 'directory'], directory, descendingPathProblems(directory)),
  ],
  secret: (source, path) => [
    ...emptyErrors(source.secretName ?? '', [...path, 'secretName']),
    ...fileModeErrors(source.defaultMode, [...path, 'defaultMode']),
    ...idErrors(source.defaultUser, [...path, 'defaultUser']),
    ...(source.items ?? []).flatMap((item, index) => keyToPathErrors(item, [...path, 'items', index])),
  ],
  nfs: nfsErrors,
  persistentVolumeClaim: ({ claimName }, path) => emptyErrors(claimName, [...path, 'claimName']),
  downwardAPI: (source, path) => [
    ...fileModeErrors(source.defaultMode, [...path, 'defaultMode']),
    ...idErrors(source.defaultUser, [...path, 'defaultUser']),
    // The API server does not say which item it means.
    ...(source.items ?? []).flatMap((item, index) =>
      placedBelow([...path, 'items', index], path, downwardApiFileErrors(item, path)),
    ),
  ],
  configMap: (source, path) => [
    ...emptyErrors(source.name, [...path, 'name']),
    ...fileModeErrors(source.defaultMode, [...path, 'defaultMode']),
    ...idErrors(source.defaultUser, [...path, 'defaultUser']),
    ...(source.items ?? []).flatMap((item, index) => keyToPathErrors(item, [...path, 'items', index])),
  ],
  projected: projectedErrors,
  csi: ({ driver, nodePublishSecretRef: secret }, path) => {
    const errors = csiDriverErrors(driver, [...path, 'driver']);
    if (secret === undefined) return errors;
    const namePath = [...path, 'nodePublishSecretRef', 'name'];
    if (secret.name === '') return [...errors, requiredField(namePath)];
    const secretErrors = invalidFields([...path, 'name'], secret.name, dnsSubdomainProblems(secret.name));
    return [...errors, ...placedAt(namePath, secretErrors)];
  },
  ephemeral: ({ volumeClaimTemplate }, path) => {
    const here = [...path, 'volumeClaimTemplate'];
    return volumeClaimTemplate === undefined ? [requiredField(here)] : claimTemplateErrors(volumeClaimTemplate, here);
  },
  image: ({ reference = '', pullPolicy = '' }, path) => [
    ...emptyErrors(reference, [...path, 'reference']),
    ...pullPolicyErrors(pullPolicy, [...path, 'pullPolicy']),
  ],
};

interface ValidatedVolumes {
  readonly errors: readonly FieldError[];
  /** The volumes without errors, by name: only these may be mounted. */
  readonly valid: ReadonlyMap<string, Volume>;
}

/** `podName` is unknown for a template: then the names of the claims it will make cannot be checked. */
export function validateVolumes(volumes: readonly Volume[], podName: string, path: FieldPath): ValidatedVolumes {
  const errors: FieldError[] = [];
  const valid = new Map<string, Volume>();
  const madeClaims = new Set(
    podName === '' ? [] : volumes.filter((volume) => volume.ephemeral).map(({ name }) => `${podName}-${name}`),
  );
  for (const [index, volume] of volumes.entries()) {
    const here = [...path, index];
    const own = [...sourceErrors(volume, podName, here), ...nameErrors(volume.name, [...here, 'name'])];
    if (valid.has(volume.name)) own.push(duplicateField([...here, 'name'], volume.name));
    if (own.length === 0) valid.set(volume.name, volume);
    addErrors(errors, own);
    const claimName = volume.persistentVolumeClaim?.claimName;
    if (claimName !== undefined && madeClaims.has(claimName)) {
      const detail = 'must not reference a PVC that gets created for an ephemeral volume';
      errors.push(invalidField([...here, 'persistentVolumeClaim', 'claimName'], claimName, detail));
    }
  }
  return { errors, valid };
}

function nameErrors(name: string, path: FieldPath): FieldError[] {
  return name === '' ? [requiredField(path)] : invalidFields(path, name, dnsLabelProblems(name));
}

function sourceErrors(volume: Volume, podName: string, path: FieldPath): FieldError[] {
  const [first, ...others] = sourceOrder.filter((name) => volume[name] !== undefined);
  if (first === undefined) return [requiredField(path, 'must specify a volume type')];
  const errors = ruleFor(first, volume, path);
  if (first === 'ephemeral') errors.push(...claimNameErrors(volume.name, podName, [...path, 'name']));
  for (const other of others) {
    const tooMany = forbiddenField([...path, misspelt[other] ?? other], 'may not specify more than 1 volume type');
    errors.push(...(other in misspelt ? placedAt([...path, other], [tooMany]) : [tooMany]));
  }
  return errors;
}

function ruleFor(name: VolumeSourceName, volume: Volume, path: FieldPath): FieldError[] {
  const rule = rules[name] as ((source: unknown, path: FieldPath) => FieldError[]) | undefined;
  const here = [...path, name];
  return rule === undefined ? foreignSourceErrors(name, volume[name], here, 'pod') : rule(volume[name], here);
}

function claimNameErrors(volumeName: string, podName: string, path: FieldPath): FieldError[] {
  if (podName === '' || volumeName === '') return [];
  const claimName = `${podName}-${volumeName}`;
  const problems = dnsSubdomainProblems(claimName).map((problem) => `PVC name ${goQuote(claimName)}: ${problem}`);
  return invalidFields(path, volumeName, problems);
}

export function pullPolicyErrors(policy: string, path: FieldPath): FieldError[] {
  if (policy === '') return [requiredField(path)];
  return pullPolicies.includes(policy) ? [] : [unsupportedField(path, policy, pullPolicies)];
}

/** Rules for images, of containers and of image volumes. The name itself is left to the runtime, as the API server does. */
const pullPolicies = ['Always', 'IfNotPresent', 'Never'];
