/**
 * How Services answer, as a third table of nftables that is ours alone and is replaced as a whole:
 *
 *   pod, or the machine ──to 10.96.7.1:80──▶ forwards ──▶ one chain for each port of a Service ──▶ one of its pods
 *   anybody ──to 30080 of the machine──────▶ nodeports ─▶ the same chain
 *   to 10.96.7.1 still after that, because nothing is ready or there is no such port ──▶ refused
 *
 * Replies come back the same way: what went from pod to pod has the machine's address (packet-rules.ts), since pods of one bridge
 * would otherwise answer each other directly. What is in here was written by users of the API: names become hashes, and addresses
 * and ports are checked once more.
 */
import { createHash } from 'node:crypto';
import { isIPv4 } from 'node:net';
import { RuntimeError, type ServiceForward } from '../../runtime.ts';
import { machineAddress, withoutTable } from './packet-rules.ts';
import { type NetworkNames, type Subnet, addressIn, bridgeNumber, prefixBits, rangeOf } from './subnet.ts';

interface ServiceRules {
  readonly names: NetworkNames;
  readonly subnet: Subnet;
  /** Ports of the loopback address that pods may reach. */
  readonly machinePorts: readonly number[];
  readonly forwards: readonly ServiceForward[];
}

type Target = ServiceForward['targets'][number];

/** Of a packet that came to a node port, until it leaves: the bit that kube-proxy uses for the same. */
const byNodePort = '0x4000';

export function serviceTable({ table }: NetworkNames): string {
  return `${table}-services`;
}

export function withoutServiceTable(names: NetworkNames): string {
  return withoutTable('ip', serviceTable(names));
}

export function serviceRules({ names, subnet, machinePorts, forwards }: ServiceRules): string {
  const { bridge } = names;
  const network = `${addressIn(subnet, 0)}/${prefixBits}`;
  const known = forwards.filter(({ address }) => isForeign(address, subnet));
  const ports = known.flatMap((forward) => {
    for (const port of [forward.port, forward.nodePort || forward.port]) requirePort(port);
    const targets = forward.targets.flatMap((target) => reachable(target, machinePorts));
    return targets.length === 0
      ? []
      : [{ ...forward, id: idOf(forward.key), protocol: forward.protocol.toLowerCase(), targets }];
  });
  const addresses = [...new Set(known.map(({ address }) => address))];
  const forwarded = ports.map(
    ({ address, protocol, port, id }) => `${address} . ${protocol} . ${port} : goto to-${id}`,
  );
  const nodePorts = ports.filter(({ nodePort }) => nodePort > 0);
  const published = nodePorts.map(({ protocol, nodePort, id }) => `${protocol} . ${nodePort} : goto at-${id}`);
  return `${withoutServiceTable(names)}
table ip ${serviceTable(names)} {
  set addresses { type ipv4_addr;${elements(addresses)} }
${ports.map((port) => `  chain to-${port.id} { ${destination(port)}; }\n`).join('')}
${nodePorts.map(({ id }) => `  chain at-${id} { meta mark set meta mark | ${byNodePort}; goto to-${id}; }\n`).join('')}
  map forwards { type ipv4_addr . inet_proto . inet_service : verdict;${elements(forwarded)} }
  map nodeports { type inet_proto . inet_service : verdict;${elements(published)} }
  chain prerouting {
    type nat hook prerouting priority dstnat;
    iifname "${bridge}" ip daddr . meta l4proto . th dport vmap @forwards
    fib daddr type local meta l4proto . th dport vmap @nodeports
  }
  chain output {
    type nat hook output priority -100;
    ip daddr . meta l4proto . th dport vmap @forwards
    fib daddr type local meta l4proto . th dport vmap @nodeports
  }
  chain postrouting {
    type nat hook postrouting priority srcnat;
    meta mark & ${byNodePort} == ${byNodePort} ip daddr != ${network} masquerade
  }
  chain refuse {
    type filter hook prerouting priority dstnat + 10;
    iifname "${bridge}" ip daddr @addresses reject
  }
  chain refuse-own {
    type filter hook output priority filter;
    ip daddr @addresses reject
  }
  chain input {
    type filter hook input priority filter;
    ip daddr ${addressIn(subnet, bridgeNumber)} iifname != { "lo", "${bridge}" } drop
  }
}
`;
}

