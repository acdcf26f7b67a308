/**
 * Services on a node that sees to them itself: what the API says of them is followed and handed to the network of the pods, and
 * the node answers their names. In a cluster with a kube-proxy and a DNS of its own a node does none of this.
 */
import { networkInterfaces } from 'node:os';
import { within } from '../../base/abort.ts';
import type { Clock } from '../../base/clock.ts';
import { OperatingError, messageOf } from '../../base/errors.ts';
import { runTask } from '../../base/run-task.ts';
import { WakeSignal } from '../../base/wake-signal.ts';
import { apiClientDefaults, connectApiClient } from '../../client/api/api-client.ts';
import { endpointSlices, services, withShape } from '../../client/api/resource-reference.ts';
import type { ClusterAccess } from '../../client/credentials/cluster-access.ts';
import { ObjectCache } from '../../client/object-cache.ts';
import { poolDefaults } from '../../client/transport/connection-pool.ts';
import { type EndpointSlice, endpointSliceKind } from '../../kube/kinds/endpoint-slice.ts';
import { type Service, serviceShape } from '../../kube/kinds/service.ts';
import { parseResolvConf } from '../../pods/view/dns.ts';
import type { Runtime, ServiceForward, ServiceNetwork } from '../../runtimes/runtime.ts';
import { DnsServer } from '../../services/dns-server.ts';
import { serviceForwards } from '../../services/forwards.ts';
import { ServiceDirectory } from '../../services/service-directory.ts';
import type { AgentSettings } from './agent-settings.ts';
import type { NotifyNode } from './notices.ts';

/** Who follows Services for a node: in most clusters `system:kube-proxy`. */
export type ServiceAccess = Pick<ClusterAccess, 'endpoint' | 'credentials' | 'transport'>;

interface NodeServicesDeps {
  readonly access: ServiceAccess;
  readonly runtime: Pick<Runtime, 'openServiceNetwork'>;
  readonly clock: Clock;
  readonly random: () => number;
  /** The text of the machine's file; undefined: it is not for pods. */
  readonly resolvConf: () => Promise<string | undefined>;
  readonly notify: NotifyNode;
}

export interface NodeServices {
  /** Why Services do not answer here; undefined: they do. */
  readonly problem: string | undefined;
  /** What pods ask for names, when they can; empty: nothing of this node. */
  clusterDns(): Promise<readonly string[]>;
  run(signal: AbortSignal): Promise<void>;
  close(): Promise<void>;
}

/** Where most clusters have it. A Service that was given this address keeps it. */
const dnsAddress = '10.96.0.10';
const dnsPort = 53;
const idleMs = 10_000;
/** For each server: programs give up after five seconds. */
const answerMsMax = 1_500;
/** Many changes come together; each that is loaded costs a run of nft. */
const gatherMs = 50;
/** The first pods wait for it: what is asked too early is lost, and programs ask again after seconds. */
const readyMsMax = 10_000;

const serviceTarget = { resource: withShape(services, serviceShape) };
const sliceTarget = { resource: withShape(endpointSlices, endpointSliceKind.shape) };

export const noServices: NodeServices = {
  problem: undefined,
  clusterDns: async () => [],
  run: async () => {},
  close: async () => {},
};

/** Where this machine cannot do it, that is said once, and the node goes on without. */
export async function openNodeServices(deps: NodeServicesDeps, settings: AgentSettings): Promise<NodeServices> {
  try {
    const network = await deps.runtime.openServiceNetwork?.();
    if (network === undefined)
      throw new OperatingError('NoServiceNetwork', 'pods have the networks of a container runtime');
    return await answeringServices(network, deps, settings);
  } catch (error) {
    const problem = messageOf(error);
    const message = `Services do not answer on this machine, and pods do not find their names: ${problem}`;
    deps.notify({ kind: 'ServicesUnavailable', message });
    return { ...noServices, problem };
  }
}

async function answeringServices(
  network: ServiceNetwork,
  deps: NodeServicesDeps,
  { clusterDomain, clusterDns }: AgentSettings,
): Promise<NodeServices> {
  const { clock, notify, access, resolvConf } = deps;
  const known = { services: new ObjectCache<Service>(), slices: new ObjectCache<EndpointSlice>() };
  let directory: ServiceDirectory | undefined;
  const dns = new DnsServer(
    { address: network.gateway, domain: clusterDomain, idleMs },
    {
      directory: () => directory,
      isClient: (address) => network.isPod(address) || isOwn(address),
      forwarder: {
        clock,
        port: dnsPort,
        answerMsMax,
        async servers() {
          const { servers } = parseResolvConf((await resolvConf()) ?? '');
          return servers.filter((server) => server !== dnsAddress && server !== network.gateway);
        },
      },
    },
  );
  // Whoever names another one has it for their pods.
  const port = clusterDns.length === 0 ? await dns.listen() : undefined;
  const client = connectApiClient(
    access,
    clock,
    { ...apiClientDefaults, userAgent: 'mountlet-services' },
    poolDefaults,
  );
  const changed = new WakeSignal();
  for (const cache of [known.services, known.slices]) cache.subscribe(() => changed.wake());
  let served = (): void => {};
  const whenServed = new Promise<true>((resolve) => (served = () => resolve(true)));
  const serve = async (signal: AbortSignal): Promise<void> => {
    await Promise.all([known.services.whenSynced(signal), known.slices.whenSynced(signal)]);
    while (!signal.aborted) {
      directory = new ServiceDirectory(known.services.list(), known.slices.list());
      const forwards = serviceForwards(directory);
      const isTaken = port === undefined || forwards.some(({ address }) => address === dnsAddress);
      await network.serve(isTaken ? forwards : [...forwards, ...dnsForwards({ address: network.gateway, port })]);
      served();
      await changed.sleep(Infinity, clock, signal);
      await clock.sleep(gatherMs, signal).catch(() => {});
    }
  };
  const following = { ...deps, client };
  return {
    problem: undefined,
    clusterDns: async () =>
      port !== undefined && (await within(clock, readyMsMax, whenServed)) === true ? [dnsAddress] : [],
    async run(signal) {
      const tasks = {
        'the Services': (ended: AbortSignal) => known.services.follow(following, serviceTarget, ended),
        'the EndpointSlices': (ended: AbortSignal) => known.slices.follow(following, sliceTarget, ended),
        'what leads to Services': serve,
      };
      await Promise.all(Object.entries(tasks).map(([task, part]) => runTask(task, part, { clock, notify }, signal)));
    },
    async close() {
      dns.close();
      await client.close();
    },
  };
}

function dnsForwards(target: ServiceForward['targets'][number]): readonly ServiceForward[] {
  const shared = { address: dnsAddress, port: dnsPort, nodePort: 0, targets: [target], isSticky: false };
  return (['UDP', 'TCP'] as const).map((protocol) => ({ ...shared, key: `names over ${protocol}`, protocol }));
}

/** Programs of the machine, and pods that have its network. */
function isOwn(address: string): boolean {
  return Object.values(networkInterfaces()).some((list = []) => list.some((one) => one.address === address));
}
