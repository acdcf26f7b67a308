/** As whom a container runs and what it may do: the container's security context over that of its pod. Pure. */
import { describePod } from '../../kube/kinds/pod/pod-identity.ts';
import type { AnyContainer } from '../../kube/kinds/pod/pod-spec.ts';
import type { Pod } from '../../kube/kinds/pod/pod.ts';
import type {
  ContainerSecurity,
  ImageStatus,
  PodSecurity,
  SeLinuxOptions,
  SecurityProfile,
} from '../../runtimes/runtime.ts';
import { ContainerConfigError } from '../view/variables.ts';

interface SecurityRequest {
  readonly pod: Pod;
  readonly container: AnyContainer;
  readonly image: Pick<ImageStatus, 'uid' | 'username'>;
  /** The user if neither the pod nor the image name one. */
  readonly defaultUid: number;
  /** Groups that own volumes of the pod. */
  readonly volumeGroups: readonly number[];
  /** The file of a seccomp profile that a pod names. */
  readonly seccompFile: (profile: string) => string;
  readonly seccompDefault: boolean;
}

export function containerSecurity(request: SecurityRequest): ContainerSecurity {
  const { pod, container, image, volumeGroups } = request;
  const ofPod = pod.spec.securityContext ?? {};
  const own = container.securityContext ?? {};
  checkNonRoot(request);
  const uid = own.runAsUser ?? ofPod.runAsUser ?? image.uid;
  return {
    uid,
    username: uid === undefined ? image.username : undefined,
    gid: own.runAsGroup ?? ofPod.runAsGroup,
    supplementalGroups: [...new Set([...fsGroupOf(pod), ...(ofPod.supplementalGroups ?? []), ...volumeGroups])],
    supplementalGroupsPolicy: groupsPolicy(pod),
    readOnlyRootFilesystem: own.readOnlyRootFilesystem ?? false,
    privileged: own.privileged ?? false,
    noNewPrivileges: own.allowPrivilegeEscalation === false,
    addCapabilities: (own.capabilities?.add ?? []).map(withoutPrefix),
    dropCapabilities: (own.capabilities?.drop ?? []).map(withoutPrefix),
    seccomp: seccompProfile(request),
    appArmor: appArmorProfile(pod, container),
    procMount: own.procMount === 'Unmasked' ? 'Unmasked' : 'Default',
    seLinux: seLinuxOptions(own.seLinuxOptions ?? ofPod.seLinuxOptions),
  };
}

/** What holds for the pod's sandbox. */
export function podSecurity(pod: Pod, volumeGroups: readonly number[]): PodSecurity {
  const { containers, initContainers = [], ephemeralContainers = [], securityContext = {} } = pod.spec;
  const all: readonly AnyContainer[] = [...containers, ...initContainers, ...ephemeralContainers];
  return {
    privileged: all.some((container) => container.securityContext?.privileged === true),
    uid: securityContext.runAsUser,
    gid: securityContext.runAsGroup,
    supplementalGroups: [
      ...new Set([...fsGroupOf(pod), ...volumeGroups, ...(securityContext.supplementalGroups ?? [])]),
    ],
    supplementalGroupsPolicy: groupsPolicy(pod),
    seLinux: seLinuxOptions(securityContext.seLinuxOptions),
  };
}

function fsGroupOf({ spec }: Pod): readonly number[] {
  const { fsGroup } = spec.securityContext ?? {};
  return fsGroup === undefined ? [] : [fsGroup];
}

function groupsPolicy({ spec }: Pod): 'Merge' | 'Strict' {
  const policy = spec.securityContext?.supplementalGroupsPolicy ?? 'Merge';
  if (policy === 'Merge' || policy === 'Strict') return policy;
  throw new ContainerConfigError(`unsupported supplementalGroupsPolicy: ${policy}`);
}

interface Profile {
  readonly type: string;
  readonly localhostProfile?: string | undefined;
}

function seccompProfile({ pod, container, seccompFile, seccompDefault }: SecurityRequest): SecurityProfile {
  const byDefault: Profile = { type: seccompDefault ? 'RuntimeDefault' : 'Unconfined' };
  const given: Profile =
    container.securityContext?.seccompProfile ?? pod.spec.securityContext?.seccompProfile ?? byDefault;
  if (given.type !== 'Localhost') return securityProfile(given);
  if ((given.localhostProfile ?? '') === '') {
    throw new ContainerConfigError('localhostProfile must be set if seccompProfile type is Localhost.');
  }
  return { type: 'Localhost', profile: seccompFile(given.localhostProfile ?? '') };
}

const appArmorAnnotation = 'container.apparmor.security.beta.kubernetes.io/';

/** From the fields, else from the annotation of the time before there were fields. */
function appArmorProfile({ metadata, spec }: Pod, container: AnyContainer): SecurityProfile | undefined {
  const given = container.securityContext?.appArmorProfile ?? spec.securityContext?.appArmorProfile;
  if (given !== undefined) return securityProfile(given);
  const annotated = metadata.annotations?.[`${appArmorAnnotation}${container.name}`] ?? '';
  if (annotated === 'runtime/default') return { type: 'RuntimeDefault', profile: '' };
  if (annotated === 'unconfined') return { type: 'Unconfined', profile: '' };
  const [, profile] = /^localhost\/(.+)$/.exec(annotated) ?? [];
  return profile === undefined ? undefined : { type: 'Localhost', profile };
}

function securityProfile({ type, localhostProfile = '' }: Profile): SecurityProfile {
  if (type === 'Localhost') return { type, profile: localhostProfile };
  return { type: type === 'Unconfined' ? type : 'RuntimeDefault', profile: '' };
}

function seLinuxOptions(given: Partial<SeLinuxOptions> | undefined): SeLinuxOptions | undefined {
  return given && { user: given.user ?? '', role: given.role ?? '', type: given.type ?? '', level: given.level ?? '' };
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
