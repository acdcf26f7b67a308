/**
 * Deployments: one ReplicaSet for each version of the template, and the way from one to the next. What is done is decided by
 * `rollout.ts`, what is said of it by `deployment-status.ts`; here it is written.
 */
import { messageOf } from '../../base/errors.ts';
import type { Pod } from '../../kube/kinds/pod/pod.ts';
import type { Deployment } from '../../kube/kinds/workloads/deployment.ts';
import type { ReplicaSet } from '../../kube/kinds/workloads/replica-set.ts';
import { sameTemplate, templateHash, templateHashLabel } from '../../kube/kinds/workloads/workload.ts';
import { isOver } from '../../kube/references/claims.ts';
import { canonicalJson } from '../../kube/schema/equality.ts';
import { apiVersionOf } from '../../kube/schema/kind.ts';
import { controllerOf, controllerReference } from '../../kube/schema/meta.ts';
import {
  type Cluster,
  type ControllerDeps,
  deleteSame,
  kindNamed,
  refusalCauses,
  refusalCode,
  updateSame,
} from '../cluster/cluster.ts';
import { ControllerEvents } from '../cluster/events.ts';
import { WorkQueue } from '../cluster/work-queue.ts';
import { deadlineMs, statusOf } from './deployment-status.ts';
import type { ObjectTable, WorkloadView } from './object-table.ts';
import { claimObjects, followOwned, selecting } from './ownership.ts';
import { type RolloutStep, planRollout, revisionAnnotation, rolloutOf, sizeOf } from './rollout.ts';

const controller = 'deployment-controller';
const nameLengthMax = 253;
/** The deadline is over when it has passed, and times are kept in seconds. */
const afterDeadlineMs = 1_000;

export async function runDeployments(deps: ControllerDeps, view: WorkloadView, signal: AbortSignal): Promise<void> {
  const cluster = deps.clusterFor(controller, signal);
  const deployments = view.table<Deployment>(kindNamed(cluster, 'apps/v1', 'Deployment'));
  const sets = view.table<ReplicaSet>(kindNamed(cluster, 'apps/v1', 'ReplicaSet'));
  const pods = view.table<Pod>(kindNamed(cluster, 'v1', 'Pod'));
  const queue = new WorkQueue(controller, deps);
  const touch = (key: string): void => queue.touch(key);
  deployments.follow(touch);
  followOwned(sets, deployments, ({ spec }) => spec.selector, touch);
  // One that recreates waits for the end of old pods.
  pods.follow((_key, now, before) => {
    if (before === undefined || (now !== undefined && !isOver(now))) return;
    const { namespace = '' } = before.metadata;
    const owner = controllerOf(before.metadata);
    const set = owner === undefined ? undefined : sets.get(sets.keyAt(namespace, owner.name));
    const above = set === undefined ? undefined : controllerOf(set.metadata);
    if (above !== undefined) touch(deployments.keyAt(namespace, above.name));
  });
  const loop = new DeploymentLoop({ deps, cluster, deployments, sets, pods, queue });
  await queue.run((key) => loop.look(key), signal);
}

interface LoopParts {
  readonly deps: ControllerDeps;
  readonly cluster: Cluster;
  readonly deployments: ObjectTable<Deployment>;
  readonly sets: ObjectTable<ReplicaSet>;
  readonly pods: ObjectTable<Pod>;
  readonly queue: WorkQueue;
}

type Creation = 'created' | 'found' | 'collided';

class DeploymentLoop {
  readonly #parts: LoopParts;
  readonly #events: ControllerEvents;

  constructor(parts: LoopParts) {
    this.#parts = parts;
    this.#events = new ControllerEvents(controller, parts.deps, parts.cluster);
  }

