/** The runtime that a node was told to use: processes of this machine, or what answers at a socket of the container runtime interface. */
import { readdir, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { OperatingError, messageOf } from '../../base/errors.ts';
import { systemMounts } from '../../disk/mounts/mounts.ts';
import { replaceableMounts } from '../../disk/mounts/replaceable-mounts.ts';
import { shareDirectory, unshareDirectory } from '../../disk/mounts/shared-directory.ts';
import { makeDirectories } from '../../disk/paths/directories.ts';
import { readPrivateFile, replacePrivateFile } from '../../disk/paths/node-files.ts';
import { podsDirectory } from '../../kube/values/node-layout.ts';
import { openCriRuntime } from '../../runtimes/cri/open-cri-runtime.ts';
import { type OpenRuntime, type OpenedRuntime, type RuntimeParts, processRuntime } from './process-runtime.ts';

/**
 * What is mounted for a pod later has to reach its containers, and what a driver in a container mounts has to reach this node: the
 * directories of pods and of plugins are shared as long as this node has pods.
 */
const criRuntime: OpenRuntime = async ({ root, settings, clock, drains, notify, afterClose, signal }) => {
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
  const shared = [pods, join(root, 'plugins')];
  try {
    for (const directory of shared) {
      makeDirectories(directory);
      shareDirectory(directory, mounts, replaceableMounts(mounts));
    }
  } catch (error) {
    limited(`what is mounted for a pod after its start does not reach its containers: ${messageOf(error)}`);
  }
  if (drains) {
    afterClose(async () => {
      for (const directory of shared) unshareDirectory(directory, mounts);
    });
  }
  return runtime;
};

/** Without what to do about it, which differs from caller to caller. */
export function whyNoContainerRuntime(error: unknown): string {
  return messageOf(error instanceof Error && error.cause !== undefined ? error.cause : error);
}

const openers = { process: processRuntime, cri: criRuntime } as const;
type Choice = keyof typeof openers;

/**
 * `auto` prefers containers to processes, and says what it took. Pods from before stay where they run, also if a container runtime
 * was installed since, or is only slow: in another runtime all of them would be started a second time.
 */
export const chosenRuntime: OpenRuntime = async (parts) => {
  const { root, settings, drains, signal, afterClose } = parts;
  const file = join(root, choiceFile);
  const [choice, runtime] =
    settings.runtime === 'auto'
      ? await anyRuntime(parts, await choiceBefore(root))
      : [settings.runtime, await openers[settings.runtime](parts)];
  replacePrivateFile(file, choice);
  if (drains) {
    afterClose(async () => {
      if (signal.aborted) await rm(file, { force: true });
    });
  }
  return runtime;
};

/** Below the root: what its pods were started with. */
const choiceFile = 'chosen-runtime';

/** Undefined where there are no pods, or all were ended. */
async function choiceBefore(root: string): Promise<Choice | undefined> {
  const pods = await readdir(podsDirectory(root));
  const choice = readPrivateFile(join(root, choiceFile));
  return pods.length > 0 && (choice === 'process' || choice === 'cri') ? choice : undefined;
}

async function anyRuntime(parts: RuntimeParts, before: Choice | undefined): Promise<readonly [Choice, OpenedRuntime]> {
  const { settings, notify, signal } = parts;
  const endAll = 'to change that, end the pods first: run once with --drain';
  const processes = async (why: string): Promise<readonly [Choice, OpenedRuntime]> => {
    notify({ kind: 'RuntimeChosen', message: `containers are processes of this machine, without images: ${why}` });
    return ['process', await processRuntime(parts)];
  };
  if (before === 'process') return await processes(`those from before are; ${endAll}`);
  try {
    const runtime = await criRuntime(parts);
    const message = `containers run in ${runtime.name} ${runtime.version} at ${settings.containerRuntimeEndpoint}`;
    notify({ kind: 'RuntimeChosen', message });
    return ['cri', runtime];
  } catch (error) {
    signal.throwIfAborted();
    if (before === undefined) return await processes(whyNoContainerRuntime(error));
    const message = `Cannot go on with the pods of this node, which run in a container runtime: ${messageOf(error)}; ${endAll}`;
    throw new OperatingError('RuntimeUnavailable', message, { cause: error });
  }
}
