/** This machine as a node of its cluster: the status it reports, and the Node object that the cluster has. Without a cluster, the machine as it is. */
import { randomUUID } from 'node:crypto';
import type { Clock, Pausing } from '../../base/clock.ts';
import { runTask } from '../../base/run-task.ts';
import {
  type ApiClient,
  type ApiClientSettings,
  apiClientDefaults,
  connectApiClient,
} from '../../client/api/api-client.ts';
import type { ClusterAccess } from '../../client/credentials/cluster-access.ts';
import { poolDefaults } from '../../client/transport/connection-pool.ts';
import type { Node } from '../../kube/kinds/node.ts';
import { type EventSink, type NewEvent, nodeEventObject } from '../../node/event-recorder.ts';
import { NodeLease, heartbeatClientSettings } from '../../node/node-lease.ts';
import { NodeReporter } from '../../node/node-reporter.ts';
import type { NodeSettings, RuntimeFacts } from '../../node/node-status.ts';
import { OwnNode } from '../../node/own-node.ts';
import { initialNode } from '../../node/registration.ts';
import type { Runtime } from '../../runtimes/runtime.ts';
import type { NodeReader } from '../../volumes/operation.ts';
import { kubernetesVersion, machineFacts } from '../machine/machine-facts.ts';
import type { AgentSettings } from './agent-settings.ts';
import { reservedOf } from './node-reclaim.ts';
import type { NotifyNode } from './notices.ts';

interface NodePresenceDeps extends Pausing {
  readonly clients: NodeClients | undefined;
  readonly random: () => number;
  readonly events: EventSink;
  readonly notify: NotifyNode;
  readonly runtimeVersion: string;
  /** Why this node is not ready; none: it is. */
  readonly problems: () => readonly string[];
  readonly isUnderDiskPressure: () => boolean;
  readonly runtime: Pick<Runtime, 'features' | 'images'>;
}

/** What the node's status contains beside the machine itself. */
interface Reported {
  /** Of the node's own server; 0: it has none. */
  readonly port: number;
  /** Undefined while that is not yet known. */
  readonly volumesInUse: () => readonly string[] | undefined;
  /** Called with the volumes in use that the cluster has received. */
  readonly reportedInUse: (names: readonly string[]) => void;
}

interface NodeFollower {
  /** The cluster has another Node object now. */
  readonly changed: () => void;
  /** The cluster knows the node, for the first time or again. */
  readonly registered: () => void;
}

/** As often as nodes look at themselves for their status. */
const addressesMs = 10_000;
/** As often as the kubelet lists them. */
const imagesMs = 30_000;

export class NodePresence implements NodeReader {
  readonly name: string;
  readonly #deps: NodePresenceDeps;
  readonly #settings: AgentSettings;
  readonly #ownNode: OwnNode | undefined;
  /** Names this machine as long as no cluster has named it. */
  readonly #uid = randomUUID();
  #reporter: NodeReporter | undefined;
  #images: RuntimeFacts['images'];
  #addresses: { readonly atMs: number; readonly known: readonly string[] } | undefined;

  constructor(deps: NodePresenceDeps, settings: AgentSettings) {
    this.name = settings.nodeName;
    this.#deps = deps;
    this.#settings = settings;
    if (deps.clients !== undefined) this.#ownNode = new OwnNode(this.name, { ...deps, client: deps.clients.general });
  }

