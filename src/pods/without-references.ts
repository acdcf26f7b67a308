/**
 * A pod without its references to other objects. API servers let no node make a pod that has any, and those of a folder of
 * manifests are in the folder, not at the server: a mirror shows everything but them. Pure.
 */
import type { Container } from '../kube/kinds/pod/container.ts';
import type { PodSpec } from '../kube/kinds/pod/pod-spec.ts';
import type { Pod } from '../kube/kinds/pod/pod.ts';
import type { Volume } from '../kube/kinds/pod/volume.ts';
import { objectReferences } from '../kube/object-references.ts';

export function withoutReferences(pod: Pod): Pod {
  const { imagePullSecrets: _secrets, serviceAccountName: _account, serviceAccount: _old, ...spec } = pod.spec;
  const { volumes = [], initContainers = [], containers } = spec;
  const kept = volumes.filter((volume) => !refers(volume));
  const gone = new Set(volumes.filter(refers).map(({ name }) => name));
  const strip = (container: Container): Container => stripContainer(container, gone);
  const stripped: PodSpec = {
    ...spec,
    containers: containers.map(strip),
    ...(initContainers.length > 0 && { initContainers: initContainers.map(strip) }),
    ...(volumes.length > 0 && { volumes: kept }),
  };
  return { ...pod, spec: stripped };
}

function refers(volume: Volume): boolean {
  const { configMaps, secrets } = objectReferences({
    metadata: { name: '' },
    spec: { containers: [], volumes: [volume] },
  });
  const sources = volume.projected?.sources ?? [];
  return (
    configMaps.size + secrets.size > 0 ||
    volume.persistentVolumeClaim !== undefined ||
    sources.some((source) => source.serviceAccountToken !== undefined || source.clusterTrustBundle !== undefined)
  );
}

function stripContainer(container: Container, gone: ReadonlySet<string>): Container {
  const { env, envFrom, volumeMounts, volumeDevices, ...rest } = container;
  const isKept = ({ name }: { readonly name: string }): boolean => !gone.has(name);
  return {
    ...rest,
    ...(env && { env: env.filter((variable) => !isOfObject(variable)) }),
    ...(envFrom && { envFrom: envFrom.filter((source) => !isOfObjects(source)) }),
    ...(volumeMounts && { volumeMounts: volumeMounts.filter(isKept) }),
    ...(volumeDevices && { volumeDevices: volumeDevices.filter(isKept) }),
  };
}

function isOfObject({ valueFrom }: NonNullable<Container['env']>[number]): boolean {
  return valueFrom?.configMapKeyRef !== undefined || valueFrom?.secretKeyRef !== undefined;
}

function isOfObjects({ configMapRef, secretRef }: NonNullable<Container['envFrom']>[number]): boolean {
  return configMapRef !== undefined || secretRef !== undefined;
}
