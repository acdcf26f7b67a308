/**
 * From a claim and its class to a call of CreateVolume, and from its answer to a PersistentVolume. Pure. The names of volumes
 * follow from the claims' UIDs, so that a call that is repeated, after a crash too, means the same volume.
 */
import type { MessageInitShape } from '@bufbuild/protobuf';
import { messageOf } from '../../base/errors.ts';
import type { Volume, VolumeCapabilitySchema } from '../../grpc/messages/csi_pb.ts';
import type { PersistentVolumeClaim } from '../../kube/kinds/storage/persistent-volume-claim.ts';
import type { PersistentVolume } from '../../kube/kinds/storage/persistent-volume.ts';
import type { StorageClass } from '../../kube/kinds/storage/storage-class.ts';
import { classOf, provisionedBy, requestedBytes, volumeNameFor } from '../../kube/references/claims.ts';
import { translatedBack, translatedClass } from '../../kube/references/csi-translation.ts';
import { compareByteOrder, goQuote } from '../../kube/values/go-text.ts';
import { dnsLabelProblems, dnsSubdomainProblems } from '../../kube/values/names.ts';
import { Quantity } from '../../kube/values/quantity.ts';
import type { ControllerDriver } from './controller-driver.ts';
import type { SecretRef, Strings } from '../requests.ts';
import { RefusedError, volumeCapability } from './requests.ts';
import { affinityOf } from './topology.ts';

/** Of a volume whose data goes before the object does; the name is the external provisioner's, so that either can take over. */
export const dataFinalizer = 'external-provisioner.volume.kubernetes.io/finalizer';
const deletionSecretName = 'volume.kubernetes.io/provisioner-deletion-secret-name';
const deletionSecretNamespace = 'volume.kubernetes.io/provisioner-deletion-secret-namespace';

/** Parameters of a class that are not for the driver. */
const reserved = 'csi.storage.k8s.io/';
/** What Secrets are for, each with the field of a volume that names it. */
const secretFields = {
  provisioner: undefined,
  'controller-publish': 'controllerPublishSecretRef',
  'node-stage': 'nodeStageSecretRef',
  'node-publish': 'nodePublishSecretRef',
  'controller-expand': 'controllerExpandSecretRef',
  'node-expand': 'nodeExpandSecretRef',
  'controller-modify': undefined,
} as const;
type SecretUse = keyof typeof secretFields;
const secretUses = Object.keys(secretFields) as readonly SecretUse[];
const reservedKeys = new Set(
  [
    'fstype',
    'secret-name',
    'secret-namespace',
    ...secretUses.flatMap((use) => [`${use}-secret-name`, `${use}-secret-namespace`]),
  ].map((key) => reserved + key),
);

export interface CreatePlan {
  /** Without Secrets and topology, which have to be looked up. */
  readonly request: {
    readonly name: string;
    readonly capacityRange: { readonly requiredBytes: bigint };
    readonly volumeCapabilities: MessageInitShape<typeof VolumeCapabilitySchema>[];
    readonly parameters: Record<string, string>;
  };
  readonly fsType: string;
  readonly allowedTopologies: NonNullable<StorageClass['allowedTopologies']>;
  readonly secrets: Readonly<Partial<Record<SecretUse, SecretRef>>>;
}

/** Throws RefusedError. Undefined: others fill the volume, and make it. */
export function planCreation(
  claim: PersistentVolumeClaim,
  storageClass: StorageClass,
  driver: ControllerDriver,
): CreatePlan | undefined {
  const { spec } = claim;
  const { parameters = {}, mountOptions = [], allowedTopologies = [] } = translated(storageClass);
  const source = spec.dataSource ?? spec.dataSourceRef;
  if (source !== undefined && !['VolumeSnapshot', 'PersistentVolumeClaim'].includes(source.kind)) return undefined;
  const refusal = refusalOf(claim, source?.kind);
  if (refusal !== undefined) throw new RefusedError(refusal);
  const name = volumeNameFor(claim);
  const fsType = fsTypeOf(parameters);
  const { accessModes = [], volumeMode } = spec;
  const secrets = secretUses.flatMap((use) => {
    const reference = secretReference(use, parameters, name, claim);
    return reference === undefined ? [] : [[use, reference]];
  });
  return {
    request: {
      name,
      capacityRange: { requiredBytes: requestedBytes(claim) },
      volumeCapabilities: accessModes.map((mode) =>
        volumeCapability(driver, { accessModes: [mode], volumeMode, mountOptions }, fsType),
      ),
      parameters: driverParameters(parameters),
    },
    fsType,
    allowedTopologies,
    secrets: Object.fromEntries(secrets),
  };
}

