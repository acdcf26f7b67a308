/**
 * The versions of the template of a StatefulSet or DaemonSet, each kept as a ControllerRevision, so that users can go back to it. A
 * version that comes again gets the highest number and no second object.
 */
import type { ControllerRevision } from '../../kube/kinds/controller-revision.ts';
import { type PodTemplateSpec, podTemplateSpec } from '../../kube/kinds/pod/pod.ts';
import { sameTemplate, templateHash } from '../../kube/kinds/workloads/workload.ts';
import { canonicalJson, isRecord } from '../../kube/schema/equality.ts';
import { type KubeObject, apiVersionOf } from '../../kube/schema/kind.ts';
import { type LabelSelector, controllerOf, controllerReference } from '../../kube/schema/meta.ts';
import { decode } from '../../kube/schema/schema.ts';
import { type Cluster, deleteSame, refusalCode, updateSame } from '../cluster/cluster.ts';
import type { ObjectTable } from './object-table.ts';
import { type Owner, claimObjects, selecting } from './ownership.ts';

interface Versioned extends KubeObject {
  readonly spec: {
    readonly selector?: LabelSelector | undefined;
    readonly template: PodTemplateSpec;
    readonly revisionHistoryLimit?: number | undefined;
  };
  readonly status?: { readonly collisionCount?: number | undefined } | undefined;
}

/** Other objects than revisions have names that are as long. */
const ownerNameLengthMax = 223;
const limitByDefault = 10;

/** The template as it was. */
export function templateOf({ data }: ControllerRevision): PodTemplateSpec {
  const spec = isRecord(data) ? data['spec'] : undefined;
  return decode(podTemplateSpec, isRecord(spec) ? spec['template'] : undefined).value;
}

type Step =
  | { readonly kind: 'use'; readonly revision: ControllerRevision }
  | { readonly kind: 'renumber'; readonly revision: ControllerRevision; readonly number: number }
  | { readonly kind: 'create'; readonly number: number };

/** How the template of now becomes the newest version. */
function nextRevision(template: PodTemplateSpec, revisions: readonly ControllerRevision[]): Step {
  const inOrder = revisions.toSorted((a, b) => a.revision - b.revision);
  const newest = inOrder.at(-1);
  const number = (newest?.revision ?? 0) + 1;
  const same = inOrder.findLast((revision) => sameTemplate(templateOf(revision), template));
  if (same === undefined) return { kind: 'create', number };
  return same === newest ? { kind: 'use', revision: same } : { kind: 'renumber', revision: same, number };
}

export class RevisionHistory {
  readonly #cluster: Cluster;
  readonly #revisions: ObjectTable<ControllerRevision>;
  readonly #hashLabel: string;

  /** The label has the hash that is also the end of a revision's name. */
  constructor(cluster: Cluster, revisions: ObjectTable<ControllerRevision>, hashLabel: string) {
    this.#cluster = cluster;
    this.#revisions = revisions;
    this.#hashLabel = hashLabel;
  }

  hashOf({ metadata: { labels = {} } }: ControllerRevision): string {
    return labels[this.#hashLabel] ?? '';
  }

  /** All versions there are, the one of the owner's template last. */
  async sync(owner: Owner<Versioned>): Promise<readonly [...ControllerRevision[], ControllerRevision]> {
    const { spec } = owner.object;
    const mine = await claimObjects(this.#cluster, this.#revisions, owner, selecting(spec.selector));
    const step = nextRevision(spec.template, mine);
    const newest =
      step.kind === 'use'
        ? step.revision
        : step.kind === 'create'
          ? await this.#create(owner, step.number)
          : await this.#renumber(step.revision, step.number);
    return [...mine.filter(({ metadata }) => metadata.name !== newest.metadata.name), newest];
  }

  /** Deletes the oldest of those that no pod is of, beyond as many as are kept. */
  async trim(
    { spec }: Versioned,
    revisions: readonly ControllerRevision[],
    isLive: (revision: ControllerRevision) => boolean,
  ): Promise<void> {
    const old = revisions.filter((revision) => !isLive(revision)).toSorted((a, b) => a.revision - b.revision);
    const tooMany = old.length - (spec.revisionHistoryLimit ?? limitByDefault);
    for (const revision of old.slice(0, Math.max(0, tooMany))) {
      await deleteSame(this.#cluster, this.#revisions.keyOf(revision), revision);
      this.#revisions.deleted(revision);
    }
  }

  async #renumber(revision: ControllerRevision, number: number): Promise<ControllerRevision> {
    const key = this.#revisions.keyOf(revision);
    let written = revision;
    await updateSame<ControllerRevision>(this.#cluster, key, revision, (current) => {
      written = current.revision >= number ? current : { ...current, revision: number };
      return written;
    });
    this.#revisions.changed(written);
    return written;
  }

  async #create({ kind, object }: Owner<Versioned>, number: number): Promise<ControllerRevision> {
    const { template } = object.spec;
    const { namespace = '', name, annotations } = object.metadata;
    const hash = templateHash(template, object.status?.collisionCount);
    const revision: ControllerRevision = {
      metadata: {
        name: `${name.slice(0, ownerNameLengthMax)}-${hash}`,
        namespace,
        labels: { ...template.metadata?.labels, [this.#hashLabel]: hash },
        ...(annotations && { annotations }),
        ownerReferences: [controllerReference(apiVersionOf(kind), kind.kind, object.metadata)],
      },
      // As a patch that brings the version back: `kubectl rollout undo` sends it as it is, and compares it as bytes.
      data: JSON.parse(canonicalJson({ spec: { template: { ...template, $patch: 'replace' } } })) as unknown,
      revision: number,
    };
    try {
      const created = (await this.#cluster.create(this.#revisions.kind, namespace, revision)) as ControllerRevision;
      this.#revisions.created(created);
      return created;
    } catch (error) {
      if (refusalCode(error) !== 409) throw error;
      const taken = (await this.#cluster.get(this.#revisions.keyOf(revision))) as ControllerRevision | undefined;
      const isOurs = taken !== undefined && controllerOf(taken.metadata)?.uid === object.metadata.uid;
      if (isOurs && sameTemplate(templateOf(taken), template)) return taken;
      // Another version has the name: the next look tries another one.
      await this.#countCollision({ kind, object });
      throw error;
    }
  }

  async #countCollision({ kind, object }: Owner<Versioned>): Promise<void> {
    const { namespace = '', name } = object.metadata;
    const count = (object.status?.collisionCount ?? 0) + 1;
    const change = (current: Versioned): Versioned => ({
      ...current,
      status: { ...current.status, collisionCount: count },
    });
    await updateSame<Versioned>(this.#cluster, this.#cluster.keyOf(kind, namespace, name), object, change, 'status');
  }
}
