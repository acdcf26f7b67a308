/**
 * What runs containers, as the rest of the node sees it: `process/` runs them as sandboxed processes of this machine, `cri/` asks
 * containerd or CRI-O, and a program that starts a node can give it another. Variables, mounts, users, restarts and back-off are decided by the pod
 * worker. A runtime keeps what it needs to know on disk or in its own service, never only in memory: after a restart of this
 * program `list` answers the same, exit codes included.
 *
 *   runPod ──▶ ready ──createContainer──▶ created ──startContainer──▶ running ──(ends by itself, stopContainer)──▶ exited
 *                │                                                                                                 │
 *                └──────────stopPod: every container is stopped──────────▶ notReady ◀──removeContainer─────────────┘
 *                                                                             └──removePod──▶ gone
 */
import type { Duplex, Readable, Writable } from 'node:stream';
import type { GroupUsage } from '../linux/group-usage.ts';
import { MountletError } from '../base/errors.ts';

export interface Runtime {
  /** `process`, `containerd`: the scheme of container IDs in a pod's status. */
  readonly name: string;
  readonly version: string;
  /** Why no container can be started now. While there is a problem the node is not ready. */
  problems(): readonly string[];
  /** Why pods without the host's network cannot start now, as the runtime says it; undefined when they can. */
  networkProblem(): string | undefined;
  /** For Services, where pods have a network of this runtime's own. Rejects where this machine has none, and says why. */
  openServiceNetwork?(): Promise<ServiceNetwork>;
  /** What it says it can do: for its handlers, and whether pods may choose how supplemental groups are made. */
  features?(): RuntimeSaid;
  /** The cluster has decided which addresses the node's pods get: `10.1.2.0/24`, for each family. */
  setPodRanges?(ranges: readonly string[]): void;
  /** Whether pods with this handler can have this; empty: the default handler. What is not known yet counts as there. */
  supports(feature: RuntimeFeature, handler: string): boolean;
  /** Why this machine cannot do what a pod asks, as the pod is refused with; undefined when it can. */
  unsupported(pod: PodRequest, container: ContainerRequest): string | undefined;

  /** All pods, with all their containers, running or not. */
  list(signal: AbortSignal): Promise<readonly RuntimePod[]>;
  get(podUid: string, signal: AbortSignal): Promise<RuntimePod | undefined>;
  /** UIDs of pods in which a container started or ended; changes of one pod that were not taken yet are one. */
  changes(signal: AbortSignal): AsyncIterable<string>;

  /** Makes the pod's shared namespaces and directories. Repeating it for a pod that is ready changes nothing. */
  runPod(request: PodRequest, signal: AbortSignal): Promise<RuntimePod>;
  /** Ends every container at once and then what they shared. A pod that is gone is a success. */
  stopPod(podUid: string, signal: AbortSignal): Promise<void>;
  /** Removes every trace of a stopped pod; its logs go too. A pod that is gone is a success. */
  removePod(podUid: string, signal: AbortSignal): Promise<void>;

  /** Removes sandboxes that a newer one of their pod has replaced, once they are without containers: no pod of `list` shows them. */
  removeReplaced(signal: AbortSignal): Promise<void>;

  /** Resolves with the container's ID. Nothing of it runs yet. `pod` is what its pod was made with, or would be now. */
  createContainer(request: ContainerRequest, pod: PodRequest, signal: AbortSignal): Promise<string>;
  startContainer(id: string, signal: AbortSignal): Promise<void>;
  /** The stop signal, then SIGKILL after the grace. Resolves when it has ended; one that had ended is a success. */
  stopContainer(id: string, graceMs: number, signal: AbortSignal): Promise<void>;
  /** Only of a container that is not running; its logs stay until the pod is removed or the caller deletes them. */
  removeContainer(id: string, signal: AbortSignal): Promise<void>;

