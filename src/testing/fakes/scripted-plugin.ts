/**
 * A volume plugin that touches nothing and does what a test says: it records every call, fails on command and can be held
 * in the middle of a step. It also watches over the manager: two calls for one directory at once, or the unmount of a
 * device that pods still use, are recorded as `violations`.
 */
import type { VolumeSpec } from '../../kube/references/volume-spec.ts';
import {
  type Attach,
  type BlockMapping,
  type DeviceMount,
  type Expand,
  type ExpandRequest,
  type NodeAttach,
  type SetUpOutcome,
  type SetUpRequest,
  type VolumePlugin,
  failureClassOf,
} from '../../plugins/plugin.ts';

export type PluginStep =
  | 'attach'
  | 'waitForAttach'
  | 'mountDevice'
  | 'setUp'
  | 'tearDown'
  | 'unmountDevice'
  | 'detach'
  | 'expand'
  | 'setUpDevice'
  | 'mapPodDevice'
  | 'unmapPodDevice'
  | 'tearDownDevice';

export interface ScriptedPluginSettings {
  readonly name?: string;
  /** plain: a volume of one pod; device: mounted once for all; attachable: connected to the node before that. */
  readonly kind?: 'plain' | 'device' | 'attachable';
  follows?: NonNullable<VolumePlugin['follows']>;
  readonly supportsMountOptions?: boolean;
  readonly byNodeAlone?: boolean;
  readonly contentName?: string;
  /** `scripted`: every optional part of it, as the plugin's other steps. */
  readonly block?: BlockMapping | 'scripted';
}

interface Hold {
  readonly arrived: Promise<void>;
  readonly release: () => void;
}

export class ScriptedPlugin implements VolumePlugin {
  readonly name: string;
  follows?: NonNullable<VolumePlugin['follows']>;
  readonly supportsMountOptions: boolean;
  readonly contentName?: string;
  readonly attach?: Attach;
  readonly leftBehind?: NonNullable<VolumePlugin['leftBehind']>;
  readonly deviceMount?: DeviceMount;
  readonly block?: BlockMapping;
  expand?: Expand;
  /** `setUp web/data`, `mountDevice disk-1`, in the order of their starts. */
  readonly calls: string[] = [];
  readonly requests: SetUpRequest[] = [];
  readonly expansions: ExpandRequest[] = [];
  readonly violations: string[] = [];
  /** What a kubelet would find on this machine now. */
  readonly mounted = new Set<string>();
  readonly devices = new Set<string>();
  readonly attached = new Set<string>();
  canAttach = true;
  isLimitReached = false;
  /** False: growing is put off. */
  canExpand = true;
  references: readonly string[] = [];
  readonly #scripts = new Map<PluginStep, (Error | undefined)[]>();
  readonly #holds = new Map<PluginStep, { arrive(): void; until: Promise<void> }>();
  readonly #inside = new Set<string>();
  readonly #leftBehind = new Set<string>();

  constructor(settings: ScriptedPluginSettings = {}) {
    const { kind = 'plain', byNodeAlone = false } = settings;
    this.name = settings.name ?? (kind === 'plain' ? 'example.com/plain' : 'example.com/disk');
    if (settings.follows !== undefined) this.follows = settings.follows;
    if (settings.contentName !== undefined) this.contentName = settings.contentName;
    this.supportsMountOptions = settings.supportsMountOptions ?? true;
    if (settings.block !== undefined) this.block = settings.block === 'scripted' ? this.#block() : settings.block;
    if (kind === 'plain') return;
    this.deviceMount = this.#deviceMount();
    this.expand = {
      expand: async (request) => {
        this.expansions.push(request);
        await this.#step('expand', storageName(request.spec));
        return this.canExpand;
      },
    };
    if (kind === 'attachable') this.attach = this.#attach(byNodeAlone);
    if (byNodeAlone) this.leftBehind = () => [...this.attached].map((name) => storageSpec(name));
  }

  /** The next calls of this step end like this, one after another; those after them succeed. */
  script(step: PluginStep, ...ends: readonly (Error | undefined)[]): void {
    this.#scripts.set(step, [...(this.#scripts.get(step) ?? []), ...ends]);
  }

  /** Forgets every end that was not used up, and every hold that was not reached. */
  stopFailing(): void {
    this.#scripts.clear();
    this.#holds.clear();
  }

  /** The next call of this step waits until it is released. */
  hold(step: PluginStep): Hold {
    let arrive = (): void => {};
    let release = (): void => {};
    const arrived = new Promise<void>((resolve) => (arrive = resolve));
    const until = new Promise<void>((resolve) => (release = resolve));
    this.#holds.set(step, { arrive, until });
    return { arrived, release };
  }

  count(step: PluginStep): number {
    return this.calls.filter((call) => call.startsWith(`${step} `)).length;
  }

  sourceOf({ volume, persistentVolume }: VolumeSpec): unknown {
    return this.deviceMount === undefined ? volume?.csi : persistentVolume?.spec.csi;
  }

  attributes(_source: unknown, { readOnly }: VolumeSpec): ReturnType<VolumePlugin['attributes']> {
    return { readOnly };
  }

  async setUp(request: SetUpRequest, signal: AbortSignal): Promise<SetUpOutcome> {
    this.requests.push(request);
    const { directory, pod, volumeName } = request;
    const what = `${pod.metadata.name}/${volumeName}`;
    await this.#making(this.mounted, directory, () => this.#step('setUp', what, signal));
    return { changed: true, files: 1, hidden: [] };
  }

  async tearDown({ directory, podUid, volumeName }: Parameters<VolumePlugin['tearDown']>[0]): Promise<void> {
    await this.#alone(directory, () => this.#step('tearDown', `${podUid}/${volumeName}`));
    this.mounted.delete(directory);
  }

