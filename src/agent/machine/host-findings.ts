/** What pods may miss because of how this machine is set up, and the way out: judged from facts that doctor.ts has read. */
import type { Finding } from '../../runtimes/process/machine.ts';

export interface HostFacts {
  readonly isRoot: boolean;
  /** How the mount that paths of pods are on passes mounts on. */
  readonly rootPropagation: 'private' | 'shared' | 'slave';
  /** What `/` has. */
  readonly directories: readonly string[];
  /** Those of $PATH that exist. */
  readonly programDirectories: readonly string[];
  /** What containers see of it; the content of /etc as far as everyone may read it. */
  readonly shownDirectories: readonly string[];
  /** Those with programs for file systems, by their names in Debian. */
  readonly missingPackages: readonly string[];
}

/** Of which containers have their own. */
const ownDirectories = ['/dev', '/etc', '/proc', '/run', '/sys', '/tmp', '/lost+found'];

export function hostFindings(facts: HostFacts): readonly Finding[] {
  const { isRoot } = facts;
  return [user(facts), ...(isRoot ? [propagation(facts)] : []), files(facts), ...(isRoot ? [fileSystems(facts)] : [])];
}

function user({ isRoot }: HostFacts): Finding {
  if (isRoot) {
    const consequence = 'Containers have users, groups and owners of files as their pods say.';
    return { name: 'root', available: true, consequence };
  }
  return {
    name: 'root',
    available: false,
    consequence:
      'All containers are this one user: runAsUser, runAsGroup, fsGroup and privileged containers are refused, and Secrets have no mount of their own.',
    cure: 'Run mountlet as root (sudo) for pods that need them.',
  };
}

function propagation({ rootPropagation }: HostFacts): Finding {
  const name = 'mount propagation';
  if (rootPropagation === 'shared') {
    const consequence =
      'Mounts that a container makes with Bidirectional, as CSI drivers in pods do, reach the others.';
    return { name, available: true, consequence };
  }
  const refused = rootPropagation === 'slave' ? 'Bidirectional' : 'HostToContainer and Bidirectional';
  return {
    name,
    available: false,
    consequence: `The root mount is ${rootPropagation}: containers with mountPropagation ${refused} are refused, and CSI drivers in pods with them.`,
    cure: 'mount --make-rshared /',
  };
}

function files({ directories, programDirectories, shownDirectories }: HostFacts): Finding {
  const isShown = (path: string): boolean =>
    [...shownDirectories, ...ownDirectories].some((shown) => path === shown || path.startsWith(`${shown}/`));
  const hidden = directories.filter((path) => !isShown(path)).sort();
  const unseen = [...new Set(programDirectories.filter((path) => !isShown(path)))].sort();
  const cure = '--host-path DIR shows one more, --host-files all everything.';
  const nothing = hidden.length === 0 ? '' : `Of ${hidden.join(', ')} containers see nothing`;
  if (unseen.length === 0) {
    const consequence = `Containers find the programs of your PATH.${nothing && ` ${nothing}: ${cure}`}`;
    return { name: 'host directories', available: true, consequence };
  }
  const consequence = `${nothing && `${nothing}. `}The programs in ${unseen.join(', ')} are not found there.`;
  return { name: 'host directories', available: false, consequence, cure };
}

function fileSystems({ missingPackages }: HostFacts): Finding {
  const name = 'file systems';
  if (missingPackages.length === 0) {
    const consequence = 'Volumes of devices are formatted, checked and grown, and those of NFS servers are mounted.';
    return { name, available: true, consequence };
  }
  const consequence = 'Some volumes of devices or of NFS servers cannot be mounted.';
  return { name, available: false, consequence, cure: `Install ${missingPackages.join(', ')}.` };
}
