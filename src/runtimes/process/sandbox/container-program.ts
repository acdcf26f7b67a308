/**
 * What happens between the spawner and a program in a container, as lists of system calls (see linux/system-program.ts).
 *
 *   launch   joins what the pod shares │ is born in a pid namespace │ mounts, moves the root │ becomes the user │ executes
 *   exec     joins the container       │ becomes the user           │ is born in its pid namespace              │ executes
 *   hold     makes what a pod shares   │ an empty root, no user, no privileges                                  │ waits
 *
 * The order is the protection. Other processes of a container may watch for newcomers and take over what they can: a process that
 * appears in a pid namespace that is already in use has the container's root, user and privileges by then, an address space of
 * its own and nothing open but 0 to 2 and the status socket, on which it can report its own failure and nothing else.
 *
 * Descriptors: 0, 1 and 2 are the container's, 3 is the status socket, 4 and 5 are processes to join (pidfds, since a number may
 * mean another process by now): for launch the pod's holder and the holder of files, for exec the container. Reported on 3: first the id of the process that will
 * run the program (8 bytes), then, if a step fails, which one and why (16 bytes). That process goes on at a message,
 * and ends when the other side is closed, so that no program runs unknown to the spawner.
 */
import { defaultSeccompFilter } from '../../../linux/seccomp-filter.ts';
import { type Architecture, type CompiledProgram, type Label, SystemProgram } from '../../../linux/system-program.ts';
import type { EnvironmentEntry } from '../../runtime.ts';
import type { FileEntry } from './host-files.ts';
import type { SandboxPlan } from './sandbox-plan.ts';
import { type PodInterface, makeInterface, openMachineSide } from '../network/pod-interface.ts';
import {
  currentDirectory,
  filesName,
  makeRoot,
  mounting,
  openFlags,
  sharedTreesOf,
  tree,
  writeTree,
} from './sandbox-program.ts';
import { capabilityNames } from './security.ts';

/** Who the processes of a container are. */
export interface Identity {
  readonly uid: number;
  readonly gid: number;
  readonly groups: readonly number[];
  readonly noNewPrivileges: boolean;
  /** What its processes can have at all. */
  readonly capabilities: readonly string[];
  /** What they have from the start though they are not root. */
  readonly ambient: readonly string[];
  readonly seccomp: 'default' | 'none';
}

/** What this program is and may hand on. */
export interface Powers {
  readonly uid: number;
  readonly gid: number;
  /** `root`: the real one. `user`: root of a user namespace that stands for an ordinary user outside. */
  readonly kind: 'root' | 'user';
  /** Capabilities by number. */
  readonly permitted: bigint;
  readonly boundingSet: bigint;
  readonly architecture: Architecture;
}

/** Which of its namespaces a pod has for itself. */
export interface PodNamespaces {
  readonly hostPid: boolean;
  readonly hostIpc: boolean;
  readonly hostNetwork: boolean;
  readonly shareProcessNamespace: boolean;
  /** In a network of its own; absent: it has the machine's, whatever it asked for. */
  readonly address?: string;
}

export interface Command {
  readonly words: readonly string[];
  readonly workingDirectory: string;
  readonly environment: readonly EnvironmentEntry[];
}

interface Launch {
  readonly pod: PodNamespaces;
  /** Whether its root is made of files that a holder keeps; otherwise they are the machine's own. */
  readonly hasFiles: boolean;
  /** Files of control groups to join. */
  readonly groups: readonly string[];
  /** An empty directory: the container's tmpfs gets mounted there, in its own mount namespace. */
  readonly work: string;
  readonly writableBytesMax: number;
  readonly plan: SandboxPlan;
  readonly identity: Identity;
  readonly command: Command;
  readonly tty: boolean;
}

type Exec = Pick<Launch, 'pod' | 'groups' | 'identity' | 'command' | 'tty'>;

