/** The plugins of this node: finds the one that a volume, or the name of a directory on disk, belongs to. */
import { MountletError } from '../base/errors.ts';
import type { VolumeSpec } from '../kube/references/volume-spec.ts';
import { qualifiedNameProblems } from '../kube/values/names.ts';
import type { VolumePlugin } from './plugin.ts';

class InvalidPluginError extends MountletError {
  readonly reason = 'InvalidPlugin';
}

export class PluginNotFoundError extends MountletError {
  readonly reason = 'PluginNotFound';
}

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
    readonly problems: readonly InvalidPluginError[];
  } {
    const accepted = new Map<string, VolumePlugin>();
    const problems: InvalidPluginError[] = [];
    for (const plugin of plugins) {
      const problem = problemOf(plugin.name, accepted);
      if (problem === undefined) accepted.set(plugin.name, plugin);
      else problems.push(new InvalidPluginError(problem));
    }
    return { registry: new PluginRegistry(accepted), problems };
  }

  findBySpec(spec: VolumeSpec | undefined): PluginMatch {
    if (spec === undefined) throw new PluginNotFoundError('could not find plugin because volume spec is nil');
    const matches: PluginMatch[] = [];
    for (const plugin of this.#plugins.values()) {
      const source = plugin.sourceOf(spec);
      if (source !== undefined) matches.push({ plugin, source });
    }
    const [match, ...others] = matches;
    if (match === undefined) throw new PluginNotFoundError('no volume plugin matched');
    if (others.length > 0) {
      const names = matches.map(({ plugin }) => plugin.name).join(',');
      throw new PluginNotFoundError(`multiple volume plugins matched: ${names}`);
    }
    return match;
  }

  findByName(name: string): VolumePlugin {
    const plugin = this.#plugins.get(name);
    if (plugin === undefined) throw new PluginNotFoundError(`no volume plugin matched name: ${name}`);
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
