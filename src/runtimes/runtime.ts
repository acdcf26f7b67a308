/**
 * What runs containers, as the rest of the node sees it: `process/` runs them as sandboxed processes of this machine, and a
 * program that starts a node can give it another. Variables, mounts, users, restarts and back-off are decided by the pod
 * worker. A runtime keeps what it needs to know on disk or in its own service, never only in memory: after a restart of this
 * program `list` answers the same, exit codes included.
 *
 *   runPod ──▶ ready ──createContainer──▶ created ──startContainer──▶ running ──(ends by itself, stopContainer)──▶ exited
 *                │                                                                                                 │
 *                └──────────stopPod: every container is stopped──────────▶ notReady ◀──removeContainer─────────────┘
 *                                                                             └──removePod──▶ gone
 */
import type { Duplex, Readable, Writable } from 'node:stream';
import { MountletError } from '../base/errors.ts';

export interface Runtime {
  /** `process`, `containerd`: the scheme of container IDs in a pod's status. */
  readonly name: string;
  readonly version: string;
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

  /** Resolves with the container's ID. Nothing of it runs yet. */
  createContainer(request: ContainerRequest, signal: AbortSignal): Promise<string>;
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
  /** Of the containers that run now, as far as the machine counts it. */
  usage(podUid: string, signal: AbortSignal): Promise<readonly ContainerUsage[]>;

  /** Undefined where containers need no images: then none is inspected or pulled. */
  readonly images: RuntimeImages | undefined;
}

export interface RuntimeImages {
  /** Undefined for one that is not on this machine. */
  status(image: string, signal: AbortSignal): Promise<ImageStatus | undefined>;
  pull(image: string, credentials: readonly PullCredential[], signal: AbortSignal): Promise<ImageStatus>;
}

export interface RuntimePod {
  readonly uid: string;
  readonly namespace: string;
  readonly name: string;
  readonly state: 'ready' | 'notReady';
  readonly createdAtMs: number;
  /** Empty when the pod has the host's network: then its addresses are the node's. */
  readonly ips: readonly string[];
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
  readonly state: ContainerState;
  readonly logPath: string;
  /** As given at creation. */
  readonly labels: Readonly<Record<string, string>>;
}

export type ContainerState =
  | { readonly kind: 'created'; readonly createdAtMs: number }
  | { readonly kind: 'running'; readonly createdAtMs: number; readonly startedAtMs: number; readonly pid: number }
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
  readonly resources: ResourceLimits;
}

export interface ContainerRequest {
  readonly podUid: string;
  readonly name: string;
  readonly attempt: number;
  readonly image: string;
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
  /** `SIGTERM` unless the pod says otherwise. */
  readonly stopSignal: string;
  /** Relative to the pod's log directory: `web/0.log`. */
  readonly logPath: string;
  readonly labels: Readonly<Record<string, string>>;
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
  readonly gid: number | undefined;
  /** The pod's supplemental groups, its fsGroup and the groups of its volumes. */
  readonly supplementalGroups: readonly number[];
  readonly readOnlyRootFilesystem: boolean;
  readonly privileged: boolean;
  readonly noNewPrivileges: boolean;
  /** Names without `CAP_`; `ALL` is allowed. */
  readonly addCapabilities: readonly string[];
  readonly dropCapabilities: readonly string[];
  readonly seccomp: 'RuntimeDefault' | 'Unconfined' | 'Localhost';
  readonly appArmor: 'RuntimeDefault' | 'Unconfined' | 'Localhost';
  readonly procMount: 'Default' | 'Unmasked';
  /** Whether it asks for a label. */
  readonly seLinux: boolean;
}

/** Zero or undefined: no limit. */
export interface ResourceLimits {
  readonly memoryBytesMax?: number | undefined;
  readonly cpuMilliMax?: number | undefined;
  readonly cpuMilliRequested?: number | undefined;
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

export interface ContainerUsage {
  readonly name: string;
  readonly memoryBytes: number;
  readonly cpuNanoseconds: number;
}

export interface ImageStatus {
  readonly id: string;
  readonly sizeBytes: number;
  /** What the image says its user is; undefined where there is no image. */
  readonly uid?: number | undefined;
  readonly username?: string | undefined;
}

export interface PullCredential {
  readonly username: string;
  readonly password: string;
  readonly auth: string;
  readonly serverAddress: string;
}

/** A failure of the runtime itself; its message goes into a pod's status and Events, so it holds no secret. */
export class RuntimeError extends MountletError {
  readonly reason: 'RuntimeFailed' | 'CommandStartFailed' | 'NamespacesRefused';

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