  reconstruct(name: string): VolumeSpec {
    return this.deviceMount === undefined
      ? { volume: { name, csi: { driver: 'example.com' } }, readOnly: false }
      : storageSpec(name);
  }

  #deviceMount(): DeviceMount {
    return {
      identityOf: (_source, spec) => storageName(spec),
      pathOf: (_source, spec) => `/plugins/${storageName(spec)}`,
      mount: async ({ path, spec }, signal) => {
        await this.#making(this.devices, path, () => this.#step('mountDevice', storageName(spec), signal));
      },
      referencesTo: async () => this.references,
      unmount: async (path) => {
        const name = path.split('/').at(-1) ?? '';
        if ([...this.mounted].some((directory) => directory.endsWith(`/${name}`))) {
          this.violations.push(`${path} was unmounted while pods used it`);
        }
        await this.#alone(path, () => this.#step('unmountDevice', name));
        this.devices.delete(path);
      },
    };
  }

  #attach(byNodeAlone: boolean): Attach {
    const byNode: NodeAttach = {
      attach: async ({ spec }, signal) => {
        await this.#alone(storageName(spec), () => this.#step('attach', storageName(spec), signal));
        this.attached.add(storageName(spec));
        return `/dev/${storageName(spec)}`;
      },
      detach: async (identity) => {
        if (this.devices.has(`/plugins/${identity}`)) this.violations.push(`${identity} was detached while mounted`);
        await this.#alone(identity, () => this.#step('detach', identity));
        this.attached.delete(identity);
      },
    };
    return {
      canAttach: () => this.canAttach,
      ...(byNodeAlone && { byNodeAlone: byNode }),
      waitForAttach: async ({ spec, devicePath }, signal) => {
        await this.#step('waitForAttach', storageName(spec), signal);
        return devicePath === '' ? `/dev/${storageName(spec)}` : devicePath;
      },
      isLimitReached: async () => this.isLimitReached,
    };
  }

  #block(): BlockMapping {
    const mapPathOf = (spec: VolumeSpec): string => `/plugins/volumeDevices/${storageName(spec)}`;
    return {
      globalMapPathOf: (_source, spec) => mapPathOf(spec),
      setUpDevice: async ({ spec }, signal) => {
        await this.#alone(mapPathOf(spec), () => this.#step('setUpDevice', storageName(spec), signal));
        this.devices.add(mapPathOf(spec));
        return `/dev/${storageName(spec)}`;
      },
      mapPodDevice: async ({ spec, pod }, signal) => {
        const pods = `${pod.metadata.name}/${storageName(spec)}`;
        await this.#alone(pods, () => this.#step('mapPodDevice', pods, signal));
        return '';
      },
      unmapPodDevice: ({ podUid, volumeName }) =>
        this.#alone(`${podUid}/${volumeName}`, () => this.#step('unmapPodDevice', `${podUid}/${volumeName}`)),
      tearDownDevice: async (mapPath) => {
        await this.#alone(mapPath, () => this.#step('tearDownDevice', mapPath.split('/').at(-1) ?? ''));
        this.devices.delete(mapPath);
      },
      reconstruct: (_podUid, name) => storageSpec(name, { volumeMode: 'Block' }),
    };
  }

  async #step(step: PluginStep, what: string, signal?: AbortSignal): Promise<void> {
    this.calls.push(`${step} ${what}`);
    const hold = this.#holds.get(step);
    this.#holds.delete(step);
    hold?.arrive();
    await (hold === undefined ? undefined : released(hold.until, signal));
    const end = this.#scripts.get(step)?.shift();
    if (end !== undefined) throw end;
  }

  /** A failure that is uncertain leaves something behind; one that is final takes that away again. */
  async #making(made: Set<string>, place: string, act: () => Promise<void>): Promise<void> {
    try {
      await this.#alone(place, act);
      this.#leftBehind.delete(place);
      made.add(place);
    } catch (error) {
      const failure = failureClassOf(error);
      if (failure === 'uncertain' && !made.has(place)) this.#leftBehind.add(place);
      if (this.#leftBehind.has(place)) made.add(place);
      if (failure === 'final' && this.#leftBehind.delete(place)) made.delete(place);
      throw error;
    }
  }

  async #alone(place: string, act: () => Promise<void>): Promise<void> {
    if (this.#inside.has(place)) this.violations.push(`two operations at once at ${place}`);
    this.#inside.add(place);
    try {
      await act();
    } finally {
      this.#inside.delete(place);
    }
  }
}

async function released(until: Promise<void>, signal: AbortSignal | undefined): Promise<void> {
  await new Promise<void>((resolve, reject) => {
    signal?.addEventListener('abort', () => reject(signal.reason as Error), { once: true });
    void until.then(resolve);
  });
}

/** A failure of the class that a test needs. */
export class ScriptedError extends Error {
  readonly failureClass: 'uncertain' | 'transient' | 'final';
  constructor(failureClass: ScriptedError['failureClass'], message = `${failureClass} failure`) {
    super(message);
    this.failureClass = failureClass;
  }
}

function storageName({ persistentVolume }: VolumeSpec): string {
  return persistentVolume?.spec.csi?.volumeHandle ?? '';
}

type VolumeParts = Partial<NonNullable<VolumeSpec['persistentVolume']>['spec']>;

/** A PersistentVolume whose storage has the same name as it has itself. */
export function storageSpec(name: string, parts: VolumeParts = {}, readOnly = false): VolumeSpec {
  const csi = { driver: 'example.com', volumeHandle: name };
  const spec = { volumeMode: 'Filesystem', accessModes: ['ReadWriteMany'], csi, ...parts };
  return { persistentVolume: { metadata: { name }, spec }, readOnly };
}
