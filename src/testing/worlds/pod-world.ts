/** A node without a machine: the pod loop over a runtime, an API server and a manifests folder in memory. */
import { untilAborted } from '../../base/abort.ts';
import { CoalescingTopic } from '../../base/coalescing-queue.ts';
import { type PodSource, podUid } from '../../kube/kinds/pod/pod-identity.ts';
import type { Pod } from '../../kube/kinds/pod/pod.ts';
import type { PodLoopDeps, PodNotice } from '../../pods/loop/loop-parts.ts';
import { PodLoop } from '../../pods/loop/pod-loop.ts';
import type { ContainerViewDeps } from '../../pods/view/container-view.ts';
import { FakeClock, settle } from '../fakes/fake-clock.ts';
import { FakeRuntime } from '../fakes/fake-runtime.ts';
import { MemoryContainerFiles, MemoryPodApi, RecordedEvents } from '../fakes/memory-pod-api.ts';
import { emptyVolumes, handlers, silentNetwork, testDns, testNodeSettings, viewDeps } from './container-world.ts';

export class PodWorld {
  readonly clock: FakeClock;
  readonly runtime: FakeRuntime;
  readonly events = new RecordedEvents();
  readonly files = new MemoryContainerFiles();
  readonly notices: PodNotice[] = [];
  /** What was done with objects and volumes, in order. */
  readonly steps: string[] = [];
  /** `ContainerGCFailed: …` */
  readonly nodeEvents: string[] = [];
  readonly registered = new Set<string>();
  readonly api: MemoryPodApi;
  loop: PodLoop;
  view: ContainerViewDeps = viewDeps();
  admit: PodLoopDeps['admit'] = () => ({});
  /** Handlers by the name of their RuntimeClass. */
  readonly runtimeClasses = new Map<string, string>();
  isNodeKnown = true;
  /** Waiting for volumes ends when this does. */
  mounting: Promise<void> = Promise.resolve();
  unmounting: Promise<void> = Promise.resolve();
  readonly #sources: readonly PodSource[];
  readonly #feeds: Record<PodSource, CoalescingTopic<readonly Pod[]>> = {
    api: new CoalescingTopic(() => 'list'),
    file: new CoalescingTopic(() => 'list'),
  };
  readonly #lists: Partial<Record<PodSource, readonly Pod[]>> = {};
  #stop = new AbortController();
  #running: Promise<void>;

  constructor(sources: readonly PodSource[] = ['api']) {
    this.clock = new FakeClock();
    this.runtime = new FakeRuntime(this.clock);
    this.#sources = sources;
    this.api = new MemoryPodApi((pods) => this.list('api', pods));
    this.loop = this.#newLoop();
    this.#running = this.loop.run(this.#stop.signal);
  }

  /** The source has this list now. */
  list(source: PodSource, pods: readonly Pod[]): void {
    this.#lists[source] = pods;
    this.#feeds[source].publish(pods);
  }

  async stop(): Promise<void> {
    this.#stop.abort();
    await this.#running;
  }

  /** The program ends and starts again; the runtime and the API server stay. */
  async restart(): Promise<void> {
    await this.stop();
    this.#stop = new AbortController();
    this.loop = this.#newLoop();
    this.#running = this.loop.run(this.#stop.signal);
    for (const source of this.#sources) {
      const pods = this.#lists[source];
      if (pods !== undefined) this.list(source, structuredClone(pods));
    }
    await this.rest();
  }

  async rest(): Promise<void> {
    await settle(40);
  }

  /** `Running Ready=True main=running`, of the API server's pod. */
  show(name = 'web', namespace = 'shop'): string {
    const status = this.api.find(name, namespace)?.status;
    if (status === undefined) return 'none';
    const ready = status.conditions?.find(({ type }) => type === 'Ready')?.status ?? '?';
    const containers = (status.containerStatuses ?? []).map(
      ({ name: container, state = {} }) =>
        `${container}=${state.waiting?.reason ?? state.terminated?.exitCode ?? (state.running ? 'running' : 'unknown')}`,
    );
    return [status.phase, `Ready=${ready}`, ...containers].join(' ');
  }

  #newLoop(): PodLoop {
    const { clock, runtime, events, files, api } = this;
    const say = (step: string, pod: Pod): void => void this.steps.push(`${step} ${pod.metadata.name}`);
    return new PodLoop(
      {
        clock,
        runtime,
        events,
        nodeEvents: { record: ({ reason, message }) => void this.nodeEvents.push(`${reason}: ${message}`) },
        files,
        api,
        random: () => 0,
        sources: Object.fromEntries(
          this.#sources.map((source) => [source, (signal: AbortSignal) => this.#feeds[source].follow(signal)]),
        ),
        network: silentNetwork,
        nodeLogins: [],
        view: () => this.view,
        dns: testDns,
        admit: (pod, others) => this.admit(pod, others),
        runtimeClasses: handlers(this.runtimeClasses),
        notify: (notice) => this.notices.push(notice),
        node: () => ({
          owner: this.isNodeKnown ? { name: 'node-1', uid: 'node-uid' } : undefined,
          hostIPs: ['192.0.2.1'],
        }),
        registrations: {
          registerPod: (pod) => {
            if (!this.registered.has(podUid(pod))) say('register', pod);
            this.registered.add(podUid(pod));
          },
          unregisterPod: (pod) => {
            say('unregister', pod);
            this.registered.delete(podUid(pod));
          },
        },
        volumes: {
          ...emptyVolumes,
          waitForMounted: async (pod) => {
            await this.mounting;
            say('mounted', pod);
          },
          waitForUnmounted: async (pod, signal) => {
            await Promise.race([this.unmounting, untilAborted(signal)]);
            signal.throwIfAborted();
            say('unmounted', pod);
          },
        },
      },
      { ...testNodeSettings, resyncMs: 60_000, idleIsReady: true },
    );
  }
}
