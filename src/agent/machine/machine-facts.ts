/** What this machine is, from its kernel and its files. What of it becomes the status of a node is decided in node/. */
import { readFileSync, statfsSync } from 'node:fs';
import {
  type NetworkInterfaceInfo,
  arch,
  availableParallelism,
  endianness,
  networkInterfaces,
  release,
  totalmem,
} from 'node:os';
import type { VersionInfo } from '../../apiserver/serving/path-handler.ts';
import type { Node } from '../../kube/kinds/node.ts';
import { Quantity } from '../../kube/values/quantity.ts';
import type { MachineFacts } from '../../node/node-status.ts';

const names: Readonly<Record<string, string>> = { x64: 'amd64', ia32: '386' };
const littleEndianNames: Readonly<Record<string, string>> = { ppc64: 'ppc64le', mips: 'mipsle' };

/** The processor as Go, and with it Kubernetes, calls it: `amd64`. */
function goArchitecture(): string {
  const name = arch();
  return (endianness() === 'LE' ? littleEndianNames[name] : undefined) ?? names[name] ?? name;
}

/** Which Kubernetes the API server claims to be, because clients adapt to it; our own name stands behind the plus sign. */
export const kubernetesVersion: VersionInfo = {
  major: '1',
  minor: '33',
  gitVersion: 'v1.33.0+mountlet',
  platform: `linux/${goArchitecture()}`,
};

/** `root` is where pods live: its file system is what their ephemeral storage comes from. `nodeIp` undefined: find one. */
export function machineFacts(root: string, nodeIp: string | undefined): MachineFacts {
  const { bsize, blocks } = statfsSync(root);
  const machineId = firstLineOf('/etc/machine-id', '/var/lib/dbus/machine-id');
  return {
    capacity: {
      cpu: String(availableParallelism()),
      memory: bytes(totalmem()),
      'ephemeral-storage': bytes(bsize * blocks),
    },
    internalAddresses: [nodeIp ?? ownAddress()],
    machineId,
    // Only root may read the first.
    systemUuid: firstLineOf('/sys/class/dmi/id/product_uuid') || machineId,
    bootId: firstLineOf('/proc/sys/kernel/random/boot_id'),
    kernelVersion: release(),
    osImage: osImageOf(textOf('/etc/os-release') ?? textOf('/usr/lib/os-release') ?? ''),
    operatingSystem: 'linux',
    architecture: goArchitecture(),
  };
}

/** This machine as a Node object, for pods whose manifests bring none. `root` is where pods live. */
export function thisMachine(name: string, root: string): Node {
  const { capacity, internalAddresses } = machineFacts(root, undefined);
  const addresses = [
    ...internalAddresses.map((address) => ({ type: 'InternalIP', address })),
    { type: 'Hostname', address: name },
  ];
  return {
    apiVersion: 'v1',
    kind: 'Node',
    metadata: { name },
    status: { capacity, allocatable: capacity, addresses },
  };
}

/** As nodes show it: `16393244Ki`. */
function bytes(count: number): string {
  return String(new Quantity(BigInt(count), 0, 'BinarySI'));
}

/** What the system calls itself. The file is made of shell assignments. */
export function osImageOf(osRelease: string): string {
  const [, value = ''] = /^PRETTY_NAME=(.*)$/m.exec(osRelease) ?? [];
  const [, quoted] = /^(?:"(.*)"|'(.*)')\s*$/.exec(value)?.filter((part) => part !== undefined) ?? [];
  return (quoted?.replace(/\\(["$`\\])/g, '$1') ?? value.trim()) || 'Linux';
}

/** Of the interface that leads out of here, IPv4 before IPv6; else any that others could reach; else this machine only. */
function ownAddress(): string {
  const interfaces = networkInterfaces();
  const outward = defaultInterface(textOf('/proc/net/route') ?? '');
  const all = [...((outward !== undefined && interfaces[outward]) || []), ...Object.values(interfaces).flat()];
  const reachable = all.filter(
    (one): one is NetworkInterfaceInfo => one !== undefined && !one.internal && !isLinkLocal(one),
  );
  const best = reachable.find(({ family }) => family === 'IPv4') ?? reachable[0];
  return best?.address ?? '127.0.0.1';
}

function isLinkLocal({ address, family, scopeid = 0 }: NetworkInterfaceInfo): boolean {
  return family === 'IPv4' ? address.startsWith('169.254.') : scopeid !== 0;
}

/** From the kernel's table of IPv4 routes: the default one with the lowest metric. */
export function defaultInterface(routes: string): string | undefined {
  const defaults = routes
    .split('\n')
    .map((line) => line.split('\t').map((cell) => cell.trim()))
    .filter(([, destination, , , , , , mask]) => destination === '00000000' && mask === '00000000')
    .toSorted((a, b) => Number(a[6]) - Number(b[6]));
  return defaults[0]?.[0];
}

function firstLineOf(...paths: readonly string[]): string {
  for (const path of paths) {
    const [line = ''] = (textOf(path) ?? '').split('\n');
    if (line.trim() !== '') return line.trim();
  }
  return '';
}

/** Undefined if it is not there, or not for us. */
function textOf(path: string): string | undefined {
  try {
    return readFileSync(path, 'utf8');
  } catch {
    return undefined;
  }
}
