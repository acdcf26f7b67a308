/**
 * Kinds that other programs need and that this server has no rules for, as one table: some are kept as they come, and some exist only so
 * that a scheduler, a controller manager or a plugin whose caches wait for them goes on. Those can be listed and watched, are always
 * empty, and are not announced: a client that looks for the feature must not find it.
 */
import { resourceKind } from '../../kube/schema/kind.ts';
import type { WireMessages } from '../../kube/schema/kind.ts';
import type { FieldError } from '../../kube/schema/field-errors.ts';
import { type LabelSelector, labelSelector, objectFields } from '../../kube/schema/meta.ts';
import { type Shape, described, map, object, quantity, string } from '../../kube/schema/schema.ts';
import { validateLabelSelector, validateObjectMeta } from '../../kube/schema/metadata-validation.ts';
import { dnsSubdomainProblems } from '../../kube/values/names.ts';
import { ageColumn, nameColumn, text } from '../model/columns.ts';
import { type KubeObject, type Resource, resource } from '../model/resource.ts';

interface Kept {
  readonly kind: string;
  readonly plural: string;
  readonly namespaced: boolean;
  readonly shortNames?: readonly string[];
  readonly text: string;
  readonly fields: Readonly<Record<string, readonly [shape: Shape<unknown>, text: string]>>;
  /** Fields that are columns as they are, under their heads. */
  readonly columns: Readonly<Record<string, string>>;
  readonly wire: WireMessages;
}

const keptKinds: readonly Kept[] = [
  {
    kind: 'CSIStorageCapacity',
    plural: 'csistoragecapacities',
    namespaced: true,
    text: 'How much a storage driver can still make on some nodes.',
    fields: {
      nodeTopology: [labelSelector, 'The nodes.'],
      storageClassName: [string, 'The class of the volumes.'],
      capacity: [quantity, 'How much there is.'],
      maximumVolumeSize: [quantity, 'The largest volume that can be made.'],
    },
    columns: { StorageClassName: 'storageClassName', Capacity: 'capacity' },
    wire: {
      CSIStorageCapacity: `
        1 metadata ObjectMeta, 2 nodeTopology? LabelSelector, 3 storageClassName!, 4 capacity? Quantity,
        5 maximumVolumeSize? Quantity`,
    },
  },
  {
    kind: 'VolumeAttributesClass',
    plural: 'volumeattributesclasses',
    namespaced: false,
    shortNames: ['vac'],
    text: 'Attributes of volumes that can be changed while they are used.',
    fields: {
      driverName: [string, 'The storage driver.'],
      parameters: [map(string), 'What the driver gets.'],
    },
    columns: { DriverName: 'driverName' },
    wire: { VolumeAttributesClass: '1 metadata ObjectMeta, 2 driverName!, 3 parameters {string}' },
  },
];

export const keptWithoutRules: readonly Resource[] = keptKinds.map(({ fields, columns, ...names }) => {
  const entries = Object.entries(fields);
  const texts = Object.fromEntries(entries.map(([field, [, about]]) => [field, about]));
  const shapes = Object.fromEntries(entries.map(([field, [shape]]) => [field, shape]));
  const shape = described({ text: names.text, fields: texts }, object({ ...shapes, ...objectFields }));
  const selectors = Object.keys(shapes).filter((field) => shapes[field] === labelSelector);
  const validate = (given: KubeObject): FieldError[] => [
    ...validateObjectMeta(given.metadata, {
      name: dnsSubdomainProblems,
      scope: names.namespaced ? 'namespace' : 'cluster',
    }),
    ...selectors.flatMap((field) =>
      validateLabelSelector(Reflect.get(given, field) as LabelSelector | undefined, [field]),
    ),
  ];
  return resource(resourceKind<KubeObject>({ ...names, group: 'storage.k8s.io', shape, validate }), {
    columns: [
      nameColumn,
      ...Object.entries(columns).map(([head, field]) =>
        text<KubeObject>(head, `The field ${field}.`, (given) => String(Reflect.get(given, field) ?? '')),
      ),
      ageColumn,
    ],
  });
});

/** Group, versions and kinds: plural, kind and, for those of namespaces, a mark. */
const emptyKinds: readonly (readonly [group: string, versions: string, kinds: readonly string[]])[] = [
  [
    'resource.k8s.io',
    'v1 v1beta2 v1beta1',
    [
      'deviceclasses DeviceClass',
      'resourceclaims ResourceClaim ns',
      'resourceclaimtemplates ResourceClaimTemplate ns',
      'resourceslices ResourceSlice',
    ],
  ],
  [
    'admissionregistration.k8s.io',
    'v1 v1beta1',
    [
      'mutatingadmissionpolicies MutatingAdmissionPolicy',
      'mutatingadmissionpolicybindings MutatingAdmissionPolicyBinding',
      'mutatingwebhookconfigurations MutatingWebhookConfiguration',
      'validatingadmissionpolicies ValidatingAdmissionPolicy',
      'validatingadmissionpolicybindings ValidatingAdmissionPolicyBinding',
      'validatingwebhookconfigurations ValidatingWebhookConfiguration',
    ],
  ],
  ['apiextensions.k8s.io', 'v1', ['customresourcedefinitions CustomResourceDefinition']],
  [
    'flowcontrol.apiserver.k8s.io',
    'v1 v1beta3',
    ['flowschemas FlowSchema', 'prioritylevelconfigurations PriorityLevelConfiguration'],
  ],
  ['networking.k8s.io', 'v1 v1beta1', ['ipaddresses IPAddress', 'servicecidrs ServiceCIDR']],
];

export const emptyResources: readonly Resource[] = emptyKinds.flatMap(([group, versions, kinds]) =>
  versions.split(' ').flatMap((version) =>
    kinds.map((words) => {
      const [plural = '', kind = '', scope] = words.split(' ');
      const names = { group, version, kind, plural, namespaced: scope === 'ns', shape: object(objectFields) };
      return resource(resourceKind<KubeObject>(names), { verbs: ['get', 'list', 'watch'], columns: [nameColumn] });
    }),
  ),
);
