/**
 * What the four projection kinds (configMap, secret, downwardAPI, projected) have in common: files made from objects,
 * in a directory of their own, replaced all at once. What the files are is the kinds' business.
 *
 * The order protects what is live. All content is fetched and built before the disk is touched, so an object that is
 * missing changes nothing; the writer replaces content only when all of it is on disk. A set-up that fails takes back
 * the directory if it made it itself, and touches nothing else: containers keep the last good content.
 */
import { MountletError, messageOf } from '../base/errors.ts';
import type { Timers } from '../base/timers.ts';
import type { Turns } from '../base/turns.ts';
import { AtomicWriter, type WriteOptions, type WriteOutcome } from '../disk/writer/atomic-writer.ts';
import { type MountPlace, makeNestedMountPoints, nestedMountPoints } from '../disk/writer/nested-mount-points.ts';
import type { Payload, PayloadFile } from '../disk/writer/payload.ts';
import { OwnerRefusedError } from '../disk/writer/version.ts';
import { allContainers } from '../kube/kinds/pod/pod-spec.ts';
import type { Pod } from '../kube/kinds/pod/pod.ts';
import type { KeyToPath } from '../kube/kinds/pod/volume.ts';
import { wrappedVolumeName } from '../kube/values/node-layout.ts';
import {
  type EmptyDirectories,
  type EmptyDirectoryPlace,
  type Medium,
  type NodeReader,
  allocatableMemory,
  mediumOf,
} from './empty-dir.ts';
import {
  type FailureClass,
  type NotifyPlugin,
  type SetUpOutcome,
  type SetUpRequest,
  type TearDownRequest,
  type VolumeAttributes,
  VolumeError,
} from './plugin.ts';

export const projectionAttributes: VolumeAttributes = {
  readOnly: true,
  replaced: true,
};

/** Only ConfigMaps may be written to a disk, which keeps what is written to it. */
type ProjectionStorage = 'disk' | 'memory';

interface ProjectionDeps {
  readonly emptyDirectories: EmptyDirectories;
  readonly nodes: NodeReader;
  /** For the names of the writer's directories: the time, and an unsigned 32-bit number. */
  readonly names: { now(): number; random(): number };
  /** A volume of thousands of files is written between other things. */
  readonly turns: Turns;
  readonly notify: NotifyPlugin;
  readonly beforeRemoval?: BeforeRemoval;
  /** Rings when a replaced version has stayed long enough. Without it none stays: the process ends too soon. */
  readonly timers?: Pick<Timers, 'after'>;
}

/** A path walk that followed `..data` before a swap is over by then, also on a machine that is very busy. */
const replacedMs = 1_000;

/**
 * Called when new content is live and old content may still be there: whatever shows that turns to the new one now. False
 * leaves the old one until the next refresh. Must not throw.
 */
export type BeforeRemoval = (volume: TearDownRequest) => boolean;

/** A first set-up failed and could not take back what it had made: the volume has to be torn down. */
export class LeftoverError extends MountletError {
  readonly reason = 'VolumeLeftBehind';
  readonly failureClass: FailureClass = 'uncertain';
  constructor(problem: unknown, cleanUp: unknown) {
    const text = `${messageOf(problem)} (and what was made until then could not be removed: ${messageOf(cleanUp)})`;
    super(text, { cause: problem });
  }
}

/**
 * A writer that remembers its volume checks an unchanged one cheaply and need not list one that it replaces. This many are
 * more than the volumes of a crowded node, and their bytes no more than such a node can spare; past either, the one used
 * longest ago is forgotten, which costs it one comparison with the disk.
 */
const writersMax = 16_384;
const rememberedBytesMax = 256 * 1024 * 1024;

export class ProjectionVolumes {
  readonly #deps: ProjectionDeps;
  /** The one used longest ago comes first. */
  readonly #writers = new Map<string, AtomicWriter>();
  /** The job that is under way at a path. Operations exclude each other, but not the removal of a replaced version. */
  readonly #jobs = new Map<string, Promise<unknown>>();
  #rememberedBytes = 0;
  #canChown = true;

  constructor(deps: ProjectionDeps) {
    this.#deps = deps;
  }

