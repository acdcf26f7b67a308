/**
 * The settings of a node agent: checked and defaulted here, once; further in none of them is optional. Names and defaults are
 * the kubelet's where it has them, so that what operators know of one holds for the other.
 */
import { isIP } from 'node:net';
import { dirname, resolve } from 'node:path';
import { MountletError } from '../../base/errors.ts';
import { parseYamlDocuments } from '../../kube/manifests/yaml-documents.ts';
import { isReservedNodeLabel, ownNodeDomains, ownNodeLabels } from '../../kube/kinds/node.ts';
import { showPath } from '../../kube/schema/field-errors.ts';
import { type Of, boolean, decode, integer, list, map, object, string } from '../../kube/schema/schema.ts';
import { dnsSubdomainProblems, labelValueProblems, qualifiedNameProblems } from '../../kube/values/names.ts';
import { Quantity, quantityProblem } from '../../kube/values/quantity.ts';
import { parseDurationMs } from '../../kube/values/times.ts';
import type { EvictionSettings } from '../../reclaim/eviction-loop.ts';
import type { ImageCollectorSettings } from '../../reclaim/image-collector.ts';
import { type Thresholds, readThresholds } from '../../reclaim/thresholds.ts';
import { kubeletConfigurationKind, readKubeletConfiguration } from './kubelet-configuration.ts';
import { type ServingSettings, servingFields, servingSettings } from './serving-settings.ts';

const agentConfigurationKind = { apiVersion: 'mountlet.dev/v1alpha1', kind: 'AgentConfiguration' } as const;

export const defaultEndpoint = 'unix:///run/containerd/containerd.sock';

/** The file of `--config`, where it is not a kubelet's. */
const agentConfiguration = object({
  apiVersion: string,
  kind: string,
  nodeName: string,
  rootDir: string,
  address: string,
  port: integer,
  nodeIP: string,
  nodeLabels: map(string),
  registerNode: boolean,
  registerWithTaints: list(object({ key: string, value: string, effect: string })),
  maxPods: integer,
  allowedUnsafeSysctls: list(string),
  staticPodPath: string,
  fileCheckFrequency: string,
  syncFrequency: string,
  nodeStatusUpdateFrequency: string,
  nodeStatusReportFrequency: string,
  nodeLeaseDurationSeconds: integer,
  configMapAndSecretChangeDetectionStrategy: string,
  subPathUpdates: boolean,
  localPath: boolean,
  enableControllerAttachDetach: boolean,
  clusterDomain: string,
  clusterDNS: list(string),
  resolvConf: string,
  kubeAPIQPS: integer,
  kubeAPIBurst: integer,
  containerLogMaxSize: string,
  containerLogMaxFiles: integer,
  runtime: string,
  containerRuntimeEndpoint: string,
  cgroupDriver: string,
  serializeImagePulls: boolean,
  maxParallelImagePulls: integer,
  registryPullQPS: integer,
  registryBurst: integer,
  imageCredentialProviderConfig: string,
  imageCredentialProviderBinDir: string,
  hostFiles: string,
  hostPaths: list(string),
  containerWritableLayerMax: string,
  evictionHard: map(string),
  evictionSoft: map(string),
  evictionSoftGracePeriod: map(string),
  evictionMinimumReclaim: map(string),
  evictionPressureTransitionPeriod: string,
  evictionMaxPodGracePeriod: integer,
  mergeDefaultEvictionSettings: boolean,
  imageMinimumGCAge: string,
  imageMaximumGCAge: string,
  imageGCHighThresholdPercent: integer,
  imageGCLowThresholdPercent: integer,
  localStorageCapacityIsolation: boolean,
  volumeStatsAggPeriod: string,
  nodeStatusMaxImages: integer,
  kubeReserved: map(string),
  systemReserved: map(string),
  podLogsDir: string,
  providerID: string,
  eventRecordQPS: integer,
  eventBurst: integer,
  podPidsLimit: integer,
  failCgroupV1: boolean,
  seccompDefault: boolean,
  crashLoopBackOff: object({ maxContainerRestartPeriod: string }),
  ...servingFields,
});
export type AgentConfiguration = Of<typeof agentConfiguration>;

export interface Taint {
  readonly key: string;
  readonly value: string;
  readonly effect: string;
}

