/**
 * A kubelet's configuration file, `kubelet.config.k8s.io/v1beta1`, read as settings of this agent. The table has every field of
 * the kubelet: it is a setting here under the same name, or it has no effect and the row says why. docs/kubelet-configuration.md
 * is made of the same table.
 */
import { isDeepStrictEqual } from 'node:util';
import {
  type Shape,
  boolean,
  decode,
  integer,
  intOrString,
  list,
  map,
  number,
  object,
  string,
} from '../../kube/schema/schema.ts';
import { showPath } from '../../kube/schema/field-errors.ts';
import { parseDurationMs } from '../../kube/values/times.ts';

export const kubeletConfigurationKind = {
  apiVersion: 'kubelet.config.k8s.io/v1beta1',
  kind: 'KubeletConfiguration',
} as const;

export interface KubeletField {
  readonly shape: Shape<unknown>;
  /** The kubelet's; undefined: nothing. */
  readonly default: unknown;
  /** Zero is no value but stands for the default, as for most numbers and durations. */
  readonly zeroIsAbsent: boolean;
  readonly isPath: boolean;
  /** Undefined: it is honoured. */
  readonly without: { readonly why: string; readonly here: unknown } | undefined;
  /** What is to be known of a field that is honoured. */
  readonly note: string;
}

function setting(shape: Shape<unknown>, byDefault?: unknown, more: Partial<KubeletField> = {}): KubeletField {
  return { shape, default: byDefault, zeroIsAbsent: true, isPath: false, without: undefined, note: '', ...more };
}

/** Zero and false are values. */
const exact = { zeroIsAbsent: false } as const;
const path = { isPath: true } as const;

/** In place of the kubelet's default: no value of the field is what this agent does. */
const nothing = Symbol('nothing');

/** `here` is what this agent does, where that is not the kubelet's default: the field is not named if it asks for just that. */
function without(why: string, shape: Shape<unknown>, byDefault?: unknown, here: unknown = byDefault): KubeletField {
  return { ...setting(shape, byDefault), without: { why, here } };
}

const oneNode = 'resources of the machine are not pinned, and what is reserved is not enforced by groups';
const reserving = { note: 'in what is allocatable: no group enforces it' } as const;
const ofTheRuntime = "networks are the runtime's";
const noIptables = 'no rules of iptables are made';
const noShutdown = 'the shutdown of the machine is not delayed';
const noHttp = 'pods do not come over HTTP';
const unverified = 'images that are present are not checked for credentials';
const notServed = 'there is no such handler';
const routing = object({ splitStream: boolean, infoBufferSize: intOrString });
const taint = object({ key: string, value: string, effect: string, timeAdded: string });