  async setUp(
    request: SetUpRequest,
    storage: ProjectionStorage,
    collect: (signal: AbortSignal) => Promise<Payload>,
    signal: AbortSignal,
  ): Promise<SetUpOutcome> {
    const { volumeName, directory } = request;
    const volume = { podUid: request.pod.metadata.uid ?? '', volumeName, directory };
    const place = placeOf(volume);
    const { emptyDirectories, beforeRemoval } = this.#deps;
    // A refresh finds its directory. Before a first set-up reads any object, the node is asked how large a tmpfs may be.
    const existingOrMedium =
      emptyDirectories.find(place, storage, this.#writers.has(directory)) ??
      (await this.#mediumFor(request.pod, storage, signal));
    const payload = await collect(signal);
    signal.throwIfAborted();

    const { path, made } =
      typeof existingOrMedium === 'string'
        ? { path: existingOrMedium, made: false }
        : await emptyDirectories.setUp({ ...place, medium: existingOrMedium, fsGroup: request.fsGroup }, signal);
    try {
      makeNestedMountPoints(path, nestedMountPoints(request.volumeName, mountPlacesOf(request.pod)));
      const options: WriteOptions = {
        ...(request.fsGroup !== undefined && { group: request.fsGroup }),
        ...(beforeRemoval !== undefined && { beforeRemoval: () => beforeRemoval(volume) }),
        keepReplaced: this.#deps.timers !== undefined,
      };
      const { changed, hidden, groupsRefused, isOtherDirectory } = await this.#alone(path, () =>
        this.#writeAt(path, made, payload, options),
      );
      if (groupsRefused > 0) emptyDirectories.tellGroupRefused(request.directory, request.fsGroup);
      const remade = (request.isRemount || request.isReconstructed) && (made || isOtherDirectory);
      return { changed: changed || made, files: payload.size, hidden, ...(remade && { remade }) };
    } catch (error) {
      if (made) await this.#takeBack(place, path, error);
      throw error;
    }
  }

  async tearDown(request: TearDownRequest): Promise<void> {
    const place = placeOf(request);
    const path = this.#deps.emptyDirectories.find(place, 'memory') ?? request.directory;
    await this.#alone(path, async () => {
      const writer = this.#writers.get(path);
      if (writer !== undefined) await this.#deps.turns.run(writer.removingReplaced()); // its timers find nothing to do
      this.#forget(path);
      await this.#deps.emptyDirectories.tearDown(place);
    });
  }

  async #mediumFor(pod: Pod, storage: ProjectionStorage, signal: AbortSignal): Promise<Medium> {
    if (storage === 'disk') return { kind: 'disk' };
    return mediumOf({ medium: 'Memory' }, pod, await allocatableMemory(this.#deps.nodes, signal));
  }

  /** A process that may not give files away keeps them, which is reported once. Their mode lets no other user in. */
  async #write(writer: AtomicWriter, payload: Payload, options: WriteOptions): Promise<WriteOutcome> {
    const { turns } = this.#deps;
    if (!this.#canChown) return turns.run(writer.writing(withoutOwners(payload), options));
    try {
      return await turns.run(writer.writing(payload, options));
    } catch (error) {
      if (!(error instanceof OwnerRefusedError)) throw error;
      this.#canChown = false;
      const message = `cannot give "${error.path}" to user ${error.uid}: not permitted; files keep the user that runs mountlet as their owner unless that is root`;
      this.#deps.notify({ kind: 'OwnerImpossible', message });
      return this.#write(writer, payload, options);
    }
  }

  /** Once begun it goes on to its end, whatever is aborted: half of it is worth nothing, and the rest is short. */
  async #writeAt(path: string, made: boolean, payload: Payload, options: WriteOptions): Promise<WriteOutcome> {
    const known = made ? undefined : this.#writers.get(path);
    this.#forget(path); // remembered again, it is the youngest
    const writer = known ?? new AtomicWriter(path, this.#deps.names);
    const remove = (version: string): Promise<void> =>
      this.#alone(path, () => this.#deps.turns.run(writer.removingReplaced(version)));
    try {
      const outcome = await this.#write(writer, payload, options);
      const { replaced } = outcome;
      if (replaced !== undefined) this.#deps.timers?.after(replacedMs, () => void remove(replaced));
      return outcome;
    } finally {
      this.#remember(path, writer);
    }
  }

  async #alone<Result>(path: string, job: () => Promise<Result>): Promise<Result> {
    for (let other = this.#jobs.get(path); other !== undefined; other = this.#jobs.get(path)) await other;
    const running = job();
    this.#jobs.set(
      path,
      running.catch(() => {}),
    );
    try {
      return await running;
    } finally {
      this.#jobs.delete(path);
    }
  }

  #remember(path: string, writer: AtomicWriter): void {
    this.#writers.set(path, writer);
    this.#rememberedBytes += writer.rememberedBytes;
    for (const oldest of this.#writers.keys()) {
      if (this.#writers.size <= writersMax && this.#rememberedBytes <= rememberedBytesMax) return;
      this.#forget(oldest);
    }
  }

  #forget(path: string): void {
    this.#rememberedBytes -= this.#writers.get(path)?.rememberedBytes ?? 0;
    this.#writers.delete(path);
  }

  async #takeBack(place: EmptyDirectoryPlace, path: string, problem: unknown): Promise<void> {
    this.#forget(path);
    try {
      await this.#deps.emptyDirectories.tearDown(place);
    } catch (cleanUp) {
      throw new LeftoverError(problem, cleanUp);
    }
  }
}

