/** Removes a pod from its node on request. There are no disruption budgets here, so nothing ever forbids it. */
import type { Eviction } from '../../../kube/kinds/pod/pod-requests.ts';
import type { Pod } from '../../../kube/kinds/pod/pod.ts';
import { timestamp } from '../../../kube/values/times.ts';
import { admitAll } from '../../admission/admission.ts';
import type { KubeObject, Subresource } from '../../resource.ts';
import { badRequest, notFound, resourceName } from '../../status.ts';
import { type ApiRequest, type Reply, success } from '../api-request.ts';
import { deleteObject } from '../delete-object.ts';
import { StoredObjects } from '../stored-objects.ts';
import type { WriteDeps } from '../write-context.ts';
import { readExchanged } from './exchanged-object.ts';

export async function evict(deps: WriteDeps, request: ApiRequest, subresource: Subresource): Promise<Reply> {
  const { resource, info, user } = request;
  const { namespace, name } = info;
  const { object, options } = await readExchanged(request, subresource, ['policy/v1beta1']);
  const { metadata, deleteOptions = {} } = object as Eviction;
  if (metadata.name !== '' && metadata.name !== name) {
    throw badRequest('name in URL does not match name in Eviction object');
  }
  if (new StoredObjects(deps.store).pod(namespace, name) === undefined) throw notFound(resourceName(resource), name);
  const admission = { operation: 'CREATE', user, resource, subresource: 'eviction', namespace, name } as const;
  admitAll(deps.admission, { ...admission, object, old: undefined });
  const dryRun = options.dryRun || (deleteOptions.dryRun ?? []).includes('All');
  const alongside = (pod: KubeObject): KubeObject => disrupted(pod as Pod, deps.clock.now());
  await deleteObject(deps, { resource, namespace, name, options: deleteOptions, context: { user, dryRun }, alongside });
  return success(201);
}

function disrupted(pod: Pod, now: number): Pod {
  const others = (pod.status?.conditions ?? []).filter(({ type }) => type !== 'DisruptionTarget');
  const condition = {
    type: 'DisruptionTarget',
    status: 'True',
    lastTransitionTime: timestamp(now),
    reason: 'EvictionByEvictionAPI',
    message: 'Eviction API: evicting',
  };
  return { ...pod, status: { ...pod.status, conditions: [...others, condition] } };
}
