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
