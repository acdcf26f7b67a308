import assert from 'node:assert/strict';
import { test } from 'node:test';
import { decoded, messagesOf } from '../../../testing/fakes/builders.ts';
import { type FieldError, placeOf } from '../../schema/field-errors.ts';
import { decode, list } from '../../schema/schema.ts';
import { validateVolumes } from './volume-validation.ts';
import { defaultVolume, volumeShape } from './volume.ts';

const label =
  "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')";
const fileMode = 'must be a number between 0 and 0777 (octal), both inclusive';
const directoryMode = 'must be a number between 0 and 01777 (octal), both inclusive';
const user = 'must be between 0 and 2147483647, inclusive';
const tooMany = 'may not specify more than 1 volume type';

interface Case {
  readonly it: string;
  /** The volumes of a pod named `web`; `v` is the name of one that has none. */
  readonly volumes: readonly object[];
  readonly errors: readonly string[];
}

const cases: readonly Case[] = [
  {
    it: 'asks for a name',
    volumes: [{ name: '', emptyDir: {} }],
    errors: ['volumes[0].name: Required value'],
  },
  {
    it: 'takes names that are DNS labels',
    volumes: [{ name: 'a.b' }, { name: 'A_b' }, { name: 'a'.repeat(64) }],
    errors: [
      'volumes[0].name: Invalid value: "a.b": must not contain dots',
      `volumes[1].name: Invalid value: "A_b": ${label}`,
      `volumes[2].name: Invalid value: "${'a'.repeat(64)}": must be no more than 63 characters`,
    ],
  },
  {
    it: 'refuses a name twice',
    volumes: [{ name: 'a' }, { name: 'a' }],
    errors: ['volumes[1].name: Duplicate value: "a"'],
  },
  {
    it: 'remembers only the names of volumes that are valid',
    volumes: [{ name: 'a', secret: {} }, { name: 'a' }],
    errors: ['volumes[0].secret.secretName: Required value'],
  },
  { it: 'turns a volume without a source into an emptyDir', volumes: [{}], errors: [] },
  {
    it: 'refuses a second source',
    volumes: [{ emptyDir: {}, hostPath: { path: '/x' } }],
    errors: [`volumes[0].hostPath: Forbidden: ${tooMany}`],
  },
  {
    it: 'spells downwardAPI as the API server does when it is the second source',
    volumes: [{ secret: { secretName: 'a' }, downwardAPI: {}, configMap: { name: 'a' } }],
    errors: [`volumes[0].downwarAPI: Forbidden: ${tooMany}`, `volumes[0].configMap: Forbidden: ${tooMany}`],
  },
  {
    it: 'judges the first source and none of the others',
    volumes: [{ secret: {}, configMap: { name: '' }, iscsi: {} }],
    errors: [
      'volumes[0].secret.secretName: Required value',
      `volumes[0].iscsi: Forbidden: ${tooMany}`,
      `volumes[0].configMap: Forbidden: ${tooMany}`,
    ],
  },
  {
    it: 'holds an emptyDir to its mode and size',
    volumes: [
      { name: 'a', emptyDir: { mode: 0o2000, sizeLimit: '-1' } },
      { name: 'b', emptyDir: { mode: -1 } },
      { name: 'c', emptyDir: { mode: 0o1777, sizeLimit: '1Gi', medium: 'anything' } },
    ],
    errors: [
      'volumes[0].emptyDir.sizeLimit: Forbidden: SizeLimit field must be a valid resource quantity',
      `volumes[0].emptyDir.mode: Invalid value: 1024: ${directoryMode}`,
      `volumes[1].emptyDir.mode: Invalid value: -1: ${directoryMode}`,
    ],
  },
  {
    it: 'holds a hostPath to its rules and lets it be relative',
    volumes: [
      { name: 'a', hostPath: { path: '' } },
      { name: 'b', hostPath: { path: '/a/../b', type: 'Folder' } },
      { name: 'c', hostPath: { path: 'relative/..x' } },
    ],
    errors: [
      'volumes[0].hostPath.path: Required value',
      `volumes[1].hostPath.path: Invalid value: "/a/../b": must not contain '..'`,
      'volumes[1].hostPath.type: Unsupported value: "Folder": supported values: "", "BlockDevice", "CharDevice", "Directory", "DirectoryOrCreate", "File", "FileOrCreate", "Socket"',
    ],
  },
  {
    it: 'holds a secret to its rules',
    volumes: [
      {
        secret: {
          defaultMode: 0o1000,
          defaultUser: -1,
          items: [
            { key: '', path: '' },
            { key: 'any key', path: '/a', mode: -1, user: 2147483648 },
            { key: 'k', path: 'a/../b' },
            { key: 'k', path: '../b' },
            { key: 'k', path: '..b' },
            { key: 'k', path: '..' },
            { key: 'k', path: 'p/..p/p../p..p' },
            { key: 'k', path: 'p/..p/p../p..p', mode: 0o777, user: 2147483647 },
          ],
        },
      },
    ],
    errors: [
      'volumes[0].secret.secretName: Required value',
      `volumes[0].secret.defaultMode: Invalid value: 512: ${fileMode}`,
      `volumes[0].secret.defaultUser: Invalid value: -1: ${user}`,
      'volumes[0].secret.items[0].key: Required value',
      'volumes[0].secret.items[0].path: Required value',
      'volumes[0].secret.items[1].path: Invalid value: "/a": must be a relative path',
      `volumes[0].secret.items[1].mode: Invalid value: -1: ${fileMode}`,
      `volumes[0].secret.items[1].user: Invalid value: 2147483648: ${user}`,
      `volumes[0].secret.items[2].path: Invalid value: "a/../b": must not contain '..'`,
      `volumes[0].secret.items[3].path: Invalid value: "../b": must not contain '..'`,
      `volumes[0].secret.items[4].path: Invalid value: "..b": must not start with '..'`,
      `volumes[0].secret.items[5].path: Invalid value: "..": must not contain '..'`,
      `volumes[0].secret.items[5].path: Invalid value: "..": must not start with '..'`,
    ],
  },
  {
    it: 'holds a configMap to the same rules',
    volumes: [{ configMap: { defaultMode: -1, defaultUser: 2147483648, items: [{ key: 'a', path: '/b' }] } }],
    errors: [
      'volumes[0].configMap.name: Required value',
      `volumes[0].configMap.defaultMode: Invalid value: -1: ${fileMode}`,
      `volumes[0].configMap.defaultUser: Invalid value: 2147483648: ${user}`,
      'volumes[0].configMap.items[0].path: Invalid value: "/b": must be a relative path',
    ],
  },
  {
    it: 'asks a downwardAPI item for one reference, and does not say which item it means',
    volumes: [
      {
        downwardAPI: {
          defaultMode: 0o1000,
          items: [
            { path: 'a' },
            {
              path: '',
              mode: 0o1000,
              fieldRef: { fieldPath: 'metadata.name' },
              resourceFieldRef: { containerName: 'c', resource: 'limits.cpu' },
            },
          ],
        },
      },
    ],
    errors: [
      `volumes[0].downwardAPI.defaultMode: Invalid value: 512: ${fileMode}`,
      'volumes[0].downwardAPI: Required value: one of fieldRef and resourceFieldRef is required',
      'volumes[0].downwardAPI.path: Required value',
      'volumes[0].downwardAPI: Invalid value: "resource": fieldRef and resourceFieldRef can not be specified simultaneously',
      `volumes[0].downwardAPI.mode: Invalid value: 512: ${fileMode}`,
    ],
  },
  {
    it: 'holds field references to the fields a file may have',
    volumes: [
      {
        downwardAPI: {
          items: [
            { path: 'a', fieldRef: { fieldPath: '' } },
            { path: 'b', fieldRef: { fieldPath: 'spec.hostname' } },
            { path: 'c', fieldRef: { fieldPath: 'spec.nodeName' } },
            { path: 'd', fieldRef: { apiVersion: 'v2', fieldPath: 'metadata.name' } },
            { path: 'e', fieldRef: { fieldPath: "metadata.name['a']" } },
            { path: 'f', fieldRef: { fieldPath: "metadata.labels['a/b/c']" } },
            { path: 'g', fieldRef: { fieldPath: "metadata.annotations['Example.COM/a']" } },
            { path: 'h', fieldRef: { fieldPath: 'metadata.labels' } },
          ],
        },
      },
    ],
    errors: [
      'volumes[0].downwardAPI.fieldRef.fieldPath: Required value',
      'volumes[0].downwardAPI.fieldRef.fieldPath: Invalid value: "spec.hostname": error converting fieldPath: field label not supported: spec.hostname',
      'volumes[0].downwardAPI.fieldRef.fieldPath: Unsupported value: "spec.nodeName": supported values: "metadata.annotations", "metadata.labels", "metadata.name", "metadata.namespace", "metadata.uid"',
      'volumes[0].downwardAPI.fieldRef.fieldPath: Invalid value: "metadata.name": error converting fieldPath: unsupported pod version: v2',
      `volumes[0].downwardAPI.fieldRef.fieldPath: Invalid value: "metadata.name['a']": error converting fieldPath: field label does not support subscript: metadata.name['a']`,
      `volumes[0].downwardAPI.fieldRef: Invalid value: "a/b/c": a valid label key must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]') with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')`,
    ],
  },
  {
    it: 'holds resource references to their names and divisors',
    volumes: [
      {
        downwardAPI: {
          items: [
            { path: 'a', resourceFieldRef: { resource: 'limits.cpu' } },
            { path: 'b', resourceFieldRef: { containerName: 'c', resource: '' } },
            { path: 'c', resourceFieldRef: { containerName: 'c', resource: 'limits.gpu' } },
            { path: 'd', resourceFieldRef: { containerName: 'c', resource: 'limits.cpu', divisor: '1k' } },
            { path: 'e', resourceFieldRef: { containerName: 'c', resource: 'requests.memory', divisor: '1m' } },
            { path: 'f', resourceFieldRef: { containerName: 'c', resource: 'limits.ephemeral-storage', divisor: '2' } },
            { path: 'g', resourceFieldRef: { containerName: 'c', resource: 'limits.hugepages-2Mi', divisor: '3' } },
            { path: 'h', resourceFieldRef: { containerName: 'c', resource: 'limits.hugepages-2Mi', divisor: '1Mi' } },
            { path: 'i', resourceFieldRef: { containerName: 'c', resource: 'limits.cpu', divisor: 0 } },
            { path: 'j', resourceFieldRef: { containerName: 'c', resource: 'limits.cpu', divisor: '1m' } },
          ],
        },
      },
    ],
    errors: [
      'volumes[0].downwardAPI.resourceFieldRef.containerName: Required value',
      'volumes[0].downwardAPI.resourceFieldRef.resource: Required value',
      'volumes[0].downwardAPI.resourceFieldRef.resource: Unsupported value: "limits.gpu": supported values: "limits.cpu", "limits.ephemeral-storage", "limits.memory", "requests.cpu", "requests.ephemeral-storage", "requests.memory"',
      `volumes[0].downwardAPI.resourceFieldRef.divisor: Invalid value: "limits.cpu": only divisor's values 1m and 1 are supported with the cpu resource`,
      `volumes[0].downwardAPI.resourceFieldRef.divisor: Invalid value: "requests.memory": only divisor's values 1, 1k, 1M, 1G, 1T, 1P, 1E, 1Ki, 1Mi, 1Gi, 1Ti, 1Pi, 1Ei are supported with the memory resource`,
      `volumes[0].downwardAPI.resourceFieldRef.divisor: Invalid value: "limits.ephemeral-storage": only divisor's values 1, 1k, 1M, 1G, 1T, 1P, 1E, 1Ki, 1Mi, 1Gi, 1Ti, 1Pi, 1Ei are supported with the local ephemeral storage resource`,
      `volumes[0].downwardAPI.resourceFieldRef.divisor: Invalid value: "limits.hugepages-2Mi": only divisor's values 1, 1k, 1M, 1G, 1T, 1P, 1E, 1Ki, 1Mi, 1Gi, 1Ti, 1Pi, 1Ei are supported with the hugepages resource`,
    ],
  },
  {
    it: 'asks an image volume for an image and a known policy',
    volumes: [
      { name: 'a', image: { pullPolicy: 'Sometimes' } },
      { name: 'b', image: { reference: 'nginx' } },
    ],
    errors: [
      'volumes[0].image.reference: Required value',
      'volumes[0].image.pullPolicy: Unsupported value: "Sometimes": supported values: "Always", "IfNotPresent", "Never"',
    ],
  },
  {
    it: 'asks the other sources for what they cannot do without',
    volumes: [
      { name: 'a', persistentVolumeClaim: { claimName: '' } },
      { name: 'b', nfs: { server: '', path: 'x' } },
      { name: 'c', csi: { driver: 'A_', nodePublishSecretRef: { name: '' } } },
      { name: 'd', gitRepo: { repository: '', directory: '/a' } },
    ],
    errors: [
      'volumes[0].persistentVolumeClaim.claimName: Required value',
      'volumes[1].nfs.server: Required value',
      'volumes[1].nfs.path: Invalid value: "x": must be an absolute path',
      `volumes[2].csi.driver: Invalid value: "A_": a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')`,
      'volumes[2].csi.nodePublishSecretRef.name: Required value',
      'volumes[3].gitRepo.repository: Required value',
      'volumes[3].gitRepo.directory: Invalid value: "/a": must be a relative path',
    ],
  },
  {
    it: 'holds an ephemeral volume to the rules of claims',
    volumes: [
      { name: 'a', ephemeral: {} },
      {
        name: 'b',
        ephemeral: { volumeClaimTemplate: { metadata: { name: 'x', uid: 'y', labels: { a: 'b' } }, spec: {} } },
      },
      {
        name: 'c',
        ephemeral: {
          volumeClaimTemplate: {
            spec: { accessModes: ['ReadWriteOnce'], resources: { requests: { storage: '1Gi' } } },
          },
        },
      },
      { name: 'd', persistentVolumeClaim: { claimName: 'web-c' } },
    ],
    errors: [
      'volumes[0].ephemeral.volumeClaimTemplate: Required value',
      'volumes[1].ephemeral.volumeClaimTemplate.metadata.name: Forbidden: cannot be set',
      'volumes[1].ephemeral.volumeClaimTemplate.metadata.uID: Forbidden: cannot be set',
      'volumes[1].ephemeral.volumeClaimTemplate.spec.accessModes: Required value: at least 1 access mode is required',
      'volumes[1].ephemeral.volumeClaimTemplate.spec.resources[storage]: Required value',
      'volumes[3].persistentVolumeClaim.claimName: Invalid value: "web-c": must not reference a PVC that gets created for an ephemeral volume',
    ],
  },
];
for (const { it, volumes, errors } of cases) {
  test(`validateVolumes ${it}`, () => {
    assert.deepEqual(messagesOf(errorsOf(volumes)), errors);
  });
}