export interface Hold {
  /** For its name among the processes of the machine. */
  readonly purpose: 'pod' | 'files';
  readonly pod: PodNamespaces;
  /** A tree for the roots of containers, kept in memory. */
  readonly files?: readonly FileEntry[];
  readonly work: string;
  /** Empty: the machine's. */
  readonly hostname: string;
  readonly sysctls: Readonly<Record<string, string>>;
  /** What its network is made of, for a pod that has an address. */
  readonly network?: PodInterface;
}

const statusSocket = 3;
const firstJoined = 4;
const secondJoined = 5;
const clone = { parent: 0x8000, newPid: 0x20000000, childSignal: 17 } as const;
const namespaces = {
  mount: 0x20000,
  uts: 0x4000000,
  ipc: 0x8000000,
  user: 0x10000000,
  pid: 0x20000000,
  network: 0x40000000,
} as const;
const detach = 2;
const prctl = {
  parentDeathSignal: 1,
  keepCapabilities: 8,
  dropBounding: 24,
  noNewPrivileges: 38,
  ambient: 47,
  dumpable: 4,
  name: 15,
} as const;
const terminal = { unlock: 0x40045431, openPeer: 0x5441, makeControlling: 0x540e } as const;

export function launchProgram(launch: Launch, powers: Powers): CompiledProgram {
  const { pod, hasFiles, groups, work, identity, command, tty } = launch;
  const program = new SystemProgram(hasFiles ? 6 : 5);
  protect(program);
  joinGroups(program, groups);
  joinHolder(program, pod, powers);
  program.call('unshare', [namespaces.mount], { what: 'make a mount namespace' });
  const shared = sharedTreesOf(program, launch.plan);
  const [slaveRoot, none] = [program.text('/'), program.text('none')];
  program.call('mount', [none, slaveRoot, 0, mounting.recursive | mounting.slave, 0], { what: 'keep mounts private' });
  const sharedProc = pod.shareProcessNamespace ? treeOf(program, firstJoined, '/proc') : undefined;
  const files = hasFiles ? treeOf(program, secondJoined, `/${filesName}`) : undefined;
  for (const joined of hasFiles ? [firstJoined, secondJoined] : [firstJoined]) program.close(joined);
  // Alone in its pid namespace a process can still do everything: there is no other to watch it.
  if (!pod.shareProcessNamespace) beBorn(program, pod.hostPid ? 0 : clone.newPid);
  makeRoot(program, launch, sharedProc, files, shared);
  program.call('chdir', [program.text(`${work}/m`)]);
  const here = program.text('.');
  program.call('pivot_root', [here, here], { what: 'move the root' });
  program.call('umount2', [here, detach], { what: 'detach the old root' });
  program.call('chdir', [program.text('/')]);
  become(program, identity, powers);
  if (pod.shareProcessNamespace) beBorn(program, 0);
  execute(program, identity, command, tty);
  return program.compile(powers.architecture, statusSocket);
}

export function execProgram({ pod, groups, identity, command, tty }: Exec, powers: Powers): CompiledProgram {
  const program = new SystemProgram(5);
  protect(program);
  joinGroups(program, groups);
  const flags =
    namespaces.mount |
    (pod.hostPid ? 0 : namespaces.pid) |
    sharedOf(pod) |
    (powers.kind === 'user' ? namespaces.user : 0);
  program.call('setns', [firstJoined, flags], { what: 'enter the container' });
  program.close(firstJoined);
  become(program, identity, powers);
  if (!pod.hostPid) beBorn(program, 0);
  execute(program, identity, command, tty);
  return program.compile(powers.architecture, statusSocket);
}

