/**
 * ClusterTrustBundles, read at the API server each time. The first read starts a watch, which reports what changes from then on:
 * most nodes have no volume that shows a bundle, and many servers have none.
 */
import { unlessAborted, untilAborted } from '../base/abort.ts';
import { type TaskDeps, runTask } from '../base/run-task.ts';
import type { ApiClient } from '../client/api/api-client.ts';
import { NotFoundError } from '../client/api/api-errors.ts';
import { clusterTrustBundles, withShape } from '../client/api/resource-reference.ts';
import { ObjectCache } from '../client/object-cache.ts';
import type { ReflectorDeps } from '../client/reflector.ts';
import { type ClusterTrustBundle, clusterTrustBundleShape } from '../kube/kinds/cluster-trust-bundle.ts';

interface TrustBundlesDeps extends ReflectorDeps {
  readonly client: Pick<ApiClient, 'get' | 'list' | 'watch'>;
  readonly notify: ReflectorDeps['notify'] & TaskDeps['notify'];
}

const resource = withShape(clusterTrustBundles, clusterTrustBundleShape);
/** The first read waits this long for the watch, so that no change can fall between them. */
const firstListMsMax = 1_000;

export class TrustBundles {
  readonly #deps: TrustBundlesDeps;
  readonly #cache: ObjectCache<ClusterTrustBundle>;
  readonly #isWanted: Promise<void>;
  #want = (): void => {};
  #firstList: Promise<void> | undefined;

  constructor(deps: TrustBundlesDeps) {
    this.#deps = deps;
    this.#cache = new ObjectCache();
    this.#isWanted = new Promise((resolve) => (this.#want = resolve));
  }

  async get(name: string, signal: AbortSignal): Promise<ClusterTrustBundle | undefined> {
    await this.#watched(signal);
    try {
      return await this.#deps.client.get(resource, { name }, signal);
    } catch (error) {
      if (error instanceof NotFoundError) return undefined;
      throw error;
    }
  }

  /** All bundles of one signer. */
  async list(signerName: string, signal: AbortSignal): Promise<readonly ClusterTrustBundle[]> {
    await this.#watched(signal);
    const fieldSelector = `spec.signerName=${signerName}`;
    return (await this.#deps.client.list(resource, { fieldSelector }, signal)).items;
  }

  /** Reports every bundle that changes, with its version, or undefined for one that was deleted. Lives until the signal aborts. */
  async run(changed: (name: string, resourceVersion: string | undefined) => void, signal: AbortSignal): Promise<void> {
    await Promise.race([this.#isWanted, untilAborted(signal)]);
    this.#cache.subscribe(({ key, object }) => {
      // Those of the first list are what the first read finds.
      if (this.#cache.isSynced) changed(key, object?.metadata.resourceVersion);
    });
    const follow = (over: AbortSignal): Promise<void> => this.#cache.follow(this.#deps, { resource }, over);
    await runTask('the trust bundles', follow, this.#deps, signal);
  }

  async #watched(signal: AbortSignal): Promise<void> {
    this.#want();
    this.#firstList ??= this.#awaitFirstList();
    await unlessAborted(this.#firstList, signal);
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
