/** As whom a container runs and what it may do: the container's security context over that of its pod. */
import { describePod } from '../../kube/kinds/pod/pod-identity.ts';
import type { AnyContainer } from '../../kube/kinds/pod/pod-spec.ts';
import type { Pod } from '../../kube/kinds/pod/pod.ts';
import type { ContainerSecurity, ImageStatus } from '../../runtimes/runtime.ts';
import { ContainerConfigError } from '../container-config-error.ts';

interface SecurityRequest {
  readonly pod: Pod;
  readonly container: AnyContainer;
  readonly image: Pick<ImageStatus, 'uid' | 'username'>;
  /** Who the program would be if neither the pod nor an image says so. */
  readonly defaultUid: number;
  /** Groups that own volumes of the pod. */
  readonly volumeGroups: readonly number[];
}

export function containerSecurity(request: SecurityRequest): ContainerSecurity {
  const { pod, container, volumeGroups } = request;
  const ofPod = pod.spec.securityContext ?? {};
  const own = container.securityContext ?? {};
  checkNonRoot(request);
  const { supplementalGroups = [], fsGroup } = ofPod;
  const groups = new Set([...supplementalGroups, ...(fsGroup === undefined ? [] : [fsGroup]), ...volumeGroups]);
  return {
    uid: own.runAsUser ?? ofPod.runAsUser,
    gid: own.runAsGroup ?? ofPod.runAsGroup,
    supplementalGroups: [...groups],
    readOnlyRootFilesystem: own.readOnlyRootFilesystem ?? false,
    privileged: own.privileged ?? false,
    noNewPrivileges: own.allowPrivilegeEscalation === false,
    addCapabilities: (own.capabilities?.add ?? []).map(withoutPrefix),
    dropCapabilities: (own.capabilities?.drop ?? []).map(withoutPrefix),
    // Where a pod says nothing it gets the runtime's own profile; the kubelet leaves it unconfined by default.
    seccomp: profileType(own.seccompProfile ?? ofPod.seccompProfile),
    appArmor: profileType(own.appArmorProfile ?? ofPod.appArmorProfile),
    procMount: own.procMount === 'Unmasked' ? 'Unmasked' : 'Default',
    seLinux: own.seLinuxOptions !== undefined || ofPod.seLinuxOptions !== undefined,
  };
}

function profileType(profile: { readonly type: string } | undefined): ContainerSecurity['seccomp'] {
  const { type = 'RuntimeDefault' } = profile ?? {};
  return type === 'Unconfined' || type === 'Localhost' ? type : 'RuntimeDefault';
}

function withoutPrefix(capability: string): string {
  return capability.toUpperCase().replace(/^CAP_/, '');
}

function checkNonRoot({ pod, container, image, defaultUid }: SecurityRequest): void {
  const ofPod = pod.spec.securityContext ?? {};
  const own = container.securityContext ?? {};
  if (!(own.runAsNonRoot ?? ofPod.runAsNonRoot ?? false)) return;
  const where = `(pod: "${describePod(pod)}", container: ${container.name})`;
  const user = own.runAsUser ?? ofPod.runAsUser;
  if (user !== undefined) {
    if (user !== 0) return;
    throw new ContainerConfigError(`container's runAsUser breaks non-root policy ${where}`);
  }
  const { username = '', uid } = image;
  if (uid === undefined && username !== '') {
    throw new ContainerConfigError(
      `container has runAsNonRoot and image has non-numeric user (${username}), cannot verify user is non-root ${where}`,
    );
  }
  if ((uid ?? defaultUid) === 0) {
    throw new ContainerConfigError(`container has runAsNonRoot and image will run as root ${where}`);
  }
}
