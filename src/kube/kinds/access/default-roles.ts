/**
 * The roles and bindings that every cluster has from the start, as a table. Users and charts count on them: `view`, `edit` and
 * `admin` for people, and a role for each program of a cluster that is not one of its masters.
 *
 * A rule is four words, of which the last two may be missing: verbs, resources or paths, groups (`core` is the one without a name),
 * names. `R` stands for the verbs that read, `W` for those that write, `RW` for both.
 */
import type { ObjectMeta } from '../../schema/meta.ts';
import type { RoleBinding, Subject } from './role-binding.ts';
import { type ClusterRole, type PolicyRule, type Role, accessGroup } from './role.ts';

/** Whoever changes a default object and wants it to stay like that says `false`. */
export const autoUpdateAnnotation = `${accessGroup}/autoupdate`;

const verbsOf: Readonly<Record<string, readonly string[]>> = {
  R: ['get', 'list', 'watch'],
  W: ['create', 'delete', 'deletecollection', 'patch', 'update'],
  RW: ['create', 'delete', 'deletecollection', 'get', 'list', 'patch', 'update', 'watch'],
};

const workloads = 'daemonsets,deployments,replicasets,statefulsets';
const scalable = 'deployments,replicasets,statefulsets';
const withPart = (plurals: string, part: string): string =>
  plurals.replaceAll(/[^,]+/g, (plural) => `${plural}/${part}`);
const written = `${workloads},${withPart(scalable, 'scale')},deployments/rollback`;
const seen = `${workloads},${withPart(workloads, 'status')},${withPart(scalable, 'scale')}`;
const extensions = 'ingresses,networkpolicies,replicationcontrollers/scale';
const connections = 'pods/attach,pods/exec,pods/portforward,pods/proxy';
const events = 'create,patch,update events core,events.k8s.io';
const health = '/healthz,/livez,/readyz';