  /** Runs a command beside the container's own. Rejects with a RuntimeError when it cannot be started. */
  exec(id: string, request: ExecRequest, signal: AbortSignal): Promise<ExecResult>;
  /** Joins the container's own streams until it ends, the client leaves or the signal aborts. */
  attach(id: string, streams: ProcessStreams, signal: AbortSignal): Promise<void>;
  /** A connection to a port as a program in the pod would open it; rejects when nothing listens. */
  connect(podUid: string, port: number, signal: AbortSignal): Promise<Duplex>;
  /** Runs a command to its end for a probe or a hook. One that takes too long is killed. */
  run(id: string, request: CommandRequest, signal: AbortSignal): Promise<CommandResult | 'timedOut'>;
  /** Of the containers that run now, as far as the machine counts it. */
  stats(signal: AbortSignal): Promise<readonly PodStats[]>;

  /** Undefined where there are none: then none is inspected or pulled, and a container without a command can only idle. */
  readonly images: RuntimeImages | undefined;
}

/** How Services answer in the network of the pods. */
export interface ServiceNetwork {
  /** The machine's address in it. */
  readonly gateway: string;
  isPod(address: string): boolean;
  /** From now on these lead to their targets, and no others. */
  serve(forwards: readonly ServiceForward[]): Promise<void>;
}

/** One port of a Service. No two have the same address and port, or the same port of the machine. */
export interface ServiceForward {
  /** Whatever tells it from the others. */
  readonly key: string;
  readonly protocol: 'TCP' | 'UDP';
  readonly address: string;
  readonly port: number;
  /** At every address of the machine; zero: none. */
  readonly nodePort: number;
  /** Chosen from at random for each connection; without any it is refused. */
  readonly targets: readonly { readonly address: string; readonly port: number }[];
  /** A client comes to the same target as long as they stay as they are. */
  readonly isSticky: boolean;
}

/** What pods may ask for that not every runtime has. */
export type RuntimeFeature = 'recursiveReadOnly' | 'supplementalGroupsPolicy';

/** What is absent the runtime does not say. */
export interface RuntimeSaid {
  /** The one that pods get without a choice has no name. */
  readonly handlers: readonly {
    readonly name: string;
    readonly features: { readonly recursiveReadOnlyMounts: boolean; readonly userNamespaces: boolean } | undefined;
  }[];
  readonly supplementalGroupsPolicy: boolean | undefined;
}

export interface RuntimeImages {
  /** Undefined for one that is not on this machine. */
  status(image: string, signal: AbortSignal): Promise<ImageStatus | undefined>;
  /** Undefined: without a login. `pod` is the one that needs it first. */
  pull(
    image: string,
    credential: PullCredential | undefined,
    pod: PodRequest,
    signal: AbortSignal,
  ): Promise<ImageStatus>;
  list(signal: AbortSignal): Promise<readonly RuntimeImage[]>;
  /** With all its names. One that is gone is a success. */
  remove(id: string, signal: AbortSignal): Promise<void>;
  /** Where images are kept, and how much they take there. */
  filesystem(signal: AbortSignal): Promise<ImageFilesystem>;
}

export interface RuntimeImage {
  readonly id: string;
  /** `docker.io/library/nginx:1.8` */
  readonly tags: readonly string[];
  readonly digests: readonly string[];
  readonly sizeBytes: number;
  /** The runtime needs it itself: it is not to be removed. */
  readonly pinned: boolean;
}

export interface ImageFilesystem {
  readonly mountPoint: string;
  readonly usedBytes: number;
  readonly inodesUsed: number;
}

export interface RuntimePod {
  readonly uid: string;
  readonly namespace: string;
  readonly name: string;
  readonly state: 'ready' | 'notReady';
  /** Why it is not ready, in the kubelet's words; undefined: it was stopped. */
  readonly problem?: string;
  readonly createdAtMs: number;
  /** Of the newest; undefined where a pod has only one at a time, and containers from before it are told by their time. */
  readonly sandboxId?: string | undefined;
  /** Empty with the host's network, and where none can be read. */
  readonly ips: readonly string[];
  /** It has the network of the machine, whether or not it asked for it: its addresses are the node's. */
  readonly hostNetwork?: boolean;
  /** Where a pod with a network of its own reaches the API server of this node, if that listens on the loopback address. */
  readonly loopbackIp?: string;
  /** Newest first. */
  readonly containers: readonly RuntimeContainer[];
}

