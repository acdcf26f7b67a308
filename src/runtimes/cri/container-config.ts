/** From the contract's words to the message that makes a container. Pure: what the machine has is passed in. */
import type { MessageInitShape } from '@bufbuild/protobuf';
import {
  type ContainerConfigSchema,
  type LinuxContainerResourcesSchema,
  type LinuxContainerSecurityContextSchema,
  MountPropagation,
  type MountSchema,
  NamespaceMode,
  SecurityProfile_ProfileType,
  type SecurityProfileSchema,
  Signal,
  SupplementalGroupsPolicy,
} from '../../grpc/messages/cri_pb.ts';
import { Quantity } from '../../kube/values/quantity.ts';
import type {
  ContainerRequest,
  ContainerSecurity,
  PodRequest,
  ResourceLimits,
  RuntimeMount,
  SecurityProfile,
} from '../runtime.ts';
import type { MachineFacts } from './machine-facts.ts';
import { int64, linuxResources, namespaceOptions, seLinuxOptions } from './sandbox-config.ts';

/** The first word of a command as the pod has it, where variables in it were expanded: a status that quotes it may be secret. */
export const programAnnotation = 'mountlet.dev/program';

export function containerConfig(
  request: ContainerRequest,
  pod: PodRequest,
  machine: MachineFacts,
): MessageInitShape<typeof ContainerConfigSchema> {
  const { name, attempt, image, imageId, workingDirectory, logPath, stdin, stdinOnce, tty } = request;
  return {
    metadata: { name, attempt },
    image: { image: imageId, userSpecifiedImage: image },
    command: [...request.command],
    args: [...request.args],
    workingDir: workingDirectory,
    envs: request.environment.map(({ name: key, value }) => ({ key, value: Buffer.from(value) })),
    mounts: request.mounts.map((mount) => mountConfig(mount, pod)),
    devices: request.devices.map((device) => ({ ...device })),
    labels: { ...request.labels },
    annotations: { ...request.annotations, ...programWithVariables(request) },
    logPath,
    stdin,
    stdinOnce,
    tty,
    stopSignal: signalNumber(request.stopSignal),
    linux: {
      resources: containerResources(request.resources, machine),
      securityContext: securityContext(request, pod, machine),
    },
  };
}

function programWithVariables({ command, args, program }: ContainerRequest): Readonly<Record<string, string>> {
  const [expanded = program] = [...command, ...args];
  return expanded === program ? {} : { [programAnnotation]: program };
}

const propagations = {
  None: MountPropagation.PROPAGATION_PRIVATE,
  HostToContainer: MountPropagation.PROPAGATION_HOST_TO_CONTAINER,
  Bidirectional: MountPropagation.PROPAGATION_BIDIRECTIONAL,
} as const;

function mountConfig(mount: RuntimeMount, pod: PodRequest): MessageInitShape<typeof MountSchema> {
  const {
    hostPath,
    containerPath,
    readOnly,
    recursiveReadOnly,
    propagation,
    image,
    imageId = '',
    imageSubPath = '',
  } = mount;
  return {
    containerPath,
    hostPath,
    readonly: readOnly,
    recursiveReadOnly,
    propagation: propagations[propagation],
    ...(image === undefined
      ? {}
      : {
          image: {
            image: imageId,
            userSpecifiedImage: image,
            runtimeHandler: pod.runtimeHandler,
            annotations: { ...pod.annotations },
          },
          imageSubPath,
        }),
  };
}

/** Zero: the image's own, else SIGTERM. */
function signalNumber(name: string): Signal {
  const key = name.replace('+', 'PLUS').replace('-', 'MINUS');
  return Object.hasOwn(Signal, key) ? Signal[key as keyof typeof Signal] : Signal.RUNTIME_DEFAULT;
}

