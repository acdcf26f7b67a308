/** A cluster of one machine: the API server and a node in one process, the node a client like any other, but without a network between them. */
import { join } from 'node:path';
import type { Notify } from '../../apiserver/model/notices.ts';
import { systemClock } from '../../base/clock.ts';
import { type ApiClient, apiClientDefaults, connectApiClient } from '../../client/api/api-client.ts';
import { NotFoundError } from '../../client/api/api-errors.ts';
import { nodes } from '../../client/api/resource-reference.ts';
import { DiscoveredResources } from '../../client/discovery.ts';
import { poolDefaults } from '../../client/transport/connection-pool.ts';
import { runLocalPath } from '../../controllers/storage/local-path.ts';
import { csiControllers } from '../../csi/controller/csi-controllers.ts';
import { makeDirectories } from '../../disk/paths/directories.ts';
import type { ManifestFile } from '../../kube/manifests/manifests.ts';
import type { Node } from '../../kube/kinds/node.ts';
import { localDirectories } from '../machine/local-directories.ts';
import { thisMachine } from '../machine/machine-facts.ts';
import { type AgentSettings, requireSettings } from '../node/agent-settings.ts';
import { type NodeDeps, type RunningNode, nodeDefaults, startNode } from '../node/node.ts';
import { type AppliedObject, applyManifests } from './apply-manifests.ts';
import { startEmbeddedApiServer } from './embedded-api-server.ts';

export interface UpSettings {
  /** Absolute. */
  readonly stateDirectory: string;
  readonly host: string;
  readonly port: number;
  readonly node: AgentSettings;
  /** Names of the loops that run beside what an API server does itself; absent: all. */
  readonly loops?: ReadonlySet<string>;
  /** Sockets of CSI drivers whose controller side runs here; absolute paths. */
  readonly csiControllers?: readonly string[];
  readonly disablesForceDetachOnTimeout?: boolean;
  /** Certificates of nodes other than this one are not verified. */
  readonly kubeletInsecure?: boolean;
}

/** What is absent is as in `nodeDefaults`. */
export interface UpDeps extends Partial<Omit<NodeDeps, 'cluster' | 'serving' | 'isOwnServer' | 'serviceAccess'>> {
  /** The notices of the API server. */
  readonly notifyServer?: Notify;
}

export interface RunningMachine {
  readonly url: string;
  readonly kubeconfig: string;
  readonly node: RunningNode;
  /** Objects that are wrong are refused before any is sent. */
  apply(files: readonly ManifestFile[], signal: AbortSignal): AsyncIterable<AppliedObject>;
  close(): Promise<void>;
}

/** Runs until the signal aborts; then `node.ended` resolves, and `close` ends the server. */
export async function startUp(settings: UpSettings, deps: UpDeps, signal: AbortSignal): Promise<RunningMachine> {
  const { stateDirectory, host, port } = settings;
  requireSettings('startUp', { stateDirectory, host, port });
  makeDirectories(stateDirectory);
  // Not the caller's signal: the node reports to the server until it has ended.
  const serving = new AbortController();
  let node: RunningNode | undefined;
  const server = await startEmbeddedApiServer(
    {
      directory: join(stateDirectory, 'api'),
      host,
      port,
      kubeconfig: join(stateDirectory, 'kubeconfig'),
      ...(settings.loops && { loops: settings.loops }),
      kubeletInsecure: settings.kubeletInsecure === true,
      disablesForceDetachOnTimeout: settings.disablesForceDetachOnTimeout === true,
      servicesProblem: () => node?.servicesProblem,
      provisioners: [
        runLocalPath({
          nodeName: settings.node.nodeName,
          directories: localDirectories(join(settings.node.rootDirectory, 'local-path')),
        }),
        csiControllers(settings.csiControllers ?? [], deps.notify ?? nodeDefaults.notify),
      ],
    },
    deps.notifyServer ?? (() => {}),
    serving.signal,
  );
  try {
    const { nodeName, rootDirectory } = settings.node;
    makeDirectories(rootDirectory);
    const addresses = thisMachine(nodeName, rootDirectory).status?.addresses ?? [];
    const hosts = [...new Set([...addresses.map(({ address }) => address), 'localhost', '127.0.0.1'])];
    const started = await startNode(
      // The server's own loop makes such volumes.
      { ...settings.node, localPath: false },
      {
        ...nodeDefaults,
        ...deps,
        ...server.issueNode(nodeName, hosts),
        isOwnServer: true,
        serviceAccess: server.issueProxy(),
        hidden: [stateDirectory, ...(deps.hidden ?? [])],
      },
      signal,
    );
    node = started;
    const admin = connectApiClient(server.admin, systemClock, apiClientDefaults, poolDefaults);
    return {
      url: server.url,
      kubeconfig: server.kubeconfig,
      node: started,
      async *apply(files, ended) {
        // Where no loop looks after nodes the taint stays.
        if (settings.node.registersNode && settings.loops?.has('node-lifecycle-controller') !== false) {
          await untilNodeTakesPods(admin, nodeName, ended);
        }
        yield* applyManifests(files, 'default', admin, await DiscoveredResources.ask(admin, ended), ended);
      },
      async close() {
        await started.close();
        await admin.close();
        await server.close();
      },
    };
  } catch (error) {
    await server.close();
    throw error;
  }
}

/** One that cannot get ready keeps its taint. */
const takesPodsMsMax = 10_000;
const lookAgainMs = 20;

/** The first thing a user reads of a first pod should not be that there was no node for it yet. */
async function untilNodeTakesPods(client: Pick<ApiClient, 'get'>, name: string, signal: AbortSignal): Promise<void> {
  for (const until = systemClock.now() + takesPodsMsMax; systemClock.now() < until;) {
    const node: Node | undefined = await client.get(nodes, { name }, signal).catch((error: unknown) => {
      if (error instanceof NotFoundError) return undefined; // it has not registered yet
      throw error;
    });
    if (node && node.spec?.taints?.some(({ key }) => key === 'node.kubernetes.io/not-ready') !== true) return;
    await systemClock.sleep(lookAgainMs, signal);
  }
}
