/**
 * The fields of volume sources that no plugin of this node runs as they are, and the API server's rules for them. Pods and
 * PersistentVolumes differ in how they name a Secret; what else they differ in, PersistentVolumes add.
 */
import {
  type FieldError,
  invalidField,
  invalidFields,
  requiredField,
  unsupportedField,
} from '../../schema/field-errors.ts';
import { localObjectReference, objectReference } from '../../schema/meta.ts';
import {
  type FieldPath,
  type Shape,
  atomic,
  boolean,
  integer,
  list,
  map,
  object,
  required,
  string,
  keyPart,
} from '../../schema/schema.ts';
import { rangeProblems } from '../../values/network-names.ts';
import { dnsLabelProblems } from '../../values/names.ts';

export type ForeignName =
  | 'awsElasticBlockStore'
  | 'azureDisk'
  | 'azureFile'
  | 'cephfs'
  | 'cinder'
  | 'fc'
  | 'flexVolume'
  | 'flocker'
  | 'gcePersistentDisk'
  | 'glusterfs'
  | 'iscsi'
  | 'photonPersistentDisk'
  | 'portworxVolume'
  | 'quobyte'
  | 'rbd'
  | 'scaleIO'
  | 'storageos'
  | 'vsphereVolume';

/** Its fields have the types of the shape; nothing here or in plugins reads more than a few of them. */
export type ForeignSource = Readonly<Record<string, unknown>>;

/** PersistentVolumes are in no namespace: what they refer to needs one. */
export type SourceUse = 'pod' | 'persistentVolume';

export const secretReference = atomic(object({ name: string, namespace: string }));

export function foreignShapes(use: SourceUse): Readonly<Record<ForeignName, Shape<ForeignSource>>> {
  const isPod = use === 'pod';
  const secretRef = isPod ? localObjectReference : secretReference;
  const only = (fields: Readonly<Record<string, Shape<unknown>>>): typeof fields => (isPod ? {} : fields);
  const [id, fsType, readOnly] = [required(string), string, boolean];
  const monitors = required(list(string));
  return {
    awsElasticBlockStore: object({ volumeID: id, fsType, partition: integer, readOnly }),
    azureDisk: object({ diskName: id, diskURI: id, cachingMode: string, fsType, readOnly, kind: string }),
    azureFile: object({ secretName: id, shareName: id, readOnly, ...only({ secretNamespace: string }) }),
    cephfs: object({ monitors, path: string, user: string, secretFile: string, secretRef, readOnly }),
    cinder: object({ volumeID: id, fsType, readOnly, secretRef }),
    fc: object({ targetWWNs: list(string), lun: integer, fsType, readOnly, wwids: list(string) }),
    flexVolume: object({ driver: id, fsType, secretRef, readOnly, options: map(string) }),
    flocker: object({ datasetName: string, datasetUUID: string }),
    gcePersistentDisk: object({ pdName: id, fsType, partition: integer, readOnly }),
    glusterfs: object({ endpoints: id, path: id, readOnly, ...only({ endpointsNamespace: string }) }),
    iscsi: object({
      targetPortal: id,
      iqn: id,
      lun: required(integer),
      iscsiInterface: string,
      fsType,
      readOnly,
      portals: list(string),
      chapAuthDiscovery: boolean,
      chapAuthSession: boolean,
      secretRef,
      initiatorName: string,
    }),
    photonPersistentDisk: object({ pdID: id, fsType }),
    portworxVolume: object({ volumeID: id, fsType, readOnly }),
    quobyte: object({ registry: id, volume: id, readOnly, user: string, group: string, tenant: string }),
    rbd: object({ monitors, image: id, fsType, pool: string, user: string, keyring: string, secretRef, readOnly }),
    scaleIO: object({
      gateway: id,
      system: id,
      secretRef,
      sslEnabled: boolean,
      protectionDomain: string,
      storagePool: string,
      storageMode: string,
      volumeName: string,
      fsType,
      readOnly,
    }),
    storageos: object({
      volumeName: string,
      volumeNamespace: string,
      fsType,
      readOnly,
      secretRef: isPod ? localObjectReference : objectReference,
    }),
    vsphereVolume: object({ volumePath: id, fsType, storagePolicyName: string, storagePolicyID: string }),
  };
}

