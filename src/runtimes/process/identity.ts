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

/** Words of the programs that a command run by exec goes through; see exec.ts. */
export interface ExecWords {
  /** For setpriv, the first time: the bounding set must not be cut down yet, or nothing can be kept beyond it. */
  readonly keep: string;
  /** For setpriv, the second time. */
  readonly privileges: string;
  /** For unshare. */
  readonly user: string;
  /** Runs on the container's root, so it may be the container's own: it can take away, and nothing else. */
  readonly drop: string;
}

/**
 * The last program of ours has to change the root and only then the user: until then it keeps the capabilities for that.
 * They go with the change to another user. Root takes off SYS_CHROOT afterwards, if the container is not to have it.
 */
export function execWords(identity: Identity, powers: Powers): ExecWords {
  const isRoot = identity.uid === 0;
  const isAllowed = identity.privileged || identity.capabilities.includes('SYS_CHROOT');
  const kept = isRoot ? (isAllowed ? [] : ['+sys_chroot']) : ['+sys_chroot', '+setuid'];
  const ambient = kept.length === 0 ? [] : [`--ambient-caps=${kept.join(',')}`];
  return {
    keep: `--inh-caps=${['-all', ...kept].join(',')}`,
    privileges: [...commonPrivileges(identity, powers), ...ambient].join(' '),
    user: isRoot ? '' : `--setuid ${identity.uid}`,
    drop: isRoot && kept.length > 0 ? 'setpriv --inh-caps=-all --ambient-caps=-all --' : '',
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
