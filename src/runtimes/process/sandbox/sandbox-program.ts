/** The files of a container as system calls: trees that are kept in memory, and a root made of what sandbox-plan.ts decided. */
import type { SystemProgram } from '../../../linux/system-program.ts';
import type { FileEntry } from './host-files.ts';
import type { PlannedMount, SandboxPlan } from './sandbox-plan.ts';

export const currentDirectory = -100; // AT_FDCWD
export const openFlags = {
  writeOnly: 1,
  readWrite: 2,
  create: 0o100,
  noTerminal: 0o400,
  closeOnExec: 0o2000000,
  path: 0o10000000,
};
export const mounting = {
  noSetuid: 2,
  noDevices: 4,
  noExec: 8,
  readOnly: 1,
  recursive: 16384,
  private: 1 << 18,
  slave: 1 << 19,
};
export const tree = { clone: 1, closeOnExec: 0o2000000, emptyPath: 0x1000, recursive: 0x8000 } as const;
const fromAndToDescriptors = 0x04 | 0x40; // MOVE_MOUNT_F_EMPTY_PATH | MOVE_MOUNT_T_EMPTY_PATH
const resolveBeneathWithoutLinks = 0x08 | 0x04; // RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS

/** The name of the tree in a holder's root, and in the work directory of a container. */
export const filesName = 'files';

export function writeTree(program: SystemProgram, files: readonly FileEntry[]): void {
  program.call('umask', [0], { onError: 'ignore' });
  const at = (path: string): ReturnType<SystemProgram['text']> => program.text(`${filesName}/${path}`);
  program.call('mkdirat', [currentDirectory, program.text(filesName), 0o755]);
  for (const entry of files) {
    const what = `write ${entry.path}`;
    if (entry.kind === 'directory') program.call('mkdirat', [currentDirectory, at(entry.path), entry.mode], { what });
    else if (entry.kind === 'link')
      program.call('symlinkat', [program.text(entry.to), currentDirectory, at(entry.path)], { what });
    else {
      const flags = openFlags.writeOnly | openFlags.create | openFlags.closeOnExec;
      const file = program.open('openat', [currentDirectory, at(entry.path), flags, entry.mode], { what });
      program.call('write', [file, program.bytes(entry.content), entry.content.length], { what });
      program.close(file);
    }
  }
}

/** Makes the root of a container at `m` of its work directory, from trees that other processes keep and from what was planned. */
export function makeRoot(
  program: SystemProgram,
  {
    work,
    writableBytesMax,
    plan,
  }: { readonly work: string; readonly writableBytesMax: number; readonly plan: SandboxPlan },
  sharedProc: number | undefined,
  files: number | undefined,
  shared: ReadonlyMap<PlannedMount, number>,
): void {
  const bare = mounting.noSetuid | mounting.noDevices;
  const options = program.text(`size=${writableBytesMax},mode=755`);
  program.call('mount', [program.text('mountlet'), program.text(work), program.text('tmpfs'), bare, options], {
    what: 'mount the writable layer',
  });
  const inWork = (path: string): ReturnType<SystemProgram['text']> => program.text(`${work}/${path}`);
  const directories = [
    'm',
    filesName,
    ...plan.directories,
    ...plan.files.map(parentOf),
    ...plan.links.map(({ path }) => parentOf(path)),
  ];
  for (const path of new Set(directories.flatMap(withParents))) {
    program.call('mkdirat', [currentDirectory, inWork(path), 0o755]);
  }
  for (const { path, mode } of plan.modes) program.call('fchmodat', [currentDirectory, inWork(path), mode]);
  for (const path of plan.files) {
    const flags = openFlags.writeOnly | openFlags.create | openFlags.closeOnExec;
    program.close(program.open('openat', [currentDirectory, inWork(path), flags, 0o644]));
  }
  for (const { path, to } of plan.links) program.call('symlinkat', [program.text(to), currentDirectory, inWork(path)]);

  if (files !== undefined) {
    const [empty, place] = [program.text(''), inWork(filesName)];
    program.call('move_mount', [files, empty, currentDirectory, place, 0x04], { what: 'show the files' });
    program.close(files);
  }
  const target = `${work}/m`;
  let root: number | undefined;
  for (const mount of plan.mounts) {
    const what = `mount ${JSON.stringify(mount.target)}`;
    if (mount.type === 'proc' && sharedProc !== undefined) {
      root = attach(program, sharedProc, mount, root, target, what);
    } else if (mount.type === 'none') {
      root = attach(program, shared.get(mount) ?? copyOf(program, mount), mount, root, target, what);
    } else {
      const { flags, data } = classicOptions(mount.options);
      const place = program.text(mount.target === '/' ? target : `${target}${mount.target}`);
      const words = [program.text(mount.source), place, program.text(mount.type), flags, program.text(data)];
      program.call('mount', words, { what });
    }
    root ??= program.open('openat', [
      currentDirectory,
      program.text(target),
      openFlags.path | openFlags.closeOnExec,
      0,
    ]);
  }
}