export interface AgentSettings {
  /** What the user said, for those who ask this node for it. */
  readonly given: AgentConfiguration;
  readonly nodeName: string;
  /** Absolute; pods live below it. */
  readonly rootDirectory: string;
  /** Where the node's own server listens; port 0 takes any free one. */
  readonly address: string;
  readonly port: number;
  /** Undefined: the machine's own. */
  readonly nodeIp: string | undefined;
  readonly nodeLabels: Readonly<Record<string, string>>;
  readonly registersNode: boolean;
  /** Undefined: one that keeps pods with images away from a runtime without them. */
  readonly taints: readonly Taint[] | undefined;
  readonly podsMax: number;
  /** Names, or prefixes that end in `*`, that pods may set beside the safe ones. */
  readonly allowedUnsafeSysctls: readonly string[];
  /** A folder of pods and their objects beside the API server's; undefined: none. */
  readonly manifestsDirectory: string | undefined;
  readonly fileCheckMs: number;
  readonly syncMs: number;
  readonly nodeStatusUpdateMs: number;
  readonly nodeStatusReportMs: number;
  readonly leaseSeconds: number;
  readonly strategy: 'Watch' | 'Cache' | 'Get';
  readonly subPathUpdates: boolean;
  /** Claims of the class `local-path` get directories of this node. */
  readonly localPath: boolean;
  readonly controllerAttaches: boolean;
  readonly clusterDomain: string;
  /** Addresses of the cluster's DNS; empty where there is none. */
  readonly clusterDns: readonly string[];
  /** The machine's own file about DNS; empty: pods see nothing of it. */
  readonly resolvConf: string;
  readonly requestsPerSecond: number;
  readonly requestsBurst: number;
  readonly logBytesMax: number;
  readonly logFilesMax: number;
  /** `auto`: containers where a runtime answers at the endpoint, else processes. */
  readonly runtime: 'process' | 'cri' | 'auto';
  /** `unix:///run/containerd/containerd.sock` */
  readonly containerRuntimeEndpoint: string;
  /** For runtimes that do not say which one they have. */
  readonly cgroupDriver: 'cgroupfs' | 'systemd';
  /** How many images are pulled at once; Infinity: as many as pods need. */
  readonly pullsAtOnceMax: number;
  /** Infinity: no limit. */
  readonly pullsPerSecond: number;
  readonly pullsBurst: number;
  /** Programs that know logins for registries; undefined: none. */
  readonly credentialProviders: { readonly configuration: string; readonly programs: string } | undefined;
  /** What containers of the process runtime see of the machine, and additional paths. */
  readonly hostFiles: 'none' | 'system' | 'all';
  readonly hostPaths: readonly string[];
  /** What one container can write to its root, /tmp, /run and /dev/shm together. */
  readonly writableLayerBytesMax: number;
  readonly eviction: Thresholds & Pick<EvictionSettings, 'podGraceSecondsMax'> & { readonly transitionMs: number };
  /** By resource, for others than pods. */
  readonly reserved: readonly (readonly [string, Quantity])[];
  readonly imageCollection: ImageCollectorSettings;
  /** How many images the node's status lists; -1: all. */
  readonly imagesMax: number;
  /** Pods above the limits of their ephemeral storage are evicted. */
  readonly localStorageCapacityIsolation: boolean;
  /** What is in a volume is counted this often. */
  readonly volumeStatsMs: number;
  /** Absolute; undefined: in the root directory. */
  readonly logsDirectory: string | undefined;
  /** What a cloud calls this machine; empty: nothing. */
  readonly providerId: string;
  readonly eventsPerSecond: number;
  readonly eventsBurst: number;
  /** Of all processes of one pod; undefined: as the machine allows. */
  readonly podPidsMax: number | undefined;
  /** A machine with control groups of version 1 is refused. */
  readonly failsOnCgroupV1: boolean;
  /** Containers whose pod names no seccomp profile get the runtime's own. */
  readonly seccompDefault: boolean;
  readonly restartBackOffMsMax: number;
  readonly serving: ServingSettings;
}

export class AgentSettingsError extends MountletError {
  readonly reason = 'InvalidSettings';
  constructor(where: string, problems: readonly string[]) {
    super(problems.map((problem) => `${where}: ${problem}`).join('\n'));
  }
}

