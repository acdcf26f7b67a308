/**
 * A network for the pods of this node: a bridge of the machine with a /22, on which every pod has an interface and an address
 * of its own.
 *
 *   pod: eth0 10.212.4.5 ──cable── mv1a2b3c4d-5 ─┐
 *   pod: eth0 10.212.4.6 ──cable── mv1a2b3c4d-6 ─┴─ ml-1a2b3c4d 10.212.4.1 ── the machine ── the way out
 *
 * Made for the first pod that wants it and taken away when the runtime closes without pods. A cable is gone with its pod's last
 * process; what a crash left is swept. Where the machine cannot do it, pods have the machine's own network.
 */
import { readFileSync, writeFileSync } from 'node:fs';
import { isIPv4 } from 'node:net';
import { networkInterfaces } from 'node:os';
import { join } from 'node:path';
import { messageOf } from '../../../base/errors.ts';
import { NetlinkSocket, requests } from '../../../linux/netlink.ts';
import { SystemCallError } from '../../../linux/system-call-error.ts';
import { type PortMapping, RuntimeError, type ServiceForward, type ServiceNetwork } from '../../runtime.ts';
import { type PublishedPort, frameRules, loadRules, packetRules, portRule, withoutTables } from './packet-rules.ts';
import type { PodInterface } from './pod-interface.ts';
import { movedFlows, serviceRules, serviceTable, withoutServiceTable } from './service-rules.ts';
import {
  type NetworkNames,
  type Range,
  type Subnet,
  addressIn,
  bridgeNumber,
  chooseSubnet,
  firstPod,
  lastPod,
  macOf,
  networkNames,
  numberIn,
  prefixBits,
  rangeOf,
  routedRanges,
} from './subnet.ts';

const subnetFile = 'subnet';

interface PodNetworksSettings {
  readonly stateDirectory: string;
  /** Of the machine's loopback address, for pods at `machineAddress`. */
  readonly machinePorts: readonly number[];
}

interface Lease {
  readonly address: string;
  readonly ports: readonly PortMapping[];
}

interface Made {
  readonly subnet: Subnet;
  readonly bridgeIndex: number;
}

export class PodNetworks {
  readonly #settings: PodNetworksSettings;
  readonly #names: NetworkNames;
  readonly #leases = new Map<string, Lease>();
  #socket: NetlinkSocket | undefined;
  #filters: NetlinkSocket | undefined;
  #making: Promise<Made | undefined> | undefined;
  #loading: Promise<void> = Promise.resolve();
  /** Undefined until they are known: what an earlier program has loaded goes on meanwhile. */
  #forwards: readonly ServiceForward[] | undefined;
  #lastNumber = firstPod - 1;
  #problem: string | undefined;

  constructor(settings: PodNetworksSettings) {
    this.#settings = settings;
    this.#names = networkNames(settings.stateDirectory);
  }

  /** Why pods have the machine's network instead; undefined when there is nothing to say, or it was taken before. */
  takeProblem(): string | undefined {
    const problem = this.#problem;
    this.#problem = undefined;
    return problem;
  }

  /** Takes up what pods of an earlier program have, and sweeps what is left of others. */
  async adopt(pods: ReadonlyMap<string, Lease>): Promise<void> {
    for (const [uid, lease] of pods) this.#leases.set(uid, lease);
    if (pods.size > 0) await this.#made();
    await this.sweep();
  }

  /** For a pod that is about to be made. Undefined: it has the machine's network. */
  async lease(uid: string, ports: readonly PortMapping[]): Promise<PodInterface | undefined> {
    const made = await this.#made();
    if (made === undefined) return undefined;
    const { subnet, bridgeIndex } = made;
    const number = this.#freeNumber(subnet);
    const address = addressIn(subnet, number);
    const published = ports.filter(({ hostPort }) => hostPort > 0);
    // Before others load rules with it: they would fail for what this pod asks.
    for (const port of published) portRule({ ...port, address });
    this.#leases.set(uid, { address, ports: published });
    try {
      await this.#publish(uid, made);
    } catch (thrown) {
      this.#leases.delete(uid);
      throw thrown;
    }
    return {
      address,
      gateway: addressIn(subnet, bridgeNumber),
      end: `${this.#names.endPrefix}${number}`,
      bridgeIndex,
    };
  }

