/**
 * The settings of a node agent: checked and defaulted here, once; further in none of them is optional. Names and defaults are
 * the kubelet's where it has them, so that what operators know of one holds for the other.
 */
import { MountletError } from '../../base/errors.ts';
import { parseYamlDocuments } from '../../kube/manifests/yaml-documents.ts';
import { showPath } from '../../kube/schema/field-errors.ts';
import { type Of, boolean, decode, integer, list, map, object, string } from '../../kube/schema/schema.ts';
import { dnsSubdomainProblems } from '../../kube/values/names.ts';
import { Quantity, quantityProblem } from '../../kube/values/quantity.ts';
import { parseDurationMs } from '../../kube/values/times.ts';

const agentConfigurationKind = { apiVersion: 'mountlet.dev/v1alpha1', kind: 'AgentConfiguration' } as const;

/** The file of `--config`. */
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
  enableControllerAttachDetach: boolean,
  clusterDomain: string,
  kubeAPIQPS: integer,
  kubeAPIBurst: integer,
  containerLogMaxSize: string,
  containerLogMaxFiles: integer,
  hostFiles: string,
  hostPaths: list(string),
  containerWritableLayerMax: string,
});
export type AgentConfiguration = Of<typeof agentConfiguration>;

interface Taint {
  readonly key: string;
  readonly value: string;
  readonly effect: string;
}

export interface AgentSettings {
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
  readonly taints: readonly Taint[];
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
  readonly controllerAttaches: boolean;
  readonly clusterDomain: string;
  readonly requestsPerSecond: number;
  readonly requestsBurst: number;
  readonly logBytesMax: number;
  readonly logFilesMax: number;
  /** What containers of the process runtime see of the machine, and additional paths. */
  readonly hostFiles: 'none' | 'system' | 'all';
  readonly hostPaths: readonly string[];
  /** What one container can write to its root, /tmp, /run and /dev/shm together. */
  readonly writableLayerBytesMax: number;
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

/** Reads the file of `--config`. `where` names it in messages. */
export function readAgentConfiguration(where: string, text: string): AgentConfiguration {
  const [document, ...more] = parseYamlDocuments(text).filter(
    ({ value, problems }) => value !== undefined || problems.length > 0,
  );
  if (document === undefined) return {};
  if (more.length > 0) throw new AgentSettingsError(where, ['there is more than one document in it']);
  if (document.problems.length > 0) {
    const problems = document.problems.map(({ position, message }) => `line ${position.line}: ${message}`);
    throw new AgentSettingsError(where, problems);
  }
  const { value, problems } = decode(agentConfiguration, document.value);
  const { apiVersion = '', kind = '' } = value;
  const wrongKind =
    apiVersion === agentConfigurationKind.apiVersion && kind === agentConfigurationKind.kind
      ? []
      : [`it must have apiVersion: ${agentConfigurationKind.apiVersion} and kind: ${agentConfigurationKind.kind}`];
  const all = [...problems.map(({ path, message }) => `${showPath(path)}: ${message}`), ...wrongKind];
  if (all.length > 0) throw new AgentSettingsError(where, all);
  return value;
}

/** `given` is the file's content with what was said on the command line over it; `machine` is asked for the rest. */
export function agentSettings(
  given: AgentConfiguration,
  machine: { readonly nodeName: string; readonly rootDirectory: string },
): AgentSettings {
  const problems = decode(agentConfiguration, given).problems.map(
    ({ path, message }) => `${showPath(path)}: ${message}`,
  );
  if (problems.length > 0) throw new AgentSettingsError('settings', problems);
  const check = new Checks(problems);
  const { nodeIP = '', staticPodPath = '' } = given;
  const settings: AgentSettings = {
    nodeName: check.name('nodeName', given.nodeName ?? machine.nodeName),
    rootDirectory: check.absolute('rootDir', given.rootDir ?? machine.rootDirectory),
    address: given.address ?? '0.0.0.0',
    port: check.within('port', given.port ?? 10_250, 0, 65_535),
    nodeIp: nodeIP === '' ? undefined : nodeIP,
    nodeLabels: given.nodeLabels ?? {},
    registersNode: given.registerNode ?? true,
    taints: (given.registerWithTaints ?? []).map((taint, index) => check.taint(index, taint)),
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
    controllerAttaches: given.enableControllerAttachDetach ?? true,
    clusterDomain: given.clusterDomain ?? 'cluster.local',
    requestsPerSecond: check.within('kubeAPIQPS', given.kubeAPIQPS ?? 50, 1, 100_000),
    requestsBurst: check.within('kubeAPIBurst', given.kubeAPIBurst ?? 100, 1, 100_000),
    logBytesMax: check.bytes('containerLogMaxSize', given.containerLogMaxSize ?? '10Mi'),
    logFilesMax: check.within('containerLogMaxFiles', given.containerLogMaxFiles ?? 5, 2, 1_000),
    hostFiles: check.among('hostFiles', given.hostFiles ?? 'system', ['none', 'system', 'all']),
    hostPaths: (given.hostPaths ?? []).map((path) => check.absolute('hostPaths', path)),
    writableLayerBytesMax: check.bytes('containerWritableLayerMax', given.containerWritableLayerMax ?? '256Mi'),
  };
  if (problems.length > 0) throw new AgentSettingsError('settings', problems);
  return settings;
}

/** Each returns the value and records what is wrong with it, so that all problems are reported together. */
class Checks {
  readonly #problems: string[];

  constructor(problems: string[]) {
    this.#problems = problems;
  }

  name(field: string, value: string): string {
    for (const problem of dnsSubdomainProblems(value)) this.#report(field, value, problem);
    return value;
  }

  absolute(field: string, value: string): string {
    if (!value.startsWith('/')) this.#report(field, value, 'must be an absolute path');
    return value;
  }

  within(field: string, value: number, least: number, most: number): number {
    if (value < least || value > most) this.#report(field, value, `must be between ${least} and ${most}`);
    return value;
  }

  duration(field: string, value: string): number {
    const ms = parseDurationMs(value) ?? -1;
    if (ms <= 0) this.#report(field, value, 'must be a duration above zero, such as 1m0s');
    return ms;
  }

  bytes(field: string, value: string): number {
    const bytes = quantityProblem(value) === undefined ? Number(Quantity.parse(value).value()) : 0;
    if (bytes <= 0) this.#report(field, value, 'must be a quantity above zero, such as 10Mi');
    return bytes;
  }

  among<T extends string>(field: string, value: string, known: readonly T[]): T {
    const found = known.find((one) => one === value);
    if (found === undefined) this.#report(field, value, `must be one of ${known.join(', ')}`);
    return found ?? (value as T);
  }

  sysctl(field: string, value: string): string {
    const isNamespaced = /^(kernel\.(sem|shm[\w*]*|msg[\w*]*)|(fs\.mqueue|net)\.[\w.*-]+)$/.test(value);
    if (!isNamespaced) this.#report(field, value, 'is not known to be namespaced');
    return value;
  }

  taint(index: number, { key = '', value = '', effect = '' }: Partial<Taint>): Taint {
    const at = `registerWithTaints[${index}]`;
    if (key === '') this.#report(`${at}.key`, key, 'is missing');
    this.among(`${at}.effect`, effect, ['NoSchedule', 'PreferNoSchedule', 'NoExecute']);
    return { key, value, effect };
  }

  #report(field: string, value: string | number, problem: string): void {
    this.#problems.push(`${field}: ${JSON.stringify(value)} ${problem}`);
  }
}
