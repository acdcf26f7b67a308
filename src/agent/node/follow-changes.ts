/** From "this object changed" to those who show it or have read it. */
import type { TaskDeps } from '../../base/run-task.ts';
import { runTask } from '../../base/run-task.ts';
import type { ManagedObject } from '../../objects/managed-kind.ts';
import type { ObjectId } from '../../objects/object-id.ts';
import type { ObjectManager } from '../../objects/object-manager.ts';
import { readerOf } from '../../objects/object-manager.ts';
import type { PodLoop } from '../../pods/pod-loop.ts';
import type { VolumeManager } from '../../volumes/volume-manager.ts';

type Kind = 'ConfigMap' | 'Secret';

export async function followChanges<T extends ManagedObject>(
  kind: Kind,
  objects: ObjectManager<T>,
  [volumes, pods]: readonly [Pick<VolumeManager, 'objectChanged'>, Pick<PodLoop, 'objectChanged'>],
  deps: TaskDeps,
  signal: AbortSignal,
): Promise<void> {
  const reader = readerOf(objects);
  const tell = async ({ namespace, name }: ObjectId): Promise<void> => {
    // From memory. Where it cannot be had, whoever shows it finds out by itself and says so.
    const object = await reader.get(namespace, name, signal).catch(() => 'unknown' as const);
    const version = object === 'unknown' ? undefined : object?.metadata.resourceVersion;
    volumes.objectChanged({ kind, namespace, name }, version);
    if (object !== 'unknown') pods.objectChanged(kind, namespace, name, version);
  };
  const telling = new Set<Promise<void>>();
  for await (const id of objects.changes(signal)) {
    const task = `the change of ${kind} ${id.namespace}/${id.name}`;
    const told = runTask(task, () => tell(id), deps, signal).finally(() => telling.delete(told));
    telling.add(told);
  }
  await Promise.all(telling);
}
