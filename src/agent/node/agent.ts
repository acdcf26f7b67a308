/** The node alone, against any API server or none. */
import { hostname } from 'node:os';
import type { ClusterAccess } from '../../client/credentials/cluster-access.ts';
import { makeDirectories } from '../../disk/paths/directories.ts';
import { InputError } from '../machine/manifests-folder-reader.ts';
import type { AgentSettings } from './agent-settings.ts';
import { agentServing } from './node-serving.ts';
import { type NodeDeps, type RunningNode, nodeDefaults, startNode } from './node.ts';

/** What is absent is as in `nodeDefaults`. */
interface AgentDeps extends Partial<Omit<NodeDeps, 'cluster' | 'serving'>> {
  readonly cluster: ClusterAccess | undefined;
}

/** Runs until the signal aborts. */
export async function startAgent(settings: AgentSettings, deps: AgentDeps, signal: AbortSignal): Promise<RunningNode> {
  const { cluster } = deps;
  if (cluster === undefined && settings.manifestsDirectory === undefined) {
    throw new InputError(
      'NoPodSource',
      'Cannot run a node without pods: give --kubeconfig FILE, --in-cluster or --manifests DIR',
    );
  }
  makeDirectories(settings.rootDirectory);
  const serving = await agentServing(settings, hostname(), cluster, signal);
  return await startNode(settings, { ...nodeDefaults, ...deps, serving }, signal);
}
