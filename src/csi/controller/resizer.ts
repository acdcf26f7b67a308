/**
 * How one driver makes its volumes larger. What is written before and after a call is the volume expander's; a driver that cannot
 * do it in the control plane leaves everything to the node.
 */
import { OperatingError } from '../../base/errors.ts';
import type { Cluster } from '../../controllers/cluster/cluster.ts';
import type { Grower, Growth, Refusal } from '../../controllers/storage/volume-expander.ts';
import { ControllerServiceCapability_RPC_Type as Capability } from '../../grpc/messages/csi_pb.ts';
import type { PersistentVolume } from '../../kube/kinds/storage/persistent-volume.ts';
import { migratedKindOf, translatedVolume } from '../../kube/references/csi-translation.ts';
import { Quantity } from '../../kube/values/quantity.ts';
import { type ControllerDriver, call, hasDriverCode, isUncertain } from './controller-driver.ts';
import { RefusedError, secretsOf, volumeCapability } from './requests.ts';

/** Undefined for a driver whose volumes never grow. */
export function driverGrower(driver: ControllerDriver, cluster: Cluster, signal: AbortSignal): Grower | undefined {
  const growsStorage = driver.capabilities.has(Capability.EXPAND_VOLUME);
  if (!growsStorage && !driver.nodeExpands) return undefined;
  return {
    component: `external-resizer ${driver.name}`,
    resizer: driver.name,
    growsStorage,
    othersTurn: ({ spec }) => ((spec.csi ?? migratedKindOf(spec))?.driver === driver.name ? undefined : 'none'),
    grow: (volume, size) =>
      growsStorage ? expand(driver, cluster, volume, size, signal) : Promise.resolve({ size, isComplete: false }),
    judge: refusalOf,
  };
}

async function expand(
  driver: ControllerDriver,
  cluster: Cluster,
  volume: PersistentVolume,
  size: Quantity,
  signal: AbortSignal,
): Promise<Growth> {
  const { spec } = translatedVolume(volume);
  if (spec.csi === undefined) throw new RefusedError('CSI volume source was nil');
  const { volumeHandle, fsType, controllerExpandSecretRef } = spec.csi;
  const request = {
    volumeId: volumeHandle,
    capacityRange: { requiredBytes: size.value() },
    secrets: await secretsOf(cluster, controllerExpandSecretRef),
    volumeCapability: volumeCapability(driver, spec, fsType),
  };
  const answer = await call(driver, 'controllerExpandVolume', request, signal);
  const { capacityBytes, nodeExpansionRequired } = answer;
  const isComplete = !nodeExpansionRequired;
  // Zero stands for unknown.
  if (capacityBytes === 0n || capacityBytes === size.value()) return { size, isComplete };
  if (capacityBytes < size.value()) {
    const text = `expanded volume capacity ${capacityBytes} less than requested capacity ${size.value()}`;
    throw new OperatingError('VolumeTooSmall', text);
  }
  return { size: new Quantity(capacityBytes, 0, 'BinarySI'), isComplete };
}

function refusalOf(error: unknown): Refusal {
  // A driver that is short of something for a moment has not given up.
  if (isUncertain(error) || hasDriverCode(error, 'RESOURCE_EXHAUSTED')) return 'uncertain';
  if (hasDriverCode(error, 'FAILED_PRECONDITION')) return 'inUse';
  return hasDriverCode(error, 'INVALID_ARGUMENT', 'OUT_OF_RANGE', 'NOT_FOUND') ? 'infeasible' : 'final';
}
