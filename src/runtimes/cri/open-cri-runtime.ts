/** Opens the runtime behind a socket, or says why there is none: once, at the start of a node. */
import { readdir } from 'node:fs/promises';
import type { Clock } from '../../base/clock.ts';
import { messageOf } from '../../base/errors.ts';
import { CgroupDriver as CriDriver } from '../../grpc/messages/cri_pb.ts';
import { processNamed, signalProcess } from '../../linux/process-table.ts';
import { RuntimeError } from '../runtime.ts';
import { type CriConnection, connectCri, isUnimplemented } from './cri-connection.ts';
import { CriRuntime } from './cri-runtime.ts';
import type { LogLimits } from './log-rotation.ts';
import { readMachineFacts } from './machine-facts.ts';
import { PodCgroups } from './pod-cgroups.ts';
import { RuntimeConditions } from './runtime-conditions.ts';
import type { CgroupDriver } from './sandbox-config.ts';

type Driver = Exclude<CgroupDriver, 'none'>;

interface CriSettings {
  /** `unix:///run/containerd/containerd.sock` */
  readonly endpoint: string;
  /** For runtimes that do not say which one they have. */
  readonly cgroupDriver: Driver;
  /** Of all processes of a pod. */
  readonly podPidsMax: number | undefined;
  /** Where pods have their folders of logs. */
  readonly logRoot: string;
  /** Where logs of containers have links beside; undefined: nowhere. */
  readonly logLinks: string | undefined;
  readonly logLimits: LogLimits;
  /** Where pods have their volumes; named after their UIDs. */
  readonly podsDirectory: string;
}

interface CriDeps {
  readonly clock: Clock;
  /** What users should know of this machine. */
  readonly report: (problem: string) => void;
}

/** The version of the kubelet's side of the interface; it never changed. */
const interfaceVersion = '0.1.0';
/** A runtime answers these in a millisecond. */
const answerMsMax = 5_000;
const noPodLimits =
  'with the systemd cgroup driver only containers have limits: podPidsLimit, what pods cost beside their containers and the weights of classes of pods have no effect; for these set the runtime to cgroupfs (containerd: SystemdCgroup = false)';
const configTries = 3;
const configRetryMs = 2_000;

/** Rejects within seconds where nothing answers, or something else than a runtime, or where another node has pods. */
export async function openCriRuntime(
  settings: CriSettings,
  { clock, report }: CriDeps,
  signal: AbortSignal,
): Promise<CriRuntime> {
  const connection = connectCri(settings.endpoint);
  try {
    const { name, version } = await runtimeVersion(connection, signal);
    await requireImages(connection, signal);
    const driver = (await runtimeDriver(connection, clock, signal)) ?? settings.cgroupDriver;
    if (driver === 'systemd') report(noPodLimits);
    const machine = await readMachineFacts('/');
    const { logRoot, logLinks, logLimits, podPidsMax } = settings;
    const { podsDirectory } = settings;
    const own = { podsDirectory, podsBefore: await readdir(podsDirectory) };
    const cgroups = new PodCgroups(
      { clock, kill: killProcess, report },
      { directory: '/sys/fs/cgroup', driver, version: machine.cgroupVersion, podPidsMax },
    );
    const runtime = new CriRuntime(
      { name, version, logRoot, logLinks, logLimits, machine, own },
      { connection, cgroups, clock, report },
    );
    await runtime.open();
    return runtime;
  } catch (thrown) {
    connection.close();
    throw thrown;
  }
}

interface FoundRuntime {
  readonly name: string;
  readonly version: string;
  /** Why pods get no network there; undefined: they do. */
  readonly networkProblem: string | undefined;
}

/** Who answers at an endpoint. Rejects as `openCriRuntime` does. */
export async function findCriRuntime(endpoint: string, clock: Clock, signal: AbortSignal): Promise<FoundRuntime> {
  const connection = connectCri(endpoint);
  try {
    const found = await runtimeVersion(connection, signal);
    const conditions = new RuntimeConditions(connection.runtime, clock);
    await conditions.refresh(signal);
    return { ...found, networkProblem: conditions.networkProblem() };
  } finally {
    connection.close();
  }
}

async function runtimeVersion(
  { runtime, endpoint }: CriConnection,
  signal: AbortSignal,
): Promise<{ readonly name: string; readonly version: string }> {
  try {
    const answer = await runtime.version({ version: interfaceVersion }, { timeoutMs: answerMsMax, signal });
    const { version, runtimeName, runtimeVersion: own, runtimeApiVersion } = answer;
    const fields = {
      Version: version,
      RuntimeName: runtimeName,
      RuntimeApiVersion: runtimeApiVersion,
      RuntimeVersion: own,
    };
    const missing = Object.entries(fields).flatMap(([field, value]) => (value === '' ? [field] : []));
    if (missing.length > 0)
      throw new RuntimeError(`not all fields are set in VersionResponse (missing ${missing.join(', ')})`);
    if (version !== interfaceVersion) throw new RuntimeError('runtime api version is not supported');
    return { name: runtimeName, version: own };
  } catch (thrown) {
    signal.throwIfAborted();
    throw new RuntimeError(
      `validate CRI v1 runtime API for endpoint "${endpoint}": ${messageOf(thrown)}; start containerd or another runtime there, name its socket with --container-runtime-endpoint, or run without images with --runtime process`,
      { cause: thrown },
    );
  }
}

/** A runtime that is only starting fails too, and is waited for later. */
async function requireImages({ images, endpoint }: CriConnection, signal: AbortSignal): Promise<void> {
  try {
    await images.imageFsInfo({}, { timeoutMs: answerMsMax, signal });
  } catch (thrown) {
    signal.throwIfAborted();
    if (!isUnimplemented(thrown)) return;
    throw new RuntimeError(
      `validate CRI v1 image API for endpoint "${endpoint}": ${messageOf(thrown)}; name the socket of a runtime that has images too`,
      { cause: thrown },
    );
  }
}

/** Undefined where the runtime does not say, as those before 2023. */
async function runtimeDriver(
  { runtime }: CriConnection,
  clock: Clock,
  signal: AbortSignal,
): Promise<Driver | undefined> {
  for (let tried = 1; ; tried += 1) {
    try {
      const { linux } = await runtime.runtimeConfig({}, { timeoutMs: answerMsMax, signal });
      if (linux === undefined) return undefined;
      return linux.cgroupDriver === CriDriver.CGROUPFS ? 'cgroupfs' : 'systemd';
    } catch (thrown) {
      signal.throwIfAborted();
      if (isUnimplemented(thrown)) return undefined;
      if (tried >= configTries) throw thrown;
      await clock.sleep(configRetryMs, signal);
    }
  }
}

function killProcess(pid: number): void {
  const name = processNamed(pid);
  if (name !== undefined) signalProcess(name, 'SIGKILL');
}
