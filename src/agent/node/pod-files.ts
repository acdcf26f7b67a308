/**
 * The files of pods on this machine that are neither volumes nor the runtime's own: their directories, logs and termination
 * messages. What a container can write to is never followed through a link and never read without a bound.
 */
import { closeSync, constants, fstatSync, fchmodSync, openSync, readSync } from 'node:fs';
import { mkdir, readdir, rm } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import type { Clock } from '../../base/clock.ts';
import { errorCode } from '../../base/errors.ts';
import { makePodDirectories } from '../../disk/pod-directories.ts';
import { containerDirectory, podDirectory, podsDirectory } from '../../kube/node-layout.ts';
import type { Pod } from '../../kube/objects/pod.ts';
import type { PodLogOptions } from '../../kube/pod-log-options.ts';
import { openLog, readLog } from '../../node-server/logs/read-log.ts';
import type { ContainerFiles } from '../../pods/container-files.ts';

export interface PodFilesDeps {
  readonly root: string;
  readonly clock: Clock;
  /** Removes what a pod that is gone has left, but nothing that is mounted or a volume's content. */
  readonly removeOrphan: (podUid: string, signal: AbortSignal) => Promise<void>;
}

export function podFiles({ root, clock, removeOrphan }: PodFilesDeps): ContainerFiles {
  return {
    podDirectory: (podUid) => podDirectory(root, podUid),
    logDirectory: ({ metadata: { namespace = '', name, uid = '' } }: Pod) =>
      join(logsDirectory(root), `${namespace}_${name}_${uid}`),
    async makePodDirectories({ metadata: { uid = '' } }) {
      makePodDirectories(podDirectory(root, uid));
    },
    async podDirectories() {
      return await namesIn(podsDirectory(root));
    },
    async removePodDirectories(podUid, signal) {
      for (const name of await namesIn(logsDirectory(root))) {
        if (name.endsWith(`_${podUid}`)) await rm(join(logsDirectory(root), name), { recursive: true, force: true });
      }
      await removeOrphan(podUid, signal);
    },
    async makeMessageFile(podUid, container, attempt) {
      const path = join(containerDirectory(root, podUid, container), String(attempt));
      await mkdir(dirname(path), { recursive: true, mode: 0o750 });
      const flags = constants.O_CREAT | constants.O_WRONLY | constants.O_TRUNC | constants.O_NOFOLLOW;
      const descriptor = openSync(path, flags, 0o666);
      fchmodSync(descriptor, 0o666); // whoever the container runs as
      closeSync(descriptor);
      return path;
    },
    async readMessageFile(path, bytesMax) {
      return readBounded(path, bytesMax);
    },
    async tailLog(path, bytesMax, linesMax, signal) {
      const chunks: Buffer[] = [];
      const options = { ...wholeLog, tailLines: linesMax };
      const file = await openLog(path).catch(() => undefined);
      if (file === undefined) return '';
      for await (const chunk of readLog(clock, file, { path, isRunning: () => false }, options, signal)) {
        chunks.push(chunk);
      }
      const all = Buffer.concat(chunks);
      return all.subarray(Math.max(0, all.length - bytesMax)).toString('utf8');
    },
    async removeLog(path) {
      await rm(path, { force: true });
    },
  };
}

const wholeLog: PodLogOptions = {
  follow: false,
  previous: false,
  timestamps: false,
  stream: 'All',
  insecureSkipTLSVerifyBackend: false,
};

export function logsDirectory(root: string): string {
  return join(root, 'logs');
}

async function namesIn(directory: string): Promise<readonly string[]> {
  try {
    return await readdir(directory);
  } catch (error) {
    if (errorCode(error) === 'ENOENT') return [];
    throw error;
  }
}

/** Opened without waiting: a container may have put a pipe in its place. */
function readBounded(path: string, bytesMax: number): string {
  let descriptor: number;
  try {
    descriptor = openSync(path, constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK);
  } catch {
    return '';
  }
  try {
    if (!fstatSync(descriptor).isFile()) return '';
    const buffer = Buffer.alloc(bytesMax);
    return buffer.subarray(0, readSync(descriptor, buffer)).toString('utf8');
  } finally {
    closeSync(descriptor);
  }
}
