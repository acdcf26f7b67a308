/** From the contract's words to the sandbox's and back. Pure but for a look at the sources of volumes and at devices. */
import { mkdir, stat } from 'node:fs/promises';
import { getSystemErrorName } from 'node:util';
import { errorCode, messageOf } from '../../base/errors.ts';
import { blockDeviceAt, isReadOnlyDevice } from '../../disk/devices/block-device.ts';
import { foreignKindOf, makeForeignDirectory } from '../../disk/devices/foreign-paths.ts';
import type { Programs } from '../../disk/devices/programs.ts';
import { foreignMountPoints, isForeign } from '../../disk/mounts/mount-table.ts';
import type { StepFailure } from '../../linux/system-program.ts';
import {
  type ContainerRequest,
  type ContainerSecurity,
  type ContainerState,
  RuntimeError,
  type RuntimeMount,
  type RuntimePod,
} from '../runtime.ts';
import type { ContainerEnd, ContainerRecord, PodRecord } from './container-records.ts';
import { machineAddress } from './network/packet-rules.ts';
import type { Command, Identity, Powers } from './sandbox/container-program.ts';
import type { HostFiles } from './sandbox/host-files.ts';
import type { SandboxRequest, VolumeMount } from './sandbox/sandbox-plan.ts';
import { capabilitiesOf } from './sandbox/security.ts';
import type { ChildEndRecord } from './spawner/spawner-protocol.ts';

const killedCode = 128 + 9;

export function identityOf(security: ContainerSecurity, powers: Powers): Identity {
  const ordinary = powers.kind === 'user';
  const uid = ordinary ? 0 : (security.uid ?? powers.uid);
  const capabilities = capabilitiesOf(security, powers.boundingSet);
  const added = new Set(
    capabilitiesOf({ ...security, privileged: false, dropCapabilities: ['ALL'] }, powers.boundingSet),
  );
  return {
    uid,
    // As the engines: a user without a group is in group 0, never in that of the user who runs the engine.
    gid: ordinary ? 0 : (security.gid ?? (security.uid === undefined ? powers.gid : 0)),
    groups: ordinary ? [] : security.supplementalGroups,
    noNewPrivileges: security.noNewPrivileges,
    capabilities,
    // What a pod asks for by name a user who is not root gets too; with the engines it would be lost to them.
    ambient: uid === 0 ? [] : capabilities.filter((name) => added.has(name)),
    seccomp: security.privileged || security.seccomp.type === 'Unconfined' ? 'none' : 'default',
  };
}

/** What stands at the sources of the mounts. A server that is gone keeps only its own volumes waiting, and not for ever. */
export async function sourcesOf(
  mounts: readonly RuntimeMount[],
  programs: Programs,
  signal: AbortSignal,
): Promise<ReadonlyMap<string, VolumeMount['kind']>> {
  const kinds = new Map<string, VolumeMount['kind']>();
  const foreign = foreignMountPoints();
  const looks = mounts.map(async ({ hostPath }) => {
    kinds.set(hostPath, await kindOf(hostPath, foreign, programs, signal));
  });
  await Promise.all(looks);
  return kinds;
}

async function kindOf(
  path: string,
  foreign: ReadonlySet<string>,
  programs: Programs,
  signal: AbortSignal,
): Promise<VolumeMount['kind']> {
  try {
    if (isForeign(path, foreign)) {
      const found = await foreignKindOf(programs, path, signal);
      if (found === undefined) await makeForeignDirectory(programs, path, signal);
      return found ?? 'directory';
    }
    return (await localKindOf(path)) ?? (await makeSource(path));
  } catch (thrown) {
    signal.throwIfAborted();
    if (thrown instanceof RuntimeError) throw thrown;
    throw new RuntimeError(`Cannot mount "${path}": ${errorCode(thrown) ?? messageOf(thrown)}`, { cause: thrown });
  }
}

async function localKindOf(path: string): Promise<VolumeMount['kind'] | undefined> {
  try {
    return (await stat(path)).isDirectory() ? 'directory' : 'file';
  } catch (thrown) {
    if (errorCode(thrown) === 'ENOENT') return undefined;
    throw thrown;
  }
}

/** As the engines do for a hostPath that says of no type. */
async function makeSource(path: string): Promise<VolumeMount['kind']> {
  try {
    await mkdir(path, { recursive: true, mode: 0o755 });
    return 'directory';
  } catch (thrown) {
    throw new RuntimeError(`Cannot mount "${path}": it is missing and cannot be made: ${errorCode(thrown)}`, {
      cause: thrown,
    });
  }
}

