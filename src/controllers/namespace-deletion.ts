/** Empties namespaces that are to end, and lets them go when nothing is left in them. */
import type { Namespace } from '../kube/kinds/namespace.ts';
import type { KubeObject } from '../kube/schema/kind.ts';
import { type Cluster, type ControllerDeps, type Kind, coreKind, unlessRefused } from './cluster/cluster.ts';
import { WorkQueue } from './cluster/work-queue.ts';

const controller = 'namespace-controller';
const ownFinalizer = 'kubernetes';
// Enough to share commits, too few to fill the store's queue.
const deletionsAtOnce = 100;

export async function runNamespaceDeletion(deps: ControllerDeps, signal: AbortSignal): Promise<void> {
  const cluster = deps.clusterFor(controller, signal);
  const queue = new WorkQueue(controller, deps);
  const stops = [
    cluster.watch(coreKind(cluster, 'Namespace'), ({ key }) => queue.touch(cluster.placeOf(key).name)),
    cluster.watch(undefined, ({ key, type }) => {
      // The last object of a namespace that waits for it may have gone.
      if (type === 'delete') queue.touch(cluster.placeOf(key).namespace);
    }),
  ];
  try {
    await queue.run((namespace) => look(cluster, namespace), signal);
  } finally {
    for (const stop of stops) stop();
  }
}

async function look(cluster: Cluster, namespace: string): Promise<void> {
  if (namespace === '') return;
  const key = cluster.keyOf(coreKind(cluster, 'Namespace'), '', namespace);
  const home: Namespace | undefined = await cluster.get(key);
  // Something may have been created in the moment the namespace went: it goes too.
  const isEnding = home === undefined || home.metadata.deletionTimestamp !== undefined;
  if (!isEnding) return;
  const kinds = cluster.kinds.filter(({ namespaced }) => namespaced);
  for (const kind of kinds) await empty(cluster, kind, namespace);
  for (const kind of kinds) if ((await cluster.list(kind, namespace)).length > 0) return;
  const { finalizers = [] } = home?.spec ?? {};
  if (home === undefined || !finalizers.includes(ownFinalizer)) return;
  const { uid } = home.metadata;
  const change = (current: KubeObject): KubeObject => (current.metadata.uid === uid ? finalized(current) : current);
  await unlessRefused(cluster.update(key, change, 'finalize'), 404);
}

async function empty(cluster: Cluster, kind: Kind, namespace: string): Promise<void> {
  const objects = await cluster.list(kind, namespace);
  for (let start = 0; start < objects.length; start += deletionsAtOnce) {
    const batch = objects.slice(start, start + deletionsAtOnce);
    await Promise.all(batch.map(({ key }) => unlessRefused(cluster.delete(key), 404)));
  }
}

function finalized(namespace: KubeObject): Namespace {
  const { spec, ...rest } = namespace as Namespace;
  return { ...rest, spec: { ...spec, finalizers: (spec?.finalizers ?? []).filter((one) => one !== ownFinalizer) } };
}