/** The fields that the rules below read, as the shapes above decode them. */
interface CheckedFields {
  readonly partition?: number;
  readonly lun?: number;
  readonly diskURI?: string;
  readonly cachingMode?: string;
  readonly kind?: string;
  readonly targetWWNs?: readonly string[];
  readonly wwids?: readonly string[];
  readonly options?: Readonly<Record<string, string>>;
  readonly datasetName?: string;
  readonly datasetUUID?: string;
  readonly secretNamespace?: string;
  readonly endpointsNamespace?: string;
  readonly iqn?: string;
  readonly initiatorName?: string;
  readonly chapAuthDiscovery?: boolean;
  readonly chapAuthSession?: boolean;
  readonly secretRef?: { readonly name?: string; readonly namespace?: string };
  readonly registry?: string;
  readonly tenant?: string;
  readonly volumeName?: string;
  readonly volumeNamespace?: string;
}

type Rule = (source: CheckedFields, path: FieldPath, use: SourceUse) => readonly FieldError[];

/** What the API server asks beyond the fields that must be there. */
const rules: { readonly [N in ForeignName]?: Rule } = {
  awsElasticBlockStore: partitionErrors,
  azureDisk: ({ diskURI = '', cachingMode, kind }, path) => {
    const isManaged = kind === 'Managed';
    const [start, form] = isManaged ? managedDisk : blobDisk;
    return [
      ...choiceErrors(cachingMode, ['None', 'ReadOnly', 'ReadWrite'], [...path, 'cachingMode']),
      ...choiceErrors(kind, ['Dedicated', 'Managed', 'Shared'], [...path, 'kind']),
      ...(diskURI.startsWith(start) ? [] : [unsupportedField([...path, 'diskURI'], diskURI, [form])]),
    ];
  },
  azureFile: ({ secretNamespace }, path) =>
    secretNamespace === '' ? [requiredField([...path, 'secretNamespace'])] : [],
  cinder: secretRefErrors,
  fc: ({ targetWWNs = [], wwids = [], lun }, path) => {
    const here = [...path, 'targetWWNs'];
    if (targetWWNs.length === 0) {
      return wwids.length > 0 ? [] : [requiredField(here, 'must specify either targetWWNs or wwids, but not both')];
    }
    const lunPath = [...path, 'lun'];
    return [
      ...(wwids.length > 0
        ? [invalidField(here, targetWWNs, 'targetWWNs and wwids can not be specified simultaneously')]
        : []),
      ...(lun === undefined
        ? [requiredField(lunPath, 'lun is required if targetWWNs is specified')]
        : invalidFields(lunPath, lun, rangeProblems(lun, 0, 255))),
    ];
  },
  flexVolume: ({ options = {} }, path) =>
    Object.keys(options)
      .filter((key) => /(^|\.)(kubernetes|k8s)\.io$/i.test(key.split('/', 1).join()))
      .map((key) =>
        invalidField([...path, 'options', keyPart(key)], key, 'kubernetes.io and k8s.io namespaces are reserved'),
      ),
  flocker: ({ datasetName = '', datasetUUID = '' }, path) => {
    const both = 'datasetName and datasetUUID can not be specified simultaneously';
    return [
      ...(datasetName === '' && datasetUUID === ''
        ? [requiredField(path, 'one of datasetName and datasetUUID is required')]
        : []),
      ...(datasetName !== '' && datasetUUID !== '' ? [invalidField(path, 'resource', both)] : []),
      ...(datasetName.includes('/')
        ? [invalidField([...path, 'datasetName'], datasetName, "must not contain '/'")]
        : []),
    ];
  },
  gcePersistentDisk: partitionErrors,
  glusterfs: ({ endpointsNamespace: namespace }, path) => {
    if (namespace === undefined) return [];
    const unset = 'if the endpointnamespace is set, it must be a valid namespace name';
    return invalidFields(
      [...path, 'endpointsNamespace'],
      namespace,
      namespace === '' ? [unset] : dnsLabelProblems(namespace),
    );
  },
  iscsi: (source, path, use) => {
    const { iqn = '', lun = 0, chapAuthDiscovery, chapAuthSession, secretRef, initiatorName } = source;
    const needsSecret = chapAuthDiscovery === true || chapAuthSession === true;
    return [
      ...(iqn === '' ? [] : qualifiedNameErrors(iqn, [...path, 'iqn'], use)),
      ...invalidFields([...path, 'lun'], lun, rangeProblems(lun, 0, 255)),
      ...(needsSecret && secretRef === undefined ? [requiredField([...path, 'secretRef'])] : []),
      ...(use === 'persistentVolume' && secretRef?.name === '' ? [requiredField([...path, 'secretRef', 'name'])] : []),
      // The API server spells the field like this.
      ...(initiatorName === undefined ? [] : qualifiedNameErrors(initiatorName, [...path, 'initiatorname'], use)),
    ];
  },
  quobyte: ({ registry = '', tenant = '' }, path) => {
    if (registry === '') return [];
    if (tenant.length > 64) {
      return [requiredField([...path, 'tenant'], 'must be a UUID and may not exceed a length of 64 characters')];
    }
    const problem = 'must be a host:port pair or multiple pairs separated by commas';
    const wrong = registry.split(',').filter((pair) => !/^(\[[^\]]*\]|[^:[\]]*):[^:[\]]*$/.test(pair));
    return wrong.map(() => invalidField([...path, 'registry'], registry, problem));
  },
  storageos: (source, path, use) => {
    const { volumeName = '', volumeNamespace = '' } = source;
    return [
      ...(volumeName === ''
        ? [requiredField([...path, 'volumeName'])]
        : invalidFields([...path, 'volumeName'], volumeName, dnsLabelProblems(volumeName))),
      ...(volumeNamespace === ''
        ? []
        : invalidFields([...path, 'volumeNamespace'], volumeNamespace, dnsLabelProblems(volumeNamespace))),
      ...secretRefErrors(source, path, use),
    ];
  },
};

