/** The loops of Jobs: one carries out their plans, one deletes those that finished long enough ago. */
import { hasCondition } from '../../kube/kinds/workloads/job-validation.ts';
import { type Job, jobShape } from '../../kube/kinds/workloads/job.ts';
import type { Pod } from '../../kube/kinds/pod/pod.ts';
import { withFinalizer, withoutFinalizer } from '../../kube/references/claims.ts';
import { means } from '../../kube/schema/equality.ts';
import type { KubeObject } from '../../kube/schema/kind.ts';
import { controllerOf } from '../../kube/schema/meta.ts';
import {
  type Cluster,
  type ControllerDeps,
  coreKind,
  kindNamed,
  unlessRefused,
  updateSame,
} from '../cluster/cluster.ts';
import { WorkQueue } from '../cluster/work-queue.ts';
import { isTracked, jobPod, trackingFinalizer } from './job-pods.ts';
import { isFinished, planJob } from './job-plan.ts';
import type { ObjectTable, WorkloadView } from './object-table.ts';
import { claimObjects, followOwned, selecting } from './ownership.ts';
import { PodControl, slowStart } from './pod-control.ts';

const controller = 'job-controller';
const manager = `kubernetes.io/${controller}`;

export async function runJobs(deps: ControllerDeps, view: WorkloadView, signal: AbortSignal): Promise<void> {
  const cluster = deps.clusterFor(controller, signal);
  const kind = kindNamed(cluster, 'batch/v1', 'Job');
  const jobs = view.table<Job>(kind);
  const pods = view.table<Pod>(coreKind(cluster, 'Pod'));
  const control = new PodControl(controller, deps, cluster, pods);
  const queue = new WorkQueue(controller, deps);
  const orphans = new WorkQueue(controller, deps);
  jobs.follow((key, job, before) => {
    queue.touch(key);
    if (job?.metadata.uid === before?.metadata.uid) return;
    for (const pod of pods.controlledBy(before?.metadata.uid ?? '')) orphans.touch(pods.keyOf(pod));
  });
  followOwned(
    pods,
    jobs,
    ({ spec }) => spec.selector,
    (key) => queue.touch(key),
  );
  pods.follow((key, pod) => {
    if (pod === undefined || !isTracked(pod)) return;
    const owner = controllerOf(pod.metadata);
    const job = owner && jobs.get(jobs.keyAt(pod.metadata.namespace ?? '', owner.name));
    if (job === undefined || job.metadata.uid !== owner?.uid) orphans.touch(key);
  });
  const sync = async (key: string): Promise<void> => {
    // Read from the server: what is counted is counted against this very version.
    const job = (await cluster.get(key)) as Job | undefined;
    if (job === undefined || (job.spec.managedBy ?? manager) !== manager) return;
    const owner = { kind, object: job };
    const mine = isFinished(job)
      ? pods.controlledBy(job.metadata.uid ?? '')
      : await claimObjects(cluster, pods, owner, selecting(job.spec.selector));
    const plan = planJob(job, mine, deps.clock.now());
    if (!(await writeStatus(cluster, key, job, plan.status))) return queue.touch(key);
    for (const event of plan.events) await control.events.record(kind, job, event);
    await Promise.all(plan.release.map((pod) => changeTracking(cluster, pods, pod, withoutFinalizer)));
    await Promise.all(plan.track.map((pod) => changeTracking(cluster, pods, pod, withFinalizer)));
    const remove = async (pod: Pod): Promise<void> => {
      if (plan.isUncounted) await changeTracking(cluster, pods, pod, withoutFinalizer);
      await control.delete(owner, pod);
    };
    await Promise.all(plan.remove.map(remove));
    const { error } = await slowStart(plan.create.length, (at) => {
      const { template, own } = jobPod(job, plan.create[at]);
      return control.create(owner, template, own);
    });
    if (error !== undefined) throw error;
    if (plan.againAtMs !== undefined) queue.touchAt(key, plan.againAtMs);
  };
  /** A pod whose job is gone is waited for by nobody's counters. */
  const free = async (key: string): Promise<void> => {
    const pod = pods.get(key);
    const owner = pod && controllerOf(pod.metadata);
    if (pod === undefined || (owner !== undefined && owner.kind !== kind.kind)) return;
    const job = owner && (await cluster.get(jobs.keyAt(pod.metadata.namespace ?? '', owner.name)));
    if (job === undefined || job.metadata.uid !== owner?.uid)
      await changeTracking(cluster, pods, pod, withoutFinalizer);
  };
  await Promise.all([queue.run(sync, signal), orphans.run(free, signal)]);
}

/** False where the job has changed since it was read: then nothing was written. */
async function writeStatus(cluster: Cluster, key: string, job: Job, status: Job['status']): Promise<boolean> {
  if (means(jobShape, { ...job, ...(status && { status }) }, job)) return true;
  let isSame = false;
  const change = (current: Job): Job => {
    isSame = current.metadata.resourceVersion === job.metadata.resourceVersion;
    return isSame ? { ...current, ...(status && { status }) } : current;
  };
  await updateSame<Job>(cluster, key, job, change, 'status');
  return isSame;
}

/** At once in the table too: a pod is never counted by what it looked like before. */
async function changeTracking(
  cluster: Cluster,
  pods: ObjectTable<Pod>,
  pod: Pod,
  change: (object: KubeObject, finalizer: string) => KubeObject,
): Promise<void> {
  let written: Pod | undefined;
  await updateSame<Pod>(cluster, pods.keyOf(pod), pod, (current) => {
    const changed = change(current, trackingFinalizer) as Pod;
    // One that has begun to end takes no finalizer any more.
    const isLate = change === withFinalizer && current.metadata.deletionTimestamp !== undefined;
    written = isLate ? current : changed;
    return written;
  });
  if (written !== undefined) pods.changed(written);
}

/** Deletes finished jobs when their time is over, with their pods. */
export async function runFinishedJobs(deps: ControllerDeps, view: WorkloadView, signal: AbortSignal): Promise<void> {
  const name = 'ttl-after-finished-controller';
  const cluster = deps.clusterFor(name, signal);
  const jobs = view.table<Job>(kindNamed(cluster, 'batch/v1', 'Job'));
  const queue = new WorkQueue(name, deps);
  jobs.follow((key, job) => {
    if (job !== undefined && endsAtMs(job) !== undefined) queue.touch(key);
  });
  const look = async (key: string): Promise<void> => {
    const job = (await cluster.get(key)) as Job | undefined;
    const endMs = job && endsAtMs(job);
    if (job === undefined || endMs === undefined) return;
    if (endMs > deps.clock.now()) return queue.touchAt(key, endMs);
    const { uid = '' } = job.metadata;
    await unlessRefused(cluster.delete(key, { uid }, { propagationPolicy: 'Foreground' }), 404, 409);
  };
  await queue.run(look, signal);
}

/** Undefined for a job that stays, runs or is on its way out. */
function endsAtMs({ metadata, spec, status }: Job): number | undefined {
  const { ttlSecondsAfterFinished: seconds } = spec;
  if (seconds === undefined || metadata.deletionTimestamp !== undefined) return undefined;
  const type = ['Complete', 'Failed'].find((one) => hasCondition(status, one));
  const finished = status?.conditions?.find((one) => one.type === type && one.status === 'True');
  const time = Date.parse(finished?.lastTransitionTime ?? '');
  return Number.isNaN(time) ? undefined : time + seconds * 1000;
}
