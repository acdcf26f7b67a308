/**
 * The loop behind `mountlet.dev/rollout-on-change`: one rolling update of a workload when a ConfigMap or a Secret changed in a key
 * that its pods use. What was last seen is kept on the workload, written together with the template that starts the rollout, so
 * that neither a crash nor a second process makes a second one.
 *
 *   unknown ──first sight──▶ marked ──a used key differs──▶ pending ──quiet, no rollout, within the limits──▶ rolled out, marked
 *                              ▲                               │ the same as before, or in the pods of a template changed since
 *                              └───────────────────────────────┘
 */
import { OperatingError } from '../../base/errors.ts';
import { TokenBucket } from '../../base/token-bucket.ts';
import { encodeBase64 } from '../../kube/kinds/config-map.ts';
import type { Secret } from '../../kube/kinds/secret.ts';
import type { DaemonSet } from '../../kube/kinds/workloads/daemon-set.ts';
import type { Deployment } from '../../kube/kinds/workloads/deployment.ts';
import type { StatefulSet } from '../../kube/kinds/workloads/stateful-set.ts';
import { type UsedObject, followedObjects, rolloutAnnotation } from '../../kube/references/used-keys.ts';
import { canonicalJson } from '../../kube/schema/equality.ts';
import { controllerOf } from '../../kube/schema/meta.ts';
import { timestamp } from '../../kube/values/times.ts';
import {
  type Cluster,
  type ControllerDeps,
  coreKind,
  kindNamed,
  unlessRefused,
  updateSame,
} from '../cluster/cluster.ts';
import { ControllerEvents } from '../cluster/events.ts';
import { WorkQueue } from '../cluster/work-queue.ts';
import {
  type SeenContent,
  changedSince,
  isComplete,
  markOf,
  planFollowing,
  rolloutTimes,
} from './configuration-mark.ts';
import type { ObjectTable, WorkloadView } from './object-table.ts';
import { isComplete as isRolledOut } from './rollout.ts';

const controller = 'rollout-on-change-controller';
const markAnnotation = 'mountlet.dev/config-hash';
const timesAnnotation = 'mountlet.dev/config-rollouts';
/** Operators that make a template anew keep this one alone. */
const restartAnnotation = 'kubectl.kubernetes.io/restartedAt';
/** Of all workloads together: an edit of what a thousand use must not replace a thousand at once. */
const rate = { perSecond: 1, burst: 20 };
/** Events name at most so many objects. */
const namedMax = 5;
const keyName = 'mountlet-rollout-key';
const keyNamespace = 'kube-system';
const keyLength = 52;

type Workload = Deployment | StatefulSet | DaemonSet;

/** As `kubectl rollout status` waits. One that replaces its pods when they are deleted has no rollout to wait for. */
const isRolling: Readonly<Record<string, (workload: Workload) => boolean>> = {
  Deployment(workload) {
    return !isRolledOut(workload, workload.status ?? {});
  },
  StatefulSet(workload) {
    const { spec, status } = workload as StatefulSet;
    const { replicas = 1, updateStrategy } = spec;
    if (updateStrategy?.type === 'OnDelete') return false;
    const { readyReplicas = 0, updatedReplicas = 0 } = status ?? {};
    return readyReplicas < replicas || updatedReplicas < replicas - (updateStrategy?.rollingUpdate?.partition ?? 0);
  },
  DaemonSet(workload) {
    const { spec, status } = workload as DaemonSet;
    if (spec.updateStrategy?.type === 'OnDelete' || status === undefined) return false;
    const { desiredNumberScheduled, updatedNumberScheduled = 0, numberAvailable = 0 } = status;
    return updatedNumberScheduled < desiredNumberScheduled || numberAvailable < desiredNumberScheduled;
  },
};

export async function runRolloutOnChange(deps: ControllerDeps, view: WorkloadView, signal: AbortSignal): Promise<void> {
  const cluster = deps.clusterFor(controller, signal);
  const loop = new Loop(deps, cluster);
  for (const kind of Object.keys(isRolling)) loop.follow(view.table<Workload>(kindNamed(cluster, 'apps/v1', kind)));
  await loop.run(signal);
}

/** What is remembered of a workload; losing it costs a little time. */
interface Memory {
  readonly table: ObjectTable<Workload>;
  uses: readonly string[];
  templateVersion?: string | undefined;
  pending?: { readonly text: string; readonly firstMs: number; readonly lastMs: number } | undefined;
  /** Said once. */
  complaint?: string | undefined;
}

