/** The loop of StatefulSets: carries out their plans, and gives each pod its number, its labels and its claims. */
import { messageOf } from '../../base/errors.ts';
import type { ControllerRevision } from '../../kube/kinds/controller-revision.ts';
import type { Pod, PodTemplateSpec } from '../../kube/kinds/pod/pod.ts';
import type { PersistentVolumeClaim } from '../../kube/kinds/storage/persistent-volume-claim.ts';
import { type StatefulSet, statefulSetShape } from '../../kube/kinds/workloads/stateful-set.ts';
import { ordinalPodName, storageOfOrdinal } from '../../kube/references/claim-templates.ts';
import { means } from '../../kube/schema/equality.ts';
import { controllerOf } from '../../kube/schema/meta.ts';
import { type Cluster, type ControllerDeps, coreKind, kindNamed, updateSame } from '../cluster/cluster.ts';
import { WorkQueue } from '../cluster/work-queue.ts';
import type { ObjectTable, WorkloadView } from './object-table.ts';
import { type Owner, claimObjects, followOwned, selecting } from './ownership.ts';
import { PodControl, type PodWords, slowStart } from './pod-control.ts';
import { nextAvailableAtMs } from './pod-state.ts';
import { RevisionHistory, templateOf } from './revisions.ts';
import {
  type SetView,
  ordinalOf,
  planStatefulSet,
  revisionLabel,
  revisionOf,
  startsAsBefore,
  statefulSetStatus,
} from './stateful-set-plan.ts';

const controller = 'statefulset-controller';
const words: PodWords = {
  done: (verb, pod, set) => `${verb} Pod ${pod} in StatefulSet ${set} successful`,
  failed: (verb, pod, set, error) => `${verb} Pod ${pod} in StatefulSet ${set} failed error: ${error}`,
};

export async function runStatefulSets(deps: ControllerDeps, view: WorkloadView, signal: AbortSignal): Promise<void> {
  const cluster = deps.clusterFor(controller, signal);
  const sets = view.table<StatefulSet>(kindNamed(cluster, 'apps/v1', 'StatefulSet'));
  const pods = view.table<Pod>(coreKind(cluster, 'Pod'));
  const revisions = view.table<ControllerRevision>(kindNamed(cluster, 'apps/v1', 'ControllerRevision'));
  const claims = view.table<PersistentVolumeClaim>(coreKind(cluster, 'PersistentVolumeClaim'));
  const queue = new WorkQueue(controller, deps);
  sets.follow((key) => queue.touch(key));
  followOwned(
    pods,
    sets,
    ({ spec }) => spec.selector,
    (key) => queue.touch(key),
  );
  // A claim that goes, or changes hands, may be all that a new pod waits for.
  claims.follow((_key, claim, before) => {
    const owners = ({ metadata }: PersistentVolumeClaim): string => JSON.stringify(metadata.ownerReferences);
    if (before === undefined || (claim !== undefined && owners(claim) === owners(before))) return;
    for (const set of sets.inNamespace(before.metadata.namespace ?? '')) {
      if ((set.spec.volumeClaimTemplates ?? []).length > 0) queue.touch(sets.keyOf(set));
    }
  });
  const loop = new SetLoop(deps, cluster, { sets, pods, revisions, claims }, queue);
  await queue.run((key) => loop.look(key), signal);
}

interface Tables {
  readonly sets: ObjectTable<StatefulSet>;
  readonly pods: ObjectTable<Pod>;
  readonly revisions: ObjectTable<ControllerRevision>;
  readonly claims: ObjectTable<PersistentVolumeClaim>;
}

class SetLoop {
  readonly #deps: ControllerDeps;
  readonly #cluster: Cluster;
  readonly #tables: Tables;
  readonly #queue: WorkQueue;
  readonly #control: PodControl;
  readonly #history: RevisionHistory;

  constructor(deps: ControllerDeps, cluster: Cluster, tables: Tables, queue: WorkQueue) {
    this.#deps = deps;
    this.#cluster = cluster;
    this.#tables = tables;
    this.#queue = queue;
    this.#control = new PodControl(controller, deps, cluster, tables.pods, words);
    this.#history = new RevisionHistory(cluster, tables.revisions, 'controller.kubernetes.io/hash');
  }

