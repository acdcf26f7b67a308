/** What PriorityClasses mean for pods: a class has to exist, and its number and policy become the pod's. Only one class is the default. */
import { isMirrorPod } from '../../kube/kinds/pod/pod-identity.ts';
import type { Pod } from '../../kube/kinds/pod/pod.ts';
import {
  type PriorityClass,
  defaultPreemption,
  priorityClassKind,
  systemPriorityClasses,
} from '../../kube/kinds/policy/priority-class.ts';
import { objectKey, objectPrefix, parseStored } from '../model/stored-objects.ts';
import type { Store } from '../store/store.ts';
import { type AdmissionRequest, type AdmissionStep, refuse } from './admission.ts';

type ClassStore = Pick<Store, 'get' | 'list'>;

export function priorityAdmission(store: ClassStore): AdmissionStep {
  return {
    admit(request) {
      const { operation, resource, subresource, object } = request;
      if (subresource !== '' || object === undefined || operation === 'DELETE') return undefined;
      if (resource.group === priorityClassKind.group && resource.plural === priorityClassKind.plural) {
        checkOnlyDefault(store, request, object as PriorityClass);
      }
      if (resource.group !== '' || resource.plural !== 'pods') return undefined;
      const pod = object as Pod;
      if (operation === 'UPDATE') return asBefore(pod, request.old as Pod);
      return isMirrorPod(pod) ? undefined : prioritized(store, request, pod);
    },
  };
}

function checkOnlyDefault(
  store: ClassStore,
  request: AdmissionRequest,
  { metadata, globalDefault }: PriorityClass,
): void {
  const found = globalDefault === true ? defaultClass(store) : undefined;
  if (found === undefined) return;
  if (request.operation === 'UPDATE' && found.metadata.name === metadata.name) return;
  const { name } = found.metadata;
  throw refuse(request, `PriorityClass ${name} is already marked as default. Only one default can exist`);
}

/** An update that leaves them out does not ask for another priority. */
function asBefore(pod: Pod, { spec: old }: Pod): Pod | undefined {
  const { priority = old.priority, preemptionPolicy = old.preemptionPolicy } = pod.spec;
  if (priority === pod.spec.priority && preemptionPolicy === pod.spec.preemptionPolicy) return undefined;
  return {
    ...pod,
    spec: { ...pod.spec, ...(priority !== undefined && { priority }), ...(preemptionPolicy && { preemptionPolicy }) },
  };
}

function prioritized(store: ClassStore, request: AdmissionRequest, pod: Pod): Pod {
  const { priorityClassName = '', priority: given, preemptionPolicy: policy } = pod.spec;
  const named = priorityClassName === '' ? defaultClass(store) : classNamed(store, priorityClassName);
  if (named === undefined && priorityClassName !== '') {
    throw refuse(request, `no PriorityClass with name ${priorityClassName} was found`);
  }
  const { value: priority = 0, preemptionPolicy = defaultPreemption } = named ?? {};
  const computed = (what: string, wanted: string | number, found: string | number): Error =>
    refuse(
      request,
      `the ${what} (${wanted}) must not be provided in pod spec; priority admission controller computed ${found} from the given PriorityClass name`,
    );
  if (given !== undefined && given !== priority) throw computed('integer value of priority', given, priority);
  if (policy !== undefined && policy !== preemptionPolicy) {
    throw computed('string value of PreemptionPolicy', policy, preemptionPolicy);
  }
  const name = named === undefined ? {} : { priorityClassName: named.metadata.name };
  return { ...pod, spec: { ...pod.spec, ...name, priority, preemptionPolicy } };
}

/** The system's own are known also before their objects are there. */
function classNamed(store: ClassStore, name: string): PriorityClass | undefined {
  const stored = store.get(objectKey(priorityClassKind, '', name));
  if (stored !== undefined) return parseStored(stored.value) as PriorityClass;
  return systemPriorityClasses.find(({ metadata }) => metadata.name === name);
}

/** Of several the least important, as the API server does. */
function defaultClass(store: ClassStore): PriorityClass | undefined {
  const { items } = store.list({ prefix: objectPrefix(priorityClassKind), leavesOutDamaged: true });
  return items
    .filter(({ value }) => value.includes('"globalDefault":true'))
    .map(({ value }) => parseStored(value) as PriorityClass)
    .filter(({ globalDefault }) => globalDefault === true)
    .toSorted((one, other) => one.value - other.value)[0];
}
