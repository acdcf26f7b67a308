/** The addresses by which a node is reached, as its pods are told them. */
import type { Node } from '../kube/kinds/node.ts';
import { type IpAddress, parseIpAddress } from '../kube/values/network-names.ts';

/** At most one of each family: internal addresses go before external ones, and the first decides which family leads. */
export function hostAddresses(node: Node): readonly IpAddress[] {
  const all = node.status?.addresses ?? [];
  const addresses = ['InternalIP', 'ExternalIP'].flatMap((wanted) =>
    all.filter(({ type }) => type === wanted).flatMap(({ address }) => parseIpAddress(address) ?? []),
  );
  const [first] = addresses;
  if (first === undefined) return [];
  const other = addresses.find(({ family }) => family !== first.family);
  return other === undefined ? [first] : [first, other];
}
