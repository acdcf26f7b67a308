/**
 * A folder of manifests: static pods, and the ConfigMaps and Secrets that they use. A file that cannot be read, is invalid or is
 * only half saved keeps its last valid content; only deleting the file removes what it held. (The kubelet ends the pod of a
 * broken file.)
 */
import { untilAborted } from '../../base/abort.ts';
import type { Clock } from '../../base/clock.ts';
import { messageOf } from '../../base/errors.ts';
import { WakeSignal } from '../../base/wake-signal.ts';
import { hashAnnotation, withAnnotations } from '../../kube/kinds/pod/pod-identity.ts';
import { type Pod, defaultPod } from '../../kube/kinds/pod/pod.ts';
import { type ManifestKind, manifestKinds, podManifest } from '../../kube/manifests/manifest-kinds.ts';
import { ManifestError, Manifests, readManifests } from '../../kube/manifests/manifests.ts';
import { type PodReference, referenceWords, referencesOf } from '../../kube/references/pod-references.ts';
import { canonicalJson, fnvHash } from '../../kube/schema/equality.ts';
import { forbiddenField } from '../../kube/schema/field-errors.ts';
import type { ObjectMeta } from '../../kube/schema/meta.ts';
import { compareByteOrder } from '../../kube/values/go-text.ts';

/** The folder on disk; `agent/` has the real one. */
export interface FolderReader {
  /** For messages. */
  readonly path: string;
  /** Names of the regular files directly in it; undefined if the folder itself is missing. */
  list(signal: AbortSignal): Promise<readonly string[] | undefined>;
  /** Rejects for a file that is too large, or with an error of the system. */
  read(name: string, bytesMax: number, signal: AbortSignal): Promise<string>;
  /** Something in the folder may have changed. May report too often, or nothing at all. */
  changes(signal: AbortSignal): AsyncIterable<void>;
}

export interface FolderContent {
  readonly pods: readonly Pod[];
  /** Everything else, each object with a resourceVersion that changes with its content. */
  readonly objects: Manifests;
}

export type FolderNotice =
  | {
      readonly kind: 'ManifestRefused';
      /** With the name of the file, and the place in it. */
      readonly message: string;
      readonly keepsLastGood: boolean;
    }
  /** A file that was refused is good again. */
  | { readonly kind: 'ManifestAccepted'; readonly file: string }
  /** Of several files with the same pod the last one counts. */
  | { readonly kind: 'PodRepeated'; readonly pod: string; readonly files: readonly string[] }
  | { readonly kind: 'ManifestsUnreadable'; readonly path: string; readonly message: string };

/** As the kubelet's. */
const fileBytesMax = 10 * 1024 * 1024;

interface FileState {
  readonly text: string | undefined;
  readonly good: Manifests | undefined;
  /** Why the file was refused, as reported. */
  readonly problem: string | undefined;
}

export class ManifestsFolder {
  readonly #reader: FolderReader;
  readonly #nodeName: string;
  readonly #notify: (notice: FolderNotice) => void;
  #files = new Map<string, FileState>();
  #unreadable: string | undefined;
  /** Pods of several files, as reported. */
  #repeated: ReadonlySet<string> = new Set();

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
      this.#reportRepeated();
    }
    return contentOf([...this.#files.values()].flatMap(({ good }) => good ?? []));
  }

  #reportRepeated(): void {
    const filesOf = new Map<string, string[]>();
    for (const [file, { good }] of this.#files) {
      for (const pod of good?.all(podManifest) ?? []) {
        const files = filesOf.get(keyOf(pod));
        if (files === undefined) filesOf.set(keyOf(pod), [file]);
        else files.push(file);
      }
    }
    const repeated = new Set<string>();
    for (const [pod, files] of filesOf) {
      if (files.length < 2) continue;
      const key = JSON.stringify([pod, files]);
      if (!this.#repeated.has(key)) this.#notify({ kind: 'PodRepeated', pod, files });
      repeated.add(key);
    }
    this.#repeated = repeated;
  }

  /** Undefined when the folder cannot be read: then its last content holds. */
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
      if (before?.good === undefined || !isEmptyFile(text)) {
        if (before?.problem !== undefined) this.#notify({ kind: 'ManifestAccepted', file: name });
        return { text, good, problem: undefined };
      }
      // Editors that truncate before they write leave an empty file for a moment.
      return this.#refuse(before, text, `${name}: the file is empty: delete it to remove what it held`);
    } catch (error) {
      signal.throwIfAborted();
      const message = messageOf(error);
      // Problems of a manifest begin with file, line and column.
      const problem = error instanceof ManifestError ? message.replaceAll('\n', '; ') : `${name}: ${message}`;
      return this.#refuse(before, text, problem);
    }
  }

  #refuse(before: FileState | undefined, text: string | undefined, problem: string): FileState {
    const good = before?.good;
    if (before?.problem !== problem) {
      this.#notify({ kind: 'ManifestRefused', message: problem, keepsLastGood: good !== undefined });
    }
    return { text, good, problem };
  }
}

