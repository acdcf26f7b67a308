/**
 * Which slices to write so that they say what they should, with few writes: what stays in a slice stays where it is, what is new
 * fills slices that are written anyway, then one that has room for all of it, and only then new ones. Pure.
 */
import type { Endpoint, EndpointPort, EndpointSlice } from '../../kube/kinds/endpoint-slice.ts';
import { canonicalJson } from '../../kube/schema/equality.ts';

/** As kube-controller-manager has it by default. */
const endpointsMax = 100;

/** Addresses with all that slices have in common. */
export interface SliceGroup {
  readonly addressType: string;
  readonly ports: readonly EndpointPort[];
  readonly endpoints: readonly Endpoint[];
}

export interface SlicePlan {
  readonly create: readonly SliceGroup[];
  readonly update: readonly { readonly slice: EndpointSlice; readonly group: SliceGroup }[];
  readonly remove: readonly EndpointSlice[];
}

interface Draft {
  readonly slice: EndpointSlice | undefined;
  readonly endpoints: Endpoint[];
  isChanged: boolean;
}

/** `isCurrent`: the slice says of itself what it should, whatever its addresses. */
export function planSlices(
  groups: readonly SliceGroup[],
  existing: readonly EndpointSlice[],
  isCurrent: (slice: EndpointSlice) => boolean,
): SlicePlan {
  const left = new Map<string, EndpointSlice[]>();
  for (const slice of existing) {
    const key = groupKey(slice);
    left.set(key, [...(left.get(key) ?? []), slice]);
  }
  const create: SliceGroup[] = [];
  const update: { slice: EndpointSlice; group: SliceGroup }[] = [];
  const remove: EndpointSlice[] = [];
  for (const group of groups) {
    const key = groupKey(group);
    const { addressType, ports } = group;
    const here = left.get(key) ?? [];
    // One that says that there is nothing is enough.
    const used = group.endpoints.length === 0 ? here.slice(0, 1) : here;
    left.set(key, here.slice(used.length));
    for (const { slice, endpoints, isChanged } of planGroup(group, used, isCurrent)) {
      const filled = { addressType, ports, endpoints };
      if (slice === undefined) create.push(filled);
      else if (endpoints.length === 0 && group.endpoints.length > 0) remove.push(slice);
      else if (isChanged) update.push({ slice, group: filled });
    }
  }
  remove.push(...[...left.values()].flat());
  // A slice that would go becomes one that would be made: that is one write less.
  for (const slice of remove.splice(0)) {
    const index = create.findIndex(({ addressType }) => addressType === slice.addressType);
    const [group] = index < 0 ? [] : create.splice(index, 1);
    if (group === undefined) remove.push(slice);
    else update.push({ slice, group });
  }
  return { create, update, remove };
}

function planGroup(
  { endpoints: wanted }: SliceGroup,
  existing: readonly EndpointSlice[],
  isCurrent: (slice: EndpointSlice) => boolean,
): readonly Draft[] {
  const missing = new Map(wanted.map((endpoint) => [endpointKey(endpoint), endpoint]));
  const drafts: Draft[] = existing.map((slice) => {
    const kept: Endpoint[] = [];
    const { endpoints = [] } = slice;
    for (const endpoint of endpoints) {
      const key = endpointKey(endpoint);
      const now = missing.get(key);
      if (now !== undefined) kept.push(now);
      missing.delete(key);
    }
    const isSame = canonicalJson(kept) === canonicalJson(endpoints) && isCurrent(slice);
    return { slice, endpoints: kept, isChanged: !isSame };
  });
  const rest = [...missing.values()];
  const fill = (draft: Draft): void => {
    const added = rest.splice(0, endpointsMax - draft.endpoints.length);
    draft.endpoints.push(...added);
    draft.isChanged ||= added.length > 0;
  };
  // An emptied slice is better removed than filled again, unless nothing else takes what is left.
  const byFill = drafts.toSorted((a, b) => b.endpoints.length - a.endpoints.length);
  for (const draft of byFill) if (draft.isChanged && draft.endpoints.length > 0) fill(draft);
  const roomy = byFill.find(({ endpoints }) => endpoints.length > 0 && endpoints.length + rest.length <= endpointsMax);
  if (rest.length > 0 && roomy !== undefined) fill(roomy);
  while (rest.length > 0) {
    const draft: Draft = { slice: undefined, endpoints: [], isChanged: true };
    fill(draft);
    drafts.push(draft);
  }
  return wanted.length > 0 || drafts.length > 0 ? drafts : [{ slice: undefined, endpoints: [], isChanged: true }];
}

function groupKey({ addressType, ports = [] }: Pick<EndpointSlice, 'addressType' | 'ports'>): string {
  return canonicalJson([addressType, ports.map((port) => canonicalJson(port)).sort()]);
}

/** What makes it the same endpoint, whatever its state. */
function endpointKey({ addresses = [], hostname = '', targetRef }: Endpoint): string {
  return canonicalJson([[...addresses].sort(), hostname, targetRef?.namespace, targetRef?.name, targetRef?.uid]);
}