export function sandboxRequestOf(
  { security, mounts, devices }: ContainerRequest,
  kinds: ReadonlyMap<string, VolumeMount['kind']>,
  places: Pick<SandboxRequest, 'work' | 'hidden' | 'view' | 'ownNetwork' | 'resolver'>,
  powers: Powers,
): SandboxRequest {
  return {
    ...places,
    technique: powers.kind === 'root' ? 'overlay' : 'binds',
    writableRoot: !security.readOnlyRootFilesystem && powers.kind === 'root',
    readOnlyRoot: security.readOnlyRootFilesystem,
    privileged: security.privileged,
    volumes: mounts.map(({ hostPath, containerPath, readOnly, recursiveReadOnly, propagation }): VolumeMount => ({
      source: hostPath,
      kind: kinds.get(hostPath) ?? 'directory',
      target: containerPath,
      readOnly,
      recursiveReadOnly,
      propagation,
    })),
    devices: devices.map((device) => {
      if (device.permissions === 'r' && !security.privileged) requireReadOnly(device);
      return { source: device.hostPath, target: device.containerPath };
    }),
  };
}

/** Nothing here filters what a container does with a device, so it has to be read-only itself. */
function requireReadOnly({ hostPath, containerPath }: ContainerRequest['devices'][number]): void {
  if (isReadOnlyDevice(blockDeviceAt(hostPath))) return;
  throw new RuntimeError(
    `Device "${containerPath}" is to be read-only, which pods with this machine's programs cannot have of a device that can be ` +
      'written: make it read-only on the machine (blockdev --setro), or use a container runtime (--runtime cri)',
  );
}

/** As the first process of its namespace it has to say itself that SIGTERM ends it. */
const idleCommand = ['sh', '-c', 'trap "exit 143" TERM; sleep infinity & wait'];

/** Without an image there is nothing else to give a container its usual variables, or something to run. */
export function commandOf(
  { command, args, workingDirectory, environment, tty }: ContainerRequest,
  { hostname }: PodRecord,
  uid: number,
): Command {
  return {
    // Arguments alone are those of a program that only the image names.
    words: command.length === 0 ? idleCommand : [...command, ...args],
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

export function endOf({ exitCode, finishedAtMs }: ChildEndRecord, outOfMemory: boolean): ContainerEnd {
  const reason = exitCode === 0 ? 'Completed' : outOfMemory && exitCode === killedCode ? 'OOMKilled' : 'Error';
  return { finishedAtMs, exitCode, reason, message: '' };
}

interface ProgramNames {
  /** As the pod has it: a variable in it may stand for a secret. */
  readonly program: string;
  readonly workingDirectory: string;
  readonly hostFiles: HostFiles;
}

/** Why a program could not be started, in the engines' words where they have some. */
export function failureText(
  failure: StepFailure | undefined,
  { problem }: { readonly problem?: string },
  names?: ProgramNames,
): string {
  if (failure === undefined) return `Cannot start the container: ${problem ?? 'its launcher was killed'}`;
  const words = errorWords(failure.errno);
  if (names === undefined || !['execve', 'chdir'].includes(failure.call)) return `Cannot ${failure.what}: ${words}`;
  const { program, workingDirectory, hostFiles } = names;
  if (failure.call === 'chdir') return `chdir to cwd ("${workingDirectory}") set in config.json failed: ${words}`;
  const isMissing = ['ENOENT', 'EACCES', 'ENOTDIR'].includes(getSystemErrorName(-failure.errno));
  const hint =
    isMissing && hostFiles !== 'all'
      ? ` (containers see ${hostFiles === 'none' ? 'no files' : 'the system files'} of this machine: --host-path DIR adds a directory)`
      : '';
  if (!program.includes('/') && isMissing) return `exec: "${program}": executable file not found in $PATH${hint}`;
  return failure.errno === 2
    ? `exec: "${program}": stat ${program}: ${words}${hint}`
    : `exec: "${program}": ${words}${hint}`;
}

function errorWords(errno: number): string {
  const words: Readonly<Record<string, string>> = {
    ENOENT: 'no such file or directory',
    EACCES: 'permission denied',
    EPERM: 'operation not permitted',
    ENOTDIR: 'not a directory',
    ENOEXEC: 'exec format error',
    E2BIG: 'argument list too long',
    ENOSPC: 'no space left on device',
    ELOOP: 'too many levels of symbolic links',
  };
  const name = getSystemErrorName(-errno);
  return words[name] ?? name;
}

export function describePod(pod: PodRecord, containers: readonly ContainerRecord[]): RuntimePod {
  const { uid, namespace, name, state, createdAtMs, address } = pod;
  return {
    uid,
    namespace,
    name,
    state,
    createdAtMs,
    ips: address === undefined ? [] : [address],
    hostNetwork: address === undefined,
    ...(address === undefined ? {} : { loopbackIp: machineAddress }),
    containers: containers.map((record) => ({
      id: record.id,
      name: record.name,
      attempt: record.attempt,
      image: record.image,
      imageId: '', // there is none
      state: stateOf(record),
      logPath: record.logPath,
      labels: record.labels,
      annotations: record.annotations ?? record.labels,
    })),
  };
}

function stateOf({ createdAtMs, run, end }: ContainerRecord): ContainerState {
  if (run === undefined) return { kind: 'created', createdAtMs };
  const { startedAtMs, main } = run;
  if (end !== undefined) return { kind: 'exited', createdAtMs, startedAtMs, ...end };
  return { kind: 'running', createdAtMs, startedAtMs, pid: main?.pid ?? 0 };
}
