/** The volumes of a node: plugins over this machine's disk, subPaths that follow, and the manager that drives them. */
import { randomInt } from 'node:crypto';
import { Alarms } from '../../base/alarms.ts';
import type { Clock } from '../../base/clock.ts';
import type { ApiClient } from '../../client/api-client.ts';
import { BlockMappings } from '../../disk/devices/block-mappings.ts';
import { systemPrograms } from '../../disk/devices/programs.ts';
import { SystemDevices } from '../../disk/devices/system-devices.ts';
import { privateTmpfsDirectory } from '../../disk/mounts/file-system.ts';
import type { Mounts } from '../../disk/mounts/mounts.ts';
import { replaceableMounts } from '../../disk/mounts/replaceable-mounts.ts';
import { LiveSubPaths } from '../../disk/paths/live-sub-paths.ts';
import { PodTrees } from '../../disk/pod-trees.ts';
import { podDirectory, podsDirectory } from '../../kube/values/node-layout.ts';
import { readerOf } from '../../objects/object-manager.ts';
import { PluginRegistry } from '../../plugins/registry.ts';
import { standardPlugins } from '../../plugins/standard-plugins.ts';
import type { SubPathPreparer } from '../../pods/container-mounts.ts';
import type { NodeReader } from '../../volumes/node-reader.ts';
import { blockOperations } from '../../volumes/operations/block-operations.ts';
import { expansionOperations } from '../../volumes/operations/expand.ts';
import { NodeExpander } from '../../volumes/operations/node-expander.ts';
import type { PodSource, PodStates } from '../../volumes/pod-source.ts';
import { VolumeManager } from '../../volumes/volume-manager.ts';
import type { AgentSettings } from '../agent-settings.ts';
import { apiClaimWriter } from '../api-claim-writer.ts';
import { fixedSubPaths, followingSubPaths } from '../sub-path-preparers.ts';
import { clusterClaims, clusterTrust, noClaims } from './cluster-storage.ts';
import type { NodeObjects } from './node-objects.ts';
import type { NotifyNode } from './notices.ts';
import { subPathCleaner } from './pod-volumes.ts';

interface NodeVolumesDeps {
  readonly client: ApiClient | undefined;
  readonly clock: Clock;
  readonly mounts: Mounts;
  readonly objects: NodeObjects;
  readonly node: NodeReader;
  readonly pods: PodSource;
  readonly states: PodStates;
  readonly runtimeDirectory: string | undefined;
  readonly uid: number;
  readonly notify: NotifyNode;
}

interface NodeVolumes {
  readonly manager: VolumeManager;
  readonly subPaths: SubPathPreparer;
  /** Runs the manager, and removes what it leaves to be removed later. */
  readonly run: (signal: AbortSignal) => Promise<void>;
}

export function nodeVolumes(deps: NodeVolumesDeps, settings: AgentSettings): NodeVolumes {
  const { client, clock, mounts, objects, node, notify, runtimeDirectory, uid } = deps;
  const { rootDirectory: root, subPathUpdates, controllerAttaches, syncMs } = settings;
  const alarms = new Alarms(clock);
  const live = new LiveSubPaths({ mounts, replaceable: replaceableMounts(mounts), notify });
  const plugins = standardPlugins({
    configMaps: readerOf(objects.configMaps),
    secrets: readerOf(objects.secrets),
    nodes: { get: async (signal) => node.current() ?? (await node.read(signal)) },
    ...(client !== undefined && { tokens: objects.tokens, trustBundles: clusterTrust(client) }),
    root,
    mounts,
    privateTmpfs: () => privateTmpfsDirectory({ ...(runtimeDirectory !== undefined && { runtimeDirectory }), uid }),
    now: () => clock.now(),
    random: () => randomInt(2 ** 32),
    notify,
    // Also with updates switched off: containers that were started before go on following.
    beforeRemoval: ({ podUid, volumeName }) => live.refresh({ podDirectory: podDirectory(root, podUid), volumeName }),
    alarms,
  });
  const manager = new VolumeManager(
    {
      plugins: PluginRegistry.of(plugins).registry,
      pods: deps.pods,
      states: deps.states,
      claims: client === undefined ? noClaims : clusterClaims(client),
      node,
      subPaths: subPathCleaner(root, mounts),
      devices: new SystemDevices(),
      clock,
      notify,
      podsOnDisk: new PodTrees(podsDirectory(root)),
      operations: (shared) => ({
        ...blockOperations(shared, new BlockMappings({ mounts, programs: systemPrograms(), clock })),
        ...(client !== undefined && expansionOperations(shared, apiClaimWriter(client))),
      }),
      ...(client !== undefined && { expander: (shared) => new NodeExpander(shared, apiClaimWriter(client)) }),
    },
    { root, controllerAttach: controllerAttaches && client !== undefined, sweepMs: syncMs },
  );
  const tellUnavailable = (message: string): void => notify({ kind: 'SubPathUpdatesUnavailable', message });
  const subPaths = subPathUpdates ? followingSubPaths({ mounts, live, tellUnavailable }) : fixedSubPaths(mounts);
  return {
    manager,
    subPaths,
    run: async (signal) => {
      const ended = new AbortController();
      try {
        await Promise.all([manager.run(signal).finally(() => ended.abort()), alarms.run(ended.signal)]);
      } finally {
        alarms.ringAll();
      }
    },
  };
}
