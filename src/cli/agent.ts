/** `mountlet agent`: the node alone, against any API server, until a signal ends it. */
import { readFileSync } from 'node:fs';
import { hostname } from 'node:os';
import { join, resolve } from 'node:path';
import { diagnose } from '../agent/machine/doctor.ts';
import {
  type AgentConfiguration,
  type AgentSettings,
  AgentSettingsError,
  agentSettings,
  defaultEndpoint,
  readAgentConfiguration,
} from '../agent/node/agent-settings.ts';
import { startAgent } from '../agent/node/node.ts';
import type { LogLevel } from '../agent/node/notices.ts';
import { errorCode, messageOf } from '../base/errors.ts';
import { type ClusterAccess, clusterAccess } from '../client/credentials/cluster-access.ts';
import { type ClusterOptions, machineAccess } from './cluster-client.ts';
import { logPrinter, notePrinter, noticePrinter, statePrinter } from './log-printer.ts';
import { type SandboxOptions, defaultStateDirectory, secretDirectories } from './options.ts';
import { showJson } from './rendered-list.ts';
import { type LogFormat, colorsFor, exitCode, showText, reportingErrors, untilSignal } from './terminal.ts';

export interface AgentOptions extends ClusterOptions, SandboxOptions {
  readonly inCluster?: boolean;
  readonly config?: string;
  readonly nodeName?: string;
  readonly rootDir?: string;
  readonly nodeIp?: string;
  readonly nodeLabels?: Readonly<Record<string, string>>;
  readonly registerWithTaints?: AgentConfiguration['registerWithTaints'];
  readonly manifests?: string;
  readonly syncFrequency?: string;
  readonly changeDetection?: string;
  readonly port?: number;
  readonly address?: string;
  readonly drain?: boolean;
  readonly subpathUpdates?: boolean;
  readonly localPath?: boolean;
  readonly imageCredentialProviderConfig?: string;
  readonly imageCredentialProviderBinDir?: string;
  readonly logFormat: LogFormat;
  readonly logLevel: LogLevel;
}

export function agentCommand(options: AgentOptions): Promise<number> {
  return reportingErrors(async () => {
    const print = logPrinter(options.logFormat, options.logLevel);
    const note = notePrinter(options.logFormat, print);
    const machine = { rootDirectory: join(defaultStateDirectory(), 'agent'), containerLogs: '/var/log/pods' };
    const wanted = settingsOf(options, machine, {}, note);
    const stop = new AbortController();
    const tell = statePrinter(options.logFormat);
    const stopped = stopAtSignal(stop, options.drain, tell);
    const cluster = await clusterOrNone(options, wanted, note);
    // Without a cluster there is nobody to serve beyond this machine, and nobody who could say who a client is.
    const settings = cluster === undefined ? settingsOf(options, machine, { address: '127.0.0.1' }, () => {}) : wanted;
    const node = await startAgent(
      settings,
      {
        cluster,
        runtimeDirectory: process.env['XDG_RUNTIME_DIR'],
        uid: process.geteuid?.() ?? 0,
        environment: process.env,
        drains: options.drain ?? false,
        hidden: secretDirectories(),
        notify: noticePrinter(print),
      },
      stop.signal,
    );
    const whose = cluster === undefined ? 'without an API server' : `of ${cluster.endpoint.url.origin}`;
    const where = `volumes are below ${settings.rootDirectory}/pods`;
    tell('NodeRunning', `node ${settings.nodeName} ${whose} is running; ${where}`);
    try {
      await Promise.race([node.ended, stopped]);
    } finally {
      stop.abort();
      await Promise.allSettled([node.ended]);
      await node.close();
      await node.ended;
      tellStopped(tell, options.drain);
    }
  }, options.logFormat);
}

/** Says at once that pods are being ended: they may take the whole of their grace periods. */
export async function stopAtSignal(
  stop: AbortController,
  drains: boolean | undefined,
  tell: (kind: string, message: string) => void,
): Promise<void> {
  await untilSignal();
  stop.abort();
  if (drains !== true) return;
  tell('NodeDraining', 'ending all pods, each within its grace period; Ctrl-C again leaves what is left running');
}

export function tellStopped(tell: (kind: string, message: string) => void, drains = false): void {
  const pods = drains ? 'all pods have ended' : 'pods keep running, and the next start adopts them';
  tell('NodeStopped', `stopped; ${pods}`);
}

