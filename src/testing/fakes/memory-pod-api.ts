/** The pods of an API server in memory. Patches of a status are applied as far as tests of pods need it. */
import { CoalescingTopic } from '../../base/coalescing-queue.ts';
import type { EventSink, PodEvent } from '../../kube/kinds/event.ts';
import { podUid } from '../../kube/kinds/pod/pod-identity.ts';
import type { PodStatus } from '../../kube/kinds/pod/pod-status.ts';
import type { Pod } from '../../kube/kinds/pod/pod.ts';
import type { ContainerFiles } from '../../pods/containers/container-request.ts';
import type { PodApi } from '../../pods/loop/loop-parts.ts';
import type { FolderReader } from '../../pods/sources/manifests-folder.ts';

interface ConditionPatch {
  readonly type: string;
  readonly $patch?: string;
  readonly [field: string]: unknown;
}

export class MemoryPodApi implements PodApi {
  readonly calls: string[] = [];
  readonly patches: unknown[] = [];
  failure: Error | undefined;
  readonly #pods = new Map<string, Pod>();
  readonly #changed: (pods: readonly Pod[]) => void;

  constructor(changed: (pods: readonly Pod[]) => void = () => {}) {
    this.#changed = changed;
  }

  put(pod: Pod): void {
    this.#pods.set(`${pod.metadata.namespace}/${pod.metadata.name}`, pod);
    this.#changed(this.pods());
  }

  remove(pod: Pod): void {
    this.#pods.delete(`${pod.metadata.namespace}/${pod.metadata.name}`);
    this.#changed(this.pods());
  }

  pods(): readonly Pod[] {
    return [...this.#pods.values()];
  }

  find(name: string, namespace = 'shop'): Pod | undefined {
    return this.#pods.get(`${namespace}/${name}`);
  }

  async get(namespace: string, name: string): Promise<Pod | undefined> {
    if (this.failure !== undefined) throw this.failure;
    return this.find(name, namespace);
  }

  async patchStatus(namespace: string, name: string, patch: unknown): Promise<Pod | undefined> {
    if (this.failure !== undefined) throw this.failure;
    const pod = this.find(name, namespace);
    const { metadata, status } = patch as { metadata: { uid: string }; status: Record<string, unknown> };
    if (pod === undefined || podUid(pod) !== metadata.uid) return undefined;
    this.calls.push(`patch ${name}`);
    this.patches.push(status);
    const patched = { ...pod, status: applied(pod.status ?? {}, status) };
    this.put(patched);
    return patched;
  }

  async delete(namespace: string, name: string, uid: string): Promise<void> {
    const pod = this.find(name, namespace);
    this.calls.push(`delete ${name}`);
    if (pod !== undefined && podUid(pod) === uid) this.remove(pod);
  }

  async create(pod: Pod): Promise<boolean> {
    const { namespace = '', name } = pod.metadata;
    this.calls.push(`create ${name}`);
    if (this.find(name, namespace) !== undefined) return false;
    this.put({ ...pod, metadata: { ...pod.metadata, uid: `uid-of-${name}-${this.calls.length}` } });
    return true;
  }
}

function applied(status: PodStatus, patch: Readonly<Record<string, unknown>>): PodStatus {
  const result: Record<string, unknown> = { ...status };
  for (const [key, value] of Object.entries(patch)) {
    if (value === null) delete result[key];
    else if (key === 'conditions') {
      const merged = new Map((status.conditions ?? []).map((one): [string, object] => [one.type, one]));
      for (const { $patch, ...condition } of value as ConditionPatch[]) {
        if ($patch === 'delete') merged.delete(condition.type);
        else {
          const fields = Object.entries({ ...merged.get(condition.type), ...condition });
          merged.set(condition.type, Object.fromEntries(fields.filter(([, field]) => field !== null)));
        }
      }
      result[key] = [...merged.values()];
    } else if (key === 'podIPs') result[key] = (value as { ip?: string }[]).filter(({ ip }) => ip !== undefined);
    else result[key] = value;
  }
  return result;
}

/** A folder of manifests that a test writes to, and that reports changes when the test says so. */
export class MemoryFolder implements FolderReader {
  readonly path = '/manifests';
  readonly #feed = new CoalescingTopic<void>();
  #files: Map<string, string | Error> | undefined;

  constructor(files: Readonly<Record<string, string>> | undefined) {
    this.#files = files === undefined ? undefined : new Map(Object.entries(files));
  }

  /** An error is thrown when the file is read. */
  write(name: string, content: string | Error): void {
    this.#files ??= new Map();
    this.#files.set(name, content);
  }

  delete(name: string): void {
    this.#files?.delete(name);
  }

  vanish(): void {
    this.#files = undefined;
  }

  tell(): void {
    this.#feed.publish();
  }

  list(): Promise<readonly string[] | undefined> {
    return Promise.resolve(this.#files && [...this.#files.keys()]);
  }

  read(name: string): Promise<string> {
    const content = this.#files?.get(name) ?? new Error(`ENOENT: ${name}`);
    return content instanceof Error ? Promise.reject(content) : Promise.resolve(content);
  }

  changes(signal: AbortSignal): AsyncIterable<void> {
    return this.#feed.follow(signal);
  }
}

/** The files of containers without a disk: a test reads and writes termination messages and logs as texts. */
export class MemoryContainerFiles implements ContainerFiles {
  readonly messages = new Map<string, string>();
  readonly logs = new Map<string, string>();
  readonly directories = new Set<string>();
  readonly removedLogs: string[] = [];
  /** UIDs of pods that have a directory of logs. */
  readonly podLogs = new Set<string>();

  podDirectory(uid: string): string {
    return `/root/pods/${uid}`;
  }

  logDirectory(pod: Pod): string {
    return `/logs/${podUid(pod)}`;
  }

  seccompFile(profile: string): string {
    return `/root/seccomp/${profile}`;
  }

  async lastLogAttempt(): Promise<number | undefined> {
    return undefined;
  }

  async makePodDirectories(pod: Pod): Promise<void> {
    this.directories.add(podUid(pod));
  }

  makeMessageFile(uid: string, container: string, attempt: number): Promise<string> {
    const path = `/root/pods/${uid}/containers/${container}/${attempt}`;
    this.messages.set(path, '');
    return Promise.resolve(path);
  }

  readMessageFile(path: string, bytesMax: number): Promise<string> {
    return Promise.resolve((this.messages.get(path) ?? '').slice(0, bytesMax));
  }

  tailLog(path: string, bytesMax: number): Promise<string> {
    return Promise.resolve((this.logs.get(path) ?? '').slice(-bytesMax));
  }

  async removeLog(path: string): Promise<void> {
    this.removedLogs.push(path);
  }

  podsWithLogs(): Promise<readonly string[]> {
    return Promise.resolve([...this.podLogs]);
  }

  async removePodLogs(uid: string): Promise<void> {
    this.podLogs.delete(uid);
  }
}

/** Keeps the events that were recorded, to be read as lines: `Warning Failed main: Error: …`. */
export class RecordedEvents implements EventSink {
  readonly events: PodEvent[] = [];

  record(event: PodEvent): void {
    this.events.push(event);
  }

  lines(): string[] {
    return this.events.map(({ type, reason, container, message }) =>
      [type, reason, ...(container === undefined ? [] : [`${container}:`]), message].join(' '),
    );
  }
}
