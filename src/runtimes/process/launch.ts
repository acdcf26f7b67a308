/** Starts a container's launcher and a pod's holder, as processes that outlive this program. */
import { spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { closeSync, mkdirSync, openSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Readable, Writable } from 'node:stream';
import { RuntimeError, type PodRequest } from '../runtime.ts';
import type { ContainerRecord, PodRecord } from './container-records.ts';
import { launcherEnvironment } from './exec.ts';
import { startPrivileges, type Powers } from './identity.ts';
import { buildScript, enterScript, holdScript, initScript, superviseScript } from './launch-scripts.ts';
import { commandText, sandboxText, type Command } from './launch-text.ts';
import { foreignSysctls } from './unsupported.ts';
import { oldestChild, processNamed, youngestChild, type ProcessName } from './process-table.ts';
import type { SandboxPlan } from './sandbox-plan.ts';

export interface LaunchPlaces {
  /** An empty directory: each container mounts its tmpfs there, in its own namespace. */
  readonly work: string;
  readonly skeleton: string;
  /** The container's own: pipes, and what went wrong. */
  readonly directory: string;
  readonly status: string;
  readonly spool: string;
}

export interface Launch {
  readonly record: ContainerRecord;
  readonly pod: PodRecord;
  readonly plan: SandboxPlan;
  readonly command: Command;
  readonly groups: readonly string[];
  readonly writableBytesMax: number;
}

export function launchContainer(launch: Launch, places: LaunchPlaces, powers: Powers): ChildProcess {
  const { record, pod, plan, command, groups, writableBytesMax } = launch;
  mkdirSync(places.directory, { recursive: true, mode: 0o700 });
  writeFileSync(places.status, '', { mode: 0o600 });
  const log = openSync(join(places.directory, 'launch.log'), 'w', 0o600);
  try {
    const child = spawn('sh', ['-c', 'eval "$M_SUPERVISE"', 'mountlet-supervise'], {
      detached: true,
      cwd: '/',
      stdio: ['ignore', log, log, 'pipe'],
      env: {
        ...launcherEnvironment,
        M_SUPERVISE: superviseScript,
        M_DIRECTORY: places.directory,
        M_STATUS: places.status,
        M_SPOOL: places.spool,
        M_TTY: record.tty ? '1' : '0',
        // A terminal without a keyboard must not see its end.
        M_STDIN: record.tty && record.stdin === 'none' ? 'keep' : record.stdin,
        M_RUN: `${enterPod(pod, powers)} unshare --mount --propagation slave -- sh -c 'eval "$M_BUILD"' mountlet-build`,
        M_BUILD: buildScript,
        M_GROUPS: groups.join(' '),
        M_TMPFS: `size=${writableBytesMax},mode=755`,
        M_WORK: places.work,
        M_SKELETON: places.skeleton,
        M_STRAYS: pod.hostPid || pod.shareProcessNamespace ? '1' : '0',
        M_ENTER: enterProcesses(pod),
        M_ENTERED: enterScript,
        M_PRIVILEGES: startPrivileges(record.identity, powers),
        M_INIT: initScript,
      },
    });
    child.unref();
    const data = child.stdio[3] as Writable;
    data.on('error', () => {}); // the launcher ended early: its status tells why
    // The launcher has the other end for as long as it lives: an end of ours that stays open would keep this program from ending.
    data.end(sandboxText(plan, `${places.work}/m`) + commandText(command), () => data.destroy());
    return child;
  } finally {
    closeSync(log);
  }
}

/** The process that runs the command. Its line is the younger one: the other child of `build` moves the root and ends. */
export function initOf(buildPid: number, pod: PodRecord): ProcessName | undefined {
  const first = youngestChild(buildPid);
  if (first === undefined || pod.hostPid || pod.shareProcessNamespace) return first;
  return oldestChild(first.pid);
}

/** Words that enter what the containers of a pod share, by one of its processes. The machine's own needs no entering. */
export function namespaceWords(pid: number, { hostIpc, hostNetwork }: PodRecord, powers: Powers): string {
  return [
    'nsenter',
    ...(powers.kind === 'user' ? [`--user=/proc/${pid}/ns/user`, '--preserve-credentials'] : []),
    ...(hostIpc ? [] : [`--ipc=/proc/${pid}/ns/ipc`]),
    ...(hostNetwork ? [] : [`--uts=/proc/${pid}/ns/uts`]),
  ].join(' ');
}

function enterPod(pod: PodRecord, powers: Powers): string {
  return `${namespaceWords(pod.holder.pid, pod, powers)} --`;
}

/**
 * With processes shared, the launcher stays outside and only its children are born in the pod's namespace: other
 * containers of the pod must not meet a process of ours that still has the host's root.
 */
function enterProcesses({ holder, hostPid, shareProcessNamespace }: PodRecord): string {
  if (hostPid) return '';
  return shareProcessNamespace ? `nsenter --pid=/proc/${holder.pid}/ns/pid --no-fork --` : 'unshare --pid --fork --';
}

export async function startHolder(request: PodRequest, powers: Powers, signal: AbortSignal): Promise<ProcessName> {
  signal.throwIfAborted();
  const [foreign] = foreignSysctls(request.sysctls);
  if (foreign !== undefined) throw new RuntimeError(`Cannot set sysctl "${foreign}" for a pod alone`);
  const sharesProcesses = request.shareProcessNamespace && !request.hostPid;
  const words = [
    ...(powers.kind === 'user' ? ['--user', '--map-root-user'] : []),
    ...(request.hostIpc ? [] : ['--ipc']),
    ...(request.hostNetwork ? [] : ['--uts']),
    ...(sharesProcesses ? ['--pid', '--fork'] : []),
  ];
  const child = spawn('unshare', [...words, '--', 'sh', '-c', holdScript, 'mountlet-pod'], {
    detached: true,
    cwd: '/',
    stdio: ['ignore', 'ignore', 'pipe', 'pipe'],
    env: {
      ...launcherEnvironment,
      M_HOSTNAME: request.hostNetwork ? '' : request.hostname,
      M_REAPS: sharesProcesses ? '1' : '0',
      M_SYSCTLS: Object.entries(request.sysctls)
        .map(([name, value]) => `${name.replaceAll('.', '/')} ${value}\n`)
        .join(''),
    },
  });
  child.unref();
  let trouble = '';
  child.stderr?.on('data', (chunk: Buffer) => {
    trouble = `${trouble}${chunk.toString()}`.slice(-500);
  });
  const ready = child.stdio[3];
  await Promise.race([once(ready as Readable, 'data'), once(child, 'close'), once(child, 'error')]);
  child.stderr?.destroy();
  (ready as Readable).destroy();
  const pid = child.exitCode === null ? child.pid : undefined;
  const holder = pid === undefined ? undefined : sharesProcesses ? oldestChild(pid) : processNamed(pid);
  if (holder === undefined) {
    throw new RuntimeError(
      `Cannot make the namespaces of pod "${request.namespace}/${request.name}": ${trouble.trim() || 'unshare(1) of util-linux is needed'}`,
    );
  }
  return holder;
}
