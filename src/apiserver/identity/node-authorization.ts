/**
 * What a node may do: read what its own pods name, report about itself and them. It is refused with a reason, unless
 * another authorizer allows it. What depends on the content of an object is checked later, in `admission/node-restriction.ts`.
 */
import type { PolicyRule } from '../../kube/kinds/access/role.ts';
import { goQuote } from '../../kube/values/go-text.ts';
import type { NodeRelations, RelatedKind } from './node-graph.ts';
import { resourceRuleAllows } from './policy-rules.ts';
import type { RequestAttributes, ResourceAttributes } from './user.ts';

export interface Decision {
  readonly allowed: boolean;
  /** Why not; empty where there is nothing to say. */
  readonly reason: string;
}

const allowed: Decision = { allowed: true, reason: '' };
const refused = (reason = ''): Decision => ({ allowed: false, reason });

const reads = ['get', 'list', 'watch'];
const ownObjectVerbs = new Set(['get', 'create', 'update', 'patch', 'delete']);
const nodeLeaseNamespace = 'kube-node-lease';

const staticRules: readonly PolicyRule[] = [
  { verbs: ['create'], apiGroups: ['authentication.k8s.io'], resources: ['tokenreviews'] },
  {
    verbs: ['create'],
    apiGroups: ['authorization.k8s.io'],
    resources: ['subjectaccessreviews', 'localsubjectaccessreviews'],
  },
  { verbs: reads, apiGroups: [''], resources: ['services'] },
  { verbs: ['create', 'update', 'patch'], apiGroups: ['', 'events.k8s.io'], resources: ['events'] },
  { verbs: ['get'], apiGroups: [''], resources: ['endpoints'] },
  { verbs: ['create', ...reads], apiGroups: ['certificates.k8s.io'], resources: ['certificatesigningrequests'] },
  { verbs: reads, apiGroups: ['certificates.k8s.io'], resources: ['clustertrustbundles'] },
  { verbs: reads, apiGroups: ['storage.k8s.io'], resources: ['csidrivers'] },
  { verbs: reads, apiGroups: ['node.k8s.io'], resources: ['runtimeclasses'] },
];

export function authorizeNode(
  node: string,
  userName: string,
  request: RequestAttributes,
  relations: NodeRelations,
): Decision {
  if (node === '') return refused(`unknown node for user ${goQuote(userName)}`);
  if (request.kind === 'path') return refused();
  const related = (kind: RelatedKind): Decision => relatedObject(node, kind, request, relations);
  switch (`${request.resource}.${request.group}`) {
    case 'secrets.':
      return readOfNamed(request) ?? related('secret');
    case 'configmaps.':
      return readOfNamed(request) ?? related('configMap');
    case 'persistentvolumeclaims.':
      return request.subresource === 'status'
        ? (claimStatus(request) ?? related('claim'))
        : (getOfNamed(request) ?? related('claim'));
    case 'persistentvolumes.':
      return getOfNamed(request) ?? related('persistentVolume');
    case 'serviceaccounts.':
      return request.verb === 'get' && request.subresource === ''
        ? (readOfNamed(request) ?? related('serviceAccount'))
        : (tokenOfNamed(request) ?? related('serviceAccount'));
    case 'leases.coordination.k8s.io':
      return lease(node, request);
    case 'csinodes.storage.k8s.io':
      return csiNode(node, request);
    case 'nodes.':
      return ownNode(node, request);
    case 'pods.':
      return pods(node, request, related);
    case 'volumeattachments.storage.k8s.io':
      return getOfNamed(request) ?? related('volumeAttachment');
    // They are related to nothing here: the server keeps no claims of devices.
    case 'resourceclaims.resource.k8s.io':
      return getOfNamed(request) ?? unrelated(node);
    default:
      return staticRules.some((rule) => resourceRuleAllows(rule, request)) ? allowed : refused();
  }
}

function relatedObject(
  node: string,
  kind: RelatedKind,
  { namespace, name }: ResourceAttributes,
  relations: NodeRelations,
): Decision {
  if (name === '') return refused('No Object name found');
  return relations.isRelated(node, kind, namespace, name) ? allowed : unrelated(node);
}

function unrelated(node: string): Decision {
  return refused(`no relationship found between node '${node}' and this object`);
}

// Each of the following refuses what could not be allowed for any object, and leaves the rest to the relations.

function readOfNamed({ verb, subresource, namespace }: ResourceAttributes): Decision | undefined {
  if (!reads.includes(verb)) return refused('can only read resources of this type');
  if (subresource !== '') return refused('cannot read subresource');
  return namespace === '' ? refused('can only read namespaced object of this type') : undefined;
}

function getOfNamed({ verb, subresource }: ResourceAttributes): Decision | undefined {
  if (verb !== 'get') return refused('can only get individual resources of this type');
  return subresource === '' ? undefined : refused('cannot get subresource');
}

function claimStatus({ verb }: ResourceAttributes): Decision | undefined {
  return verb === 'update' || verb === 'patch' ? undefined : refused('can only get/update/patch this type');
}

function tokenOfNamed({ verb, name, subresource }: ResourceAttributes): Decision | undefined {
  if (verb !== 'create' || name === '') return refused('can only create tokens for individual service accounts');
  return subresource === 'token' ? undefined : refused('can only create token subresource of serviceaccount');
}

// A create has no name yet; admission looks at the object's.

function lease(node: string, { verb, namespace, name }: ResourceAttributes): Decision {
  if (!ownObjectVerbs.has(verb)) return refused('can only get, create, update, patch, or delete a node lease');
  if (namespace !== nodeLeaseNamespace) {
    return refused(`can only access leases in the "${nodeLeaseNamespace}" system namespace`);
  }
  if (verb === 'create' || name === node) return allowed;
  return refused('can only access node lease with the same name as the requesting node');
}

function csiNode(node: string, { verb, subresource, name }: ResourceAttributes): Decision {
  if (subresource !== '') return refused('cannot authorize CSINode subresources');
  if (!ownObjectVerbs.has(verb)) return refused('can only get, create, update, patch, or delete a CSINode');
  if (verb === 'create' || name === node) return allowed;
  return refused('can only access CSINode with the same name as the requesting node');
}

function ownNode(node: string, { verb, subresource, name }: ResourceAttributes): Decision {
  if (subresource === 'status') return ['update', 'patch'].includes(verb) ? allowed : refused();
  if (subresource !== '') return refused();
  if (['create', 'update', 'patch'].includes(verb)) return allowed;
  // Compared by name and not by relation: a kubelet looks for its Node before it creates it.
  if (!reads.includes(verb) || name === node) return { allowed: reads.includes(verb), reason: '' };
  if (name === '') return refused(`node '${node}' cannot read all nodes, only its own Node object`);
  return refused(`node '${node}' cannot read '${name}', only its own Node object`);
}

function pods(node: string, request: ResourceAttributes, related: (kind: 'pod') => Decision): Decision {
  const { verb, subresource, name, fieldEquals } = request;
  if (subresource === 'status') return ['update', 'patch'].includes(verb) ? allowed : refused();
  if (subresource === 'eviction') return verb === 'create' ? allowed : refused();
  if (subresource !== '') return refused();
  switch (verb) {
    case 'create':
    case 'delete':
      return allowed;
    case 'get':
      return related('pod');
    case 'list':
    case 'watch':
      if (Object.hasOwn(fieldEquals, 'spec.nodeName') && fieldEquals['spec.nodeName'] === node) return allowed;
      return name === '' ? refused('can only list/watch pods with spec.nodeName field selector') : related('pod');
    default:
      return refused();
  }
}
