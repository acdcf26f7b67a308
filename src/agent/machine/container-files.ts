/** The file effects that a container's view needs, for the pods below one root: subPaths, hosts files, env files. */
import {
  closeSync,
  constants,
  fstatSync,
  mkdirSync,
  openSync,
  readFileSync,
  readSync,
  readdirSync,
  rmSync,
} from 'node:fs';
import { readdir } from 'node:fs/promises';
import { basename, dirname, isAbsolute, join } from 'node:path';
import type { Clock } from '../../base/clock.ts';
import { errorCode } from '../../base/errors.ts';
import type { Mounts } from '../../disk/mounts/mounts.ts';
import type { PlacedRestriction } from '../../disk/mounts/replaceable-mounts.ts';
import { makePodDirectories, requirePodDirectories } from '../../disk/paths/directories.ts';
import { systemPrograms } from '../../disk/devices/programs.ts';
import { writeInPlace } from '../../disk/paths/node-files.ts';
import { readInRoot } from '../../disk/paths/safe-open.ts';
import { prepareAnySubPath } from '../../disk/pods/foreign-sub-paths.ts';
import type { LiveSubPaths } from '../../disk/pods/live-sub-paths.ts';
import { podNamespace, podUid } from '../../kube/kinds/pod/pod-identity.ts';
import type { Pod } from '../../kube/kinds/pod/pod.ts';
import type { PodLogOptions } from '../../kube/kinds/pod/pod-requests.ts';
import { containerDirectory, etcHostsFile, podDirectory, podLogDirectory } from '../../kube/values/node-layout.ts';
import { systemCallError } from '../../linux/system-call-error.ts';
import { openLog, readLog } from '../../node-server/read-log.ts';
import type { ContainerFiles } from '../../pods/containers/container-request.ts';
import type { EnvironmentDeps } from '../../pods/view/environment.ts';
import type { MountsDeps, SubPathPreparer } from '../../pods/view/mounts.ts';

export function containerEffects(
  root: string,
  mounts: Mounts,
  subPaths: SubPathPreparer = fixedSubPaths(mounts),
): MountsDeps & Pick<EnvironmentDeps, 'envFiles'> {
  return {
    subPaths,
    hostsFiles: {
      readNode: async () => readFileSync('/etc/hosts', 'utf8'),
      async write(pod, content) {
        const file = etcHostsFile(root, pod.metadata.uid ?? '');
        makePodDirectories(dirname(file));
        writeInPlace(file, content, 0o644);
        return file;
      },
    },
    envFiles: { read: async ({ directory, path, bytesMax }) => readInRoot(directory, path, bytesMax) },
  };
}

/** How mounts by subPath are made on this node: as the kubelet does, or so that they follow their volume. */
export function fixedSubPaths(mounts: Mounts): SubPathPreparer {
  const machine = { mounts, programs: systemPrograms() };
  return { prepare: async (request, signal) => ({ hostPath: await prepareAnySubPath(request, machine, signal) }) };
}

interface FollowingSubPathsDeps {
  readonly mounts: Mounts;
  readonly live: LiveSubPaths;
  /** Called once, when the first subPath that could follow cannot on this machine. */
  readonly reportUnavailable: (message: string) => void;
}

/** Mounts that may follow do; the others, and all where the kernel cannot, are made as the kubelet makes them. */
export function followingSubPaths({ mounts, live, reportUnavailable }: FollowingSubPathsDeps): SubPathPreparer {
  const fixed = fixedSubPaths(mounts);
  let isReported = false;
  return {
    async prepare(request, signal) {
      if (!request.mayFollow) return fixed.prepare(request, signal);
      if (live.unavailable !== undefined) {
        if (!isReported) reportUnavailable(`subPath mounts do not follow updates on this machine: ${live.unavailable}`);
        isReported = true;
        return fixed.prepare(request, signal);
      }
      const restrictions = request.bindMountOptions.filter(isRestriction);
      const hostPath = live.prepare({ ...request, restrictions });
      return hostPath === undefined ? fixed.prepare(request, signal) : { hostPath, follows: true };
    },
    started: (container) => void live.follow(container),
  };
}

function isRestriction(option: string): option is PlacedRestriction {
  return option === 'nosuid' || option === 'nodev' || option === 'noexec';
}

/** The files of pods and containers below the node's root, with the kubelet's layout; logs beside it, a folder for each pod. */
interface ContainerFilesSettings {
  /** The node's root directory. */
  readonly root: string;
  readonly logRoot: string;
  /** Reads the end of a log in the format of its runtime. */
  readonly tailLog: ContainerFiles['tailLog'];
}