  async look(key: string): Promise<void> {
    const { deployments, sets, pods, cluster } = this.#parts;
    const deployment = deployments.get(key);
    if (deployment === undefined) return;
    const selects = selecting(deployment.spec.selector);
    const claimed = await claimObjects(cluster, sets, { kind: deployments.kind, object: deployment }, selects);
    const rollout = rolloutOf(deployment, claimed);
    const hasOldPods = rollout.oldSets.some(({ metadata }) =>
      pods.controlledBy(metadata.uid ?? '').some((pod) => !isOver(pod)),
    );
    let isCreated = false;
    let failure: { readonly error: unknown; readonly message: string | undefined } | undefined;
    for (const step of planRollout(rollout, hasOldPods)) {
      try {
        const outcome = await this.#carryOut(deployment, step);
        // The next look has another name for it.
        if (outcome === 'collided') return;
        isCreated ||= outcome === 'created';
      } catch (error) {
        failure = { error, message: await this.#creationFailure(deployment, step, error) };
        break;
      }
    }
    await this.#writeStatus(key, deployment, { isCreated, creationFailure: failure?.message });
    if (failure !== undefined) throw failure.error;
  }

  async #carryOut(deployment: Deployment, step: RolloutStep): Promise<Creation | undefined> {
    const { cluster, sets } = this.#parts;
    switch (step.kind) {
      case 'create':
        return await this.#create(deployment, step);
      case 'revise': {
        const { minReadySeconds = 0 } = deployment.spec;
        await this.#change(step.set, ({ metadata, spec, ...rest }) => ({
          ...rest,
          metadata: { ...metadata, annotations: step.annotations },
          spec: { ...spec, minReadySeconds },
        }));
        return undefined;
      }
      case 'scale': {
        const { set, replicas, annotations } = step;
        const isWritten = await this.#change(set, ({ metadata, spec, ...rest }) => ({
          ...rest,
          metadata: { ...metadata, annotations },
          spec: { ...spec, replicas },
        }));
        if (isWritten && replicas !== sizeOf(set)) await this.#recordScaling(deployment, set, sizeOf(set), replicas);
        return undefined;
      }
      case 'remove':
        await deleteSame(cluster, sets.keyOf(step.set), step.set);
        sets.deleted(step.set);
        return undefined;
    }
  }

  /** Of a set that is as it was when this was decided; otherwise the next look decides anew. */
  async #change(set: ReplicaSet, change: (current: ReplicaSet) => ReplicaSet): Promise<boolean> {
    const { cluster, sets } = this.#parts;
    let written: ReplicaSet | undefined;
    await updateSame<ReplicaSet>(cluster, sets.keyOf(set), set, (current) => {
      const isSame = current.metadata.generation === set.metadata.generation;
      written = isSame ? change(current) : undefined;
      return written ?? current;
    });
    if (written !== undefined) sets.changed(written);
    return written !== undefined;
  }

  async #create(deployment: Deployment, step: RolloutStep & { readonly kind: 'create' }): Promise<Creation> {
    const { cluster, sets } = this.#parts;
    const wanted = this.#newSet(deployment, step);
    const { namespace = '', name } = wanted.metadata;
    try {
      const created = (await cluster.create(sets.kind, namespace, wanted)) as ReplicaSet;
      sets.created(created);
      if (step.replicas > 0) await this.#recordScaling(deployment, created, 0, step.replicas);
      return 'created';
    } catch (error) {
      if (refusalCode(error) !== 409) throw error;
      const present = (await cluster.get(sets.keyAt(namespace, name))) as ReplicaSet | undefined;
      const isOurs = present !== undefined && controllerOf(present.metadata)?.uid === deployment.metadata.uid;
      if (isOurs && sameTemplate(present.spec.template, deployment.spec.template)) {
        sets.created(present);
        return 'found';
      }
      await this.#countCollision(deployment);
      return 'collided';
    }
  }

  #newSet(deployment: Deployment, { replicas, annotations }: RolloutStep & { readonly kind: 'create' }): ReplicaSet {
    const { kind } = this.#parts.deployments;
    const { metadata, spec, status } = deployment;
    const hash = templateHash(spec.template, status?.collisionCount);
    const labels = { ...spec.template.metadata?.labels, [templateHashLabel]: hash };
    return {
      metadata: {
        name: `${metadata.name.slice(0, nameLengthMax - hash.length - 1)}-${hash}`,
        namespace: metadata.namespace ?? '',
        labels,
        annotations,
        ownerReferences: [controllerReference(apiVersionOf(kind), kind.kind, metadata)],
      },
      spec: {
        replicas,
        ...(spec.minReadySeconds !== undefined && { minReadySeconds: spec.minReadySeconds }),
        selector: {
          ...spec.selector,
          matchLabels: { ...spec.selector?.matchLabels, [templateHashLabel]: hash },
        },
        template: { ...spec.template, metadata: { ...spec.template.metadata, labels } },
      },
    };
  }

  /** Another set has the name, with another template: the next name is made with one more collision. */
  async #countCollision(deployment: Deployment): Promise<void> {
    const { cluster, deployments } = this.#parts;
    const before = deployment.status?.collisionCount ?? 0;
    await updateSame<Deployment>(
      cluster,
      deployments.keyOf(deployment),
      deployment,
      (current) =>
        (current.status?.collisionCount ?? 0) === before
          ? { ...current, status: { ...current.status, collisionCount: before + 1 } }
          : current,
      'status',
    );
  }

  /** What the Deployment says of a set that could not be created; in a namespace that is about to go it says nothing. */
  async #creationFailure(deployment: Deployment, step: RolloutStep, error: unknown): Promise<string | undefined> {
    if (step.kind !== 'create' || refusalCauses(error).includes('NamespaceTerminating')) return undefined;
    const { name } = this.#newSet(deployment, step).metadata;
    const message = `Failed to create new replica set "${name}": ${messageOf(error)}`;
    const event = { type: 'Warning', reason: 'ReplicaSetCreateError', message } as const;
    await this.#events.record(this.#parts.deployments.kind, deployment, event);
    return message;
  }

  async #recordScaling(deployment: Deployment, { metadata }: ReplicaSet, from: number, to: number): Promise<void> {
    const way = to > from ? 'up' : 'down';
    const message = `Scaled ${way} replica set ${metadata.name} from ${from} to ${to}`;
    const event = { type: 'Normal', reason: 'ScalingReplicaSet', message } as const;
    await this.#events.record(this.#parts.deployments.kind, deployment, event);
  }

  async #writeStatus(key: string, deployment: Deployment, news: Parameters<typeof statusOf>[1]): Promise<void> {
    const { deps, cluster, deployments, sets, queue } = this.#parts;
    const { uid = '', generation } = deployment.metadata;
    const selects = selecting(deployment.spec.selector);
    const now = deps.clock.now();
    const next = (current: Deployment): Deployment => {
      // With what this look has written.
      const rollout = rolloutOf(current, sets.controlledBy(uid).filter(selects));
      const revision = rollout.newSet?.metadata.annotations?.[revisionAnnotation];
      const annotations = { ...current.metadata.annotations, ...(revision && { [revisionAnnotation]: revision }) };
      const metadata = { ...current.metadata, ...(Object.keys(annotations).length > 0 && { annotations }) };
      return { ...current, metadata, status: statusOf(rollout, news, now) };
    };
    const differs = (a: Deployment, b: Deployment): boolean =>
      canonicalJson([a.metadata.annotations, a.status]) !== canonicalJson([b.metadata.annotations, b.status]);
    let last = next(deployment);
    if (differs(last, deployment)) {
      let written: Deployment | undefined;
      await updateSame<Deployment>(
        cluster,
        key,
        deployment,
        (current) => {
          // A newer spec is looked at next.
          const changed = current.metadata.generation === generation ? next(current) : current;
          written = differs(changed, current) ? changed : undefined;
          return written ?? current;
        },
        'status',
      );
      if (written !== undefined) deployments.changed((last = written));
    }
    const deadline = deadlineMs(deployment, last.status ?? {});
    if (deadline !== undefined) queue.touchAt(key, Math.max(deadline, now) + afterDeadlineMs);
  }
}
