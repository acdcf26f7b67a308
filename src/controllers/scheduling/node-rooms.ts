/**
 * The room on each node: what it has, and what the pods take that are bound to it or are about to be. A pod that is assumed counts
 * before its binding is written, so that no decision after it gives its place away:
 *
 *   (absent) ──set: assumed, or seen with a node──▶ counted ──release: ended, deleted, or not bound after all──▶ (absent)
 */
import type { Node } from '../../kube/kinds/node.ts';
import type { Pod } from '../../kube/kinds/pod/pod.ts';
import { type Amounts, type HostPort, amounts, hostPorts, podRequests } from '../../kube/references/pod-room.ts';

export interface PodNeeds {
  readonly requests: Amounts;
  readonly ports: readonly HostPort[];
}

export function needsOf(pod: Pod): PodNeeds {
  return { requests: podRequests(pod), ports: hostPorts(pod) };
}

export interface Room {
  readonly node: Node;
  readonly allocatable: Amounts;
  /** What its pods request together. */
  readonly used: Amounts;
  /** What they are taken to use, for the choice among nodes that fit. */
  readonly usual: Amounts;
  /** Ports of the node, by the pods that listen on them. */
  readonly ports: ReadonlyMap<string, readonly HostPort[]>;
}

/** Pods that request nothing are taken to use this much, as Kubernetes' scheduler does it: else all would go to one node. */
const usualNeeds: Amounts = new Map([
  ['cpu', 100n],
  ['memory', 200n * 1024n * 1024n],
]);

export function usualOf({ requests }: PodNeeds): Amounts {
  return new Map([...usualNeeds].map(([name, usual]) => [name, requests.get(name) || usual]));
}

interface Occupant {
  readonly nodeName: string;
  readonly needs: PodNeeds;
}

/** Of a node that may not be known yet: its pods may be seen before it. */
class Occupancy {
  node: Node | undefined;
  text: string | undefined;
  allocatable: Amounts = new Map();
  readonly used = new Map<string, bigint>();
  readonly usual = new Map<string, bigint>();
  readonly ports = new Map<string, readonly HostPort[]>();
}

export class NodeRooms {
  readonly #nodes = new Map<string, Occupancy>();
  readonly #pods = new Map<string, Occupant>();
  #freed = new Set<string>();

  /** Of the nodes that there are. */
  *all(): Iterable<Room> {
    for (const { node, ...room } of this.#nodes.values()) if (node !== undefined) yield { node, ...room };
  }

  /** False when nothing has changed that decides who may run there: nodes report again and again. */
  setNode(name: string, node: Node | undefined): boolean {
    const known = this.#at(name);
    const text = node && nodeText(node);
    const hasChanged = text !== known.text;
    known.text = text;
    known.node = node;
    known.allocatable = new Map(amounts(node?.status?.allocatable));
    this.#forgetIfEmpty(name, known);
    return hasChanged;
  }

  /** A pod has its place here, and no longer where it had one before. */
  set(key: string, nodeName: string, needs: PodNeeds): void {
    if (this.#pods.get(key)?.nodeName !== nodeName) this.release(key);
    else this.#add(key, -1n);
    this.#pods.set(key, { nodeName, needs });
    this.#add(key, 1n);
  }

  release(key: string): void {
    const known = this.#pods.get(key);
    if (known === undefined) return;
    this.#add(key, -1n);
    this.#pods.delete(key);
    this.#freed.add(known.nodeName);
    this.#forgetIfEmpty(known.nodeName, this.#at(known.nodeName));
  }

  /** Nodes that have got room since this was last asked. */
  takeFreed(): readonly Room[] {
    const freed = this.#freed;
    this.#freed = new Set();
    return [...this.all()].filter(({ node }) => freed.has(node.metadata.name));
  }

  #at(name: string): Occupancy {
    const known = this.#nodes.get(name) ?? new Occupancy();
    this.#nodes.set(name, known);
    return known;
  }

  #add(key: string, sign: bigint): void {
    const occupant = this.#pods.get(key);
    if (occupant === undefined) return;
    const { needs, nodeName } = occupant;
    const room = this.#at(nodeName);
    addTo(room.used, needs.requests, sign);
    addTo(room.usual, usualOf(needs), sign);
    if (sign < 0n) room.ports.delete(key);
    else if (needs.ports.length > 0) room.ports.set(key, needs.ports);
  }

  #forgetIfEmpty(name: string, { node, used }: Occupancy): void {
    if (node === undefined && used.size === 0) this.#nodes.delete(name);
  }
}

function nodeText({ metadata, spec, status }: Node): string {
  const ready = status?.conditions?.find(({ type }) => type === 'Ready');
  const taints = spec?.taints?.map(({ key, value, effect }) => [key, value, effect]);
  return JSON.stringify([metadata.labels, spec?.unschedulable, taints, status?.allocatable, ready?.status]);
}

function addTo(sum: Map<string, bigint>, more: Amounts, sign: bigint): void {
  for (const [name, amount] of more) {
    const now = (sum.get(name) ?? 0n) + sign * amount;
    if (now === 0n) sum.delete(name);
    else sum.set(name, now);
  }
}
