/**
 * What a driver is asked, made of a volume's spec. Pure: everything that has to be read first (attachments, Secrets, tokens, the
 * driver's capabilities) comes in as an argument.
 */
import { createHash } from 'node:crypto';
import type { MessageInitShape } from '@bufbuild/protobuf';
import {
  type NodeExpandVolumeRequestSchema,
  type NodePublishVolumeRequestSchema,
  type NodeStageVolumeRequestSchema,
  type VolumeCapabilitySchema,
  VolumeCapability_AccessMode_Mode as AccessMode,
} from '../grpc/messages/csi_pb.ts';
import type { Pod } from '../kube/kinds/pod/pod.ts';
import type { CsiDriver } from '../kube/kinds/storage/csi.ts';
import { type VolumeMode, type VolumeSpec, volumeModeOf } from '../kube/references/volume-spec.ts';
import { goJson, goQuote, inKeyOrder } from '../kube/values/go-text.ts';

/** Values are kept apart from `Record<string, unknown>`: all of them are given to a driver. */
export type Strings = Readonly<Record<string, string>>;
export type Lifecycle = 'Persistent' | 'Ephemeral';

export interface SecretRef {
  /** Left out: that of the pod. */
  readonly namespace?: string | undefined;
  readonly name: string;
}

/** A PersistentVolume of a driver, or a volume of one that is written in the pod, in one form. */
export interface CsiSource {
  readonly lifecycle: Lifecycle;
  readonly driver: string;
  /** Undefined for one that lives as long as its pod: `ephemeralHandle` makes it. */
  readonly handle: string | undefined;
  readonly fsType: string;
  readonly attributes: Strings;
  /** What the pod asks for. That of a PersistentVolume itself is for controllers. */
  readonly readOnly: boolean;
  readonly mode: VolumeMode;
  readonly accessModes: readonly string[];
  readonly mountFlags: readonly string[];
  readonly secrets: { readonly [Use in 'stage' | 'publish' | 'expand']?: SecretRef | undefined };
}

export function csiSourceOf(spec: VolumeSpec): CsiSource | undefined {
  if (spec.volume !== undefined) {
    const { csi } = spec.volume;
    if (csi === undefined) return undefined;
    const { driver, fsType = '', volumeAttributes = {}, readOnly = false, nodePublishSecretRef } = csi;
    return {
      lifecycle: 'Ephemeral',
      driver,
      handle: undefined,
      fsType,
      attributes: volumeAttributes,
      readOnly,
      mode: 'Filesystem',
      accessModes: [],
      mountFlags: [],
      // Of the pod's own namespace, whatever else a manifest says.
      secrets: { publish: nodePublishSecretRef && secretRefOf({ name: nodePublishSecretRef.name }) },
    };
  }
  const { csi, accessModes = [], mountOptions = [] } = spec.persistentVolume.spec;
  if (csi === undefined) return undefined;
  const { driver, volumeHandle, fsType = '', volumeAttributes = {} } = csi;
  return {
    lifecycle: 'Persistent',
    driver,
    handle: volumeHandle,
    fsType,
    attributes: volumeAttributes,
    readOnly: spec.readOnly,
    mode: volumeModeOf(spec),
    accessModes,
    mountFlags: mountOptions,
    secrets: {
      stage: secretRefOf(csi.nodeStageSecretRef),
      publish: secretRefOf(csi.nodePublishSecretRef),
      expand: secretRefOf(csi.nodeExpandSecretRef),
    },
  };
}

function secretRefOf(reference: Partial<SecretRef> | undefined): SecretRef | undefined {
  return reference && { name: reference.name ?? '', namespace: reference.namespace };
}

/** Of a volume without one of its own. The same after a restart, and for no other pod. */
export function ephemeralHandle(podUid: string, volumeName: string): string {
  return `csi-${sha256(`${podUid}${volumeName}`)}`;
}

export function sha256(text: string): string {
  return createHash('sha256').update(text).digest('hex');
}

/** What of a driver's capabilities counts on a node. */
export interface NodeCapabilities {
  readonly stages: boolean;
  readonly expands: boolean;
  readonly hasStats: boolean;
  readonly hasSingleWriters: boolean;
  readonly mountsForGroup: boolean;
}

type Capability = MessageInitShape<typeof VolumeCapabilitySchema>;

/** `fsGroup` for drivers that give the volume to a group themselves. */
export function volumeCapability(
  { mode, accessModes, fsType, mountFlags }: CsiSource,
  { hasSingleWriters }: Pick<NodeCapabilities, 'hasSingleWriters'>,
  fsGroup?: number,
): Capability {
  const volumeMountGroup = fsGroup === undefined ? '' : String(fsGroup);
  return {
    accessMode: { mode: accessModeOf(accessModes[0] ?? 'ReadWriteOnce', hasSingleWriters) },
    accessType:
      mode === 'Block'
        ? { case: 'block', value: {} }
        : { case: 'mount', value: { fsType, mountFlags: [...mountFlags], volumeMountGroup } },
  };
}

