/**
 * What one container of a pod sees when it starts: variables, command line, devices and mounts. Computed at every start from the
 * pod as it is then.
 */
import type { AnyContainer } from '../../kube/kinds/pod/pod-spec.ts';
import { goQuote } from '../../kube/values/go-text.ts';
import { type EnvironmentDeps, resolveEnvironment } from './environment.ts';
import { podHostname } from './hosts-file.ts';
import {
  type ContainerMounts,
  type MountedVolumes,
  type MountsDeps,
  type MountsRequest,
  buildMounts,
} from './mounts.ts';
import {
  ContainerConfigError,
  type Defect,
  ExpansionBudget,
  type Variable,
  expandVariables,
  lookUpIn,
} from './variables.ts';

interface ContainerViewRequest extends Omit<MountsRequest, 'environment' | 'hostname'> {
  /** Ends the names of pods with a subdomain: `cluster.local`. */
  readonly clusterDomain: string;
  readonly loopbackIp?: string | undefined;
}

export type ContainerViewDeps = EnvironmentDeps & MountsDeps;

export interface ContainerView extends CommandLine, ContainerMounts {
  readonly environment: readonly Variable[];
  readonly devices: readonly ContainerDevice[];
}

/**
 * Rejects with a `ContainerConfigError`. Of several errors the kubelet reports the first in this order. Mounts come last also
 * because only they leave something to clean up.
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

interface Argument {
  readonly value: string;
  /** It contains bytes of a Secret: print `written` instead. */
  readonly secret: boolean;
  /** As the pod has it, before the expansion. */
  readonly written: string;
  readonly defect?: Defect;
}

interface CommandLine {
  /** Empty: the image's entry point. */
  readonly command: readonly Argument[];
  /** Empty: the image's arguments, unless a command is given. */
  readonly args: readonly Argument[];
}

/** `$(NAME)` is replaced from the final environment; unknown names are left as they are. */
export function expandCommand(
  { name: containerName, command = [], args = [] }: AnyContainer,
  environment: readonly Variable[],
): CommandLine {
  const lookUp = lookUpIn(environment);
  const budget = new ExpansionBudget(containerName);
  const expandArgument = (written: string): Argument => {
    const { sources: _sources, ...expanded } = expandVariables(written, lookUp, budget);
    return { ...expanded, written };
  };
  return { command: command.map(expandArgument), args: args.map(expandArgument) };
}

/** A raw block device. */
interface ContainerDevice {
  readonly name: string;
  readonly devicePath: string;
  /** The link in the pod's device directory, which leads to the device. */
  readonly hostPath: string;
  /** As a device cgroup spells it: read, write and mknod. */
  readonly permissions: 'r' | 'mrw';
}

export function buildDevices(
  { name: containerName, volumeDevices = [] }: AnyContainer,
  volumes: MountedVolumes,
): readonly ContainerDevice[] {
  return volumeDevices.flatMap(({ name, devicePath }) => {
    if (!devicePath.startsWith('/')) {
      throw new ContainerConfigError(`error DevicePath \`${devicePath}\` must be an absolute path`);
    }
    const volume = volumes.get(name);
    if (volume?.kind !== 'block') {
      throw new ContainerConfigError(
        `cannot find volume ${goQuote(name)} to pass into container ${goQuote(containerName)}`,
      );
    }
    // The kubelet starts a container without a device whose link is gone, and so do we.
    if (volume.link === undefined) return [];
    return [{ name, devicePath, hostPath: volume.link, permissions: volume.readOnly ? 'r' : 'mrw' } as const];
  });
}
