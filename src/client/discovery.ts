/** Which kinds an API server has, and where: what kubectl asks before it can apply a manifest or list `cm`. */
import { ClientError } from './transport/transport.ts';
import type { ApiClient } from './api/api-client.ts';
import { apiVersionOf } from '../kube/schema/kind.ts';
import type { ResourceReference } from './api/resource-reference.ts';

export interface DiscoveredResource extends ResourceReference {
  readonly singular: string;
  readonly shortNames: readonly string[];
}

interface ResourceList {
  readonly groupVersion?: string;
  readonly resources?: readonly {
    readonly name: string;
    readonly singularName?: string;
    readonly kind: string;
    readonly namespaced: boolean;
    readonly shortNames?: readonly string[];
  }[];
}

interface GroupList {
  readonly groups?: readonly { readonly preferredVersion: { readonly groupVersion: string } }[];
}

export class DiscoveredResources {
  readonly #resources: readonly DiscoveredResource[];

  constructor(resources: readonly DiscoveredResource[]) {
    this.#resources = resources;
  }

  /** One request for each group. */
  static async ask(client: Pick<ApiClient, 'read'>, signal: AbortSignal): Promise<DiscoveredResources> {
    const { groups = [] } = (await client.read('/apis', {}, signal)) as GroupList;
    const paths = ['/api/v1', ...groups.map(({ preferredVersion }) => `/apis/${preferredVersion.groupVersion}`)];
    const lists = await Promise.all(paths.map((path) => client.read(path, {}, signal)));
    return new DiscoveredResources(lists.flatMap((list) => resourcesOf(list as ResourceList)));
  }

  /** Of a manifest. */
  ofKind(apiVersion: string, kind: string): DiscoveredResource {
    const found = this.#resources.find((one) => one.kind === kind && apiVersionOf(one) === apiVersion);
    if (found !== undefined) return found;
    throw new ClientError(
      'UnknownKind',
      `no matches for kind "${kind}" in version "${apiVersion}": this API server does not have it`,
    );
  }

  /** As a user types it: `cm`, `configmap`, `configmaps`, `leases.coordination.k8s.io`. */
  named(name: string): DiscoveredResource {
    const wanted = name.toLowerCase();
    const found = this.#resources.find(
      ({ plural, singular, shortNames, group }) =>
        [plural, singular, ...shortNames].includes(wanted) || `${plural}.${group}` === wanted,
    );
    if (found !== undefined) return found;
    const known = [...new Set(this.#resources.map(({ plural }) => plural))].sort().join(', ');
    throw new ClientError('UnknownKind', `the server doesn't have a resource type "${name}"; it has ${known}`);
  }
}

function resourcesOf({ groupVersion = '', resources = [] }: ResourceList): DiscoveredResource[] {
  const slash = groupVersion.indexOf('/');
  const [group, version] = [groupVersion.slice(0, Math.max(slash, 0)), groupVersion.slice(slash + 1)];
  return resources
    .filter(({ name }) => !name.includes('/')) // subresources
    .map(({ name, kind, namespaced, singularName = '', shortNames = [] }) => ({
      group,
      version,
      plural: name,
      kind,
      isNamespaced: namespaced,
      singular: singularName === '' ? kind.toLowerCase() : singularName,
      shortNames,
    }));
}
