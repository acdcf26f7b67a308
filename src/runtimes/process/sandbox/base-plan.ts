/**
 * The part of a container's root that is there before its volumes: the host read-only, its own /proc, /dev, /tmp and /run,
 * and what must not be seen or written covered up. Pure.
 */
import { isBelow, resolveInRoot } from './root-path.ts';
import type { HostView, SandboxBuilder, SandboxRequest } from './sandbox-plan.ts';

/** What a container's /dev is made of: bound from the host, because making devices takes a privilege. */
const deviceFiles: readonly string[] = ['null', 'zero', 'full', 'random', 'urandom', 'tty'];

/** Kernel interfaces that show or change the whole machine. The lists are those of the container engines. */
const maskedFiles = ['/proc/kcore', '/proc/keys', '/proc/latency_stats', '/proc/timer_list', '/proc/sched_debug'];
const maskedDirectories = ['/proc/acpi', '/proc/scsi', '/sys/firmware'];
const readOnlyPaths = ['/proc/bus', '/proc/fs', '/proc/irq', '/proc/sys', '/proc/sysrq-trigger'];

/** Host mounts below these are part of the system and shown; anything else mounted on the host is not. */
const systemDirectories = '/usr /bin /sbin /lib /lib32 /lib64 /libx32 /etc /opt /var /home /root /srv /nix /gnu'.split(
  ' ',
);
const systemFileSystems = /^(ext[234]|xfs|btrfs|zfs|f2fs|bcachefs|erofs|squashfs|nfs4?|9p|virtiofs|overlay)$/;
/** How programs name their own streams and terminals. */
const deviceLinks: Readonly<Record<string, string>> = {
  fd: '/proc/self/fd',
  stdin: '/proc/self/fd/0',
  stdout: '/proc/self/fd/1',
  stderr: '/proc/self/fd/2',
  ptmx: 'pts/ptmx',
};
const systemMountsMax = 64; // a build server has hundreds below /var/lib: those are not the system

export function basePlan(builder: SandboxBuilder, request: SandboxRequest, host: HostView): void {
  const { view, technique, hidden, work } = request;
  const covered = [...hidden, work, '/proc', '/sys', '/dev', '/tmp', '/run'];
  const isShown = (mountPoint: string): boolean =>
    view.root === '/' || view.directories.some((directory) => isBelow(directory, mountPoint));
  const shown = host.mounts
    .filter(({ mountPoint, fileSystem }) => {
      return (
        systemFileSystems.test(fileSystem) &&
        isShown(mountPoint) &&
        systemDirectories.some((directory) => isBelow(directory, mountPoint)) &&
        !view.directories.includes(mountPoint) &&
        !covered.some((path) => isBelow(path, mountPoint))
      );
    })
    .slice(0, systemMountsMax);

  if (technique === 'overlay') builder.layered('/', view.root, 'skel');
  else boundRoot(builder, request, host);
  kernelInterfaces(builder, request, host);
  ownDirectories(builder, request, host);
  // After those: a directory of the machine may be below its /tmp.
  for (const [index, path] of view.directories.entries()) showDirectory(builder, request, host, path, `dirs/${index}`);
  for (const { mountPoint } of shown) builder.host(mountPoint, mountPoint, 'none', ['bind', 'ro', 'rprivate']);

  for (const path of hidden) {
    const seen = builder.resolve(path);
    if (seen.kind === 'missing' || isBelow('/tmp', seen.path) || isBelow('/run', seen.path)) continue;
    builder.hide(seen.path, { kind: seen.kind });
  }
}

/** One bind for each entry of the root. */
function boundRoot(builder: SandboxBuilder, request: SandboxRequest, host: HostView): void {
  const { root } = request.view;
  const at = (name: string): string => (root === '/' ? `/${name}` : `${root}/${name}`);
  builder.own('/', 'root', ['ro', 'nodev', 'nosuid'], (path) => {
    const seen = path.includes('/') ? undefined : host.look(at(path));
    return seen?.kind === 'link' ? seen : undefined;
  });
  const own = new Set(['proc', 'dev', 'tmp', 'run', 'sys']);
  for (const name of host.entries(root)) {
    const seen = host.look(at(name));
    if (seen?.kind === 'link') builder.link(`root/${name}`, seen.to);
    if (seen === undefined || seen.kind === 'link' || own.has(name)) continue;
    if (seen.kind === 'file')
      builder.host(at(name), builder.point(`/${name}`, 'file'), 'none', ['rbind', 'ro', 'rslave']);
    else showDirectory(builder, request, host, `/${name}`, `skel/${name}`, at(name));
  }
}

/**
 * A directory of the host at the same place in the container. As root it always has a layer of its own on top. In a user
 * namespace only where a mount point is missing, because the kernel allows that only for directories without mounts in them.
 */