export const kubeletFields: Readonly<Record<string, KubeletField>> = {
  enableServer: setting(boolean, true, exact),
  staticPodPath: setting(string, '', path),
  podLogsDir: setting(string, '/var/log/pods', {
    ...path,
    note: 'so for `mountlet agent` with `runtime: cri`; else here by default `logs` below the root directory',
  }),
  syncFrequency: setting(string, '1m0s'),
  fileCheckFrequency: setting(string, '20s'),
  httpCheckFrequency: without(noHttp, string, '20s'),
  staticPodURL: without(noHttp, string),
  staticPodURLHeader: without(noHttp, map(list(string))),
  address: setting(string, '0.0.0.0'),
  port: setting(integer, 10_250),
  readOnlyPort: without('nothing but /healthz is served without TLS', integer, 0),
  tlsCertFile: setting(string, '', path),
  tlsPrivateKeyFile: setting(string, '', path),
  tlsCipherSuites: setting(list(string)),
  tlsCurvePreferences: without('the curves are those of OpenSSL', list(integer)),
  tlsMinVersion: setting(string, 'VersionTLS12'),
  rotateCertificates: without('credentials are taken from the kubeconfig as they are', boolean, false),
  serverTLSBootstrap: setting(boolean, false, { ...exact, note: 'here by default `true`' }),
  'authentication.x509.clientCAFile': setting(string, '', path),
  'authentication.webhook.enabled': setting(boolean, true, exact),
  'authentication.webhook.cacheTTL': without('answers are not kept', string, '2m0s', nothing),
  'authentication.anonymous.enabled': setting(boolean, false, exact),
  'authorization.mode': setting(string, 'Webhook'),
  'authorization.webhook.cacheAuthorizedTTL': without('answers are not kept', string, '5m0s', nothing),
  'authorization.webhook.cacheUnauthorizedTTL': without('answers are not kept', string, '30s', nothing),
  registryPullQPS: setting(integer, 5, exact),
  registryBurst: setting(integer, 10),
  imagePullCredentialsVerificationPolicy: without(unverified, string, 'NeverVerifyPreloadedImages', 'NeverVerify'),
  preloadedImagesVerificationAllowlist: without(unverified, list(string)),
  eventRecordQPS: setting(integer, 50, exact),
  eventBurst: setting(integer, 100),
  enableDebuggingHandlers: without('logs, commands and ports are always served', boolean, true),
  enableContentionProfiling: without(notServed, boolean, false),
  healthzPort: setting(integer, 10_248, { ...exact, note: 'here by default 0, which is none' }),
  healthzBindAddress: setting(string, '127.0.0.1'),
  oomScoreAdj: without('the score of the agent is left to who starts it', integer, -999, nothing),
  clusterDomain: setting(string, '', { note: 'here by default `cluster.local`' }),
  clusterDNS: setting(list(string)),
  streamingConnectionIdleTimeout: setting(string, '4h0m0s'),
  nodeStatusUpdateFrequency: setting(string, '10s'),
  nodeStatusReportFrequency: setting(string, '5m0s', { note: '`nodeStatusUpdateFrequency` where that alone is set' }),
  nodeLeaseDurationSeconds: setting(integer, 40),
  imageMinimumGCAge: setting(string, '2m0s'),
  imageMaximumGCAge: setting(string, '0s'),
  imageGCHighThresholdPercent: setting(integer, 85, exact),
  imageGCLowThresholdPercent: setting(integer, 80, exact),
  volumeStatsAggPeriod: setting(string, '1m0s'),
  kubeletCgroups: without('the agent stays in its own group', string),
  systemCgroups: without('other processes stay in their groups', string),
  cgroupRoot: without('groups of pods stand at the top', string),
  cgroupsPerQOS: without('pods always have groups by quality of service', boolean, true),
  cgroupDriver: setting(string, 'cgroupfs', {
    note: 'where the runtime does not say which it has; with `systemd` pods have no limits beside those of their containers',
  }),
  cpuManagerPolicy: without(oneNode, string, 'none'),
  singleProcessOOMKill: without(
    'with the CRI runtime and control groups of version 2 all processes of a container end together',
    boolean,
  ),
  cpuManagerPolicyOptions: without(oneNode, map(string)),
  cpuManagerReconcilePeriod: without(oneNode, string, '10s'),
  memoryManagerPolicy: without(oneNode, string, 'None'),
  topologyManagerPolicy: without(oneNode, string, 'none'),
  topologyManagerScope: without(oneNode, string, 'container'),
  topologyManagerPolicyOptions: without(oneNode, map(string)),
  qosReserved: without(oneNode, map(string)),
  runtimeRequestTimeout: without('each kind of call has a limit of its own', string, '2m0s', nothing),
  hairpinMode: without(ofTheRuntime, string, 'promiscuous-bridge', nothing),
  maxPods: setting(integer, 110),
  podCIDR: without(ofTheRuntime, string),
  podPidsLimit: setting(integer, -1, {
    ...exact,
    note: 'with the CRI runtime and cgroupfs; the process runtime has 4096 for each container',
  }),
  resolvConf: setting(string, '/etc/resolv.conf', { ...path, ...exact }),
  runOnce: without('an agent runs until it is ended', boolean, false),
  cpuCFSQuota: without('limits of CPU time always hold', boolean, true),
  cpuCFSQuotaPeriod: without('the period is 100 ms', string, '100ms'),
  nodeStatusMaxImages: setting(integer, 50, exact),
  maxOpenFiles: without('the limit of descriptors is left to who starts the agent', integer, 1_000_000, nothing),
  contentType: without('objects are JSON', string, 'application/vnd.kubernetes.protobuf', 'application/json'),
  kubeAPIQPS: setting(integer, 50, exact),
  kubeAPIBurst: setting(integer, 100),
  serializeImagePulls: setting(boolean, true, exact),
  maxParallelImagePulls: setting(integer, undefined, exact),
  evictionHard: setting(map(string), undefined, { ...exact, note: 'memory and process numbers do not evict' }),
  evictionSoft: setting(map(string), undefined, { ...exact, note: 'memory and process numbers do not evict' }),
  evictionSoftGracePeriod: setting(map(string), undefined, exact),
  evictionPressureTransitionPeriod: setting(string, '5m0s'),
  evictionMaxPodGracePeriod: setting(integer, 0),
  evictionMinimumReclaim: setting(map(string), undefined, exact),
  mergeDefaultEvictionSettings: setting(boolean, false, exact),
  podsPerCore: without('maxPods alone limits the number of pods', integer, 0),
  enableControllerAttachDetach: setting(boolean, true, {
    ...exact,
    note: 'with `false` no volume that has to be attached is mounted, and a `FailedAttachVolume` Event of its pods says so',
  }),
  protectKernelDefaults: without('kernel settings are neither checked nor changed', boolean, false),
  makeIPTablesUtilChains: without(noIptables, boolean, true, false),
  iptablesMasqueradeBit: without(noIptables, integer, 14, nothing),
  iptablesDropBit: without(noIptables, integer, 15, nothing),
  featureGates: without('there are no feature gates', map(boolean)),
  failSwapOn: without('swap is not looked at; Secrets are kept out of it', boolean, true, false),
  'memorySwap.swapBehavior': without('containers get no swap', string, '', 'NoSwap'),
  containerLogMaxSize: setting(string, '10Mi', { note: 'below zero: without end' }),
  containerLogMaxFiles: setting(integer, 5, exact),
  containerLogMaxWorkers: without('one at a time', integer, 1),
  containerLogMonitorInterval: without('every 10 s', string, '10s'),
  configMapAndSecretChangeDetectionStrategy: setting(string, 'Watch'),
  systemReserved: setting(map(string), undefined, reserving),
  kubeReserved: setting(map(string), undefined, reserving),
  reservedSystemCPUs: without(oneNode, string),
  showHiddenMetricsForVersion: without('there are no hidden metrics', string),
  systemReservedCgroup: without(oneNode, string),
  kubeReservedCgroup: without(oneNode, string),
  enforceNodeAllocatable: without(oneNode, list(string), ['pods'], ['none']),
  allowedUnsafeSysctls: setting(list(string)),
  defaultPodSysctls: without('pods have the sysctls that they ask for', map(string)),
  volumePluginDir: without(
    'FlexVolume is not there',
    string,
    '/usr/libexec/kubernetes/kubelet-plugins/volume/exec/',
    nothing,
  ),
  providerID: setting(string, ''),
  kernelMemcgNotification: without('memory does not evict', boolean, false),
  'logging.format': without('--log-format says it', string, 'text'),
  'logging.flushFrequency': without('lines are written at once', intOrString, '5s'),
  'logging.verbosity': without('--log-level says it', integer, 0),
  'logging.vmodule': without('--log-level says it', list(object({ filePattern: string, verbosity: integer }))),
  'logging.options': without('lines are written at once', object({ text: routing, json: routing })),
  enableSystemLogHandler: without(notServed, boolean, true, false),
  enableSystemLogQuery: without(notServed, boolean, false),
  shutdownGracePeriod: without(noShutdown, string, '0s'),
  shutdownGracePeriodCriticalPods: without(noShutdown, string, '0s'),
  shutdownGracePeriodByPodPriority: without(
    noShutdown,
    list(object({ priority: integer, shutdownGracePeriodSeconds: integer })),
  ),
  'crashLoopBackOff.maxContainerRestartPeriod': setting(string, '5m0s'),
  reservedMemory: without(oneNode, list(object({ numaNode: integer, limits: map(intOrString) }))),
  enableProfilingHandler: without(notServed, boolean, true, false),
  enableDebugFlagsHandler: without(notServed, boolean, true, false),
  seccompDefault: setting(boolean, false, {
    ...exact,
    note: 'with the CRI runtime; with the process runtime the default profile always holds',
  }),
  memoryThrottlingFactor: without('memory is limited and not throttled', number),
  memoryReservationPolicy: without('memory is limited and not reserved', string, 'None'),
  registerWithTaints: setting(list(taint), undefined, {
    ...exact,
    note: 'here by default `mountlet.dev/no-images:NoSchedule` with the process runtime',
  }),
  registerNode: setting(boolean, true, exact),
  tracing: without('no traces are sent', object({ endpoint: string, samplingRatePerMillion: integer })),
  localStorageCapacityIsolation: setting(boolean, true, exact),
  containerRuntimeEndpoint: setting(string, 'unix:///run/containerd/containerd.sock', {
    note: 'with one in the file the runtime is `cri`, unless `--runtime` says otherwise',
  }),
  imageServiceEndpoint: without('images come from the container runtime', string, ''),
  failCgroupV1: setting(boolean, true, { ...exact, note: 'here by default false' }),
  'userNamespaces.idsPerPod': without('pods have no user namespaces', integer, 65_536, nothing),
};