function withoutOwners(payload: Payload): Payload {
  return new Map([...payload].map(([path, { data, mode }]) => [path, { data, mode }]));
}

function placeOf({ podUid, directory, volumeName }: TearDownRequest): EmptyDirectoryPlace {
  return { podUid, directory, markerName: wrappedVolumeName(volumeName) };
}

function mountPlacesOf({ spec }: Pod): MountPlace[][] {
  return allContainers(spec).map(({ volumeMounts = [] }) =>
    volumeMounts.map(({ name, mountPath }) => ({ volumeName: name, mountPath })),
  );
}

export interface KeyProjection {
  readonly items?: readonly KeyToPath[] | undefined;
  readonly defaultMode?: number | undefined;
  readonly defaultUser?: number | undefined;
  /** Covers a listed key that the object lacks. */
  readonly optional?: boolean | undefined;
}

interface KeyedContent {
  /** Every key with its bytes, in order; a later one of the same name wins. */
  all(): Iterable<readonly [key: string, data: Buffer]>;
  find(key: string): Buffer | undefined;
  missing(key: string): string;
}

export function projectKeys(content: KeyedContent, projection: KeyProjection): Payload {
  const { items, defaultUser, optional } = projection;
  const defaultMode = requireDefaultMode(projection.defaultMode);
  const files = new Map<string, PayloadFile>();
  // An empty list means the same as none: the API cannot tell them apart either.
  if (items === undefined || items.length === 0) {
    for (const [key, data] of content.all()) files.set(key, payloadFile(data, defaultMode, defaultUser));
    return files;
  }
  for (const { key, path, mode, user } of items) {
    const data = content.find(key);
    if (data !== undefined) files.set(path, payloadFile(data, mode ?? defaultMode, user ?? defaultUser));
    else if (optional !== true) throw new VolumeError('KeyMissing', content.missing(key));
  }
  return files;
}

export function payloadFile(data: Uint8Array, mode: number, uid: number | undefined): PayloadFile {
  return uid === undefined ? { data, mode } : { data, mode, uid };
}

/** Why the files of a volume cannot be built, in the kubelet's words. No message holds a file's content. */
export function invalidPayload(message: string, options?: ErrorOptions): VolumeError {
  return new VolumeError('InvalidPayload', message, options);
}

/** The API server fills it in: a volume without one has bypassed its checks. */
export function requireDefaultMode(defaultMode: number | undefined): number {
  if (defaultMode !== undefined) return defaultMode;
  throw new VolumeError('DefaultModeMissing', 'no defaultMode used, not even the default value for it');
}

/** Several sources of one volume failed. */
class CombinedError extends VolumeError {
  readonly errors: readonly Error[];
  constructor(message: string, errors: readonly Error[]) {
    super('InvalidPayload', message, { cause: errors[0] });
    this.errors = errors;
  }
}

/**
 * One error for all: the text alone when all say the same, else `[a, b]` with every text once. An error that
 * is not one of ours is a bug or an abort and must not be hidden in a list: it is returned as it is.
 */
export function combineErrors(errors: readonly [unknown, ...unknown[]]): unknown {
  const ours = errors.filter((error) => error instanceof MountletError);
  if (ours.length < errors.length) return errors.find((error) => !(error instanceof MountletError));
  if (ours.length === 1) return ours[0];
  const flat = ours.flatMap((error) => (error instanceof CombinedError ? error.errors : [error]));
  const texts = [...new Set(flat.map(({ message }) => message))];
  return new CombinedError(texts.length === 1 ? texts.join() : `[${texts.join(', ')}]`, flat);
}