class Loop {
  readonly #deps: ControllerDeps;
  readonly #cluster: Cluster;
  readonly #queue: WorkQueue;
  readonly #events: ControllerEvents;
  readonly #bucket: TokenBucket;
  /** Only of workloads that follow, by key. */
  readonly #memories = new Map<string, Memory>();
  /** Keys of workloads, by that of an object. */
  readonly #users = new Map<string, Set<string>>();
  readonly #stops: (() => void)[] = [];
  #watching: Promise<void> | undefined;
  #secretKey: string | undefined;

  constructor(deps: ControllerDeps, cluster: Cluster) {
    this.#deps = deps;
    this.#cluster = cluster;
    this.#queue = new WorkQueue(controller, deps);
    this.#events = new ControllerEvents(controller, deps, cluster);
    this.#bucket = new TokenBucket(deps.clock, rate);
  }

  follow(table: ObjectTable<Workload>): void {
    table.follow((key, now, before) => {
      const memory = this.#memories.get(key);
      if (now === undefined || (now.metadata.annotations?.[rolloutAnnotation] ?? 'false') === 'false') {
        if (memory !== undefined) this.#use(key, memory, []);
        this.#memories.delete(key);
        return;
      }
      const known: Memory = memory ?? { table, uses: [] };
      this.#memories.set(key, known);
      const isNewSpec = before === undefined || before.metadata.generation !== now.metadata.generation;
      if (
        isNewSpec &&
        before !== undefined &&
        canonicalJson(before.spec.template) !== canonicalJson(now.spec.template)
      ) {
        known.templateVersion = now.metadata.resourceVersion;
      }
      const isNew = isNewSpec || told(before) !== told(now);
      // Counts of pods matter to a rollout that waits for another alone.
      if (memory === undefined || isNew || known.pending !== undefined) this.#queue.touch(key);
    });
  }