function containerResources(
  limits: ResourceLimits,
  machine: MachineFacts,
): MessageInitShape<typeof LinuxContainerResourcesSchema> {
  const { memoryBytesMax = 0, oomScoreAdjustment = 0, hugePageBytesMax = {} } = limits;
  const hugePages = new Map(
    Object.entries(hugePageBytesMax).map(([size, bytes]) => [Number(Quantity.parse(size).value()), bytes]),
  );
  return {
    ...linuxResources(limits),
    oomScoreAdj: BigInt(oomScoreAdjustment),
    // All sizes of the machine: one that is not named would be without a limit.
    hugepageLimits: machine.hugePageBytes.map((size) => ({
      pageSize: pageSizeName(size),
      limit: BigInt(hugePages.get(size) ?? 0),
    })),
    // No container swaps: with the same limit for memory and for memory and swap together there is none left for swap.
    memorySwapLimitInBytes: machine.limitsSwap && machine.cgroupVersion === 1 ? BigInt(memoryBytesMax) : 0n,
    unified: machine.cgroupVersion === 2 ? unifiedResources(machine) : {},
  };
}

/** A container that runs out of memory is killed as a whole: a server that lost one process is worse than one that restarts. */
function unifiedResources({ limitsSwap }: MachineFacts): Record<string, string> {
  return {
    'memory.oom.group': '1',
    'memory.min': '0',
    'memory.low': '0',
    ...(limitsSwap ? { 'memory.swap.max': '0' } : {}),
  };
}

/** As the files of a hugetlb cgroup have it: `2MB`. */
function pageSizeName(bytes: number): string {
  const units = ['B', 'KB', 'MB', 'GB', 'TB'];
  const index = Math.floor(Math.log2(bytes) / 10);
  return `${bytes / 1024 ** index}${units[index]}`;
}

function securityContext(
  { security, processesOf }: ContainerRequest,
  pod: PodRequest,
  machine: MachineFacts,
): MessageInitShape<typeof LinuxContainerSecurityContextSchema> {
  const namespaces = namespaceOptions(pod);
  const isTargeted = processesOf !== undefined && namespaces.pid === NamespaceMode.CONTAINER;
  return {
    namespaceOptions: isTargeted ? { ...namespaces, pid: NamespaceMode.TARGET, targetId: processesOf } : namespaces,
    capabilities: {
      addCapabilities: [...security.addCapabilities],
      dropCapabilities: [...security.dropCapabilities],
    },
    privileged: security.privileged,
    ...int64('runAsUser', security.uid),
    ...int64('runAsGroup', security.gid),
    runAsUsername: security.username ?? '',
    supplementalGroups: security.supplementalGroups.map(BigInt),
    supplementalGroupsPolicy: SupplementalGroupsPolicy[security.supplementalGroupsPolicy],
    readonlyRootfs: security.readOnlyRootFilesystem,
    noNewPrivs: security.noNewPrivileges,
    seccomp: securityProfile(security.seccomp),
    ...(security.appArmor === undefined
      ? {}
      : { apparmor: securityProfile(security.appArmor), apparmorProfile: appArmorName(security.appArmor) }),
    ...seLinuxOptions(security.seLinux),
    ...hiddenPaths(security, machine),
  };
}

function securityProfile({ type, profile }: SecurityProfile): MessageInitShape<typeof SecurityProfileSchema> {
  return { profileType: SecurityProfile_ProfileType[type], localhostRef: profile };
}

/** Runtimes from before 2021 know no other field. */
function appArmorName({ type, profile }: SecurityProfile): string {
  return { RuntimeDefault: 'runtime/default', Unconfined: 'unconfined', Localhost: `localhost/${profile}` }[type];
}

const maskedPaths: readonly string[] = [
  ...'asound acpi interrupts kcore keys latency_stats timer_list timer_stats sched_debug scsi'
    .split(' ')
    .map((name) => `/proc/${name}`),
  '/sys/firmware',
  '/sys/devices/virtual/powercap',
];
const readOnlyPaths: readonly string[] = ['/proc/bus', '/proc/fs', '/proc/irq', '/proc/sys', '/proc/sysrq-trigger'];

function hiddenPaths(
  { procMount }: ContainerSecurity,
  { thermalPaths }: MachineFacts,
): { readonly maskedPaths: string[]; readonly readonlyPaths: string[] } {
  if (procMount === 'Unmasked') return { maskedPaths: [], readonlyPaths: [] };
  return { maskedPaths: [...maskedPaths, ...thermalPaths], readonlyPaths: [...readOnlyPaths] };
}