/** By name; `<` stands before the role that a role is aggregated to. */
const clusterRoleTable: Readonly<Record<string, readonly string[]>> = {
  'cluster-admin': ['* * *', '* *paths'],
  'system:discovery': [`get /api,/api/*,/apis,/apis/*,${health},/openapi,/openapi/*,/version,/version/`],
  'system:public-info-viewer': [`get ${health},/version,/version/`],
  'system:basic-user': [
    'create selfsubjectaccessreviews,selfsubjectrulesreviews authorization.k8s.io',
    'create selfsubjectreviews authentication.k8s.io',
  ],
  'system:aggregate-to-admin < admin': [
    'create localsubjectaccessreviews authorization.k8s.io',
    `RW roles,rolebindings ${accessGroup}`,
  ],
  'system:aggregate-to-edit < edit': [
    `R ${connections},secrets,services/proxy`,
    'impersonate serviceaccounts',
    `W pods,${connections}`,
    'create pods/eviction',
    'W configmaps,persistentvolumeclaims,replicationcontrollers,replicationcontrollers/scale,secrets,serviceaccounts,services,services/proxy',
    'create serviceaccounts/token',
    'W events core,events.k8s.io',
    `W ${written} apps`,
    'W horizontalpodautoscalers autoscaling',
    'W cronjobs,jobs batch',
    `W ${written.replaceAll(/,statefulsets[^,]*/g, '')},${extensions} extensions`,
    'W poddisruptionbudgets policy',
    'W ingresses,networkpolicies networking.k8s.io',
    'RW leases coordination.k8s.io',
    'W resourceclaims,resourceclaimtemplates resource.k8s.io',
  ],
  'system:aggregate-to-view < view': [
    'R configmaps,endpoints,persistentvolumeclaims,persistentvolumeclaims/status,pods,replicationcontrollers,replicationcontrollers/scale,serviceaccounts,services,services/status',
    'R bindings,limitranges,namespaces/status,pods/log,pods/status,replicationcontrollers/status,resourcequotas,resourcequotas/status',
    'R namespaces',
    'R events core,events.k8s.io',
    'R endpointslices discovery.k8s.io',
    `R controllerrevisions,${seen} apps`,
    'R horizontalpodautoscalers,horizontalpodautoscalers/status autoscaling',
    'R cronjobs,cronjobs/status,jobs,jobs/status batch',
    `R ${seen.replaceAll(/,statefulsets[^,]*/g, '')},ingresses/status,${extensions} extensions`,
    'R poddisruptionbudgets,poddisruptionbudgets/status policy',
    'R ingresses,ingresses/status,networkpolicies networking.k8s.io',
    'R resourceclaims,resourceclaims/status,resourceclaimtemplates resource.k8s.io',
  ],
  // Elsewhere the metrics server brings it along.
  'system:aggregated-metrics-reader < view': ['R nodes,pods metrics.k8s.io'],
  'system:node': [
    'create tokenreviews authentication.k8s.io',
    'create localsubjectaccessreviews,subjectaccessreviews authorization.k8s.io',
    'R services',
    'create,get,list,watch nodes',
    'patch,update nodes/status',
    'patch,update nodes',
    events,
    'R pods',
    'create,delete pods',
    'patch,update pods/status',
    'create pods/eviction',
    'R configmaps,secrets',
    'get persistentvolumeclaims,persistentvolumes',
    'get endpoints',
    'create,get,list,watch certificatesigningrequests certificates.k8s.io',
    'create,delete,get,patch,update leases coordination.k8s.io',
    'get volumeattachments storage.k8s.io',
    'create serviceaccounts/token',
    'get,patch,update persistentvolumeclaims/status',
    'R csidrivers storage.k8s.io',
    'create,delete,get,patch,update csinodes storage.k8s.io',
    'R runtimeclasses node.k8s.io',
    'get resourceclaims resource.k8s.io',
    'deletecollection resourceslices resource.k8s.io',
    'R clustertrustbundles certificates.k8s.io',
    'get serviceaccounts',
  ],
  'system:node-bootstrapper': ['create,get,list,watch certificatesigningrequests certificates.k8s.io'],
  'system:node-problem-detector': ['get nodes', 'patch nodes/status', events],
  'system:node-proxier': [
    'list,watch endpoints,services',
    'R nodes',
    events,
    'list,watch servicecidrs networking.k8s.io',
    'list,watch endpointslices discovery.k8s.io',
  ],
  'system:kubelet-api-admin': [
    'R nodes',
    'proxy nodes',
    '* nodes/configz,nodes/healthz,nodes/log,nodes/metrics,nodes/pods,nodes/proxy,nodes/stats',
  ],
  'system:monitoring': [
    'get /flagz,/healthz,/healthz/*,/livez,/livez/*,/metrics,/metrics/slis,/readyz,/readyz/*,/statusz',
    'get nodes/metrics',
  ],
  'system:auth-delegator': [
    'create tokenreviews authentication.k8s.io',
    'create subjectaccessreviews authorization.k8s.io',
  ],
  'system:heapster': ['R events,namespaces,nodes,pods', 'R deployments extensions'],
  'system:kube-aggregator': ['R endpoints,services'],
  'system:kube-dns': ['list,watch endpoints,services'],
  'system:persistent-volume-provisioner': [
    'create,delete,get,list,watch persistentvolumes',
    'get,list,update,watch persistentvolumeclaims',
    'R storageclasses storage.k8s.io',
    'watch events',
    events,
  ],
  'system:volume-scheduler': [
    'get,list,patch,update,watch persistentvolumeclaims,persistentvolumes',
    'R storageclasses storage.k8s.io',
  ],
  'system:kube-scheduler': [
    events,
    'create leases coordination.k8s.io',
    'get,list,update,watch leases coordination.k8s.io kube-scheduler',
    'RW leasecandidates coordination.k8s.io',
    'R namespaces,nodes,persistentvolumeclaims,persistentvolumes,replicationcontrollers,services',
    'delete,get,list,watch pods',
    'create bindings,pods/binding',
    'patch,update pods/status',
    'update pods/finalizers',
    'R replicasets apps,extensions',
    'R statefulsets apps',
    'R poddisruptionbudgets policy',
    'create tokenreviews authentication.k8s.io',
    'create subjectaccessreviews authorization.k8s.io',
    'R csidrivers,csinodes,csistoragecapacities,volumeattachments storage.k8s.io',
    'R deviceclasses,devicetaintrules,resourceslices resource.k8s.io',
    'create,delete,get,list,patch,update,watch resourceclaims resource.k8s.io',
    'get,list,patch,update,watch resourceclaims/status resource.k8s.io',
    'patch,update resourceclaims/binding resource.k8s.io',
  ],
  'system:kube-controller-manager': [
    events,
    'create leases coordination.k8s.io',
    'get,update leases coordination.k8s.io kube-controller-manager',
    'create,delete,get,update secrets',
    'create,get,update serviceaccounts',
    'get configmaps,namespaces',
    'create serviceaccounts/token',
    'create tokenreviews authentication.k8s.io',
    'create subjectaccessreviews authorization.k8s.io',
    'list,watch * *',
  ],
  'system:service-account-issuer-discovery': [
    'get /.well-known/openid-configuration,/.well-known/openid-configuration/,/openid/v1/jwks,/openid/v1/jwks/',
  ],
  'system:cluster-trust-bundle-discovery': ['R clustertrustbundles certificates.k8s.io'],
  'system:certificates.k8s.io:certificatesigningrequests:nodeclient': [
    'create certificatesigningrequests/nodeclient certificates.k8s.io',
  ],
  'system:certificates.k8s.io:certificatesigningrequests:selfnodeclient': [
    'create certificatesigningrequests/selfnodeclient certificates.k8s.io',
  ],
  ...Object.fromEntries(
    ['kube-apiserver-client', 'kube-apiserver-client-kubelet', 'kubelet-serving', 'legacy-unknown'].map((signer) => [
      `system:certificates.k8s.io:${signer}-approver`,
      [`approve signers certificates.k8s.io kubernetes.io/${signer}`],
    ]),
  ),
};

