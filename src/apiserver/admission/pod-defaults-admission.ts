/** What admission adds to every new pod besides its account: its priority, and how long it stays on a node that fails. */
import type { PodSpec } from '../../kube/kinds/pod/pod-spec.ts';
import type { Pod } from '../../kube/kinds/pod/pod.ts';
import { isMirrorPod } from '../identity/pod-references.ts';
import type { AdmissionStep } from './admission.ts';

type Toleration = NonNullable<PodSpec['tolerations']>[number];

const stayOnFailedNodeSeconds = 300;
const failures = ['node.kubernetes.io/not-ready', 'node.kubernetes.io/unreachable'];

export const podDefaultsAdmission: AdmissionStep = {
  admit({ operation, resource, subresource, object }) {
    const isPod = resource.plural === 'pods' && resource.group === '' && subresource === '';
    if (operation !== 'CREATE' || !isPod) return undefined;
    const pod = object as Pod;
    if (isMirrorPod(pod)) return undefined;
    const { tolerations = [], priority = 0, preemptionPolicy = 'PreemptLowerPriority' } = pod.spec;
    const missing = failures
      .filter((key) => !tolerations.some((toleration) => tolerates(toleration, key)))
      .map((key) => ({ key, operator: 'Exists', effect: 'NoExecute', tolerationSeconds: stayOnFailedNodeSeconds }));
    return { ...pod, spec: { ...pod.spec, priority, preemptionPolicy, tolerations: [...tolerations, ...missing] } };
  },
};

function tolerates({ key = '', effect = '' }: Toleration, failure: string): boolean {
  return (key === failure || key === '') && (effect === 'NoExecute' || effect === '');
}
