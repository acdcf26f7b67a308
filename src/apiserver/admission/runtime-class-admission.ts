/** What a RuntimeClass means for pods that name it: it has to exist, and its overhead and nodes become theirs. */
import { isDeepStrictEqual } from 'node:util';
import type { Pod } from '../../kube/kinds/pod/pod.ts';
import { type RuntimeClass, runtimeClassKind } from '../../kube/kinds/runtime-class.ts';
import { goQuote } from '../../kube/values/go-text.ts';
import { Quantity, readQuantity } from '../../kube/values/quantity.ts';
import { objectKey, parseStored } from '../model/stored-objects.ts';
import type { Store } from '../store/store.ts';
import { type AdmissionRequest, type AdmissionStep, isNewPod, refuse } from './admission.ts';

const runtimeClasses = { group: 'node.k8s.io', plural: runtimeClassKind.plural, namespaced: false };

export function runtimeClassAdmission(store: Pick<Store, 'get'>): AdmissionStep {
  return {
    admit(request) {
      if (!isNewPod(request)) return undefined;
      const pod = request.object as Pod;
      const { runtimeClassName: name, overhead } = pod.spec;
      const stored = name === undefined ? undefined : store.get(objectKey(runtimeClasses, '', name));
      if (name !== undefined && stored === undefined) {
        throw refuse(request, `pod rejected: RuntimeClass ${goQuote(name)} not found`);
      }
      const found = stored && (parseStored(stored.value) as RuntimeClass);
      if (found?.overhead === undefined && overhead !== undefined) {
        throw refuse(request, 'pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead');
      }
      return found === undefined ? undefined : placed(request, withOverhead(request, pod, found), found);
    },
  };
}

function withOverhead(request: AdmissionRequest, pod: Pod, { overhead }: RuntimeClass): Pod {
  if (overhead === undefined) return pod;
  const { podFixed = {} } = overhead;
  const given = pod.spec.overhead ?? {};
  if (Object.keys(given).length > 0 && !areEqual(given, podFixed)) {
    throw refuse(request, "pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead");
  }
  return { ...pod, spec: { ...pod.spec, overhead: podFixed } };
}

type Amounts = Readonly<Record<string, string | number>>;

function areEqual(one: Amounts, other: Amounts): boolean {
  const names = new Set([...Object.keys(one), ...Object.keys(other)]);
  const amountOf = (amounts: Amounts, name: string): Quantity => readQuantity(amounts[name]) ?? Quantity.zero();
  return [...names].every((name) => amountOf(one, name).equals(amountOf(other, name)));
}

function placed(request: AdmissionRequest, pod: Pod, { scheduling }: RuntimeClass): Pod {
  if (scheduling === undefined) return pod;
  const { nodeSelector = {}, tolerations = [] } = pod.spec;
  for (const [key, value] of Object.entries(scheduling.nodeSelector ?? {})) {
    const own = Object.hasOwn(nodeSelector, key) ? nodeSelector[key] : undefined;
    if (own === undefined || own === value) continue;
    const places = [
      `runtimeClass.scheduling.nodeSelector[${key}] = ${value}`,
      `pod.spec.nodeSelector[${key}] = ${own}`,
    ];
    throw refuse(request, `conflict: ${places.join('; ')}`);
  }
  const more = (scheduling.tolerations ?? []).filter((one) => !tolerations.some((own) => isDeepStrictEqual(own, one)));
  const spec = { ...pod.spec, tolerations: [...tolerations, ...more] };
  const selector = { ...nodeSelector, ...scheduling.nodeSelector };
  return { ...pod, spec: Object.keys(selector).length === 0 ? spec : { ...spec, nodeSelector: selector } };
}
