/**
 * Pods as the runtime has them. It knows only sandboxes and containers: a pod that was made again has several sandboxes, of which
 * the newest counts, and containers in all of them. What other clients of the same runtime made is not looked at.
 *
 * The lists say the state of everything. The rest does not change while the state is the same, so it is asked for once: a look at
 * a pod in which nothing happened takes two calls.
 */
import { isIP } from 'node:net';
import {
  type Container,
  ContainerState as CriState,
  type ContainerStatus,
  NamespaceMode,
  type PodSandbox,
  PodSandboxState,
  type PodSandboxStatus,
} from '../../grpc/messages/cri_pb.ts';
import {
  type ContainerState,
  type RuntimeContainer,
  RuntimeError,
  type RuntimePod,
  podNameLabel,
  podNamespaceLabel,
  podUidLabel,
} from '../runtime.ts';
import { programAnnotation } from './container-config.ts';
import { type RuntimeCalls, milliseconds, requestMsMax, unlessGone } from './cri-connection.ts';

/** Of a sandbox: the directory of pods of the node that made it. */
export const nodeAnnotation = 'mountlet.dev/pods-directory';

/** Everything that a runtime lists, by the UID of its pod. */
export interface Listed {
  /** Newest first. */
  readonly sandboxes: readonly PodSandbox[];
  readonly containers: readonly Container[];
}

/** A sandbox that is ready. */
interface ReadySandbox {
  readonly id: string;
  /** How many sandboxes the pod had before. */
  readonly attempt: number;
  readonly hostNetwork: boolean;
  readonly ips: readonly string[];
}

const notReady = 'pod sandbox is not ready';

/** How pods of this node are told from those of others. */
export interface OwnPods {
  /** Where pods have their volumes. */
  readonly podsDirectory: string;
  /** UIDs of pods that an earlier program had there. */
  readonly podsBefore: readonly string[];
}

/** A node ends pods that it does not know: it must be alone. */
export class OtherPodsError extends RuntimeError {
  constructor(others: readonly PodSandbox[]) {
    const [first] = others.map(({ metadata }) => `${metadata?.namespace}/${metadata?.name}`);
    const more = others.length > 1 ? ` and ${others.length - 1} more` : '';
    super(
      `pods of another node are in this container runtime (${first}${more}), and two nodes would end each other's pods: stop the kubelet that has them, name the socket of another runtime with --container-runtime-endpoint, or remove them with crictl rmp -f if no node has them any more`,
    );
  }
}

export class CriPods {
  readonly #calls: RuntimeCalls;
  readonly #own: OwnPods;
  #isAlone = false;
  /** Of sandboxes that are ready, by ID. */
  readonly #sandboxes = new Map<string, ReadySandbox>();
  /** By ID, for the state that the container had then. */
  readonly #containers = new Map<string, { readonly state: CriState; readonly container: RuntimeContainer }>();
  /** By UID: the last that was ready. A pod that has ended keeps its addresses. */
  readonly #lastReady = new Map<string, ReadySandbox>();
  /** By UID: of the newest sandbox. */
  readonly #lastAttempts = new Map<string, number>();

  constructor(calls: RuntimeCalls, own: OwnPods) {
    this.#calls = calls;
    this.#own = own;
  }