/** In the driver's own words where the class is of a kind that it has taken over. */
function translated(storageClass: StorageClass): StorageClass {
  try {
    return translatedClass(storageClass);
  } catch (error) {
    throw new RefusedError(`failed to translate storage class: ${messageOf(error)}`);
  }
}

function refusalOf({ spec }: PersistentVolumeClaim, source: string | undefined): string | undefined {
  const missing = (what: string, capability: string): string =>
    `CSI driver does not support ${what}: controller ${capability} capability is not reported`;
  if (source === 'VolumeSnapshot') return missing('snapshot restore', 'CREATE_DELETE_SNAPSHOT');
  if (source !== undefined) return missing('clone operations', 'CLONE_VOLUME');
  if ((spec.volumeAttributesClassName ?? '') !== '') return missing('VolumeAttributesClass', 'MODIFY_VOLUME');
  return spec.selector === undefined ? undefined : 'claim Selector is not supported';
}

function fsTypeOf(parameters: Strings): string {
  const given = Object.keys(parameters).filter((key) => key.toLowerCase() === 'fstype' || key === `${reserved}fstype`);
  if (given.length > 1)
    throw new RefusedError(`fstype specified in parameters with both "fstype" and "${reserved}fstype" keys`);
  return parameters[given[0] ?? ''] ?? '';
}

function driverParameters(parameters: Strings): Record<string, string> {
  const own = Object.keys(parameters).filter((key) => key.startsWith(reserved));
  const unknown = own.find((key) => !reservedKeys.has(key));
  if (unknown !== undefined) {
    const text = `found unknown parameter key "${unknown}" with reserved namespace ${reserved}`;
    throw new RefusedError(`failed to strip CSI Parameters of prefixed keys: ${text}`);
  }
  return Object.fromEntries(Object.entries(parameters).filter(([key]) => !own.includes(key)));
}

/**
 * The Secret that a class names for this use, or for all. Names may have parts of the claim in them; namespaces only what the
 * claim's user does not choose.
 */
export function secretReference(
  use: SecretUse,
  parameters: Strings,
  volumeName: string,
  claim: Pick<PersistentVolumeClaim, 'metadata'>,
): SecretRef | undefined {
  const own = secretTemplates(`${use}-`, parameters);
  const [name, namespace] = own ?? secretTemplates('', parameters) ?? [];
  if (name === undefined || namespace === undefined) return undefined;
  const { metadata } = claim;
  const chosenByOthers = { 'pv.name': volumeName, 'pvc.namespace': metadata.namespace ?? '' };
  const annotations = Object.entries(metadata.annotations ?? {}).map(([key, value]) => [
    `pvc.annotations['${key}']`,
    value,
  ]);
  return {
    name: resolved(
      name,
      { ...chosenByOthers, 'pvc.name': metadata.name, ...Object.fromEntries(annotations) },
      dnsSubdomainProblems,
      'secret',
    ),
    namespace: resolved(namespace, chosenByOthers, dnsLabelProblems, 'namespace'),
  };
}

function secretTemplates(prefix: string, parameters: Strings): readonly [name: string, namespace: string] | undefined {
  const name = parameters[`${reserved}${prefix}secret-name`];
  const namespace = parameters[`${reserved}${prefix}secret-namespace`];
  if (name === undefined && namespace === undefined) return undefined;
  const words = prefix.split('-').map((word) => word.slice(0, 1).toUpperCase() + word.slice(1));
  const title = prefix === '' ? 'Default' : words.join('');
  const failed = (text: string): RefusedError =>
    new RefusedError(
      `failed to get ${prefix === '' ? 'default ' : ''}name and namespace template from params: ${text}`,
    );
  if (name === undefined || namespace === undefined)
    throw failed(`either name and namespace for ${title} secrets specified, Both must be specified`);
  if (name === '' || namespace === '')
    throw failed(`${title} secrets specified in parameters but value of either namespace or name is empty`);
  return [name, namespace];
}

function resolved(
  template: string,
  values: Strings,
  problems: (value: string) => readonly string[],
  what: string,
): string {
  const unknown = new Set<string>();
  const value = template.replace(/\$(?:\{([^}]*)\}|(\w+))/g, (_, braced?: string, bare?: string) => {
    const key = braced ?? bare ?? '';
    if (!Object.hasOwn(values, key)) unknown.add(key);
    return values[key] ?? '';
  });
  if (unknown.size > 0) {
    const tokens = [...unknown].sort(compareByteOrder).map(goQuote).join(' ');
    throw new RefusedError(`error resolving value ${goQuote(template)}: invalid tokens: [${tokens}]`);
  }
  if (problems(value).length === 0) return value;
  const how = value === template ? 'is' : `resolved to ${goQuote(value)} which is`;
  throw new RefusedError(`${goQuote(template)} ${how} not a valid ${what} name`);
}

