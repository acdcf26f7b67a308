/** The steps that every write goes through, in their order. */
import type { Namespace } from '../../kube/kinds/namespace.ts';
import { isMirrorPod } from '../../kube/kinds/pod/pod-identity.ts';
import type { PodSpec } from '../../kube/kinds/pod/pod-spec.ts';
import type { Pod } from '../../kube/kinds/pod/pod.ts';
import { notFound } from '../model/status.ts';
import { objectKey } from '../model/stored-objects.ts';
import type { Store } from '../store/store.ts';
import { type AdmissionStep, isNewPod, refuse } from './admission.ts';
import { certificateAdmission } from './certificate-admission.ts';
import { escalationAdmission } from './escalation.ts';
import { nodeRestrictionAdmission } from './node-restriction.ts';
import { priorityAdmission } from './priority-admission.ts';
import { runtimeClassAdmission } from './runtime-class-admission.ts';
import { serviceAccountAdmission } from './service-account-admission.ts';
import { serviceAllocation } from './service-allocation.ts';
import type { ServicePool } from './service-claims.ts';
import { storageAdmission } from './storage-admission.ts';

type AdmissionDeps = Parameters<typeof serviceAccountAdmission>[0] &
  Parameters<typeof escalationAdmission>[0] & { readonly services: ServicePool };

export function standardAdmission(deps: AdmissionDeps): readonly AdmissionStep[] {
  const { store, services } = deps;
  return [
    namespaceLifecycle(store),
    nodeRestrictionAdmission(store),
    priorityAdmission(store),
    tolerationsAdmission,
    runtimeClassAdmission(store),
    storageAdmission(store),
    serviceAccountAdmission(deps),
    serviceAllocation(services),
    escalationAdmission(deps),
    certificateAdmission(deps.authorizer),
  ];
}

const namespaces = { group: '', plural: 'namespaces', namespaced: false };

/** Nothing is created in a namespace that does not exist or is about to end. */
function namespaceLifecycle(store: Pick<Store, 'get'>): AdmissionStep {
  return {
    admit(request) {
      const { operation, resource, namespace, subresource } = request;
      // A subresource (a token, an eviction) creates no object.
      if (operation !== 'CREATE' || !resource.namespaced || subresource !== '') return undefined;
      const stored = store.get(objectKey(namespaces, '', namespace));
      if (stored === undefined) throw notFound({ group: '', name: 'namespaces' }, namespace);
      const { metadata, status } = JSON.parse(stored.value) as Namespace;
      if (metadata.deletionTimestamp === undefined && status?.phase !== 'Terminating') return undefined;
      const text = `unable to create new content in namespace ${namespace} because it is being terminated`;
      const message = `namespace ${namespace} is being terminated`;
      throw refuse(request, text, [{ reason: 'NamespaceTerminating', message, field: 'metadata.namespace' }]);
    },
  };
}

type Toleration = NonNullable<PodSpec['tolerations']>[number];

const stayOnFailedNodeSeconds = 300;
const failures = ['node.kubernetes.io/not-ready', 'node.kubernetes.io/unreachable'];

/** How long a new pod stays on a node that fails. */
const tolerationsAdmission: AdmissionStep = {
  admit(request) {
    if (!isNewPod(request)) return undefined;
    const pod = request.object as Pod;
    if (isMirrorPod(pod)) return undefined;
    const { tolerations = [] } = pod.spec;
    const missing = failures
      .filter((key) => !tolerations.some((toleration) => tolerates(toleration, key)))
      .map((key) => ({ key, operator: 'Exists', effect: 'NoExecute', tolerationSeconds: stayOnFailedNodeSeconds }));
    return { ...pod, spec: { ...pod.spec, tolerations: [...tolerations, ...missing] } };
  },
};

function tolerates({ key = '', effect = '' }: Toleration, failure: string): boolean {
  return (key === failure || key === '') && (effect === 'NoExecute' || effect === '');
}
