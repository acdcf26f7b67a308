/**
 * The addresses of a node's pods: a /22 that was free on this machine when it was chosen, and what is named after them. Pure.
 * Numbers in it: 1 is the bridge, those from 2 on are pods, as many as a bridge can have. The interface, its MAC and its address
 * follow from each other, so that a frame can be checked by where it comes from (packet-rules.ts).
 */
import { createHash } from 'node:crypto';
import { isIPv4 } from 'node:net';
import { addressBytes } from '../../../linux/netlink.ts';

/** What a node calls its part of the machine's network. Two nodes on one machine have different ones. */
export interface NetworkNames {
  /** Interfaces have names of at most 15 characters. */
  readonly bridge: string;
  readonly table: string;
  /** Of the machine's end of a pod's cable; its number follows. */
  readonly endPrefix: string;
}

export function networkNames(stateDirectory: string): NetworkNames {
  const id = createHash('sha256').update(stateDirectory).digest('hex').slice(0, 8);
  return { bridge: `ml-${id}`, table: `mountlet-${id}`, endPrefix: `mv${id}-` };
}

/** Its first address: `10.212.4.0`. */
export type Subnet = string;

export const prefixBits = 22;
export const bridgeNumber = 1;
export const firstPod = 2;
export const lastPod = 2 ** (32 - prefixBits) - 2;

export function addressIn(subnet: Subnet, number: number): string {
  const bytes = addressBytes(subnet);
  bytes.writeUInt32BE(bytes.readUInt32BE() + number);
  return bytes.join('.');
}

/** Negative, or more than `lastPod`, for an address of another subnet. */
export function numberIn(subnet: Subnet, address: string): number {
  return addressBytes(address).readUInt32BE() - addressBytes(subnet).readUInt32BE();
}

export function macOf(address: string): string {
  return ['0a', '58', ...[...addressBytes(address)].map((byte) => byte.toString(16).padStart(2, '0'))].join(':');
}

/** How many networks of 256 addresses it has. */
const third = 2 ** (24 - prefixBits);
/** Ranges in which few machines have something else: private ones that neither clouds nor container engines begin with. */
const ranges = ['10.212', '10.213', '10.214', '10.215', '172.30', '192.168'];

/** One that overlaps none of `taken`: that of `before` if it can be. Different nodes begin their search at different places. */
export function chooseSubnet(stateDirectory: string, taken: readonly Range[], before = ''): Subnet | undefined {
  if (isIPv4(before) && isFree(before, taken)) return before;
  const start = createHash('sha256').update(stateDirectory).digest()[0] ?? 0;
  for (const range of ranges) {
    for (let step = 0; step < 256; step += third) {
      const subnet = `${range}.${(start - (start % third) + step) % 256}.0`;
      if (isFree(subnet, taken)) return subnet;
    }
  }
  return undefined;
}

/** The first and the last address of a network, as numbers. */
export interface Range {
  readonly first: number;
  readonly last: number;
}

function isFree(subnet: Subnet, taken: readonly Range[]): boolean {
  const own = rangeOf(addressIn(subnet, 0), prefixBits);
  return !taken.some(({ first, last }) => first <= own.last && own.first <= last);
}

export function rangeOf(address: string, bits: number): Range {
  const hosts = 2 ** (32 - bits);
  const first = Math.floor(addressBytes(address).readUInt32BE() / hosts) * hosts;
  return { first, last: first + hosts - 1 };
}

/** The networks that the kernel's table of IPv4 routes (/proc/net/route) leads to, without the default one. */
export function routedRanges(routes: string): Range[] {
  return routes
    .split('\n')
    .slice(1)
    .flatMap((line) => {
      const cells = line.split('\t');
      const [destination, mask] = [littleEndian(cells[1]), littleEndian(cells[7])];
      if (destination === undefined || mask === undefined || mask === 0) return [];
      return [{ first: destination, last: destination + (2 ** 32 - 1 - mask) }];
    });
}

function littleEndian(digits: string | undefined): number | undefined {
  return /^[0-9A-F]{8}$/i.test(digits ?? '') ? Buffer.from(digits ?? '', 'hex').readUInt32LE() : undefined;
}
