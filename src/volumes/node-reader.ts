/** The node as the cluster sees it: the narrowest that this room asks for. */
import type { Node } from '../kube/kinds/node.ts';

export interface NodeReader {
  readonly name: string;
  /** As it was last heard of; undefined before that. */
  current(): Node | undefined;
  /** Asked of the API server now; a node without one answers with what it knows. */
  read(signal: AbortSignal): Promise<Node>;
}