/** Only the first mode of a volume counts. */
function accessModeOf(mode: string, hasSingleWriters: boolean): AccessMode {
  if (mode === 'ReadOnlyMany') return AccessMode.MULTI_NODE_READER_ONLY;
  if (mode === 'ReadWriteMany') return AccessMode.MULTI_NODE_MULTI_WRITER;
  if (!hasSingleWriters) return AccessMode.SINGLE_NODE_WRITER;
  return mode === 'ReadWriteOncePod' ? AccessMode.SINGLE_NODE_SINGLE_WRITER : AccessMode.SINGLE_NODE_MULTI_WRITER;
}

/** What the spec of a volume does not say, under the names of the interface. */
interface RequestParts {
  readonly volumeCapability: Capability;
  readonly secrets: Strings;
  /** Empty where nothing is staged. */
  readonly stagingTargetPath: string;
}

interface StageParts extends RequestParts {
  readonly publishContext: Strings;
}

export function stageRequest(
  { handle = '', attributes }: CsiSource,
  parts: StageParts,
): MessageInitShape<typeof NodeStageVolumeRequestSchema> {
  return { ...parts, volumeId: handle, volumeContext: attributes };
}

interface PublishParts extends StageParts {
  readonly volumeId: string;
  readonly targetPath: string;
  /** Pod information and tokens, which win over attributes of the same name. */
  readonly context: Strings;
}

export function publishRequest(
  { attributes, readOnly }: CsiSource,
  { context, ...parts }: PublishParts,
): MessageInitShape<typeof NodePublishVolumeRequestSchema> {
  return { ...parts, readonly: readOnly, volumeContext: { ...attributes, ...context } };
}

interface ExpandParts extends RequestParts {
  readonly volumePath: string;
  readonly sizeBytes: bigint;
}

export function expandRequest(
  { handle = '' }: CsiSource,
  { sizeBytes, ...parts }: ExpandParts,
): MessageInitShape<typeof NodeExpandVolumeRequestSchema> {
  return { ...parts, volumeId: handle, capacityRange: { requiredBytes: sizeBytes } };
}

const keyPrefix = 'csi.storage.k8s.io/';

/** For drivers that ask for it, and for no other. */
export function podInformation(pod: Pod, lifecycle: Lifecycle, driver: CsiDriver | undefined): Strings {
  if (driver?.spec.podInfoOnMount !== true) return {};
  return {
    [`${keyPrefix}pod.name`]: pod.metadata.name,
    [`${keyPrefix}pod.namespace`]: pod.metadata.namespace ?? '',
    [`${keyPrefix}pod.uid`]: pod.metadata.uid ?? '',
    [`${keyPrefix}serviceAccount.name`]: pod.spec.serviceAccountName ?? '',
    [`${keyPrefix}ephemeral`]: String(lifecycle === 'Ephemeral'),
  };
}

export interface IssuedToken {
  readonly token: string;
  readonly expirationTimestamp: string;
}

/** By audience. */
export function tokenEntry(tokens: Readonly<Record<string, IssuedToken>>): Strings {
  return { [`${keyPrefix}serviceAccount.tokens`]: goJson(inKeyOrder(tokens)) };
}

/** Why the driver cannot have such a volume; undefined when it can. A driver that says nothing of itself has persistent ones. */
export function lifecycleProblem({ lifecycle, driver }: CsiSource, object: CsiDriver | undefined): string | undefined {
  const refusal = `volume mode ${goQuote(lifecycle)} not supported by driver ${driver}`;
  if (object === undefined) return lifecycle === 'Persistent' ? undefined : `${refusal} (no CSIDriver object)`;
  const modes = object.spec.volumeLifecycleModes ?? ['Persistent'];
  return modes.includes(lifecycle) ? undefined : `${refusal} (only supports [${modes.map(goQuote).join(' ')}])`;
}

/** Whether the node changes the group of the volume's files; a driver that does it itself is not asked here. */
export function changesGroup(
  { lifecycle, readOnly, fsType, accessModes }: CsiSource,
  object: CsiDriver | undefined,
): boolean {
  const policy = object?.spec.fsGroupPolicy ?? 'ReadWriteOnceWithFSType';
  if (readOnly || policy === 'None') return false;
  if (policy === 'File') return true;
  const isForOneNode = accessModes.includes('ReadWriteOnce') || accessModes.includes('ReadWriteOncePod');
  return fsType !== '' && (lifecycle === 'Ephemeral' || isForOneNode);
}