function elements(list: readonly string[]): string {
  return list.length === 0 ? '' : ` elements = { ${list.join(', ')} };`;
}

/** A client that is to stay is known by its address; the seed keeps it where it is when the table is loaded again. */
function destination({
  id,
  protocol,
  targets,
  isSticky,
}: {
  readonly id: string;
  readonly protocol: string;
  readonly targets: readonly Target[];
  readonly isSticky: boolean;
}): string {
  const [first] = targets;
  if (first !== undefined && targets.length === 1)
    return `meta l4proto ${protocol} dnat to ${first.address}:${first.port}`;
  const choice = isSticky
    ? `jhash ip saddr mod ${targets.length} seed 0x${id.slice(0, 8)}`
    : `numgen random mod ${targets.length}`;
  const choices = targets.map(({ address, port }, index) => `${index} : ${address} . ${port}`);
  return `meta l4proto ${protocol} dnat ip to ${choice} map { ${choices.join(', ')} }`;
}

function idOf(key: string): string {
  return createHash('sha256').update(key).digest('hex').slice(0, 16);
}

/** Whatever else the API says: no Service leads to what listens on the machine's loopback address, but to its API server. */
function reachable({ address, port }: Target, machinePorts: readonly number[]): readonly Target[] {
  requirePort(port);
  if ((address === machineAddress || address === '127.0.0.1') && machinePorts.includes(port))
    return [{ address: '127.0.0.1', port }];
  return isSpecial(address) ? [] : [{ address, port }];
}

/** No Service takes an address that pods and the machine have already. */
function isForeign(address: string, subnet: Subnet): boolean {
  const [own, { first }] = [rangeOf(subnet, prefixBits), rangeOf(requireAddress(address), 32)];
  return !isSpecial(address) && (first < own.first || first > own.last);
}

/** This machine's alone, of one link, or of many machines. */
function isSpecial(address: string): boolean {
  const [first = 0, second] = requireAddress(address).split('.').map(Number);
  return first === 0 || first === 127 || first >= 224 || (first === 169 && second === 254);
}

function requireAddress(address: string): string {
  if (!isIPv4(address)) throw new RuntimeError(`Cannot forward to "${address}": it is not an IPv4 address`);
  return address;
}

function requirePort(port: number): void {
  if (!Number.isInteger(port) || port < 1 || port > 65535) throw new RuntimeError(`Cannot forward to the port ${port}`);
}

interface Flow {
  readonly address: string;
  readonly port: number;
  readonly nodePort: number;
}

/** Where the kernel may go on sending packets of UDP to a target that is gone, or to none. */
export function movedFlows(before: readonly ServiceForward[], after: readonly ServiceForward[]): readonly Flow[] {
  const ofUdp = (list: readonly ServiceForward[]): Map<string, ServiceForward> =>
    new Map(
      list
        .filter(({ protocol }) => protocol === 'UDP')
        .map((one) => [`${one.address}:${one.port}:${one.nodePort}`, one]),
    );
  const [old, now] = [ofUdp(before), ofUdp(after)];
  const isAt = (one: Target, other: Target): boolean => one.address === other.address && one.port === other.port;
  return [...new Map([...old, ...now])].flatMap(([key, { address, port, nodePort }]) => {
    const [had, has] = [old.get(key)?.targets ?? [], now.get(key)?.targets ?? []];
    const isGone = had.some((target) => !has.some((other) => isAt(target, other)));
    return isGone || had.length === 0 ? [{ address, port, nodePort }] : [];
  });
}