export interface RuntimeContainer {
  readonly id: string;
  readonly name: string;
  /** How many containers of this name the pod had before. */
  readonly attempt: number;
  readonly image: string;
  readonly imageId: string;
  /** Other images that it needs, and other names of its own. */
  readonly moreImages?: readonly string[];
  /** In which it was created, where the runtime says it. */
  readonly sandboxId?: string | undefined;
  readonly state: ContainerState;
  readonly logPath: string;
  /** Of its first process, where the runtime tells. */
  readonly user?: { readonly uid: number; readonly gid: number; readonly supplementalGroups: readonly number[] };
  /** As given at creation. */
  readonly labels: Readonly<Record<string, string>>;
  readonly annotations: Readonly<Record<string, string>>;
}

export type ContainerState =
  | { readonly kind: 'created'; readonly createdAtMs: number }
  /** The runtime lost track of it: it has to be stopped before another takes its place. */
  | { readonly kind: 'unknown'; readonly createdAtMs: number }
  | { readonly kind: 'running'; readonly createdAtMs: number; readonly startedAtMs: number; readonly pid?: number }
  | {
      readonly kind: 'exited';
      readonly createdAtMs: number;
      readonly startedAtMs: number;
      readonly finishedAtMs: number;
      readonly exitCode: number;
      /** `Completed`, `Error`, `OOMKilled`, `ContainerCannotRun`, as a pod's status says it. */
      readonly reason: string;
      readonly message: string;
    };

/** What the containers of a pod share. */
export interface PodRequest {
  readonly uid: string;
  readonly namespace: string;
  readonly name: string;
  readonly hostname: string;
  readonly hostNetwork: boolean;
  readonly hostPid: boolean;
  readonly hostIpc: boolean;
  readonly shareProcessNamespace: boolean;
  /** False: the pod asks for a user namespace of its own. */
  readonly hostUsers: boolean;
  readonly sysctls: Readonly<Record<string, string>>;
  /** The pod's directory below the node's root; logs of its containers go where `logDirectory` says. */
  readonly directory: string;
  readonly logDirectory: string;
  readonly labels: Readonly<Record<string, string>>;
  readonly annotations: Readonly<Record<string, string>>;
  /** Of the pod as a whole, what it costs beside its containers included. It has a limit only if all its containers have one. */
  readonly resources: ResourceLimits;
  /** What its containers ask for together. Some runtimes size virtual machines by it; it limits nothing. */
  readonly containersTotal: ResourceLimits;
  /** What the pod costs beside its containers. */
  readonly overhead: ResourceLimits;
  readonly qosClass: 'Guaranteed' | 'Burstable' | 'BestEffort';
  readonly dns: DnsConfig;
  readonly ports: readonly PortMapping[];
  /** Of its RuntimeClass; empty without one. */
  readonly runtimeHandler: string;
  readonly security: PodSecurity;
}

/** What /etc/resolv.conf says. */
export interface DnsConfig {
  readonly servers: readonly string[];
  readonly searches: readonly string[];
  readonly options: readonly string[];
}

export interface PortMapping {
  readonly protocol: 'TCP' | 'UDP' | 'SCTP';
  readonly containerPort: number;
  /** Zero: it is not to be reached through the machine's addresses. */
  readonly hostPort: number;
  /** Empty: all addresses of the machine. */
  readonly hostIp: string;
}

/** What holds for the pod as a whole; containers have their own. */
export interface PodSecurity {
  /** Whether any container is. */
  readonly privileged: boolean;
  readonly uid: number | undefined;
  readonly gid: number | undefined;
  readonly supplementalGroups: readonly number[];
  readonly supplementalGroupsPolicy: 'Merge' | 'Strict';
  readonly seLinux: SeLinuxOptions | undefined;
}

