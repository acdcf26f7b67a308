/**
 * Where a path leads inside of a root directory, links and `..` included, without ever leaving that root: `/var/run/x` is
 * `/run/x` where /var/run is a link. Pure but for what `look` asks.
 */
import { closeSync, constants, openSync } from 'node:fs';
import { basename, dirname, join } from 'node:path';
import { errorCode } from '../../../base/errors.ts';
import { resolveLinks, safeMakeDirectory, safeOpen } from '../../../disk/paths/safe-open.ts';
import { RuntimeError } from '../../runtime.ts';
import type { VolumePoint } from './sandbox-plan.ts';

export type PathLook =
  | { readonly kind: 'directory' | 'file' }
  | { readonly kind: 'link'; readonly to: string }
  | undefined;

export interface RootPath {
  /** Absolute in the root and free of links, as far as it exists. */
  readonly path: string;
  readonly kind: 'directory' | 'file' | 'missing';
}

const linksMax = 40; // as the kernel

export function resolveInRoot(path: string, look: (path: string) => PathLook): RootPath {
  const left = path.split('/').toReversed();
  const done: string[] = [];
  let links = 0;
  let kind: RootPath['kind'] = 'directory';
  for (let name = left.pop(); name !== undefined; name = left.pop()) {
    if (name === '' || name === '.') continue;
    if (name === '..') {
      done.pop();
      kind = 'directory';
      continue;
    }
    if (kind === 'file') throw new RuntimeError(`Cannot mount at "${path}": "/${done.join('/')}" is not a directory`);
    const here = `/${[...done, name].join('/')}`;
    const seen: PathLook = kind === 'missing' ? undefined : look(here);
    if (seen?.kind === 'link') {
      links += 1;
      if (links > linksMax) throw new RuntimeError(`Cannot mount at "${path}": too many levels of symbolic links`);
      if (seen.to.startsWith('/')) done.length = 0;
      left.push(...seen.to.split('/').toReversed());
      continue;
    }
    done.push(name);
    kind = seen?.kind ?? 'missing';
  }
  return { path: `/${done.join('/')}`, kind: done.length === 0 ? 'directory' : kind };
}

export function isBelow(directory: string, path: string): boolean {
  return path === directory || path.startsWith(directory === '/' ? '/' : `${directory}/`);
}

/** The way from a directory to a path below it: `a/b`, or nothing for the directory itself. */
export function pathBelow(directory: string, path: string): string {
  return directory === '/' ? path.slice(1) : path.slice(directory.length + 1);
}

/**
 * Makes the mount points that are missing in volumes: `/data/config` where `/data` is a volume itself. Other containers may
 * write to that volume meanwhile, so every step is taken from an open directory and follows no link.
 */
export function makeVolumePoint({ volume, below, kind }: VolumePoint): void {
  if (kind === 'directory') {
    safeMakeDirectory(volume, below, 0o755);
    return;
  }
  const parent = dirname(below);
  if (parent !== '.') safeMakeDirectory(volume, parent, 0o755);
  const base = resolveLinks(volume, volume);
  const directory = safeOpen(base, join(base, parent));
  try {
    const flags = constants.O_WRONLY | constants.O_CREAT | constants.O_EXCL | constants.O_NOFOLLOW;
    closeSync(openSync(`/proc/self/fd/${directory}/${basename(below)}`, flags, 0o644));
  } catch (thrown) {
    if (errorCode(thrown) !== 'EEXIST') throw thrown;
  } finally {
    closeSync(directory);
  }
}
