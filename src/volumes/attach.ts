/**
 * Connects storage to the node and disconnects it, where only the node can, and lists a volume as attached: once a controller
 * has attached it, or at once when nothing has to be. That is the first step of every ConfigMap too.
 */
import type { Node } from '../kube/kinds/node.ts';
import type { PersistentVolumeClaim } from '../kube/kinds/storage/persistent-volume-claim.ts';
import { type VolumeSpec, specName } from '../kube/references/volume-spec.ts';
import { goQuote } from '../kube/values/go-text.ts';
import { splitUniqueVolumeName } from '../kube/values/node-layout.ts';
import type { DesiredMount } from './desired-state.ts';
import { podRef } from './notices.ts';
import {
  type OperationDeps,
  OperationError,
  type OperationKind,
  stepsOf,
  subjectOfAttach,
  subjectOfDevice,
  subjectOfMount,
} from './operation.ts';
import type { AttachAction, DetachAction, VerifyAction } from './plan.ts';
import { type NodeAttach, VolumeError, type VolumePlugin } from '../plugins/plugin.ts';

export function attachVolume({ actual, node, notify }: OperationDeps): OperationKind<AttachAction> {
  return {
    name: 'volume_attach',
    key: ({ mount: { volume } }) => ({ volume }),
    failureEvent: { reason: 'FailedAttachVolume', podsOf: ({ mount }) => [mount.pod] },
    async run({ mount }, signal) {
      const { plugin, source, spec, pod, volume } = mount;
      const step = stepsOf(subjectOfAttach(mount, node.name), 'AttachVolume.');
      const devicePath = await step('Attach failed', () =>
        nodeAttach(plugin, 'attaching').attach({ spec, source, pod, devicePath: '' }, signal),
      );
      await step('MarkVolumeAsAttached failed', () => actual.attached({ volume, spec, devicePath }));
      const message = `AttachVolume.Attach succeeded for volume ${goQuote(specName(spec))} `;
      notify({ kind: 'PodEvent', type: 'Normal', pod: podRef(pod), reason: 'SuccessfulAttachVolume', message });
    },
  };
}

export function detachVolume({ plugins, actual, node, notify }: OperationDeps): OperationKind<DetachAction> {
  return {
    name: 'volume_detach',
    key: ({ volume: { volume } }) => ({ volume }),
    async run({ volume: { volume, spec, pluginName, devicePath }, volume: attached }, signal) {
      const step = stepsOf(subjectOfDevice(attached, node.name), 'DetachVolume.');
      const plugin = await step('FindAttachablePluginByName failed', () => plugins.findByName(pluginName));
      const { volumeName } = await step('SplitUniqueName failed', () => splitUniqueVolumeName(volume));
      await step('Detach failed', () => nodeAttach(plugin, 'detaching').detach(volumeName, signal));
      actual.remove(volume);
      notify({ kind: 'VolumeDetached', volume, message: detachedMessage({ volume, spec, devicePath }, node.name) });
    },
  };
}

/** The kubelet's text, and what to do about it. */
function nodeAttach({ attach }: VolumePlugin, what: 'attaching' | 'detaching'): NodeAttach {
  if (attach?.byNodeAlone !== undefined) return attach.byNodeAlone;
  const message = `${what} volumes from the kubelet is not supported; a controller does it where enableControllerAttachDetach is true`;
  throw new VolumeError('NotAttachable', message);
}

export function detachedMessage(
  { volume, spec, devicePath }: { readonly volume: string; readonly spec: VolumeSpec; readonly devicePath: string },
  node: string,
): string {
  return (
    `Volume detached for volume ${goQuote(specName(spec))} (UniqueName: ${goQuote(volume)}) on node ${goQuote(node)} ` +
    `DevicePath ${goQuote(devicePath)}`
  );
}

export function verifyAttached({ actual, node }: OperationDeps): OperationKind<VerifyAction> {
  return {
    name: 'verify_controller_attached_volume',
    key: ({ mount: { volume } }) => ({ volume }),
    async run({ volume: { volume, isAttachable, isReportedInUse, claimedBytes }, mount }, signal) {
      const { spec } = mount;
      const subject = subjectOfMount(mount);
      const step = stepsOf(subject, 'VerifyControllerAttachedVolume');
      if (!isAttachable) {
        await step('.MarkVolumeAsAttachedByUniqueVolumeName failed', () =>
          actual.attached({ volume, spec, devicePath: '' }),
        );
        return actual.initializeSize(volume, claimedBytes);
      }
      if (!isReportedInUse) {
        const prefix = "Volume has not been added to the list of VolumesInUse in the node's volume status";
        throw new OperationError(prefix, subject);
      }
      const listed =
        listedIn(node.current(), volume) ??
        listedIn(await step(' failed fetching node from API server', () => node.read(signal)), volume);
      if (listed === undefined) throw new OperationError('Volume not attached according to node status', subject);
      const { devicePath } = listed;
      const attached = await step('.MarkVolumeAsAttached failed', () => actual.attached({ spec, devicePath }));
      actual.initializeSize(attached, claimedBytes);
    },
  };
}

/**
 * What is known of the node is as new as the report that the volume is in use, or newer: a controller that takes the volume off
 * the list after that finds it in use, and detaches nothing.
 */
function listedIn(node: Node | undefined, volume: string): { readonly devicePath: string } | undefined {
  return node?.status?.volumesAttached?.find(({ name }) => name === volume);
}

/** The claim that the volume is bound to, as it is now. */
export async function claimOf(
  { claims }: Pick<OperationDeps, 'claims'>,
  { spec }: DesiredMount,
  signal: AbortSignal,
): Promise<PersistentVolumeClaim> {
  const { namespace = '', name = '' } = spec.persistentVolume?.spec.claimRef ?? {};
  const claim = await claims.claim(namespace, name, signal);
  if (claim === undefined) throw new VolumeError('ClaimNotFound', `persistentvolumeclaims "${name}" not found`);
  return claim;
}
