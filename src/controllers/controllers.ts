/**
 * The loops that keep a cluster in order: those of kube-controller-manager, by its names, and the scheduler. Which of them run is
 * chosen as kube-controller-manager's `--controllers` does it. What only an API server does itself is here too, for ours.
 */
import { OperatingError } from '../base/errors.ts';
import { runTask, runTogether } from '../base/run-task.ts';
import { type AttachDetachDeps, type ForceDetachSetting, runAttachDetach } from './attachments/attach-detach.ts';
import { CannotRunError } from './cluster/cluster.ts';
import { runClusterRoleAggregation } from './cluster-role-aggregation.ts';
import {
  type CertificateSigner,
  runRequestApproval,
  runRequestCleaning,
  runRequestSigning,
} from './certificate-requests.ts';
import {
  type DefaultObjectDeps,
  ensureDefaultObjects,
  rootCertificates,
  runCompanion,
  runServerService,
  serviceAccounts,
} from './default-objects.ts';
import { runDisruption } from './disruption.ts';
import { runEndpointSliceMirroring, runEndpointSlices } from './endpoints/endpoint-slices.ts';
import { runEndpoints } from './endpoints/endpoints.ts';
import { runExpiry } from './expiry.ts';
import { runGarbageCollector } from './garbage-collector.ts';
import { runNamespaceDeletion } from './namespace-deletion.ts';
import { runNodeLife } from './node-life.ts';
import { runNodeTaints } from './node-taints.ts';
import { runNodeTtl } from './node-ttl.ts';
import { runScheduler } from './scheduling/scheduler.ts';
import { runEphemeralClaims } from './storage/ephemeral-claims.ts';
import { runClaimProtection, runVolumeProtection } from './storage/protection.ts';
import { type StorageLoop, runStorage } from './storage/storage.ts';
import { runVolumeBinder } from './storage/volume-binder.ts';
import { runVolumeExpander } from './storage/volume-expander.ts';
import { runCronJobs } from './workloads/cron-jobs.ts';
import { runFinishedJobs, runJobs } from './workloads/jobs.ts';
import { runDaemonSets } from './workloads/daemon-sets.ts';
import { runDeployments } from './workloads/deployments.ts';
import { runReplicaSets, runReplicationControllers } from './workloads/replicas.ts';
import { runRolloutOnChange } from './workloads/rollout-on-change.ts';
import { runStatefulSets } from './workloads/stateful-sets.ts';
import { type WorkloadLoop, runWorkloads } from './workloads/workloads.ts';

interface LoopDeps extends AttachDetachDeps {
  /** What clients of the server trust; undefined where they need nothing of their own for that. */
  readonly authorityPem: string | undefined;
  /** Undefined where the key of the authority is elsewhere. */
  readonly signer?: CertificateSigner | undefined;
}

type Loop = (deps: LoopDeps, signal: AbortSignal) => Promise<void>;

const approving = 'certificatesigningrequest-approving-controller';
const signing = 'certificatesigningrequest-signing-controller';
/** They need the key of the authority. */
export const signerNames: readonly string[] = [approving, signing];
const accounts = 'serviceaccount-controller';
const certificates = 'root-ca-certificate-publisher-controller';

const loops: Readonly<Record<string, Loop>> = {
  // With the parts that kube-controller-manager has under names of their own: eviction by taints, and pods of lost nodes.
  'node-lifecycle-controller': (deps, signal) =>
    runTogether([(until) => runNodeLife(deps, until), (until) => runNodeTaints(deps, until)], signal),
  'disruption-controller': runDisruption,
  'ttl-controller': runNodeTtl,
  'clusterrole-aggregation-controller': runClusterRoleAggregation,
  'namespace-controller': runNamespaceDeletion,
  'garbage-collector-controller': runGarbageCollector,
  [approving]: runRequestApproval,
  [signing]: runRequestSigning,
  'certificatesigningrequest-cleaner-controller': runRequestCleaning,
  [accounts]: (deps, signal) => runCompanion(serviceAccounts, deps, signal),
  [certificates]: async (deps, signal) => {
    const { authorityPem } = deps;
    if (authorityPem === undefined) {
      throw new CannotRunError('it publishes the certificate authority of the kubeconfig, which names none');
    }
    await runCompanion(rootCertificates(authorityPem), deps, signal);
  },
};

const storageLoops: Readonly<Record<string, StorageLoop<LoopDeps>>> = {
  'persistentvolume-binder-controller': runVolumeBinder,
  'persistentvolume-attach-detach-controller': runAttachDetach,
  'persistentvolumeclaim-protection-controller': runClaimProtection,
  'persistentvolume-protection-controller': runVolumeProtection,
  'ephemeral-volume-controller': runEphemeralClaims,
  'persistentvolume-expander-controller': runVolumeExpander,
};