/** For plain JavaScript, which no compiler checks: directories are absolute paths, ports are integers, the rest are texts. */
export function requireSettings(where: string, given: Readonly<Record<string, unknown>>): void {
  const problems = Object.entries(given).flatMap(([field, value]) => {
    if (field === 'port') return Number.isInteger(value) ? [] : [`${field}: must be an integer`];
    if (typeof value !== 'string') return [`${field}: must be a string`];
    return field.endsWith('Directory') && !value.startsWith('/') ? [`${field}: must be an absolute path`] : [];
  });
  if (problems.length > 0) throw new AgentSettingsError(where, problems);
}

/**
 * Reads the file of `--config`, of this agent or of a kubelet. `where` is its path. `unused` hears what a kubelet's file asks for
 * and this agent does not do.
 */
export function readAgentConfiguration(
  where: string,
  text: string,
  unused: (fields: readonly string[]) => void = () => {},
): AgentConfiguration {
  const [document, ...more] = parseYamlDocuments(text).filter(
    ({ value, problems }) => value !== undefined || problems.length > 0,
  );
  if (document === undefined) return {};
  if (more.length > 0) throw new AgentSettingsError(where, ['there is more than one document in it']);
  if (document.problems.length > 0) {
    const problems = document.problems.map(({ position, message }) => `line ${position.line}: ${message}`);
    throw new AgentSettingsError(where, problems);
  }
  const kubelet = isKubeletConfiguration(document.value)
    ? readKubeletConfiguration(document.value, (path) => resolve(dirname(where), path))
    : undefined;
  if (kubelet !== undefined) {
    if (kubelet.problems.length > 0) throw new AgentSettingsError(where, kubelet.problems);
    if (kubelet.withoutEffect.length > 0) unused(kubelet.withoutEffect);
    return kubelet.settings;
  }
  const { value, problems } = decode(agentConfiguration, document.value);
  const { apiVersion = '', kind = '' } = value;
  const wrongKind =
    apiVersion === agentConfigurationKind.apiVersion && kind === agentConfigurationKind.kind
      ? []
      : [
          `it must have apiVersion: ${agentConfigurationKind.apiVersion} and kind: ${agentConfigurationKind.kind}, or ` +
            `${kubeletConfigurationKind.apiVersion} and ${kubeletConfigurationKind.kind}`,
        ];
  const all = [...problems.map(({ path, message }) => `${showPath(path)}: ${message}`), ...wrongKind];
  if (all.length > 0) throw new AgentSettingsError(where, all);
  return value;
}

function isKubeletConfiguration(document: unknown): boolean {
  const { apiVersion, kind } = (document ?? {}) as { readonly apiVersion?: unknown; readonly kind?: unknown };
  return apiVersion === kubeletConfigurationKind.apiVersion && kind === kubeletConfigurationKind.kind;
}