export function holdProgram(
  { purpose, pod, files, work, hostname, sysctls, network }: Hold,
  powers: Powers,
): CompiledProgram {
  const program = new SystemProgram(4);
  if (powers.kind === 'user') {
    program.call('unshare', [namespaces.user], { what: 'make a user namespace' });
    writeFile(program, '/proc/self/setgroups', 'deny');
    writeFile(program, '/proc/self/uid_map', `0 ${powers.uid} 1`);
    writeFile(program, '/proc/self/gid_map', `0 ${powers.gid} 1`);
  }
  protect(program); // not before: what cannot be inspected cannot write its own maps either
  const machine = network && openMachineSide(program);
  program.call('unshare', [namespaces.mount | sharedOf(pod)], { what: "make the pod's namespaces" });
  if (network !== undefined && machine !== undefined) makeInterface(program, network, machine, statusSocket);
  if (!pod.hostNetwork && hostname !== '') {
    const name = Buffer.from(hostname);
    program.call('sethostname', [program.bytes(name), name.length], { what: 'set the host name' });
  }
  for (const [name, value] of Object.entries(sysctls)) {
    writeFile(program, `/proc/sys/${name.replaceAll('.', '/')}`, value);
  }
  if (pod.shareProcessNamespace) beBorn(program, clone.newPid);
  const none = program.text('none');
  program.call('mount', [none, program.text('/'), 0, mounting.recursive | mounting.private, 0]);
  const place = program.text(work);
  const bare = mounting.noSetuid | mounting.noDevices | mounting.noExec;
  program.call('mount', [none, place, program.text('tmpfs'), bare, program.text('size=64m,mode=555')]);
  program.call('chdir', [place]);
  if (files !== undefined) writeTree(program, files);
  if (pod.shareProcessNamespace) {
    // The containers of the pod take their /proc from here: made by one of them, it could be made only from inside.
    const proc = program.text('proc');
    program.call('mkdirat', [currentDirectory, proc, 0o555]);
    program.call('mount', [proc, proc, proc, bare, 0], { what: 'mount /proc' });
  }
  const here = program.text('.');
  program.call('pivot_root', [here, here], { what: 'move the root' });
  program.call('umount2', [here, detach]);
  program.call('chdir', [program.text('/')]);
  const nobody = powers.kind === 'root' ? 65534 : 0;
  become(
    program,
    { uid: nobody, gid: nobody, groups: [], noNewPrivileges: true, capabilities: [], ambient: [], seccomp: 'default' },
    powers,
  );
  program.call('prctl', [prctl.name, program.text(`mountlet-${purpose}`)]);
  endWithSpawner(program);
  // Children that are handed to the first process of a namespace are reaped by the kernel when it ignores their end.
  program.call('rt_sigaction', [17, program.words([1, 0, 0, 0]), 0, 8]);
  // Of an ordinary user's pod the user has to be able to join the namespaces. There is nothing in it to be taken.
  program.call('prctl', [prctl.dumpable, powers.kind === 'user' ? 1 : 0]);
  program.call('close_range', [0, 0xffffffff, 0]);
  const wait: Label = { step: undefined };
  program.mark(wait);
  program.call('ppoll', [0, 0, 0, 0], { onError: wait, onPositive: wait });
  return program.compile(powers.architecture, statusSocket);
}

/** No process of the same user may inspect this one, or take over its descriptors. Undone by the final execve. */
function protect(program: SystemProgram): void {
  program.call('prctl', [prctl.dumpable, 0]);
  program.call('umask', [0o022], { onError: 'ignore' });
}

function joinGroups(program: SystemProgram, groups: readonly string[]): void {
  for (const path of groups) writeFile(program, path, '0');
}

/** What all containers of a pod have, and the machine has not. */
function sharedOf({ hostIpc, hostNetwork, address }: PodNamespaces): number {
  return (
    (hostIpc ? 0 : namespaces.ipc) |
    (hostNetwork ? 0 : namespaces.uts) |
    (address === undefined ? 0 : namespaces.network)
  );
}

function joinHolder(program: SystemProgram, pod: PodNamespaces, { kind }: Powers): void {
  const flags =
    (kind === 'user' ? namespaces.user : 0) | sharedOf(pod) | (pod.shareProcessNamespace ? namespaces.pid : 0);
  if (flags !== 0) program.call('setns', [firstJoined, flags], { what: "enter the pod's namespaces" });
}

