/**
 * What a container's root is made of: which directories to prepare and what to mount where, in which order. Pure: the host
 * is seen through `HostView`, so that every decision can be tested without a mount. The launcher carries it out.
 *
 * The work directory is a small tmpfs of the container's own:
 *   m        the root to be
 *   skel     what the root has and the host has not: mount points (with a writable root: the writable layer)
 *   dirs     the same for each directory of the host that is shown
 *   dev tmp run shm   the container's own, bound to their places
 *   hidden   empty, put over what a container must not see
 */
import { RuntimeError } from '../../runtime.ts';
import { basePlan } from './base-plan.ts';
import { type PathLook, type RootPath, pathBelow, isBelow, resolveInRoot } from './root-path.ts';

export interface HostView {
  /** One path of the host, its last link not followed. */
  look(path: string): PathLook;
  entries(directory: string): readonly string[];
  readonly mounts: readonly HostMount[];
}

export interface HostMount {
  readonly mountPoint: string;
  readonly fileSystem: string;
  readonly options: readonly string[];
  /** `shared`: mounts made below it later reach a container, and those of a container the host. `slave`: the first alone. */
  readonly propagation: 'shared' | 'slave' | 'private';
}

const propagations = { None: 'rprivate', HostToContainer: 'rslave', Bidirectional: 'rshared' } as const;

export interface SandboxRequest {
  /** Where the container's tmpfs gets mounted. */
  readonly work: string;
  /** `overlay`: as root. `binds`: in a user namespace, where an overlay of `/` is refused. */
  readonly technique: 'overlay' | 'binds';
  readonly writableRoot: boolean;
  /** With neither, /tmp and /run alone can be written to. */
  readonly readOnlyRoot: boolean;
  readonly privileged: boolean;
  /** What of the machine's files the container sees: a directory that becomes its root, and others that stand in it. */
  readonly view: { readonly root: string; readonly directories: readonly string[] };
  /** Whether it has a network of its own, of which the kernel tells it then. */
  readonly ownNetwork: boolean;
  /** A file that says how names are resolved; undefined: as on the machine. */
  readonly resolver: string | undefined;
  /** Directories and files of the host that no container may see. */
  readonly hidden: readonly string[];
  readonly volumes: readonly VolumeMount[];
  readonly devices: readonly DeviceMount[];
}

export interface VolumeMount {
  readonly source: string;
  readonly kind: 'directory' | 'file';
  readonly target: string;
  readonly readOnly: boolean;
  readonly recursiveReadOnly: boolean;
  /** Whether mounts that are made later are seen on the other side. */
  readonly propagation: 'None' | 'HostToContainer' | 'Bidirectional';
}

interface DeviceMount {
  readonly source: string;
  readonly target: string;
}

export interface SandboxPlan {
  /** To be made below the work directory, parents included. */
  readonly directories: readonly string[];
  readonly files: readonly string[];
  readonly links: readonly { readonly path: string; readonly to: string }[];
  readonly modes: readonly { readonly path: string; readonly mode: number }[];
  /** In this order. */
  readonly mounts: readonly PlannedMount[];
  /** Mount points that are missing in a volume: they are made in the volume itself, which others may write to. */
  readonly volumePoints: readonly VolumePoint[];
}

export interface PlannedMount {
  readonly source: string;
  /** In the container's root, free of links. */
  readonly target: string;
  readonly type: string;
  readonly options: readonly string[];
}

export interface VolumePoint {
  readonly volume: string;
  readonly below: string;
  readonly kind: 'directory' | 'file';
}

/** A mount and what can be seen and made below it. */
interface Layer {
  readonly target: string;
  /** What is there already. */
  readonly look: (below: string) => PathLook;
  /** Makes a mount point. */
  readonly make: (below: string, kind: 'directory' | 'file') => void;
}