/** `given` is the file's content with what was said on the command line over it; `machine` is asked for the rest. */
export function agentSettings(
  given: AgentConfiguration,
  machine: {
    readonly nodeName: string;
    readonly rootDirectory: string;
    /** Where logs are with a container runtime; undefined: below the root, as without one. */
    readonly containerLogs?: string | undefined;
  },
): AgentSettings {
  const problems = decode(agentConfiguration, given).problems.map(
    ({ path, message }) => `${showPath(path)}: ${message}`,
  );
  if (problems.length > 0) throw new AgentSettingsError('settings', problems);
  const check = new Checks(problems);
  const { nodeIP = '', staticPodPath = '' } = given;
  const { evictionHard, evictionSoft, evictionSoftGracePeriod, evictionMinimumReclaim } = given;
  const { mergeDefaultEvictionSettings } = given;
  // Who names a container runtime means to use it.
  const runtime = check.among(
    'runtime',
    given.runtime ?? (given.containerRuntimeEndpoint === undefined ? 'process' : 'cri'),
    ['process', 'cri', 'auto'],
  );
  const logsDirectory = given.podLogsDir ?? (runtime === 'cri' ? machine.containerLogs : undefined);
  const settings: AgentSettings = {
    given,
    nodeName: check.name('nodeName', given.nodeName ?? machine.nodeName),
    rootDirectory: check.absolute('rootDir', given.rootDir ?? machine.rootDirectory),
    address: given.address ?? '0.0.0.0',
    port: check.within('port', given.port ?? 10_250, 0, 65_535),
    nodeIp: nodeIP === '' ? undefined : nodeIP,
    nodeLabels: check.labels(given.nodeLabels ?? {}),
    registersNode: given.registerNode ?? true,
    taints: given.registerWithTaints?.map((taint, index) => check.taint(index, taint)),
    podsMax: check.within('maxPods', given.maxPods ?? 110, 1, 100_000),
    allowedUnsafeSysctls: (given.allowedUnsafeSysctls ?? []).map((name) => check.sysctl('allowedUnsafeSysctls', name)),
    manifestsDirectory: staticPodPath === '' ? undefined : check.absolute('staticPodPath', staticPodPath),
    fileCheckMs: check.duration('fileCheckFrequency', given.fileCheckFrequency ?? '20s'),
    syncMs: check.duration('syncFrequency', given.syncFrequency ?? '1m0s'),
    nodeStatusUpdateMs: check.duration('nodeStatusUpdateFrequency', given.nodeStatusUpdateFrequency ?? '10s'),
    nodeStatusReportMs: check.duration('nodeStatusReportFrequency', given.nodeStatusReportFrequency ?? '5m0s'),
    leaseSeconds: check.within('nodeLeaseDurationSeconds', given.nodeLeaseDurationSeconds ?? 40, 1, 86_400),
    strategy: check.among(
      'configMapAndSecretChangeDetectionStrategy',
      given.configMapAndSecretChangeDetectionStrategy ?? 'Watch',
      ['Watch', 'Cache', 'Get'],
    ),
    subPathUpdates: given.subPathUpdates ?? true,
    localPath: given.localPath ?? false,
    controllerAttaches: given.enableControllerAttachDetach ?? true,
    clusterDomain: given.clusterDomain ?? 'cluster.local',
    clusterDns: (given.clusterDNS ?? []).map((address, index) => check.address(`clusterDNS[${index}]`, address)),
    resolvConf: given.resolvConf ?? '/etc/resolv.conf',
    requestsPerSecond: check.within('kubeAPIQPS', given.kubeAPIQPS ?? 50, 1, 100_000),
    requestsBurst: check.within('kubeAPIBurst', given.kubeAPIBurst ?? 100, 1, 100_000),
    logBytesMax: check.logSize('containerLogMaxSize', given.containerLogMaxSize ?? '10Mi'),
    logFilesMax: check.within('containerLogMaxFiles', given.containerLogMaxFiles ?? 5, 2, 1_000),
    runtime,
    containerRuntimeEndpoint: check.endpoint(
      'containerRuntimeEndpoint',
      given.containerRuntimeEndpoint ?? defaultEndpoint,
    ),
    cgroupDriver: check.among('cgroupDriver', given.cgroupDriver ?? 'cgroupfs', ['cgroupfs', 'systemd']),
    pullsAtOnceMax: check.pullsAtOnce(given.serializeImagePulls, given.maxParallelImagePulls),
    pullsPerSecond: check.within('registryPullQPS', given.registryPullQPS ?? 5, 0, 100_000) || Infinity,
    pullsBurst: check.within('registryBurst', given.registryBurst ?? 10, 0, 100_000),
    credentialProviders: check.providers(given.imageCredentialProviderConfig, given.imageCredentialProviderBinDir),
    hostFiles: check.among('hostFiles', given.hostFiles ?? 'system', ['none', 'system', 'all']),
    hostPaths: (given.hostPaths ?? []).map((path) => check.absolute('hostPaths', path)),
    writableLayerBytesMax: check.bytes('containerWritableLayerMax', given.containerWritableLayerMax ?? '256Mi'),
    eviction: {
      ...readThresholds(
        { evictionHard, evictionSoft, evictionSoftGracePeriod, evictionMinimumReclaim, mergeDefaultEvictionSettings },
        problems,
      ),
      transitionMs: check.duration(
        'evictionPressureTransitionPeriod',
        given.evictionPressureTransitionPeriod ?? '5m0s',
      ),
      podGraceSecondsMax: check.within(
        'evictionMaxPodGracePeriod',
        given.evictionMaxPodGracePeriod ?? 0,
        0,
        2 ** 31 - 1,
      ),
    },
    reserved: [...check.reserved('kubeReserved', given), ...check.reserved('systemReserved', given)],
    imageCollection: check.imageCollection(given),
    imagesMax: check.within('nodeStatusMaxImages', given.nodeStatusMaxImages ?? 50, -1, 2 ** 31 - 1),
    localStorageCapacityIsolation: given.localStorageCapacityIsolation ?? true,
    volumeStatsMs: check.duration('volumeStatsAggPeriod', given.volumeStatsAggPeriod ?? '1m0s'),
    logsDirectory: logsDirectory === undefined ? undefined : check.absolute('podLogsDir', logsDirectory),
    providerId: given.providerID ?? '',
    eventsPerSecond: check.within('eventRecordQPS', given.eventRecordQPS ?? 50, 0, 100_000) || Infinity,
    eventsBurst: check.within('eventBurst', given.eventBurst ?? 100, 1, 100_000),
    podPidsMax: (given.podPidsLimit ?? -1) < 1 ? undefined : given.podPidsLimit,
    failsOnCgroupV1: given.failCgroupV1 ?? false,
    seccompDefault: given.seccompDefault ?? false,
    restartBackOffMsMax: check.restartPeriod(given.crashLoopBackOff?.maxContainerRestartPeriod ?? '5m0s'),
    serving: servingSettings(given, check),
  };
  if (problems.length > 0) throw new AgentSettingsError('settings', problems);
  return settings;
}