function showDirectory(
  builder: SandboxBuilder,
  { technique, volumes, devices }: SandboxRequest,
  host: HostView,
  path: string,
  own: string,
  source = path,
): void {
  const seen = host.look(source);
  if (seen === undefined || seen.kind === 'link') return;
  const place = builder.point(path, seen.kind);
  const isMissing = ({ target }: { readonly target: string }): boolean => {
    const found = resolveInRoot(target, (at) =>
      isBelow(path, at) ? host.look(`${source}${at.slice(path.length)}`) : host.look(at),
    );
    return found.kind === 'missing' && isBelow(path, found.path);
  };
  const hasMounts = host.mounts.some(({ mountPoint }) => mountPoint !== source && isBelow(source, mountPoint));
  const isLayered = technique === 'overlay' || (!hasMounts && [...volumes, ...devices].some(isMissing));
  if (seen.kind === 'directory' && isLayered) builder.layered(place, source, own);
  else builder.host(source, place, 'none', ['rbind', 'ro', 'nosuid', 'nodev', 'rslave']);
}

function kernelInterfaces(
  builder: SandboxBuilder,
  { technique, privileged, ownNetwork }: SandboxRequest,
  host: HostView,
): void {
  const root = builder.inWork('m');
  const protectedOptions = ['nosuid', 'nodev', 'noexec'];
  builder.point('/proc', 'directory');
  builder.host('proc', '/proc', 'proc', protectedOptions);
  if (host.look('/sys') !== undefined) {
    builder.point('/sys', 'directory');
    if (ownNetwork) builder.host('sysfs', '/sys', 'sysfs', ['ro', ...protectedOptions]);
    // Without what is mounted below it: no cgroups to write to. In a user namespace the kernel allows it only as a whole.
    else builder.host('/sys', '/sys', 'none', [technique === 'overlay' ? 'bind' : 'rbind', 'ro', ...protectedOptions]);
  }
  if (privileged) return;
  for (const path of maskedFiles) {
    if (host.look(path)?.kind === 'file') builder.host('/dev/null', path, 'none', ['bind', 'ro']);
  }
  for (const path of maskedDirectories) {
    if (host.look(path)?.kind === 'directory') builder.own(path, 'hidden', ['ro', 'nosuid', 'nodev', 'noexec']);
  }
  for (const path of readOnlyPaths) {
    if (host.look(path) !== undefined)
      builder.host(`${root}${path}`, path, 'none', ['bind', 'ro', ...protectedOptions]);
  }
}

function ownDirectories(
  builder: SandboxBuilder,
  { technique, readOnlyRoot, resolver }: SandboxRequest,
  host: HostView,
): void {
  builder.point('/dev', 'directory');
  builder.own('/dev', 'dev', ['nosuid', 'noexec']);
  for (const [name, to] of Object.entries(deviceLinks)) builder.link(`dev/${name}`, to);
  for (const name of deviceFiles) {
    if (host.look(`/dev/${name}`) === undefined) continue;
    builder.point(`/dev/${name}`, 'file');
    // It can be written to all the same, but its mode and owner, which are the machine's, stay.
    builder.host(`/dev/${name}`, `/dev/${name}`, 'none', ['bind', 'ro']);
  }
  builder.point('/dev/pts', 'directory');
  const group = technique === 'overlay' ? ['gid=5'] : []; // the group `tty`; another group than ours takes a privilege
  const terminals = ['newinstance', 'ptmxmode=0666', 'mode=0620', ...group, 'nosuid', 'noexec'];
  builder.host('devpts', '/dev/pts', 'devpts', terminals);
  builder.point('/dev/mqueue', 'directory');
  builder.host('mqueue', '/dev/mqueue', 'mqueue', ['nosuid', 'nodev', 'noexec']);
  builder.point('/dev/shm', 'directory');
  builder.directory('shm', 0o1777);
  builder.own('/dev/shm', 'shm', ['nosuid', 'nodev', 'noexec']);
  for (const [name, mode] of [
    ['tmp', 0o1777],
    ['run', 0o755],
  ] as const) {
    builder.point(`/${name}`, 'directory');
    builder.directory(name, mode);
    builder.own(`/${name}`, name, ['nosuid', 'nodev', ...(readOnlyRoot ? ['ro'] : [])]);
  }
  if (resolver === undefined) keepResolver(builder, host);
  else builder.host(resolver, builder.point('/etc/resolv.conf', 'file'), 'none', ['bind', 'ro']);
}

/** Names must resolve as on the machine now: its file may be a link into /run, or have changed since the view was made. */
function keepResolver(builder: SandboxBuilder, host: HostView): void {
  const { path, kind } = resolveInRoot('/etc/resolv.conf', (at) => host.look(at));
  if (kind !== 'file') return;
  const place = isBelow('/run', path) ? path : '/etc/resolv.conf';
  builder.host(path, builder.point(place, 'file'), 'none', ['bind', 'ro']);
}
