/** Creates and deletes the pods of a workload, says so in Events of the workload, and shows both in the table of pods at once. */
import { messageOf } from '../../base/errors.ts';
import { type PodTemplateSpec, type Pod, podOfTemplate } from '../../kube/kinds/pod/pod.ts';
import { apiVersionOf } from '../../kube/schema/kind.ts';
import { type ObjectMeta, controllerReference } from '../../kube/schema/meta.ts';
import { dnsSubdomainProblems } from '../../kube/values/names.ts';
import { asPrefix } from '../../kube/schema/metadata-validation.ts';
import { type Cluster, type ControllerDeps, refusalCauses, refusalCode } from '../cluster/cluster.ts';
import { ControllerEvents } from '../cluster/events.ts';
import type { ObjectTable } from './object-table.ts';
import type { Owner } from './ownership.ts';

type Verb = 'create' | 'delete';

/** What Events say of a pod; controllers of numbered pods have words of their own. */
export interface PodWords {
  done(verb: Verb, pod: string, owner: string): string;
  failed(verb: Verb, pod: string, owner: string, error: string): string;
}

const plainWords: PodWords = {
  done: (verb, pod) => `${verb === 'create' ? 'Created' : 'Deleted'} pod: ${pod}`,
  failed: (verb, _pod, _owner, error) => `Error ${verb === 'create' ? 'creating' : 'deleting'}: ${error}`,
};

export class PodControl {
  readonly #cluster: Cluster;
  readonly #pods: ObjectTable<Pod>;
  readonly #words: PodWords;
  readonly events: ControllerEvents;

  /** `component`: who the Events are from. */
  constructor(
    component: string,
    deps: ControllerDeps,
    cluster: Cluster,
    pods: ObjectTable<Pod>,
    words: PodWords = plainWords,
  ) {
    this.#cluster = cluster;
    this.#pods = pods;
    this.#words = words;
    this.events = new ControllerEvents(component, deps, cluster);
  }

  /**
   * A pod of the template that belongs to the owner. `own`: what it has besides, a name of its own or a beginning of one; by
   * default the owner's. Undefined in a namespace that is about to go, where nothing needs to be created any more.
   */
  async create(owner: Owner, template: PodTemplateSpec, own: Partial<ObjectMeta> = {}): Promise<Pod | undefined> {
    const { kind, object } = owner;
    const { namespace = '', name } = object.metadata;
    const pod = podOfTemplate(template, {
      ...(own.name === undefined && { generateName: namePrefix(name) }),
      name: '',
      ...own,
      namespace,
      ownerReferences: [controllerReference(apiVersionOf(kind), kind.kind, object.metadata)],
    });
    const created = await this.#try(owner, 'create', own.name ?? '', async () => {
      return (await this.#cluster.create(this.#pods.kind, namespace, pod)) as Pod;
    });
    if (created === undefined) return undefined;
    this.#pods.created(created);
    const message = this.#words.done('create', created.metadata.name, name);
    await this.events.record(kind, object, { type: 'Normal', reason: 'SuccessfulCreate', message });
    return created;
  }

  /** One that is gone already is as good as deleted. */
  async delete(owner: Owner, pod: Pod): Promise<void> {
    const { uid } = pod.metadata;
    await this.#try(owner, 'delete', pod.metadata.name, async () => {
      try {
        await this.#cluster.delete(this.#pods.keyOf(pod), uid === undefined ? {} : { uid });
      } catch (error) {
        if (![404, 409].some((code) => code === refusalCode(error))) throw error;
      }
    });
    this.#pods.deleted(pod);
    const message = this.#words.done('delete', pod.metadata.name, owner.object.metadata.name);
    await this.events.record(owner.kind, owner.object, { type: 'Normal', reason: 'SuccessfulDelete', message });
  }

  async #try<R>({ kind, object }: Owner, verb: Verb, pod: string, act: () => Promise<R>): Promise<R | undefined> {
    try {
      return await act();
    } catch (error) {
      if (refusalCauses(error).includes('NamespaceTerminating')) return undefined;
      const message = this.#words.failed(verb, pod, object.metadata.name, messageOf(error));
      const reason = verb === 'create' ? 'FailedCreate' : 'FailedDelete';
      await this.events.record(kind, object, { type: 'Warning', reason, message });
      throw error;
    }
  }
}

/** `web-`, or `web` where a dash would make no beginning of a name. */
function namePrefix(owner: string): string {
  return asPrefix(dnsSubdomainProblems)(`${owner}-`).length === 0 ? `${owner}-` : owner;
}

interface BatchOutcome {
  readonly done: number;
  readonly error: unknown;
}

/** Side by side in batches of 1, 2, 4 and so on: where the first is refused, hundreds of others are not tried. */
export async function slowStart(count: number, act: (index: number) => Promise<unknown>): Promise<BatchOutcome> {
  let done = 0;
  for (let size = 1; done < count; size *= 2) {
    const batch = Array.from({ length: Math.min(size, count - done) }, (_, index) => act(done + index));
    const outcomes = await Promise.allSettled(batch);
    const failed = outcomes.find((outcome) => outcome.status === 'rejected');
    done += outcomes.filter(({ status }) => status === 'fulfilled').length;
    if (failed !== undefined) return { done, error: failed.reason };
  }
  return { done, error: undefined };
}
