/** `mountlet agent`: the node alone, against any API server, until told to stop. */
import { readFileSync } from 'node:fs';
import { hostname } from 'node:os';
import { join, resolve } from 'node:path';
import { startAgent } from '../agent/agent.ts';
import type { AgentConfiguration, AgentSettings } from '../agent/agent-settings.ts';
import { AgentSettingsError, agentSettings, readAgentConfiguration } from '../agent/agent-settings.ts';
import { messageOf } from '../base/errors.ts';
import type { ClusterAccess } from '../client/cluster-access.ts';
import { clusterAccess } from '../client/cluster-access.ts';
import type { SandboxOptions } from './arguments.ts';
import type { ClusterOptions } from './cluster-client.ts';
import { accessDeps } from './cluster-client.ts';
import { defaultStateDirectory, secretDirectories } from './default-directories.ts';
import type { LogFormat } from './node-log-printer.ts';
import type { LogLevel } from '../agent/node/notices.ts';
import { logPrinter, noticePrinter } from './node-log-printer.ts';
import { tell, telling } from './talk.ts';
import { untilSignal } from './until-signal.ts';

export interface AgentOptions extends ClusterOptions, SandboxOptions {
  readonly inCluster?: boolean;
  readonly config?: string;
  readonly nodeName?: string;
  readonly rootDir?: string;
  readonly nodeIp?: string;
  readonly nodeLabels?: Readonly<Record<string, string>>;
  readonly manifests?: string;
  readonly syncFrequency?: string;
  readonly changeDetection?: string;
  readonly watchScope?: string;
  readonly port?: number;
  readonly address?: string;
  readonly drain?: boolean;
  readonly subpathUpdates?: boolean;
  readonly logFormat: LogFormat;
  readonly logLevel: LogLevel;
}

export function agentCommand(options: AgentOptions): Promise<number> {
  return telling(async () => {
    const settings = settingsOf(options, join(defaultStateDirectory(), 'agent'));
    const print = logPrinter(options.logFormat, options.logLevel);
    const stop = new AbortController();
    const stopped = untilSignal().then(() => stop.abort());
    const cluster = await clusterOrNone(options, settings);
    const node = await startAgent(
      settings,
      {
        cluster,
        runtimeDirectory: process.env['XDG_RUNTIME_DIR'],
        uid: process.geteuid?.() ?? 0,
        drains: options.drain ?? false,
        hidden: secretDirectories(),
        notify: noticePrinter(print),
      },
      stop.signal,
    );
    const whose = cluster === undefined ? 'without an API server' : `of ${cluster.endpoint.url.origin}`;
    process.stdout.write(
      `node ${settings.nodeName} ${whose} is running; volumes are below ${settings.rootDirectory}/pods\n`,
    );
    try {
      await Promise.race([node.ended, stopped]);
    } finally {
      stop.abort();
      await Promise.allSettled([node.ended]);
      await node.close();
      await node.ended;
    }
  });
}

/** What is said on the command line goes before what the file says. */
export function settingsOf(
  options: Partial<AgentOptions>,
  rootDirectory: string,
  defaults: AgentConfiguration = {},
): AgentSettings {
  const { config } = options;
  const file = config === undefined ? {} : readAgentConfiguration(config, readSettings(config));
  const said = {
    nodeName: options.nodeName,
    rootDir: options.rootDir === undefined ? undefined : resolve(options.rootDir),
    nodeIP: options.nodeIp,
    nodeLabels: options.nodeLabels,
    staticPodPath: options.manifests === undefined ? undefined : resolve(options.manifests),
    syncFrequency: options.syncFrequency,
    configMapAndSecretChangeDetectionStrategy: options.changeDetection,
    watchScope: options.watchScope,
    port: options.port,
    address: options.address,
    subPathUpdates: options.subpathUpdates,
    hostFiles: options.hostFiles,
    hostPaths: options.hostPath?.map((path) => resolve(path)),
    containerWritableLayerMax: options.writableLayer,
  };
  const given = Object.fromEntries(Object.entries(said).filter(([, value]) => value !== undefined));
  return agentSettings({ ...defaults, ...file, ...given }, { nodeName: hostname().toLowerCase(), rootDirectory });
}

function readSettings(path: string): string {
  try {
    return readFileSync(path, 'utf8');
  } catch (error) {
    throw new AgentSettingsError(path, [`cannot read it: ${messageOf(error)}`]);
  }
}

/** A node with a folder of manifests joins a cluster only when asked to: whoever exports KUBECONFIG for kubectl did not. */
async function clusterOrNone(
  { kubeconfig, context, inCluster = false }: AgentOptions,
  { manifestsDirectory }: AgentSettings,
): Promise<ClusterAccess | undefined> {
  const isAsked = kubeconfig !== undefined || context !== undefined || inCluster;
  if (manifestsDirectory === undefined || isAsked)
    return await clusterAccess({ kubeconfig, context, inCluster }, accessDeps());
  if (process.env['KUBECONFIG'] !== undefined)
    tell('note', 'KUBECONFIG is not used beside a folder of manifests: give --kubeconfig to join its cluster');
  return undefined;
}