test('validateVolumes without defaulting asks for a source', () => {
  const { errors } = validateVolumes([{ name: 'a' }], '', ['volumes']);
  assert.deepEqual(messagesOf(errors), ['volumes[0]: Required value: must specify a volume type']);
});

const iqn = 'iqn.2026-01.com.example:disk';
const uri = '/subscriptions/a/resourcegroups/b/providers/microsoft.compute/disks/c';
const diskUris = {
  managed: `supported values: "/subscriptions/{sub-id}/resourcegroups/{group-name}/providers/microsoft.compute/disks/{disk-id}"`,
  blob: 'supported values: "https://{account-name}.blob.core.windows.net/{container-name}/{disk-name}.vhd"',
};
const sourcesOfDrivers: readonly { readonly source: object; readonly errors: readonly string[] }[] = [
  { source: { iscsi: { targetPortal: 'p', iqn, lun: 255, portals: ['q'], initiatorName: iqn } }, errors: [] },
  {
    source: { iscsi: { targetPortal: 'p', iqn: 'disk', lun: 256, chapAuthSession: true, initiatorName: 'eui.1' } },
    errors: [
      'iscsi.iqn: Invalid value: "disk": must be valid format starting with iqn, eui, or naa',
      'iscsi.lun: Invalid value: 256: must be between 0 and 255, inclusive',
      'iscsi.secretRef: Required value',
      'iscsi.initiatorname: Invalid value: "eui.1": must be valid format',
    ],
  },
  { source: { gcePersistentDisk: { pdName: 'd', partition: 0 } }, errors: [] },
  {
    source: { gcePersistentDisk: { pdName: '', partition: -1 } },
    errors: [
      'gcePersistentDisk.pdName: Required value',
      'gcePersistentDisk.partition: Invalid value: -1: must be between 1 and 255, inclusive',
    ],
  },
  {
    source: { awsElasticBlockStore: { volumeID: 'v', partition: 300 } },
    errors: ['awsElasticBlockStore.partition: Invalid value: 300: must be between 1 and 255, inclusive'],
  },
  { source: { azureDisk: { diskName: 'd', diskURI: uri, kind: 'Managed', cachingMode: 'None' } }, errors: [] },
  {
    source: { azureDisk: { diskName: 'd', diskURI: 'x', kind: 'Managed', cachingMode: 'All' } },
    errors: [
      'azureDisk.cachingMode: Unsupported value: "All": supported values: "None", "ReadOnly", "ReadWrite"',
      `azureDisk.diskURI: Unsupported value: "x": ${diskUris.managed}`,
    ],
  },
  {
    source: { azureDisk: { diskName: 'd', diskURI: uri, kind: 'Own' } },
    errors: [
      'azureDisk.kind: Unsupported value: "Own": supported values: "Dedicated", "Managed", "Shared"',
      `azureDisk.diskURI: Unsupported value: "${uri}": ${diskUris.blob}`,
    ],
  },
  { source: { fc: { wwids: ['w'] } }, errors: [] },
  {
    source: { fc: {} },
    errors: ['fc.targetWWNs: Required value: must specify either targetWWNs or wwids, but not both'],
  },
  {
    source: { fc: { targetWWNs: ['t'], wwids: ['w'] } },
    errors: [
      'fc.targetWWNs: Invalid value: ["t"]: targetWWNs and wwids can not be specified simultaneously',
      'fc.lun: Required value: lun is required if targetWWNs is specified',
    ],
  },
  { source: { flexVolume: { driver: 'd', options: { 'example.com/a': '1', size: '2' } } }, errors: [] },
  {
    source: { flexVolume: { driver: 'd', options: { 'fs.Kubernetes.io/a': '1', 'k8s.io': '2' } } },
    errors: ['fs.Kubernetes.io/a', 'k8s.io'].map(
      (key) => `flexVolume.options[${key}]: Invalid value: "${key}": kubernetes.io and k8s.io namespaces are reserved`,
    ),
  },
  {
    source: { flocker: { datasetName: 'a/b', datasetUUID: 'u' } },
    errors: [
      'flocker: Invalid value: "resource": datasetName and datasetUUID can not be specified simultaneously',
      `flocker.datasetName: Invalid value: "a/b": must not contain '/'`,
    ],
  },
  { source: { quobyte: { registry: 'a:1,[::1]:2', volume: 'v' } }, errors: [] },
  {
    source: { quobyte: { registry: 'a:1,b', volume: '' } },
    errors: [
      'quobyte.volume: Required value',
      'quobyte.registry: Invalid value: "a:1,b": must be a host:port pair or multiple pairs separated by commas',
    ],
  },
  {
    source: { storageos: { secretRef: {} } },
    errors: ['storageos.volumeName: Required value', 'storageos.secretRef.name: Required value'],
  },
  { source: { cinder: { volumeID: 'v', secretRef: {} } }, errors: ['cinder.secretRef.name: Required value'] },
  { source: { cephfs: { path: '/' } }, errors: ['cephfs.monitors: Required value'] },
];
for (const { source, errors } of sourcesOfDrivers) {
  const verdict = errors.length === 0 ? 'accepts' : 'does not accept';
  test(`validateVolumes ${verdict} ${JSON.stringify(source)}`, () => {
    const messages = errorsOf([source]).map(({ message }) => message);
    assert.deepEqual(
      messages,
      errors.map((text) => `volumes[0].${text}`),
    );
  });
}

