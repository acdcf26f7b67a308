/** Empties namespaces that are to end, and lets them go when nothing is left in them. */
import { isDeepStrictEqual } from 'node:util';
import { KeyedBackOff } from '../base/back-off.ts';
import { runTogether } from '../base/run-task.ts';
import { Timers } from '../base/timers.ts';
import type { Namespace } from '../kube/kinds/namespace.ts';
import type { KubeObject } from '../kube/schema/kind.ts';
import { timestamp } from '../kube/values/times.ts';
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
    if (await isSettled(deps, cluster, namespace)) backOff.reset(namespace);
    else timers.after(backOff.next(namespace), () => queue.touch(namespace));
  };
  try {
    await runTogether([(until) => queue.run(lookAgain, until), (until) => timers.run(until)], signal);
  } finally {
    for (const stop of stops) stop();
  }
}

/** Empties the namespace if it is to end. False while something in it remains. */
async function isSettled({ clock }: ControllerDeps, cluster: Cluster, namespace: string): Promise<boolean> {
  const key = cluster.keyOf(coreKind(cluster, 'Namespace'), '', namespace);
  const home: Namespace | undefined = await cluster.get(key);
  // Something may have been created in the moment the namespace went: it goes too.
  const isEnding = home === undefined || home.metadata.deletionTimestamp !== undefined;
  if (!isEnding) return true;
  // Pods that end may still need their configuration, and what protects them.
  const pods = await deleteAll(cluster, [coreKind(cluster, 'Pod')], namespace);
  const kinds = (await cluster.kinds()).filter(({ namespaced }) => namespaced);
  const left = pods.length > 0 ? pods : await deleteAll(cluster, kinds, namespace);
  if (home !== undefined && (left.length > 0 || home.status?.conditions !== undefined)) {
    const change = (current: Namespace): Namespace => withConditions(current, left, timestamp(clock.now()));
    // On a full disk the end of it frees room, and nobody has to be told.
    await unlessRefused(updateSame(cluster, key, home, change, 'status'), 507);
  }
  if (left.length > 0) return false;
  const { finalizers = [] } = home?.spec ?? {};
  if (home === undefined || !finalizers.includes(ownFinalizer)) return true;
  await updateSame(cluster, key, home, finalized, 'finalize');
  return true;
}

interface Left {
  /** `pods.`, `deployments.apps` */
  readonly resource: string;
  readonly finalizers: readonly string[];
}

/** Deletes all objects of these kinds, and returns those that are still there. */
async function deleteAll(cluster: Cluster, kinds: readonly Kind[], namespace: string): Promise<readonly Left[]> {
  for (const kind of kinds) await empty(cluster, kind, namespace);
  const left: Left[] = [];
  for (const kind of kinds) {
    for (const { object } of await cluster.list(kind, namespace)) {
      left.push({ resource: `${kind.plural}.${kind.group}`, finalizers: object.metadata.finalizers ?? [] });
    }
  }
  return left;
}

/** Conditions that say what the deletion waits for. */
function withConditions(namespace: Namespace, left: readonly Left[], now: string): Namespace {
  const { conditions: before = [] } = namespace.status ?? {};
  const remaining = counted(left.map(({ resource }) => resource));
  const held = counted(left.flatMap(({ finalizers }) => finalizers));
  const resources = remaining.map(([name, count]) => `${name} has ${count} resource instances`).join(', ');
  const finalizers = held.map(([name, count]) => `${name} in ${count} resource instances`).join(', ');
  const ours = [
    ['NamespaceDeletionDiscoveryFailure', 'False', 'ResourcesDiscovered', 'All resources successfully discovered'],
    [
      'NamespaceDeletionGroupVersionParsingFailure',
      'False',
      'ParsedGroupVersions',
      'All legacy kube types successfully parsed',
    ],
    [
      'NamespaceDeletionContentFailure',
      'False',
      'ContentDeleted',
      'All content successfully deleted, may be waiting on finalization',
    ],
    resources === ''
      ? ['NamespaceContentRemaining', 'False', 'ContentRemoved', 'All content successfully removed']
      : ['NamespaceContentRemaining', 'True', 'SomeResourcesRemain', `Some resources are remaining: ${resources}`],
    finalizers === ''
      ? [
          'NamespaceFinalizersRemaining',
          'False',
          'ContentHasNoFinalizers',
          'All content-preserving finalizers finished',
        ]
      : [
          'NamespaceFinalizersRemaining',
          'True',
          'SomeFinalizersRemain',
          `Some content in the namespace has finalizers remaining: ${finalizers}`,
        ],
  ].map(([type = '', status = '', reason = '', message = '']) => {
    const since = before.find((one) => one.type === type && one.status === status)?.lastTransitionTime ?? now;
    return { type, status, lastTransitionTime: since, reason, message };
  });
  const others = before.filter(({ type }) => !ours.some((one) => one.type === type));
  const conditions = [...others, ...ours];
  // A write would only make it be looked at again.
  if (isDeepStrictEqual(conditions, before)) return namespace;
  return { ...namespace, status: { ...namespace.status, conditions } };
}

/** Each word once, in order, with how often it is there. */
function counted(words: readonly string[]): readonly (readonly [word: string, count: number])[] {
  const counts = new Map<string, number>();
  for (const word of words) counts.set(word, (counts.get(word) ?? 0) + 1);
  return [...counts].toSorted(([a], [b]) => (a < b ? -1 : 1));
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
