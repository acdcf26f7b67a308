/** Who the processes of a container are, and the words for setpriv(1) and unshare(1) that make them so. Pure. */
import type { ContainerSecurity } from '../runtime.ts';
import type { Identity } from './container-records.ts';
import { capabilitiesOf } from './linux-capabilities.ts';

/** What this program is and may hand on. */
export interface Powers {
  readonly uid: number;
  readonly gid: number;
  /** `root`: the real one. `user`: root of a user namespace that stands for an ordinary user outside. */
  readonly kind: 'root' | 'user';
  readonly boundingSet: bigint;
}

export function identityOf(security: ContainerSecurity, powers: Powers): Identity {
  const ordinary = powers.kind === 'user';
  return {
    uid: ordinary ? 0 : (security.uid ?? powers.uid),
    // As the engines: a user without a group is in group 0, never in that of whoever runs the engine.
    gid: ordinary ? 0 : (security.gid ?? (security.uid === undefined ? powers.gid : 0)),
    groups: ordinary ? [] : security.supplementalGroups,
    privileged: security.privileged,
    noNewPrivileges: security.noNewPrivileges,
    capabilities: capabilitiesOf(security, powers.boundingSet),
  };
}

/** Words for setpriv: everything is given up at once. */
export function startPrivileges(identity: Identity, powers: Powers): string {
  return [`--reuid ${identity.uid}`, ...commonPrivileges(identity, powers), '--inh-caps=-all'].join(' ');
}

/**
 * Words for setpriv and then for unshare, which has to change the root and only then the user: until then it keeps the
 * capabilities for it. They go with the change to another user than root; root keeps SYS_CHROOT, which is harmless here
 * (the namespace has no other root to go to) and which all but the strictest containers have anyway.
 */
export function execPrivileges(
  identity: Identity,
  powers: Powers,
): { readonly privileges: string; readonly user: string } {
  const kept =
    identity.uid === 0
      ? identity.capabilities.includes('SYS_CHROOT')
        ? []
        : ['sys_chroot']
      : ['sys_chroot', 'setuid'];
  const words = kept.map((name) => `+${name}`).join(',');
  const common = commonPrivileges(identity, powers);
  return {
    privileges: [
      ...common,
      ...(kept.length === 0 ? ['--inh-caps=-all'] : [`--inh-caps=-all,${words}`, `--ambient-caps=${words}`]),
    ].join(' '),
    user: identity.uid === 0 ? '' : `--setuid ${identity.uid}`,
  };
}

function commonPrivileges(
  { gid, groups, privileged, noNewPrivileges, capabilities }: Identity,
  powers: Powers,
): string[] {
  // A user namespace made by an ordinary user has no say over groups.
  const membership = groups.length > 0 ? `--groups ${groups.join(',')}` : '--clear-groups';
  const identity = powers.kind === 'user' ? [`--regid ${gid}`, '--keep-groups'] : [`--regid ${gid}`, membership];
  const bounding = ['-all', ...capabilities.map((name) => `+${name.toLowerCase()}`)].join(',');
  return [
    ...identity,
    ...(privileged ? [] : [`--bounding-set=${bounding}`]),
    ...(noNewPrivileges ? ['--no-new-privs'] : []),
  ];
}
