/** PersistentVolumes and claims: storage that outlives a pod, and the pod's name for it. */
import { changeList, means } from '../../schema/equality.ts';
import {
  type FieldError,
  forbiddenField,
  invalidField,
  invalidFields,
  placedAt,
  placedBelow,
  requiredField,
  unsupportedField,
} from '../../schema/field-errors.ts';
import { resourceKind } from '../../schema/kind.ts';
import { objectFields, objectReference } from '../../schema/meta.ts';
import { immutableErrors, validateObjectMeta, validateObjectMetaUpdate } from '../../schema/metadata-validation.ts';
import { positiveQuantityErrors } from '../../schema/number-validation.ts';
import {
  type FieldPath,
  type Of,
  boolean,
  described,
  granular,
  list,
  map,
  object,
  required,
  resourceList,
  string,
  time,
  keyPart,
} from '../../schema/schema.ts';
import { inKeyOrder } from '../../values/go-text.ts';
import { backstepProblems, dnsLabelProblems, dnsSubdomainProblems } from '../../values/names.ts';
import { readQuantity, roundUpResources } from '../../values/quantity.ts';
import { nodeSelector, nodeSelectorErrors } from './node-selector.ts';
import { accessModeErrors, classNameErrors, volumeModeErrors } from './persistent-volume-claim.ts';
import { foreignShapes, secretReference } from './foreign-sources.ts';
import { defaultForeignSources, foreignSourceErrors } from './foreign-volumes.ts';
import { csiDriverErrors, hostPathErrors, nfsErrors, volumeSourceWire } from './volume-sources.ts';

const localVolumeSource = object({ path: required(string), fsType: string });
export interface LocalVolumeSource extends Of<typeof localVolumeSource> {}

export const persistentVolumeShape = described(
  {
    text: 'Storage that outlives pods.',
    fields: { spec: 'What it is and whose.', status: 'Whether it is free or in use.' },
  },
  object({
    ...objectFields,
    spec: required(
      described(
        {
          name: 'io.k8s.api.core.v1.PersistentVolumeSpec',
          text: 'What a volume is and whose. Its source cannot be changed.',
          fields: {
            capacity: 'How much it holds.',
            accessModes: 'ReadWriteOnce, ReadOnlyMany, ReadWriteMany or ReadWriteOncePod.',
            claimRef: 'The claim it belongs to.',
            persistentVolumeReclaimPolicy: 'What happens when the claim is gone: Retain, Delete or Recycle.',
            storageClassName: 'The class it is of.',
            mountOptions: 'Options of the mount.',
            volumeMode: 'Filesystem or Block.',
            nodeAffinity: 'The nodes that can reach it.',
            volumeAttributesClassName: 'The class of its changeable attributes.',
            local: 'A directory or device of one node.',
            hostPath: 'A directory of the node, for trying things out.',
            nfs: 'A directory that an NFS server exports.',
            csi: 'A volume of a CSI driver.',
          },
        },
        object({
          capacity: resourceList,
          accessModes: list(string),
          claimRef: granular(objectReference),
          persistentVolumeReclaimPolicy: string,
          storageClassName: string,
          mountOptions: list(string),
          volumeMode: string,
          nodeAffinity: object({ required: nodeSelector }),
          volumeAttributesClassName: string,
          local: localVolumeSource,
          hostPath: object({ path: required(string), type: string }),
          nfs: object({ server: required(string), path: required(string), readOnly: boolean }),
          csi: object({
            driver: required(string),
            volumeHandle: required(string),
            readOnly: boolean,
            fsType: string,
            volumeAttributes: map(string),
            controllerPublishSecretRef: secretReference,
            nodeStageSecretRef: secretReference,
            nodePublishSecretRef: secretReference,
            controllerExpandSecretRef: secretReference,
            nodeExpandSecretRef: secretReference,
          }),
          ...foreignShapes('persistentVolume'),
        }),
      ),
    ),
    status: object({ phase: string, message: string, reason: string, lastPhaseTransitionTime: time }),
  }),
);
export interface PersistentVolume extends Of<typeof persistentVolumeShape> {}

