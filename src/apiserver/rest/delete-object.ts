/** Deletes one object, or marks it so that it ends when nothing holds it any more. */
import type { DeleteOptions } from '../../kube/schema/meta.ts';
import { admitAll } from '../admission/admission.ts';
import { objectKey } from '../object-key.ts';
import type { KubeObject, Resource } from '../resource.ts';
import { conflict, forbidden, kindName, notFound, resourceName } from '../status.ts';
import type { Decision } from '../store/store.ts';
import { parseStored, storedText } from '../stored-value.ts';
import { planDeletion } from './plan-deletion.ts';
import { isSameJson } from './same-json.ts';
import { type WriteContext, type WriteDeps, decideAndWrite } from './write-context.ts';

interface Deletion {
  readonly resource: Resource;
  readonly namespace: string;
  readonly name: string;
  readonly options: DeleteOptions;
  readonly context: Pick<WriteContext, 'user' | 'dryRun'>;
  /** Changes that belong to the same step, made only if the object is not removed at once. */
  alongside?(object: KubeObject): KubeObject;
}

export interface Deleted {
  readonly text: string;
  readonly uid: string;
  readonly removed: boolean;
}

export function deleteObject(deps: WriteDeps, deletion: Deletion): Promise<Deleted> {
  const key = objectKey(deletion.resource, deletion.namespace, deletion.name);
  return decideAndWrite(deps.store, key, (current, revision) => decideDeletion(deps, deletion, current, revision));
}

function decideDeletion(
  deps: WriteDeps,
  deletion: Deletion,
  current: string | undefined,
  revision: number,
): Decision<Deleted> {
  const { resource, namespace, name, options, context } = deletion;
  if (current === undefined) throw notFound(resourceName(resource), name);
  const old = parseStored(current);
  checkPreconditions(resource, old, options);
  const refusal = resource.deletion?.refusal?.(old);
  if (refusal !== undefined) throw forbidden(resourceName(resource), name, refusal);
  const request = { operation: 'DELETE', user: context.user, resource, subresource: '', namespace, name } as const;
  admitAll(deps.admission, { ...request, object: undefined, old });
  const plan = planDeletion(resource, old, options, deps.clock.now());
  const uid = old.metadata.uid ?? '';
  if (plan.kind === 'leave') return { kind: 'keep', result: { text: current, uid, removed: false } };
  const object = plan.kind === 'mark' ? (deletion.alongside?.(plan.object) ?? plan.object) : plan.object;
  const removed = plan.kind === 'remove';
  if (context.dryRun) return { kind: 'keep', result: { text: JSON.stringify(object), uid, removed } };
  if (!removed && isSameJson(object, old)) return { kind: 'keep', result: { text: current, uid, removed } };
  const text = storedText(object, revision);
  const result = { text, uid, removed };
  return removed ? { kind: 'delete', value: text, result } : { kind: 'put', value: text, result, ending: true };
}

function checkPreconditions(resource: Resource, { metadata }: KubeObject, { preconditions }: DeleteOptions): void {
  const { uid, resourceVersion } = preconditions ?? {};
  // Here, of all places, the API names the kind.
  const refuse = (text: string): Error => conflict(kindName(resource), metadata.name, text);
  if (uid !== undefined && uid !== metadata.uid) {
    throw refuse(
      `the UID in the precondition (${uid}) does not match the UID in record (${metadata.uid}). The object might have been deleted and then recreated`,
    );
  }
  if (resourceVersion !== undefined && resourceVersion !== metadata.resourceVersion) {
    throw refuse(
      `the ResourceVersion in the precondition (${resourceVersion}) does not match the ResourceVersion in record (${metadata.resourceVersion}). The object might have been modified`,
    );
  }
}
