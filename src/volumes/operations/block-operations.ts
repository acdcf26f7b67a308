/** The operations of raw block devices, for nodes that can have some. */
import type { BlockMapper } from './block-mapper.ts';
import { mapVolume } from './map.ts';
import type { OperationDeps, OperationTable } from './operation-kind.ts';
import { unmapDevice } from './unmap-device.ts';
import { unmapVolume } from './unmap.ts';

export function blockOperations(deps: OperationDeps, mapper: BlockMapper): OperationTable {
  return { map: mapVolume(deps, mapper), unmap: unmapVolume(deps, mapper), unmapDevice: unmapDevice(deps, mapper) };
}