export const persistentVolumeKind = resourceKind<PersistentVolume>({
  kind: 'PersistentVolume',
  plural: 'persistentvolumes',
  shortNames: ['pv'],
  namespaced: false,
  shape: persistentVolumeShape,
  complete: defaultPersistentVolume,
  validate: validatePersistentVolume,
  validateUpdate: validatePersistentVolumeUpdate,
  wire: {
    PersistentVolume: '1 metadata ObjectMeta, 2 spec PersistentVolumeSpec, 3 status PersistentVolumeStatus',
    PersistentVolumeSpec: `
    1 capacity {Quantity}, 2 ...PersistentVolumeSource, 3 accessModes [string], 4 claimRef? ObjectReference,
    5 persistentVolumeReclaimPolicy, 6 storageClassName, 7 mountOptions [string], 8 volumeMode?,
    9 nodeAffinity? VolumeNodeAffinity, 10 volumeAttributesClassName?`,
    PersistentVolumeSource: `
    1 gcePersistentDisk? GCEPersistentDiskVolumeSource, 2 awsElasticBlockStore? AWSElasticBlockStoreVolumeSource,
    3 hostPath? HostPathVolumeSource, 4 glusterfs? GlusterfsPersistentVolumeSource, 5 nfs? NFSVolumeSource,
    6 rbd? RBDPersistentVolumeSource, 7 iscsi? ISCSIPersistentVolumeSource, 8 cinder? CinderPersistentVolumeSource,
    9 cephfs? CephFSPersistentVolumeSource, 10 fc? FCVolumeSource, 11 flocker? FlockerVolumeSource,
    12 flexVolume? FlexPersistentVolumeSource, 13 azureFile? AzureFilePersistentVolumeSource,
    14 vsphereVolume? VsphereVirtualDiskVolumeSource, 15 quobyte? QuobyteVolumeSource,
    16 azureDisk? AzureDiskVolumeSource, 17 photonPersistentDisk? PhotonPersistentDiskVolumeSource,
    18 portworxVolume? PortworxVolumeSource, 19 scaleIO? ScaleIOPersistentVolumeSource, 20 local? LocalVolumeSource,
    21 storageos? StorageOSPersistentVolumeSource, 22 csi? CSIPersistentVolumeSource`,
    GlusterfsPersistentVolumeSource: '1 endpoints!, 2 path!, 3 readOnly bool, 4 endpointsNamespace?',
    RBDPersistentVolumeSource: `
    1 monitors [string], 2 image!, 3 fsType, 4 pool, 5 user, 6 keyring, 7 secretRef? SecretReference,
    8 readOnly bool`,
    ISCSIPersistentVolumeSource: `
    1 targetPortal!, 2 iqn!, 3 lun! int, 4 iscsiInterface, 5 fsType, 6 readOnly bool, 7 portals [string],
    8 chapAuthDiscovery bool, 11 chapAuthSession bool, 10 secretRef? SecretReference, 12 initiatorName?`,
    CinderPersistentVolumeSource: '1 volumeID!, 2 fsType, 3 readOnly bool, 4 secretRef? SecretReference',
    CephFSPersistentVolumeSource: `
    1 monitors [string], 2 path, 3 user, 4 secretFile, 5 secretRef? SecretReference, 6 readOnly bool`,
    FlexPersistentVolumeSource:
      '1 driver!, 2 fsType, 3 secretRef? SecretReference, 4 readOnly bool, 5 options {string}',
    AzureFilePersistentVolumeSource: '1 secretName!, 2 shareName!, 3 readOnly bool, 4 secretNamespace?',
    ScaleIOPersistentVolumeSource: `
    1 gateway!, 2 system!, 3 secretRef? SecretReference, 4 sslEnabled bool, 5 protectionDomain, 6 storagePool,
    7 storageMode, 8 volumeName, 9 fsType, 10 readOnly bool`,
    LocalVolumeSource: '1 path!, 2 fsType?',
    StorageOSPersistentVolumeSource: `
    1 volumeName, 2 volumeNamespace, 3 fsType, 4 readOnly bool, 5 secretRef? ObjectReference`,
    CSIPersistentVolumeSource: `
    1 driver!, 2 volumeHandle!, 3 readOnly bool, 4 fsType, 5 volumeAttributes {string},
    6 controllerPublishSecretRef? SecretReference, 7 nodeStageSecretRef? SecretReference,
    8 nodePublishSecretRef? SecretReference, 9 controllerExpandSecretRef? SecretReference,
    10 nodeExpandSecretRef? SecretReference`,
    VolumeNodeAffinity: '1 required? NodeSelector',
    PersistentVolumeStatus: '1 phase, 2 message, 3 reason, 4 lastPhaseTransitionTime Time',
    ...volumeSourceWire,
  },
});

