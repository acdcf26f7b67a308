/**
 * Containers of containerd, CRI-O or another runtime that speaks the container runtime interface. The runtime keeps everything: after
 * a restart of this program or of the runtime, pods and containers are found again from its lists.
 */
import { mkdir, rm } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import type { Duplex } from 'node:stream';
import { onAbort } from '../../base/abort.ts';
import type { Clock } from '../../base/clock.ts';
import { CoalescingTopic } from '../../base/coalescing-queue.ts';
import { messageOf } from '../../base/errors.ts';
import { PodSandboxState } from '../../grpc/messages/cri_pb.ts';
import { podLogDirectory } from '../../kube/values/node-layout.ts';
import {
  type CommandRequest,
  type CommandResult,
  type ContainerRequest,
  type ExecRequest,
  type ExecResult,
  type PodRequest,
  type PodStats,
  type ProcessStreams,
  type Runtime,
  RuntimeError,
  type RuntimeFeature,
  type RuntimeImages,
  type RuntimePod,
  type RuntimeSaid,
} from '../runtime.ts';
import { containerConfig } from './container-config.ts';
import { type CriConnection, requestMsMax, unlessGone } from './cri-connection.ts';
import { CriPods, type Listed, OtherPodsError, type OwnPods, nodeAnnotation } from './cri-pods.ts';
import { CriImages } from './images.ts';
import { LogLinks } from './log-links.ts';
import { type LogLimits, LogRotation } from './log-rotation.ts';
import type { MachineFacts } from './machine-facts.ts';
import type { PodCgroups } from './pod-cgroups.ts';
import { Relist } from './relist.ts';
import { RuntimeConditions } from './runtime-conditions.ts';
import { sandboxConfig } from './sandbox-config.ts';
import { CriStatsReader } from './stats.ts';
import { CriStreaming } from './streaming.ts';
import {
  type RuntimeFeatures,
  isSupported,
  runtimeFeatures,
  unsupportedContainer,
  unsupportedPod,
} from './unsupported.ts';

interface CriRuntimeSettings {
  /** Of its answer to Version. */
  readonly name: string;
  readonly version: string;
  /** Where pods have their folders of logs. */
  readonly logRoot: string;
  /** Where logs of containers have links beside; undefined: nowhere. */
  readonly logLinks: string | undefined;
  readonly logLimits: LogLimits;
  readonly machine: MachineFacts;
  readonly own: OwnPods;
}

interface CriRuntimeDeps {
  readonly connection: CriConnection;
  readonly cgroups: PodCgroups;
  readonly clock: Clock;
  /** What the user should know. */
  readonly report: (message: string) => void;
}

interface CreatedContainer {
  /** The runtime quotes a command that it cannot start, and variables in it may be secret. */
  readonly program: { readonly expanded: string; readonly asWritten: string };
  readonly logged: Omit<Parameters<LogLinks['add']>[0], 'id'>;
}

/** Making a sandbox includes its network. */
const sandboxMsMax = 2 * requestMsMax;
/** Sandboxes and containers are made in a fraction of this; a network plugin that hangs must not keep a pod from ending. */
const patienceMs = 10_000;

export class CriRuntime implements Runtime {
  readonly name: string;
  readonly version: string;
  readonly images: RuntimeImages;
  readonly #settings: CriRuntimeSettings;
  readonly #connection: CriConnection;
  readonly #pods: CriPods;
  readonly #streaming: CriStreaming;
  readonly #stats: CriStatsReader;
  readonly #logs: LogRotation;
  readonly #links: LogLinks;
  readonly #relist: Relist;
  readonly #conditions: RuntimeConditions;
  readonly #cgroups: PodCgroups;
  readonly #clock: Clock;
  /** UIDs of pods whose sandbox is being made. */
  readonly #making = new Set<string>();
  /** UIDs of pods that may have a cgroup, with the last attempt to make it. */
  readonly #grouped: Map<string, symbol>;
  /** Cgroups that are being removed, by the pod's UID. */
  readonly #ungrouping = new Map<string, Promise<void>>();
  readonly #changes = new CoalescingTopic<string>();
  readonly #closing = new AbortController();
  /** By ID, until they are started. */
  readonly #created = new Map<string, CreatedContainer>();
  #loops: Promise<unknown> = Promise.resolve();

