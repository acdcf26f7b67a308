/** The plugins of this node: finds the one that a volume, or the name of a directory on disk, belongs to. */
import { systemClock } from '../base/clock.ts';
import type { Timers } from '../base/timers.ts';
import { Turns } from '../base/turns.ts';
import { systemPrograms } from '../disk/devices/programs.ts';
import type { Mounts } from '../disk/mounts/mounts.ts';
import { MemoryDirectories } from '../disk/pods/memory-directories.ts';
import { foreignVolumeAdvice } from '../kube/kinds/storage/foreign-volumes.ts';
import type { VolumeSpec } from '../kube/references/volume-spec.ts';
import { qualifiedNameProblems } from '../kube/values/names.ts';
import { configMapPlugin } from './configmap.ts';
import { downwardApiPlugin } from './downwardapi.ts';
import { EmptyDirectories, emptyDirPlugin } from './empty-dir.ts';
import { hostPathPlugin } from './host-path.ts';
import { imagePlugin } from './image.ts';
import { localPlugin } from './local.ts';
import { nfsPlugin } from './nfs.ts';
import { type NotifyPlugin, type VolumePlugin, VolumeError } from './plugin.ts';
import { type ProjectedSources, projectedPlugin } from './projected.ts';
import { type BeforeRemoval, ProjectionVolumes } from './projection.ts';
import { secretPlugin } from './secret.ts';

/** A plugin and the part of the spec that it recognised as its own. */
export interface PluginMatch {
  readonly plugin: VolumePlugin;
  readonly source: unknown;
}

export class PluginRegistry {
  readonly #plugins: ReadonlyMap<string, VolumePlugin>;

  private constructor(plugins: ReadonlyMap<string, VolumePlugin>) {
    this.#plugins = plugins;
  }

  /** One bad plugin does not cost the node the good ones: the problems come back beside the registry. */
  static of(plugins: Iterable<VolumePlugin>): {
    readonly registry: PluginRegistry;
    readonly problems: readonly VolumeError[];
  } {
    const accepted = new Map<string, VolumePlugin>();
    const problems: VolumeError[] = [];
    for (const plugin of plugins) {
      const problem = problemOf(plugin.name, accepted);
      if (problem === undefined) accepted.set(plugin.name, plugin);
      else problems.push(new VolumeError('InvalidPlugin', problem));
    }
    return { registry: new PluginRegistry(accepted), problems };
  }

  findBySpec(spec: VolumeSpec | undefined): PluginMatch {
    if (spec === undefined) throw new VolumeError('PluginNotFound', 'could not find plugin because volume spec is nil');
    const matches: PluginMatch[] = [];
    for (const plugin of this.#plugins.values()) {
      const source = plugin.sourceOf(spec);
      if (source !== undefined) matches.push({ plugin, source });
    }
    const particular = matches.filter(({ plugin }) => plugin.isFallback !== true);
    const [match, ...others] = particular.length > 0 ? particular : matches;
    if (match === undefined) {
      const advice = foreignVolumeAdvice(spec.volume ?? spec.persistentVolume.spec);
      const text = 'no volume plugin matched'; // the kubelet's words
      throw new VolumeError('PluginNotFound', advice === undefined ? text : `${text}: ${advice}`);
    }
    if (others.length > 0) {
      const names = matches.map(({ plugin }) => plugin.name).join(',');
      throw new VolumeError('PluginNotFound', `multiple volume plugins matched: ${names}`);
    }
    return match;
  }

  findByName(name: string): VolumePlugin {
    const plugin = this.#plugins.get(name);
    if (plugin === undefined) throw new VolumeError('PluginNotFound', `no volume plugin matched name: ${name}`);
    return plugin;
  }

  all(): readonly VolumePlugin[] {
    return [...this.#plugins.values()];
  }
}

function problemOf(name: string, accepted: ReadonlyMap<string, VolumePlugin>): string | undefined {
  const problems = qualifiedNameProblems(name);
  if (problems.length > 0) return `volume plugin has invalid name: "${name}": ${problems.join(';')}`;
  return accepted.has(name) ? `volume plugin "${name}" was registered more than once` : undefined;
}

export interface StandardPluginDeps extends ProjectedSources {
  /** The node's root directory: absolute, and without symbolic links. */
  readonly root: string;
  readonly mounts: Mounts;
  /** A directory on a tmpfs that only this user can enter, or undefined; asked only where nothing can be mounted. */
  readonly privateTmpfs: () => string | undefined;
  readonly now: () => number;
  /** An unsigned 32-bit number. */
  readonly random: () => number;
  readonly notify: NotifyPlugin;
  /** Of configMap, secret, downwardAPI and projected volumes. */
  readonly beforeRemoval?: BeforeRemoval;
  /** Of the same: replaced versions stay for a second, if these run. */
  readonly timers?: Pick<Timers, 'after'>;
}

export function standardPlugins(deps: StandardPluginDeps): readonly VolumePlugin[] {
  const { root, mounts, privateTmpfs, now, random, notify, beforeRemoval, timers, configMaps, secrets, nodes } = deps;
  const warn = (message: string): void => notify({ kind: 'MemoryElsewhere', message });
  const programs = systemPrograms();
  const turns = new Turns(now);
  const memory = new MemoryDirectories({ mounts, privateTmpfs, warn });
  const emptyDirectories = new EmptyDirectories({ root, mounts, memory, turns, notify });
  const volumes = new ProjectionVolumes({
    emptyDirectories,
    nodes,
    names: { now, random },
    turns,
    notify,
    ...(beforeRemoval !== undefined && { beforeRemoval }),
    ...(timers !== undefined && { timers }),
  });
  return [
    configMapPlugin(configMaps, volumes),
    secretPlugin(secrets, volumes),
    downwardApiPlugin(nodes, volumes),
    projectedPlugin(deps, volumes),
    emptyDirPlugin({ nodes, emptyDirectories }),
    hostPathPlugin(programs),
    localPlugin({ root, mounts, programs, notify, turns, clock: { ...systemClock, now } }),
    nfsPlugin({ root, mounts, programs }),
    imagePlugin(),
  ];
}
