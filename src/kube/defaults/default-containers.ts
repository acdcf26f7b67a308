/** Defaults of a container, as the API server sets them when an object is decoded. */
import type { Container, EnvironmentVariable, Lifecycle, Probe, ResourceRequirements } from '../objects/container.ts';
import { defaultFieldReference } from './default-volumes.ts';
import { defaultPullPolicy } from './default-pull-policy.ts';
import { roundUpResources } from '../values/resource-list.ts';

type HttpGet = NonNullable<Probe['httpGet']>;
type LifecycleHandler = NonNullable<Lifecycle['preStop']>;

export function defaultContainer<C extends Container>(container: C): C {
  const { ports, env, livenessProbe, readinessProbe, startupProbe, lifecycle } = container;
  return {
    ...container,
    imagePullPolicy: container.imagePullPolicy || defaultPullPolicy(container.image ?? ''),
    terminationMessagePath: container.terminationMessagePath || '/dev/termination-log',
    terminationMessagePolicy: container.terminationMessagePolicy || 'File',
    resources: defaultResources(container.resources ?? {}),
    ...(ports && { ports: ports.map((port) => Object.assign({}, port, { protocol: port.protocol || 'TCP' })) }),
    ...(env && { env: env.map(defaultEnvironmentVariable) }),
    ...(livenessProbe && { livenessProbe: defaultProbe(livenessProbe) }),
    ...(readinessProbe && { readinessProbe: defaultProbe(readinessProbe) }),
    ...(startupProbe && { startupProbe: defaultProbe(startupProbe) }),
    ...(lifecycle && { lifecycle: defaultLifecycle(lifecycle) }),
  };
}

/** Only in a pod: what a container may use at most, it also asks for. */
export function withRequestsFromLimits(container: Container): Container {
  const { resources } = container;
  if (resources?.limits === undefined) return container;
  const { limits = {}, requests = {} } = resources;
  const missing = Object.entries(limits).filter(([name]) => !Object.hasOwn(requests, name));
  return { ...container, resources: { ...resources, requests: { ...requests, ...Object.fromEntries(missing) } } };
}

/** Only in a pod: on the host's network every port is a port of the host. */
export function withHostPorts(container: Container): Container {
  const { ports } = container;
  if (ports === undefined) return container;
  const hostPorts = ports.map((port) => Object.assign({}, port, { hostPort: port.hostPort || port.containerPort }));
  return { ...container, ports: hostPorts };
}

export function defaultResources(resources: ResourceRequirements): ResourceRequirements {
  const { limits, requests } = resources;
  return {
    ...resources,
    ...(limits && { limits: roundUpResources(limits) }),
    ...(requests && { requests: roundUpResources(requests) }),
  };
}

function defaultEnvironmentVariable(variable: EnvironmentVariable): EnvironmentVariable {
  const { valueFrom } = variable;
  if (valueFrom?.fieldRef === undefined && valueFrom?.fileKeyRef === undefined) return variable;
  const { fieldRef, fileKeyRef } = valueFrom;
  return {
    ...variable,
    valueFrom: {
      ...valueFrom,
      ...(fieldRef && { fieldRef: defaultFieldReference(fieldRef) }),
      ...(fileKeyRef && { fileKeyRef: { ...fileKeyRef, optional: fileKeyRef.optional ?? false } }),
    },
  };
}

function defaultProbe(probe: Probe): Probe {
  const { httpGet, grpc } = probe;
  return {
    ...probe,
    timeoutSeconds: probe.timeoutSeconds || 1,
    periodSeconds: probe.periodSeconds || 10,
    successThreshold: probe.successThreshold || 1,
    failureThreshold: probe.failureThreshold || 3,
    ...(httpGet && { httpGet: defaultHttpGet(httpGet) }),
    ...(grpc && { grpc: { ...grpc, service: grpc.service ?? '' } }),
  };
}

function defaultLifecycle(lifecycle: Lifecycle): Lifecycle {
  const { postStart, preStop } = lifecycle;
  return {
    ...lifecycle,
    ...(postStart && { postStart: defaultHandler(postStart) }),
    ...(preStop && { preStop: defaultHandler(preStop) }),
  };
}

function defaultHandler(handler: LifecycleHandler): LifecycleHandler {
  return handler.httpGet === undefined ? handler : { ...handler, httpGet: defaultHttpGet(handler.httpGet) };
}

function defaultHttpGet(httpGet: HttpGet): HttpGet {
  return { ...httpGet, path: httpGet.path || '/', scheme: httpGet.scheme || 'HTTP' };
}