export function containerFiles({ root, logRoot, tailLog }: ContainerFilesSettings): ContainerFiles {
  const logDirectory = (pod: Pod): string =>
    podLogDirectory(logRoot, { namespace: podNamespace(pod), name: pod.metadata.name, uid: podUid(pod) });
  const isShared = !logRoot.startsWith(`${root}/`);
  /** Other nodes of this machine may have their logs beside ours: these say whose they are. */
  const ownLogs = (): readonly string[] =>
    namesIn(logRoot).filter((name) => !isShared || readEnd(join(logRoot, name, ownerFile), pathBytesMax) === root);
  return {
    tailLog,
    podDirectory: (uid) => podDirectory(root, uid),
    logDirectory,
    seccompFile: (profile) => join(root, 'seccomp', profile),
    async lastLogAttempt(pod, container) {
      const names = await readdir(join(logDirectory(pod), container)).catch(() => []);
      const attempts = names.flatMap((name) => /^(\d+)\.log/.exec(name)?.[1] ?? []).map(Number);
      return attempts.length === 0 ? undefined : Math.max(...attempts);
    },
    async makePodDirectories(pod) {
      const directory = podDirectory(root, podUid(pod));
      requirePodDirectories(directory);
      makePodDirectories(directory);
      if (!isShared) return;
      const logs = logDirectory(pod);
      guard(logs, () => mkdirSync(logs, { recursive: true, mode: 0o755 }));
      writeInPlace(join(logs, ownerFile), root, 0o644);
    },
    async makeMessageFile(uid, container, attempt) {
      const file = join(containerDirectory(root, uid, container), String(attempt));
      guard(dirname(file), () => mkdirSync(dirname(file), { recursive: true, mode: 0o750 }));
      // The user of the container must be able to write it; its directory keeps everyone else out.
      writeInPlace(file, '', 0o666);
      return file;
    },
    readMessageFile: async (path, bytesMax) => readEnd(path, bytesMax),
    async removeLog(path) {
      if (!isAbsolute(path)) return; // a container without a log
      const directory = dirname(path);
      for (const name of namesIn(directory)) {
        if (!name.startsWith(basename(path))) continue;
        guard(path, () => rmSync(join(directory, name), { force: true }));
      }
    },
    podsWithLogs: async () => ownLogs().map(podOfLogs),
    async removePodLogs(uid) {
      for (const name of ownLogs()) {
        if (podOfLogs(name) !== uid) continue;
        guard(name, () => rmSync(join(logRoot, name), { recursive: true, force: true }));
      }
    },
  };
}

/** In the logs of a pod: the root of its node. */
const ownerFile = '.mountlet-root';
const pathBytesMax = 4096;

/** `NAMESPACE_NAME_UID`. */
function podOfLogs(directory: string): string {
  return directory.slice(directory.lastIndexOf('_') + 1);
}

function namesIn(directory: string): readonly string[] {
  try {
    return readdirSync(directory);
  } catch (error) {
    if (errorCode(error) === 'ENOENT') return [];
    throw systemCallError(error, directory);
  }
}

function readEnd(path: string, bytesMax: number): string {
  let file: number;
  try {
    file = openSync(path, constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK);
  } catch (error) {
    if (['ENOENT', 'ENOTDIR'].includes(errorCode(error) ?? '')) return '';
    throw systemCallError(error, path);
  }
  try {
    const status = fstatSync(file);
    if (!status.isFile()) return '';
    const buffer = Buffer.alloc(bytesMax);
    const from = Math.max(0, status.size - bytesMax);
    return buffer.subarray(0, readSync(file, buffer, 0, bytesMax, from)).toString('utf8');
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

/** The end of a container's log as the container wrote it, for its termination message. */
const wholeLog: PodLogOptions = {
  follow: false,
  previous: false,
  timestamps: false,
  stream: 'All',
  insecureSkipTLSVerifyBackend: false,
};

export function logTail(clock: Clock): ContainerFiles['tailLog'] {
  return async (path, bytesMax, linesMax, signal) => {
    const file = await openLog(path).catch(() => undefined);
    if (file === undefined) return '';
    // A line may be as long as a container likes: no more than the end is kept at any time.
    let end = Buffer.alloc(0);
    const source = { path, isRunning: () => false };
    for await (const chunk of readLog(clock, file, source, { ...wholeLog, tailLines: linesMax }, signal)) {
      end = Buffer.concat([end, chunk]);
      end = end.subarray(Math.max(0, end.length - bytesMax));
    }
    return end.toString('utf8');
  };
}
