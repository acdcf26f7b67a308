/** What the API allows as a port, a header's name, an address or a domain to search, in the API server's words. */
import { BlockList, isIP } from 'node:net';
import type { Problems } from './names.ts';

const underscoreLabel = '_?[a-z0-9]([-_a-z0-9]*[a-z0-9])?';
const searchDomain = String.raw`${underscoreLabel}(\.${underscoreLabel})*`;
const headerName = '[-A-Za-z0-9]+';

export function portProblems(port: number): Problems {
  return rangeProblems(port, 1, 65535);
}

export function rangeProblems(value: number, min: number, max: number): Problems {
  return value >= min && value <= max ? [] : [`must be between ${min} and ${max}, inclusive`];
}

export function portNameProblems(name: string): Problems {
  const problems = [];
  if (Buffer.byteLength(name) > 15) problems.push('must be no more than 15 characters');
  if (!/^[-a-z0-9]+$/.test(name)) {
    problems.push('must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)');
  }
  if (!/[a-z]/.test(name)) problems.push('must contain at least one letter (a-z)');
  if (name.includes('--')) problems.push('must not contain consecutive hyphens');
  if (name.startsWith('-') || name.endsWith('-')) problems.push('must not begin or end with a hyphen');
  return problems;
}

export function headerNameProblems(name: string): Problems {
  if (new RegExp(`^${headerName}$`).test(name)) return [];
  return [
    `a valid HTTP header must consist of alphanumeric characters or '-' (e.g. 'X-Header-Name', regex used for validation is '${headerName}')`,
  ];
}

export function searchDomainProblems(domain: string): Problems {
  const problems = Buffer.byteLength(domain) > 253 ? ['must be no more than 253 characters'] : [];
  if (new RegExp(`^${searchDomain}$`).test(domain)) return problems;
  const rule =
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '_', '-' or '.', and must start and end with an alphanumeric character";
  return [...problems, `${rule} (e.g. 'example.com', regex used for validation is '${searchDomain}')`];
}

/** An address in any usual spelling, but for those that programs read in different ways. */
export function addressProblems(text: string): Problems {
  const address = parseIpAddress(text);
  if (address === undefined) return ['must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)'];
  if (isIP(text) === 0) return ['must not have leading 0s'];
  const isMapped = address.family === 'IPv4' && text.includes(':');
  return isMapped ? ['must not be an IPv4-mapped IPv6 address'] : [];
}

interface Subnet {
  readonly address: string;
  readonly family: 'ipv4' | 'ipv6';
  readonly prefix: number;
}

/** `10.0.0.0/8`; undefined for anything else. */
function subnetOf(cidr: string): Subnet | undefined {
  const [, address = '', digits = ''] = /^(.*)\/(0|[1-9]\d{0,2})$/.exec(cidr) ?? [];
  const version = isIP(address);
  const prefix = Number(digits);
  if (version === 0 || prefix > (version === 4 ? 32 : 128)) return undefined;
  return { address, family: version === 4 ? 'ipv4' : 'ipv6', prefix };
}

export function subnetProblems(cidr: string): Problems {
  if (subnetOf(cidr) !== undefined) return [];
  return ['must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)'];
}

/** Whether all of `inner` and not all of `outer` is in both. Nothing is said of what is no subnet. */
export function isSubnetWithin(inner: string, outer: string): boolean {
  const [small, large] = [subnetOf(inner), subnetOf(outer)];
  if (small === undefined || large === undefined) return true;
  if (small.family !== large.family || small.prefix <= large.prefix) return false;
  const block = new BlockList();
  block.addSubnet(large.address, large.prefix, large.family);
  return block.check(small.address, small.family);
}

/** IP addresses as the kubelet reads and prints them: loosely in (`010.0.0.1`), in one canonical form out. */
export type IpFamily = 'IPv4' | 'IPv6';

export interface IpAddress {
  readonly family: IpFamily;
  readonly text: string;
}

export function parseIpAddress(text: string): IpAddress | undefined {
  return text.includes(':') ? parseVersion6(text) : parseVersion4(text);
}

/** One address of each family at most: the first of the node's own family, then the first of the other. */
export function orderPodIps(podIps: readonly string[], nodeFamily: IpFamily): readonly string[] {
  const addresses = podIps.map(parseIpAddress);
  const families: IpFamily[] = nodeFamily === 'IPv4' ? ['IPv4', 'IPv6'] : ['IPv6', 'IPv4'];
  return families.flatMap((family) => addresses.find((address) => address?.family === family)?.text ?? []);
}

function parseVersion4(text: string): IpAddress | undefined {
  const parts = text.split('.');
  if (parts.length !== 4 || !parts.every((part) => /^[0-9]+$/.test(part) && Number(part) <= 255)) return undefined;
  return { family: 'IPv4', text: parts.map(Number).join('.') };
}

function parseVersion6(text: string): IpAddress | undefined {
  if (!/^[0-9a-fA-F:.]+$/.test(text) || !URL.canParse(`http://[${text}]/`)) return undefined;
  const canonical = new URL(`http://[${text}]/`).hostname.slice(1, -1);
  // An IPv4 address in IPv6 clothes counts as what it is.
  const [, high, low] = /^::ffff:([0-9a-f]{1,4}):([0-9a-f]{1,4})$/.exec(canonical) ?? [];
  if (high === undefined || low === undefined) return { family: 'IPv6', text: canonical };
  const octets = [high, low].map((group) => Number.parseInt(group, 16)).flatMap((group) => [group >> 8, group & 255]);
  return { family: 'IPv4', text: octets.join('.') };
}
