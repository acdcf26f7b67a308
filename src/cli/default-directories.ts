/** Where mountlet keeps things when nobody says: of the system for root, of the user for anybody else; see the XDG base directories. */
import { homedir } from 'node:os';
import { join } from 'node:path';

const systemDirectory = '/var/lib/mountlet';

export function defaultStateDirectory(): string {
  return process.geteuid?.() === 0 ? systemDirectory : userDirectory();
}

/** Where another command may keep its state or credentials on this machine. */
export function secretDirectories(): readonly string[] {
  return [systemDirectory, userDirectory(), join(homedir(), '.kube')];
}

function userDirectory(): string {
  const data = process.env['XDG_DATA_HOME'];
  return join(data === undefined || data === '' ? join(homedir(), '.local', 'share') : data, 'mountlet');
}