  async run(signal: AbortSignal): Promise<void> {
    await this.#queue.run((key) => this.#look(key), signal);
    for (const stop of this.#stops) stop();
  }

  async #look(key: string): Promise<void> {
    const memory = this.#memories.get(key);
    const workload = memory?.table.get(key);
    if (memory === undefined || workload === undefined) return;
    const { metadata, spec } = workload;
    const { annotations = {} } = metadata;
    const owner = controllerOf(metadata);
    const followed =
      owner === undefined
        ? followedObjects(annotations[rolloutAnnotation] ?? '', spec.template)
        : `${owner.kind} "${owner.name}" makes this object and may undo the rollout: annotate that one`;
    const objects = typeof followed === 'string' ? [] : (followed ?? []);
    const { namespace = '' } = metadata;
    this.#use(
      key,
      memory,
      objects.map((object) => this.#keyOf(namespace, object)),
    );
    await this.#complain(memory, workload, typeof followed === 'string' ? followed : undefined);
    if (typeof followed === 'string' || metadata.deletionTimestamp !== undefined) return;
    // Secrets are followed only where somebody asks for it.
    this.#watching ??= this.#watch().catch((error: unknown) => {
      this.#watching = undefined;
      throw error;
    });
    await this.#watching;
    const contents: SeenContent[] = [];
    for (const used of objects) {
      const found = await this.#cluster.get(this.#keyOf(namespace, used));
      contents.push({ used, found });
    }
    if (isComplete(contents)) await this.#compare(key, memory, workload, contents);
  }

  async #compare(key: string, memory: Memory, workload: Workload, contents: readonly SeenContent[]): Promise<void> {
    const { annotations = {} } = workload.metadata;
    const mark = markOf(await this.#markKey(), contents);
    const changed = changedSince(annotations[markAnnotation], mark);
    if (changed === 'unknown' || changed.length === 0) {
      memory.pending = undefined;
      if (mark.text !== annotations[markAnnotation])
        await this.#write(memory, workload, { [markAnnotation]: mark.text });
      return;
    }
    const nowMs = this.#deps.clock.now();
    if (memory.pending?.text !== mark.text) {
      memory.pending = { text: mark.text, firstMs: memory.pending?.firstMs ?? nowMs, lastMs: nowMs };
    }
    const rolloutsMs = rolloutTimes(annotations[timesAnnotation], nowMs);
    const { generation } = workload.metadata;
    const plan = planFollowing(
      {
        ...memory.pending,
        changed,
        templateVersion: memory.templateVersion,
        rolloutsMs,
        isPaused: 'paused' in workload.spec && workload.spec.paused,
        isRolling:
          (workload.status?.observedGeneration ?? generation) !== generation ||
          isRolling[memory.table.kind.kind]?.(workload) === true,
      },
      nowMs,
    );
    if (plan.kind === 'wait') {
      if (plan.untilMs !== undefined) this.#queue.touchAt(key, plan.untilMs);
      return;
    }
    if (plan.kind === 'mark') return await this.#write(memory, workload, { [markAnnotation]: mark.text });
    if (!this.#bucket.tryTake()) return this.#queue.touchAt(key, nowMs + 1_000 / rate.perSecond);
    const at = timestamp(nowMs);
    const times = [...rolloutsMs.map(timestamp), at].join(',');
    const news = { [markAnnotation]: mark.text, [timesAnnotation]: times };
    const inTemplate = { [markAnnotation]: mark.short, [restartAnnotation]: at };
    await this.#write(memory, workload, news, inTemplate);
    const names = changed.map(({ used }) => `${used.kind.toLowerCase()}/${used.name}`);
    const more = names.length > namedMax ? ` and ${names.length - namedMax} more` : '';
    const message = `Started a rolling update: keys that it uses changed in ${names.slice(0, namedMax).join(', ')}${more}`;
    await this.#events.record(memory.table.kind, workload, { type: 'Normal', reason: 'RolloutStarted', message });
  }

  /** On what was looked at: what has changed meanwhile is looked at next. */
  async #write(
    { table }: Memory,
    workload: Workload,
    news: Readonly<Record<string, string>>,
    inTemplate?: Readonly<Record<string, string>>,
  ): Promise<void> {
    let written: Workload | undefined;
    await updateSame<Workload>(this.#cluster, table.keyOf(workload), workload, (current) => {
      const isSame = current.metadata.generation === workload.metadata.generation && told(current) === told(workload);
      written = isSame ? annotated(current, news, inTemplate) : undefined;
      return written ?? current;
    });
    if (written !== undefined) table.changed(written);
  }

  #use(key: string, memory: Memory, uses: readonly string[]): void {
    for (const object of memory.uses) {
      const users = this.#users.get(object);
      users?.delete(key);
      if (users?.size === 0) this.#users.delete(object);
    }
    for (const object of uses) this.#users.set(object, (this.#users.get(object) ?? new Set()).add(key));
    memory.uses = uses;
  }

  async #complain(memory: Memory, workload: Workload, text: string | undefined): Promise<void> {
    if (text === memory.complaint) return;
    memory.complaint = text;
    if (text === undefined) return;
    const message = `annotation ${rolloutAnnotation}: ${text}`;
    await this.#events.record(memory.table.kind, workload, { type: 'Warning', reason: 'InvalidReaction', message });
  }

  async #watch(): Promise<void> {
    const kinds = [coreKind(this.#cluster, 'ConfigMap'), coreKind(this.#cluster, 'Secret')];
    await this.#cluster.ready(kinds);
    for (const kind of kinds) {
      const stop = this.#cluster.watch(kind, ({ key }) => {
        for (const user of this.#users.get(key) ?? []) this.#queue.touch(user);
      });
      this.#stops.push(stop);
    }
  }

  /** One for all processes and for good. Where it was deleted, every workload is seen for the first time again. */
  async #markKey(): Promise<string> {
    if (this.#secretKey !== undefined) return this.#secretKey;
    const cluster = this.#cluster;
    const kind = coreKind(cluster, 'Secret');
    const at = cluster.keyOf(kind, keyNamespace, keyName);
    const read = async (): Promise<string | undefined> => {
      const found: Secret | undefined = await cluster.get(at);
      return found?.data?.['key'];
    };
    const metadata = { name: keyName, namespace: keyNamespace };
    const fresh = { metadata, immutable: true, data: { key: encodeBase64(this.#deps.random.suffix(keyLength)) } };
    let key = await read();
    if (key === undefined) {
      await unlessRefused(cluster.create(kind, keyNamespace, fresh), 409);
      key = await read();
    }
    if (key === undefined)
      throw new OperatingError('NoRolloutKey', `Secret "${keyNamespace}/${keyName}" has no key: delete it`);
    return (this.#secretKey = key);
  }

  #keyOf(namespace: string, { kind, name }: UsedObject): string {
    return this.#cluster.keyOf(coreKind(this.#cluster, kind), namespace, name);
  }
}

/** What of its metadata is decided on. */
function told({ metadata: { annotations, ownerReferences, deletionTimestamp } }: Workload): string {
  return canonicalJson([annotations, ownerReferences, deletionTimestamp]);
}

function annotated(
  workload: Workload,
  news: Readonly<Record<string, string>>,
  inTemplate: Readonly<Record<string, string>> | undefined,
): Workload {
  const { metadata, spec } = workload;
  const { template } = spec;
  const annotations = { ...template.metadata?.annotations, ...inTemplate };
  const restarted = { ...template, metadata: { ...template.metadata, annotations } };
  return {
    ...workload,
    metadata: { ...metadata, annotations: { ...metadata.annotations, ...news } },
    spec: inTemplate === undefined ? spec : { ...spec, template: restarted },
  };
}
