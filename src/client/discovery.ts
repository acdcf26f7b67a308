/** Which kinds an API server has, and where: what kubectl asks before it can apply a manifest or list `cm`. */
import { MountletError } from '../base/errors.ts';
import type { ApiClient } from './api/api-client.ts';
import { apiVersionOf } from '../kube/schema/kind.ts';
import type { ResourceReference } from './api/resource-reference.ts';

export interface DiscoveredResource extends ResourceReference {
  readonly singular: string;
  readonly shortNames: readonly string[];
  readonly verbs: readonly string[];
}

interface ResourceList {
  readonly groupVersion?: string;
  readonly resources?: readonly {
    readonly name: string;
    readonly singularName?: string;
    readonly kind: string;
    readonly namespaced: boolean;
    readonly shortNames?: readonly string[];
    readonly verbs?: readonly string[];
  }[];
}

interface GroupList {
  readonly groups?: readonly {
    readonly preferredVersion: { readonly groupVersion: string };
    readonly versions?: readonly { readonly groupVersion: string }[];
  }[];
}

export class UnknownKindError extends MountletError {
  readonly reason = 'UnknownKind';
}

export class DiscoveredResources {
  /** Each once, in the version that its group prefers or else the first that has it. */
  readonly all: readonly DiscoveredResource[];
  readonly #inAllVersions: readonly DiscoveredResource[];

  constructor(resources: readonly DiscoveredResource[]) {
    const byName = new Map<string, DiscoveredResource>();
    for (const one of resources.toReversed()) byName.set(`${one.plural}.${one.group}`, one);
    this.all = resources.filter((one) => byName.get(`${one.plural}.${one.group}`) === one);
    this.#inAllVersions = resources;
  }

  /**
   * One request for each version of a group. A group may be served by another server, which is away: `without` hears of it and the rest is
   * answered; absent, all of it fails.
   */
  static async ask(
    client: Pick<ApiClient, 'read'>,
    signal: AbortSignal,
    without?: (path: string, error: unknown) => void,
  ): Promise<DiscoveredResources> {
    const { groups = [] } = (await client.read('/apis', {}, signal)) as GroupList;
    const read = async (path: string): Promise<unknown> => {
      try {
        return await client.read(path, {}, signal);
      } catch (error) {
        if (without === undefined || signal.aborted) throw error;
        without(path, error);
        return {};
      }
    };
    const versions = groups.flatMap((group) => [group.preferredVersion, ...(group.versions ?? [])]);
    const paths = [...new Set(versions.map(({ groupVersion }) => `/apis/${groupVersion}`))];
    const lists = await Promise.all([client.read('/api/v1', {}, signal), ...paths.map(read)]);
    return new DiscoveredResources(lists.flatMap((list) => resourcesOf(list as ResourceList)));
  }

  /** Of a manifest. */
  ofKind(apiVersion: string, kind: string): DiscoveredResource {
    const found = this.#inAllVersions.find((one) => one.kind === kind && apiVersionOf(one) === apiVersion);
    if (found !== undefined) return found;
    throw new UnknownKindError(
      `no matches for kind "${kind}" in version "${apiVersion}": this API server does not have it`,
    );
  }

  /** As a user types it: `cm`, `configmap`, `configmaps`, `leases.coordination.k8s.io`. */
  named(name: string): DiscoveredResource {
    const wanted = name.toLowerCase();
    const found = this.all.find(
      ({ plural, singular, shortNames, group }) =>
        [plural, singular, ...shortNames].includes(wanted) || `${plural}.${group}` === wanted,
    );
    if (found !== undefined) return found;
    const known = [...new Set(this.all.map(({ plural }) => plural))].sort().join(', ');
    throw new UnknownKindError(`the server doesn't have a resource type "${name}"; it has ${known}`);
  }
}

function resourcesOf({ groupVersion = '', resources = [] }: ResourceList): DiscoveredResource[] {
  const slash = groupVersion.indexOf('/');
  const [group, version] = [groupVersion.slice(0, Math.max(slash, 0)), groupVersion.slice(slash + 1)];
  return resources
    .filter(({ name }) => !name.includes('/')) // subresources
    .map(({ name, kind, namespaced, singularName = '', shortNames = [], verbs = [] }) => ({
      group,
      version,
      plural: name,
      kind,
      isNamespaced: namespaced,
      singular: singularName === '' ? kind.toLowerCase() : singularName,
      shortNames,
      verbs,
    }));
}