/** The mounts whose own mounts are to reach the host: to be copied while mounts here are still peers of the host's. */
export function sharedTreesOf(program: SystemProgram, { mounts }: SandboxPlan): ReadonlyMap<PlannedMount, number> {
  const shared = mounts.filter(({ options }) => options.includes('rshared'));
  return new Map(shared.map((mount) => [mount, copyOf(program, mount)]));
}

function copyOf(program: SystemProgram, { source, target, options }: PlannedMount): number {
  const depth = options.includes('rbind') ? tree.recursive : 0;
  return program.open('open_tree', [currentDirectory, program.text(source), tree.clone | tree.closeOnExec | depth], {
    what: `mount ${JSON.stringify(target)}: ${JSON.stringify(source)}`,
  });
}

/**
 * Puts a tree that is mounted nowhere yet at its place. The place is walked to below the new root without following links, so
 * that a container that replaces a directory of a volume by a link gains nothing.
 */
function attach(
  program: SystemProgram,
  source: number,
  mount: PlannedMount,
  root: number | undefined,
  target: string,
  what: string,
): number | undefined {
  const empty = program.text('');
  const { options } = mount;
  const has = (option: string): boolean => options.includes(option);
  const attributes =
    (has('ro') || has('rro') ? mounting.readOnly : 0) |
    (has('nosuid') ? mounting.noSetuid : 0) |
    (has('nodev') ? mounting.noDevices : 0) |
    (has('noexec') ? mounting.noExec : 0);
  const set = (value: number, sharing: number, depth: number): void => {
    const change = program.words([value, 0, sharing, 0]);
    program.call('mount_setattr', [source, empty, tree.emptyPath | depth, change, 32], { what });
  };
  if (attributes !== 0) set(attributes, 0, has('rro') ? tree.recursive : 0);
  if (!has('rshared')) set(0, has('rslave') ? mounting.slave : mounting.private, tree.recursive);
  const place =
    root === undefined
      ? program.open('openat', [currentDirectory, program.text(target), openFlags.path | openFlags.closeOnExec, 0])
      : program.open(
          'openat2',
          [
            root,
            program.text(mount.target.slice(1)),
            program.words([openFlags.path | openFlags.closeOnExec, 0, resolveBeneathWithoutLinks]),
            24,
          ],
          { what },
        );
  program.call('move_mount', [source, empty, place, empty, fromAndToDescriptors], { what });
  program.close(place);
  program.close(source);
  return root;
}

/** For mount(2): the flags it has, and the rest as data. */
function classicOptions(options: readonly string[]): { flags: number; data: string } {
  const flagOf: Readonly<Record<string, number>> = {
    ro: mounting.readOnly,
    nosuid: mounting.noSetuid,
    nodev: mounting.noDevices,
    noexec: mounting.noExec,
    rw: 0,
  };
  const flags = options.reduce((all, option) => all | (flagOf[option] ?? 0), 0);
  return { flags, data: options.filter((option) => flagOf[option] === undefined).join(',') };
}

function parentOf(path: string): string {
  return path.slice(0, Math.max(0, path.lastIndexOf('/')));
}

function withParents(path: string): string[] {
  const names = path.split('/').filter(Boolean);
  return names.map((_, index) => names.slice(0, index + 1).join('/'));
}