/** Rules for PersistentVolumes. */
type Spec = PersistentVolume['spec'];

/** In the order in which the API server looks for sources: the second one it meets is the one too many. */
const sourceOrder = [
  'hostPath',
  'gcePersistentDisk',
  'awsElasticBlockStore',
  'glusterfs',
  'flocker',
  'nfs',
  'rbd',
  'quobyte',
  'cephfs',
  'iscsi',
  'cinder',
  'fc',
  'flexVolume',
  'azureFile',
  'vsphereVolume',
  'photonPersistentDisk',
  'portworxVolume',
  'azureDisk',
  'scaleIO',
  'local',
  'storageos',
  'csi',
] as const satisfies readonly (keyof Spec)[];

const reclaimPolicies = ['Delete', 'Recycle', 'Retain'];

function validatePersistentVolume(volume: PersistentVolume): FieldError[] {
  return [
    ...validateObjectMeta(volume.metadata, { name: dnsSubdomainProblems, scope: 'cluster' }, ['metadata']),
    ...specErrors(volume.spec, ['spec']),
  ];
}

/** Where the data is does not change. */
function validatePersistentVolumeUpdate(volume: PersistentVolume, old: PersistentVolume): FieldError[] {
  const errors = [...validatePersistentVolume(volume), ...validateObjectMetaUpdate(volume.metadata, old.metadata)];
  const shape = persistentVolumeShape.fields?.['spec'];
  const before = sourcesOf(old.spec);
  const after = sourcesOf(withoutNewExpandSecret(volume.spec, old.spec));
  if (shape !== undefined && !means(shape, after, before)) {
    const detail = 'spec.persistentvolumesource is immutable after creation';
    const refusal = forbiddenField(
      ['spec', 'persistentvolumesource'],
      `${detail}\n${changeList<unknown>(shape, before, after)}`,
    );
    errors.push(...placedAt(['spec'], [refusal]));
  }
  const mode = volume.spec.volumeMode ?? null;
  errors.push(...placedAt(['spec', 'volumeMode'], immutableErrors(mode, old.spec.volumeMode ?? null, ['volumeMode'])));
  errors.push(...affinityChangeErrors(volume.spec.nodeAffinity, old.spec.nodeAffinity));
  if (old.spec.volumeAttributesClassName !== undefined && volume.spec.volumeAttributesClassName === undefined) {
    const here = ['spec', 'volumeAttributesClassName'];
    errors.push(forbiddenField(here, 'update from non-nil value to nil is forbidden'));
  }
  return errors;
}

const stableLabels: ReadonlyMap<string, string> = new Map([
  ['failure-domain.beta.kubernetes.io/zone', 'topology.kubernetes.io/zone'],
  ['failure-domain.beta.kubernetes.io/region', 'topology.kubernetes.io/region'],
  ['beta.kubernetes.io/os', 'kubernetes.io/os'],
  ['beta.kubernetes.io/arch', 'kubernetes.io/arch'],
  ['beta.kubernetes.io/instance-type', 'node.kubernetes.io/instance-type'],
]);

