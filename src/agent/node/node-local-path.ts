/**
 * Volumes of the class `local-path` that are directories of this node, on a cluster that it has joined: the loop of controllers/
 * over HTTP, with the credentials of the node's agent. What they must allow is more than a kubelet may do.
 */
import { join } from 'node:path';
import { systemRandom } from '../../apiserver/model/random.ts';
import type { Clock } from '../../base/clock.ts';
import { runTask } from '../../base/run-task.ts';
import type { ApiClient } from '../../client/api/api-client.ts';
import type { ResourceReference } from '../../client/api/resource-reference.ts';
import type { Cluster, ControllerFailed } from '../../controllers/cluster/cluster.ts';
import { runLocalPath } from '../../controllers/storage/local-path.ts';
import { runStorage } from '../../controllers/storage/storage.ts';
import { type SelfSubjectAccessReview, selfSubjectAccessReviewKind } from '../../kube/kinds/reviews.ts';
import { SharedCluster } from '../machine/http-cluster.ts';
import { localDirectories } from '../machine/local-directories.ts';
import type { AgentSettings } from './agent-settings.ts';
import type { NotifyNode } from './notices.ts';

export type LocalPathNotice =
  | ControllerFailed
  /** Emitted once; the node goes on without such volumes until the credentials allow them. */
  | { readonly kind: 'LocalPathForbidden'; readonly missing: readonly string[]; readonly wanted: readonly string[] };

interface LocalPathDeps {
  readonly client: ApiClient;
  readonly clock: Clock;
  readonly random: () => number;
  readonly notify: NotifyNode;
}

const wanted: readonly (readonly [group: string, resource: string, ...verbs: readonly string[]])[] = [
  ['', 'persistentvolumes', 'get', 'list', 'watch', 'create', 'update', 'delete'],
  ['', 'persistentvolumeclaims', 'list', 'watch'],
  ['storage.k8s.io', 'storageclasses', 'list', 'watch', 'create'],
  ['', 'nodes', 'get'],
  ['', 'events', 'create'],
];
/** An administrator may grant it meanwhile. */
const askAgainMs = 60_000;

export async function runNodeLocalPath(
  deps: LocalPathDeps,
  { nodeName, rootDirectory }: Pick<AgentSettings, 'nodeName' | 'rootDirectory'>,
  signal: AbortSignal,
): Promise<void> {
  const { clock, notify, client } = deps;
  const local = { nodeName, directories: localDirectories(join(rootDirectory, 'local-path')) };
  let isSaid = false;
  const run = async (until: AbortSignal): Promise<void> => {
    for (
      let missing = await refused(client, nodeName, until);
      missing.length > 0;
      missing = await refused(client, nodeName, until)
    ) {
      if (!isSaid) notify({ kind: 'LocalPathForbidden', missing, wanted: wanted.map(([, ...rule]) => rule.join(' ')) });
      isSaid = true;
      await clock.sleep(askAgainMs, until);
    }
    const stop = new AbortController();
    const ended = AbortSignal.any([until, stop.signal]);
    try {
      const shared = await SharedCluster.connect(deps, ended);
      const clusterFor = (controller: string, over: AbortSignal): Cluster => shared.for(controller, over);
      await runStorage({ clusterFor, clock, random: systemRandom, notify }, [runLocalPath(local)], false, until);
    } finally {
      // The watches go with the loop that uses them.
      stop.abort();
    }
  };
  await runTask('local-path', run, deps, signal);
}

/** `create persistentvolumes`, and whatever else the credentials do not allow. */
async function refused(
  client: Pick<ApiClient, 'create'>,
  nodeName: string,
  signal: AbortSignal,
): Promise<readonly string[]> {
  const { group, version, plural, kind } = selfSubjectAccessReviewKind;
  const reviews: ResourceReference<SelfSubjectAccessReview> = { group, version, plural, kind, isNamespaced: false };
  const missing: string[] = [];
  for (const [of, resource, ...verbs] of wanted) {
    for (const verb of verbs) {
      const review = {
        apiVersion: `${group}/${version}`,
        kind,
        metadata: {},
        // A node may read its own Node, and perhaps no other.
        spec: { resourceAttributes: { group: of, resource, verb, ...(resource === 'nodes' && { name: nodeName }) } },
      };
      const { status } = await client.create(reviews, {}, review, signal);
      if (status?.allowed !== true) missing.push(`${verb} ${resource}`);
    }
  }
  return missing;
}
