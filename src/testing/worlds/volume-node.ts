/** A node in a temporary directory, for tests of volume plugins: objects that tests can change, and set-ups at the kubelet's paths. */
import assert from 'node:assert/strict';
import { randomInt } from 'node:crypto';
import { existsSync, lstatSync, readFileSync, readdirSync, readlinkSync } from 'node:fs';
import { join } from 'node:path';
import type { TestContext } from 'node:test';
import type { Timers } from '../../base/timers.ts';
import { Turns } from '../../base/turns.ts';
import { type Mounts, systemMounts } from '../../disk/mounts/mounts.ts';
import { MemoryDirectories } from '../../disk/pods/memory-directories.ts';
import type { ConfigMap } from '../../kube/kinds/config-map.ts';
import type { Pod } from '../../kube/kinds/pod/pod.ts';
import type { Volume } from '../../kube/kinds/pod/volume.ts';
import type { Secret } from '../../kube/kinds/secret.ts';
import { type VolumeSpec, inlineSpec, specName } from '../../kube/references/volume-spec.ts';
import { readyMarker, volumeDirectory } from '../../kube/values/node-layout.ts';
import type { ConfigMapReader } from '../../plugins/configmap.ts';
import { EmptyDirectories, type NodeReader } from '../../plugins/empty-dir.ts';
import type { PluginNotice, SetUpOutcome, SetUpRequest, VolumePlugin } from '../../plugins/plugin.ts';
import { type BeforeRemoval, ProjectionVolumes } from '../../plugins/projection.ts';
import type { SecretReader } from '../../plugins/secret.ts';
import { directoryForMounts } from '../machine/temporary-directory.ts';

export const podUid = '5a6f0e3c-9d1b-4c57-8c55-0f3f2b1f6a01';

export function testPod(spec: Partial<Pod['spec']> = {}, metadata: Partial<Pod['metadata']> = {}): Pod {
  return {
    metadata: { name: 'web', namespace: 'shop', uid: podUid, ...metadata },
    spec: { containers: [{ name: 'app' }], ...spec },
  };
}

export function base64(text: string | Uint8Array): string {
  return Buffer.from(text).toString('base64');
}

export interface VolumeNodeSettings {
  readonly mounts?: Mounts;
  /** The file system of the root directory. */
  readonly under?: string;
  /** That of another node: a process that comes after it. */
  readonly root?: string;
  readonly privateTmpfs?: () => string | undefined;
  readonly allocatable?: Readonly<Record<string, string | number>>;
  readonly beforeRemoval?: BeforeRemoval;
  readonly now?: () => number;
  /** With these, replaced versions stay. */
  readonly timers?: Pick<Timers, 'after'>;
}

/** Objects by `name`; all of them are in the namespace `shop`. */
class Objects<T> {
  readonly #objects = new Map<string, T>();
  /** Thrown by every read while it is set. */
  failure: Error | undefined;

  set(name: string, object: T): void {
    this.#objects.set(name, object);
  }

  delete(name: string): void {
    this.#objects.delete(name);
  }

  async get(namespace: string, name: string): Promise<T | undefined> {
    if (this.failure !== undefined) throw this.failure;
    return namespace === 'shop' ? this.#objects.get(name) : undefined;
  }
}

export class VolumeNode {
  readonly root: string;
  readonly mounts: Mounts;
  readonly notices: PluginNotice[] = [];
  readonly configMaps = new Objects<ConfigMap>() satisfies ConfigMapReader;
  readonly secrets = new Objects<Secret>() satisfies SecretReader;
  readonly nodes: NodeReader;
  readonly emptyDirectories: EmptyDirectories;
  readonly volumes: ProjectionVolumes;

