/** The plugins every node has, wired: the one place that knows how they share their ground. */
import type { Alarms } from '../base/alarms.ts';
import { systemClock } from '../base/clock.ts';
import { Turns } from '../base/turns.ts';
import { systemPrograms } from '../disk/devices/programs.ts';
import { MemoryDirectories } from '../disk/mounts/memory-directories.ts';
import type { Mounts } from '../disk/mounts/mounts.ts';
import { configMapPlugin } from './configmap.ts';
import { downwardApiPlugin } from './downwardapi.ts';
import { emptyDirPlugin } from './empty-dir.ts';
import { EmptyDirectories } from './empty-directories.ts';
import { hostPathPlugin } from './host-path.ts';
import { imagePlugin } from './image.ts';
import { localPlugin } from './local.ts';
import { nfsPlugin } from './nfs.ts';
import type { NotifyPlugin, VolumePlugin } from './plugin.ts';
import { projectedPlugin } from './projected.ts';
import type { ProjectedSources } from './projected-payload.ts';
import { ProjectionVolumes } from './projection-volume.ts';
import type { BeforeRemoval } from './projection-volume.ts';
import { secretPlugin } from './secret.ts';

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
  /** Of the same: replaced versions stay for a second, if somebody runs these. */
  readonly alarms?: Pick<Alarms, 'after'>;
}

export function standardPlugins(deps: StandardPluginDeps): readonly VolumePlugin[] {
  const { root, mounts, privateTmpfs, now, random, notify, beforeRemoval, alarms, configMaps, secrets, nodes } = deps;
  const tell = (message: string): void => notify({ kind: 'MemoryElsewhere', message });
  const programs = systemPrograms();
  const turns = new Turns(now);
  const memory = new MemoryDirectories({ mounts, privateTmpfs, tell });
  const emptyDirectories = new EmptyDirectories({ root, mounts, memory, turns, notify });
  const volumes = new ProjectionVolumes({
    emptyDirectories,
    nodes,
    names: { now, random },
    turns,
    notify,
    ...(beforeRemoval !== undefined && { beforeRemoval }),
    ...(alarms !== undefined && { alarms }),
  });
  return [
    configMapPlugin(configMaps, volumes),
    secretPlugin(secrets, volumes),
    downwardApiPlugin(nodes, volumes),
    projectedPlugin(deps, volumes),
    emptyDirPlugin({ nodes, emptyDirectories, mounts }),
    hostPathPlugin(),
    localPlugin({ root, mounts, programs, notify, turns, clock: { ...systemClock, now } }),
    nfsPlugin({ root, mounts, programs }),
    imagePlugin(),
  ];
}