export interface SeLinuxOptions {
  readonly user: string;
  readonly role: string;
  readonly type: string;
  readonly level: string;
}

export interface ContainerRequest {
  readonly podUid: string;
  readonly name: string;
  readonly attempt: number;
  readonly image: string;
  /** What the runtime calls the image, from ImageStatus. */
  readonly imageId: string;
  /** Empty: the image's own, or an idle process where there is no image. */
  readonly command: readonly string[];
  readonly args: readonly string[];
  /** The first word as the pod has it, for messages: variables in it are not expanded, since they may be secret. */
  readonly program: string;
  /** Empty: the image's own, or `/`. */
  readonly workingDirectory: string;
  /** Values may be secret: they are not to be written where others can read them. */
  readonly environment: readonly EnvironmentEntry[];
  readonly mounts: readonly RuntimeMount[];
  readonly devices: readonly RuntimeDevice[];
  readonly security: ContainerSecurity;
  readonly resources: ResourceLimits;
  readonly stdin: boolean;
  readonly stdinOnce: boolean;
  readonly tty: boolean;
  /** Empty: the image's own, or SIGTERM. */
  readonly stopSignal: string;
  /** Relative to the pod's log directory: `web/0.log`. */
  readonly logPath: string;
  readonly labels: Readonly<Record<string, string>>;
  /** Kept by the runtime: what is known of the container after a restart of this program. */
  readonly annotations: Readonly<Record<string, string>>;
  /** The ID of the container whose processes it sees; undefined: as the pod says. */
  readonly processesOf: string | undefined;
}

export interface EnvironmentEntry {
  readonly name: string;
  readonly value: string;
}

export interface RuntimeMount {
  readonly hostPath: string;
  readonly containerPath: string;
  readonly readOnly: boolean;
  readonly recursiveReadOnly: boolean;
  /** Whether mounts made later on one side appear on the other. */
  readonly propagation: 'None' | 'HostToContainer' | 'Bidirectional';
  /** Set for a volume whose content is an image, which the runtime brings; `hostPath` is empty then. */
  readonly image?: string;
  /** What the runtime calls that image, from ImageStatus. */
  readonly imageId?: string;
  readonly imageSubPath?: string;
}

interface RuntimeDevice {
  readonly hostPath: string;
  readonly containerPath: string;
  readonly permissions: 'r' | 'mrw';
}

export interface ContainerSecurity {
  /** Undefined: the image's own, or the user of this program. */
  readonly uid: number | undefined;
  /** The image's user, where neither pod nor container name one and the image's is not a number. */
  readonly username: string | undefined;
  readonly gid: number | undefined;
  /** The pod's supplemental groups, its fsGroup and the groups of its volumes. */
  readonly supplementalGroups: readonly number[];
  readonly supplementalGroupsPolicy: 'Merge' | 'Strict';
  readonly readOnlyRootFilesystem: boolean;
  readonly privileged: boolean;
  readonly noNewPrivileges: boolean;
  /** Names without `CAP_`; `ALL` is allowed. */
  readonly addCapabilities: readonly string[];
  readonly dropCapabilities: readonly string[];
  readonly seccomp: SecurityProfile;
  /** Undefined: the runtime's own where the machine has AppArmor. */
  readonly appArmor: SecurityProfile | undefined;
  readonly procMount: 'Default' | 'Unmasked';
  readonly seLinux: SeLinuxOptions | undefined;
}

export interface SecurityProfile {
  readonly type: 'RuntimeDefault' | 'Unconfined' | 'Localhost';
  /** Of a profile of this machine: a file for seccomp, a name for AppArmor; otherwise empty. */
  readonly profile: string;
}

// Of every sandbox and container: to which pod it belongs, as the kubelet says it.
export const podNameLabel = 'io.kubernetes.pod.name';
export const podNamespaceLabel = 'io.kubernetes.pod.namespace';
export const podUidLabel = 'io.kubernetes.pod.uid';