  constructor(test: Pick<TestContext, 'after'>, settings: VolumeNodeSettings = {}) {
    const {
      mounts = systemMounts(),
      under,
      privateTmpfs = () => undefined,
      allocatable = { memory: '1Gi' },
    } = settings;
    this.root = settings.root ?? directoryForMounts(test, under);
    this.mounts = mounts;
    this.nodes = { get: async () => ({ metadata: { name: 'node' }, status: { allocatable } }) };
    const notify = (notice: PluginNotice): number => this.notices.push(notice);
    const memory = new MemoryDirectories({
      mounts,
      privateTmpfs,
      warn: (message) => notify({ kind: 'MemoryElsewhere', message }),
    });
    const names = { now: settings.now ?? (() => Date.now()), random: () => randomInt(2 ** 32) };
    const turns = new Turns(names.now);
    this.emptyDirectories = new EmptyDirectories({ root: this.root, mounts, memory, turns, notify });
    this.volumes = new ProjectionVolumes({
      emptyDirectories: this.emptyDirectories,
      nodes: this.nodes,
      names,
      turns,
      notify,
      ...(settings.beforeRemoval !== undefined && { beforeRemoval: settings.beforeRemoval }),
      ...(settings.timers !== undefined && { timers: settings.timers }),
    });
  }

  setConfigMap(name: string, data: Record<string, string>): void {
    this.configMaps.set(name, { metadata: { name, namespace: 'shop' }, data });
  }

  setSecret(name: string, data: Record<string, string | Uint8Array>): void {
    const encoded = Object.fromEntries(Object.entries(data).map(([key, value]) => [key, base64(value)]));
    this.secrets.set(name, { metadata: { name, namespace: 'shop' }, data: encoded });
  }

  directoryOf(plugin: Pick<VolumePlugin, 'name'>, volumeName: string): string {
    return volumeDirectory(this.root, podUid, plugin.name, volumeName);
  }

  isMarked(markerName: string): boolean {
    return existsSync(readyMarker(this.root, podUid, markerName));
  }

  setUp<Source>(
    plugin: VolumePlugin<Source>,
    what: Volume | VolumeSpec,
    overrides: Partial<SetUpRequest<Source>> = {},
    signal: AbortSignal = new AbortController().signal,
  ): Promise<SetUpOutcome> {
    const spec = 'name' in what ? inlineSpec(what) : what;
    const source = plugin.sourceOf(spec);
    assert.ok(source !== undefined, `${plugin.name} does not know this volume`);
    const volumeName = specName(spec);
    const directory = this.directoryOf(plugin, volumeName);
    const request = { pod: testPod(), spec, source, volumeName, directory, isRemount: false, isReconstructed: false };
    return plugin.setUp({ ...request, ...overrides }, signal);
  }

  tearDown(plugin: Pick<VolumePlugin, 'name' | 'tearDown'>, volumeName: string): Promise<void> {
    const directory = this.directoryOf(plugin, volumeName);
    return plugin.tearDown({ podUid, volumeName, directory }, new AbortController().signal);
  }
}

/** `1777`: the permission bits of a path, in octal. */
export function modeOf(path: string): string {
  return (lstatSync(path).mode & 0o7777).toString(8);
}

/**
 * Reads a projected volume the way tests want to compare it. For tests alone. `a.conf: text` for each visible file, through the
 * first-level links, by path. Binary content reads as latin1.
 */
export function visibleFiles(volume: string): Record<string, string> {
  const found: Record<string, string> = {};
  for (const name of readdirSync(volume).sort()) {
    if (!name.startsWith('..')) Object.assign(found, filesBelow(volume, name));
  }
  return found;
}

/** What `..data` leads to, or undefined when it leads nowhere. */
export function liveFiles(volume: string): Record<string, string> | undefined {
  const live = liveVersion(volume);
  if (live === undefined) return undefined;
  return Object.assign(
    {},
    ...readdirSync(join(volume, live))
      .sort()
      .map((name) => filesBelow(join(volume, live), name)),
  );
}

export function liveVersion(volume: string): string | undefined {
  return readdirSync(volume).includes('..data') ? readlinkSync(join(volume, '..data')) : undefined;
}

function filesBelow(base: string, path: string): Record<string, string> {
  const full = join(base, path);
  const followed = lstatSync(full).isSymbolicLink() ? join(base, readlinkSync(full)) : full;
  if (!lstatSync(followed).isDirectory()) return { [path]: readFileSync(full, 'latin1') };
  return Object.assign(
    {},
    ...readdirSync(full)
      .sort()
      .map((name) => filesBelow(base, `${path}/${name}`)),
  );
}

/** Every name in the volume itself; the version's own is shown as `<version>`, so that it can be written in a test. */
export function namesIn(volume: string): string[] {
  const live = liveVersion(volume);
  return readdirSync(volume)
    .map((name) => (name === live ? '<version>' : name))
    .sort();
}