const workloadLoops: Readonly<Record<string, WorkloadLoop>> = {
  'statefulset-controller': runStatefulSets,
  'daemonset-controller': runDaemonSets,
  'job-controller': runJobs,
  'ttl-after-finished-controller': runFinishedJobs,
  'cronjob-controller': runCronJobs,
  'deployment-controller': runDeployments,
  'replicaset-controller': runReplicaSets,
  'replicationcontroller-controller': runReplicationControllers,
  // Of our own; kube-controller-manager has nothing of the kind.
  'rollout-on-change-controller': runRolloutOnChange,
  'endpoints-controller': runEndpoints,
  'endpointslice-controller': runEndpointSlices,
  'endpointslice-mirroring-controller': runEndpointSliceMirroring,
};

export const controllerNames: readonly string[] = [loops, storageLoops, workloadLoops].flatMap(Object.keys).sort();
export const schedulerName = 'kube-scheduler';

/**
 * `*` is all but those that are off by default, `a` turns one on, `-a` off, and the first that names one counts. `none` is none.
 */
export function chooseControllers(
  list: string,
  known: readonly string[],
  offByDefault: readonly string[] = [],
): ReadonlySet<string> {
  const words = list.split(',').map((word) => word.trim());
  if (list.trim() === 'none') return new Set();
  const unknown = words.filter((word) => word !== '*' && !known.includes(word.replace(/^-/, '')));
  if (unknown.length > 0) {
    const names = unknown.map((word) => `"${word}"`).join(', ');
    const text = `Cannot run ${names}: give a list of *, NAME and -NAME, or none; the names are ${known.join(', ')}`;
    throw new OperatingError('UnknownController', text);
  }
  const isOn = (name: string): boolean => {
    const first = words.find((word) => word === name || word === `-${name}`);
    return first === undefined ? words.includes('*') && !offByDefault.includes(name) : first === name;
  };
  return new Set(known.filter(isOn));
}

/** Runs these until the signal aborts. One that fails starts again; one that cannot run here says so, and the others go on. */
export async function runLoops(
  deps: LoopDeps,
  names: ReadonlySet<string>,
  signal: AbortSignal,
  provisioners: readonly StorageLoop[] = [],
): Promise<void> {
  const alone = Object.entries(loops).filter(([name]) => names.has(name));
  const shared = Object.entries({ ...storageLoops, [schedulerName]: runScheduler }).filter(([name]) => names.has(name));
  const onStorage = [...shared.map(([, loop]) => loop), ...provisioners];
  const run = (controller: string, body: (until: AbortSignal) => Promise<void>): Promise<void> => {
    const failed = (error: unknown): void =>
      deps.notify({ kind: 'ControllerFailed', controller, object: 'all objects', error });
    const unlessImpossible = async (until: AbortSignal): Promise<void> => {
      try {
        await body(until);
      } catch (error) {
        if (!(error instanceof CannotRunError)) throw error;
        failed(error);
      }
    };
    return runTask(controller, unlessImpossible, { ...deps, notify: ({ error }) => failed(error) }, signal);
  };
  const running = alone.map(([name, loop]) => run(name, (until) => loop(deps, until)));
  if (onStorage.length > 0) {
    const group = shared.map(([name]) => name).join(', ') || 'provisioners';
    running.push(run(group, (until) => runStorage(deps, onStorage, true, until)));
  }
  const onWorkloads = Object.entries(workloadLoops).filter(([name]) => names.has(name));
  if (onWorkloads.length > 0) {
    const group = onWorkloads.map(([name]) => name).join(', ');
    const bodies = onWorkloads.map(([, loop]) => loop);
    running.push(run(group, (until) => runWorkloads(deps, bodies, until)));
  }
  await Promise.all(running);
}

interface RunningControllers {
  /** The objects that every cluster has are there. */
  readonly settled: Promise<void>;
  /** All have stopped. */
  readonly done: Promise<unknown>;
}

interface ControllersDeps extends DefaultObjectDeps, Partial<ForceDetachSetting> {
  /** Those that make volumes for claims; they run whatever the names say. */
  readonly provisioners?: readonly StorageLoop[];
  /** Absent: all. What an API server does itself always runs. */
  readonly loops?: ReadonlySet<string>;
  readonly signer?: CertificateSigner;
}

/** For our own API server. */
export function runControllers(deps: ControllersDeps, signal: AbortSignal): RunningControllers {
  const { loops: names = new Set([...controllerNames, schedulerName]), provisioners } = deps;
  const companions = [
    ...(names.has(accounts) ? [serviceAccounts] : []),
    ...(names.has(certificates) ? [rootCertificates(deps.authorityPem)] : []),
  ];
  const settled = ensureDefaultObjects(deps, signal, companions);
  const possible =
    deps.signer === undefined ? new Set([...names].filter((name) => !signerNames.includes(name))) : names;
  const run = (): Promise<unknown> =>
    Promise.all([
      runServerService(deps, signal),
      runExpiry(deps, signal),
      runLoops(deps, possible, signal, provisioners),
    ]);
  // A failure of `settled` is reported there, and only there.
  return { settled, done: settled.then(run, () => undefined) };
}
