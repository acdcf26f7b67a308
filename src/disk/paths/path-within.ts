/** Whether one path is inside another: by their text alone, so give it paths without symbolic links. */
import { relative } from 'node:path';

/** True for the base itself too. Both paths are absolute; `.` and `..` in them are taken away first. */
export function isWithin(base: string, path: string): boolean {
  const way = relative(base, path);
  return way !== '..' && !way.startsWith('../');
}
