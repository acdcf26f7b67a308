/**
 * All that one container of a pod sees when it starts: variables, command line, devices and mounts. Made anew at every
 * start from the pod as it is then. What is seen of it by whom, and who starts the container, is not decided here.
 */
import { expandCommand } from './command.ts';
import type { CommandLine } from './command.ts';
import { buildDevices } from './container-devices.ts';
import type { ContainerDevice } from './container-devices.ts';
import { buildMounts } from './container-mounts.ts';
import type { ContainerMounts, MountsDeps, MountsRequest } from './container-mounts.ts';
import { resolveEnvironment } from './environment.ts';
import type { EnvironmentDeps } from './environment.ts';
import { podHostname } from './pod-hostname.ts';
import type { Variable } from './variables.ts';

interface ContainerViewRequest extends Omit<MountsRequest, 'environment' | 'hostname'> {
  /** Ends the names of pods with a subdomain: `cluster.local`. */
  readonly clusterDomain: string;
}

export type ContainerViewDeps = EnvironmentDeps & MountsDeps;

export interface ContainerView extends CommandLine, ContainerMounts {
  readonly environment: readonly Variable[];
  readonly devices: readonly ContainerDevice[];
}

/**
 * Rejects with a `ContainerConfigError`. Of several things that are wrong the kubelet tells the first in this order, so
 * the order stays; mounts come last also because they alone leave something to clean up.
 */
export async function viewContainer(
  request: ContainerViewRequest,
  deps: ContainerViewDeps,
  signal: AbortSignal,
): Promise<ContainerView> {
  const { pod, container, volumes, clusterDomain } = request;
  const hostname = podHostname(pod, clusterDomain);
  const devices = buildDevices(container, volumes);
  const environment = await resolveEnvironment(request, deps, signal);
  const commandLine = expandCommand(container, environment);
  const mounts = await buildMounts({ ...request, environment, hostname }, deps, signal);
  return { environment, ...commandLine, devices, ...mounts };
}
