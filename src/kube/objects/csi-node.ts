/** The CSI drivers of one node. A kubelet ends itself when it cannot write this object. */
import { objectFields } from './metadata.ts';
import { any, integer, list, object, required, string } from './schema.ts';
import type { Of } from './schema.ts';

export const csiNode = object({
  ...objectFields,
  spec: required(
    object({
      drivers: required(
        list(
          object({
            name: required(string),
            nodeID: required(string),
            topologyKeys: list(string),
            allocatable: object({ count: integer }),
          }),
          'name',
        ),
      ),
    }),
  ),
  status: object({ storageHealth: list(any, 'name') }),
});
export interface CsiNode extends Of<typeof csiNode> {}
export type CsiNodeDriver = CsiNode['spec']['drivers'][number];
