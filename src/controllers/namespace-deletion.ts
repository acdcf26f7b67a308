/** Empties namespaces that are to end, and lets them go when nothing is left in them. */
import { KeyedBackOff } from '../base/back-off.ts';
import { runTogether } from '../base/run-task.ts';
import { Timers } from '../base/timers.ts';
import type { Namespace } from '../kube/kinds/namespace.ts';
import type { KubeObject } from '../kube/schema/kind.ts';
import {
  type Cluster,
  type ControllerDeps,
  type Kind,
  coreKind,
  unlessRefused,
  updateSame,
} from './cluster/cluster.ts';
import { WorkQueue } from './cluster/work-queue.ts';

const controller = 'namespace-controller';
const ownFinalizer = 'kubernetes';
// Enough to share commits, too few to fill the store's queue.
const deletionsAtOnce = 100;

/** What is held by a finalizer is looked for again: to watch every kind for it would cost more than to wait. */
const retries = { firstMs: 1_000, msMax: 30_000 };

export async function runNamespaceDeletion(deps: ControllerDeps, signal: AbortSignal): Promise<void> {
  const cluster = deps.clusterFor(controller, signal);
  const queue = new WorkQueue(controller, deps);
  const timers = new Timers(deps.clock);
  const backOff = new KeyedBackOff<string>(retries);
  const stops = [
    cluster.watch(coreKind(cluster, 'Namespace'), ({ key }) => queue.touch(cluster.placeOf(key).name)),
    // Pods take their time, and claims wait for pods: the namespace goes with the last of them.
    ...['Pod', 'PersistentVolumeClaim'].map((kind) =>
      cluster.watch(coreKind(cluster, kind), ({ key, type }) => {
        if (type === 'delete') queue.touch(cluster.placeOf(key).namespace);
      }),
    ),
  ];
  const lookAgain = async (namespace: string): Promise<void> => {
    if (await isSettled(cluster, namespace)) backOff.reset(namespace);
    else timers.after(backOff.next(namespace), () => queue.touch(namespace));
  };
  try {
    await runTogether([(until) => queue.run(lookAgain, until), (until) => timers.run(until)], signal);
  } finally {
    for (const stop of stops) stop();
  }
}

/** Empties the namespace if it is to end. False while something in it remains. */
async function isSettled(cluster: Cluster, namespace: string): Promise<boolean> {
  const key = cluster.keyOf(coreKind(cluster, 'Namespace'), '', namespace);
  const home: Namespace | undefined = await cluster.get(key);
  // Something may have been created in the moment the namespace went: it goes too.
  const isEnding = home === undefined || home.metadata.deletionTimestamp !== undefined;
  if (!isEnding) return true;
  // Pods that end may still need their configuration, and what protects them.
  if (!(await isEmptied(cluster, [coreKind(cluster, 'Pod')], namespace))) return false;
  const kinds = (await cluster.kinds()).filter(({ namespaced }) => namespaced);
  if (!(await isEmptied(cluster, kinds, namespace))) return false;
  const { finalizers = [] } = home?.spec ?? {};
  if (home === undefined || !finalizers.includes(ownFinalizer)) return true;
  await updateSame(cluster, key, home, finalized, 'finalize');
  return true;
}

async function isEmptied(cluster: Cluster, kinds: readonly Kind[], namespace: string): Promise<boolean> {
  for (const kind of kinds) await empty(cluster, kind, namespace);
  for (const kind of kinds) if ((await cluster.list(kind, namespace)).length > 0) return false;
  return true;
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
