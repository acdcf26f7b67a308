/**
 * Pods that wait for a node: the most important first, and of equals the oldest. Pods that ask for the same fit on the same nodes, so
 * they are one group: where its first pod finds no place none of them is tried, and a change that may help wakes all of them at
 * once. A thousand copies of a pod that does not fit cost one look.
 *
 *   put ──▶ ready ──park: it fits nowhere──▶ parked      A group is parked or ready as a whole; a pod that
 *             ▲                                │         joins a parked group has its problem at once.
 *             └────────────wake────────────────┘
 */
import { SortedList } from '../../base/sorted-list.ts';

export interface WaitingPod {
  readonly key: string;
  /** The same text for pods that ask for the same. */
  readonly group: string;
  /** The same in a group. */
  readonly priority: number;
  readonly createdMs: number;
}

interface Entry<T> {
  readonly pod: T;
  readonly group: Group<T>;
  readonly createdMs: number;
  readonly number: number;
}

interface Group<T> {
  readonly name: string;
  readonly priority: number;
  readonly pods: SortedList<Entry<T>>;
  /** Why none of them fits anywhere. */
  problem: string | undefined;
}

export class SchedulingQueue<T extends WaitingPod> {
  readonly #entries = new Map<string, Entry<T>>();
  readonly #groups = new Map<string, Group<T>>();
  /** Groups that have pods and no problem. */
  readonly #ready = new SortedList<Group<T>>(isMoreImportant);
  #count = 0;

  get(key: string): T | undefined {
    return this.#entries.get(key)?.pod;
  }

  /** Why a pod still waits; undefined while that is not known. */
  problemOf(key: string): string | undefined {
    return this.#entries.get(key)?.group.problem;
  }

  /** Of the group of the pod, that one too. */
  membersOf(key: string): readonly T[] {
    return [...(this.#entries.get(key)?.group.pods ?? [])].map(({ pod }) => pod);
  }

  /** One that is known keeps its turn. */
  put(pod: T): void {
    const known = this.#entries.get(pod.key);
    const isSame = known?.group.name === pod.group;
    if (!isSame) this.delete(pod.key);
    const group = this.#groups.get(pod.group) ?? {
      name: pod.group,
      priority: pod.priority,
      pods: new SortedList(isOlder),
      problem: undefined,
    };
    this.#groups.set(pod.group, group);
    const number = isSame ? known.number : (this.#count += 1);
    const entry = { pod, group, createdMs: pod.createdMs, number };
    this.#change(group, () => {
      if (isSame) group.pods.delete(known);
      group.pods.add(entry);
    });
    this.#entries.set(pod.key, entry);
  }

  delete(key: string): void {
    const entry = this.#entries.get(key);
    if (entry === undefined) return;
    this.#entries.delete(key);
    this.#change(entry.group, () => entry.group.pods.delete(entry));
    if (entry.group.pods.first === undefined) this.#groups.delete(entry.group.name);
  }

  /** Whose turn it is. It stays where it is until it is deleted or parked. */
  next(): T | undefined {
    return this.#ready.first?.pods.first?.pod;
  }

  /** The pod, and therefore its group, fits nowhere. */
  park(key: string, problem: string): void {
    const group = this.#entries.get(key)?.group;
    if (group !== undefined) this.#change(group, () => void (group.problem = problem));
  }

  /** One of each parked group. */
  parked(): readonly T[] {
    return [...this.#groups.values()].flatMap(({ problem, pods }) =>
      problem === undefined ? [] : (pods.first?.pod ?? []),
    );
  }

  /** The group of the pod is tried again. */
  wake(key: string): void {
    const group = this.#entries.get(key)?.group;
    if (group !== undefined) this.#change(group, () => void (group.problem = undefined));
  }

  /** The place of a group follows from its first pod: it is taken out while that may change. */
  #change(group: Group<T>, act: () => void): void {
    this.#ready.delete(group);
    act();
    if (group.problem === undefined && group.pods.first !== undefined) this.#ready.add(group);
  }
}

function isOlder<T>(a: Entry<T>, b: Entry<T>): boolean {
  return a.createdMs === b.createdMs ? a.number < b.number : a.createdMs < b.createdMs;
}

function isMoreImportant<T>(a: Group<T>, b: Group<T>): boolean {
  if (a.priority !== b.priority) return a.priority > b.priority;
  const [first, other] = [a.pods.first, b.pods.first];
  return first !== undefined && other !== undefined && isOlder(first, other);
}
