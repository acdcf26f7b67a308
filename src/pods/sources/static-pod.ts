/** What a pod from a file gets before it is defaulted and validated as any other: a name, a UID and a place of its own. */
import type { PodSpec } from '../../kube/kinds/pod/pod-spec.ts';
import type { Pod } from '../../kube/kinds/pod/pod.ts';
import { canonicalJson } from './canonical-json.ts';
import { fnvHash } from './fnv-hash.ts';
import { hashAnnotation, withAnnotations } from './pod-annotations.ts';

interface StaticPodOrigin {
  readonly nodeName: string;
  /** The file, as it is named in messages. */
  readonly file: string;
}

/**
 * The order matters: the UID comes from the pod as it was written, so that any change of it, another file and another node
 * make another pod.
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
      // An absent name stays absent, for validation to say so.
      name: name === '' ? '' : `${name}-${nodeName.toLowerCase()}`,
      namespace: namespace === '' ? 'default' : namespace,
    },
    spec: { ...written.spec, nodeName, tolerations },
    status: { phase: 'Pending' },
  };
  return withAnnotations(pod, { [hashAnnotation]: uid });
}

/**
 * Objects of the API that a pod from a file cannot have here. The kubelet refuses every reference; we take ConfigMaps and
 * Secrets from the same folder, so these are fine.
 */
export function refusedReferences(spec: PodSpec): readonly string[] {
  const refused = new Set<string>();
  if ((spec.resourceClaims ?? []).length > 0) refused.add('resourceclaims');
  for (const { projected, ephemeral } of spec.volumes ?? []) {
    if (ephemeral !== undefined) refused.add('persistentvolumeclaims (via ephemeral volumes)');
    for (const source of projected?.sources ?? []) {
      if (source.serviceAccountToken !== undefined) refused.add('serviceaccounts (via projected volumes)');
      if (source.clusterTrustBundle !== undefined) refused.add('clustertrustbundles');
      if (source.podCertificate !== undefined) refused.add('podcertificates');
    }
  }
  return [...refused].map((what) => `static pods may not reference ${what}`);
}