/** Goes on as a child that the spawner has too, in the pid namespace that was joined or a new one; the parent reports and ends. */
function beBorn(program: SystemProgram, flags: number): void {
  const [parent, go]: [Label, Label] = [{ step: undefined }, { step: undefined }];
  program.call('clone', [flags | clone.parent | clone.childSignal, 0, 0, 0, 0], {
    what: 'start a process',
    onPositive: parent,
  });
  program.call('read', [statusSocket, program.bytes(Buffer.alloc(8)), 1], { onPositive: go });
  program.call('exit', [0]); // the other side is closed
  program.mark(parent);
  program.reportResult(statusSocket);
  program.call('exit', [0]);
  program.mark(go);
}

/** A copy of what a holder has mounted: the pod's /proc, which only a process of its pid namespace can mount, or files. */
function treeOf(program: SystemProgram, holder: number, path: string): number {
  const flags = openFlags.closeOnExec;
  const own = program.open('openat', [currentDirectory, program.text('/proc/self/ns/mnt'), flags, 0]);
  program.call('setns', [holder, namespaces.mount], { what: "enter the pod's namespaces" });
  const copied = program.open('open_tree', [currentDirectory, program.text(path), tree.clone | tree.closeOnExec], {
    what: `take ${path} of the pod`,
  });
  program.call('setns', [own, namespaces.mount]);
  program.close(own);
  return copied;
}

function become(program: SystemProgram, identity: Identity, powers: Powers): void {
  const { uid, gid, groups, noNewPrivileges, capabilities, ambient, seccomp } = identity;
  const numberOf = (name: string): number => capabilityNames.indexOf(name);
  const maskOf = (names: readonly string[]): bigint =>
    names.reduce((mask, name) => mask | (1n << BigInt(numberOf(name))), 0n);
  for (const [number, name] of capabilityNames.entries()) {
    const isThere = (powers.boundingSet & (1n << BigInt(number))) !== 0n || powers.kind === 'user';
    if (isThere && !capabilities.includes(name)) {
      // A kernel older than the capability does not have it either.
      program.call('prctl', [prctl.dropBounding, number, 0, 0, 0], { onError: 'ignore' });
    }
  }
  // A user namespace made by an ordinary user has no say over groups.
  if (powers.kind === 'root') {
    const list = Buffer.alloc(groups.length * 4);
    groups.forEach((group, index) => list.writeUInt32LE(group, index * 4));
    program.call('setgroups', [groups.length, program.bytes(list)], { what: 'set the groups' });
  }
  program.call('setresgid', [gid, gid, gid], { what: `become group ${gid}` });
  program.call('prctl', [prctl.keepCapabilities, 1, 0, 0, 0]);
  program.call('setresuid', [uid, uid, uid], { what: `become user ${uid}` });
  const all = powers.kind === 'user' ? (1n << BigInt(capabilityNames.length)) - 1n : powers.permitted;
  const filter = seccomp === 'default' ? defaultSeccompFilter(powers.architecture, capabilities) : undefined;
  const install = (): void => {
    if (filter === undefined) return;
    const descriptor = program.words([filter.length / 8, program.bytes(filter)]);
    program.call('seccomp', [1, 0, descriptor], { what: 'install the seccomp filter' });
  };
  if (noNewPrivileges) {
    program.call('prctl', [prctl.noNewPrivileges, 1, 0, 0, 0]);
  } else if (powers.kind === 'root') {
    // Without no_new_privs a filter takes SYS_ADMIN, which the change of the user took away.
    setCapabilities(program, all, all, 0n);
    install();
  } else {
    install();
  }
  const effective = uid === 0 ? maskOf(capabilities) & all : maskOf(ambient);
  setCapabilities(program, effective, effective, maskOf(ambient));
  for (const name of ambient) {
    program.call('prctl', [prctl.ambient, 2, numberOf(name), 0, 0], { what: `raise ${name}` });
  }
  if (noNewPrivileges) install();
}

