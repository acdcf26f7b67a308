/** One container of a pod: what it runs, its environment and its mounts. */
import {
  type Of,
  absentMeans,
  any,
  atomic,
  boolean,
  intOrString,
  integer,
  list,
  object,
  replacedByPatch,
  required,
  resourceList,
  setOf,
  string,
} from '../../schema/schema.ts';
import { defaultPullPolicy } from '../../values/image-reference.ts';
import type { Quantity } from '../../values/quantity.ts';
import { type ResourceList, readQuantity, roundUpResources } from '../../values/resource-list.ts';
import { defaultFieldReference, fieldReference, resourceFieldReference } from './volume.ts';

export const resourceRequirements = object({
  limits: resourceList,
  requests: resourceList,
  claims: replacedByPatch(list(object({ name: required(string), request: string }), 'name')),
});
export interface ResourceRequirements extends Of<typeof resourceRequirements> {}

export const volumeMount = object({
  name: required(string),
  readOnly: boolean,
  recursiveReadOnly: string,
  mountPath: required(string),
  subPath: string,
  mountPropagation: string,
  subPathExpr: string,
  bindMountOptions: replacedByPatch(setOf(string)),
});
export interface VolumeMount extends Of<typeof volumeMount> {}

const objectKeyReference = atomic(object({ name: required(string), key: required(string), optional: boolean }));

export const environmentVariable = object({
  name: required(string),
  value: string,
  valueFrom: object({
    fieldRef: fieldReference,
    resourceFieldRef: resourceFieldReference,
    configMapKeyRef: objectKeyReference,
    secretKeyRef: objectKeyReference,
    fileKeyRef: atomic(
      object({
        volumeName: required(string),
        path: required(string),
        key: required(string),
        optional: boolean,
      }),
    ),
  }),
});
export interface EnvironmentVariable extends Of<typeof environmentVariable> {}

const environmentObject = object({ name: required(string), optional: boolean });
export const environmentSource = object({
  prefix: string,
  configMapRef: environmentObject,
  secretRef: environmentObject,
});
export interface EnvironmentSource extends Of<typeof environmentSource> {}

const httpGetShape = object({
  path: string,
  port: required(intOrString),
  host: string,
  scheme: string,
  httpHeaders: list(object({ name: required(string), value: required(string) })),
  protocol: string,
});
const exec = object({ command: list(string) });
const tcpSocket = object({ port: required(intOrString), host: string });

const probeShape = object({
  exec,
  httpGet: httpGetShape,
  tcpSocket,
  grpc: object({ port: required(integer), service: string, mode: string }),
  initialDelaySeconds: integer,
  timeoutSeconds: integer,
  periodSeconds: integer,
  successThreshold: integer,
  failureThreshold: integer,
  terminationGracePeriodSeconds: integer,
});
export interface Probe extends Of<typeof probeShape> {}

const lifecycleHandler = object({
  exec,
  httpGet: httpGetShape,
  tcpSocket,
  sleep: object({ seconds: required(integer) }),
});

const profile = object({ type: required(string), localhostProfile: string });

/** The fields that the pod's and a container's security context have in common. */
export const sharedSecurityFields = {
  seLinuxOptions: object({ user: string, role: string, type: string, level: string }),
  windowsOptions: any,
  runAsUser: integer,
  runAsGroup: integer,
  runAsNonRoot: boolean,
  seccompProfile: profile,
  appArmorProfile: profile,
};

const lifecycleShape = object({ postStart: lifecycleHandler, preStop: lifecycleHandler, stopSignal: string });
export interface Lifecycle extends Of<typeof lifecycleShape> {}

const securityContext = object({
  ...sharedSecurityFields,
  capabilities: object({ add: list(string), drop: list(string) }),
  privileged: boolean,
  readOnlyRootFilesystem: boolean,
  allowPrivilegeEscalation: boolean,
  procMount: string,
});
export interface SecurityContext extends Of<typeof securityContext> {}

const containerFields = {
  name: required(string),
  image: string,
  command: list(string),
  args: list(string),
  workingDir: string,
  ports: list(
    object({
      name: string,
      hostPort: integer,
      containerPort: required(integer),
      protocol: absentMeans('TCP', string),
      hostIP: string,
    }),
    'containerPort',
    'protocol',
  ),
  envFrom: list(environmentSource),
  env: list(environmentVariable, 'name'),
  resources: resourceRequirements,
  resizePolicy: list(object({ resourceName: required(string), restartPolicy: required(string) })),
  restartPolicy: string,
  restartPolicyRules: list(
    object({ action: string, exitCodes: object({ operator: string, values: replacedByPatch(setOf(integer)) }) }),
  ),
  volumeMounts: list(volumeMount, 'mountPath'),
  volumeDevices: list(object({ name: required(string), devicePath: required(string) }), 'devicePath'),
  livenessProbe: probeShape,
  readinessProbe: probeShape,
  startupProbe: probeShape,
  lifecycle: lifecycleShape,
  terminationMessagePath: string,
  terminationMessagePolicy: string,
  imagePullPolicy: string,
  securityContext,
  stdin: boolean,
  stdinOnce: boolean,
  tty: boolean,
};

export const containerShape = object(containerFields);
export interface Container extends Of<typeof containerShape> {}

export const ephemeralContainer = object({ ...containerFields, targetContainerName: string });
export interface EphemeralContainer extends Of<typeof ephemeralContainer> {}

/** Defaults of a container, as the API server sets them when an object is decoded. */
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

/**
 * What a pod's containers need together: the sum of those that run at the same time, or the most that any step of its start
 * needs. A sidecar counts in the sum and in every step after its own.
 */
export function containersTogether(
  containers: readonly Container[],
  initContainers: readonly Container[],
  listOf: (container: Container) => ResourceList | undefined,
): ReadonlyMap<string, Quantity> {
  const running = new Map<string, Quantity>();
  const sidecars = new Map<string, Quantity>();
  const starting = new Map<string, Quantity>();
  for (const container of containers) addTo(running, listOf(container));
  for (const container of initContainers) {
    if (container.restartPolicy === 'Always') {
      addTo(running, listOf(container));
      addTo(sidecars, listOf(container));
      raiseTo(starting, sidecars);
    } else {
      const step = new Map(sidecars);
      addTo(step, listOf(container));
      raiseTo(starting, step);
    }
  }
  raiseTo(running, starting);
  return running;
}

function addTo(sum: Map<string, Quantity>, resources: ResourceList | undefined): void {
  for (const [name, value] of Object.entries(resources ?? {})) {
    const quantity = readQuantity(value);
    if (quantity !== undefined) sum.set(name, sum.get(name)?.plus(quantity) ?? quantity);
  }
}

function raiseTo(most: Map<string, Quantity>, other: ReadonlyMap<string, Quantity>): void {
  for (const [name, quantity] of other) {
    const known = most.get(name);
    if (known === undefined || quantity.compare(known) > 0) most.set(name, quantity);
  }
}