/** Where a volume can be reached is said once; labels that got a new name may take it. */
function affinityChangeErrors(affinity: Spec['nodeAffinity'], old: Spec['nodeAffinity']): FieldError[] {
  const shape = persistentVolumeShape.fields?.['spec']?.fields?.['nodeAffinity'];
  if (old === undefined || shape === undefined || means<unknown>(shape, affinity, old)) return [];
  const terms = old.required?.nodeSelectorTerms.map(({ matchExpressions, ...term }) => ({
    ...term,
    ...(matchExpressions && {
      matchExpressions: matchExpressions.map((one) => ({ ...one, key: stableLabels.get(one.key) ?? one.key })),
    }),
  }));
  if (terms !== undefined && means<unknown>(shape, affinity, { required: { nodeSelectorTerms: terms } })) return [];
  const detail = 'field is immutable, except for updating from beta label to GA';
  return placedAt(['spec', 'nodeAffinity'], [invalidField(['nodeAffinity'], affinity ?? null, detail)]);
}

function sourcesOf(spec: Spec): object {
  return Object.fromEntries(sourceOrder.map((name) => [name, spec[name]]));
}

/** The one part of a source that may come later. */
function withoutNewExpandSecret(spec: Spec, old: Spec): Spec {
  if (spec.csi === undefined || old.csi === undefined || old.csi.controllerExpandSecretRef !== undefined) return spec;
  const { controllerExpandSecretRef: _, ...csi } = spec.csi;
  return { ...spec, csi };
}

function specErrors(spec: Spec, path: FieldPath): FieldError[] {
  const modes = spec.accessModes ?? [];
  const policy = spec.persistentVolumeReclaimPolicy ?? '';
  return [
    ...(modes.length === 0 ? [requiredField([...path, 'accessModes'])] : []),
    ...accessModeErrors(modes, [...path, 'accessModes']),
    ...capacityErrors(spec.capacity ?? {}, [...path, 'capacity']),
    ...(policy === '' || reclaimPolicies.includes(policy)
      ? []
      : [unsupportedField([...path, 'persistentVolumeReclaimPolicy'], policy, reclaimPolicies)]),
    ...nodeAffinityErrors(spec, [...path, 'nodeAffinity']),
    ...sourceErrors(spec, path),
    ...recycledRootErrors(spec, path),
    ...classNameErrors(spec.storageClassName ?? '', [...path, 'storageClassName']),
    ...volumeModeErrors(spec.volumeMode, [...path, 'volumeMode']),
    ...attributesClassErrors(spec, path),
  ];
}

function capacityErrors(capacity: NonNullable<Spec['capacity']>, path: FieldPath): FieldError[] {
  const names = Object.keys(capacity);
  const errors = names.length === 0 ? [requiredField(path)] : [];
  if (names.length !== 1 || names[0] !== 'storage') {
    // Nothing at all prints as null, as Go's empty map does.
    errors.push(unsupportedField(path, names.length === 0 ? null : inKeyOrder(capacity), ['storage']));
  }
  for (const [name, value] of Object.entries(capacity)) {
    const here = [...path, keyPart(name)];
    const whole = readQuantity(value)?.value() ?? 0n;
    if (whole < 0n) errors.push(invalidField(here, Number(whole), 'must be a valid resource quantity'));
    errors.push(...positiveQuantityErrors(value, here));
  }
  return errors;
}

function nodeAffinityErrors({ nodeAffinity }: Spec, path: FieldPath): FieldError[] {
  if (nodeAffinity === undefined) return [];
  if (nodeAffinity.required !== undefined) return nodeSelectorErrors(nodeAffinity.required, [...path, 'required']);
  return [requiredField([...path, 'required'], 'must specify required node constraints')];
}

function sourceErrors(spec: Spec, path: FieldPath): FieldError[] {
  const [first, ...others] = sourceOrder.filter((name) => spec[name] !== undefined);
  if (first === undefined) return [requiredField(path, 'must specify a volume type')];
  const errors = firstSourceErrors(spec, first, [...path, first], path);
  for (const other of others) {
    // The API server forgets to count flexVolume among the sources that are one too many.
    if (other === 'flexVolume') continue;
    const printed = [...path, other === 'cephfs' ? 'cephFS' : other];
    const tooMany = forbiddenField(printed, 'may not specify more than 1 volume type');
    errors.push(...(other === 'cephfs' ? placedAt([...path, other], [tooMany]) : [tooMany]));
  }
  return errors;
}

