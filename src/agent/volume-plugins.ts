/** Every volume kind this program knows, wired to what it needs. */
import { randomBytes } from 'node:crypto';
import type { Clock } from '../base/clock.ts';
import { privateTmpfsDirectory } from '../disk/file-system.ts';
import { MemoryDirectories } from '../disk/memory-directories.ts';
import type { Mounts } from '../disk/mounts.ts';
import { configMapPlugin } from '../plugins/configmap.ts';
import { downwardApiPlugin } from '../plugins/downwardapi.ts';
import { emptyDirPlugin } from '../plugins/empty-dir.ts';
import { EmptyDirectories } from '../plugins/empty-directories.ts';
import { hostPathPlugin } from '../plugins/host-path.ts';
import { imagePlugin } from '../plugins/image.ts';
import { localPlugin } from '../plugins/local.ts';
import type { NotifyPlugin } from '../plugins/plugin.ts';
import type { ProjectedSources } from '../plugins/projected-payload.ts';
import { projectedPlugin } from '../plugins/projected.ts';
import { ProjectionVolumes } from '../plugins/projection-volume.ts';
import { PluginRegistry } from '../plugins/registry.ts';
import { secretPlugin } from '../plugins/secret.ts';

export interface VolumePluginDeps {
  readonly root: string;
  readonly mounts: Mounts;
  readonly clock: Clock;
  readonly objects: ProjectedSources;
  readonly notify: NotifyPlugin;
  /** A directory in memory that belongs to the user, if there is one: XDG_RUNTIME_DIR. */
  readonly runtimeDirectory: string | undefined;
  readonly uid: number;
}

export function volumePlugins(deps: VolumePluginDeps): PluginRegistry {
  const { root, mounts, clock, objects, notify, runtimeDirectory, uid } = deps;
  const { configMaps, secrets, nodes } = objects;
  const memory = new MemoryDirectories({
    mounts,
    privateTmpfs: () => privateTmpfsDirectory({ ...(runtimeDirectory !== undefined && { runtimeDirectory }), uid }),
    tell: (message) => notify({ kind: 'MemoryElsewhere', message }),
  });
  const emptyDirectories = new EmptyDirectories({ root, mounts, memory, notify });
  const random = (): number => randomBytes(4).readUInt32LE();
  const projections = new ProjectionVolumes({ emptyDirectories, nodes, names: { now: () => clock.now(), random } });
  const { registry, problems } = PluginRegistry.of([
    configMapPlugin(configMaps, projections),
    secretPlugin(secrets, projections),
    downwardApiPlugin(nodes, projections),
    projectedPlugin(objects, projections),
    emptyDirPlugin({ nodes, emptyDirectories, mounts }),
    hostPathPlugin(),
    localPlugin({ mounts, notify, root, now: () => clock.now() }),
    imagePlugin(),
  ]);
  const [problem] = problems;
  if (problem !== undefined) throw problem;
  return registry;
}