/** Gates that are on, or off, just as this agent behaves: they need not be named. */
const gatesAsHere: Readonly<Record<string, boolean>> = {
  EnvFiles: true,
  GracefulNodeShutdown: false,
  GracefulNodeShutdownBasedOnPodPriority: false,
  KubeletCrashLoopBackOffMax: true,
  KubeletEnsureSecretPulledImages: false,
  LocalStorageCapacityIsolation: true,
  NodeSwap: false,
  PodReadyToStartContainersCondition: true,
  RecursiveReadOnlyMounts: true,
  RotateKubeletServerCertificate: false,
  SidecarContainers: true,
};

interface ReadKubeletConfiguration {
  /** Of an AgentConfiguration. */
  readonly settings: Readonly<Record<string, unknown>>;
  /** What the file asks for and does not get: `readOnlyPort: nothing is served without TLS`. */
  readonly withoutEffect: readonly string[];
  readonly problems: readonly string[];
}

const shape = object({
  apiVersion: string,
  kind: string,
  ...(nested(kubeletFields) as Record<string, Shape<unknown>>),
});

/** Paths may be relative to the file: `resolvePath` makes them absolute. */
export function readKubeletConfiguration(
  document: unknown,
  resolvePath: (path: string) => string,
): ReadKubeletConfiguration {
  const decoded = decode(shape, document);
  const unknown = decoded.problems.filter(({ kind }) => kind === 'unknown');
  const problems = [
    ...decoded.problems.filter(({ kind }) => kind !== 'unknown').map((one) => `${showPath(one.path)}: ${one.message}`),
    // As the kubelet's strict decoding says it.
    ...(unknown.length === 0
      ? []
      : [`strict decoding error: ${unknown.map((one) => `unknown field "${showPath(one.path)}"`).join(', ')}`]),
  ];
  const settings: Record<string, unknown> = {};
  const withoutEffect: string[] = [];
  for (const [name, field] of Object.entries(kubeletFields)) {
    const value = valueAt(decoded.value, name.split('.'));
    if (value === undefined || (field.zeroIsAbsent && isZero(value))) continue;
    if (field.without === undefined) {
      put(
        settings,
        name.split('.'),
        field.isPath && typeof value === 'string' && value !== '' ? resolvePath(value) : value,
      );
    } else if (name === 'featureGates') {
      withoutEffect.push(...gatesWithoutEffect(value as Readonly<Record<string, boolean>>, field.without.why));
    } else if (!isSame(value, field.without.here)) withoutEffect.push(`${name}: ${field.without.why}`);
  }
  return { settings: { ...settings, ...implied(settings) }, withoutEffect, problems };
}

