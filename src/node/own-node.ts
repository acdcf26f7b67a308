/** The Node object of this machine as the cluster has it: watched, and updated at once with the answers to our own writes. */
import type { Pausing } from '../base/clock.ts';
import type { TaskFailed } from '../base/run-task.ts';
import type { ApiClient } from '../client/api/api-client.ts';
import { NotFoundError } from '../client/api/api-errors.ts';
import { nodes, withShape } from '../client/api/resource-reference.ts';
import { ObjectCache } from '../client/object-cache.ts';
import type { ReflectorNotice } from '../client/reflector.ts';
import { type Node, nodeShape } from '../kube/kinds/node.ts';
import { isOlder } from '../kube/schema/meta.ts';

interface OwnNodeDeps extends Pausing {
  readonly client: Pick<ApiClient, 'get' | 'list' | 'watch'>;
  /** 0 to 1. */
  readonly random: () => number;
  readonly notify: (notice: ReflectorNotice) => void;
}

export const nodeResource = withShape(nodes, nodeShape);

export class OwnNode {
  readonly name: string;
  readonly #deps: OwnNodeDeps;
  readonly #cache: ObjectCache<Node>;
  #seen: Node | undefined;

  constructor(name: string, deps: OwnNodeDeps) {
    this.name = name;
    this.#deps = deps;
    this.#cache = new ObjectCache();
    this.#cache.subscribe(({ object, previous }) => {
      if (object === undefined) this.#forget(previous);
    });
  }

  /** Keeps up with the cluster until the signal aborts. */
  async run(signal: AbortSignal): Promise<void> {
    // A node may watch no other node than itself.
    const fieldSelector = `metadata.name=${this.name}`;
    await this.#cache.follow(this.#deps, { resource: nodeResource, fieldSelector }, signal);
  }

  /** The newest known version; undefined before the first, and after a deletion. */
  current(): Node | undefined {
    const cached = this.#cache.get(this.name);
    const seen = this.#seen;
    if (cached === undefined || seen === undefined) return cached ?? seen;
    return isOlder(cached.metadata.resourceVersion, seen.metadata.resourceVersion) ? seen : cached;
  }

  /** Calls back for every change that the cluster sends. Returns how to unsubscribe. */
  subscribe(listener: (node: Node | undefined) => void): () => void {
    return this.#cache.subscribe(() => listener(this.current()));
  }

  /** Asked of the API server now. */
  async read(signal: AbortSignal): Promise<Node> {
    try {
      const node = await this.#deps.client.get(nodeResource, { name: this.name }, signal);
      this.saw(node);
      return node;
    } catch (error) {
      if (error instanceof NotFoundError) this.#forget(this.#seen);
      throw error;
    }
  }

  /** For the answer to a write, which often arrives before the watch event. */
  saw(node: Node): void {
    if (!isOlder(node.metadata.resourceVersion, this.#seen?.metadata.resourceVersion)) this.#seen = node;
  }

  /** Another of the same name may have been seen since. */
  #forget(gone: Node | undefined): void {
    if (gone?.metadata.uid === this.#seen?.metadata.uid) this.#seen = undefined;
  }
}

/** What a node's registration, status and lease report. */
export type NodeNotice =
  | TaskFailed
  | { readonly kind: 'NodeRegistered'; readonly name: string; readonly isNew: boolean }
  | {
      readonly kind: 'NodeRegistrationFailed';
      readonly name: string;
      readonly error: unknown;
      readonly retryMs: number;
    }
  | { readonly kind: 'MachineUnreadable'; readonly error: unknown }
  /** All tries of one round failed; the next round comes in its time. */
  | { readonly kind: 'NodeStatusFailed'; readonly name: string; readonly error: unknown }
  | { readonly kind: 'NodeLeaseFailed'; readonly name: string; readonly error: unknown };