/** Zero or undefined: no limit. */
export interface ResourceLimits {
  readonly memoryBytesMax?: number | undefined;
  readonly cpuMilliMax?: number | undefined;
  readonly cpuMilliRequested?: number | undefined;
  /** From -1000, killed last when memory is short, to 1000. */
  readonly oomScoreAdjustment?: number | undefined;
  /** By page size: `2Mi`. */
  readonly hugePageBytesMax?: Readonly<Record<string, number>> | undefined;
}

export interface ProcessStreams {
  readonly stdin?: Readable | undefined;
  readonly stdout?: Writable | undefined;
  /** Not with a terminal, which has one stream for both. */
  readonly stderr?: Writable | undefined;
  readonly tty: boolean;
  readonly resizes?: AsyncIterable<TerminalSize> | undefined;
}

export interface TerminalSize {
  readonly columns: number;
  readonly rows: number;
}

export interface ExecRequest extends ProcessStreams {
  readonly command: readonly string[];
}

export interface ExecResult {
  readonly exitCode: number;
}

export interface CommandRequest {
  readonly command: readonly string[];
  /** Undefined: as long as it takes. */
  readonly timeoutMs: number | undefined;
  /** What it writes beyond is dropped. */
  readonly bytesMax: number;
}

export interface CommandResult extends ExecResult {
  /** Of both streams. */
  readonly output: Buffer;
}

/** Of a pod that is ready now. */
export interface PodStats {
  readonly uid: string;
  readonly namespace: string;
  readonly name: string;
  readonly startedAtMs: number;
  /** Undefined with the host's network. */
  readonly network: NetworkStats | undefined;
  /** Of its containers and what it needs beside them; undefined: of the containers alone is known. */
  readonly whole: GroupUsage | undefined;
  /** Those that run. */
  readonly containers: readonly ContainerStats[];
}

export interface NetworkStats {
  readonly atMs: number;
  /** The first is the one with the pod's address. */
  readonly interfaces: readonly {
    readonly name: string;
    readonly receivedBytes: number;
    readonly receiveErrors: number;
    readonly sentBytes: number;
    readonly sendErrors: number;
  }[];
}

export interface ContainerStats extends GroupUsage {
  readonly name: string;
  readonly startedAtMs: number;
  readonly atMs: number;
  /** What the container has written to its root. */
  readonly writableLayer: { readonly usedBytes: number; readonly inodesUsed: number } | undefined;
}

export interface ImageStatus {
  readonly id: string;
  readonly sizeBytes: number;
  /** What the image says its user is; undefined where there is no image. */
  readonly uid?: number | undefined;
  readonly username?: string | undefined;
}

/** Without an address, which would keep a runtime from sending it to a mirror of the registry. */
export interface PullCredential {
  readonly username: string;
  readonly password: string;
}

/** A failure of the runtime itself; its message goes into a pod's status and Events, so it holds no secret. */
export class RuntimeError extends MountletError {
  readonly reason:
    | 'RuntimeFailed'
    | 'CommandStartFailed'
    | 'NamespacesRefused'
    | 'PodGroupFailed'
    | 'SandboxStatusFailed';

  constructor(message: string, options?: ErrorOptions, reason: RuntimeError['reason'] = 'RuntimeFailed') {
    super(message, options);
    this.reason = reason;
  }
}

export class NoSuchContainerError extends MountletError {
  readonly reason = 'NoSuchContainer';
  constructor(id: string) {
    super(`Cannot find container "${id}": it was removed`);
  }
}

/** A command, or a stream, for a container that has ended, or has not started. */
export class ContainerNotRunningError extends MountletError {
  readonly reason = 'ContainerNotRunning';
  constructor(name: string) {
    super(`container "${name}" is not running`);
  }
}

/** A command that could not be started beside a container's own. */
export function commandStartError(message: string, options?: ErrorOptions): RuntimeError {
  return new RuntimeError(message, options, 'CommandStartFailed');
}
