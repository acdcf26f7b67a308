/** What several commands share: options and their checks, addresses to listen on, default directories. */
import { homedir } from 'node:os';
import { join, resolve } from 'node:path';
import { InvalidArgumentError, Option } from 'commander';
import { OperatingError } from '../base/errors.ts';

/** A script whose variable is not set gives an empty text, which would mean the current directory. */
export function notEmpty(path: string): string {
  if (path === '') throw new InvalidArgumentError('It is empty.');
  return path;
}

export function boolean(option: Option): Option {
  return option.choices(['true', 'false']).argParser((text) => {
    if (text !== 'true' && text !== 'false') throw new InvalidArgumentError('Allowed choices are true, false.');
    return text === 'true';
  });
}

export const subPathUpdates = boolean(
  new Option(
    '--subpath-updates <boolean>',
    "whether subPath mounts follow their volumes; false: they keep the content they began with, as the kubelet's do (default: true)",
  ),
);

/** Longer paths cannot be the address of a socket. */
const socketPathBytesMax = 107;

export const csiController = new Option(
  '--csi-controller <socket>',
  'run the attacher, provisioner and resizer of the CSI driver at this socket, instead of its sidecars; can be repeated',
).argParser((given: string, before: readonly string[] | undefined) => {
  const path = resolve(notEmpty(given.replace(/^unix:(\/\/)?(?=\/)/, '')));
  if (Buffer.byteLength(path) > socketPathBytesMax) {
    throw new InvalidArgumentError(`A socket's path has at most ${socketPathBytesMax} bytes.`);
  }
  return [...new Set([...(before ?? []), path])];
});

export const disableForceDetach = new Option(
  '--disable-force-detach-on-timeout',
  'leave volumes on a node that is not ready and still has them mounted, however long (default: 6 min)',
);

export const kubeletInsecure = new Option(
  '--kubelet-insecure',
  'do not verify the certificates of nodes: for kubelets whose certificates this server did not sign',
);

export interface LoopOptions {
  readonly kubeletInsecure?: boolean;
  readonly disableForceDetachOnTimeout?: boolean;
  readonly controllers: string;
  readonly scheduler: 'default' | 'none';
}

export const runtime = new Option(
  '--runtime <kind>',
  'what runs containers: process (without images), cri (containerd or CRI-O), or auto: cri if it answers (default: cri if an endpoint is given, else process)',
).choices(['process', 'cri', 'auto']);

export const runtimeEndpoint = new Option(
  '--container-runtime-endpoint <url>',
  'the socket of the container runtime (default: unix:///run/containerd/containerd.sock)',
);

/** What containers see of the machine, for every command that runs some. */
export const hostFiles = new Option(
  '--host-files <view>',
  'what containers see of this machine: system (programs, libraries and what everyone may read in /etc), all, or none (default: system)',
).choices(['system', 'all', 'none']);

export const hostPath = new Option(
  '--host-path <dir>',
  'a directory of this machine that containers see too; can be repeated',
).argParser((path: string, before: readonly string[] | undefined) => [...(before ?? []), notEmpty(path)]);

export const writableLayer = new Option(
  '--writable-layer <size>',
  'how much a container can write outside of its volumes (default: 256Mi)',
);

export interface SandboxOptions {
  readonly runtime?: string;
  readonly containerRuntimeEndpoint?: string;
  readonly hostFiles?: string;
  readonly hostPath?: readonly string[];
  readonly writableLayer?: string;
}

const portMax = 65_535;

/** `127.0.0.1:6443`, `[::1]:0`, `:6443` for this machine alone. */
export function parseListen(text: string): { readonly host: string; readonly port: number } {
  const [, bracketed, plain, digits] = /^(?:\[([^\]]+)\]|([^:[\]]*)):(\d{1,5})$/.exec(text) ?? [];
  const port = Number(digits);
  if (digits === undefined || port > portMax) {
    const how = 'give HOST:PORT, such as 127.0.0.1:6443 or [::1]:6443; port 0 takes any free one';
    throw new OperatingError('InvalidListenAddress', `Cannot listen on "${text}": ${how}`);
  }
  return { host: bracketed ?? (plain === undefined || plain === '' ? '127.0.0.1' : plain), port };
}

/** The default state directory: /var/lib for root, the XDG data directory for other users. */
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
