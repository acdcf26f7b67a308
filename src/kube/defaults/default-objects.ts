/**
 * Defaults of the objects that are not pods, as the API server sets them when an object is decoded. Every function returns
 * a new object and may be applied again without effect. What admission adds (tokens, tolerations) is not defaulting.
 */
import { encodeBase64 } from '../values/base64.ts';
import type { ConfigMap } from '../objects/config-map.ts';
import type { Node } from '../objects/node.ts';
import type { ClaimSpec, PersistentVolume, PersistentVolumeClaim } from '../objects/persistent-volume.ts';
import { roundUpResources } from '../values/resource-list.ts';
import type { Secret } from '../objects/secret.ts';
import type { Service } from '../objects/service.ts';

const stickySeconds = 3 * 60 * 60;

export function defaultConfigMap(configMap: ConfigMap): ConfigMap {
  return configMap.data === undefined ? { ...configMap, data: {} } : configMap;
}

/** Folds `stringData` into `data`, over what is there, and removes it: from here on nobody needs to know of it. */
export function defaultSecret(secret: Secret): Secret {
  const { stringData, ...rest } = secret;
  const type = secret.type || 'Opaque';
  if (stringData === undefined) return { ...rest, type };
  const encoded = Object.entries(stringData).map(([key, value]) => [key, encodeBase64(value)] as const);
  return { ...rest, data: { ...secret.data, ...Object.fromEntries(encoded) }, type };
}

export function defaultPersistentVolume(volume: PersistentVolume): PersistentVolume {
  const { spec } = volume;
  return {
    ...volume,
    spec: {
      ...spec,
      persistentVolumeReclaimPolicy: spec.persistentVolumeReclaimPolicy || 'Retain',
      volumeMode: spec.volumeMode ?? 'Filesystem',
      ...(spec.capacity && { capacity: roundUpResources(spec.capacity) }),
      ...(spec.hostPath && { hostPath: { ...spec.hostPath, type: spec.hostPath.type ?? '' } }),
    },
    status: { ...volume.status, phase: volume.status?.phase || 'Pending' },
  };
}

export function defaultPersistentVolumeClaim(claim: PersistentVolumeClaim): PersistentVolumeClaim {
  const { capacity, allocatedResources } = claim.status ?? {};
  return {
    ...claim,
    spec: defaultClaimSpec(claim.spec),
    status: {
      ...claim.status,
      phase: claim.status?.phase || 'Pending',
      ...(capacity && { capacity: roundUpResources(capacity) }),
      ...(allocatedResources && { allocatedResources: roundUpResources(allocatedResources) }),
    },
  };
}

export function defaultClaimSpec(spec: ClaimSpec): ClaimSpec {
  const { limits, requests } = spec.resources ?? {};
  const resources = {
    ...spec.resources,
    ...(limits && { limits: roundUpResources(limits) }),
    ...(requests && { requests: roundUpResources(requests) }),
  };
  return { ...spec, volumeMode: spec.volumeMode ?? 'Filesystem', ...(spec.resources && { resources }) };
}

export function defaultNode(node: Node): Node {
  const { capacity, allocatable = capacity } = node.status ?? {};
  return {
    ...node,
    ...(node.status && {
      status: {
        ...node.status,
        ...(capacity && { capacity: roundUpResources(capacity) }),
        ...(allocatable && { allocatable: roundUpResources(allocatable) }),
      },
    }),
  };
}

export function defaultService(service: Service): Service {
  const { sessionAffinityConfig, ...rest } = service.spec;
  const type = rest.type || 'ClusterIP';
  const sessionAffinity = rest.sessionAffinity || 'None';
  const external =
    type === 'LoadBalancer' || type === 'NodePort' || (type === 'ClusterIP' && (rest.externalIPs ?? []).length > 0);
  const internal = type === 'LoadBalancer' || type === 'NodePort' || type === 'ClusterIP';
  return {
    ...service,
    spec: {
      ...rest,
      type,
      sessionAffinity,
      ...(sessionAffinity !== 'None' && affinityOf(sessionAffinity, sessionAffinityConfig)),
      ...(rest.ports && { ports: rest.ports.map(defaultServicePort) }),
      ...(external && { externalTrafficPolicy: rest.externalTrafficPolicy || 'Cluster' }),
      ...(internal && { internalTrafficPolicy: rest.internalTrafficPolicy ?? 'Cluster' }),
      ...(type === 'LoadBalancer' && { allocateLoadBalancerNodePorts: rest.allocateLoadBalancerNodePorts ?? true }),
    },
  };
}

type ServiceSpec = Service['spec'];
type ServicePort = NonNullable<ServiceSpec['ports']>[number];

function defaultServicePort(port: ServicePort): ServicePort {
  return { ...port, protocol: port.protocol || 'TCP', targetPort: port.targetPort || port.port };
}

function affinityOf(
  affinity: string,
  config: ServiceSpec['sessionAffinityConfig'],
): Pick<ServiceSpec, 'sessionAffinityConfig'> {
  if (affinity === 'ClientIP' && config?.clientIP?.timeoutSeconds === undefined) {
    return { sessionAffinityConfig: { clientIP: { timeoutSeconds: stickySeconds } } };
  }
  return config === undefined ? {} : { sessionAffinityConfig: config };
}
