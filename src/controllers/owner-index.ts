/** Who depends on whom: for each owner, by uid, the keys of the objects that name it. Kept from what the store tells. */
import type { KubeObject } from '../apiserver/model/resource.ts';

export class OwnerIndex {
  readonly #dependents = new Map<string, Set<string>>();
  readonly #owners = new Map<string, readonly string[]>();

  /** The object as it is now; undefined when it is gone. */
  set(key: string, object: KubeObject | undefined): void {
    for (const uid of this.#owners.get(key) ?? []) {
      const keys = this.#dependents.get(uid);
      keys?.delete(key);
      if (keys?.size === 0) this.#dependents.delete(uid);
    }
    this.#owners.delete(key);
    const uids = (object?.metadata.ownerReferences ?? []).map(({ uid }) => uid);
    if (uids.length === 0) return;
    this.#owners.set(key, uids);
    for (const uid of uids) {
      const keys = this.#dependents.get(uid) ?? new Set();
      this.#dependents.set(uid, keys.add(key));
    }
  }

  dependentsOf(uid: string): readonly string[] {
    return [...(this.#dependents.get(uid) ?? [])];
  }

  /** Nobody depends on anybody, so that no deletion needs a look. */
  get isEmpty(): boolean {
    return this.#dependents.size === 0;
  }

  has(key: string): boolean {
    return this.#owners.has(key);
  }
}