/** Leaves out hidden files and what editors leave beside the file that they save. */
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
    for (const pod of file.all(podManifest)) pods.set(keyOf(pod), pod);
    for (const kind of manifestKinds) {
      if (kind === podManifest) continue;
      for (const object of file.all(kind)) objects.add(kind, withVersion(object));
    }
  }
  return { pods: [...pods.values()], objects };
}

function keyOf({ metadata: { namespace, name } }: Pod): string {
  return `${namespace}/${name}`;
}

/** No server numbers the versions of these objects. Versions are only compared for equality. */
function withVersion<T extends { readonly metadata: ObjectMeta }>(object: T): T {
  const { resourceVersion: _written, ...metadata } = object.metadata;
  const unversioned = { ...object, metadata };
  return { ...object, metadata: { ...metadata, resourceVersion: fnvHash(canonicalJson(unversioned)) } };
}

interface FolderSourceDeps {
  readonly reader: FolderReader;
  readonly clock: Clock;
  readonly notify: (notice: FolderNotice) => void;
}

interface FolderSourceSettings {
  readonly nodeName: string;
  /** `fileCheckFrequency`: 20 s. */
  readonly rereadPeriodMs: number;
  /** How long nothing may happen before a change counts as saved. 100 ms hide the steps of an editor and no wait of a user. */
  readonly quietMs: number;
}

/** A file that changes all the time is still read after this many quiet times. */
const postponementsMax = 20;

/**
 * The content of the folder at the start, after every change that has settled, and from time to time anyway, because not every
 * file system reports changes.
 */
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
    // The folder is read again from time to time anyway.
  }
  await untilAborted(signal);
}

interface StaticPodOrigin {
  readonly nodeName: string;
  /** The path of the file. */
  readonly file: string;
}

/**
 * What a pod from a file gets before it is defaulted and validated like any other: its name, UID and node. The UID is derived from
 * the pod as it was written, so that any change, another file or another node makes another pod.
 */
export function asStaticPod(written: Pod, { nodeName, file }: StaticPodOrigin): Pod {
  const { uid: givenUid = '', name, namespace = '' } = written.metadata;
  const uid = givenUid === '' ? fnvHash(`${canonicalJson(written)}host:${nodeName}file:${file}`) : givenUid;
  const tolerations = [...(written.spec.tolerations ?? []), { operator: 'Exists', effect: 'NoExecute' }];
  const { resourceVersion: _version, managedFields: _managed, ...metadata } = written.metadata;
  const pod: Pod = {
    ...written,
    metadata: {
      ...metadata,
      uid,
      // An absent name stays absent, so that validation refuses it.
      name: name === '' ? '' : `${name}-${nodeName.toLowerCase()}`,
      namespace: namespace === '' ? 'default' : namespace,
    },
    spec: { ...written.spec, nodeName, tolerations },
    status: { phase: 'Pending' },
  };
  return withAnnotations(pod, { [hashAnnotation]: uid });
}

/**
 * API objects that a pod from a file cannot have here. The kubelet refuses every reference; we take ConfigMaps, Secrets and
 * claims from the same folder, so these are fine.
 */
function refusedReferences(pod: Pod): readonly string[] {
  const refused = referencesOf(pod).filter(needsApiServer);
  return [...new Set(refused.map(referenceWords))].map((what) => `static pods may not reference ${what}`);
}

function needsApiServer({ kind, via }: PodReference): boolean {
  if (kind === 'ServiceAccount') return via === 'projected';
  if (kind === 'PersistentVolumeClaim') return via === 'ephemeral';
  return kind === 'ResourceClaim' || kind === 'ClusterTrustBundle' || kind === 'PodCertificate';
}
