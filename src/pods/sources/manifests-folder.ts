/**
 * What a folder of manifests says, file by file: static pods, and the ConfigMaps and Secrets they use. A file that cannot
 * be read, or is wrong, or is only half saved, goes on meaning what it meant last: only deleting it takes something away.
 * (The kubelet takes the pod of a broken file down.) Nothing here waits for changes; folder-source.ts does.
 */
import { untilAborted } from '../../base/abort.ts';
import type { Clock } from '../../base/clock.ts';
import { messageOf } from '../../base/errors.ts';
import { WakeSignal } from '../../base/wake-signal.ts';
import { type Pod, defaultPod } from '../../kube/kinds/pod/pod.ts';
import { type ManifestKind, manifestKinds, podManifest } from '../../kube/manifests/manifest-kinds.ts';
import { Manifests, readManifests } from '../../kube/manifests/manifests.ts';
import { canonicalJson, fnvHash } from '../../kube/schema/content-hash.ts';
import { forbiddenField } from '../../kube/schema/field-errors.ts';
import type { ObjectMeta } from '../../kube/schema/meta.ts';
import { compareByteOrder } from '../../kube/values/go-text.ts';
import { asStaticPod, refusedReferences } from './static-pod.ts';

export interface FolderContent {
  readonly pods: readonly Pod[];
  /** Everything else, each object with a resourceVersion that changes with its content. */
  readonly objects: Manifests;
}

export type FolderNotice =
  | {
      readonly kind: 'ManifestRefused';
      readonly file: string;
      readonly message: string;
      readonly keepsLastGood: boolean;
    }
  | { readonly kind: 'ManifestsUnreadable'; readonly path: string; readonly message: string };

/** As the kubelet's; a larger one is no manifest. */
const fileBytesMax = 10 * 1024 * 1024;

interface FileState {
  readonly text: string | undefined;
  readonly good: Manifests | undefined;
  readonly told: string | undefined;
}

export class ManifestsFolder {
  readonly #reader: FolderReader;
  readonly #nodeName: string;
  readonly #notify: (notice: FolderNotice) => void;
  #files = new Map<string, FileState>();
  #unreadable: string | undefined;

  constructor(reader: FolderReader, nodeName: string, notify: (notice: FolderNotice) => void) {
    this.#reader = reader;
    this.#nodeName = nodeName;
    this.#notify = notify;
  }