  /** Rejects with an OtherPodsError where another node has pods that run. Asked until the runtime has answered once. */
  async requireAlone(signal: AbortSignal): Promise<void> {
    if (this.#isAlone) return;
    const { items } = await this.#calls.listPodSandbox({}, { timeoutMs: requestMsMax, signal });
    const { podsDirectory, podsBefore } = this.#own;
    const others = items.filter(({ labels, annotations, state }) => {
      const uid = labels[podUidLabel] ?? '';
      // What is left of pods that have ended is removed as our own.
      return (
        uid !== '' &&
        state === PodSandboxState.SANDBOX_READY &&
        annotations[nodeAnnotation] !== podsDirectory &&
        !podsBefore.includes(uid)
      );
    });
    if (others.length > 0) throw new OtherPodsError(others);
    this.#isAlone = true;
  }

  /** All of this node's, or of one pod. */
  async listed(podUid: string | undefined, signal: AbortSignal): Promise<ReadonlyMap<string, Listed>> {
    await this.requireAlone(signal);
    const options = { timeoutMs: requestMsMax, signal };
    const filter = podUid === undefined ? {} : { filter: { labelSelector: { [podUidLabel]: podUid } } };
    const [{ items }, { containers }] = await Promise.all([
      this.#calls.listPodSandbox(filter, options),
      this.#calls.listContainers(filter, options),
    ]);
    const pods = new Map<string, { sandboxes: PodSandbox[]; containers: Container[] }>();
    const ofPod = (uid: string): { sandboxes: PodSandbox[]; containers: Container[] } => {
      const pod = pods.get(uid) ?? { sandboxes: [], containers: [] };
      pods.set(uid, pod);
      return pod;
    };
    for (const one of items.toSorted(newerFirst)) {
      const uid = one.labels[podUidLabel] ?? '';
      if (uid !== '') ofPod(uid).sandboxes.push(one);
    }
    for (const one of containers) {
      const uid = one.labels[podUidLabel] ?? '';
      if (uid !== '') ofPod(uid).containers.push(one);
    }
    if (podUid === undefined) this.#forgetAllBut(pods);
    return pods;
  }

  async list(signal: AbortSignal): Promise<readonly RuntimePod[]> {
    const pods: RuntimePod[] = [];
    for (const [uid, listed] of await this.listed(undefined, signal)) pods.push(await this.#pod(uid, listed, signal));
    return pods;
  }

  async get(podUid: string, signal: AbortSignal): Promise<RuntimePod | undefined> {
    const listed = (await this.listed(podUid, signal)).get(podUid);
    return listed && (await this.#pod(podUid, listed, signal));
  }

  /** Of a sandbox that is made now, when the pod was just looked at. */
  nextAttempt(podUid: string): number {
    return (this.#lastAttempts.get(podUid) ?? -1) + 1;
  }

  /** The last that was ready when the pod was looked at. */
  readySandbox(podUid: string): ReadySandbox | undefined {
    return this.#lastReady.get(podUid);
  }

  /** Those that ran when their pods were looked at last. */
  running(): readonly RuntimeContainer[] {
    return [...this.#containers.values()].flatMap(({ container }) =>
      container.state.kind === 'running' ? [container] : [],
    );
  }

  async #pod(uid: string, { sandboxes, containers }: Listed, signal: AbortSignal): Promise<RuntimePod> {
    const [newest] = sandboxes;
    if (newest !== undefined) this.#lastAttempts.set(uid, newest.metadata?.attempt ?? 0);
    const found = await this.#ready(sandboxes, signal);
    const ready = typeof found === 'string' ? undefined : found;
    if (ready !== undefined) this.#lastReady.set(uid, ready);
    const last = ready ?? this.#lastReady.get(uid);
    const [first] = containers;
    const described: RuntimeContainer[] = [];
    for (const one of containers) {
      const container = await this.#container(one, signal);
      if (container !== undefined) described.push(container);
    }
    return {
      uid,
      namespace: newest?.metadata?.namespace ?? first?.labels[podNamespaceLabel] ?? '',
      name: newest?.metadata?.name ?? first?.labels[podNameLabel] ?? '',
      ...(typeof found === 'string' ? { state: 'notReady', problem: found } : { state: 'ready' }),
      createdAtMs: milliseconds(newest?.createdAt ?? 0n),
      sandboxId: newest?.id ?? '',
      ips: last?.ips ?? [],
      hostNetwork: last?.hostNetwork ?? false,
      containers: described.toSorted((a, b) => b.state.createdAtMs - a.state.createdAtMs || b.attempt - a.attempt),
    };
  }

  /** Or why another sandbox is needed, in the kubelet's words. */
  async #ready(sandboxes: readonly PodSandbox[], signal: AbortSignal): Promise<ReadySandbox | string> {
    const [newest] = sandboxes;
    const ready = sandboxes.filter(({ state }) => state === PodSandboxState.SANDBOX_READY);
    if (newest === undefined) return 'no pod sandbox exists';
    if (ready.length > 1) return 'multiple pod sandboxes are ready and need to be reconciled';
    if (ready[0] !== newest) return notReady;
    const known = this.#sandboxes.get(newest.id);
    if (known !== undefined) return known;
    const status = await unlessGone(this.#sandboxStatus(newest.id, signal));
    if (status?.state !== PodSandboxState.SANDBOX_READY) return notReady;
    const hostNetwork = status.linux?.namespaces?.options?.network === NamespaceMode.NODE;
    if (!hostNetwork && status.network?.ip === '') return 'pod sandbox has no IP address';
    const ips = hostNetwork ? [] : addressesOf(status);
    const sandbox = { id: newest.id, attempt: newest.metadata?.attempt ?? 0, hostNetwork, ips };
    this.#sandboxes.set(newest.id, sandbox);
    return sandbox;
  }

  async #sandboxStatus(podSandboxId: string, signal: AbortSignal): Promise<PodSandboxStatus> {
    const { status } = await this.#calls.podSandboxStatus({ podSandboxId }, { timeoutMs: requestMsMax, signal });
    const { name = '', namespace = '', uid = '' } = status?.metadata ?? {};
    requireFields('PodSandboxStatus', {
      'status.Id': status?.id,
      'status.Metadata': status?.metadata,
      'metadata.Name, metadata.Namespace or metadata.Uid': name !== '' && namespace !== '' && uid !== '',
      'status.CreatedAt': status?.createdAt,
    });
    if (status === undefined) throw new RuntimeError('the runtime answered PodSandboxStatus with nothing');
    return status;
  }

  /** Undefined when it has been removed since it was listed. */
  async #container({ id, state, podSandboxId }: Container, signal: AbortSignal): Promise<RuntimeContainer | undefined> {
    const known = this.#containers.get(id);
    if (known?.state === state && state !== CriState.CONTAINER_UNKNOWN) return known.container;
    const status = await unlessGone(this.#containerStatus(id, signal));
    if (status === undefined) return undefined;
    const container = describe(status, podSandboxId);
    this.#containers.set(id, { state: status.state, container });
    return container;
  }

  async #containerStatus(containerId: string, signal: AbortSignal): Promise<ContainerStatus> {
    const { status } = await this.#calls.containerStatus({ containerId }, { timeoutMs: requestMsMax, signal });
    requireFields('ContainerStatus', {
      'status.Id': status?.id,
      'status.Metadata': status?.metadata,
      'metadata.Name': status?.metadata?.name,
      'status.CreatedAt': status?.createdAt,
      'status.Image': status?.image?.image,
      'status.ImageRef': status?.imageRef,
    });
    if (status === undefined) throw new RuntimeError('the runtime answered ContainerStatus with nothing');
    return status;
  }

  #forgetAllBut(pods: ReadonlyMap<string, Listed>): void {
    const ids = new Set([...pods.values()].flatMap((pod) => [...pod.sandboxes, ...pod.containers].map(({ id }) => id)));
    for (const known of [this.#sandboxes, this.#containers])
      for (const id of known.keys()) if (!ids.has(id)) known.delete(id);
    for (const known of [this.#lastReady, this.#lastAttempts])
      for (const uid of known.keys()) if (!pods.has(uid)) known.delete(uid);
  }
}

function newerFirst(a: PodSandbox, b: PodSandbox): number {
  return (b.metadata?.attempt ?? 0) - (a.metadata?.attempt ?? 0) || Number(b.createdAt - a.createdAt);
}

/** Of two families, or several networks. None at all when one of them cannot be read. */
function addressesOf({ network }: PodSandboxStatus): readonly string[] {
  const all = [network?.ip ?? '', ...(network?.additionalIps ?? []).map(({ ip }) => ip)];
  return all.every((ip) => isIP(ip) !== 0) ? all : [];
}

function describe(status: ContainerStatus, sandboxId: string): RuntimeContainer {
  const images = [status.imageId, ...status.mounts.map(({ image }) => image?.image ?? '')];
  return {
    id: status.id,
    name: status.metadata?.name ?? '',
    attempt: status.metadata?.attempt ?? 0,
    image: status.image?.image ?? '',
    imageId: status.imageRef,
    moreImages: images.filter(Boolean),
    sandboxId,
    state: stateOf(status),
    logPath: status.logPath,
    ...userOf(status),
    labels: status.labels,
    annotations: status.annotations,
  };
}

function userOf({ user }: ContainerStatus): Pick<RuntimeContainer, 'user'> {
  if (user?.linux === undefined) return {};
  const { uid, gid, supplementalGroups } = user.linux;
  return { user: { uid: Number(uid), gid: Number(gid), supplementalGroups: supplementalGroups.map(Number) } };
}

function stateOf({
  state,
  createdAt,
  startedAt,
  finishedAt,
  exitCode,
  reason,
  message: told,
  annotations,
}: ContainerStatus): ContainerState {
  const createdAtMs = milliseconds(createdAt);
  const startedAtMs = milliseconds(startedAt);
  switch (state) {
    case CriState.CONTAINER_CREATED:
      return { kind: 'created', createdAtMs };
    case CriState.CONTAINER_RUNNING:
      return { kind: 'running', createdAtMs, startedAtMs };
    case CriState.CONTAINER_EXITED: {
      const finishedAtMs = milliseconds(finishedAt);
      // It tells of a start that failed, and quotes what could not be started.
      const program = annotations[programAnnotation];
      const message = told === '' || program === undefined ? told : `the runtime cannot start "${program}"`;
      return { kind: 'exited', createdAtMs, startedAtMs, finishedAtMs, exitCode, reason, message };
    }
    default:
      return { kind: 'unknown', createdAtMs };
  }
}

/** An answer without what everything depends on is a failure of the runtime, in the kubelet's words. */
function requireFields(method: string, fields: Readonly<Record<string, unknown>>): void {
  const missing = Object.entries(fields).find(([, value]) => !value);
  if (missing !== undefined)
    throw new RuntimeError(`the runtime's answer to ${method} is incomplete: ${missing[0]} is not set`);
}