const reservable: ReadonlySet<string> = new Set(['cpu', 'memory', 'ephemeral-storage', 'pid']);

/** Each returns the value and records what is wrong with it, so that all problems are reported together. */
class Checks {
  readonly #problems: string[];

  constructor(problems: string[]) {
    this.#problems = problems;
  }

  name(field: string, value: string): string {
    for (const problem of dnsSubdomainProblems(value)) this.refuse(field, value, problem);
    return value;
  }

  /** In the kubelet's words: an API server would refuse a Node with them again and again. */
  labels(labels: Readonly<Record<string, string>>): Readonly<Record<string, string>> {
    const reserved = Object.keys(labels).filter(isReservedNodeLabel).sort();
    const allowed = `must begin with an allowed prefix (${ownNodeDomains.join(', ')}) or be in the specifically allowed set (${ownNodeLabels.toSorted().join(', ')})`;
    if (reserved.length > 0) {
      this.#problems.push(
        `unknown 'kubernetes.io' or 'k8s.io' labels specified with --node-labels: [${reserved.join(' ')}]\n` +
          `--node-labels in the 'kubernetes.io' namespace ${allowed}`,
      );
    }
    const invalid = Object.entries(labels).flatMap(([key, value]) =>
      [[key, qualifiedNameProblems(key)] as const, [value, labelValueProblems(value)] as const].flatMap(
        ([text, problems]) => (problems.length === 0 ? [] : [`'${text}' - ${problems.join(', ')}`]),
      ),
    );
    if (invalid.length > 0) this.#problems.push(`invalid node labels: ${invalid.join('; ')}`);
    return labels;
  }

  address(field: string, value: string): string {
    if (isIP(value) === 0) this.refuse(field, value, 'must be an IP address');
    return value;
  }

  absolute(field: string, value: string): string {
    if (!value.startsWith('/')) this.refuse(field, value, 'must be an absolute path');
    return value;
  }

  endpoint(field: string, value: string): string {
    if (!value.startsWith('unix:///')) this.refuse(field, value, `must be a socket, such as ${defaultEndpoint}`);
    return value;
  }

  within(field: string, value: number, least: number, most: number): number {
    if (value < least || value > most) this.refuse(field, value, `must be between ${least} and ${most}`);
    return value;
  }

  duration(field: string, value: string): number {
    const ms = parseDurationMs(value) ?? -1;
    if (ms <= 0) this.refuse(field, value, 'must be a duration above zero, such as 1m0s');
    return ms;
  }

  imageCollection(given: AgentConfiguration): ImageCollectorSettings {
    const { imageGCHighThresholdPercent: high = 85, imageGCLowThresholdPercent: low = 80 } = given;
    this.within('imageGCHighThresholdPercent', high, 0, 100);
    this.within('imageGCLowThresholdPercent', low, 0, 100);
    if (low >= high)
      this.refuse('imageGCLowThresholdPercent', low, `must be less than imageGCHighThresholdPercent ${high}`);
    const ageMsMin = this.age('imageMinimumGCAge', given.imageMinimumGCAge ?? '2m0s');
    const unusedMsMax = this.age('imageMaximumGCAge', given.imageMaximumGCAge ?? '0s');
    if (unusedMsMax > 0 && unusedMsMax <= ageMsMin)
      this.refuse('imageMaximumGCAge', given.imageMaximumGCAge ?? '', 'must be greater than imageMinimumGCAge');
    return { highPercent: high, lowPercent: low, ageMsMin, unusedMsMax };
  }

  reserved(
    field: 'kubeReserved' | 'systemReserved',
    given: AgentConfiguration,
  ): readonly (readonly [string, Quantity])[] {
    return Object.entries(given[field] ?? {}).flatMap(([resource, value]) => {
      const problem = reservable.has(resource) ? quantityProblem(value) : 'cannot be reserved';
      const quantity = problem === undefined ? Quantity.parse(value) : undefined;
      if (quantity === undefined || quantity.sign() < 0)
        this.refuse(`${field}.${resource}`, value, problem ?? 'cannot be negative');
      return quantity === undefined ? [] : [[resource, quantity] as const];
    });
  }

  age(field: string, value: string): number {
    const ms = parseDurationMs(value) ?? -1;
    if (ms < 0) this.refuse(field, value, 'must be a duration that is not negative, such as 2m0s');
    return ms;
  }

  restartPeriod(value: string): number {
    const field = 'crashLoopBackOff.maxContainerRestartPeriod';
    const ms = this.duration(field, value);
    if (ms < 1_000 || ms > 300_000) this.refuse(field, value, 'must be between 1s and 300s');
    return ms;
  }

  bytes(field: string, value: string): number {
    const bytes = quantityProblem(value) === undefined ? Number(Quantity.parse(value).value()) : 0;
    if (bytes <= 0) this.refuse(field, value, 'must be a quantity above zero, such as 10Mi');
    return bytes;
  }

  /** As for the kubelet, a size below zero is none. */
  logSize(field: string, value: string): number {
    const isEndless = quantityProblem(value) === undefined && Quantity.parse(value).value() < 0;
    return isEndless ? Number.MAX_SAFE_INTEGER : this.bytes(field, value);
  }

  /** One after another, unless a number above one or `serializeImagePulls: false` is given. */
  pullsAtOnce(serial: boolean | undefined, given: number | undefined): number {
    const max = given === undefined ? undefined : this.within('maxParallelImagePulls', given, 1, 100_000);
    const isSerial = serial ?? (max ?? 1) <= 1;
    if (isSerial && max !== undefined && max > 1)
      this.refuse('maxParallelImagePulls', max, 'cannot be larger than 1 unless serializeImagePulls is false');
    return isSerial ? 1 : (max ?? Infinity);
  }

  providers(configuration = '', programs = ''): AgentSettings['credentialProviders'] {
    if (configuration === '' && programs === '') return undefined;
    if (configuration === '')
      this.refuse('imageCredentialProviderBinDir', programs, 'needs imageCredentialProviderConfig');
    else if (programs === '')
      this.refuse('imageCredentialProviderConfig', configuration, 'needs imageCredentialProviderBinDir');
    else {
      this.absolute('imageCredentialProviderConfig', configuration);
      this.absolute('imageCredentialProviderBinDir', programs);
    }
    return { configuration, programs };
  }

  among<T extends string>(field: string, value: string, known: readonly T[]): T {
    const found = known.find((one) => one === value);
    if (found === undefined) this.refuse(field, value, `must be one of ${known.join(', ')}`);
    return found ?? (value as T);
  }

  sysctl(field: string, value: string): string {
    const isNamespaced = /^(kernel\.(sem|shm[\w*]*|msg[\w*]*)|(fs\.mqueue|net)\.[\w.*-]+)$/.test(value);
    if (!isNamespaced) this.refuse(field, value, 'is not known to be namespaced');
    return value;
  }

  taint(index: number, { key = '', value = '', effect = '' }: Partial<Taint>): Taint {
    const at = `registerWithTaints[${index}]`;
    if (key === '') this.refuse(`${at}.key`, key, 'is missing');
    this.among(`${at}.effect`, effect, ['NoSchedule', 'PreferNoSchedule', 'NoExecute']);
    return { key, value, effect };
  }

  refuse(field: string, value: string | number, problem: string): void {
    this.#problems.push(`${field}: ${JSON.stringify(value)} ${problem}`);
  }
}