  constructor(settings: CriRuntimeSettings, { connection, cgroups, clock, report }: CriRuntimeDeps) {
    this.name = settings.name;
    this.version = settings.version;
    this.#settings = settings;
    this.#connection = connection;
    this.#cgroups = cgroups;
    this.#clock = clock;
    this.#grouped = new Map(settings.own.podsBefore.map((uid) => [uid, Symbol()]));
    this.images = new CriImages(connection, (pod) =>
      this.#sandboxConfig(pod, this.#pods.readySandbox(pod.uid)?.attempt ?? 0),
    );
    this.#pods = new CriPods(connection.runtime, settings.own);
    this.#streaming = new CriStreaming(connection.runtime, clock);
    this.#stats = new CriStatsReader({ calls: connection.runtime, pods: this.#pods, cgroups, clock });
    this.#logs = new LogRotation(settings.logLimits, {
      clock,
      report,
      logs: () => this.#pods.running(),
      reopen: (containerId, signal) => connection.runtime.reopenContainerLog({ containerId }, this.#options(signal)),
    });
    this.#links = new LogLinks({ directory: settings.logLinks, logRoot: settings.logRoot }, report);
    this.#conditions = new RuntimeConditions(connection.runtime, clock);
    this.#relist = new Relist({
      clock,
      listed: (signal) => this.#pods.listed(undefined, signal),
      inspect: (podUid, signal) => this.#pods.get(podUid, signal),
      changed: (podUid) => this.#changes.publish(podUid),
    });
  }

  /** Follows the runtime. One that does not answer yet is waited for: `problems` says so. Rejects where another node has pods. */
  async open(): Promise<void> {
    const { signal } = this.#closing;
    await this.#pods.requireAlone(signal).catch((thrown: unknown) => {
      if (thrown instanceof OtherPodsError) throw thrown;
    });
    await Promise.all([this.#conditions.refresh(signal).catch(() => {}), this.#relist.relist(signal)]);
    this.#loops = Promise.all([this.#conditions.run(signal), this.#relist.run(signal), this.#logs.run(signal)]);
  }

  /** Containers go on. */
  async close(): Promise<void> {
    this.#closing.abort();
    await this.#loops;
    this.#connection.close();
  }

  problems(): readonly string[] {
    return [...this.#conditions.problems(), ...this.#relist.problems()];
  }

  networkProblem(): string | undefined {
    return this.#conditions.networkProblem();
  }

  setPodRanges(ranges: readonly string[]): void {
    this.#conditions.setPodRanges(ranges);
  }

  supports(feature: RuntimeFeature, handler: string): boolean {
    return this.#conditions.status === undefined || isSupported(feature, handler, this.#features());
  }

  unsupported(_pod: PodRequest, container: ContainerRequest): string | undefined {
    return unsupportedContainer(container, this.#features());
  }

  async list(signal: AbortSignal): Promise<readonly RuntimePod[]> {
    const groupedBefore = new Map(this.#grouped);
    for (const uid of this.#making) groupedBefore.delete(uid);
    const pods = await this.#pods.list(signal);
    await this.#removeOrphanCgroups(groupedBefore, pods, signal);
    return pods;
  }

  async get(podUid: string, signal: AbortSignal): Promise<RuntimePod | undefined> {
    try {
      return await this.#pods.get(podUid, signal);
    } catch (thrown) {
      this.#relist.missed(podUid);
      throw thrown;
    }
  }

  changes(signal: AbortSignal): AsyncIterable<string> {
    return this.#changes.follow(AbortSignal.any([signal, this.#closing.signal]));
  }

  async runPod(request: PodRequest, signal: AbortSignal): Promise<RuntimePod> {
    const { uid } = request;
    const present = await this.#pods.get(uid, signal);
    if (present?.state === 'ready') return present;
    this.#making.add(uid);
    try {
      await this.#makeSandbox(request, signal);
    } finally {
      this.#making.delete(uid);
    }
    const pod = await this.#pods.get(uid, signal).catch((cause: unknown) => {
      signal.throwIfAborted();
      throw new RuntimeError(messageOf(cause), { cause }, 'SandboxStatusFailed');
    });
    if (pod?.state !== 'ready')
      throw new RuntimeError('the sandbox is not ready, or has no address, although it was made');
    return pod;
  }

  async #makeSandbox(request: PodRequest, signal: AbortSignal): Promise<void> {
    const { uid, runtimeHandler, logDirectory } = request;
    const refusal = unsupportedPod(request, this.#features());
    if (refusal !== undefined) throw new RuntimeError(refusal);
    await mkdir(logDirectory, { recursive: true, mode: 0o755 });
    // A removal under way would end what is about to be made.
    await this.#ungrouping.get(uid)?.catch(() => {});
    this.#grouped.set(uid, Symbol());
    await this.#cgroups.make(request);
    const config = this.#sandboxConfig(request, this.#pods.nextAttempt(uid));
    const { podSandboxId } = await this.#toItsEnd(signal, (late) =>
      this.#connection.runtime.runPodSandbox({ config, runtimeHandler }, { timeoutMs: sandboxMsMax, signal: late }),
    );
    if (podSandboxId === '') throw new RuntimeError('the runtime made a sandbox without an ID');
  }

  async stopPod(podUid: string, signal: AbortSignal): Promise<void> {
    const { sandboxes } = await this.#listed(podUid, signal);
    // Also those that were stopped before: their network may not have been released then.
    for (const { id: podSandboxId } of sandboxes) {
      await unlessGone(this.#connection.runtime.stopPodSandbox({ podSandboxId }, this.#options(signal)));
    }
    await this.#removeCgroup(podUid, signal);
  }

  async removePod(podUid: string, signal: AbortSignal): Promise<void> {
    await this.stopPod(podUid, signal);
    const { sandboxes, containers } = await this.#listed(podUid, signal);
    for (const { id } of containers) await this.removeContainer(id, signal);
    for (const { id: podSandboxId, metadata } of sandboxes) {
      if (metadata !== undefined) {
        await rm(podLogDirectory(this.#settings.logRoot, metadata), { recursive: true, force: true });
      }
      await unlessGone(this.#connection.runtime.removePodSandbox({ podSandboxId }, this.#options(signal)));
    }
  }

  async removeReplaced(signal: AbortSignal): Promise<void> {
    await this.#links.removeBroken();
    for (const { sandboxes, containers } of (await this.#pods.listed(undefined, signal)).values()) {
      const used = new Set(containers.map(({ podSandboxId }) => podSandboxId));
      for (const { id: podSandboxId, state } of sandboxes.slice(1)) {
        if (state === PodSandboxState.SANDBOX_READY || used.has(podSandboxId)) continue;
        // Stopped again: its network may not have been released.
        await unlessGone(this.#connection.runtime.stopPodSandbox({ podSandboxId }, this.#options(signal)));
        await unlessGone(this.#connection.runtime.removePodSandbox({ podSandboxId }, this.#options(signal)));
      }
    }
  }

  async createContainer(request: ContainerRequest, pod: PodRequest, signal: AbortSignal): Promise<string> {
    const { podUid, name, logPath, program } = request;
    if (this.#pods.readySandbox(podUid) === undefined) await this.#pods.get(podUid, signal);
    const sandbox = this.#pods.readySandbox(podUid);
    if (sandbox === undefined) throw new RuntimeError(`Cannot create container "${name}": its pod is not running`);
    await mkdir(join(pod.logDirectory, dirname(logPath)), { recursive: true, mode: 0o755 });
    const message = {
      podSandboxId: sandbox.id,
      config: containerConfig(request, pod, this.#settings.machine),
      sandboxConfig: this.#sandboxConfig(pod, sandbox.attempt),
    };
    const { containerId } = await this.#toItsEnd(signal, (late) =>
      this.#connection.runtime.createContainer(message, this.#options(late)),
    );
    if (containerId === '') throw new RuntimeError('the runtime made a container without an ID');
    const [expanded = program] = [...request.command, ...request.args];
    this.#created.set(containerId, {
      program: { expanded, asWritten: program },
      logged: { name, podName: pod.name, podNamespace: pod.namespace, logPath: join(pod.logDirectory, logPath) },
    });
    return containerId;
  }

  async startContainer(id: string, signal: AbortSignal): Promise<void> {
    const created = this.#created.get(id);
    this.#created.delete(id);
    try {
      await this.#toItsEnd(signal, (late) =>
        this.#connection.runtime.startContainer({ containerId: id }, this.#options(late)),
      );
    } catch (thrown) {
      const { expanded = '', asWritten = '' } = created?.program ?? {};
      if (expanded === '' || expanded === asWritten || !(thrown instanceof RuntimeError)) throw thrown;
      // Without the cause, which quotes it too. By a function: `$` has a meaning in a text.
      throw new RuntimeError(messageOf(thrown).replaceAll(expanded, () => asWritten));
    }
    if (created !== undefined) await this.#links.add({ id, ...created.logged });
  }

  async stopContainer(id: string, graceMs: number, signal: AbortSignal): Promise<void> {
    this.#created.delete(id);
    const seconds = Math.ceil(graceMs / 1000);
    const options = { timeoutMs: requestMsMax + seconds * 1000, signal };
    await unlessGone(this.#connection.runtime.stopContainer({ containerId: id, timeout: BigInt(seconds) }, options));
  }

  async removeContainer(id: string, signal: AbortSignal): Promise<void> {
    this.#created.delete(id);
    await unlessGone(this.#connection.runtime.removeContainer({ containerId: id }, this.#options(signal)));
    await this.#links.remove(id);
  }

  async exec(id: string, request: ExecRequest, signal: AbortSignal): Promise<ExecResult> {
    return await this.#streaming.exec(id, request, signal);
  }

  async attach(id: string, streams: ProcessStreams, signal: AbortSignal): Promise<void> {
    await this.#streaming.attach(id, streams, signal);
  }

  async connect(podUid: string, port: number, signal: AbortSignal): Promise<Duplex> {
    if (this.#pods.readySandbox(podUid) === undefined) await this.#pods.get(podUid, signal);
    const sandbox = this.#pods.readySandbox(podUid);
    if (sandbox === undefined) throw new RuntimeError('the pod is not running');
    return await this.#streaming.connect(sandbox.id, port, signal);
  }

  async run(id: string, request: CommandRequest, signal: AbortSignal): Promise<CommandResult | 'timedOut'> {
    return await this.#streaming.run(id, request, signal);
  }

  async stats(signal: AbortSignal): Promise<readonly PodStats[]> {
    return await this.#stats.read(signal);
  }

  /**
   * Of sandboxes whose making was cut short, by the end of this program or of the runtime. Other nodes may have groups beside them.
   * A pod that was started after the runtime was asked for its list is not in it: only groups from before count.
   */
  async #removeOrphanCgroups(
    groupedBefore: ReadonlyMap<string, symbol>,
    pods: readonly RuntimePod[],
    signal: AbortSignal,
  ): Promise<void> {
    const known = new Set(pods.map(({ uid }) => uid));
    for (const [uid, attempt] of groupedBefore) {
      if (known.has(uid) || this.#making.has(uid) || this.#grouped.get(uid) !== attempt) continue;
      await this.#removeCgroup(uid, signal).catch(() => {}); // tried again later
    }
  }

  async #removeCgroup(podUid: string, signal: AbortSignal): Promise<void> {
    const removal = this.#cgroups.remove(podUid, signal);
    this.#ungrouping.set(podUid, removal);
    try {
      await removal;
    } finally {
      if (this.#ungrouping.get(podUid) === removal) this.#ungrouping.delete(podUid);
    }
    this.#grouped.delete(podUid);
  }

  #sandboxConfig(pod: PodRequest, attempt: number): ReturnType<typeof sandboxConfig> {
    const annotations = { ...pod.annotations, [nodeAnnotation]: this.#settings.own.podsDirectory };
    return sandboxConfig({ ...pod, annotations }, attempt, this.#cgroups.driver);
  }

  features(): RuntimeSaid {
    const { runtimeHandlers = [], features } = this.#conditions.status ?? {};
    return {
      handlers: runtimeHandlers.map((handler) => ({
        name: handler.name,
        features: handler.features && {
          recursiveReadOnlyMounts: handler.features.recursiveReadOnlyMounts,
          userNamespaces: handler.features.userNamespaces,
        },
      })),
      supplementalGroupsPolicy: features?.supplementalGroupsPolicy,
    };
  }

  #features(): RuntimeFeatures {
    return runtimeFeatures(this.#conditions.status ?? { runtimeHandlers: [] }, this);
  }

  async #listed(podUid: string, signal: AbortSignal): Promise<Listed> {
    return (await this.#pods.listed(podUid, signal)).get(podUid) ?? { sandboxes: [], containers: [] };
  }

  /**
   * What is being made is not given up at once when a pod has to end: the runtime might finish it nevertheless, unknown to those
   * who end the pod.
   */
  async #toItsEnd<T>(signal: AbortSignal, act: (late: AbortSignal) => Promise<T>): Promise<T> {
    signal.throwIfAborted();
    const late = new AbortController();
    const done = new AbortController();
    const giveUp = async (): Promise<void> => {
      await this.#clock.sleep(patienceMs, done.signal);
      late.abort(signal.reason);
    };
    const stopListening = onAbort(signal, () => void giveUp().catch(() => {}));
    try {
      return await act(late.signal);
    } finally {
      stopListening();
      done.abort();
    }
  }

  #options(signal: AbortSignal): { readonly timeoutMs: number; readonly signal: AbortSignal } {
    return { timeoutMs: requestMsMax, signal };
  }
}
