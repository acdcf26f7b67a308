/**
 * What this machine can do for the process runtime, found out by trying, and what follows from it: the data behind
 * `mountlet doctor`, and the powers that a runtime is opened with.
 */
import { spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { arch } from 'node:os';
import { isArchitecture } from '../../linux/system-program.ts';
import { RuntimeError } from '../runtime.ts';
import { type ControlGroups, findControlGroups } from './control-groups.ts';
import { ProcessRuntime, type ProcessRuntimeDeps, type ProcessRuntimeSettings } from './process-runtime.ts';
import type { Powers } from './sandbox/container-program.ts';
import { capabilitySetIn } from './sandbox/security.ts';

export interface Finding {
  readonly name: string;
  readonly available: boolean;
  /** What that means for pods, in one sentence. */
  readonly consequence: string;
  /** What to do about it. */
  readonly cure?: string;
}

interface Limitation {
  readonly name: string;
  readonly text: string;
}

/** Opens a runtime with what this machine and user have. The caller closes it. */
export async function openProcessRuntime(
  settings: ProcessRuntimeSettings,
  { clock, report }: Pick<ProcessRuntimeDeps, 'clock' | 'report'>,
): Promise<ProcessRuntime> {
  const groups = ownControlGroups(settings.stateDirectory);
  const runtime = new ProcessRuntime(settings, { clock, report, powers: findPowers(), groups });
  await runtime.open();
  return runtime;
}

export function findPowers(): Powers {
  const status = readFileSync('/proc/self/status', 'utf8');
  const [, uid = '0'] = /^Uid:\s+\d+\s+(\d+)/m.exec(status) ?? [];
  const [, gid = '0'] = /^Gid:\s+\d+\s+(\d+)/m.exec(status) ?? [];
  const architecture = arch();
  if (!isArchitecture(architecture)) {
    throw new RuntimeError(
      `Cannot run containers: the process runtime knows the processors x64 and arm64, not ${architecture}`,
    );
  }
  return {
    uid: Number(uid),
    gid: Number(gid),
    kind: uid === '0' ? 'root' : 'user',
    boundingSet: capabilitySetIn(status, 'CapBnd'),
    permitted: capabilitySetIn(status, 'CapPrm'),
    architecture,
  };
}

function ownControlGroups(stateDirectory: string): ControlGroups {
  // Two runtimes of one user have groups of their own: each sweeps what it does not know.
  const name = `mountlet-${createHash('sha256').update(stateDirectory).digest('hex').slice(0, 12)}`;
  return findControlGroups(
    readFileSync('/proc/self/cgroup', 'utf8'),
    readFileSync('/proc/self/mountinfo', 'utf8'),
    name,
  );
}

/** What containers of this runtime do not have, whatever the machine: for `root` and, more of it, for ordinary users. */
export function limitations({ kind }: Pick<Powers, 'kind'>): readonly Limitation[] {
  const always: readonly Limitation[] = [
    { name: 'images', text: 'Images are not used: a container runs its command with the programs of the machine.' },
    {
      name: 'idle',
      text: 'A container without a command only idles, since only its image says what to run (condition mountlet.dev/Idle); an init container without one is not started.',
    },
    {
      name: 'taint',
      text: 'mountlet agent keeps pods with images away from this node by the taint mountlet.dev/no-images (--register-with-taints).',
    },
    {
      name: 'network',
      text: 'Pods have IPv4 alone. The Services of mountlet up answer; with mountlet agent they take the kube-proxy of the cluster, if it has one.',
    },
    {
      name: 'files',
      text: 'Containers see the programs, the libraries and what everyone may read in /etc (--host-files, --host-path).',
    },
    {
      name: 'writable layer',
      text: 'What a container writes outside of its volumes is kept in memory, at most 256Mi (--writable-layer), and counts against its memory limit.',
    },
    {
      name: 'profiles',
      text: 'seccomp profiles of type Localhost, AppArmor profiles and SELinux options are refused.',
    },
    {
      name: 'capabilities',
      text: 'Capabilities that reach the whole machine (SYS_ADMIN, NET_ADMIN, SYS_MODULE and others) take a privileged container.',
    },
    { name: 'devices', text: 'Containers cannot make device files; the MKNOD capability has to be asked for by name.' },
    { name: 'sysctls', text: 'Only the sysctls of IPC and network namespaces can be set for a pod.' },
  ];
  if (kind === 'root') return always;
  return [
    ...always.filter(({ name }) => name !== 'network'),
    {
      name: 'network',
      text: 'All pods have the network of the machine: the IP of a pod is that of its node, and ports are shared.',
    },
    {
      name: 'sockets',
      text: 'Abstract unix sockets and everything that listens on the loopback address of the machine can be reached by containers.',
    },
    {
      name: 'users',
      text: 'Containers run as this user, whom they see as root; runAsUser, runAsGroup, fsGroup and supplementalGroups of others are refused.',
    },
    {
      name: 'privileged',
      text: 'Privileged containers are refused, and capabilities count inside of the container alone.',
    },
    {
      name: 'local volumes',
      text: 'Volumes of directories of this machine, and so claims of the class local-path, cannot be mounted: that takes root.',
    },
    {
      name: 'root file system',
      text: 'The root file system is always read-only; /tmp, /run and /dev/shm are writable.',
    },
    {
      name: 'mount paths',
      text: 'A missing mount path cannot be made in a directory of the machine that has other mounts below it.',
    },
    { name: 'limits', text: 'CPU and memory limits hold only where a control group was handed over to this user.' },
  ];
}

const groupsCure = {
  root: 'Mount them: mount -t cgroup2 none /sys/fs/cgroup',
  user: 'Have one handed over: systemd-run --user --scope -p Delegate=yes mountlet up',
};

export function examineMachine(): readonly Finding[] {
  const { kind } = findPowers();
  const groups = ownControlGroups('/doctor');
  const inUser = kind === 'user' ? ['--user', '--map-root-user'] : [];
  const namespaces = runs(['unshare', ...inUser, '--mount', '--pid', '--ipc', '--uts', '--fork', '--', 'true']);
  const users = runs(['unshare', '--user', '--map-root-user', '--', 'true']);
  const lower = kind === 'root' ? '/' : '/etc';
  const tryOverlay = `mount -t tmpfs t /mnt && mkdir /mnt/s /mnt/m && mount -t overlay -o ro,lowerdir=/mnt/s:${lower} o /mnt/m`;
  const overlay = runs(['unshare', ...inUser, '--mount', '--', 'sh', '-ec', tryOverlay]);
  const has = (controller: string): boolean => groups.controllers.includes(controller);
  return [
    {
      name: 'namespaces',
      available: namespaces,
      consequence: namespaces
        ? 'Containers have mounts, processes, IPC and a host name of their own.'
        : 'No container can be started: mount, pid, ipc and uts namespaces are needed.',
    },
    {
      name: 'user namespaces',
      available: users,
      consequence: users
        ? 'Ordinary users can run containers.'
        : 'Only root can run containers: user.max_user_namespaces is 0, or a security module forbids them.',
      ...(!users && {
        cure: 'sysctl -w user.max_user_namespaces=10000, and allow them where AppArmor restricts them.',
      }),
    },
    {
      name: 'overlay',
      available: overlay,
      consequence: overlay
        ? 'Volumes can be mounted at paths that this machine does not have.'
        : 'Volumes can be mounted only at paths that exist on this machine.',
    },
    {
      name: 'control groups',
      available: groups.version !== undefined,
      consequence:
        groups.version === undefined
          ? 'Limits of pods are not enforced, and usage is not known.'
          : `Version ${groups.version} with ${groups.controllers.join(', ')}.`,
      ...(groups.version === undefined && { cure: groupsCure[kind] }),
    },
    {
      name: 'memory limits',
      available: has('memory'),
      consequence: has('memory')
        ? 'A container that takes more memory than its limit is ended with OOMKilled.'
        : 'A container can take all memory of the machine.',
    },
    {
      name: 'cpu limits',
      available: has('cpu'),
      consequence: has('cpu') ? 'CPU limits and requests are enforced.' : 'A container can take all CPU time.',
    },
    {
      name: 'process limits',
      available: has('pids'),
      consequence: has('pids')
        ? 'A fork bomb stays in its container.'
        : 'A fork bomb in a container is one of the machine.',
    },
  ];
}

function run([program = '', ...args]: readonly string[]): { readonly status: number | null; readonly stderr: string } {
  return spawnSync(program, args, {
    encoding: 'utf8',
    env: { PATH: '/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin', LC_ALL: 'C' },
    cwd: '/',
  });
}

function runs(words: readonly string[]): boolean {
  return run(words).status === 0;
}
