/** From the contract's words to the sandbox's and back. Pure but for the kind of a volume's source. */
import { statSync } from 'node:fs';
import { errorCode } from '../../base/errors.ts';
import { RuntimeError, type ContainerRequest, type ContainerState, type RuntimePod } from '../runtime.ts';
import type { ContainerEnd, ContainerRecord, PodRecord } from './container-records.ts';
import type { Powers } from './identity.ts';
import type { Command } from './launch-text.ts';
import type { SandboxRequest, VolumeMount } from './sandbox-plan.ts';
import type { LaunchStatus } from './status-file.ts';

const killedCode = 128 + 9;
/** What the engines report for a command that could not be executed. */
const startErrorCode = 128;

export function sandboxRequestOf(
  { security, mounts, devices }: ContainerRequest,
  places: { readonly work: string; readonly hidden: readonly string[] },
  powers: Powers,
): SandboxRequest {
  return {
    ...places,
    technique: powers.kind === 'root' ? 'overlay' : 'binds',
    writableRoot: !security.readOnlyRootFilesystem && powers.kind === 'root',
    privileged: security.privileged,
    volumes: mounts.map(({ hostPath, containerPath, readOnly, propagation }): VolumeMount => ({
      source: hostPath,
      kind: kindOf(hostPath),
      target: containerPath,
      readOnly,
      followsHost: propagation === 'HostToContainer',
    })),
    devices: devices.map(({ hostPath, containerPath, permissions }) => ({
      source: hostPath,
      target: containerPath,
      readOnly: permissions === 'r',
    })),
  };
}

function kindOf(path: string): 'directory' | 'file' {
  try {
    return statSync(path).isDirectory() ? 'directory' : 'file';
  } catch (thrown) {
    const code = errorCode(thrown);
    if (code === undefined) throw thrown;
    throw new RuntimeError(`Cannot mount "${path}": ${code === 'ENOENT' ? 'no such file or directory' : code}`, {
      cause: thrown,
    });
  }
}

/** Without an image there is nobody else to give a container its usual variables, or something to run. */
export function commandOf(
  { command, args, workingDirectory, environment, tty }: ContainerRequest,
  { hostname }: PodRecord,
  uid: number,
): Command {
  const words = [...command, ...args];
  return {
    words: words.length === 0 ? ['sleep', 'infinity'] : words,
    workingDirectory: workingDirectory === '' ? '/' : workingDirectory,
    environment: [
      { name: 'PATH', value: '/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin' },
      { name: 'HOME', value: uid === 0 ? '/root' : '/' },
      ...(hostname === '' ? [] : [{ name: 'HOSTNAME', value: hostname }]),
      ...(tty ? [{ name: 'TERM', value: 'xterm' }] : []),
      ...environment,
    ],
  };
}

export function endOf(
  { started, code, failure, changedAtMs }: LaunchStatus & { readonly changedAtMs: number },
  outOfMemory: boolean,
  trouble: string,
  nowMs: number,
): ContainerEnd {
  const finishedAtMs = changedAtMs > 0 ? Math.round(changedAtMs) : nowMs;
  if (failure !== undefined) return { finishedAtMs, exitCode: startErrorCode, reason: 'StartError', message: failure };
  if (!started) {
    const message = trouble === '' ? 'the launcher was killed before the command was started' : trouble;
    return {
      finishedAtMs,
      exitCode: startErrorCode,
      reason: 'StartError',
      message: `Cannot make the sandbox: ${message}`,
    };
  }
  // Killed together with its first process, it left no code.
  const exitCode = code ?? killedCode;
  const reason = exitCode === 0 ? 'Completed' : outOfMemory && exitCode === killedCode ? 'OOMKilled' : 'Error';
  return { finishedAtMs, exitCode, reason, message: '' };
}

export function describePod(pod: PodRecord, containers: readonly ContainerRecord[]): RuntimePod {
  const { uid, namespace, name, state, createdAtMs } = pod;
  return {
    uid,
    namespace,
    name,
    state,
    createdAtMs,
    ips: [], // those of the node
    containers: containers.map((record) => ({
      id: record.id,
      name: record.name,
      attempt: record.attempt,
      image: record.image,
      imageId: record.image,
      state: stateOf(record),
      logPath: record.logPath,
      labels: record.labels,
    })),
  };
}

function stateOf({ createdAtMs, run, end }: ContainerRecord): ContainerState {
  if (run === undefined) return { kind: 'created', createdAtMs };
  const { startedAtMs, init, supervisor } = run;
  if (end !== undefined) return { kind: 'exited', createdAtMs, startedAtMs, ...end };
  return { kind: 'running', createdAtMs, startedAtMs, pid: (init ?? supervisor).pid };
}
