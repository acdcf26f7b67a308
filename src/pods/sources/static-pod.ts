/** What a pod from a file gets before it is defaulted and validated like any other: its name, UID and node. */
import { hashAnnotation, withAnnotations } from '../../kube/kinds/pod/pod-identity.ts';
import type { Pod } from '../../kube/kinds/pod/pod.ts';
import { type PodReference, referenceWords, referencesOf } from '../../kube/pod-references.ts';
import { canonicalJson, fnvHash } from '../../kube/schema/content-hash.ts';

interface StaticPodOrigin {
  readonly nodeName: string;
  /** The path of the file. */
  readonly file: string;
}

/**
 * The UID is derived from the pod as it was written, so that any change, another file or another node makes another pod.
 */
export function asStaticPod(written: Pod, { nodeName, file }: StaticPodOrigin): Pod {
  const { uid: givenUid = '', name, namespace = '' } = written.metadata;
  const uid = givenUid === '' ? fnvHash(`${canonicalJson(written)}host:${nodeName}file:${file}`) : givenUid;
  const tolerations = [...(written.spec.tolerations ?? []), { operator: 'Exists', effect: 'NoExecute' }];
  const { resourceVersion: _version, managedFields: _managed, ...metadata } = written.metadata;
  const pod: Pod = {
    ...written,
    metadata: {
      ...metadata,
      uid,
      // An absent name stays absent, so that validation refuses it.
      name: name === '' ? '' : `${name}-${nodeName.toLowerCase()}`,
      namespace: namespace === '' ? 'default' : namespace,
    },
    spec: { ...written.spec, nodeName, tolerations },
    status: { phase: 'Pending' },
  };
  return withAnnotations(pod, { [hashAnnotation]: uid });
}

/**
 * API objects that a pod from a file cannot have here. The kubelet refuses every reference; we take ConfigMaps, Secrets and
 * claims from the same folder, so these are fine.
 */
export function refusedReferences(pod: Pod): readonly string[] {
  const refused = referencesOf(pod).filter(needsApiServer);
  return [...new Set(refused.map(referenceWords))].map((what) => `static pods may not reference ${what}`);
}

function needsApiServer({ kind, via }: PodReference): boolean {
  if (kind === 'ServiceAccount') return via === 'projected';
  if (kind === 'PersistentVolumeClaim') return via === 'ephemeral';
  return kind === 'ResourceClaim' || kind === 'ClusterTrustBundle' || kind === 'PodCertificate';
}