// What the specification of the interface allows, several times over: it all ends up in an object that is read by many.
const volumeIdBytesMax = 2_048;
const contextBytesMax = 64 * 1024;

/** What is wrong with the answer; the volume that it is about cannot be used. */
export function answerProblem(answer: Volume): string | undefined {
  const { volumeId, volumeContext, accessibleTopology, capacityBytes } = answer;
  const isPlain = volumeId !== '' && !/\p{Cc}/u.test(volumeId);
  if (!isPlain || Buffer.byteLength(volumeId) > volumeIdBytesMax)
    return 'a volume_id that is empty, too long or no text';
  if (Buffer.byteLength(JSON.stringify(volumeContext)) > contextBytesMax) return 'a volume_context that is too large';
  const topology = JSON.stringify(accessibleTopology.map(({ segments }) => segments));
  if (Buffer.byteLength(topology) > contextBytesMax) return 'an accessible_topology that is too large';
  return capacityBytes < 0n ? 'a negative capacity' : undefined;
}

export function volumeFor(
  claim: PersistentVolumeClaim,
  { provisioner, mountOptions, reclaimPolicy = 'Delete' }: StorageClass,
  driver: Pick<ControllerDriver, 'name' | 'hasTopology'>,
  { fsType, secrets }: CreatePlan,
  answer: Volume,
  identity: string,
): PersistentVolume {
  const { namespace = '', name, uid = '' } = claim.metadata;
  const { accessModes, volumeMode } = claim.spec;
  const isBlock = volumeMode === 'Block';
  const nodeAffinity = driver.hasTopology ? affinityOf(answer.accessibleTopology) : undefined;
  // Zero stands for unknown.
  const sizeBytes = answer.capacityBytes === 0n ? requestedBytes(claim) : answer.capacityBytes;
  const volume = {
    metadata: {
      name: volumeNameFor(claim),
      annotations: {
        [provisionedBy]: provisioner,
        [deletionSecretName]: secrets.provisioner?.name ?? '',
        [deletionSecretNamespace]: secrets.provisioner?.namespace ?? '',
      },
      finalizers: [dataFinalizer],
    },
    spec: {
      capacity: { storage: new Quantity(sizeBytes, 0, 'BinarySI').toString() },
      ...(accessModes !== undefined && { accessModes }),
      claimRef: { apiVersion: 'v1', kind: 'PersistentVolumeClaim', namespace, name, uid },
      persistentVolumeReclaimPolicy: reclaimPolicy,
      storageClassName: classOf(claim),
      ...(mountOptions !== undefined && { mountOptions }),
      ...(volumeMode !== undefined && { volumeMode }),
      ...(nodeAffinity !== undefined && { nodeAffinity }),
      csi: {
        driver: driver.name,
        volumeHandle: answer.volumeId,
        ...(!isBlock && fsType !== '' && { fsType }),
        volumeAttributes: { 'storage.kubernetes.io/csiProvisionerIdentity': identity, ...answer.volumeContext },
        ...referencesIn(secrets),
      },
    },
  };
  return provisioner === driver.name ? volume : translatedBack(volume);
}

function referencesIn(secrets: CreatePlan['secrets']): Partial<NonNullable<PersistentVolume['spec']['csi']>> {
  const named = secretUses.filter((use) => secretFields[use] !== undefined && secrets[use] !== undefined);
  return Object.fromEntries(named.map((use) => [secretFields[use], secrets[use]]));
}

/** The Secret with which a volume is deleted: as its annotations say, or as its class does now. */
export function deletionSecret(
  { metadata, spec }: PersistentVolume,
  storageClass: StorageClass | undefined,
): SecretRef | undefined {
  const { [deletionSecretName]: name, [deletionSecretNamespace]: namespace } = metadata.annotations ?? {};
  if (name !== undefined && namespace !== undefined)
    return name === '' || namespace === '' ? undefined : { name, namespace };
  const { claimRef } = spec;
  if (storageClass === undefined || claimRef === undefined) return undefined;
  const claim = { metadata: { name: claimRef.name ?? '', namespace: claimRef.namespace ?? '' } };
  return secretReference('provisioner', storageClass.parameters ?? {}, metadata.name, claim);
}
