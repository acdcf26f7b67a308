/**
 * Which objects belong to a controller: those that name it as their controller, and those without one that its selector chooses.
 * What it does not select any more it gives up; what has another controller it never takes.
 */
import type { KubeObject } from '../../kube/schema/kind.ts';
import { apiVersionOf } from '../../kube/schema/kind.ts';
import { controllerOf, controllerReference } from '../../kube/schema/meta.ts';
import { type LabelSelector, labelMatcher, requirementsOf } from '../../kube/values/labels.ts';
import { type Cluster, type Kind, updateSame } from '../cluster/cluster.ts';
import type { ObjectTable } from './object-table.ts';

export interface Owner<T extends KubeObject = KubeObject> {
  readonly kind: Kind;
  readonly object: T;
}

type Selects = (object: KubeObject) => boolean;

/** What a selector chooses; an empty one nothing, as a controller that owned everything would be a mistake. */
export function selecting(selector: LabelSelector | undefined): Selects {
  const requirements = requirementsOf(selector ?? {});
  if (requirements.length === 0) return () => false;
  const matches = labelMatcher(requirements);
  return ({ metadata: { labels = {} } }) => matches(labels);
}

type Claim = 'keep' | 'adopt' | 'release' | 'ignore';

export function decideClaim(owner: KubeObject, object: KubeObject, isSelected: boolean): Claim {
  const controller = controllerOf(object.metadata);
  const isEnding = owner.metadata.deletionTimestamp !== undefined;
  if (controller === undefined) {
    const isFree = isSelected && !isEnding && object.metadata.deletionTimestamp === undefined;
    return isFree ? 'adopt' : 'ignore';
  }
  if (controller.uid !== owner.metadata.uid) return 'ignore';
  if (isSelected) return 'keep';
  return isEnding ? 'ignore' : 'release';
}

/** Those that belong to the owner from now on. Adopts and releases what has to be. */
export async function claimObjects<T extends KubeObject>(
  cluster: Cluster,
  table: ObjectTable<T>,
  owner: Owner,
  selects: Selects,
): Promise<readonly T[]> {
  const { uid = '', namespace = '' } = owner.object.metadata;
  const mine: T[] = [];
  let isLive: Promise<boolean> | undefined;
  for (const object of [...table.controlledBy(uid), ...table.orphansIn(namespace)]) {
    const claim = decideClaim(owner.object, object, selects(object));
    if (claim === 'keep') mine.push(object);
    else if (claim === 'release') await write(cluster, table, object, owner, claim, selects);
    else if (claim === 'adopt') {
      isLive ??= isStillThere(cluster, owner);
      // One that has just been deleted must not take objects along.
      const adopted = (await isLive) ? await write(cluster, table, object, owner, claim, selects) : undefined;
      if (adopted !== undefined) mine.push(adopted);
    }
  }
  return mine;
}

/** Asked of the server, as what is known here may be old. */
async function isStillThere(cluster: Cluster, { kind, object }: Owner): Promise<boolean> {
  const { namespace = '', name, uid } = object.metadata;
  const live = await cluster.get(cluster.keyOf(kind, namespace, name));
  return live?.metadata.uid === uid && live?.metadata.deletionTimestamp === undefined;
}

/** Decided once more on what is there at that moment. */
async function write<T extends KubeObject>(
  cluster: Cluster,
  table: ObjectTable<T>,
  object: T,
  { kind, object: owner }: Owner,
  claim: Claim,
  selects: Selects,
): Promise<T | undefined> {
  let written: T | undefined;
  await updateSame<T>(cluster, table.keyOf(object), object, (current) => {
    written = undefined;
    if (decideClaim(owner, current, selects(current)) !== claim) return current;
    const { ownerReferences = [], ...metadata } = current.metadata;
    const others = ownerReferences.filter(({ uid }) => uid !== owner.metadata.uid);
    const own = claim === 'adopt' ? [controllerReference(apiVersionOf(kind), kind.kind, owner.metadata)] : [];
    const all = [...others, ...own];
    written = { ...current, metadata: { ...metadata, ...(all.length > 0 && { ownerReferences: all }) } };
    return written;
  });
  if (written !== undefined) table.changed(written);
  return written;
}

/**
 * Touches the owners that a change of an owned object concerns: the one it has, the one it had, and where it has none each one that
 * could adopt it.
 */
export function followOwned<T extends KubeObject, O extends KubeObject>(
  owned: ObjectTable<T>,
  owners: ObjectTable<O>,
  selectorOf: (owner: O) => LabelSelector | undefined,
  touch: (ownerKey: string) => void,
): void {
  owned.follow((_key, object, before) => {
    for (const metadata of [before, object].flatMap((each) => each?.metadata ?? [])) {
      const controller = controllerOf(metadata);
      const key = controller && owners.keyAt(metadata.namespace ?? '', controller.name);
      if (key !== undefined && owners.get(key)?.metadata.uid === controller?.uid) touch(key);
    }
    if (object === undefined || controllerOf(object.metadata) !== undefined) return;
    const wasSame = before !== undefined && controllerOf(before.metadata) === undefined;
    if (wasSame && JSON.stringify(before.metadata.labels) === JSON.stringify(object.metadata.labels)) return;
    for (const owner of owners.inNamespace(object.metadata.namespace ?? '')) {
      if (selecting(selectorOf(owner))(object)) touch(owners.keyOf(owner));
    }
  });
}
