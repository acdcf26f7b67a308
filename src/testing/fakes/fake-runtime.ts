/**
 * A runtime in memory that obeys the contract of runtimes/runtime.ts and misbehaves when a test asks for it. Containers run
 * until the test ends them, or something stops them.
 */
import { Duplex } from 'node:stream';
import { CoalescingTopic } from '../../base/coalescing-queue.ts';
import type { Clock } from '../../base/clock.ts';
import { untilAborted } from '../../base/abort.ts';
import {
  ContainerNotRunningError,
  type ContainerRequest,
  type CommandRequest,
  type CommandResult,
  type ExecRequest,
  type ExecResult,
  NoSuchContainerError,
  type PodRequest,
  type PodStats,
  type Runtime,
  type RuntimeContainer,
  RuntimeError,
  type RuntimeFeature,
  type RuntimeImages,
  type RuntimePod,
} from '../../runtimes/runtime.ts';

type Method =
  | Exclude<
      keyof Runtime,
      'name' | 'version' | 'problems' | 'networkProblem' | 'supports' | 'unsupported' | 'changes' | 'images'
    >
  | 'imageStatus'
  | 'pullImage';

interface FakeContainer extends RuntimeContainer {
  readonly podUid: string;
  readonly request: ContainerRequest;
}

interface FakePod extends RuntimePod {
  readonly containers: readonly FakeContainer[];
}

export class FakeRuntime implements Runtime {
  readonly name = 'fake';
  readonly version = '1';
  /** Everything that was asked for and changes something: `createContainer main#0`. */
  readonly calls: string[] = [];
  /** The requests of all containers ever made, by ID. */
  readonly requests = new Map<string, ContainerRequest>();
  readonly podRequests: PodRequest[] = [];
  /** Undefined: every image is present. */
  presentImages: Set<string> | undefined;
  refusal: string | undefined;
  readonly lacking = new Set<RuntimeFeature>();
  /** Why pods without the host's network have to wait. */
  withoutNetwork: string | undefined;
  execute: (id: string, command: readonly string[], signal: AbortSignal) => Promise<number> = () => Promise.resolve(0);
  /** Between the call of startContainer and the start: a test may let it hang, fail or take its time. */
  launch: (name: string, signal: AbortSignal) => Promise<void> = () => Promise.resolve();
  /** As a broken runtime: what was stopped while it was being launched starts nevertheless. */
  startsLate = false;
  /** Of containers that end when they are asked to. */
  exitCodeOfStopped = 143;
  /** Names of containers that do not heed the stop signal. */
  readonly deaf = new Set<string>();
  readonly #clock: Clock;
  readonly #pods = new Map<string, FakePod>();
  readonly #feed = new CoalescingTopic<string>();
  readonly #failures = new Map<Method, Error[]>();
  /** IDs of containers between the call of startContainer and the start. */
  readonly #launching = new Set<string>();
  #lastId = 0;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** The next calls of this method reject, one for each error. */
  fail(method: Method, ...errors: readonly Error[]): void {
    this.#failures.set(method, [...(this.#failures.get(method) ?? []), ...errors]);
  }

  /** A container of this pod ends by itself. */
  exit(podUid: string, name: string, exitCode = 0, message = ''): void {
    const container = this.#pods
      .get(podUid)
      ?.containers.find((one) => one.name === name && one.state.kind === 'running');
    if (container === undefined) throw new NoSuchContainerError(name);
    this.#end(container, exitCode, message);
  }

  /** As after a reboot: everything has ended. */
  reboot(): void {
    for (const pod of this.#pods.values()) {
      for (const container of pod.containers) if (container.state.kind === 'running') this.#end(container, 255);
      this.#put({ ...this.#pod(pod.uid), state: 'notReady' });
    }
  }

  /** `web ready: main#1 running, main#0 exited 1`, for assertions. */
  show(podUid: string): string {
    const pod = this.#pods.get(podUid);
    if (pod === undefined) return 'gone';
    const containers = pod.containers.map(({ name, attempt, state }) =>
      [`${name}#${attempt}`, state.kind, ...(state.kind === 'exited' ? [state.exitCode] : [])].join(' '),
    );
    return `${pod.state}: ${containers.join(', ')}`;
  }