export class SandboxBuilder {
  readonly #request: SandboxRequest;
  readonly #host: HostView;
  readonly #directories = new Set<string>();
  readonly #files = new Set<string>();
  readonly #mounts: PlannedMount[] = [];
  readonly #volumePoints: VolumePoint[] = [];
  readonly #links: { path: string; to: string }[] = [];
  readonly #modes: { path: string; mode: number }[] = [];
  readonly #layers: Layer[] = [];

  constructor(request: SandboxRequest, host: HostView) {
    this.#request = request;
    this.#host = host;
  }

  /** A directory of the host, with a layer of our own (`own`) on top that has what is missing there and what gets written. */
  layered(target: string, source: string, own: string): void {
    const { writableRoot } = this.#request;
    this.directory(own);
    // The two directories of a writable layer have to be beside each other.
    if (writableRoot) this.directory(`${own}.work`);
    const layers = writableRoot
      ? ['rw', `lowerdir=${source}`, `upperdir=${this.inWork(own)}`, `workdir=${this.inWork(`${own}.work`)}`]
      : ['ro', `lowerdir=${this.inWork(own)}:${source}`];
    // As root not nosuid: what a container may gain by a setuid program is decided by no-new-privileges and the bounding set.
    const options = [...layers, 'nodev', ...(this.#request.technique === 'overlay' ? [] : ['nosuid'])];
    this.#mount(
      target,
      { source: 'overlay', type: 'overlay', options },
      {
        target,
        look: (path) => this.#lookOwn(join(own, path)) ?? this.#host.look(join(source, path)),
        make: (path, kind) => this.#makeOwn(join(own, path), kind),
      },
    );
  }

  /** A directory of our own, empty but for what gets mounted in it and what the skeleton has `prepared`. */
  own(target: string, own: string, options: readonly string[], prepared?: (below: string) => PathLook): void {
    this.#directories.add(own);
    this.#mount(
      target,
      { source: this.inWork(own), type: 'none', options: ['bind', ...options] },
      {
        target,
        look: (path) => (path === '' ? { kind: 'directory' } : (this.#lookOwn(join(own, path)) ?? prepared?.(path))),
        make: (path, kind) => this.#makeOwn(join(own, path), kind),
      },
    );
  }

  /** A path of the host; nothing can be made in it. */
  host(source: string, target: string, type: string, options: readonly string[]): void {
    this.#mount(
      target,
      { source, type, options },
      {
        target,
        look: (path) => this.#host.look(join(source, path)),
        make: (path) => {
          throw new RuntimeError(`Cannot mount at "${join(target, path)}": it does not exist on this machine`);
        },
      },
    );
  }

  volume({ source, kind, target, readOnly, recursiveReadOnly, propagation }: VolumeMount): void {
    const path = this.point(target, kind);
    if (isBelow('/proc', path)) throw new RuntimeError(`Cannot mount at "${target}": it is inside of /proc`);
    if (path === '/') throw new RuntimeError(`Cannot mount at "${target}": it is the container's root`);
    const access = recursiveReadOnly ? ['rro'] : readOnly ? ['ro'] : [];
    // A privileged container can make device files anyway, and a driver in it hands on those that it has.
    const devices = this.#request.privileged ? [] : ['nodev'];
    this.#mount(
      path,
      { source, type: 'none', options: ['rbind', ...access, ...devices, propagations[propagation]] },
      {
        target: path,
        look: (rest) => (rest === '' ? { kind } : this.#host.look(join(source, rest))),
        make: (rest, wanted) => {
          this.#volumePoints.push({ volume: source, below: rest, kind: wanted });
        },
      },
    );
    // A volume that reaches what is hidden shows it as empty, unless the container may do everything anyway.
    for (const hidden of this.#request.privileged || kind === 'file' ? [] : this.#request.hidden) {
      if (hidden !== source && isBelow(source, hidden) && this.#host.look(hidden) !== undefined) {
        this.hide(join(path, pathBelow(source, hidden)), this.#host.look(hidden));
      }
    }
  }

  /** Covers what stands at a place of the container's root. */
  hide(target: string, seen: PathLook): void {
    if (seen?.kind === 'file') this.host('/dev/null', target, 'none', ['bind', 'ro']);
    else if (seen?.kind === 'directory') this.own(target, 'hidden', ['ro', 'nosuid', 'nodev', 'noexec']);
  }

  /** The place in the root where something of that kind can be mounted; made when it is missing. */
  point(wanted: string, kind: 'directory' | 'file'): string {
    const found = this.resolve(wanted);
    if (found.kind === 'missing') {
      const layer = this.#layerOf(found.path);
      layer?.make(pathBelow(layer.target, found.path), kind);
    } else if (found.kind !== kind) {
      throw new RuntimeError(
        `Cannot mount at "${wanted}": not a directory on one side: a ${kind} cannot be mounted on a ${found.kind}`,
      );
    }
    return found.path;
  }

  resolve(path: string): RootPath {
    return resolveInRoot(path, (at) => this.#look(at));
  }

  inWork(path: string): string {
    return `${this.#request.work}/${path}`;
  }

  directory(path: string, mode?: number): void {
    this.#directories.add(path);
    if (mode !== undefined) this.#modes.push({ path, mode });
  }

  link(path: string, to: string): void {
    this.#links.push({ path, to });
  }

  plan(): SandboxPlan {
    return {
      directories: [...this.#directories],
      files: [...this.#files],
      links: this.#links,
      modes: this.#modes,
      mounts: this.#mounts,
      volumePoints: this.#volumePoints,
    };
  }

  #mount(target: string, mount: Omit<PlannedMount, 'target'>, layer: Layer): void {
    this.#mounts.push({ ...mount, target });
    this.#layers.push(layer);
  }

  #layerOf(path: string): Layer | undefined {
    // The longest target covers; of two at one place, the later.
    return this.#layers
      .filter(({ target }) => isBelow(target, path))
      .reduce<Layer | undefined>(
        (best, layer) => (best && best.target.length > layer.target.length ? best : layer),
        undefined,
      );
  }

  #look(path: string): PathLook {
    const layer = this.#layerOf(path);
    return layer?.look(pathBelow(layer.target, path));
  }

  #lookOwn(path: string): PathLook {
    if (this.#files.has(path)) return { kind: 'file' };
    if ([...this.#directories].some((made) => isBelow(path, made))) return { kind: 'directory' };
    return [...this.#files].some((made) => isBelow(path, made)) ? { kind: 'directory' } : undefined;
  }

  #makeOwn(path: string, kind: 'directory' | 'file'): void {
    if (kind === 'directory') {
      this.#directories.add(path);
      return;
    }
    this.#directories.add(path.slice(0, path.lastIndexOf('/')));
    this.#files.add(path);
  }
}

export function planSandbox(request: SandboxRequest, host: HostView): SandboxPlan {
  const builder = new SandboxBuilder(request, host);
  basePlan(builder, request, host);
  // Parents before what is below them, whatever the order in the pod: otherwise the parent would cover it. Asked again for
  // each, because a link in a volume that was just mounted can lead anywhere in the root.
  const left = new Set(request.volumes);
  for (let count = left.size; count > 0; count -= 1) {
    const depths = [...left].map((volume) => ({
      volume,
      depth: builder.resolve(volume.target).path.split('/').length,
    }));
    const next = depths.reduce((best, one) => (one.depth < best.depth ? one : best));
    builder.volume(next.volume);
    left.delete(next.volume);
  }
  for (const { source, target } of request.devices) {
    // That keeps nobody from writing to a device, but from changing its mode and owner, which are the machine's.
    builder.host(source, builder.point(target, 'file'), 'none', ['bind', 'ro']);
  }
  return builder.plan();
}

function join(directory: string, path: string): string {
  return path === '' ? directory : `${directory === '/' ? '' : directory}/${path.replace(/^\//, '')}`;
}
