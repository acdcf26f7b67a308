/** A client for the commands that talk to an API server: the kubeconfig a user means, or else that of `mountlet up` on this machine. */
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { accessDeps } from '../agent/machine/cluster.ts';
import { systemClock } from '../base/clock.ts';
import { OperatingError, messageOf } from '../base/errors.ts';
import { type ApiClient, apiClientDefaults, connectApiClient } from '../client/api/api-client.ts';
import {
  type AccessDeps,
  type ClusterAccess,
  NoClusterError,
  clusterAccess,
} from '../client/credentials/cluster-access.ts';
import { DiscoveredResources } from '../client/discovery.ts';
import { poolDefaults } from '../client/transport/connection-pool.ts';
import { defaultStateDirectory } from './options.ts';
import { report } from './terminal.ts';

export interface ClusterOptions {
  readonly kubeconfig?: string;
  readonly context?: string;
}

interface ClusterClient {
  readonly client: ApiClient;
  /** Of the context, for objects that name none. */
  readonly namespace: string;
}

export async function clusterClient(options: ClusterOptions): Promise<ClusterClient> {
  const access = await accessFor(options);
  return {
    client: connectApiClient(access, systemClock, apiClientDefaults, poolDefaults),
    namespace: access.namespace,
  };
}

/** A group may be served by another server, which is away: the rest is there all the same. */
export function discover(client: ApiClient, signal: AbortSignal): Promise<DiscoveredResources> {
  return DiscoveredResources.ask(client, signal, (path, error) => report('note', `${path}: ${messageOf(error)}`));
}

async function accessFor({ kubeconfig, context }: ClusterOptions): Promise<ClusterAccess> {
  try {
    return await clusterAccess({ kubeconfig, context }, machineAccess());
  } catch (error) {
    if (!(error instanceof NoClusterError)) throw error;
    // No cluster was named: use the one of this machine.
    const own = join(defaultStateDirectory(), 'kubeconfig');
    if (!existsSync(own)) {
      const cure = 'start mountlet up, give --kubeconfig, or set KUBECONFIG';
      throw new OperatingError(error.reason, `Cannot tell which API server to use: ${cure}`);
    }
    return clusterAccess({ kubeconfig: own, context }, machineAccess());
  }
}

export function machineAccess(): AccessDeps {
  return accessDeps(process.env, process.stdin.isTTY);
}
