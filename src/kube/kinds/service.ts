/** A Service: a name and an address for pods that offer the same. Its addresses and ports are handed out by the API server. */
import { resourceKind } from '../schema/kind.ts';
import { objectFields } from '../schema/meta.ts';
import {
  type Of,
  absentMeans,
  any,
  atomic,
  boolean,
  described,
  intOrString,
  integer,
  list,
  map,
  object,
  required,
  string,
} from '../schema/schema.ts';
import { isExternallyAccessible, validateService, validateServiceUpdate } from './service-validation.ts';

export const serviceShape = described(
  {
    text: 'A name and an address for something that pods offer.',
    fields: { spec: 'How it is reached.', status: 'What a load balancer says of it.' },
  },
  object({
    ...objectFields,
    spec: required(
      described(
        {
          text: 'How a service is reached.',
          fields: {
            ports: 'Its ports.',
            selector: 'The labels of the pods behind it.',
            clusterIP: 'Its address inside the cluster; None for a service without one.',
            clusterIPs: 'Its addresses, of each family.',
            type: 'ClusterIP, NodePort, LoadBalancer or ExternalName.',
            externalIPs: 'Further addresses that lead to it.',
            sessionAffinity: 'ClientIP keeps a client with one pod.',
            externalName: 'The name that it stands for, for ExternalName.',
          },
        },
        object({
          ports: list(
            object({
              name: string,
              protocol: absentMeans('TCP', string),
              appProtocol: string,
              port: required(integer),
              targetPort: intOrString,
              nodePort: integer,
            }),
            'port',
            'protocol',
          ),
          selector: atomic(map(string)),
          clusterIP: string,
          clusterIPs: list(string),
          type: string,
          externalIPs: list(string),
          sessionAffinity: string,
          loadBalancerIP: string,
          loadBalancerSourceRanges: list(string),
          externalName: string,
          externalTrafficPolicy: string,
          healthCheckNodePort: integer,
          publishNotReadyAddresses: boolean,
          sessionAffinityConfig: object({ clientIP: object({ timeoutSeconds: integer }) }),
          ipFamilies: list(string),
          ipFamilyPolicy: string,
          allocateLoadBalancerNodePorts: boolean,
          loadBalancerClass: string,
          internalTrafficPolicy: string,
          trafficDistribution: string,
        }),
      ),
    ),
    status: object({
      loadBalancer: object({
        ingress: list(
          object({
            ip: string,
            hostname: string,
            ipMode: string,
            ports: list(object({ port: required(integer), protocol: required(string), error: string })),
          }),
        ),
      }),
      conditions: list(any, 'type'),
    }),
  }),
);
export interface Service extends Of<typeof serviceShape> {}

/** On the Service of our own API server: where it listens, as `192.0.2.1:6443`. */
export const apiServerAnnotation = 'mountlet.dev/api-server';

export const serviceKind = resourceKind<Service>({
  kind: 'Service',
  plural: 'services',
  shortNames: ['svc'],
  categories: ['all'],
  namespaced: true,
  shape: serviceShape,
  complete: defaultService,
  validate: validateService,
  validateUpdate: validateServiceUpdate,
  wire: {
    Service: '1 metadata ObjectMeta, 2 spec ServiceSpec, 3 status ServiceStatus',
    ServiceSpec: `
    1 ports [ServicePort], 2 selector {string}, 3 clusterIP, 18 clusterIPs [string], 4 type, 5 externalIPs [string],
    7 sessionAffinity, 8 loadBalancerIP, 9 loadBalancerSourceRanges [string], 10 externalName,
    11 externalTrafficPolicy, 12 healthCheckNodePort int, 13 publishNotReadyAddresses bool,
    14 sessionAffinityConfig? SessionAffinityConfig, 19 ipFamilies [string], 17 ipFamilyPolicy?,
    20 allocateLoadBalancerNodePorts? bool, 21 loadBalancerClass?, 22 internalTrafficPolicy?,
    23 trafficDistribution?`,
    ServicePort: '1 name, 2 protocol, 6 appProtocol?, 3 port! int, 4 targetPort IntOrString, 5 nodePort int',
    SessionAffinityConfig: '1 clientIP? ClientIPConfig',
    ClientIPConfig: '1 timeoutSeconds? int',
    ServiceStatus: '1 loadBalancer LoadBalancerStatus, 2 conditions [Condition]',
    LoadBalancerStatus: '1 ingress [LoadBalancerIngress]',
    LoadBalancerIngress: '1 ip, 2 hostname, 3 ipMode?, 4 ports [PortStatus]',
    PortStatus: '1 port! int, 2 protocol!, 3 error?',
  },
});

const stickySeconds = 3 * 60 * 60;

export type ServiceSpec = Service['spec'];
export type ServicePort = NonNullable<ServiceSpec['ports']>[number];

function defaultService(service: Service): Service {
  const { sessionAffinityConfig, ...rest } = service.spec;
  const type = rest.type || 'ClusterIP';
  const sessionAffinity = rest.sessionAffinity || 'None';
  const isExternal = isExternallyAccessible({ ...rest, type });
  const isInternal = type === 'LoadBalancer' || type === 'NodePort' || type === 'ClusterIP';
  return {
    ...service,
    spec: {
      ...rest,
      type,
      sessionAffinity,
      ...(sessionAffinity !== 'None' && affinityOf(sessionAffinity, sessionAffinityConfig)),
      ...(rest.ports && { ports: rest.ports.map(defaultServicePort) }),
      ...(isExternal && { externalTrafficPolicy: rest.externalTrafficPolicy || 'Cluster' }),
      ...(isInternal && { internalTrafficPolicy: rest.internalTrafficPolicy ?? 'Cluster' }),
      ...(type === 'LoadBalancer' && { allocateLoadBalancerNodePorts: rest.allocateLoadBalancerNodePorts ?? true }),
    },
    ...(type === 'LoadBalancer' && service.status?.loadBalancer?.ingress && { status: defaultStatus(service.status) }),
  };
}

function defaultStatus(status: NonNullable<Service['status']>): NonNullable<Service['status']> {
  const ingress = (status.loadBalancer?.ingress ?? []).map((one) =>
    (one.ip ?? '') !== '' && one.ipMode === undefined ? { ...one, ipMode: 'VIP' } : one,
  );
  return { ...status, loadBalancer: { ...status.loadBalancer, ingress } };
}

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