/** The command line takes precedence over the file. */
export function settingsOf(
  options: Partial<AgentOptions>,
  machine: { readonly rootDirectory: string; readonly containerLogs?: string },
  defaults: AgentConfiguration,
  note: (text: string) => void,
): AgentSettings {
  const { config } = options;
  const file =
    config === undefined
      ? {}
      : readAgentConfiguration(config, readSettings(config), (fields) => noteUnused(config, fields, note));
  const said = {
    nodeName: options.nodeName,
    rootDir: absolute(options.rootDir),
    nodeIP: options.nodeIp,
    nodeLabels: options.nodeLabels,
    registerWithTaints: options.registerWithTaints,
    staticPodPath: absolute(options.manifests),
    syncFrequency: options.syncFrequency,
    configMapAndSecretChangeDetectionStrategy: options.changeDetection,
    port: options.port,
    address: options.address,
    subPathUpdates: options.subpathUpdates,
    localPath: options.localPath,
    runtime: options.runtime,
    containerRuntimeEndpoint: options.containerRuntimeEndpoint,
    hostFiles: options.hostFiles,
    hostPaths: options.hostPath?.map((path) => resolve(path)),
    containerWritableLayerMax: options.writableLayer,
    imageCredentialProviderConfig: absolute(options.imageCredentialProviderConfig),
    imageCredentialProviderBinDir: absolute(options.imageCredentialProviderBinDir),
  };
  const given = Object.fromEntries(Object.entries(said).filter(([, value]) => value !== undefined));
  return agentSettings({ ...defaults, ...file, ...given }, { nodeName: hostname().toLowerCase(), ...machine });
}

function noteUnused(file: string, fields: readonly string[], note: (text: string) => void): void {
  note(`${file} has settings without effect here:\n${fields.map((field) => `  ${field}`).join('\n')}`);
}

function absolute(path: string | undefined): string | undefined {
  return path === undefined ? undefined : resolve(path);
}

function readSettings(path: string): string {
  try {
    return readFileSync(path, 'utf8');
  } catch (error) {
    const isMissing = errorCode(error) === 'ENOENT';
    throw new AgentSettingsError(path, [isMissing ? 'there is no such file' : `cannot read it: ${messageOf(error)}`]);
  }
}

/** A node with a folder of manifests joins a cluster only on request: KUBECONFIG may be set for kubectl alone. */
async function clusterOrNone(
  { kubeconfig, context, inCluster = false }: AgentOptions,
  { manifestsDirectory }: AgentSettings,
  note: (text: string) => void,
): Promise<ClusterAccess | undefined> {
  const isAsked = kubeconfig !== undefined || context !== undefined || inCluster;
  if (manifestsDirectory === undefined || isAsked)
    return await clusterAccess({ kubeconfig, context, inCluster }, machineAccess());
  if (process.env['KUBECONFIG'] !== undefined)
    note('KUBECONFIG is not used beside a folder of manifests: give --kubeconfig to join its cluster');
  return undefined;
}

/** `mountlet doctor`: what this machine can and cannot do, and what that means. */
export interface DoctorOptions {
  readonly output?: 'json';
  readonly containerRuntimeEndpoint?: string;
}

/** Fails where no pod can run, so that scripts can ask. */
export function doctorCommand({ output, containerRuntimeEndpoint = defaultEndpoint }: DoctorOptions): Promise<number> {
  return reportingErrors(async () => {
    const diagnosis = await diagnose(containerRuntimeEndpoint, process.env['PATH'] ?? '');
    const { findings, limitations, isUsable } = diagnosis;
    const done = isUsable ? exitCode.done : exitCode.failed;
    if (output === 'json') {
      process.stdout.write(`${showJson(diagnosis)}\n`);
      return done;
    }
    const colors = colorsFor(process.stdout);
    const width = Math.max(...findings.map(({ name }) => name.length));
    for (const { name, available, consequence, cure } of findings) {
      const mark = available ? colors.green('yes') : colors.yellow('no ');
      process.stdout.write(`${mark}  ${name.padEnd(width)}  ${showText(consequence)}\n`);
      if (cure !== undefined && !available) process.stdout.write(`${' '.repeat(width + 7)}${showText(cure)}\n`);
    }
    process.stdout.write('\nWhat pods do not have here with --runtime process:\n');
    for (const text of limitations) process.stdout.write(`  - ${text}\n`);
    return done;
  });
}
