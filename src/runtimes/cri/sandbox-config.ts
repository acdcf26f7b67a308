/** From the contract's words to the message that makes a pod's sandbox. Pure: what the machine has is passed in. */
import type { MessageInitShape } from '@bufbuild/protobuf';
import {
  NamespaceMode,
  type PodSandboxConfigSchema,
  Protocol,
  type SELinuxOptionSchema,
  SecurityProfile_ProfileType,
  SupplementalGroupsPolicy,
} from '../../grpc/messages/cri_pb.ts';
import type { PodRequest, ResourceLimits, SeLinuxOptions } from '../runtime.ts';

/** `none`: the runtime puts pods where it likes. */
export type CgroupDriver = 'cgroupfs' | 'systemd' | 'none';

/** The same for the same attempt, so that a container is created with what its sandbox was made with. */
export function sandboxConfig(
  request: PodRequest,
  attempt: number,
  cgroupDriver: CgroupDriver,
): MessageInitShape<typeof PodSandboxConfigSchema> {
  const { name, namespace, uid, hostname, hostNetwork, logDirectory, dns, ports, security } = request;
  return {
    metadata: { name, namespace, uid, attempt },
    hostname: hostNetwork ? '' : hostname,
    logDirectory,
    dnsConfig: { servers: [...dns.servers], searches: [...dns.searches], options: [...dns.options] },
    portMappings: ports.map(({ protocol, containerPort, hostPort, hostIp }) => ({
      protocol: Protocol[protocol],
      containerPort,
      hostPort,
      hostIp,
    })),
    labels: { ...request.labels },
    annotations: { ...request.annotations },
    linux: {
      cgroupParent: cgroupParent(request, cgroupDriver),
      sysctls: Object.fromEntries(
        Object.entries(request.sysctls).map(([key, value]) => [normalSysctlName(key), value]),
      ),
      overhead: isEmpty(request.overhead) ? {} : linuxResources(request.overhead),
      resources: linuxResources(request.containersTotal),
      securityContext: {
        namespaceOptions: namespaceOptions(request),
        privileged: security.privileged,
        // Whatever the pod says: the sandbox's own process needs no more.
        seccomp: { profileType: SecurityProfile_ProfileType.RuntimeDefault },
        ...int64('runAsUser', security.uid),
        ...int64('runAsGroup', security.gid),
        supplementalGroups: security.supplementalGroups.map(BigInt),
        supplementalGroupsPolicy: SupplementalGroupsPolicy[security.supplementalGroupsPolicy],
        ...seLinuxOptions(security.seLinux),
      },
    },
  };
}

/** The pod's cgroup, which exists before its sandbox does. */
export function cgroupParent({ uid, qosClass }: Pick<PodRequest, 'uid' | 'qosClass'>, driver: CgroupDriver): string {
  if (driver === 'none') return '';
  const ofClass = qosClass === 'Guaranteed' ? [] : [qosClass.toLowerCase()];
  if (driver === 'cgroupfs') return ['', 'kubepods', ...ofClass, `pod${uid}`].join('/');
  // A slice's name has the names of all above it, so a `-` inside a name becomes `_`.
  const names = ['kubepods', ...ofClass, `pod${uid.replaceAll('-', '_')}`];
  return names.map((_, index) => `/${names.slice(0, index + 1).join('-')}.slice`).join('');
}

/** Both `kernel.shm_rmid_forced` and `kernel/shm_rmid_forced` are valid; where slashes come first, dots are part of a name. */
export function normalSysctlName(name: string): string {
  const separator = /[./]/.exec(name)?.[0];
  return separator === '/' ? name.replaceAll(/[./]/g, (one) => (one === '/' ? '.' : '/')) : name;
}

export function namespaceOptions(pod: PodRequest): Record<'network' | 'ipc' | 'pid', NamespaceMode> & {
  readonly usernsOptions: { readonly mode: NamespaceMode };
} {
  return {
    network: pod.hostNetwork ? NamespaceMode.NODE : NamespaceMode.POD,
    ipc: pod.hostIpc ? NamespaceMode.NODE : NamespaceMode.POD,
    pid: pod.hostPid ? NamespaceMode.NODE : pod.shareProcessNamespace ? NamespaceMode.POD : NamespaceMode.CONTAINER,
    usernsOptions: { mode: NamespaceMode.NODE },
  };
}

export const cpuPeriodMicroseconds = 100_000;
const cpuQuotaMicrosecondsMin = 1_000;
const cpuSharesMin = 2;
const cpuSharesMax = 262_144;

/** What was not asked for is 0: no limit. */
export function linuxResources({
  memoryBytesMax = 0,
  cpuMilliMax = 0,
  cpuMilliRequested,
}: ResourceLimits): Record<'cpuShares' | 'cpuPeriod' | 'cpuQuota' | 'memoryLimitInBytes', bigint> {
  return {
    cpuShares: BigInt(cpuShares(cpuMilliRequested ?? cpuMilliMax)),
    cpuPeriod: BigInt(cpuPeriodMicroseconds),
    cpuQuota: BigInt(cpuQuota(cpuMilliMax)),
    memoryLimitInBytes: BigInt(memoryBytesMax),
  };
}

export function cpuShares(milli: number): number {
  return Math.max(cpuSharesMin, Math.min(cpuSharesMax, Math.floor((milli * 1024) / 1000)));
}

/** Microseconds in each 100,000; 0 for no limit. */
export function cpuQuota(milli: number): number {
  return milli === 0 ? 0 : Math.max(cpuQuotaMicrosecondsMin, (milli * cpuPeriodMicroseconds) / 1000);
}

function isEmpty({ memoryBytesMax, cpuMilliMax }: ResourceLimits): boolean {
  return memoryBytesMax === undefined && cpuMilliMax === undefined;
}

export function int64<Name extends string>(
  name: Name,
  value: number | undefined,
): { readonly [name in Name]?: { readonly value: bigint } } {
  return value === undefined ? {} : ({ [name]: { value: BigInt(value) } } as { [name in Name]: { value: bigint } });
}

export function seLinuxOptions(options: SeLinuxOptions | undefined): {
  readonly selinuxOptions?: MessageInitShape<typeof SELinuxOptionSchema>;
} {
  return options === undefined ? {} : { selinuxOptions: { ...options } };
}