  supports(feature: RuntimeFeature): boolean {
    return !this.lacking.has(feature);
  }

  unsupported(): string | undefined {
    return this.refusal;
  }

  list(): Promise<readonly RuntimePod[]> {
    return this.#answer('list', () => [...this.#pods.values()]);
  }

  get(podUid: string): Promise<RuntimePod | undefined> {
    return this.#answer('get', () => this.#pods.get(podUid));
  }

  changes(signal: AbortSignal): AsyncIterable<string> {
    return this.#feed.follow(signal);
  }

  runPod(request: PodRequest): Promise<RuntimePod> {
    return this.#answer('runPod', () => {
      const { uid, namespace, name, hostNetwork, runtimeHandler } = request;
      if (runtimeHandler !== '' && runtimeHandler !== this.name) {
        throw new RuntimeError(`no runtime for "${runtimeHandler}" is configured`);
      }
      this.podRequests.push(request);
      const present = this.#pods.get(uid);
      if (present?.state === 'ready') return present;
      this.calls.push(`runPod ${name}`);
      const ips = hostNetwork ? [] : ['10.1.0.1'];
      const containers = present?.containers ?? [];
      this.#put({ uid, namespace, name, state: 'ready', createdAtMs: this.#clock.now(), ips, hostNetwork, containers });
      return this.#pod(uid);
    });
  }

  stopPod(podUid: string): Promise<void> {
    return this.#answer('stopPod', () => {
      const pod = this.#pods.get(podUid);
      if (pod === undefined) return;
      if (pod.state === 'ready') this.calls.push(`stopPod ${pod.name}`);
      for (const container of pod.containers) {
        const { kind } = container.state;
        if (kind === 'running' || (kind === 'created' && this.#launching.has(container.id))) this.#end(container, 137);
      }
      this.#put({ ...this.#pod(podUid), state: 'notReady', ips: [] });
    });
  }

  removePod(podUid: string): Promise<void> {
    return this.#answer('removePod', () => {
      const pod = this.#pods.get(podUid);
      if (pod === undefined) return;
      if (pod.state === 'ready') throw new RuntimeError(`Cannot remove pod "${podUid}": stop it first`);
      this.calls.push(`removePod ${pod.name}`);
      this.#pods.delete(podUid);
    });
  }

  removeReplaced(): Promise<void> {
    return this.#answer('removeReplaced', () => {});
  }

  createContainer(request: ContainerRequest): Promise<string> {
    return this.#answer('createContainer', () => {
      const pod = this.#pods.get(request.podUid);
      if (pod?.state !== 'ready')
        throw new RuntimeError(`Cannot create a container: pod "${request.podUid}" is not ready`);
      this.calls.push(`createContainer ${request.name}#${request.attempt}`);
      this.#lastId += 1;
      const id = `c${this.#lastId}`;
      this.requests.set(id, request);
      const { name, attempt, image, labels, annotations, podUid } = request;
      const container: FakeContainer = {
        id,
        podUid,
        request,
        name,
        attempt,
        image,
        imageId: `sha256:${image}`,
        labels,
        annotations,
        logPath: `/logs/${request.logPath}`,
        state: { kind: 'created', createdAtMs: this.#clock.now() },
      };
      this.#put({ ...pod, containers: [container, ...pod.containers] });
      return id;
    });
  }

  async startContainer(id: string, signal: AbortSignal): Promise<void> {
    const { name } = await this.#answer('startContainer', () => this.#container(id));
    this.#launching.add(id);
    const start = async (): Promise<void> => {
      await this.launch(name, signal);
      const container = this.#container(id);
      const { kind, createdAtMs } = container.state;
      if (kind !== 'created' && !this.startsLate) throw new RuntimeError(`container "${name}" was stopped`);
      this.#set({ ...container, state: { kind: 'running', createdAtMs, startedAtMs: this.#clock.now(), pid: 1 } });
    };
    const starting = start().finally(() => this.#launching.delete(id));
    // The launch goes on after its caller has given up.
    starting.catch(() => {});
    await Promise.race([starting, untilAborted(signal)]);
    signal.throwIfAborted();
  }

  async stopContainer(id: string, graceMs: number, signal: AbortSignal): Promise<void> {
    await this.#answer('stopContainer', () => undefined);
    const container = this.#container(id);
    if (this.#launching.has(id) && container.state.kind === 'created') return this.#end(container, 137);
    if (container.state.kind !== 'running') return;
    this.calls.push(`stopContainer ${container.name} ${graceMs}`);
    if (this.deaf.has(container.name) && graceMs > 0) await this.#clock.sleep(graceMs, signal);
    this.#end(this.#container(id), this.deaf.has(container.name) ? 137 : this.exitCodeOfStopped);
  }

  removeContainer(id: string): Promise<void> {
    return this.#answer('removeContainer', () => {
      const { podUid, name, attempt } = this.#container(id);
      this.calls.push(`removeContainer ${name}#${attempt}`);
      const pod = this.#pod(podUid);
      this.#put({ ...pod, containers: pod.containers.filter((one) => one.id !== id) });
    });
  }

  async exec(id: string, { command }: ExecRequest, signal: AbortSignal): Promise<ExecResult> {
    const { name, state } = await this.#answer('exec', () => this.#container(id));
    if (state.kind !== 'running') throw new ContainerNotRunningError(name);
    this.calls.push(`exec ${command.join(' ')}`);
    return { exitCode: await this.execute(id, command, signal) };
  }

  attach(id: string): Promise<void> {
    return this.#answer('attach', () => void this.#container(id));
  }

  connect(): Promise<Duplex> {
    return this.#answer('connect', () => new Duplex({ read() {}, write: (_chunk, _encoding, done) => done() }));
  }

  async run(id: string, { command }: CommandRequest, signal: AbortSignal): Promise<CommandResult> {
    return { ...(await this.exec(id, { command, tty: false }, signal)), output: Buffer.alloc(0) };
  }

  stats(): Promise<readonly PodStats[]> {
    return this.#answer('stats', () => []);
  }

  problems(): readonly string[] {
    return [];
  }

  networkProblem(): string | undefined {
    return this.withoutNetwork;
  }

  /** A test may take it away: then it is a runtime without images. */
  images: RuntimeImages | undefined = {
    status: (image) =>
      this.#answer('imageStatus', () => {
        const isPresent = this.presentImages === undefined || this.presentImages.has(image);
        return isPresent ? { id: `sha256:${image}`, sizeBytes: 0 } : undefined;
      }),
    pull: (image) =>
      this.#answer('pullImage', () => {
        this.calls.push(`pullImage ${image}`);
        this.presentImages?.add(image);
        return { id: `sha256:${image}`, sizeBytes: 42 };
      }),
    list: () => Promise.resolve([]),
    remove: () => Promise.resolve(),
    filesystem: () => Promise.resolve({ mountPoint: '/', usedBytes: 0, inodesUsed: 0 }),
  };

  async #answer<T>(method: Method, act: () => T): Promise<T> {
    await Promise.resolve();
    const failure = this.#failures.get(method)?.shift();
    if (failure !== undefined) throw failure;
    return act();
  }

  #end(container: FakeContainer, exitCode: number, message = ''): void {
    const { createdAtMs } = container.state;
    const startedAtMs = container.state.kind === 'running' ? container.state.startedAtMs : createdAtMs;
    const reason = exitCode === 0 ? 'Completed' : 'Error';
    const finishedAtMs = this.#clock.now();
    this.#set({
      ...container,
      state: { kind: 'exited', createdAtMs, startedAtMs, finishedAtMs, exitCode, reason, message },
    });
  }

  #set(container: FakeContainer): void {
    const pod = this.#pod(container.podUid);
    this.#put({ ...pod, containers: pod.containers.map((one) => (one.id === container.id ? container : one)) });
    this.#feed.publish(container.podUid);
  }

  #put(pod: FakePod): void {
    this.#pods.set(pod.uid, pod);
  }

  #pod(uid: string): FakePod {
    const pod = this.#pods.get(uid);
    if (pod === undefined) throw new RuntimeError(`Cannot find pod "${uid}"`);
    return pod;
  }

  #container(id: string): FakeContainer {
    for (const { containers } of this.#pods.values()) {
      const container = containers.find((one) => one.id === id);
      if (container !== undefined) return container;
    }
    throw new NoSuchContainerError(id);
  }
}
