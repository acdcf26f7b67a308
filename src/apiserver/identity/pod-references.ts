/** Which objects of the API a pod names. The node that runs it may read these and no others. */
import { allContainers } from '../../kube/kinds/pod/pod-spec.ts';
import type { Pod } from '../../kube/kinds/pod/pod.ts';
import type { Volume } from '../../kube/kinds/pod/volume.ts';
import type { PersistentVolume } from '../../kube/kinds/storage/persistent-volume.ts';

export const mirrorAnnotation = 'kubernetes.io/config.mirror';

/** A mirror pod stands for one that its node runs from a file. */
export function isMirrorPod({ metadata }: Pod): boolean {
  return Object.hasOwn(metadata.annotations ?? {}, mirrorAnnotation);
}

export function secretNames({ spec }: Pod): readonly string[] {
  const pullSecrets = (spec.imagePullSecrets ?? []).map(({ name }) => name);
  const environment = allContainers(spec).flatMap(({ env = [], envFrom = [] }) => [
    ...envFrom.map(({ secretRef }) => secretRef?.name),
    ...env.map(({ valueFrom }) => valueFrom?.secretKeyRef?.name),
  ]);
  return given([...pullSecrets, ...environment, ...(spec.volumes ?? []).flatMap(volumeSecrets)]);
}

export function configMapNames({ spec }: Pod): readonly string[] {
  const environment = allContainers(spec).flatMap(({ env = [], envFrom = [] }) => [
    ...envFrom.map(({ configMapRef }) => configMapRef?.name),
    ...env.map(({ valueFrom }) => valueFrom?.configMapKeyRef?.name),
  ]);
  const volumes = (spec.volumes ?? []).flatMap(({ configMap, projected }) => [
    configMap?.name,
    ...(projected?.sources ?? []).map((source) => source.configMap?.name),
  ]);
  return given([...environment, ...volumes]);
}

/** An ephemeral volume's claim is named after the pod and the volume. */
export function claimNames({ metadata, spec }: Pod): readonly string[] {
  return given(
    (spec.volumes ?? []).map(
      ({ name, persistentVolumeClaim, ephemeral }) =>
        persistentVolumeClaim?.claimName ?? (ephemeral === undefined ? undefined : `${metadata.name}-${name}`),
    ),
  );
}

interface SecretName {
  readonly namespace: string;
  readonly name: string;
}

/** Secrets that the node needs to mount it. Those that only the controller of a CSI driver uses are none of its business. */
export function persistentVolumeSecrets({ spec }: PersistentVolume): readonly SecretName[] {
  const claimNamespace = spec.claimRef?.namespace ?? '';
  const { azureFile, csi } = spec;
  const references = [spec.cephfs, spec.flexVolume, spec.rbd, spec.scaleIO, spec.iscsi].map((source) =>
    referenceIn(source, claimNamespace),
  );
  const strictReferences = [spec.cinder, spec.storageos].map((source) => referenceIn(source, ''));
  const azure = {
    namespace: textIn(azureFile, 'secretNamespace') || claimNamespace,
    name: textIn(azureFile, 'secretName'),
  };
  const csiSecrets = [csi?.nodePublishSecretRef, csi?.nodeStageSecretRef, csi?.nodeExpandSecretRef].map(
    ({ namespace = '', name = '' } = {}) => ({ namespace, name }),
  );
  return [...references, ...strictReferences, azure, ...csiSecrets].filter(({ name }) => name !== '');
}

/**
 * What a mirror pod names although its node must not create pods that give it access to anything: the words of the
 * refusal, or undefined. In the order in which an API server looks.
 */
export function apiObjectReference(pod: Pod): string | undefined {
  const { spec } = pod;
  if ((spec.serviceAccountName ?? '') !== '') return 'serviceaccounts';
  if (secretNames(pod).length > 0) return 'secrets';
  if (configMapNames(pod).length > 0) return 'configmaps';
  if ((spec.resourceClaims ?? []).length > 0) return 'resourceclaims';
  for (const volume of spec.volumes ?? []) {
    const found = volumeReference(volume);
    if (found !== undefined) return found;
  }
  return undefined;
}

function volumeReference(volume: Volume): string | undefined {
  if (volume.configMap !== undefined) return 'configmaps (via configmap volumes)';
  if (volume.secret !== undefined) return 'secrets (via secret volumes)';
  if (volume.csi !== undefined) return 'csidrivers (via CSI volumes)';
  if (volume.glusterfs !== undefined) return 'endpoints (via glusterFS volumes)';
  if (volume.persistentVolumeClaim !== undefined) return 'persistentvolumeclaims';
  if (volume.ephemeral !== undefined) return 'persistentvolumeclaims (via ephemeral volumes)';
  if (volume.azureFile !== undefined) return 'secrets (via azureFile volumes)';
  for (const source of volume.projected?.sources ?? []) {
    if (source.configMap !== undefined) return 'configmaps (via projected volumes)';
    if (source.secret !== undefined) return 'secrets (via projected volumes)';
    if (source.serviceAccountToken !== undefined) return 'serviceaccounts (via projected volumes)';
    if (source.clusterTrustBundle !== undefined) return 'clustertrustbundles';
    if (source.podCertificate !== undefined) return 'podcertificates';
  }
  return undefined;
}

function volumeSecrets(volume: Volume): readonly (string | undefined)[] {
  const others = [
    volume.cephfs,
    volume.cinder,
    volume.flexVolume,
    volume.rbd,
    volume.scaleIO,
    volume.iscsi,
    volume.storageos,
  ];
  return [
    volume.secret?.secretName,
    volume.csi?.nodePublishSecretRef?.name,
    textIn(volume.azureFile, 'secretName'),
    ...others.map((source) => referenceIn(source, '').name),
    ...(volume.projected?.sources ?? []).map(({ secret }) => secret?.name),
  ];
}

/** Sources that no plugin of ours reads have no shape, so what they hold may be anything. */
function textIn(source: unknown, key: string): string {
  const value = typeof source === 'object' && source !== null ? (source as Record<string, unknown>)[key] : undefined;
  return typeof value === 'string' ? value : '';
}

function referenceIn(source: unknown, defaultNamespace: string): SecretName {
  const reference =
    typeof source === 'object' && source !== null && 'secretRef' in source ? source.secretRef : undefined;
  return { namespace: textIn(reference, 'namespace') || defaultNamespace, name: textIn(reference, 'name') };
}

function given(names: readonly (string | undefined)[]): readonly string[] {
  return [...new Set(names.filter((name) => name !== undefined && name !== ''))] as string[];
}
