/** The loop of DaemonSets: carries out their plans. */
import { FailureBackOff } from '../../base/back-off.ts';
import type { ControllerRevision } from '../../kube/kinds/controller-revision.ts';
import type { Node } from '../../kube/kinds/node.ts';
import type { Pod } from '../../kube/kinds/pod/pod.ts';
import { type DaemonSet, daemonSetShape } from '../../kube/kinds/workloads/daemon-set.ts';
import { means } from '../../kube/schema/equality.ts';
import { type Cluster, type ControllerDeps, coreKind, kindNamed, updateSame } from '../cluster/cluster.ts';
import type { ControllerEvent } from '../cluster/events.ts';
import { WorkQueue } from '../cluster/work-queue.ts';
import {
  type DaemonView,
  daemonSetStatus,
  fitOf,
  hashLabel,
  nodeOf,
  planDaemonSet,
  templateFor,
} from './daemon-set-plan.ts';
import type { ObjectTable, WorkloadView } from './object-table.ts';
import { type Owner, claimObjects, followOwned, selecting } from './ownership.ts';
import { PodControl, slowStart } from './pod-control.ts';
import { nextAvailableAtMs } from './pod-state.ts';
import { RevisionHistory } from './revisions.ts';

const controller = 'daemonset-controller';
/** As many as Kubernetes creates and deletes at a time. */
const burst = 250;
const failedPause = { firstMs: 1_000, msMax: 15 * 60_000 };

export async function runDaemonSets(deps: ControllerDeps, view: WorkloadView, signal: AbortSignal): Promise<void> {
  const cluster = deps.clusterFor(controller, signal);
  const sets = view.table<DaemonSet>(kindNamed(cluster, 'apps/v1', 'DaemonSet'));
  const pods = view.table<Pod>(coreKind(cluster, 'Pod'));
  const nodes = view.table<Node>(coreKind(cluster, 'Node'));
  const revisions = view.table<ControllerRevision>(kindNamed(cluster, 'apps/v1', 'ControllerRevision'));
  const queue = new WorkQueue(controller, deps);
  const all = new Map<string, DaemonSet>();
  sets.follow((key, set) => {
    if (set === undefined) all.delete(key);
    else all.set(key, set);
    queue.touch(key);
  });
  followOwned(
    pods,
    sets,
    ({ spec }) => spec.selector,
    (key) => queue.touch(key),
  );
  nodes.follow((_key, node, before) => {
    for (const [key, set] of all) {
      const fits = [node, before].map((one) => one && fitOf(set, one));
      // A node reports its state again and again.
      if (JSON.stringify(fits[0]) !== JSON.stringify(fits[1])) queue.touch(key);
    }
  });
  const loop = new DaemonLoop(deps, cluster, { sets, pods, nodes, revisions }, queue);
  await queue.run((key) => loop.look(key), signal);
}

interface Tables {
  readonly sets: ObjectTable<DaemonSet>;
  readonly pods: ObjectTable<Pod>;
  readonly nodes: ObjectTable<Node>;
  readonly revisions: ObjectTable<ControllerRevision>;
}

class DaemonLoop {
  readonly #deps: ControllerDeps;
  readonly #cluster: Cluster;
  readonly #tables: Tables;
  readonly #queue: WorkQueue;
  readonly #control: PodControl;
  readonly #history: RevisionHistory;
  readonly #failures: FailureBackOff;

  constructor(deps: ControllerDeps, cluster: Cluster, tables: Tables, queue: WorkQueue) {
    this.#deps = deps;
    this.#cluster = cluster;
    this.#tables = tables;
    this.#queue = queue;
    this.#control = new PodControl(controller, deps, cluster, tables.pods);
    this.#history = new RevisionHistory(cluster, tables.revisions, hashLabel);
    this.#failures = new FailureBackOff(failedPause.firstMs, failedPause.msMax, deps.clock);
  }

