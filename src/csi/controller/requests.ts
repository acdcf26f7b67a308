/** What calls to a driver's Controller service have in common: how a volume is to be used, and its Secrets. */
import type { MessageInitShape } from '@bufbuild/protobuf';
import { OperatingError } from '../../base/errors.ts';
import { type Cluster, coreKind } from '../../controllers/cluster/cluster.ts';
import {
  ControllerServiceCapability_RPC_Type as Capability,
  VolumeCapability_AccessMode_Mode as Mode,
  type VolumeCapabilitySchema,
} from '../../grpc/messages/csi_pb.ts';
import type { Secret } from '../../kube/kinds/secret.ts';
import { goQuote } from '../../kube/values/go-text.ts';
import type { SecretRef, Strings } from '../requests.ts';
import type { ControllerDriver } from './controller-driver.ts';

/** The call is not made, and nothing of it goes on: `message` is for the user. */
export class RefusedError extends OperatingError {
  constructor(message: string) {
    super('CallRefused', message);
  }
}

/** Of the `spec` of a volume, or of a claim with its class. */
interface Use {
  readonly accessModes?: readonly string[];
  readonly volumeMode?: string | undefined;
  readonly mountOptions?: readonly string[];
}

export function volumeCapability(
  driver: ControllerDriver,
  { accessModes = [], volumeMode, mountOptions = [] }: Use,
  fsType = '',
): MessageInitShape<typeof VolumeCapabilitySchema> {
  const hasSingleWriters = driver.capabilities.has(Capability.SINGLE_NODE_MULTI_WRITER);
  const accessMode = { mode: accessModeOf(accessModes, hasSingleWriters) };
  return volumeMode === 'Block'
    ? { accessType: { case: 'block', value: {} }, accessMode }
    : { accessType: { case: 'mount', value: { fsType, mountFlags: [...mountOptions] } }, accessMode };
}

/** Of all modes of a volume together; the node's half looks at the first alone. */
function accessModeOf(modes: readonly string[], hasSingleWriters: boolean): Mode {
  const has = (mode: string): boolean => modes.includes(mode);
  if (has('ReadWriteOncePod')) {
    if (new Set(modes).size > 1)
      throw new RefusedError(
        'Kubernetes does not support use of ReadWriteOncePod with other access modes on the same PersistentVolume',
      );
    return hasSingleWriters ? Mode.SINGLE_NODE_SINGLE_WRITER : Mode.SINGLE_NODE_WRITER;
  }
  if (has('ReadWriteMany')) return Mode.MULTI_NODE_MULTI_WRITER;
  if (has('ReadOnlyMany')) {
    if (has('ReadWriteOnce'))
      throw new RefusedError('CSI does not support ReadOnlyMany and ReadWriteOnce on the same PersistentVolume');
    return Mode.MULTI_NODE_READER_ONLY;
  }
  if (!has('ReadWriteOnce')) throw new RefusedError(`unsupported AccessMode combination: [${modes.join(' ')}]`);
  return hasSingleWriters ? Mode.SINGLE_NODE_MULTI_WRITER : Mode.SINGLE_NODE_WRITER;
}

/** As it is now: a Secret may have changed since the last call. */
export async function secretsOf(cluster: Cluster, reference: Partial<SecretRef> | undefined): Promise<Strings> {
  if (reference === undefined) return {};
  const { name = '', namespace = '' } = reference;
  const secret: Secret | undefined = await cluster.get(cluster.keyOf(coreKind(cluster, 'Secret'), namespace, name));
  if (secret === undefined) {
    throw new RefusedError(
      `error getting secret ${name} in namespace ${namespace}: secrets ${goQuote(name)} not found`,
    );
  }
  return Object.fromEntries(
    Object.entries(secret.data ?? {}).map(([key, value]) => [key, Buffer.from(value, 'base64').toString('utf8')]),
  );
}
