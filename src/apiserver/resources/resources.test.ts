/** The table as clients see it in discovery, and what the server may rely on for every entry. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { resourceKind } from '../../kube/schema/kind.ts';
import { type ObjectMeta, objectFields } from '../../kube/schema/meta.ts';
import { decode, object, string } from '../../kube/schema/schema.ts';
import { OpenApiDocuments } from '../documents/openapi.ts';
import { tableOf } from '../documents/table.ts';
import { ageColumn, nameColumn } from '../model/columns.ts';
import { type Resource, ResourceTable, apiVersionOf, parseApiVersion, resource } from '../model/resource.ts';
import { parseFieldSelector } from '../model/selection.ts';
import { resources } from './resources.ts';

const all = 'create delete deletecollection get list patch update watch';
const part = 'get patch update';
const proxied = 'create delete get patch update';
const scale = `scale:autoscaling/v1/Scale(${part})`;

/** 1.4: plural, kind, scope, short names, verbs, subresources with their verbs. */
const published = [
  `bindings Binding ns - create -`,
  `configmaps ConfigMap ns cm ${all} -`,
  `endpoints Endpoints ns ep ${all} -`,
  `events Event ns ev ${all} -`,
  `limitranges LimitRange ns limits ${all} -`,
  `namespaces Namespace cluster ns create delete get list patch update watch status(${part}) finalize(update)`,
  `nodes Node cluster no ${all} status(${part}) proxy:NodeProxyOptions(${proxied})`,
  `persistentvolumeclaims PersistentVolumeClaim ns pvc ${all} status(${part})`,
  `persistentvolumes PersistentVolume cluster pv ${all} status(${part})`,
  `pods Pod ns po ${all} status(${part}) log(get) exec:PodExecOptions(create get) attach:PodAttachOptions(create get) portforward:PodPortForwardOptions(create get) proxy:PodProxyOptions(${proxied}) binding:Binding(create) eviction:policy/v1/Eviction(create) ephemeralcontainers(${part})`,
  `podtemplates PodTemplate ns - ${all} -`,
  `replicationcontrollers ReplicationController ns rc ${all} status(${part}) ${scale}`,
  `resourcequotas ResourceQuota ns quota ${all} status(${part})`,
  `secrets Secret ns - ${all} -`,
  `serviceaccounts ServiceAccount ns sa ${all} token:authentication.k8s.io/v1/TokenRequest(create)`,
  `services Service ns svc ${all} status(${part}) proxy:ServiceProxyOptions(${proxied})`,
  `apps/v1 controllerrevisions ControllerRevision ns - ${all} -`,
  `apps/v1 daemonsets DaemonSet ns ds ${all} status(${part})`,
  `apps/v1 deployments Deployment ns deploy ${all} status(${part}) ${scale}`,
  `apps/v1 replicasets ReplicaSet ns rs ${all} status(${part}) ${scale}`,
  `apps/v1 statefulsets StatefulSet ns sts ${all} status(${part}) ${scale}`,
  `authentication.k8s.io/v1 selfsubjectreviews SelfSubjectReview cluster - create -`,
  `authentication.k8s.io/v1 tokenreviews TokenReview cluster - create -`,
  `authorization.k8s.io/v1 localsubjectaccessreviews LocalSubjectAccessReview ns - create -`,
  `authorization.k8s.io/v1 selfsubjectaccessreviews SelfSubjectAccessReview cluster - create -`,
  `authorization.k8s.io/v1 selfsubjectrulesreviews SelfSubjectRulesReview cluster - create -`,
  `authorization.k8s.io/v1 subjectaccessreviews SubjectAccessReview cluster - create -`,
  `autoscaling/v2 horizontalpodautoscalers HorizontalPodAutoscaler ns hpa ${all} status(${part})`,
  `batch/v1 cronjobs CronJob ns cj ${all} status(${part})`,
  `batch/v1 jobs Job ns - ${all} status(${part})`,
  `certificates.k8s.io/v1 certificatesigningrequests CertificateSigningRequest cluster csr ${all} status(${part}) approval(${part})`,
  `certificates.k8s.io/v1 clustertrustbundles ClusterTrustBundle cluster - ${all} -`,
  `certificates.k8s.io/v1beta1 clustertrustbundles ClusterTrustBundle cluster - ${all} -`,
  `coordination.k8s.io/v1 leases Lease ns - ${all} -`,
  `discovery.k8s.io/v1 endpointslices EndpointSlice ns - ${all} -`,
  `events.k8s.io/v1 events Event ns ev ${all} -`,
  `metrics.k8s.io/v1beta1 nodes NodeMetrics cluster - get list -`,
  `metrics.k8s.io/v1beta1 pods PodMetrics ns - get list -`,
  `networking.k8s.io/v1 ingressclasses IngressClass cluster - ${all} -`,
  `networking.k8s.io/v1 ingresses Ingress ns ing ${all} status(${part})`,
  `networking.k8s.io/v1 networkpolicies NetworkPolicy ns netpol ${all} -`,
  `node.k8s.io/v1 runtimeclasses RuntimeClass cluster - ${all} -`,
  `policy/v1 poddisruptionbudgets PodDisruptionBudget ns pdb ${all} status(${part})`,
  `rbac.authorization.k8s.io/v1 clusterrolebindings ClusterRoleBinding cluster - ${all} -`,
  `rbac.authorization.k8s.io/v1 clusterroles ClusterRole cluster - ${all} -`,
  `rbac.authorization.k8s.io/v1 rolebindings RoleBinding ns - ${all} -`,
  `rbac.authorization.k8s.io/v1 roles Role ns - ${all} -`,
  `scheduling.k8s.io/v1 priorityclasses PriorityClass cluster pc ${all} -`,
  `storage.k8s.io/v1 csidrivers CSIDriver cluster - ${all} -`,
  `storage.k8s.io/v1 csinodes CSINode cluster - ${all} status(${part})`,
  `storage.k8s.io/v1 storageclasses StorageClass cluster sc ${all} -`,
  `storage.k8s.io/v1 volumeattachments VolumeAttachment cluster - ${all} status(${part})`,
  `storage.k8s.io/v1 csistoragecapacities CSIStorageCapacity ns - ${all} -`,
  `storage.k8s.io/v1 volumeattributesclasses VolumeAttributesClass cluster vac ${all} -`,
];