function setCapabilities(program: SystemProgram, effective: bigint, permitted: bigint, inheritable: bigint): void {
  const header = Buffer.alloc(8);
  header.writeUInt32LE(0x20080522, 0); // version 3: two words of 32 bits for each set
  const sets = Buffer.alloc(24);
  for (const [place, set] of [effective, permitted, inheritable].entries()) {
    sets.writeUInt32LE(Number(set & 0xffffffffn), place * 4);
    sets.writeUInt32LE(Number(set >> 32n), 12 + place * 4);
  }
  program.call('capset', [program.bytes(header), program.bytes(sets)], { what: 'give up capabilities' });
}

/** The last steps: streams, directory, and the program itself. */
function execute(program: SystemProgram, identity: Identity, command: Command, tty: boolean): void {
  program.call('setsid', [], { onError: 'ignore' });
  if (tty) takeTerminal(program);
  else
    for (const stream of [0, 1, 2]) program.call('fchown', [stream, identity.uid, identity.gid], { onError: 'ignore' });
  endWithSpawner(program);
  program.call('chdir', [program.text(command.workingDirectory)], { what: 'change to the working directory' });
  program.call('close_range', [statusSocket, 0xffffffff, 4]); // when the program is executed, and not before: a failure is reported
  // A later variable of the same name wins, as in the environment of a process that the engines start.
  const variables = [...new Map(command.environment.map(({ name, value }) => [name, value]))];
  const words = program.words([...command.words.map((word) => program.text(word)), 0]);
  const environment = program.words([...variables.map(([name, value]) => program.text(`${name}=${value}`)), 0]);
  const candidates = programCandidates(command.words[0] ?? '', new Map(variables).get('PATH') ?? '');
  for (const [index, path] of candidates.entries()) {
    const isLast = index === candidates.length - 1;
    program.call('execve', [program.text(path), words, environment], isLast ? {} : { onError: 'ignore' });
  }
}

/** A spawner that was killed cannot learn how its children end: they end with it. */
function endWithSpawner(program: SystemProgram): void {
  program.call('prctl', [prctl.parentDeathSignal, 9]);
  // One that was killed before left a closed socket.
  const sockets = program.words([statusSocket]);
  program.call('ppoll', [sockets, 1, program.words([0, 0]), 0, 8], { onPositive: program.failure });
}

/** Where execvp(3) would look. */
function programCandidates(name: string, path: string): string[] {
  return name.includes('/') || name === '' ? [name] : path.split(':').map((directory) => `${directory || '.'}/${name}`);
}

/** A new terminal of the container's own instance; its other side goes to the spawner. */
function takeTerminal(program: SystemProgram): void {
  const flags = openFlags.readWrite | openFlags.noTerminal | openFlags.closeOnExec;
  const master = program.open('openat', [currentDirectory, program.text('/dev/ptmx'), flags | 0o4000, 0], {
    what: 'open a terminal',
  });
  program.call('ioctl', [master, terminal.unlock, program.bytes(Buffer.alloc(8))], { what: 'open a terminal' });
  const slave = program.open('ioctl', [master, terminal.openPeer, flags], { what: 'open a terminal' });
  program.sendDescriptor(statusSocket, master);
  program.call('ioctl', [slave, terminal.makeControlling, 0], { what: 'take the terminal' });
  for (const stream of [0, 1, 2]) program.call('dup3', [slave, stream, 0]);
}

function writeFile(program: SystemProgram, path: string, text: string): void {
  const what = `write ${path}`;
  const bytes = Buffer.from(text);
  const flags = openFlags.writeOnly | openFlags.closeOnExec;
  const file = program.open('openat', [currentDirectory, program.text(path), flags, 0], { what });
  program.call('write', [file, program.bytes(bytes), bytes.length], { what });
  program.close(file);
}