  async look(key: string): Promise<void> {
    const set = this.#tables.sets.get(key);
    if (set === undefined) return;
    const owner = { kind: this.#tables.sets.kind, object: set };
    const history = await this.#history.sync(owner);
    const update = history.at(-1) ?? history[0];
    const current = history.find(({ metadata }) => metadata.name === set.status?.currentRevision) ?? update;
    const selects = selecting(set.spec.selector);
    const isMember = (pod: Pod): boolean => ordinalOf(pod, set.metadata.name) !== undefined;
    await claimObjects(this.#cluster, this.#tables.pods, owner, (object) => selects(object) && isMember(object as Pod));
    const view = (): SetView => ({
      set,
      pods: this.#tables.pods.controlledBy(set.metadata.uid ?? '').filter(isMember),
      current: current.metadata.name,
      update: update.metadata.name,
      nowMs: this.#deps.clock.now(),
    });
    const plan = planStatefulSet(view());
    let failure: unknown;
    try {
      if (set.metadata.deletionTimestamp === undefined) await this.#keepUp(owner, view().pods);
      const { error } = await slowStart(plan.create.length, (at) => {
        const ordinal = plan.create[at] ?? 0;
        return this.#create(owner, ordinal, startsAsBefore({ set }, ordinal) ? current : update);
      });
      if (error !== undefined) throw error;
      await Promise.all(plan.remove.map((pod) => this.#control.delete(owner, pod)));
    } catch (error) {
      failure = error;
    }
    const now = view();
    await this.#writeStatus(key, set, statefulSetStatus(now));
    const live = new Set([current.metadata.name, update.metadata.name, ...now.pods.map(revisionOf)]);
    await this.#history.trim(set, history, ({ metadata }) => live.has(metadata.name));
    const next = nextAvailableAtMs(now.pods, set.spec.minReadySeconds ?? 0, now.nowMs);
    if (next !== undefined) this.#queue.touchAt(key, next);
    if (failure !== undefined) throw failure;
  }

  /** Pods that were adopted get the labels of their number; claims that are missing are made, and belong to whom the set says. */
  async #keepUp(owner: Owner<StatefulSet>, pods: readonly Pod[]): Promise<void> {
    const { object: set } = owner;
    for (const pod of pods) {
      if (pod.metadata.deletionTimestamp === undefined) await this.#label(set, pod);
      const ordinal = ordinalOf(pod, set.metadata.name) ?? 0;
      const { claims } = storageOfOrdinal(set, { ordinal, uid: pod.metadata.uid });
      for (const claim of claims) {
        const present = this.#tables.claims.get(this.#tables.claims.keyOf(claim));
        if (present !== undefined) await this.#setOwner(set, pod.metadata.name, present, claim);
        else if (pod.status?.phase === 'Pending' && pod.metadata.deletionTimestamp === undefined) {
          await this.#createClaim(owner, pod.metadata.name, claim);
        }
      }
    }
  }

  async #label(set: StatefulSet, pod: Pod): Promise<void> {
    const wanted = labelsOf(set, ordinalOf(pod, set.metadata.name) ?? 0);
    const has = ({ metadata: { labels = {} } }: Pod): boolean =>
      Object.entries(wanted).every(([name, value]) => labels[name] === value);
    if (has(pod)) return;
    let written = pod;
    await updateSame<Pod>(this.#cluster, this.#tables.pods.keyOf(pod), pod, (current) => {
      const { metadata } = current;
      written = has(current)
        ? current
        : { ...current, metadata: { ...metadata, labels: { ...metadata.labels, ...wanted } } };
      return written;
    });
    this.#tables.pods.changed(written);
  }

  async #create(owner: Owner<StatefulSet>, ordinal: number, revision: ControllerRevision): Promise<void> {
    const { object: set } = owner;
    const template = templateOf(revision);
    const name = ordinalPodName(set.metadata.name, ordinal);
    const { claims, volumes } = storageOfOrdinal(set, { ordinal, volumes: template.spec.volumes });
    for (const claim of claims) {
      const present = this.#tables.claims.get(this.#tables.claims.keyOf(claim));
      // It goes with the pod that had the name before, and the new one is made when it is gone.
      const isStale = present?.metadata.ownerReferences?.some((one) => one.kind === 'Pod' && one.name === name);
      if (isStale === true) return;
      if (present?.metadata.deletionTimestamp !== undefined) {
        throw new Error(`pvc ${claim.metadata.name} is being deleted`);
      }
      if (present === undefined) await this.#createClaim(owner, name, claim);
      else await this.#setOwner(set, name, present, claim);
    }
    const spec = { ...template.spec, hostname: name, ...(set.spec.serviceName && { subdomain: set.spec.serviceName }) };
    const numbered: PodTemplateSpec = { ...template, spec: claims.length === 0 ? spec : { ...spec, volumes } };
    const labels = { ...labelsOf(set, ordinal), [revisionLabel]: revision.metadata.name };
    await this.#control.create(owner, numbered, { name, labels });
  }