  subscribe({ changed, registered }: NodeFollower): void {
    let wasKnown = false;
    this.#ownNode?.subscribe((node) => {
      changed();
      if (node !== undefined && !wasKnown) registered();
      wasKnown = node !== undefined;
    });
  }

  current(): Node | undefined {
    return this.#deps.clients === undefined ? this.known() : this.#ownNode?.current();
  }

  /** Before the cluster has said anything: this machine as it is. */
  known(): Node {
    const current = this.#ownNode?.current();
    if (current !== undefined) return current;
    const { rootDirectory, nodeIp } = this.#settings;
    const machine = machineFacts(rootDirectory, nodeIp);
    const observed = {
      nowMs: this.#deps.clock.now(),
      machine,
      problems: [],
      volumesInUse: undefined,
      isUnderDiskPressure: this.#deps.isUnderDiskPressure(),
      runtime: this.#runtimeFacts(),
    };
    const { node } = initialNode(this.#reported(0), observed);
    return { ...node, metadata: { ...node.metadata, uid: this.#uid } };
  }

  async read(signal: AbortSignal): Promise<Node> {
    return await (this.#ownNode?.read(signal) ?? Promise.resolve(this.known()));
  }

  /** An Event about this node. */
  record({ type, reason, message }: Omit<NewEvent, 'object'>): void {
    const object = nodeEventObject(this.name, this.#ownNode?.current()?.metadata.uid);
    this.#deps.events.record({ object, type, reason, message });
  }

  /** Sends the status at once. */
  volumesInUseChanged(): void {
    this.#reporter?.touch();
  }

  pressureChanged(): void {
    this.#reporter?.touch();
  }

  /** Of mirror pods; undefined until the cluster knows the node. */
  owner(): { readonly name: string; readonly uid: string } | undefined {
    const uid = this.#ownNode?.current()?.metadata.uid;
    return uid === undefined ? undefined : { name: this.name, uid };
  }

  hostIps(): readonly string[] {
    const { rootDirectory, nodeIp } = this.#settings;
    const now = this.#deps.clock.now();
    // Every status of every pod asks, and the answer takes half a dozen files.
    if (this.#addresses === undefined || Math.abs(now - this.#addresses.atMs) >= addressesMs) {
      this.#addresses = { atMs: now, known: machineFacts(rootDirectory, nodeIp).internalAddresses };
    }
    return this.#addresses.known;
  }

  async run({ port, volumesInUse, reportedInUse }: Reported, signal: AbortSignal): Promise<void> {
    const { clients } = this.#deps;
    const ownNode = this.#ownNode;
    if (clients === undefined || ownNode === undefined) return;
    const { rootDirectory, nodeIp } = this.#settings;
    const shared = { ...this.#deps, ownNode, heartbeat: clients.heartbeat };
    const reporter = new NodeReporter(
      {
        ...shared,
        client: clients.general,
        machine: () => machineFacts(rootDirectory, nodeIp),
        runtime: () => this.#runtimeFacts(),
        volumesInUse,
        reportedInUse,
      },
      this.#reported(port),
    );
    this.#reporter = reporter;
    const lease = new NodeLease(shared, this.#settings);
    const parts = { 'the Node object': ownNode, 'the status of the node': reporter, 'the lease of the node': lease };
    const images = { run: (stop: AbortSignal) => this.#followImages(stop) };
    const running = Object.entries({ ...parts, 'the images of the node': images }).map(([task, part]) =>
      runTask(task, (stop) => part.run(stop), this.#deps, signal),
    );
    await Promise.all(running);
  }

  #runtimeFacts(): RuntimeFacts {
    return { ...this.#deps.runtime.features?.(), images: this.#images };
  }

  /** Apart from the status, which must not wait for a runtime that does not answer. */
  async #followImages(signal: AbortSignal): Promise<void> {
    const { clock, runtime } = this.#deps;
    while (runtime.images !== undefined && !signal.aborted) {
      this.#images = await runtime.images.list(signal).catch(() => this.#images);
      await clock.sleep(imagesMs, signal).catch(() => {});
    }
  }

  #reported(port: number): NodeSettings {
    const { runtimeVersion, runtime } = this.#deps;
    const { taints = [] } = this.#settings;
    return {
      ...this.#settings,
      taints,
      port,
      kubeletVersion: kubernetesVersion.gitVersion,
      runtimeVersion,
      reserved: reservedOf(this.#settings, runtime),
    };
  }
}

/** The three clients of a node, as the kubelet has them: for pods, for Events, and for heartbeats, which wait for neither. */
export interface NodeClients {
  readonly general: ApiClient;
  readonly events: ApiClient;
  readonly heartbeat: ApiClient;
  close(): Promise<void>;
}

export function connectNode(
  cluster: Pick<ClusterAccess, 'endpoint' | 'credentials' | 'transport'>,
  clock: Clock,
  settings: AgentSettings,
): NodeClients {
  const connect = (client: ApiClientSettings): ApiClient => connectApiClient(cluster, clock, client, poolDefaults);
  const rate = { perSecond: settings.requestsPerSecond, burst: settings.requestsBurst };
  const shared = { ...apiClientDefaults, userAgent: 'mountlet-agent', rate };
  const general = connect(shared);
  const events = connect({ ...shared, rate: { perSecond: settings.eventsPerSecond, burst: settings.eventsBurst } });
  const heartbeat = connect(heartbeatClientSettings(shared, settings));
  return {
    general,
    events,
    heartbeat,
    async close() {
      await Promise.all([general.close(), events.close(), heartbeat.close()]);
    },
  };
}