type Fields = Readonly<Record<string, unknown>>;

/**
 * The configuration that is in force, in the kubelet's words: `given` is what the user said, and `here` what this agent does instead
 * of the kubelet's default. A field without effect is shown where this agent always does the same.
 */
export function effectiveConfiguration(given: object, here: Fields): Fields {
  const shown: Record<string, unknown> = { ...kubeletConfigurationKind };
  for (const [name, field] of Object.entries(kubeletFields)) {
    const chosen = here[name] ?? valueAt(given, name.split('.')) ?? field.default;
    const value = field.without === undefined ? chosen : field.without.here;
    if (value !== undefined && value !== '' && value !== nothing) put(shown, name.split('.'), value);
  }
  return shown;
}

/** What follows from other fields. */
function implied(settings: Readonly<Record<string, unknown>>): Readonly<Record<string, unknown>> {
  const { nodeStatusUpdateFrequency: update, nodeStatusReportFrequency: report = update } = settings;
  return report === undefined ? {} : { nodeStatusReportFrequency: report };
}

function gatesWithoutEffect(gates: Readonly<Record<string, boolean>>, why: string): readonly string[] {
  return Object.entries(gates)
    .filter(([gate, isOn]) => gatesAsHere[gate] !== isOn)
    .map(([gate]) => `featureGates.${gate}: ${why}`);
}

function isZero(value: unknown): boolean {
  if (typeof value === 'string') return value === '' || parseDurationMs(value) === 0;
  if (typeof value === 'object' && value !== null) return Object.values(value).every(isZero);
  return value === 0 || value === false;
}

function isSame(value: unknown, other: unknown): boolean {
  if (typeof value === 'string' && typeof other === 'string' && value !== other) {
    const ms = parseDurationMs(value);
    return ms !== undefined && ms === parseDurationMs(other);
  }
  return isDeepStrictEqual(value, other);
}

function valueAt(whole: unknown, [first = '', ...rest]: readonly string[]): unknown {
  const value = (whole as Readonly<Record<string, unknown>> | undefined)?.[first];
  return rest.length === 0 ? value : valueAt(value, rest);
}

function put(into: Record<string, unknown>, [first = '', ...rest]: readonly string[], value: unknown): void {
  if (rest.length === 0) into[first] = value;
  else put((into[first] ??= {}) as Record<string, unknown>, rest, value);
}

function nested(fields: Readonly<Record<string, KubeletField>>): object {
  const shapes: Record<string, unknown> = {};
  for (const [name, field] of Object.entries(fields)) put(shapes, name.split('.'), field.shape);
  const close = (some: Record<string, unknown>): Record<string, unknown> =>
    Object.fromEntries(
      Object.entries(some).map(([name, one]) => {
        const isShape = typeof (one as Shape<unknown>).zero === 'function';
        return [name, isShape ? one : object(close(one as Record<string, unknown>) as Record<string, Shape<unknown>>)];
      }),
    );
  return close(shapes);
}
