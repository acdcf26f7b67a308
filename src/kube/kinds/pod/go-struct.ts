/**
 * Objects in the form the API server has them inside, for the few messages that print a whole object: every field of the Go
 * type in its order, under its Go name, null where unset. Only the types that such messages print are known.
 */
import type { LabelSelector } from '../../schema/meta.ts';
import { inKeyOrder } from '../../values/go-text.ts';
import type { SecurityContext } from './container.ts';
import type { PodSpec } from './pod-spec.ts';
import type { ClusterTrustBundleProjection } from './volume.ts';

type PodResourceClaim = NonNullable<PodSpec['resourceClaims']>[number];
type Profile = NonNullable<SecurityContext['seccompProfile']>;

export function clusterTrustBundleInside(source: ClusterTrustBundleProjection): object {
  return {
    Name: source.name ?? null,
    SignerName: source.signerName ?? null,
    LabelSelector: source.labelSelector ? selectorInside(source.labelSelector) : null,
    Optional: source.optional ?? null,
    Path: source.path,
    User: source.user ?? null,
  };
}

/** This type has its usual names inside, too. */
export function selectorInside({ matchLabels, ...rest }: LabelSelector): object {
  return { ...(matchLabels && { matchLabels: inKeyOrder(matchLabels) }), ...rest };
}

export function resourceClaimInside(claim: PodResourceClaim): object {
  return {
    Name: claim.name,
    ResourceClaimName: claim.resourceClaimName ?? null,
    ResourceClaimTemplateName: claim.resourceClaimTemplateName ?? null,
  };
}

export function profileInside(profile: Profile): object {
  return { Type: profile.type, LocalhostProfile: profile.localhostProfile ?? null };
}

export function securityContextInside(context: SecurityContext): object {
  const { capabilities, seLinuxOptions: seLinux, seccompProfile, appArmorProfile } = context;
  return {
    Capabilities: capabilities ? { Add: capabilities.add ?? null, Drop: capabilities.drop ?? null } : null,
    Privileged: context.privileged ?? null,
    SELinuxOptions: seLinux
      ? { User: seLinux.user ?? '', Role: seLinux.role ?? '', Type: seLinux.type ?? '', Level: seLinux.level ?? '' }
      : null,
    WindowsOptions: context.windowsOptions ?? null,
    RunAsUser: context.runAsUser ?? null,
    RunAsGroup: context.runAsGroup ?? null,
    RunAsNonRoot: context.runAsNonRoot ?? null,
    ReadOnlyRootFilesystem: context.readOnlyRootFilesystem ?? null,
    AllowPrivilegeEscalation: context.allowPrivilegeEscalation ?? null,
    ProcMount: context.procMount ?? null,
    SeccompProfile: seccompProfile ? profileInside(seccompProfile) : null,
    AppArmorProfile: appArmorProfile ? profileInside(appArmorProfile) : null,
  };
}
