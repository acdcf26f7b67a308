/**
 * ClusterTrustBundles, read at the API server each time, in the newest version that it has. The first read starts a watch, which
 * reports what changes from then on: most nodes have no volume that shows a bundle, and many servers have none.
 */
import { unlessAborted, untilAborted } from '../base/abort.ts';
import { OperatingError } from '../base/errors.ts';
import { type TaskDeps, runTask } from '../base/run-task.ts';
import type { ApiClient } from '../client/api/api-client.ts';
import { NotFoundError } from '../client/api/api-errors.ts';
import { type ResourceReference, clusterTrustBundles, withShape } from '../client/api/resource-reference.ts';
import { ObjectCache } from '../client/object-cache.ts';
import type { ReflectorDeps } from '../client/reflector.ts';
import { type ClusterTrustBundle, clusterTrustBundleShape } from '../kube/kinds/cluster-trust-bundle.ts';

interface TrustBundlesDeps extends ReflectorDeps {
  readonly client: Pick<ApiClient, 'get' | 'list' | 'watch' | 'read'>;
  readonly notify: ReflectorDeps['notify'] & TaskDeps['notify'];
}

type BundleResource = ResourceReference<ClusterTrustBundle>;

/** The newest first. */
const versions = ['v1', 'v1beta1', 'v1alpha1'];
/** The first read waits this long for the watch, so that no change can fall between them. */
const firstListMsMax = 1_000;

export class TrustBundles {
  readonly #deps: TrustBundlesDeps;
  readonly #cache: ObjectCache<ClusterTrustBundle>;
  readonly #wanted: Promise<BundleResource>;
  #want: (resource: BundleResource) => void = () => {};
  #resource: BundleResource | undefined;
  #firstList: Promise<void> | undefined;

  constructor(deps: TrustBundlesDeps) {
    this.#deps = deps;
    this.#cache = new ObjectCache();
    this.#wanted = new Promise((resolve) => (this.#want = resolve));
  }

  async get(name: string, signal: AbortSignal): Promise<ClusterTrustBundle | undefined> {
    const resource = await this.#watched(signal);
    try {
      return await this.#deps.client.get(resource, { name }, signal);
    } catch (error) {
      if (!(error instanceof NotFoundError)) throw error;
      if (error.details.name === name) return undefined;
      // The version is gone, and not the bundle.
      this.#resource = undefined;
      throw error;
    }
  }

  /** All bundles of one signer. */
  async list(signerName: string, signal: AbortSignal): Promise<readonly ClusterTrustBundle[]> {
    const resource = await this.#watched(signal);
    const fieldSelector = `spec.signerName=${signerName}`;
    return (await this.#deps.client.list(resource, { fieldSelector }, signal)).items;
  }

  /** Reports every bundle that changes, with its version, or undefined for one that was deleted. Lives until the signal aborts. */
  async run(changed: (name: string, resourceVersion: string | undefined) => void, signal: AbortSignal): Promise<void> {
    const resource = await Promise.race([this.#wanted, untilAborted(signal)]);
    if (resource === undefined) return;
    this.#cache.subscribe(({ key, object }) => {
      // Those of the first list are what the first read finds.
      if (this.#cache.isSynced) changed(key, object?.metadata.resourceVersion);
    });
    const follow = (over: AbortSignal): Promise<void> => this.#cache.follow(this.#deps, { resource }, over);
    await runTask('the trust bundles', follow, this.#deps, signal);
  }

  async #watched(signal: AbortSignal): Promise<BundleResource> {
    const resource = (this.#resource ??= await this.#discover(signal));
    this.#want(resource);
    this.#firstList ??= this.#awaitFirstList();
    await unlessAborted(this.#firstList, signal);
    return resource;
  }

  /** A server without bundles is asked again at the next read: its operator may turn them on. */
  async #discover(signal: AbortSignal): Promise<BundleResource> {
    const { client } = this.#deps;
    const { group, plural } = clusterTrustBundles;
    for (const version of versions) {
      const found = await client.read(`/apis/${group}/${version}`, {}, signal).catch((error: unknown) => {
        if (error instanceof NotFoundError) return {};
        throw error;
      });
      const { resources = [] } = found as { readonly resources?: readonly { readonly name: string }[] };
      if (!resources.some(({ name }) => name === plural)) continue;
      const resource = withShape({ ...clusterTrustBundles, version }, clusterTrustBundleShape);
      // A node that may not read them is refused here, and not by a watch again and again.
      await client.list(resource, { limit: 1 }, signal);
      return resource;
    }
    const text = `ClusterTrustBundle projection is not supported: the API server has no ${plural}.${group} in version ${versions.join(', ')}`;
    throw new OperatingError('TrustBundlesUnsupported', text);
  }

  async #awaitFirstList(): Promise<void> {
    const over = new AbortController();
    const { clock } = this.#deps;
    const waits = [this.#cache.whenSynced(over.signal), clock.sleep(firstListMsMax, over.signal)];
    await Promise.race(waits);
    over.abort();
    await Promise.allSettled(waits);
  }
}
