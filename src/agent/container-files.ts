/** The files of pods and containers below the node's root, with the kubelet's layout; logs beside it, a folder for each pod. */
import { closeSync, constants, fstatSync, mkdirSync, openSync, readSync, rmSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { errorCode } from '../base/errors.ts';
import { writeInPlace } from '../disk/paths/write-in-place.ts';
import { makePodDirectories, requirePodDirectories } from '../disk/pod-directories.ts';
import { systemCallError } from '../disk/system-call-error.ts';
import { containerDirectory, podDirectory } from '../kube/values/node-layout.ts';
import type { ContainerFiles } from '../pods/container-files.ts';
import { podNamespace, podUid } from '../pods/pod-names.ts';

interface ContainerFilesSettings {
  /** The node's root directory. */
  readonly root: string;
  readonly logRoot: string;
  /** Reads the end of a log in the format of its runtime. */
  readonly tailLog: ContainerFiles['tailLog'];
}

export function containerFiles({ root, logRoot, tailLog }: ContainerFilesSettings): ContainerFiles {
  return {
    tailLog,
    podDirectory: (uid) => podDirectory(root, uid),
    logDirectory: (pod) => join(logRoot, `${podNamespace(pod)}_${pod.metadata.name}_${podUid(pod)}`),
    async makePodDirectories(pod) {
      const directory = podDirectory(root, podUid(pod));
      requirePodDirectories(directory);
      makePodDirectories(directory);
    },
    async makeMessageFile(uid, container, attempt) {
      const file = join(containerDirectory(root, uid, container), String(attempt));
      guard(dirname(file), () => mkdirSync(dirname(file), { recursive: true, mode: 0o750 }));
      // Whoever the container runs as has to be able to write it; its directory lets nobody else near.
      writeInPlace(file, '', 0o666);
      return file;
    },
    readMessageFile: async (path, bytesMax) => readBeginning(path, bytesMax),
    async removeLog(path) {
      guard(path, () => rmSync(path, { force: true }));
    },
  };
}

function readBeginning(path: string, bytesMax: number): string {
  let file: number;
  try {
    file = openSync(path, constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK);
  } catch (error) {
    if (errorCode(error) === 'ENOENT') return '';
    throw systemCallError(error, path);
  }
  try {
    if (!fstatSync(file).isFile()) return '';
    const buffer = Buffer.alloc(bytesMax);
    return buffer.subarray(0, readSync(file, buffer, 0, bytesMax, 0)).toString('utf8');
  } finally {
    closeSync(file);
  }
}

function guard(path: string, act: () => void): void {
  try {
    act();
  } catch (error) {
    throw systemCallError(error, path);
  }
}
