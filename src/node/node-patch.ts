/** The strategic merge patch from one Node to another: labels, annotations and status, which is all a node may change. Pure. */
import { isDeepStrictEqual } from 'node:util';
import type { Node } from '../kube/kinds/node.ts';
import { isRecord, keysOf, valueAt } from '../kube/schema/equality.ts';
import type { NodeCondition } from './node-conditions.ts';

type Patch = Readonly<Record<string, unknown>>;

/** For the status of the Node; empty when there is nothing to say. */
export function nodePatch(before: Node, after: Node): Patch {
  const { labels, annotations } = before.metadata;
  const metadata = recordPatch(
    { labels: labels ?? {}, annotations: annotations ?? {} },
    { labels: after.metadata.labels ?? {}, annotations: after.metadata.annotations ?? {} },
  );
  const { addresses: _before, conditions: old = [], ...restBefore } = before.status ?? {};
  const { addresses = [], conditions = [], ...rest } = after.status ?? {};
  const status = {
    ...recordPatch(restBefore, rest),
    ...conditionsPatch(old, conditions),
    // Merged by type, two addresses of one type would become one.
    ...(!isDeepStrictEqual(before.status?.addresses ?? [], addresses) && {
      addresses: [...addresses, { $patch: 'replace' }],
    }),
  };
  return { ...(hasFields(metadata) && { metadata }), ...(hasFields(status) && { status }) };
}

function conditionsPatch(before: readonly NodeCondition[], after: readonly NodeCondition[]): Patch {
  const find = (list: readonly NodeCondition[], wanted: string): NodeCondition | undefined =>
    list.find(({ type }) => type === wanted);
  const changed = after.filter((condition) => !isDeepStrictEqual(find(before, condition.type), condition));
  const gone = before.filter(({ type }) => find(after, type) === undefined);
  const order = after.map(({ type }) => ({ type }));
  const said = [...changed, ...gone.map(({ type }) => ({ $patch: 'delete', type }))];
  const isInOrder = isDeepStrictEqual(
    order,
    before.map(({ type }) => ({ type })),
  );
  if (said.length === 0 && isInOrder) return {};
  return { '$setElementOrder/conditions': order, ...(said.length > 0 && { conditions: said }) };
}

function recordPatch(before: Patch, after: Patch): Patch {
  const patch: Record<string, unknown> = {};
  for (const key of keysOf(before, after)) {
    const [old, next] = [valueAt(before, key), valueAt(after, key)];
    if (isDeepStrictEqual(old, next)) continue;
    patch[key] = isRecord(old) && isRecord(next) ? recordPatch(old, next) : (next ?? null);
  }
  return patch;
}

function hasFields(patch: Patch): boolean {
  return Object.keys(patch).length > 0;
}
