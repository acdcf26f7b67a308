/**
 * What the kernel does with the packets of pods, as two tables of nftables that are ours alone, each replaced as a whole:
 *
 *   bridge   a pod sends with its own addresses and nothing but IPv4 and ARP: it can neither pretend to be another pod nor
 *            take another's packets
 *   ip       the way out with the machine's address, hostPorts in, the servers of this machine that are meant for pods, and no
 *            other way in from outside
 *
 * Loaded by the program `nft`.
 */
import { execFile } from 'node:child_process';
import { isIPv4 } from 'node:net';
import { errorCode } from '../../../base/errors.ts';
import { type PortMapping, RuntimeError } from '../../runtime.ts';
import { type NetworkNames, type Subnet, addressIn, firstPod, lastPod, macOf, prefixBits } from './subnet.ts';

/**
 * Where pods reach the servers of this machine's loopback address that are meant for them, which is the API server of
 * `mountlet up`. The address that the API server's Service has in most clusters: certificates of ours have it.
 */
export const machineAddress = '10.96.0.1';

export interface PublishedPort extends PortMapping {
  /** Of the pod. */
  readonly address: string;
}

interface PacketRules {
  readonly names: NetworkNames;
  readonly subnet: Subnet;
  readonly hostPorts: readonly PublishedPort[];
  /** Ports of the loopback address that pods reach at `machineAddress`. */
  readonly machinePorts: readonly number[];
}

/** What is checked of the frames of pods. It stays the same while pods come and go. */
export function frameRules({ table, endPrefix }: NetworkNames, subnet: Subnet): string {
  const numbers = Array.from({ length: lastPod - firstPod + 1 }, (_, index) => firstPod + index);
  const own = numbers.map((number) => [`"${endPrefix}${number}"`, macOf(addressIn(subnet, number))].join(' . '));
  const addressed = own.map((element, index) => `${element} . ${addressIn(subnet, firstPod + index)}`);
  return `${withoutTable('bridge', table)}
table bridge ${table} {
  set macs { type ifname . ether_addr; elements = { ${own.join(', ')} }; }
  set addresses { type ifname . ether_addr . ipv4_addr; elements = { ${addressed.join(', ')} }; }
  chain prerouting {
    type filter hook prerouting priority -300;
    iifname "${endPrefix}*" jump pods
  }
  chain pods {
    iifname . ether saddr != @macs drop
    iifname . ether saddr . ip saddr @addresses accept
    iifname . arp saddr ether . arp saddr ip @addresses accept
    drop
  }
}
`;
}

export function packetRules({ names, subnet, hostPorts, machinePorts }: PacketRules): string {
  const { bridge, table } = names;
  const network = `${addressIn(subnet, 0)}/${prefixBits}`;
  const machine =
    machinePorts.length === 0
      ? ''
      : `iifname "${bridge}" ip daddr ${machineAddress} tcp dport { ${machinePorts.join(', ')} } dnat to 127.0.0.1`;
  return `${withoutTable('ip', table)}
table ip ${table} {
  chain early {
    type filter hook prerouting priority raw;
    iifname "${bridge}" ip saddr != ${network} drop
    iifname "${bridge}" ip daddr 127.0.0.0/8 drop
  }
  chain prerouting {
    type nat hook prerouting priority dstnat;
    ${machine}
    fib daddr type local jump hostports
  }
  chain output {
    type nat hook output priority -100;
    fib daddr type local jump hostports
  }
  chain hostports {
    ${hostPorts.map(portRule).join('\n    ')}
  }
  chain forward {
    type filter hook forward priority filter;
    oifname "${bridge}" iifname != "ml-*" ct state new ct status & dnat == 0 drop
  }
  chain postrouting {
    type nat hook postrouting priority srcnat;
    ip saddr ${network} ip daddr != ${network} masquerade
    oifname "${bridge}" ip saddr 127.0.0.0/8 masquerade
    oifname "${bridge}" ip saddr ${network} ct status dnat masquerade
  }
}
`;
}

/** The text of an address and the number of a port are checked again here: they become rules of the machine. Throws RuntimeError. */
export function portRule({ protocol, hostPort, hostIp, containerPort, address }: PublishedPort): string {
  for (const port of [hostPort, containerPort]) {
    if (!Number.isInteger(port) || port < 1 || port > 65535) throw new RuntimeError(`Cannot publish the port ${port}`);
  }
  const isEverywhere = hostIp === '' || hostIp === '0.0.0.0';
  if (!isEverywhere && !isIPv4(hostIp)) throw new RuntimeError(`Cannot publish a port at "${hostIp}": it is not IPv4`);
  const where = isEverywhere ? '' : `ip daddr ${hostIp} `;
  return `${where}${protocol.toLowerCase()} dport ${hostPort} dnat to ${address}:${containerPort}`;
}

export function withoutTables({ table }: NetworkNames): string {
  return withoutTable('bridge', table) + withoutTable('ip', table);
}

/** A table that is not there cannot be deleted, and one that is there can be declared again. */
export function withoutTable(family: 'bridge' | 'ip', table: string): string {
  return `table ${family} ${table}\ndelete table ${family} ${table}\n`;
}

const loadMsMax = 10_000;

/** All of it or nothing. `under` are the words of a program that runs another. */
export async function loadRules(text: string, ...under: readonly string[]): Promise<void> {
  const [file, ...args] = [...under, 'nft', '-f', '-'];
  const env = { PATH: '/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin', LC_ALL: 'C' };
  await new Promise<void>((resolve, reject) => {
    const child = execFile(file, args, { env, cwd: '/', timeout: loadMsMax }, (error, _, stderr) => {
      if (error === null) return resolve();
      const problem =
        errorCode(error) === 'ENOENT'
          ? `the program ${file} is not installed (package ${file === 'nft' ? 'nftables' : 'util-linux'})`
          : `nft: ${stderr.trim().split('\n')[0] || error.message}`;
      reject(new RuntimeError(problem, { cause: error }));
    });
    child.stdin?.on('error', () => {}); // it ended early: its exit says why
    child.stdin?.end(text);
  });
}