test('fields of a driver’s volume have their types, and no others are known', () => {
  const { problems } = decode(volumeShape, { name: 'v', rbd: { monitors: 'm', image: 'i', size: 1 } });
  assert.deepEqual(
    problems.map(({ kind, path }) => [kind, path.join('.')]),
    [
      ['unknown', 'rbd.size'],
      ['type', 'rbd.monitors'],
    ],
  );
});

test('errors that stop short or are misspelt know the place that is meant', () => {
  const [file, second] = errorsOf([
    { name: 'a', downwardAPI: { items: [{ path: 'a', fieldRef: { fieldPath: 'metadata.name' } }, { path: '/b' }] } },
  ]);
  const [misspelt] = errorsOf([{ name: 'a', emptyDir: {}, downwardAPI: {} }]);
  assert.deepEqual(
    [file, second, misspelt].map((error) => error && placeOf(error)),
    [
      ['volumes', 0, 'downwardAPI', 'items', 1, 'path'],
      ['volumes', 0, 'downwardAPI', 'items', 1],
      ['volumes', 0, 'downwardAPI'],
    ],
  );
});

function errorsOf(volumes: readonly object[]): readonly FieldError[] {
  const named = volumes.map((source) => ({ name: 'v', ...source }));
  return validateVolumes(decoded(list(volumeShape), named).map(defaultVolume), 'web', ['volumes']).errors;
}
