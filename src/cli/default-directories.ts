/** Where mountlet keeps things when nobody says: of the system for root, of the user for anybody else; see the XDG base directories. */
import { homedir } from 'node:os';
import { join } from 'node:path';

export function defaultStateDirectory(): string {
  if (process.geteuid?.() === 0) return '/var/lib/mountlet';
  const data = process.env['XDG_DATA_HOME'];
  return join(data === undefined || data === '' ? join(homedir(), '.local', 'share') : data, 'mountlet');
}
