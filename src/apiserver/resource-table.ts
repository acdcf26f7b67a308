/** All kinds the server serves, by the names a request may give them. */
import type { Resource } from './resource.ts';

export class ResourceTable {
  readonly all: readonly Resource[];
  readonly #byPlural = new Map<string, Resource>();
  readonly #byKind = new Map<string, Resource>();

  constructor(all: readonly Resource[]) {
    this.all = all;
    for (const resource of all) {
      this.#byPlural.set(`${resource.group}/${resource.version}/${resource.plural}`, resource);
      this.#byKind.set(`${apiVersionOf(resource)}/${resource.kind}`, resource);
    }
  }

  find(group: string, version: string, plural: string): Resource | undefined {
    return this.#byPlural.get(`${group}/${version}/${plural}`);
  }

  /** The kind an owner reference names. */
  findKind(apiVersion: string, kind: string): Resource | undefined {
    return this.#byKind.get(`${apiVersion}/${kind}`);
  }

  /** The one kind in whose place a stored key is; a kind served in several groups is stored in one of them. */
  findStored(group: string, plural: string): Resource | undefined {
    return this.all.find((resource) => resource.group === group && resource.plural === plural);
  }

  serves(group: string, version: string): boolean {
    return this.all.some((resource) => resource.group === group && resource.version === version);
  }
}

export function apiVersionOf({ group, version }: Pick<Resource, 'group' | 'version'>): string {
  return group === '' ? version : `${group}/${version}`;
}
