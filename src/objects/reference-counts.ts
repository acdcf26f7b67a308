/**
 * Which objects the registered pods name, as references to a store that keeps what is referenced. A pod is updated by adding
 * before releasing, so an object that it names before and after, or shares with another pod, is never let go of in between.
 */
import type { Pod } from '../kube/kinds/pod/pod.ts';
import { type PodReference, type ReferencedKind, referencesOf } from '../kube/pod-references.ts';
import type { ObjectId } from './object-id.ts';

export interface Reference extends ObjectId {
  readonly podUid: string;
  readonly use: PodReference['use'];
}

/** Neither call waits for anything. */
export interface ReferenceHolder {
  addReference(reference: Reference): void;
  /** Of a reference that is not held: no effect. */
  releaseReference(reference: Reference): void;
}

export class ReferenceCounts {
  readonly #kind: ReferencedKind;
  readonly #holder: ReferenceHolder;
  readonly #pods = new Map<string, ReadonlyMap<string, Reference>>();

  constructor(kind: ReferencedKind, holder: ReferenceHolder) {
    this.#kind = kind;
    this.#holder = holder;
  }

  registerPod(pod: Pod): void {
    const key = podKey(pod);
    const before = this.#pods.get(key);
    const now = this.#referencesOf(pod);
    this.#pods.set(key, now);
    for (const [name, reference] of now) if (!before?.has(name)) this.#holder.addReference(reference);
    for (const [name, reference] of before ?? []) if (!now.has(name)) this.#holder.releaseReference(reference);
  }

  unregisterPod(pod: Pod): void {
    const key = podKey(pod);
    const references = this.#pods.get(key);
    this.#pods.delete(key);
    for (const reference of references?.values() ?? []) this.#holder.releaseReference(reference);
  }

  #referencesOf(pod: Pod): ReadonlyMap<string, Reference> {
    const { namespace = '', uid = '' } = pod.metadata;
    const named = referencesOf(pod).filter(({ kind, name }) => kind === this.#kind && name !== '');
    const shown = new Set(named.filter(({ use }) => use === 'shown').map(({ name }) => name));
    return new Map(
      named.map(({ name }) => {
        const use = shown.has(name) ? 'shown' : 'read';
        // The use is part of the key: if it changes, the reference is taken again.
        return [`${use}/${name}`, { namespace, name, podUid: uid, use }];
      }),
    );
  }
}

/** With the uid: a pod that is ending and its successor of the same name are registered side by side. */
function podKey({ metadata: { namespace = '', name, uid = '' } }: Pod): string {
  return JSON.stringify([namespace, name, uid]);
}