/** Made of the others by their labels; each but the last is part of the next. */
const aggregated: Readonly<Record<string, string | undefined>> = { view: 'edit', edit: 'admin', admin: undefined };

/** `g:` a group, `u:` a user, `s:` a service account of kube-system. */
const clusterBindingTable: Readonly<Record<string, readonly string[]>> = {
  'cluster-admin': ['g:system:masters'],
  'system:monitoring': ['g:system:monitoring'],
  'system:discovery': ['g:system:authenticated'],
  'system:basic-user': ['g:system:authenticated'],
  'system:public-info-viewer': ['g:system:authenticated', 'g:system:unauthenticated'],
  'system:node-proxier': ['u:system:kube-proxy'],
  'system:kube-controller-manager': ['u:system:kube-controller-manager'],
  'system:kube-scheduler': ['u:system:kube-scheduler'],
  'system:volume-scheduler': ['u:system:kube-scheduler'],
  'system:service-account-issuer-discovery': ['g:system:serviceaccounts'],
  'system:cluster-trust-bundle-discovery': ['g:system:serviceaccounts'],
  'system:kube-dns': ['s:kube-dns'],
  // Nobody: what a node may do depends on its pods, which no rule can say.
  'system:node': [],
};

const election = ['create,get,list,update,watch leases,leasecandidates coordination.k8s.io'];
const authenticationReader = 'extension-apiserver-authentication-reader';

/** In kube-system. */
const roleTable: Readonly<Record<string, readonly string[]>> = {
  [authenticationReader]: ['R configmaps core extension-apiserver-authentication'],
  'system::leader-locking-kube-controller-manager': election,
  'system::leader-locking-kube-scheduler': election,
};
const bindingTable: readonly (readonly [name: string, role: string, subjects: readonly string[]])[] = [
  [
    `system::${authenticationReader}`,
    authenticationReader,
    ['u:system:kube-controller-manager', 'u:system:kube-scheduler'],
  ],
  ...['kube-controller-manager', 'kube-scheduler'].map((program): [string, string, string[]] => {
    const role = `system::leader-locking-${program}`;
    return [role, role, [`u:system:${program}`, `s:${program}`]];
  }),
];

const system = 'kube-system';

export const defaultClusterRoles: readonly ClusterRole[] = [
  ...Object.entries(clusterRoleTable).map(([words, rules]): ClusterRole => {
    const [name = '', target] = words.split(' < ');
    return { metadata: metadataOf(name, target), rules: rules.map(ruleOf) };
  }),
  ...Object.entries(aggregated).map(([name, target]): ClusterRole => {
    const aggregationRule = { clusterRoleSelectors: [{ matchLabels: aggregationLabel(name) }] };
    return { metadata: metadataOf(name, target), aggregationRule, rules: [] };
  }),
];
export const defaultClusterRoleBindings: readonly RoleBinding[] = Object.entries(clusterBindingTable).map(
  ([name, subjects]) => bindingOf(metadataOf(name), 'ClusterRole', name, subjects),
);
export const defaultRoles: readonly Role[] = Object.entries(roleTable).map(([name, rules]) => ({
  metadata: { ...metadataOf(name), namespace: system },
  rules: rules.map(ruleOf),
}));
export const defaultRoleBindings: readonly RoleBinding[] = bindingTable.map(([name, role, subjects]) =>
  bindingOf({ ...metadataOf(name), namespace: system }, 'Role', role, subjects),
);

function aggregationLabel(target: string): Readonly<Record<string, string>> {
  return { [`${accessGroup}/aggregate-to-${target}`]: 'true' };
}

function metadataOf(name: string, target?: string): ObjectMeta {
  const labels = { 'kubernetes.io/bootstrapping': 'rbac-defaults', ...(target && aggregationLabel(target)) };
  return { name, annotations: { [autoUpdateAnnotation]: 'true' }, labels };
}

function ruleOf(words: string): PolicyRule {
  const [verbWord = '', what = '', groupWord = 'core', names] = words.split(' ');
  const verbs = verbsOf[verbWord] ?? verbWord.split(',');
  if (what === '*paths') return { nonResourceURLs: ['*'], verbs };
  if (what.startsWith('/')) return { nonResourceURLs: what.split(','), verbs };
  const apiGroups = groupWord.split(',').map((group) => (group === 'core' ? '' : group));
  return { apiGroups, resources: what.split(','), ...(names && { resourceNames: names.split(',') }), verbs };
}

function bindingOf(metadata: ObjectMeta, kind: string, role: string, subjects: readonly string[]): RoleBinding {
  const roleRef = { apiGroup: accessGroup, kind, name: role };
  return { metadata, roleRef, ...(subjects.length > 0 && { subjects: subjects.map(subjectOf) }) };
}

function subjectOf(words: string): Subject {
  const name = words.slice(2);
  if (words.startsWith('s:')) return { kind: 'ServiceAccount', name, namespace: system };
  return { apiGroup: accessGroup, kind: words.startsWith('g:') ? 'Group' : 'User', name };
}