function firstSourceErrors(
  spec: Spec,
  source: (typeof sourceOrder)[number],
  path: FieldPath,
  specPath: FieldPath,
): FieldError[] {
  const { hostPath, nfs, local, csi } = spec;
  if (source === 'hostPath' && hostPath) return hostPathErrors(hostPath, path);
  if (source === 'nfs' && nfs) return nfsErrors(nfs, path);
  if (source === 'local' && local) {
    const errors =
      local.path === ''
        ? [requiredField([...path, 'path'])]
        : invalidFields([...path, 'path'], local.path, backstepProblems(local.path));
    if (spec.nodeAffinity !== undefined) return errors;
    return [...errors, requiredField([...specPath, 'nodeAffinity'], 'Local volume requires node affinity')];
  }
  if (source === 'csi' && csi) {
    return [
      ...csiDriverErrors(csi.driver, [...path, 'driver']),
      ...(csi.volumeHandle === '' ? [requiredField([...path, 'volumeHandle'])] : []),
      ...checkedSecrets.flatMap((name) => secretErrors(csi[name], [...path, name])),
    ];
  }
  // The API server calls one of them by an old name.
  const printed = [...specPath, source === 'gcePersistentDisk' ? 'persistentDisk' : source];
  return placedBelow(path, printed, foreignSourceErrors(source, spec[source], printed, 'persistentVolume'));
}

/** In the API server's order, which leaves out the one for staging. */
const checkedSecrets = [
  'controllerPublishSecretRef',
  'controllerExpandSecretRef',
  'nodePublishSecretRef',
  'nodeExpandSecretRef',
] as const;

function secretErrors(secret: Of<typeof secretReference> | undefined, path: FieldPath): FieldError[] {
  if (secret === undefined) return [];
  const { name = '', namespace = '' } = secret;
  return [
    ...(name === ''
      ? [requiredField([...path, 'name'])]
      : invalidFields([...path, 'name'], name, dnsSubdomainProblems(name))),
    ...(namespace === ''
      ? [requiredField([...path, 'namespace'])]
      : invalidFields([...path, 'namespace'], namespace, dnsLabelProblems(namespace))),
  ];
}

function recycledRootErrors({ hostPath, persistentVolumeReclaimPolicy: policy }: Spec, path: FieldPath): FieldError[] {
  const isRoot = hostPath !== undefined && /^\/(\.?\/)*\.?$/.test(hostPath.path);
  if (!isRoot || policy !== 'Recycle') return [];
  const here = [...path, 'persistentVolumeReclaimPolicy'];
  return [forbiddenField(here, "may not be 'recycle' for a hostPath mount of '/'")];
}

function attributesClassErrors({ volumeAttributesClassName: name, csi }: Spec, path: FieldPath): FieldError[] {
  if (name === undefined) return [];
  const here = [...path, 'volumeAttributesClassName'];
  const errors = name === '' ? [requiredField(here, 'an empty string is disallowed')] : classNameErrors(name, here);
  if (csi !== undefined) return errors;
  return [...errors, requiredField([...path, 'csi'], 'has to be specified when using volumeAttributesClassName')];
}

function defaultPersistentVolume(volume: PersistentVolume): PersistentVolume {
  const { spec } = volume;
  return {
    ...volume,
    spec: {
      ...spec,
      persistentVolumeReclaimPolicy: spec.persistentVolumeReclaimPolicy || 'Retain',
      volumeMode: spec.volumeMode ?? 'Filesystem',
      ...(spec.capacity && { capacity: roundUpResources(spec.capacity) }),
      ...(spec.hostPath && { hostPath: { ...spec.hostPath, type: spec.hostPath.type ?? '' } }),
      ...defaultForeignSources(spec),
    },
    status: { ...volume.status, phase: volume.status?.phase || 'Pending' },
  };
}
