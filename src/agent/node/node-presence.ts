import { hostname, release, arch } from 'node:os';
import { readFileSync } from 'node:fs';
import type { Clock } from '../../base/clock.ts';
import { ObjectCache } from '../../client/object-cache.ts';
import { reflectorDefaults } from '../../client/reflector.ts';
import { nodes, withShape } from '../../client/resource-reference.ts';
import type { Node } from '../../kube/objects/node.ts';
import { node as nodeShape } from '../../kube/objects/node.ts';
import type { EventSink } from '../../node/event-object.ts';
import { NodeReporter, nodeReporterDefaults } from '../../reporting/node-reporter.ts';
import type { NodeReader } from '../../volumes/node-reader.ts';
import type { AgentSettings } from '../agent-settings.ts';
import { thisMachine } from '../this-machine.ts';
import { kubernetesVersion } from '../kubernetes-version.ts';
import type { NodeClients } from './node.ts';
import type { NotifyNode } from './node-notices.ts';
import { runTogether } from './run-together.ts';
void hostname;

export interface NodePresenceDeps {
  readonly clients: NodeClients | undefined;
  readonly clock: Clock;
  readonly random: () => number;
  readonly recorder: EventSink;
  readonly notify: NotifyNode;
  readonly serverPort: () => number;
  readonly runtimeVersion: string;
  readonly volumesInUse: () => readonly string[] | undefined;
  readonly reportedInUse: (names: readonly string[]) => void;
  readonly changed: () => void;
  readonly registered: () => void;
}

const resource = withShape(nodes, nodeShape);

export class NodePresence implements NodeReader {
  readonly name: string;
  readonly #deps: NodePresenceDeps;
  readonly #settings: AgentSettings;
  readonly #cache: ObjectCache<Node>;
  constructor(deps: NodePresenceDeps, settings: AgentSettings) {
    this.name = settings.nodeName;
    this.#deps = deps;
    this.#settings = settings;
    this.#cache = new ObjectCache(deps.clock);
  }
  current(): Node | undefined {
    return this.#cache.get(this.name);
  }
  known(): Node {
    return this.current() ?? thisMachine(this.name, this.#settings.rootDirectory);
  }
  async read(signal: AbortSignal): Promise<Node> {
    const { clients } = this.#deps;
    if (clients === undefined) return this.known();
    return await clients.general.get(resource, { name: this.name }, signal);
  }
  owner(): { name: string; uid: string } | undefined {
    const uid = this.current()?.metadata.uid;
    return uid === undefined ? undefined : { name: this.name, uid };
  }
  hostIps(): readonly string[] {
    if (this.#settings.nodeIp !== undefined) return [this.#settings.nodeIp];
    const own = thisMachine(this.name, this.#settings.rootDirectory).status?.addresses ?? [];
    return own
      .filter(({ type }) => type === 'InternalIP')
      .map(({ address }) => address)
      .slice(0, 1);
  }
  async run(signal: AbortSignal): Promise<void> {
    const { clients, clock, random, notify, recorder } = this.#deps;
    if (clients === undefined) return;
    const reporter = new NodeReporter(
      {
        client: clients.heartbeat,
        clock,
        chance: random,
        facts: async () => {
          const { status = {} } = thisMachine(this.name, this.#settings.rootDirectory);
          const pods = String(this.#settings.podsMax);
          return {
            addresses:
              this.#settings.nodeIp === undefined
                ? (status.addresses ?? [])
                : [
                    { type: 'InternalIP', address: this.#settings.nodeIp },
                    { type: 'Hostname', address: this.name },
                  ],
            capacity: { ...status.capacity, pods },
            allocatable: { ...status.allocatable, pods },
            nodeInfo: {
              machineID: '',
              systemUUID: '',
              bootID: readFileSync('/proc/sys/kernel/random/boot_id', 'utf8').trim(),
              kernelVersion: release(),
              osImage: 'Linux',
              containerRuntimeVersion: this.#deps.runtimeVersion,
              kubeletVersion: kubernetesVersion.gitVersion,
              kubeProxyVersion: '',
              operatingSystem: 'linux',
              architecture: arch() === 'x64' ? 'amd64' : arch(),
            },
            serverPort: this.#deps.serverPort(),
            pressure: { memory: false, disk: false, processes: false },
            problems: [],
          };
        },
        events: { record: (object, type, reason, message) => recorder.record({ object, type, reason, message }) },
        notify: (notice) => void notice,
      },
      { name: this.name, labels: this.#settings.nodeLabels, taints: this.#settings.taints, providerId: '' },
      nodeReporterDefaults,
    );
    await runTogether(
      [
        (stop) => reporter.run(stop),
        (stop) =>
          this.#cache.follow(
            { client: clients.general, clock, random, notify },
            { ...reflectorDefaults, resource, fieldSelector: `metadata.name=${this.name}` },
            stop,
          ),
      ],
      signal,
    );
  }
}