export function foreignRuleErrors(
  name: ForeignName,
  source: ForeignSource,
  path: FieldPath,
  use: SourceUse,
): readonly FieldError[] {
  return rules[name]?.(source, path, use) ?? [];
}

const managedDisk = [
  '/subscriptions/',
  '/subscriptions/{sub-id}/resourcegroups/{group-name}/providers/microsoft.compute/disks/{disk-id}',
] as const;
const blobDisk = ['https://', 'https://{account-name}.blob.core.windows.net/{container-name}/{disk-name}.vhd'] as const;

function partitionErrors({ partition = 0 }: CheckedFields, path: FieldPath): readonly FieldError[] {
  // Zero means the whole disk.
  return partition === 0 ? [] : invalidFields([...path, 'partition'], partition, rangeProblems(partition, 1, 255));
}

function choiceErrors(value: string | undefined, known: readonly string[], path: FieldPath): readonly FieldError[] {
  return value === undefined || known.includes(value) ? [] : [unsupportedField(path, value, known)];
}

function secretRefErrors({ secretRef }: CheckedFields, path: FieldPath, use: SourceUse): FieldError[] {
  if (secretRef === undefined) return [];
  const parts = use === 'pod' ? (['name'] as const) : (['name', 'namespace'] as const);
  return parts
    .filter((part) => (secretRef[part] ?? '') === '')
    .map((part) => requiredField([...path, 'secretRef', part]));
}

/** By the first letters, which say who gave the name out. */
const qualifiedNames: readonly (readonly [string, RegExp])[] = [
  ['iqn', /iqn\.\d{4}-\d{2}\.[A-Za-z0-9.-]+:[^,;*&$|\s]+$/],
  ['eui', /^eui.[A-Za-z0-9]{16}$/],
  ['naa', /^naa.[A-Za-z0-9]{32}$/],
];

function qualifiedNameErrors(name: string, path: FieldPath, use: SourceUse): FieldError[] {
  const form = qualifiedNames.find(([start]) => name.startsWith(start));
  if (form?.[1].test(name) === true) return [];
  const detail = form === undefined && use === 'pod' ? ' starting with iqn, eui, or naa' : '';
  return [invalidField(path, name, `must be valid format${detail}`)];
}
