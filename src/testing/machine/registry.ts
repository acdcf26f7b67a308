/** Debian's docker-registry on loopback, with users, and with images that a test has made. */
import { type ChildProcess, execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { isInstalled } from './containerd.ts';
import type { ImageBlob, OciImage } from './oci-image.ts';

/** For `skip`: false where a registry can run, else the reason. */
export function registrySkip(): string | false {
  if (!isInstalled('docker-registry')) return 'needs the program docker-registry';
  return isInstalled('perl') ? false : 'needs perl, for the hash of a password';
}

/** Names and passwords. */
type Users = Readonly<Record<string, string>>;

export interface Registry {
  /** `http://127.0.0.1:41234` */
  readonly url: string;
  /** Under the path and the tag of its name; the host in it does not count. */
  push(image: OciImage): Promise<void>;
  /** Whoever is not among them is refused from now on. */
  setUsers(users: Users): void;
}

/** Without users everybody may read and write. */
export async function startRegistry(test: { after(act: () => Promise<void>): void }, users?: Users): Promise<Registry> {
  const directory = mkdtempSync(join(tmpdir(), 'registry-'));
  const passwords = join(directory, 'htpasswd');
  const access = users === undefined ? {} : { auth: { htpasswd: { realm: 'test', path: passwords } } };
  const configuration = {
    version: '0.1',
    storage: { filesystem: { rootdirectory: join(directory, 'images') } },
    http: { addr: '127.0.0.1:0' },
    ...access,
  };
  let known = users;
  const setUsers = (next: Users): void => {
    known = next;
    writeFileSync(
      passwords,
      Object.entries(next)
        .map(([name, word]) => `${name}:${hash(word)}\n`)
        .join(''),
    );
  };
  if (users !== undefined) setUsers(users);
  // JSON is YAML as well.
  writeFileSync(join(directory, 'config.yml'), JSON.stringify(configuration));
  const child = spawn('docker-registry', ['serve', join(directory, 'config.yml')], {
    stdio: ['ignore', 'ignore', 'pipe'],
  });
  test.after(async () => {
    if (child.exitCode === null && child.signalCode === null) {
      child.kill('SIGKILL');
      await once(child, 'exit');
    }
    rmSync(directory, { recursive: true, force: true });
  });
  const url = `http://127.0.0.1:${await listeningPort(child)}`;
  return {
    url,
    setUsers,
    async push({ name, manifest, config, layer }) {
      const headers = authorization(known);
      const { path, tag } = placeOf(name);
      for (const blob of [config, layer]) await pushBlob(`${url}/v2/${path}/blobs/uploads/`, blob, headers);
      await put(`${url}/v2/${path}/manifests/${tag}`, manifest, { ...headers, 'Content-Type': manifest.mediaType });
    },
  };
}

type Headers = Readonly<Record<string, string>>;

async function listeningPort({ stderr }: ChildProcess): Promise<number> {
  if (stderr === null) throw new Error('the registry has no output');
  let output = '';
  for await (const line of createInterface({ input: stderr })) {
    output += `${line}\n`;
    const port = /listening on [^:]+:(\d+)/.exec(line)?.[1];
    if (port === undefined) continue;
    stderr.resume();
    return Number(port);
  }
  throw new Error(`the registry does not run: ${output}`);
}

async function pushBlob(uploads: string, blob: ImageBlob, headers: Headers): Promise<void> {
  const started = await fetch(uploads, { method: 'POST', headers });
  const location = started.headers.get('Location');
  if (location === null) throw new Error(`the registry takes no upload: ${started.status} ${await started.text()}`);
  const to = new URL(location, uploads);
  to.searchParams.set('digest', blob.digest);
  await put(to, blob, { ...headers, 'Content-Type': 'application/octet-stream' });
}

async function put(to: string | URL, { bytes }: ImageBlob, headers: Headers): Promise<void> {
  const answer = await fetch(to, { method: 'PUT', headers, body: new Uint8Array(bytes) });
  if (answer.status !== 201)
    throw new Error(`the registry refuses ${String(to)}: ${answer.status} ${await answer.text()}`);
}

function authorization(users: Users | undefined): Headers {
  const [user] = Object.entries(users ?? {});
  return user === undefined ? {} : { Authorization: `Basic ${Buffer.from(user.join(':')).toString('base64')}` };
}

/** `docker.io/library/nginx:1.8` is `library/nginx` with the tag `1.8`. */
function placeOf(name: string): { readonly path: string; readonly tag: string } {
  const colon = name.lastIndexOf(':');
  return { path: name.slice(name.indexOf('/') + 1, colon), tag: name.slice(colon + 1) };
}

/** As htpasswd -B would, of the cheapest kind. */
function hash(password: string): string {
  const salt = '$2y$04$abcdefghijklmnopqrstuu';
  return execFileSync('perl', ['-e', 'print crypt($ARGV[0], $ARGV[1])', password, salt], { encoding: 'utf8' });
}
