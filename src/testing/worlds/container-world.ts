/** The surroundings in which a test has containers started and ended: a runtime in memory and a clock that stands still. */
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { ConfigMap } from '../../kube/kinds/config-map.ts';
import type { Container } from '../../kube/kinds/pod/container.ts';
import { podUid } from '../../kube/kinds/pod/pod-identity.ts';
import type { Pod } from '../../kube/kinds/pod/pod.ts';
import type { Secret } from '../../kube/kinds/secret.ts';
import { ContainerKiller } from '../../pods/containers/container-killer.ts';
import type { NodeSettings } from '../../pods/containers/container-request.ts';
import { ContainerStarter } from '../../pods/containers/container-starter.ts';
import { ContainerSync, type ContainerSyncResult, type RuntimeClasses } from '../../pods/containers/container-sync.ts';
import { DeadContainers } from '../../pods/containers/dead-containers.ts';
import { ImagePuller, type PullSettings } from '../../pods/images/image-puller.ts';
import { StartErrors } from '../../pods/containers/start-errors.ts';
import type { PodVolumes } from '../../pods/loop/pod-lifecycle.ts';
import type { PodNetwork } from '../../pods/probes/http-exchange.ts';
import type { ContainerViewDeps } from '../../pods/view/container-view.ts';
import { type EnvironmentDeps, resolveEnvironment } from '../../pods/view/environment.ts';
import type { DnsSettings } from '../../pods/view/dns.ts';
import type { MountedVolumes } from '../../pods/view/mounts.ts';
import type { Variable } from '../../pods/view/variables.ts';
import { type PodParts, aContainer, aNode, aPod, objectReader } from '../fakes/builders.ts';
import { FakeClock } from '../fakes/fake-clock.ts';
import { FakeRuntime } from '../fakes/fake-runtime.ts';
import { MemoryContainerFiles, RecordedEvents } from '../fakes/memory-pod-api.ts';

export const testNodeSettings: NodeSettings & PullSettings = {
  clusterDomain: 'cluster.local',
  restartBackOffMsMax: 300_000,
  defaultUid: 1000,
  seccompDefault: true,
  memoryBytes: 8 * 1024 ** 3,
  pullsAtOnceMax: Infinity,
  pullsPerSecond: Infinity,
  pullsBurst: 1,
};

export const testDns = async (): Promise<DnsSettings> => ({
  clusterDns: ['10.96.0.10'],
  clusterDomain: 'cluster.local',
  resolvConf: 'nameserver 192.0.2.53\n',
  nodeIps: ['192.0.2.1'],
  warnsWithoutCluster: true,
});

export function handlers(byClass: ReadonlyMap<string, string>): RuntimeClasses {
  return { knownHandler: (name) => byClass.get(name), runtimeHandler: async (name) => byClass.get(name) };
}

export const emptyVolumes: PodVolumes = {
  waitForMounted: () => Promise.resolve(),
  waitForUnmounted: () => Promise.resolve(),
  mountedVolumesOf: () => noVolumes,
  groupsOf: () => [],
  waitForReleased: async () => {},
  podVolumesExist: () => false,
  podChanged: () => {},
  sourcesChanged: () => {},
};

export const silentNetwork: PodNetwork = {
  connect: () => Promise.reject(new Error('connect ECONNREFUSED')),
};

export function viewDeps({
  configMaps = [],
  secrets = [],
}: { readonly configMaps?: readonly ConfigMap[]; readonly secrets?: readonly Secret[] } = {}): ContainerViewDeps {
  return {
    configMaps: objectReader(...configMaps),
    secrets: objectReader(...secrets),
    services: [],
    node: aNode({ addresses: [{ type: 'InternalIP', address: '192.0.2.1' }] }),
    envFiles: plainFiles,
    subPaths: {
      prepare: ({ volumeDirectory, subPath }) => Promise.resolve({ hostPath: `${volumeDirectory}/${subPath}` }),
    },
    hostsFiles: {
      readNode: () => Promise.resolve('127.0.0.1 localhost\n'),
      write: (pod) => Promise.resolve(`/root/pods/${podUid(pod)}/etc-hosts`),
    },
  };
}

