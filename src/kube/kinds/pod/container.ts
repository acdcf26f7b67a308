/** One container of a pod: what it runs, its environment and its mounts. */
import {
  type Of,
  absentMeans,
  any,
  atomic,
  boolean,
  described,
  intOrString,
  int32,
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
import { type Quantity, type ResourceList, readQuantity, roundUpResources } from '../../values/quantity.ts';
import { defaultFieldReference, fieldReference, resourceFieldReference } from './volume.ts';

export const resourceRequirements = described(
  {
    name: 'io.k8s.api.core.v1.ResourceRequirements',
    text: 'What a container asks for and what it may use.',
    fields: {
      limits: 'The most it may use, by resource: cpu, memory.',
      requests: 'What is set aside for it; its limits if absent.',
      claims: 'The claims of the pod that it uses.',
    },
  },
  object({
    limits: resourceList,
    requests: resourceList,
    claims: replacedByPatch(list(object({ name: required(string), request: string }), 'name')),
  }),
);
export interface ResourceRequirements extends Of<typeof resourceRequirements> {}

const volumeMount = described(
  {
    name: 'io.k8s.api.core.v1.VolumeMount',
    text: 'Where a volume is in the file system of a container.',
    fields: {
      name: 'The volume, by its name in the pod.',
      readOnly: 'Whether the container may only read it.',
      recursiveReadOnly: 'Whether that holds for mounts below it: Disabled, IfPossible or Enabled.',
      mountPath: 'Where it is seen. It may not contain ":".',
      subPath: 'The part of the volume that is seen; all of it if absent. Updates do not reach it.',
      mountPropagation: 'Whether mounts made later are seen on the other side: None, HostToContainer, Bidirectional.',
      subPathExpr: 'As subPath, with variables of the container in it.',
      bindMountOptions: 'Further options of the mount.',
    },
  },
  object({
    name: required(string),
    readOnly: boolean,
    recursiveReadOnly: string,
    mountPath: required(string),
    subPath: string,
    mountPropagation: string,
    subPathExpr: string,
    bindMountOptions: replacedByPatch(setOf(string)),
  }),
);
export interface VolumeMount extends Of<typeof volumeMount> {}

const objectKeyReference = atomic(object({ name: required(string), key: required(string), optional: boolean }));

const environmentVariable = described(
  {
    name: 'io.k8s.api.core.v1.EnvVar',
    text: 'A variable of the environment.',
    fields: {
      name: 'The name of the variable.',
      value: 'The value. $(NAME) is replaced by a variable defined before; $$ stands for a dollar.',
      valueFrom: 'Where the value comes from. Not together with value.',
    },
  },
  object({
    name: required(string),
    value: string,
    valueFrom: described(
      {
        name: 'io.k8s.api.core.v1.EnvVarSource',
        text: 'Where the value of a variable comes from. Exactly one field is set.',
        fields: {
          fieldRef: 'A field of the pod: its name, its node, a label.',
          resourceFieldRef: 'A limit or request of a container.',
          configMapKeyRef: 'An entry of a ConfigMap.',
          secretKeyRef: 'An entry of a Secret.',
          fileKeyRef: 'A line of a file that an init container has written.',
        },
      },
      object({
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
    ),
  }),
);
export interface EnvironmentVariable extends Of<typeof environmentVariable> {}

const environmentObject = object({ name: required(string), optional: boolean });
const environmentSource = described(
  {
    name: 'io.k8s.api.core.v1.EnvFromSource',
    text: 'An object whose entries become variables.',
    fields: { prefix: 'Put before every name.', configMapRef: 'The ConfigMap.', secretRef: 'The Secret.' },
  },
  object({
    prefix: string,
    configMapRef: environmentObject,
    secretRef: environmentObject,
  }),
);
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

const probeShape = described(
  {
    name: 'io.k8s.api.core.v1.Probe',
    text: 'How a container is asked whether it is well.',
    fields: {
      exec: 'Runs a program in the container; 0 is well.',
      httpGet: 'Asks by HTTP; 200 to 399 is well.',
      tcpSocket: 'Opens a connection.',
      grpc: 'Asks by the gRPC health protocol.',
      initialDelaySeconds: 'How long to wait before the first time.',
      timeoutSeconds: 'How long to wait for an answer, 1 if absent.',
      periodSeconds: 'How often to ask, every 10 seconds if absent.',
      successThreshold: 'How often it must be well in a row to count as well.',
      failureThreshold: 'How often it must fail in a row to count as failed, 3 if absent.',
      terminationGracePeriodSeconds: 'How long the container has to end when it has failed.',
    },
  },
  object({
    exec,
    httpGet: httpGetShape,
    tcpSocket,
    grpc: object({ port: required(integer), service: string, mode: string }),
    initialDelaySeconds: int32,
    timeoutSeconds: int32,
    periodSeconds: int32,
    successThreshold: int32,
    failureThreshold: int32,
    terminationGracePeriodSeconds: integer,
  }),
);
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

const securityContext = described(
  {
    name: 'io.k8s.api.core.v1.SecurityContext',
    text: 'Who a container runs as and what it may do.',
    fields: {
      capabilities: 'Powers of root to give or to take away.',
      privileged: 'Whether it may do whatever the node can.',
      runAsUser: 'The user id of the processes.',
      runAsGroup: 'The group id of the processes.',
      runAsNonRoot: 'Whether the container is refused if it would run as root.',
      readOnlyRootFilesystem: 'Whether its own file system is for reading alone.',
      allowPrivilegeEscalation: 'Whether a process may gain more rights than its parent.',
    },
  },
  object({
    ...sharedSecurityFields,
    capabilities: object({ add: list(string), drop: list(string) }),
    privileged: boolean,
    readOnlyRootFilesystem: boolean,
    allowPrivilegeEscalation: boolean,
    procMount: string,
  }),
);
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

const containerTexts = {
  name: 'The name of the container, a DNS label, unique in the pod.',
  image: 'The image to run.',
  command: 'The program, in place of the one that the image names. $(NAME) is replaced by a variable.',
  args: 'The arguments of the program, in place of those of the image.',
  workingDir: 'The directory the program starts in.',
  ports: 'The ports it listens on. For people and for hostPort; nothing is opened or closed by them.',
  envFrom: 'Objects whose entries become variables. What env says comes after and wins.',
  env: 'Variables of the environment.',
  resources: 'What the container asks for and what it may use.',
  resizePolicy: 'Whether a change of resources restarts the container.',
  restartPolicy: 'Whether it is started again when it ends. Always makes an init container a sidecar.',
  restartPolicyRules: 'Exceptions from restartPolicy, by exit code.',
  volumeMounts: 'Where the volumes of the pod are in the file system of the container.',
  volumeDevices: 'Which volumes of the pod are devices of the container.',
  livenessProbe: 'How to find out that the container must be started again.',
  readinessProbe: 'How to find out that the container can do its work.',
  startupProbe: 'How to find out that the container has started. The other probes wait for it.',
  lifecycle: 'What to run right after the start and right before the end.',
  terminationMessagePath: 'A file whose content is shown when the container has ended.',
  terminationMessagePolicy: 'File, or FallbackToLogsOnError: the end of the log where the file is empty.',
  imagePullPolicy: 'Always, IfNotPresent or Never. Always if the tag is latest or absent.',
  securityContext: 'Who the container runs as and what it may do. It wins over that of the pod.',
  stdin: 'Whether a standard input is kept for the container.',
  stdinOnce: 'Whether it is closed after the first client has left.',
  tty: 'Whether the container gets a terminal.',
};

export const containerShape = described(
  { name: 'io.k8s.api.core.v1.Container', text: 'One container of a pod.', fields: containerTexts },
  object(containerFields),
);
export interface Container extends Of<typeof containerShape> {}

export const ephemeralContainer = described(
  {
    name: 'io.k8s.api.core.v1.EphemeralContainer',
    text: 'A container that was added to look into a running pod. It is never started again and asks for nothing.',
    fields: { ...containerTexts, targetContainerName: 'The container whose processes it sees.' },
  },
  object({ ...containerFields, targetContainerName: string }),
);
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
