/** What is true of this machine, as whoever starts the node finds it out. */
import type { Node } from '../kube/objects/node.ts';

export type NodeStatus = NonNullable<Node['status']>;

export interface NodeFacts {
  readonly addresses: NonNullable<NodeStatus['addresses']>;
  /** cpu, memory, pods, ephemeral-storage. */
  readonly capacity: NonNullable<NodeStatus['capacity']>;
  readonly allocatable: NonNullable<NodeStatus['allocatable']>;
  readonly nodeInfo: NonNullable<NodeStatus['nodeInfo']>;
  /** Of the node's own server. */
  readonly serverPort: number;
  readonly pressure: { readonly memory: boolean; readonly disk: boolean; readonly processes: boolean };
  /** Why no pod should come here now; empty when all is well. */
  readonly problems: readonly string[];
}
