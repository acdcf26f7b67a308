/**
 * What a PriorityClass means for pods: a new pod gets the number and the preemption policy of the class it names, else of the
 * class that is the default, else 0. Users name classes and never set the number themselves.
 */
import type { Pod } from '../../kube/kinds/pod/pod.ts';
import { objectKey, objectPrefix, parseStored } from '../model/stored-objects.ts';
import type { Store } from '../store/store.ts';
import { type AdmissionRequest, type AdmissionStep, isNewPod, refuse } from './admission.ts';

/** What is read of an object of the group scheduling.k8s.io. */
interface PriorityClass {
  readonly metadata: { readonly name: string };
  readonly value?: number;
  readonly globalDefault?: boolean;
  readonly preemptionPolicy?: string;
}

const kind = { group: 'scheduling.k8s.io', plural: 'priorityclasses', namespaced: false };
const lowerPreempting = 'PreemptLowerPriority';

/** Known also where no classes are stored: pods without which a node or a cluster does not work name them. */
const builtIn: ReadonlyMap<string, number> = new Map([
  ['system-cluster-critical', 2_000_000_000],
  ['system-node-critical', 2_000_001_000],
]);

export function priorityAdmission(store: Pick<Store, 'get' | 'list'>): AdmissionStep {
  const find = (name: string): PriorityClass | undefined => {
    const stored = store.get(objectKey(kind, '', name));
    if (stored !== undefined) return parseStored(stored.value) as unknown as PriorityClass;
    const value = builtIn.get(name);
    return value === undefined ? undefined : { metadata: { name }, value };
  };
  const defaultClass = (): PriorityClass | undefined => {
    const { items } = store.list({ prefix: objectPrefix(kind), leavesOutDamaged: true });
    const defaults = items
      .map(({ value }) => parseStored(value) as unknown as PriorityClass)
      .filter(({ globalDefault }) => globalDefault === true);
    // Of several the lowest counts.
    return defaults.toSorted((a, b) => (a.value ?? 0) - (b.value ?? 0))[0];
  };
  return {
    admit(request) {
      if (!isNewPod(request)) return undefined;
      const pod = request.object as Pod;
      const { priorityClassName = '' } = pod.spec;
      const found = priorityClassName === '' ? defaultClass() : find(priorityClassName);
      if (found === undefined && priorityClassName !== '') {
        throw refuse(request, `no PriorityClass with name ${priorityClassName} was found`);
      }
      return withPriority(request, pod, found);
    },
  };
}

function withPriority(request: AdmissionRequest, pod: Pod, found: PriorityClass | undefined): Pod {
  const priority = found?.value ?? 0;
  const preemptionPolicy = found?.preemptionPolicy ?? lowerPreempting;
  const given = pod.spec;
  const computed = 'priority admission controller computed';
  if (given.priority !== undefined && given.priority !== priority) {
    const what = `the integer value of priority (${given.priority}) must not be provided in pod spec`;
    throw refuse(request, `${what}; ${computed} ${priority} from the given PriorityClass name`);
  }
  if (given.preemptionPolicy !== undefined && given.preemptionPolicy !== preemptionPolicy) {
    const what = `the string value of PreemptionPolicy (${given.preemptionPolicy}) must not be provided in pod spec`;
    throw refuse(request, `${what}; ${computed} ${preemptionPolicy} from the given PriorityClass name`);
  }
  const name = found === undefined ? {} : { priorityClassName: found.metadata.name };
  return { ...pod, spec: { ...given, ...name, priority, preemptionPolicy } };
}