function inDiscovery(entry: Resource): string {
  const subresources = entry.subresources.map(({ name, kind, verbs }) => {
    const group = kind && kind.group !== '' ? `${kind.group}/${kind.version}/` : '';
    return `${name}${kind ? `:${group}${kind.kind}` : ''}(${verbs.join(' ')})`;
  });
  return [
    ...(entry.group === '' ? [] : [apiVersionOf(entry)]),
    entry.plural,
    entry.kind,
    entry.namespaced ? 'ns' : 'cluster',
    entry.shortNames.join(',') || '-',
    ...entry.verbs,
    subresources.join(' ') || '-',
  ].join(' ');
}

test('the table publishes what clients look for', () => {
  assert.deepEqual(resources.map(inDiscovery), published);
});

test('pods, services and workloads belong to the category all', () => {
  const inAll = resources.filter(({ categories }) => categories.includes('all')).map(({ plural }) => plural);
  const core = ['pods', 'replicationcontrollers', 'services'];
  const apps = ['daemonsets', 'deployments', 'replicasets', 'statefulsets'];
  assert.deepEqual(inAll, [...core, ...apps, 'horizontalpodautoscalers', 'cronjobs', 'jobs']);
});

test('what a deletion answers', () => {
  const withObject = resources.filter(({ deleteAnswers }) => deleteAnswers === 'object').map(({ plural }) => plural);
  assert.deepEqual(withObject, [
    'namespaces',
    'persistentvolumeclaims',
    'persistentvolumes',
    'pods',
    'podtemplates',
    'resourcequotas',
    'serviceaccounts',
    'services',
    'csidrivers',
    'csinodes',
    'storageclasses',
    'volumeattachments',
  ]);
});

test('which kinds an update creates, and which it does not overwrite unseen', () => {
  const names = (isChosen: (entry: Resource) => boolean): string[] =>
    resources.filter(isChosen).map((entry) => `${entry.plural}.${entry.group}`);
  assert.deepEqual(
    names((entry) => entry.allowsCreateOnUpdate),
    [
      'endpoints.',
      'events.',
      'services.',
      'leases.coordination.k8s.io',
      'events.events.k8s.io',
      'runtimeclasses.node.k8s.io',
      'clusterrolebindings.rbac.authorization.k8s.io',
      'clusterroles.rbac.authorization.k8s.io',
      'rolebindings.rbac.authorization.k8s.io',
      'roles.rbac.authorization.k8s.io',
    ],
  );
  assert.deepEqual(
    names((entry) => !entry.allowsUnconditionalUpdate),
    [
      'clustertrustbundles.certificates.k8s.io',
      'clustertrustbundles.certificates.k8s.io',
      'leases.coordination.k8s.io',
      'runtimeclasses.node.k8s.io',
      'csidrivers.storage.k8s.io',
      'csinodes.storage.k8s.io',
      'volumeattachments.storage.k8s.io',
    ],
  );
});

test('only Secrets are encrypted, only events end by themselves, after an hour', () => {
  assert.deepEqual(
    resources.filter(({ isSecret }) => isSecret).map(({ plural }) => plural),
    ['secrets'],
  );
  assert.deepEqual(
    resources
      .filter(({ timeToLiveMs }) => timeToLiveMs !== undefined)
      .map(({ plural, timeToLiveMs }) => [plural, timeToLiveMs]),
    [
      ['events', 3_600_000],
      ['events', 3_600_000],
    ],
  );
});