  /** The pod's namespace is gone, or was never made. */
  async release(uid: string): Promise<void> {
    const lease = this.#leases.get(uid);
    if (lease === undefined || !this.#leases.delete(uid) || lease.ports.length === 0) return;
    const made = await this.#made();
    if (made === undefined) return;
    await this.#load(made);
    await forgetFlows(lease.ports);
  }

  /** The network is made for it, where it is not there yet. Rejects where the machine cannot have one. */
  async openForServices(): Promise<ServiceNetwork> {
    const made = await this.#made();
    if (made === undefined) throw new RuntimeError(this.#problem ?? 'this machine cannot make one');
    const { subnet } = made;
    return {
      gateway: addressIn(subnet, bridgeNumber),
      isPod(address) {
        const number = isIPv4(address) ? numberIn(subnet, address) : 0;
        return number >= firstPod && number <= lastPod;
      },
      serve: (forwards) => this.#serve(forwards),
    };
  }

  async #serve(forwards: readonly ServiceForward[]): Promise<void> {
    const made = await this.#made();
    if (made === undefined) throw new RuntimeError(this.#problem ?? 'the network of the pods is gone');
    const before = this.#forwards;
    const rules = this.#serviceRules(made, forwards);
    if (before !== undefined && this.#serviceRules(made, before) === rules) return;
    await this.#inTurn(() => rules);
    this.#forwards = forwards;
    const flows = movedFlows(before ?? [], forwards).flatMap(({ address, port, nodePort }) => [
      { hostIp: address, hostPort: port },
      ...(nodePort > 0 ? [{ hostIp: '', hostPort: nodePort }] : []),
    ]);
    await forgetFlows(flows.map((flow) => ({ ...flow, protocol: 'UDP' })));
  }

  #serviceRules({ subnet }: Made, forwards: readonly ServiceForward[]): string {
    return serviceRules({ names: this.#names, subnet, machinePorts: this.#settings.machinePorts, forwards });
  }

  /** Someone may have removed the bridge: the next pod looks again. */
  doubt(): void {
    this.#making = undefined;
  }

  /** Removes interfaces of pods that are gone, which the kernel does too, in its own time; brings back what others removed. */
  async sweep(): Promise<void> {
    const { endPrefix } = this.#names;
    const made = await this.#making;
    if (made === undefined && this.#leases.size > 0) return;
    if (made !== undefined && (await this.#isTableMissing())) await this.#loadAll(made);
    const usedEnds = (): ReadonlySet<string> =>
      new Set(made && this.#numbers(made.subnet).map((number) => `${endPrefix}${number}`));
    let used = usedEnds();
    for (const name of interfaceNames()) {
      if (!name.startsWith(endPrefix) || used.has(name)) continue;
      await this.#remove(name);
      used = usedEnds(); // pods come meanwhile
    }
  }

  /** Without a pod that has an address, nothing stays on the machine. */
  async close(): Promise<void> {
    await this.#making;
    if (this.#leases.size === 0) {
      // Whichever of them someone else has removed, the rest goes too.
      if (interfaceNames().includes(this.#names.bridge)) {
        await this.sweep();
        await this.#remove(this.#names.bridge);
      }
      const tables = await this.#tables().catch(() => [false]); // a kernel without packet rules has none of ours
      const none = withoutTables(this.#names) + withoutServiceTable(this.#names);
      if (tables.includes(true)) await loadRules(none).catch(() => {}); // the next start finds them
    }
    this.#socket?.close();
    this.#filters?.close();
    this.#socket = undefined;
    this.#filters = undefined;
  }

  async #made(): Promise<Made | undefined> {
    this.#making ??= this.#make().catch((thrown: unknown) => {
      this.#problem = messageOf(thrown);
      return undefined;
    });
    return await this.#making;
  }

  async #make(): Promise<Made> {
    const { bridge } = this.#names;
    const netlink = this.#netlink();
    const known = await netlink.indexOf(bridge);
    const subnet = this.#chooseSubnet(known !== undefined);
    const gateway = addressIn(subnet, bridgeNumber);
    if (known === undefined) await netlink.ask(requests.newBridge({ name: bridge, mac: macOf(gateway) }));
    const bridgeIndex = known ?? (await netlink.indexOf(bridge));
    if (bridgeIndex === undefined) throw new RuntimeError(`Cannot find the interface ${bridge}: it was removed`);
    const made = { subnet, bridgeIndex };
    // Before the address: at no time may pods reach more than the rules let them.
    await this.#loadAll(made);
    const ofBridge = `/proc/sys/net/ipv4/conf/${bridge}`;
    writeFileSync(`${ofBridge}/route_localnet`, '1'); // for hostPorts at 127.0.0.1, and the machine's ports
    forward();
    await netlink.ask(requests.addAddress(bridgeIndex, gateway, prefixBits));
    return made;
  }

  /** The same as before where it can be: running pods have addresses of it, or had. */
  #chooseSubnet(isInUse: boolean): Subnet {
    const { stateDirectory } = this.#settings;
    const path = join(stateDirectory, subnetFile);
    const before = textOf(path)?.trim() ?? '';
    if (isInUse && isIPv4(before)) return before;
    const chosen = chooseSubnet(stateDirectory, takenRanges(), before);
    if (chosen === undefined) throw new RuntimeError('no private network of 1024 addresses is free on this machine');
    writeFileSync(path, `${chosen}\n`, { mode: 0o600 });
    return chosen;
  }

  /** The next one after the last: an address that was just given up is not used again soon. */
  #freeNumber(subnet: Subnet): number {
    const used = new Set(this.#numbers(subnet));
    const count = lastPod - firstPod + 1;
    for (let step = 1; step <= count; step += 1) {
      const number = firstPod + ((this.#lastNumber - firstPod + step + count) % count);
      if (used.has(number)) continue;
      this.#lastNumber = number;
      return number;
    }
    throw new RuntimeError(
      `Cannot give the pod an address: all ${count} of ${addressIn(subnet, 0)}/${prefixBits} are used`,
    );
  }

  #numbers(subnet: Subnet): number[] {
    return [...this.#leases.values()].map(({ address }) => numberIn(subnet, address));
  }

  async #publish(uid: string, made: Made): Promise<void> {
    const ports = this.#leases.get(uid)?.ports ?? [];
    if (ports.length === 0) return;
    await this.#load(made);
    await forgetFlows(ports);
  }

  /** A firewall that is set up again removes all tables, and with ours what keeps pods from the machine's loopback address. */
  async #isTableMissing(): Promise<boolean> {
    const [ip, bridge, services] = await this.#tables();
    return !ip || !bridge || (this.#forwards !== undefined && !services);
  }

  async #tables(): Promise<readonly boolean[]> {
    const { table } = this.#names;
    const filters = (this.#filters ??= NetlinkSocket.open('filters'));
    return [
      await filters.hasTable('ip', table),
      await filters.hasTable('bridge', table),
      await filters.hasTable('ip', serviceTable(this.#names)),
    ];
  }

  async #loadAll(made: Made): Promise<void> {
    await loadRules(frameRules(this.#names, made.subnet));
    await this.#load(made);
    const forwards = this.#forwards;
    if (forwards !== undefined) await this.#inTurn(() => this.#serviceRules(made, forwards));
  }

  /** With what is leased by then. */
  async #load({ subnet }: Made): Promise<void> {
    const { machinePorts } = this.#settings;
    await this.#inTurn(() => packetRules({ names: this.#names, subnet, machinePorts, hostPorts: this.#hostPorts() }));
  }

  /** One after the other. */
  async #inTurn(rules: () => string): Promise<void> {
    const loading = this.#loading.then(() => loadRules(rules()));
    this.#loading = loading.catch(() => {});
    await loading;
  }

  #hostPorts(): PublishedPort[] {
    return [...this.#leases.values()].flatMap(({ address, ports }) => ports.map((port) => ({ ...port, address })));
  }

  async #remove(name: string): Promise<void> {
    try {
      await this.#netlink().ask(requests.deleteLink(name));
    } catch (thrown) {
      if (!(thrown instanceof SystemCallError) || thrown.code !== 'ENODEV') throw thrown;
    }
  }

  #netlink(): NetlinkSocket {
    this.#socket ??= NetlinkSocket.open('routes');
    return this.#socket;
  }
}

/**
 * The kernel sends packets of UDP to where it sent those before them, as long as they come: also when that pod is gone, or nobody
 * had the port yet. Without what this needs of the kernel, clients that never pause stay where they are.
 */
async function forgetFlows(ports: readonly Omit<PortMapping, 'containerPort'>[]): Promise<void> {
  const ofUdp = ports.filter(({ protocol }) => protocol === 'UDP');
  if (ofUdp.length === 0) return;
  const filters = NetlinkSocket.open('filters');
  try {
    for (const { hostPort, hostIp } of ofUdp) {
      const isEverywhere = hostIp === '' || hostIp === '0.0.0.0';
      for (const address of isEverywhere ? ownAddresses() : [hostIp]) await filters.forgetFlows(address, hostPort);
    }
  } catch (thrown) {
    if (!(thrown instanceof SystemCallError)) throw thrown;
  } finally {
    filters.close();
  }
}

function ownAddresses(): string[] {
  const addresses = Object.values(networkInterfaces()).flatMap((list = []) => list);
  return addresses.filter(({ family }) => family === 'IPv4').map(({ address }) => address);
}

/** As the CNI plugins do: without it no packet leaves the machine for a pod. It stays, since others may have come to need it. */
function forward(): void {
  const path = '/proc/sys/net/ipv4/ip_forward';
  if (textOf(path)?.trim() === '0') writeFileSync(path, '1');
}

function takenRanges(): Range[] {
  const addresses = Object.values(networkInterfaces()).flatMap((list = []) => list);
  return [
    ...routedRanges(textOf('/proc/net/route') ?? ''),
    ...addresses.flatMap(({ family, cidr }) => {
      const [address = '', bits] = cidr?.split('/') ?? [];
      return family === 'IPv4' && bits !== undefined ? [rangeOf(address, Number(bits))] : [];
    }),
  ];
}

/** Of the namespace of this process, those without addresses too. */
function interfaceNames(): string[] {
  return (textOf('/proc/net/dev') ?? '').split('\n').flatMap((line) => /^\s*([^\s:]+):/.exec(line)?.[1] ?? []);
}

function textOf(path: string): string | undefined {
  try {
    return readFileSync(path, 'utf8');
  } catch {
    return undefined;
  }
}
