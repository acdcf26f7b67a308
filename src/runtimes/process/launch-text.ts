/**
 * How data reaches the launcher: as lines through a pipe, read by the shell's own `read`, so that no value is ever part of a
 * script or of a command line. A text of several lines is announced by the number of its line ends.
 */
import { RuntimeError, type EnvironmentEntry } from '../runtime.ts';
import type { PlannedMount, SandboxPlan } from './sandbox-plan.ts';

export interface Command {
  readonly words: readonly string[];
  readonly workingDirectory: string;
  readonly environment: readonly EnvironmentEntry[];
}

/** Variables that a shell cannot hold, or holds for itself: they go through env(1). */
const shellsOwn =
  /^(?![A-Za-z_][A-Za-z0-9_]*$)|^(_|IFS|OPTIND|OPTARG|PPID|PWD|OLDPWD|UID|EUID|GROUPS|LINENO|RANDOM|SECONDS|ENV|PS[124]|SHLVL|SHELLOPTS|HISTCMD|DIRSTACK|FUNCNAME|PIPESTATUS|(BASH|mountlet_).*)$/;

export function sandboxText({ directories, files, mounts, doubtful }: SandboxPlan, root: string): string {
  return (
    list(directories) +
    list(files) +
    list(mounts.map((mount) => tableLine(mount, root))) +
    list([...new Set(doubtful)].map((target) => escaped(`${root}${target}`)))
  );
}

export function commandText({ words, workingDirectory, environment }: Command): string {
  // A later variable of the same name wins, as in the environment of a process that the engines start.
  const variables = [...new Map(environment.map(({ name, value }) => [name, value]))];
  const plain = variables.filter(([name]) => !shellsOwn.test(name));
  const special = variables.filter(([name]) => shellsOwn.test(name));
  return (
    text(workingDirectory) + list(plain.flat()) + list(special.map(([name, value]) => `${name}=${value}`)) + list(words)
  );
}

export function list(texts: readonly string[]): string {
  return `${texts.length}\n${texts.map(text).join('')}`;
}

function text(value: string): string {
  if (value.includes('\0'))
    throw new RuntimeError('Cannot start a container: a path, variable or argument has a NUL byte');
  return `${value.split('\n').length - 1}\n${value}\n`;
}

/** A line of fstab(5). */
function tableLine({ source, target, type, options }: PlannedMount, root: string): string {
  const place = target === '/' ? root : `${root}${target}`;
  return [source, place, type, options.join(',')].map(escaped).concat('0', '0').join(' ');
}

/** As fstab(5) and /proc/self/mountinfo write a path. */
function escaped(field: string): string {
  return field.replace(/[ \t\n\\]/g, (character) => `\\${character.charCodeAt(0).toString(8).padStart(3, '0')}`);
}