for (const entry of resources) {
  test(`${entry.plural} of ${apiVersionOf(entry)} take an empty object apart without a fault`, () => {
    const empty = decode(entry.shape, { metadata: { name: 'x' } }).value;
    const completed = entry.complete(empty);
    assert.deepEqual(entry.complete(completed), completed, 'defaults change nothing the second time');
    assert.ok(Array.isArray(entry.validate(completed)));
    assert.ok(Array.isArray(entry.validateUpdate(completed, completed)));
    const created = entry.prepareForCreate(completed, 0);
    assert.deepEqual(
      entry.prepareForUpdate(created, created, 0),
      created,
      'an update without a change changes nothing',
    );
    for (const { update } of entry.subresources) {
      if (update !== undefined) assert.deepEqual(update.prepare(created, created, 0), created);
    }
    assert.equal(
      tableOf(entry, [created], {}, { version: 'v1', includeObject: 'None', withColumns: true, now: 0 }).rows.length,
      1,
    );
    for (const field of Object.keys(entry.fields)) assert.equal(typeof entry.fields[field]?.(created), 'string');
  });
}

test('a view stores its objects as those of the resource it is a view of, and shows them again', () => {
  const views = resources.filter(({ viewOf }) => viewOf !== undefined);
  assert.equal(views.length, 2);
  for (const entry of views) {
    const { viewOf } = entry;
    assert.ok(viewOf && resources.includes(viewOf.resource));
    const json = { apiVersion: apiVersionOf(entry), kind: entry.kind, metadata: { name: 'x' } };
    const given = decode(entry.shape, json).value;
    const stored = viewOf.toStored(given);
    assert.equal(stored.apiVersion, apiVersionOf(viewOf.resource));
    assert.deepEqual(decode(viewOf.resource.shape, stored).problems, []);
    const shown = viewOf.fromStored(stored);
    assert.deepEqual(decode(entry.shape, shown).problems, []);
    assert.equal(shown.apiVersion, apiVersionOf(entry));
  }
});

test('ResourceTable finds resources by path and by kind, and by nothing else', () => {
  const table = new ResourceTable(resources);
  assert.equal(table.byPlural({ group: '', version: 'v1' }, 'pods')?.kind, 'Pod');
  assert.equal(table.byPlural({ group: '', version: 'v1' }, 'po'), undefined);
  assert.equal(table.byPlural({ group: '', version: 'v1' }, 'pod'), undefined);
  assert.equal(table.byPlural({ group: 'events.k8s.io', version: 'v1' }, 'events')?.group, 'events.k8s.io');
  assert.equal(table.byKind('coordination.k8s.io/v1', 'Lease')?.plural, 'leases');
  assert.equal(table.byKind('v1', 'Lease'), undefined);
  assert.deepEqual(parseApiVersion('a.b/v2'), { group: 'a.b', version: 'v2' });
  assert.deepEqual(
    [...table.groupVersions().keys()],
    [
      'v1',
      'apps/v1',
      'authentication.k8s.io/v1',
      'authorization.k8s.io/v1',
      'autoscaling/v2',
      'batch/v1',
      'certificates.k8s.io/v1',
      'certificates.k8s.io/v1beta1',
      'coordination.k8s.io/v1',
      'discovery.k8s.io/v1',
      'events.k8s.io/v1',
      'metrics.k8s.io/v1beta1',
      'networking.k8s.io/v1',
      'node.k8s.io/v1',
      'policy/v1',
      'rbac.authorization.k8s.io/v1',
      'scheduling.k8s.io/v1',
      'storage.k8s.io/v1',
    ],
  );
});

interface Toy {
  readonly apiVersion?: string;
  readonly kind?: string;
  readonly metadata: ObjectMeta;
  readonly colour?: string;
}

test('a new kind is one entry: discovery, tables, selectors and OpenAPI know it', () => {
  const toyKind = resourceKind<Toy>({
    group: 'example.com',
    kind: 'Toy',
    plural: 'toys',
    namespaced: true,
    shape: object({ ...objectFields, colour: string }),
  });
  const toys = resource(toyKind, {
    fields: { colour: ({ colour = '' }) => colour },
    columns: [nameColumn, ageColumn],
  });
  const table = new ResourceTable([...resources, toys]);
  const found = table.byKind('example.com/v1', 'Toy');
  assert.ok(found);
  assert.equal(inDiscovery(found), `example.com/v1 toys Toy ns - ${all} -`);
  assert.deepEqual(parseFieldSelector('colour=red', found), [{ field: 'colour', operator: '=', value: 'red' }]);
  const red = decode(found.shape, { metadata: { name: 'ball' }, colour: 'red' }).value;
  const rows = tableOf(found, [red], {}, { version: 'v1', includeObject: 'None', withColumns: false, now: 0 }).rows;
  assert.deepEqual(rows, [{ cells: ['ball', '<unknown>'] }]);
  const text = new OpenApiDocuments(table, '0').document('apis/example.com/v1')?.json ?? '';
  assert.ok(text.includes('"com.example.v1.Toy"') && text.includes('"colour"'));
});
