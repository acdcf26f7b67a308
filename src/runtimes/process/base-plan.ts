/**
 * The part of a container's root that is there before its volumes: the host read-only, its own /proc, /dev, /tmp and /run,
 * and what must not be seen or written covered up. Pure.
 */
import { below, isBelow, resolveInRoot } from './root-path.ts';
import type { HostView, SandboxBuilder, SandboxRequest } from './sandbox-plan.ts';

/** What a container's /dev is made of: bound from the host, because making devices takes a privilege. */
export const deviceFiles: readonly string[] = ['null', 'zero', 'full', 'random', 'urandom', 'tty'];

/** Kernel interfaces that tell about, or change, the whole machine. The lists are those of the container engines. */
const maskedFiles = ['/proc/kcore', '/proc/keys', '/proc/latency_stats', '/proc/timer_list', '/proc/sched_debug'];
const maskedDirectories = ['/proc/acpi', '/proc/scsi', '/sys/firmware'];
const readOnlyPaths = ['/proc/bus', '/proc/fs', '/proc/irq', '/proc/sys', '/proc/sysrq-trigger'];

/** Host mounts below these are part of the system and shown; anything else mounted on the host is not. */
const systemDirectories = '/usr /bin /sbin /lib /lib32 /lib64 /libx32 /etc /opt /var /home /root /srv /nix /gnu'.split(
  ' ',
);
const systemFileSystems = /^(ext[234]|xfs|btrfs|zfs|f2fs|bcachefs|erofs|squashfs|nfs4?|9p|virtiofs|overlay)$/;
const systemMountsMax = 64; // a build server has hundreds below /var/lib: those are not the system

export function basePlan(builder: SandboxBuilder, request: SandboxRequest, host: HostView): void {
  const covered = [...request.hidden, request.work, '/proc', '/sys', '/dev', '/tmp', '/run'];
  const shown = host.mounts
    .filter(({ mountPoint, fileSystem }) => {
      return (
        systemFileSystems.test(fileSystem) &&
        systemDirectories.some((directory) => isBelow(directory, mountPoint)) &&
        !covered.some((path) => isBelow(path, mountPoint))
      );
    })
    .slice(0, systemMountsMax);

  if (request.technique === 'overlay') overlayRoot(builder, request);
  else boundRoot(builder, request, host);
  for (const { mountPoint } of shown) {
    builder.host(mountPoint, mountPoint, 'none', ['bind', 'ro', ...builder.lockedOptions(mountPoint), 'rprivate']);
  }

  kernelInterfaces(builder, request, host);
  ownDirectories(builder, request, host);

  for (const path of request.hidden) {
    const seen = resolveInRoot(path, (at) => host.look(at));
    if (seen.kind === 'missing' || isBelow('/tmp', seen.path) || isBelow('/run', seen.path)) continue;
    if (seen.kind === 'file')
      builder.host('/dev/null', seen.path, 'none', ['bind', 'ro', ...builder.lockedOptions('/dev')]);
    else builder.own(seen.path, 'hidden', ['ro', 'nosuid', 'nodev', 'noexec']);
  }
}

function overlayRoot(builder: SandboxBuilder, { work, writableRoot }: SandboxRequest): void {
  builder.directory('skel');
  if (writableRoot) builder.directory('layer');
  const layers = writableRoot
    ? ['rw', `lowerdir=/`, `upperdir=${work}/skel`, `workdir=${work}/layer`]
    : ['ro', `lowerdir=${work}/skel:/`];
  // Not nosuid: what a container may gain by a setuid program is decided by no-new-privileges and the bounding set.
  builder.layered('/', 'skel', { source: 'overlay', type: 'overlay', options: ['nodev', ...layers] });
}

/**
 * One bind for each entry of `/`. A directory that misses a mount point becomes an overlay, which the kernel allows for
 * directories without mounts in them.
 */
