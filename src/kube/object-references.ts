/**
 * Which objects a pod names: what the object managers keep for it. Names only, all in the pod's own namespace; whether the
 * objects exist is not asked here, and references at second hand (claim, volume, its secret) are not followed.
 */
import type { Container, EphemeralContainer } from './kinds/pod/container.ts';
import { allContainers } from './kinds/pod/pod-spec.ts';
import type { Pod } from './kinds/pod/pod.ts';
import type { Volume } from './kinds/pod/volume.ts';

export interface ObjectReferences {
  readonly configMaps: ReadonlySet<string>;
  readonly secrets: ReadonlySet<string>;
}

/** Every ConfigMap and Secret a pod names, each once, also by volumes that no container mounts. */
export function objectReferences(pod: Pod): ObjectReferences {
  const { spec } = pod;
  const containers = allContainers(spec);
  const volumes = spec.volumes ?? [];
  return {
    configMaps: namesOf([...containers.flatMap(configMapsOfContainer), ...volumes.flatMap(configMapsOfVolume)]),
    secrets: namesOf([
      ...(spec.imagePullSecrets ?? []).map(({ name }) => name),
      ...containers.flatMap(secretsOfContainer),
      ...volumes.flatMap(secretsOfVolume),
    ]),
  };
}

/**
 * Of these, the ones whose content volumes show: their changes have to reach the disk. What is left is read when a container
 * starts or an image is pulled.
 */
export function projectedReferences({ spec: { volumes = [] } }: Pod): ObjectReferences {
  return {
    configMaps: namesOf(volumes.flatMap(configMapsOfVolume)),
    secrets: namesOf(volumes.flatMap(shownSecretsOfVolume)),
  };
}

/** The same for one volume: the objects whose changes show in it. */
export function shownReferences(volume: Volume): ObjectReferences {
  return { configMaps: namesOf(configMapsOfVolume(volume)), secrets: namesOf(shownSecretsOfVolume(volume)) };
}

type Name = string | undefined;

/** An empty name refers to nothing: old API servers let it through. */
function namesOf(names: readonly Name[]): ReadonlySet<string> {
  return new Set(names.filter((name): name is string => name !== undefined && name !== ''));
}

function configMapsOfContainer({ envFrom = [], env = [] }: Container | EphemeralContainer): readonly Name[] {
  return [
    ...envFrom.map(({ configMapRef }) => configMapRef?.name),
    ...env.filter(({ valueFrom }) => valueFrom).map(({ valueFrom }) => valueFrom?.configMapKeyRef?.name),
  ];
}

function secretsOfContainer({ envFrom = [], env = [] }: Container | EphemeralContainer): readonly Name[] {
  return [
    ...envFrom.map(({ secretRef }) => secretRef?.name),
    ...env.filter(({ valueFrom }) => valueFrom).map(({ valueFrom }) => valueFrom?.secretKeyRef?.name),
  ];
}

function configMapsOfVolume({ configMap, projected }: Volume): readonly Name[] {
  return [configMap?.name, ...(projected?.sources ?? []).map((source) => source.configMap?.name)];
}

function shownSecretsOfVolume({ secret, projected }: Volume): readonly Name[] {
  return [secret?.secretName, ...(projected?.sources ?? []).map((source) => source.secret?.name)];
}

function secretsOfVolume(volume: Volume): readonly Name[] {
  return [
    ...shownSecretsOfVolume(volume),
    volume.csi?.nodePublishSecretRef?.name,
    textAt(volume.azureFile, 'secretName'),
    ...carriedWithSecretRef.map((kind) => textAt(volume[kind], 'secretRef', 'name')),
  ];
}

/** Sources that we carry along unread (see kube/volume.ts), and that keep a secret's name in the same place. */
const carriedWithSecretRef = ['cephfs', 'cinder', 'flexVolume', 'rbd', 'scaleIO', 'iscsi', 'storageos'] as const;

function textAt(value: unknown, ...path: readonly string[]): Name {
  let found = value;
  for (const key of path) {
    if (typeof found !== 'object' || found === null || !Object.hasOwn(found, key)) return undefined;
    found = (found as Readonly<Record<string, unknown>>)[key];
  }
  return typeof found === 'string' ? found : undefined;
}