  async look(key: string): Promise<void> {
    const set = this.#tables.sets.get(key);
    if (set === undefined || set.metadata.deletionTimestamp !== undefined) return;
    const owner = { kind: this.#tables.sets.kind, object: set };
    const history = await this.#history.sync(owner);
    const hash = this.#history.hashOf(history.at(-1) ?? history[0]);
    await claimObjects(this.#cluster, this.#tables.pods, owner, selecting(set.spec.selector));
    const view = (): DaemonView => ({
      set,
      nodes: this.#tables.nodes.inNamespace(''),
      pods: this.#tables.pods.controlledBy(set.metadata.uid ?? ''),
      hash,
      nowMs: this.#deps.clock.now(),
    });
    const plan = planDaemonSet(view());
    const { due, againAtMs } = this.#dueOf(set, plan.failed);
    let failure: unknown;
    try {
      await this.#announceFailed(owner, due);
      const ending = [...plan.remove, ...due].slice(0, burst);
      await this.#announceSucceeded(owner, ending);
      await Promise.all(ending.map((pod) => this.#control.delete(owner, pod)));
      const { error } = await slowStart(Math.min(plan.create.length, burst), (at) => {
        const template = templateFor(set.spec.template, plan.create[at] ?? '');
        return this.#control.create(owner, template, { labels: { [hashLabel]: hash } });
      });
      if (error !== undefined) throw error;
    } catch (error) {
      failure = error;
    }
    const now = view();
    await this.#writeStatus(key, set, daemonSetStatus(now));
    const used = new Set([hash, ...now.pods.map(({ metadata }) => metadata.labels?.[hashLabel] ?? '')]);
    await this.#history.trim(set, history, (revision) => used.has(this.#history.hashOf(revision)));
    // One appointment for all: the queue keeps the last.
    const next = nextAvailableAtMs(now.pods, set.spec.minReadySeconds ?? 0, now.nowMs) ?? Infinity;
    const wakeAtMs = Math.min(next, againAtMs);
    if (wakeAtMs < Infinity) this.#queue.touchAt(key, wakeAtMs);
    if (failure !== undefined) throw failure;
  }

  /** Those whose pause is over, and when the next one's is. A node that refuses every pod is not asked in a tight loop. */
  #dueOf(set: DaemonSet, failed: readonly Pod[]): { readonly due: readonly Pod[]; readonly againAtMs: number } {
    const nowMs = this.#deps.clock.now();
    const { uid = '', generation = 0 } = set.metadata;
    const due: Pod[] = [];
    let againAtMs = Infinity;
    this.#failures.collectGarbage();
    for (const pod of failed) {
      const id = `${uid}/${generation}/${nodeOf(pod)}`;
      const waited = Date.parse(pod.metadata.creationTimestamp ?? '') + this.#failures.delayMsOf(id);
      if (waited > nowMs) {
        againAtMs = Math.min(againAtMs, waited);
        continue;
      }
      this.#failures.next(id, nowMs);
      due.push(pod);
    }
    return { due, againAtMs };
  }

  async #announceFailed({ kind, object }: Owner<DaemonSet>, pods: readonly Pod[]): Promise<void> {
    for (const pod of pods) {
      const { namespace = '', name } = pod.metadata;
      const message = `Found failed daemon pod ${namespace}/${name} on node ${nodeOf(pod)}, will try to kill it`;
      await this.#control.events.record(kind, object, { type: 'Warning', reason: 'FailedDaemonPod', message });
    }
  }

  async #announceSucceeded({ kind, object }: Owner<DaemonSet>, pods: readonly Pod[]): Promise<void> {
    for (const pod of pods.filter(({ status }) => status?.phase === 'Succeeded')) {
      const { namespace = '', name } = pod.metadata;
      const message = `Found succeeded daemon pod ${namespace}/${name} on node ${nodeOf(pod)}, will try to delete it`;
      const event: ControllerEvent = { type: 'Normal', reason: 'SucceededDaemonPod', message };
      await this.#control.events.record(kind, object, event);
    }
  }

  async #writeStatus(key: string, set: DaemonSet, status: NonNullable<DaemonSet['status']>): Promise<void> {
    if (means(daemonSetShape, { ...set, status }, set)) return;
    const change = (current: DaemonSet): DaemonSet => {
      const { collisionCount } = current.status ?? {};
      return { ...current, status: { ...status, ...(collisionCount !== undefined && { collisionCount }) } };
    };
    await updateSame<DaemonSet>(this.#cluster, key, set, change, 'status');
  }
}