  async #createClaim({ kind, object }: Owner<StatefulSet>, pod: string, claim: PersistentVolumeClaim): Promise<void> {
    const { claims } = this.#tables;
    const { namespace = '', name } = claim.metadata;
    const where = `Pod ${pod} in StatefulSet ${object.metadata.name}`;
    try {
      claims.created((await this.#cluster.create(claims.kind, namespace, claim)) as PersistentVolumeClaim);
      const message = `create Claim ${name} ${where} success`;
      await this.#control.events.record(kind, object, { type: 'Normal', reason: 'SuccessfulCreate', message });
    } catch (error) {
      const message = `create Claim ${name} for ${where} failed error: ${messageOf(error)}`;
      await this.#control.events.record(kind, object, { type: 'Warning', reason: 'FailedCreate', message });
      throw error;
    }
  }

  /** A claim that another controller has is left to it. */
  async #setOwner(
    set: StatefulSet,
    pod: string,
    present: PersistentVolumeClaim,
    { metadata: wanted }: PersistentVolumeClaim,
  ): Promise<void> {
    const isOurs = ({
      kind,
      name,
      uid,
    }: {
      readonly kind: string;
      readonly name: string;
      readonly uid: string;
    }): boolean => uid === set.metadata.uid || (kind === 'Pod' && name === pod);
    const owned = (claim: PersistentVolumeClaim): PersistentVolumeClaim => {
      const { ownerReferences = [], ...metadata } = claim.metadata;
      const others = ownerReferences.filter((one) => !isOurs(one));
      const now = [...others, ...(wanted.ownerReferences ?? [])];
      const uids = (list: typeof now): string => list.map(({ uid }) => uid).join();
      if (uids(now) === uids([...ownerReferences]) || controllerOf({ ownerReferences: others }) !== undefined)
        return claim;
      return { ...claim, metadata: { ...metadata, ...(now.length > 0 && { ownerReferences: now }) } };
    };
    if (owned(present) === present || present.metadata.deletionTimestamp !== undefined) return;
    let written = present;
    await updateSame<PersistentVolumeClaim>(this.#cluster, this.#tables.claims.keyOf(present), present, (current) => {
      written = owned(current);
      return written;
    });
    this.#tables.claims.changed(written);
  }

  async #writeStatus(key: string, set: StatefulSet, status: NonNullable<StatefulSet['status']>): Promise<void> {
    if (means(statefulSetShape, { ...set, status }, set)) return;
    // What was counted meanwhile stays: a name that was taken is never tried again.
    const change = (current: StatefulSet): StatefulSet => {
      const collisionCount = Math.max(status.collisionCount ?? 0, current.status?.collisionCount ?? 0);
      return { ...current, status: { ...status, collisionCount } };
    };
    await updateSame<StatefulSet>(this.#cluster, key, set, change, 'status');
  }
}

function labelsOf({ metadata: { name } }: StatefulSet, ordinal: number): Readonly<Record<string, string>> {
  return {
    'statefulset.kubernetes.io/pod-name': ordinalPodName(name, ordinal),
    'apps.kubernetes.io/pod-index': String(ordinal),
  };
}