function boundRoot(builder: SandboxBuilder, { volumes, devices }: SandboxRequest, host: HostView): void {
  builder.own('/', 'root', ['ro', 'nodev', 'nosuid'], (path) => {
    const seen = path.includes('/') ? undefined : host.look(`/${path}`);
    return seen?.kind === 'link' ? seen : undefined;
  });
  const own = new Set(['proc', 'dev', 'tmp', 'run', 'sys']);
  for (const name of host.entries('/')) {
    const path = `/${name}`;
    const seen = host.look(path);
    // Links of the root are part of the skeleton that every container's tmpfs starts with.
    if (seen === undefined || seen.kind === 'link' || own.has(name)) continue;
    builder.point(path, seen.kind);
    const missing = [...volumes, ...devices]
      .map(({ target }) => resolveInRoot(target, (at) => host.look(at)))
      .some((target) => target.kind === 'missing' && isBelow(path, target.path));
    const mounted = host.mounts.some(({ mountPoint }) => mountPoint !== path && isBelow(path, mountPoint));
    if (missing && !mounted) {
      builder.directory(`skel/${name}`);
      const source = `lowerdir=${builder.inWork(`skel/${name}`)}:${path}`;
      builder.layered(path, `skel/${name}`, {
        source: 'overlay',
        type: 'overlay',
        options: ['ro', 'nodev', 'nosuid', source],
      });
    } else {
      builder.host(path, path, 'none', [
        ...new Set(['rbind', 'ro', 'nosuid', 'nodev', ...builder.lockedOptions(path)]),
        'rslave',
      ]);
    }
  }
}

function kernelInterfaces(builder: SandboxBuilder, { technique, privileged }: SandboxRequest, host: HostView): void {
  const root = builder.inWork('m');
  const protectedOptions = ['nosuid', 'nodev', 'noexec'];
  builder.point('/proc', 'directory');
  builder.host('proc', '/proc', 'proc', protectedOptions);
  if (host.look('/sys') !== undefined) {
    builder.point('/sys', 'directory');
    // Without what is mounted below it: no cgroups to write to. In a user namespace the kernel allows it only as a whole.
    builder.host('/sys', '/sys', 'none', [
      technique === 'overlay' ? 'bind' : 'rbind',
      'ro',
      ...protectedOptions,
      'relatime',
    ]);
  }
  if (privileged) return;
  for (const path of maskedFiles) {
    if (host.look(path)?.kind === 'file')
      builder.host('/dev/null', path, 'none', ['bind', ...builder.lockedOptions('/dev')]);
  }
  for (const path of maskedDirectories) {
    if (host.look(path)?.kind === 'directory') builder.own(path, 'hidden', ['ro', 'nosuid', 'nodev', 'noexec']);
  }
  for (const path of readOnlyPaths) {
    if (host.look(path) !== undefined)
      builder.host(`${root}${path}`, path, 'none', ['bind', 'ro', ...protectedOptions]);
  }
}

function ownDirectories(builder: SandboxBuilder, { technique }: SandboxRequest, host: HostView): void {
  builder.point('/dev', 'directory');
  builder.own('/dev', 'dev', ['nosuid', 'noexec']);
  for (const name of deviceFiles) {
    if (host.look(`/dev/${name}`) === undefined) continue;
    builder.point(`/dev/${name}`, 'file');
    builder.host(`/dev/${name}`, `/dev/${name}`, 'none', ['bind', ...builder.lockedOptions('/dev')]);
  }
  builder.point('/dev/pts', 'directory');
  const group = technique === 'overlay' ? ['gid=5'] : []; // the group `tty`; another group than ours takes a privilege
  builder.host('devpts', '/dev/pts', 'devpts', [
    'newinstance',
    'ptmxmode=0666',
    'mode=0620',
    ...group,
    'nosuid',
    'noexec',
  ]);
  builder.point('/dev/mqueue', 'directory');
  builder.host('mqueue', '/dev/mqueue', 'mqueue', ['nosuid', 'nodev', 'noexec']);
  builder.point('/dev/shm', 'directory');
  builder.own('/dev/shm', 'shm', ['nosuid', 'nodev', 'noexec']);
  for (const name of ['tmp', 'run']) {
    builder.point(`/${name}`, 'directory');
    builder.own(`/${name}`, name, ['nosuid', 'nodev']);
  }
  keepResolver(builder, host);
}

/** /etc/resolv.conf is often a link into /run, which a container has for itself: names must resolve all the same. */
function keepResolver(builder: SandboxBuilder, host: HostView): void {
  const { path, kind } = resolveInRoot('/etc/resolv.conf', (at) => host.look(at));
  if (kind !== 'file' || !isBelow('/run', path) || below('/run', path) === '') return;
  builder.host(path, builder.point(path, 'file'), 'none', ['bind', 'ro', ...builder.lockedOptions(path)]);
}
