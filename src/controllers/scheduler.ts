/**
 * Gives pods without a node one: the first, by name, that is ready and that the pod may run on. Where there is none the pod says
 * why, and is looked at again when a node changes. It counts no resources: on one machine or a handful that is the user's call.
 */
import { setImmediate as nextTurn } from 'node:timers/promises';
import type { KubeObject } from '../apiserver/model/resource.ts';
import { objectPrefix, parseStored, placeOfKey } from '../apiserver/model/stored-objects.ts';
import { createObject } from '../apiserver/rest/create.ts';
import { bindPod } from '../apiserver/rest/pod-subresources.ts';
import { updateObject } from '../apiserver/rest/update.ts';
import type { Node } from '../kube/kinds/node.ts';
import type { Pod } from '../kube/kinds/pod/pod.ts';
import { microTimestamp, timestamp } from '../kube/values/times.ts';
import {
  type ControllerDeps,
  controllerContext,
  coreResource,
  followObjects,
  readObjectAt,
  unlessRefused,
} from './cluster.ts';
import { misfit, unschedulableMessage } from './node-fit.ts';
import { WorkQueue } from './work-queue.ts';

const controller = 'default-scheduler';

export async function runScheduler(deps: ControllerDeps, signal: AbortSignal): Promise<void> {
  const { store, resources } = deps;
  const queue = new WorkQueue(controller, deps);
  const known = { pending: new Set<string>(), bound: new Set<string>() };
  const stops = [
    followObjects(store, objectPrefix(coreResource(resources, 'pods')), ({ key, type }) => {
      if (type === 'delete') known.bound.delete(key);
      // Its node reports its state again and again, and a large pod takes long to read.
      if (!known.bound.has(key)) queue.touch(key);
    }),
    followObjects(store, objectPrefix(coreResource(resources, 'nodes')), () => {
      for (const key of known.pending) queue.touch(key);
    }),
  ];
  try {
    await queue.run((key) => schedule(deps, key, known, signal), signal);
  } finally {
    for (const stop of stops) stop();
  }
}

/** Keys of pods. */
interface KnownPods {
  readonly pending: Set<string>;
  /** These have a node, which they keep until they are deleted. */
  readonly bound: Set<string>;
}

function isPending({ metadata, spec }: Pod): boolean {
  return (
    (spec.nodeName ?? '') === '' &&
    metadata.deletionTimestamp === undefined &&
    (spec.schedulerName ?? controller) === controller &&
    (spec.schedulingGates ?? []).length === 0
  );
}

async function schedule(
  deps: ControllerDeps,
  key: string,
  { pending, bound }: KnownPods,
  signal: AbortSignal,
): Promise<void> {
  const { store, resources } = deps;
  const pod = readObjectAt(store, key) as Pod | undefined;
  if ((pod?.spec.nodeName ?? '') !== '') bound.add(key);
  if (pod === undefined || !isPending(pod)) return void pending.delete(key);
  pending.add(key);
  const { namespace, name } = placeOfKey(key);
  const nodes = store
    .list({ prefix: objectPrefix(coreResource(resources, 'nodes')) })
    .items.map(({ value }) => parseStored(value) as Node);
  const reasons = nodes.map((node) => misfit(pod, node));
  const node = nodes[reasons.indexOf(undefined)];
  if (node === undefined) {
    const message = unschedulableMessage(reasons.filter((reason) => reason !== undefined));
    await nextTurn(); // the update of a large pod takes milliseconds, and gets a turn for itself
    return tellUnschedulable(deps, pod, message, signal);
  }
  const target = { apiVersion: 'v1', kind: 'Node', name: node.metadata.name };
  const binding = { metadata: { name, uid: pod.metadata.uid ?? '' }, target };
  const context = controllerContext(controller, signal);
  await unlessRefused(bindPod(deps, coreResource(resources, 'pods'), namespace, name, binding, context), 404, 409);
  const text = `Successfully assigned ${namespace}/${name} to ${node.metadata.name}`;
  await tell(deps, pod, { type: 'Normal', reason: 'Scheduled', message: text }, signal);
}

async function tellUnschedulable(deps: ControllerDeps, pod: Pod, message: string, signal: AbortSignal): Promise<void> {
  const known = pod.status?.conditions?.find(({ type }) => type === 'PodScheduled');
  if (known?.status === 'False' && known.message === message) return;
  const pods = coreResource(deps.resources, 'pods');
  const { namespace = '', name } = pod.metadata;
  const condition = {
    type: 'PodScheduled',
    status: 'False',
    lastTransitionTime: timestamp(deps.clock.now()),
    reason: 'Unschedulable',
    message,
  };
  const change = (current: KubeObject): KubeObject => {
    const { status, ...rest } = current as Pod;
    const others = (status?.conditions ?? []).filter(({ type }) => type !== 'PodScheduled');
    return { ...rest, status: { ...status, conditions: [...others, condition] } } as KubeObject;
  };
  const context = controllerContext(controller, signal);
  const update = { resource: pods, namespace, name, subresource: 'status', context, change };
  await unlessRefused(updateObject(deps, update), 404, 409);
  await tell(deps, pod, { type: 'Warning', reason: 'FailedScheduling', message }, signal);
}

interface News {
  readonly type: 'Normal' | 'Warning';
  readonly reason: string;
  readonly message: string;
}

async function tell(deps: ControllerDeps, pod: Pod, news: News, signal: AbortSignal): Promise<void> {
  const { namespace = '', name, uid = '', resourceVersion = '' } = pod.metadata;
  const now = deps.clock.now();
  const event = {
    metadata: { name: `${name}.${deps.random.suffix(10)}`, namespace },
    involvedObject: { kind: 'Pod', namespace, name, uid, apiVersion: 'v1', resourceVersion },
    ...news,
    source: { component: controller },
    firstTimestamp: timestamp(now),
    lastTimestamp: timestamp(now),
    eventTime: microTimestamp(now),
    count: 1,
    action: news.type === 'Normal' ? 'Binding' : 'Scheduling',
    reportingComponent: controller,
    reportingInstance: controller,
  };
  const events = coreResource(deps.resources, 'events');
  const creation = {
    resource: events,
    namespace,
    object: event as KubeObject,
    context: controllerContext(controller, signal),
  };
  // News of something that is about to go is no news.
  await unlessRefused(createObject(deps, creation), 403, 404, 409, 422);
}
