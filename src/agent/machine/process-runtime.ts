/** The default runtime of a node: containers are processes of this machine, which see nothing that holds the program's secrets. */
import { dirname, join, resolve } from 'node:path';
import type { Clock } from '../../base/clock.ts';
import { inClusterDirectory } from '../../client/credentials/cluster-access.ts';
import { openProcessRuntime } from '../../runtimes/process/machine.ts';
import { type PodProblem, defaultProcessRuntimeSettings } from '../../runtimes/process/process-runtime.ts';
import type { Runtime } from '../../runtimes/runtime.ts';

/** What a node gives to the runtime that it opens. */
export interface RuntimeParts {
  /** The node's root directory, absolute and without symbolic links. This node alone uses it while the runtime is open. */
  readonly root: string;
  /** Files and directories that no container may see. They may be missing: what is not there now may come. */
  readonly hidden: readonly string[];
  readonly settings: ContainerSettings;
  /** Where the node's API server is; undefined without one. */
  readonly server: URL | undefined;
  readonly clock: Clock;
  readonly report: (problem: PodProblem) => void;
  /** When the node ends, so do all pods. */
  readonly drains: boolean;
  readonly notify: (notice: RuntimeNotice) => void;
  /** What is to be done when the runtime that was opened has been closed. */
  readonly afterClose: (act: () => Promise<void>) => void;
  /** Aborts when the node ends; what the runtime does after that is its own affair. */
  readonly signal: AbortSignal;
}

export interface RuntimeNotice {
  /** Which one was taken where the node may take any, or what it cannot do on this machine. */
  readonly kind: 'RuntimeChosen' | 'RuntimeLimited';
  readonly message: string;
}

interface ContainerSettings {
  readonly runtime: 'process' | 'cri' | 'auto';
  readonly containerRuntimeEndpoint: string;
  readonly cgroupDriver: 'cgroupfs' | 'systemd';
  readonly podPidsMax: number | undefined;
  readonly logsDirectory: string | undefined;
  readonly logBytesMax: number;
  readonly logFilesMax: number;
  readonly hostFiles: 'none' | 'system' | 'all';
  readonly hostPaths: readonly string[];
  readonly writableLayerBytesMax: number;
}

/** A runtime that a node has opened, and closes when it has ended. */
export interface OpenedRuntime extends Runtime {
  close(): Promise<void>;
}

export type OpenRuntime = (parts: RuntimeParts) => Promise<OpenedRuntime>;

export const processRuntime: OpenRuntime = ({ root, hidden, settings, server, clock, report }) =>
  openProcessRuntime(
    {
      ...defaultProcessRuntimeSettings,
      stateDirectory: join(root, 'runtime'),
      hidden,
      logSizeBytesMax: settings.logBytesMax,
      logFilesMax: settings.logFilesMax,
      hostFiles: settings.hostFiles,
      hostPaths: settings.hostPaths,
      writableBytesMax: settings.writableLayerBytesMax,
      machinePorts: loopbackPorts(server),
    },
    { clock, report },
  );

/** A server on the loopback address, which pods with a network of their own do not share. */
function loopbackPorts(server: URL | undefined): readonly number[] {
  if (server === undefined || !/^(127\.|localhost$)/.test(server.hostname)) return [];
  return [server.port === '' ? 443 : Number(server.port)];
}

interface SecretSources {
  /** Directories that commands of this program keep keys, tokens and Secrets in. */
  readonly stateDirectories: readonly string[];
  /** A folder, or a single file, with Secrets in clear. */
  readonly manifests: string | undefined;
  /** Kubeconfigs, and the keys, certificates and tokens that they name. */
  readonly clusterFiles: readonly string[];
}

/** Where this machine keeps what the program reads secrets from: absolute paths, none below another. */
export function secretPaths(
  { stateDirectories, manifests, clusterFiles }: SecretSources,
  exists: (path: string) => boolean,
): readonly string[] {
  const paths = [
    ...stateDirectories,
    ...(manifests === undefined ? [] : [manifests]),
    ...clusterFiles,
    ...clusterFiles.map((file) => dirname(file)).filter((directory) => isServerDirectory(directory, exists)),
    inClusterDirectory,
  ];
  // Nothing can be put over the root itself; a container without it would have no program to run.
  const unique = [...new Set(paths.map((path) => resolve(path)))].filter((path) => path !== '/');
  return unique.filter((path) => !unique.some((other) => path.startsWith(`${other}/`)));
}

/** An API server of this program leaves the admin's kubeconfig beside its keys and objects, `up` beside the server's directory. */
function isServerDirectory(directory: string, exists: (path: string) => boolean): boolean {
  return ['pki', 'api/pki'].some((keys) => exists(join(directory, keys)));
}