  /** Reads every file again. Rejects only when the signal aborts. */
  async read(signal: AbortSignal): Promise<FolderContent> {
    const names = await this.#list(signal);
    if (names !== undefined) {
      const files = new Map<string, FileState>();
      for (const name of names) files.set(name, await this.#readFile(name, this.#files.get(name), signal));
      this.#files = files;
    }
    return contentOf([...this.#files.values()].flatMap(({ good }) => good ?? []));
  }

  /** Undefined when the folder cannot be looked at: then what it said last still holds. */
  async #list(signal: AbortSignal): Promise<readonly string[] | undefined> {
    let problem: string;
    try {
      const names = await this.#reader.list(signal);
      if (names !== undefined) {
        this.#unreadable = undefined;
        return names.filter(isManifestName).toSorted(compareByteOrder);
      }
      problem = 'path does not exist, ignoring';
    } catch (error) {
      signal.throwIfAborted();
      problem = messageOf(error);
    }
    if (problem !== this.#unreadable) {
      this.#notify({ kind: 'ManifestsUnreadable', path: this.#reader.path, message: problem });
    }
    this.#unreadable = problem;
    return undefined;
  }

  async #readFile(name: string, before: FileState | undefined, signal: AbortSignal): Promise<FileState> {
    let text: string | undefined;
    try {
      text = await this.#reader.read(name, fileBytesMax, signal);
      if (before !== undefined && text === before.text) return before;
      const good = readStatic(name, text, { nodeName: this.#nodeName, path: this.#reader.path });
      if (before?.good === undefined || !isEmptyFile(text)) return { text, good, told: undefined };
      // An editor that truncates before it writes leaves an empty file for a moment.
      return this.#refuse(name, before, text, 'the file is empty: delete it to remove what it held');
    } catch (error) {
      signal.throwIfAborted();
      return this.#refuse(name, before, text, messageOf(error));
    }
  }

  #refuse(name: string, before: FileState | undefined, text: string | undefined, problem: string): FileState {
    const good = before?.good;
    if (before?.told !== problem) {
      const message = `${name}: couldn't parse as pod(${problem}), please check config file`;
      this.#notify({ kind: 'ManifestRefused', file: name, message, keepsLastGood: good !== undefined });
    }
    return { text, good, told: problem };
  }
}

/** Files that start with a dot are hidden; the others are what editors leave beside the file they save. */
function isManifestName(name: string): boolean {
  return !name.startsWith('.') && !name.endsWith('~') && !/^#.*#$/.test(name);
}

function isEmptyFile(text: string): boolean {
  return text.trim() === '';
}

function readStatic(
  name: string,
  text: string,
  { nodeName, path }: { readonly nodeName: string; readonly path: string },
): Manifests {
  const kind: ManifestKind<Pod> = {
    ...podManifest,
    complete: (pod) => defaultPod(asStaticPod(pod, { nodeName, file: `${path}/${name}` })),
    validate: (pod) => [
      ...podManifest.validate(pod),
      ...refusedReferences(pod).map((problem) => forbiddenField(['spec'], problem)),
    ],
  };
  return readManifests([{ name, text }], 'default', kind);
}

function contentOf(files: readonly Manifests[]): FolderContent {
  const objects = new Manifests();
  const pods = new Map<string, Pod>();
  for (const file of files) {
    for (const pod of file.all(podManifest)) pods.set(`${pod.metadata.namespace}/${pod.metadata.name}`, pod);
    for (const kind of manifestKinds) {
      if (kind === podManifest) continue;
      for (const object of file.all(kind)) objects.add(kind, withVersion(object));
    }
  }
  return { pods: [...pods.values()], objects };
}

/** Objects of a folder have no server to number their versions; who compares them only asks whether they are equal. */
function withVersion<T extends { readonly metadata: ObjectMeta }>(object: T): T {
  const { resourceVersion: _written, ...metadata } = object.metadata;
  const unversioned = { ...object, metadata };
  return { ...object, metadata: { ...metadata, resourceVersion: fnvHash(canonicalJson(unversioned)) } };
}

/**
 * The folder of manifests as a stream: its content at the start, after every change that has come to rest, and from time
 * to time anyway, because not every file system tells of changes.
 */
interface FolderSourceDeps {
  readonly reader: FolderReader;
  readonly clock: Clock;
  readonly notify: (notice: FolderNotice) => void;
}

interface FolderSourceSettings {
  readonly nodeName: string;
  /** `fileCheckFrequency`: 20 s. */
  readonly rereadPeriodMs: number;
  /** How long nothing may happen before a change counts as saved: 100 ms hide an editor's steps and no user's wait. */
  readonly quietMs: number;
}

/** A file that never comes to rest is still read this often, counted in quiet times. */
const postponementsMax = 20;

export async function* folderContents(
  { reader, clock, notify }: FolderSourceDeps,
  { nodeName, rereadPeriodMs, quietMs }: FolderSourceSettings,
  signal: AbortSignal,
): AsyncGenerator<FolderContent> {
  const stop = new AbortController();
  const ended = AbortSignal.any([signal, stop.signal]);
  const changed = new WakeSignal();
  const listening = listen(reader, changed, ended);
  const folder = new ManifestsFolder(reader, nodeName, notify);
  try {
    while (!ended.aborted) {
      yield await folder.read(ended);
      if (!(await changed.sleep(rereadPeriodMs, clock, ended))) continue;
      for (let times = 0; times < postponementsMax; times += 1) {
        if (!(await changed.sleep(quietMs, clock, ended))) break;
      }
    }
  } catch (error) {
    if (!ended.aborted) throw error;
  } finally {
    stop.abort();
    await listening;
  }
}

async function listen(reader: FolderReader, changed: WakeSignal, signal: AbortSignal): Promise<void> {
  try {
    for await (const _ of reader.changes(signal)) changed.wake();
  } catch {
    // The folder is read again from time to time, also when nothing tells of its changes.
  }
  await untilAborted(signal);
}

/** The folder of manifests as its source needs it; `agent/` reads the real one. */
export interface FolderReader {
  /** As it is named in messages. */
  readonly path: string;
  /** Names of the regular files in it, not of those below; undefined if the folder itself is missing. */
  list(signal: AbortSignal): Promise<readonly string[] | undefined>;
  /** Rejects with FileTooLargeError, or with an error of the system. */
  read(name: string, bytesMax: number, signal: AbortSignal): Promise<string>;
  /** Tells that something in the folder may be different. It may tell too often, and need not tell at all. */
  changes(signal: AbortSignal): AsyncIterable<void>;
}
