/** This machine as a node of its cluster: what it tells of itself, and what the cluster has of it. Without a cluster, what it is. */
import { randomUUID } from 'node:crypto';
import type { Pausing } from '../../base/clock.ts';
import { runTask } from '../../base/run-task.ts';
import type { Node } from '../../kube/kinds/node.ts';
import type { EventSink } from '../../node/event-object.ts';
import { initialNode } from '../../node/initial-node.ts';
import { NodeLease } from '../../node/node-lease.ts';
import { NodeReporter } from '../../node/node-reporter.ts';
import type { NodeSettings } from '../../node/node-settings.ts';
import { OwnNode } from '../../node/own-node.ts';
import type { NodeReader } from '../../volumes/node-reader.ts';
import type { AgentSettings } from '../agent-settings.ts';
import { kubernetesVersion } from '../kubernetes-version.ts';
import { machineFacts } from '../machine-facts.ts';
import type { NodeClients } from './node-clients.ts';
import type { NotifyNode } from './notices.ts';

interface NodePresenceDeps extends Pausing {
  readonly clients: NodeClients | undefined;
  readonly random: () => number;
  readonly events: EventSink;
  readonly notify: NotifyNode;
  readonly runtimeVersion: string;
  /** Undefined while that is not yet known. */
  readonly volumesInUse: () => readonly string[] | undefined;
  readonly reportedInUse: (names: readonly string[]) => void;
  /** The cluster has another Node object now. */
  readonly changed: () => void;
  /** The cluster knows the node. */
  readonly registered: () => void;
}

/** As often as nodes look at themselves for their status. */
const addressesMs = 10_000;

export class NodePresence implements NodeReader {
  readonly name: string;
  readonly #deps: NodePresenceDeps;
  readonly #settings: AgentSettings;
  readonly #ownNode: OwnNode | undefined;
  /** Names this machine as long as no cluster has named it. */
  readonly #uid = randomUUID();
  #addresses: { readonly atMs: number; readonly known: readonly string[] } | undefined;

  constructor(deps: NodePresenceDeps, settings: AgentSettings) {
    const { clients, changed, registered } = deps;
    this.name = settings.nodeName;
    this.#deps = deps;
    this.#settings = settings;
    if (clients === undefined) return;
    this.#ownNode = new OwnNode(this.name, { ...deps, client: clients.general });
    let wasKnown = false;
    this.#ownNode.subscribe((node) => {
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
    const observed = { nowMs: this.#deps.clock.now(), machine, problems: [], volumesInUse: undefined };
    const { node } = initialNode(this.#reported(0), observed);
    return { ...node, metadata: { ...node.metadata, uid: this.#uid } };
  }

  async read(signal: AbortSignal): Promise<Node> {
    return await (this.#ownNode?.read(signal) ?? Promise.resolve(this.known()));
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

  /** `port` is that of the node's own server; 0: it has none. */
  async run(port: number, signal: AbortSignal): Promise<void> {
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
        problems: () => [],
      },
      this.#reported(port),
    );
    const lease = new NodeLease(shared, this.#settings);
    const parts = { 'the Node object': ownNode, 'the status of the node': reporter, 'the lease of the node': lease };
    const running = Object.entries(parts).map(([task, part]) =>
      runTask(task, (stop) => part.run(stop), this.#deps, signal),
    );
    await Promise.all(running);
  }

  #reported(port: number): NodeSettings {
    const { runtimeVersion } = this.#deps;
    return { ...this.#settings, port, providerId: '', kubeletVersion: kubernetesVersion.gitVersion, runtimeVersion };
  }
}