export class ContainerWorld {
  readonly clock = new FakeClock();
  readonly runtime = new FakeRuntime(this.clock);
  readonly events = new RecordedEvents();
  /** `MissingClusterDNS: …` */
  readonly nodeEvents: string[] = [];
  readonly files = new MemoryContainerFiles();
  readonly startErrors = new StartErrors();
  readonly verdicts = new Map<string, boolean>();
  /** Handlers by the name of their RuntimeClass. */
  readonly runtimeClasses = new Map<string, string>();
  view: ContainerViewDeps = viewDeps();
  readonly killer: ContainerKiller;
  readonly #sync: ContainerSync;

  constructor({ network = silentNetwork, settings = testNodeSettings, volumes = emptyVolumes, dns = testDns } = {}) {
    const { clock, runtime, events, files } = this;
    const hostIPs = (): readonly string[] => ['192.0.2.1'];
    this.killer = new ContainerKiller({ clock, runtime, events, network, hostIPs });
    const starter = new ContainerStarter(
      {
        clock,
        runtime,
        events,
        network,
        files,
        volumes,
        view: () => this.view,
        killer: this.killer,
        images: new ImagePuller({ clock, runtime, events, nodeLogins: [] }, testNodeSettings),
        hostIPs,
      },
      settings,
    );
    const probes = { get: (kind: string, id: string) => this.verdicts.get(`${kind} ${id}`) };
    const { startErrors, killer } = this;
    const runtimeClasses = handlers(this.runtimeClasses);
    const nodeEvents = {
      record: ({ reason, message }: { readonly reason: string; readonly message: string }) =>
        void this.nodeEvents.push(`${reason}: ${message}`),
    };
    const dead = new DeadContainers({ runtime, files });
    const deps = {
      runtime,
      events,
      files,
      volumes,
      dns,
      probes,
      starter,
      startErrors,
      killer,
      dead,
      runtimeClasses,
      nodeEvents,
    };
    this.#sync = new ContainerSync(deps, 'cluster.local');
  }

  async sync(pod: Pod, signal: AbortSignal = new AbortController().signal): Promise<ContainerSyncResult> {
    const secrets = { secrets: [], missing: [] };
    return await this.#sync.sync(pod, await this.runtime.get(podUid(pod)), secrets, async () => {}, signal);
  }

  /** Until nothing is left to do at this moment. */
  async syncAll(pod: Pod): Promise<void> {
    for (let before = ''; before !== this.runtime.show(podUid(pod));) {
      before = this.runtime.show(podUid(pod));
      await this.sync(pod);
    }
  }
}

/** A node's surroundings in which a test resolves the environment of one container. */
export interface EnvironmentWorld extends Partial<Omit<EnvironmentDeps, 'configMaps' | 'secrets'>> {
  readonly configMaps?: readonly ConfigMap[];
  readonly secrets?: readonly Secret[];
  readonly pod?: PodParts;
  readonly podIPs?: readonly string[];
  readonly loopbackIp?: string;
  readonly volumes?: MountedVolumes;
}

export const noVolumes: MountedVolumes = { get: () => undefined };
export const plainFiles: EnvironmentDeps['envFiles'] = {
  async read({ directory, path }) {
    const file = join(directory, path);
    return { path: file, content: await readFile(file) };
  },
};

export function resolveIn(
  container: Partial<Container>,
  {
    configMaps = [],
    secrets = [],
    pod = {},
    podIPs = [],
    loopbackIp,
    volumes = noVolumes,
    ...deps
  }: EnvironmentWorld = {},
): Promise<readonly Variable[]> {
  const own = aContainer(container);
  return resolveEnvironment(
    { pod: aPod({ containers: [own], ...pod }), container: own, podIPs, loopbackIp, volumes },
    {
      configMaps: objectReader(...configMaps),
      secrets: objectReader(...secrets),
      services: [],
      node: aNode({
        addresses: [{ type: 'InternalIP', address: '192.0.2.1' }],
        allocatable: { cpu: '4', memory: '8Gi', 'ephemeral-storage': '100Gi' },
      }),
      envFiles: plainFiles,
      ...deps,
    },
    new AbortController().signal,
  );
}

/** Name and value of each, with a remark at those that are secret. */
export function showVariables(variables: readonly Variable[]): Record<string, string> {
  return Object.fromEntries(variables.map(({ name, value, secret }) => [name, secret ? `${value} (secret)` : value]));
}
