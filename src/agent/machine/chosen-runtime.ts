/** The runtime that a node was told to use: processes of this machine, or what answers at a socket of the container runtime interface. */
import { join } from 'node:path';
import { messageOf } from '../../base/errors.ts';
import { systemMounts } from '../../disk/mounts/mounts.ts';
import { replaceableMounts } from '../../disk/mounts/replaceable-mounts.ts';
import { shareDirectory, unshareDirectory } from '../../disk/mounts/shared-directory.ts';
import { podsDirectory } from '../../kube/values/node-layout.ts';
import { openCriRuntime } from '../../runtimes/cri/open-cri-runtime.ts';
import { type OpenRuntime, processRuntime } from './process-runtime.ts';

/** What is mounted for a pod later has to reach its containers: the directory of pods is shared as long as this node has some. */
const criRuntime: OpenRuntime = async ({ root, settings, clock, drains, notify, signal }) => {
  const limited = (message: string): void => notify({ kind: 'RuntimeLimited', message });
  const pods = podsDirectory(root);
  const logRoot = settings.logsDirectory ?? join(root, 'logs');
  const mounts = systemMounts();
  const runtime = await openCriRuntime(
    {
      endpoint: settings.containerRuntimeEndpoint,
      cgroupDriver: settings.cgroupDriver,
      podPidsMax: settings.podPidsMax,
      logRoot,
      logLinks: logRoot === '/var/log/pods' ? '/var/log/containers' : undefined,
      logLimits: { bytesMax: settings.logBytesMax, filesMax: settings.logFilesMax },
      podsDirectory: pods,
    },
    { clock, report: limited },
    signal,
  );
  try {
    shareDirectory(pods, mounts, replaceableMounts(mounts));
  } catch (error) {
    limited(`what is mounted for a pod after its start does not reach its containers: ${messageOf(error)}`);
  }
  const close = runtime.close.bind(runtime);
  return Object.assign(runtime, {
    async close() {
      await close();
      if (drains) unshareDirectory(pods, mounts);
    },
  });
};

/** `auto` prefers containers to processes, and says what it took. */
export const chosenRuntime: OpenRuntime = async (parts) => {
  const { settings, notify, signal } = parts;
  if (settings.runtime === 'process') return await processRuntime(parts);
  if (settings.runtime === 'cri') return await criRuntime(parts);
  try {
    const runtime = await criRuntime(parts);
    const message = `containers run in ${runtime.name} ${runtime.version} at ${settings.containerRuntimeEndpoint}`;
    notify({ kind: 'RuntimeChosen', message });
    return runtime;
  } catch (error) {
    signal.throwIfAborted();
    const message = `containers are processes of this machine, without images: ${messageOf(error)}`;
    notify({ kind: 'RuntimeChosen', message });
    return await processRuntime(parts);
  }
};
