/** One container of a pod: what it runs, its environment and its mounts. */
import {
  absentMeans,
  any,
  atomic,
  boolean,
  integer,
  intOrString,
  list,
  map,
  object,
  quantity,
  replacedByPatch,
  required,
  setOf,
  string,
} from './schema.ts';
import type { Of } from './schema.ts';
import { fieldReference, resourceFieldReference } from './volume.ts';

const resourceList = map(quantity);

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

const httpGet = object({
  path: string,
  port: required(intOrString),
  host: string,
  scheme: string,
  httpHeaders: list(object({ name: required(string), value: required(string) })),
  protocol: string,
});
const exec = object({ command: list(string) });
const tcpSocket = object({ port: required(intOrString), host: string });

const probe = object({
  exec,
  httpGet,
  tcpSocket,
  grpc: object({ port: required(integer), service: string, mode: string }),
  initialDelaySeconds: integer,
  timeoutSeconds: integer,
  periodSeconds: integer,
  successThreshold: integer,
  failureThreshold: integer,
  terminationGracePeriodSeconds: integer,
});
export interface Probe extends Of<typeof probe> {}

const lifecycleHandler = object({ exec, httpGet, tcpSocket, sleep: object({ seconds: required(integer) }) });

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

const lifecycle = object({ postStart: lifecycleHandler, preStop: lifecycleHandler, stopSignal: string });
export interface Lifecycle extends Of<typeof lifecycle> {}

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
  livenessProbe: probe,
  readinessProbe: probe,
  startupProbe: probe,
  lifecycle,
  terminationMessagePath: string,
  terminationMessagePolicy: string,
  imagePullPolicy: string,
  securityContext,
  stdin: boolean,
  stdinOnce: boolean,
  tty: boolean,
};

export const container = object(containerFields);
export interface Container extends Of<typeof container> {}

export const ephemeralContainer = object({ ...containerFields, targetContainerName: string });
export interface EphemeralContainer extends Of<typeof ephemeralContainer> {}
