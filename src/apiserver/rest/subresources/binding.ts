/** Puts a pod on a node: the one write that sets `spec.nodeName` of a pod that exists. */
import type { Binding } from '../../../kube/kinds/pod/pod-requests.ts';
import type { Pod } from '../../../kube/kinds/pod/pod.ts';
import { timestamp } from '../../../kube/values/times.ts';
import type { KubeObject, Resource } from '../../resource.ts';
import { badRequest, conflict } from '../../status.ts';
import { type Handler, success } from '../api-request.ts';
import { updateObject } from '../update-object.ts';
import { RequestContext, type WriteContext, type WriteDeps } from '../write-context.ts';
import { readExchanged } from './exchanged-object.ts';

/** Serves both `pods/x/binding` and, with the name in the body alone, `bindings`. */
export function bindingHandler(deps: WriteDeps, pods: Resource): Handler {
  return async (request) => {
    const { info } = request;
    const subresource = pods.subresources.find(({ name }) => name === 'binding');
    if (subresource === undefined) throw badRequest('this server has no bindings');
    const { object, options } = await readExchanged(request, subresource);
    const binding = object as Binding;
    const name = info.subresource === 'binding' ? info.name : binding.metadata.name;
    if (binding.metadata.name !== '' && binding.metadata.name !== name) {
      throw badRequest('name in URL does not match name in Binding object');
    }
    const context = new RequestContext(request, options);
    await bindPod(deps, pods, info.namespace, name, binding, context);
    return success(201);
  };
}

export async function bindPod(
  deps: WriteDeps,
  pods: Resource,
  namespace: string,
  name: string,
  binding: Binding,
  context: WriteContext,
): Promise<void> {
  await updateObject(deps, {
    resource: pods,
    namespace,
    name,
    subresource: 'binding',
    context,
    change: (current) => bound(current as Pod, binding, deps.clock.now()),
    // Everything was checked here; the rules of an update forbid exactly this one.
    rules: { prepare: (object: KubeObject) => object, validate: () => [] },
  });
}

function bound(pod: Pod, { metadata, target }: Binding, now: number): Pod {
  const { name } = pod.metadata;
  const refuse = (text: string): Error => conflict({ group: '', name: 'pods/binding' }, name, text);
  const { uid = '', resourceVersion = '' } = metadata;
  if (uid !== '' && uid !== pod.metadata.uid) {
    throw refuse(`Precondition failed: UID in precondition: ${uid}, UID in object meta: ${pod.metadata.uid}`);
  }
  if (pod.metadata.deletionTimestamp !== undefined) {
    throw refuse(`pod ${name} is being deleted, cannot be assigned to a host`);
  }
  if ((pod.spec.nodeName ?? '') !== '') {
    throw refuse(`pod ${name} is already assigned to node ${JSON.stringify(pod.spec.nodeName)}`);
  }
  if ((pod.spec.schedulingGates ?? []).length > 0) throw refuse(`pod ${name} has non-empty .spec.schedulingGates`);
  const others = (pod.status?.conditions ?? []).filter(({ type }) => type !== 'PodScheduled');
  const { nominatedNodeName: _nominated, ...status } = pod.status ?? {};
  const merged = (
    own: Readonly<Record<string, string>> | undefined,
    added: Readonly<Record<string, string>> | undefined,
  ): Record<string, string> => ({ ...own, ...added });
  return {
    ...pod,
    metadata: {
      ...pod.metadata,
      ...(metadata.annotations && { annotations: merged(pod.metadata.annotations, metadata.annotations) }),
      ...(metadata.labels && { labels: merged(pod.metadata.labels, metadata.labels) }),
      ...(resourceVersion !== '' && { resourceVersion }),
    },
    spec: { ...pod.spec, nodeName: target.name ?? '' },
    status: {
      ...status,
      conditions: [...others, { type: 'PodScheduled', status: 'True', lastTransitionTime: timestamp(now) }],
    },
  };
}
