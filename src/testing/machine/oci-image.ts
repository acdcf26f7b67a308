/**
 * Container images made by a test, with a static busybox as their content: nothing is downloaded. An image is its blobs and,
 * for `ctr images import`, an archive of them in OCI's layout. For pushing one to a registry see `registry.ts`.
 */
import { execFileSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { accessSync, constants, readFileSync } from 'node:fs';
import { type Architecture, SystemProgram, isArchitecture } from '../../linux/system-program.ts';

/** What a Dockerfile could say. */
export interface ImageParts {
  /** In full, as a runtime has it: `docker.io/library/nginx:1.8`. */
  readonly name: string;
  readonly entrypoint?: readonly string[];
  readonly command?: readonly string[];
  readonly user?: string;
  readonly environment?: readonly string[];
  readonly workingDirectory?: string;
  readonly stopSignal?: string;
  readonly volumes?: readonly string[];
  readonly labels?: Readonly<Record<string, string>>;
  /** Added to the file system: `{ 'etc/motd': 'hello' }`. */
  readonly files?: Readonly<Record<string, string | Buffer>>;
}

export interface ImageBlob {
  readonly mediaType: string;
  readonly digest: string;
  readonly bytes: Buffer;
}

export interface OciImage {
  readonly name: string;
  readonly manifest: ImageBlob;
  /** Its digest is the image's id. */
  readonly config: ImageBlob;
  readonly layer: ImageBlob;
  archive(): Buffer;
}

const busybox = '/bin/busybox';

/** Undefined where an image can be made, else what is missing. */
export function busyboxProblem(): string | undefined {
  try {
    accessSync(busybox, constants.X_OK);
  } catch {
    return `needs ${busybox} (Debian's busybox-static)`;
  }
  return isStatic(readFileSync(busybox)) ? undefined : `needs a static ${busybox} (Debian's busybox-static)`;
}

/** Whether no segment of an ELF file names a program that would have to load it. */
function isStatic(program: Buffer): boolean {
  const [interpreter, segmentBytes] = [3, 56];
  const first = Number(program.readBigUInt64LE(32));
  const types = Array.from({ length: program.readUInt16LE(56) }, (_, index) =>
    program.readUInt32LE(first + index * segmentBytes),
  );
  return !types.includes(interpreter);
}

const passwd = 'root:x:0:0:root:/root:/bin/sh\nnginx:x:101:101::/home/nginx:/bin/sh\nnobody:x:65534:65534::/:/bin/sh\n';
const group = 'root:x:0:\nnginx:x:101:\nextra:x:1234:nginx\nnogroup:x:65534:\n';

/** A shell and its usual programs. Without a command it sleeps until it is told to end. */
export function busyboxImage(parts: ImageParts): OciImage {
  const applets = execFileSync(busybox, ['--list'], { encoding: 'utf8' }).trim().split('\n');
  const layer = new Tar();
  for (const name of ['bin', 'dev', 'etc', 'home', 'proc', 'root', 'run', 'sys', 'usr', 'usr/bin', 'var'])
    layer.directory(name);
  layer.directory('tmp', 0o1777);
  layer.file('bin/busybox', readFileSync(busybox), 0o755);
  for (const applet of applets) if (applet !== 'busybox') layer.link(`bin/${applet}`, 'busybox');
  layer.link('usr/bin/env', '../../bin/busybox');
  layer.file('etc/passwd', Buffer.from(passwd));
  layer.file('etc/group', Buffer.from(group));
  addFiles(layer, parts.files);
  const idle = ['/bin/sh', '-c', 'trap "exit 0" TERM INT; while :; do sleep 3600 & wait; done'];
  return imageOf(
    layer.end(),
    parts.command === undefined && parts.entrypoint === undefined ? { command: idle, ...parts } : parts,
  );
}

/** What a sandbox runs: a program of a few system calls that sleeps, and whose children need nobody to wait for them. */
export function pauseImage(name: string): OciImage {
  const layer = new Tar();
  layer.file('pause', pauseProgram(), 0o755);
  return imageOf(layer.end(), { name, entrypoint: ['/pause'] });
}

function pauseProgram(): Buffer {
  const [childEnded, ignore, maskBytes] = [17, 1, 8];
  const program = new SystemProgram(0);
  const again = { step: undefined };
  program.call('rt_sigaction', [childEnded, program.words([ignore, 0, 0, 0]), 0, maskBytes]);
  program.mark(again);
  program.call('ppoll', [0, 0, 0, 0, maskBytes], { onError: again });
  return program.compile(architecture(), 2).image;
}

function architecture(): Architecture {
  const { arch } = process;
  if (!isArchitecture(arch)) throw new Error(`no program for ${arch}`);
  return arch;
}

function addFiles(layer: Tar, files: ImageParts['files'] = {}): void {
  for (const [path, content] of Object.entries(files)) layer.file(path, Buffer.from(content), 0o755);
}

const types = {
  index: 'application/vnd.oci.image.index.v1+json',
  manifest: 'application/vnd.oci.image.manifest.v1+json',
  config: 'application/vnd.oci.image.config.v1+json',
  layer: 'application/vnd.oci.image.layer.v1.tar',
};

/** With these bytes as its layer, whatever they are. */
export function imageOf(content: Buffer, parts: ImageParts): OciImage {
  const layer = blob(types.layer, content);
  const config = jsonBlob(types.config, {
    architecture: architecture() === 'x64' ? 'amd64' : 'arm64',
    os: 'linux',
    config: {
      Env: ['PATH=/usr/local/bin:/usr/bin:/bin', ...(parts.environment ?? [])],
      Entrypoint: parts.entrypoint,
      Cmd: parts.command,
      User: parts.user,
      WorkingDir: parts.workingDirectory,
      StopSignal: parts.stopSignal,
      Volumes: parts.volumes && Object.fromEntries(parts.volumes.map((path) => [path, {}])),
      Labels: parts.labels,
    },
    rootfs: { type: 'layers', diff_ids: [layer.digest] },
  });
  const manifest = jsonBlob(types.manifest, {
    schemaVersion: 2,
    mediaType: types.manifest,
    config: descriptor(config),
    layers: [descriptor(layer)],
  });
  return { name: parts.name, manifest, config, layer, archive: () => archive(parts.name, manifest, config, layer) };
}

function archive(name: string, manifest: ImageBlob, config: ImageBlob, layer: ImageBlob): Buffer {
  const annotations = { 'io.containerd.image.name': name };
  const index = { schemaVersion: 2, mediaType: types.index, manifests: [{ ...descriptor(manifest), annotations }] };
  const tar = new Tar();
  tar.file('oci-layout', Buffer.from(JSON.stringify({ imageLayoutVersion: '1.0.0' })));
  tar.file('index.json', Buffer.from(JSON.stringify(index)));
  for (const { digest, bytes } of [manifest, config, layer]) tar.file(`blobs/${digest.replace(':', '/')}`, bytes);
  return tar.end();
}

function jsonBlob(mediaType: string, value: object): ImageBlob {
  return blob(mediaType, Buffer.from(JSON.stringify(value)));
}

function blob(mediaType: string, bytes: Buffer): ImageBlob {
  return { mediaType, digest: `sha256:${createHash('sha256').update(bytes).digest('hex')}`, bytes };
}

function descriptor({ mediaType, digest, bytes }: ImageBlob): object {
  return { mediaType, digest, size: bytes.length };
}

const blockBytes = 512;

/** As much of the tar format as an image needs: short names, no owners but root, no times, so that content is all that counts. */
class Tar {
  readonly #blocks: Buffer[] = [];

  directory(name: string, mode = 0o755): void {
    this.#entry(`${name}/`, '5', mode, Buffer.alloc(0));
  }

  file(name: string, content: Buffer, mode = 0o644): void {
    this.#entry(name, '0', mode, content);
  }

  link(name: string, target: string): void {
    this.#entry(name, '2', 0o777, Buffer.alloc(0), target);
  }

  end(): Buffer {
    return Buffer.concat([...this.#blocks, Buffer.alloc(2 * blockBytes)]);
  }

  #entry(name: string, type: string, mode: number, content: Buffer, target = ''): void {
    const header = Buffer.alloc(blockBytes);
    const octal = (value: number, offset: number, length: number): void =>
      void header.write(`${value.toString(8).padStart(length - 1, '0')}\0`, offset);
    header.write(name, 0);
    octal(mode, 100, 8);
    octal(0, 108, 8);
    octal(0, 116, 8);
    octal(content.length, 124, 12);
    octal(0, 136, 12);
    header.write(' '.repeat(8), 148); // the checksum counts as blanks while it is computed
    header.write(type, 156);
    header.write(target, 157);
    header.write('ustar\u000000', 257);
    octal(
      header.reduce((sum, byte) => sum + byte, 0),
      148,
      7,
    );
    const padding = (blockBytes - (content.length % blockBytes)) % blockBytes;
    this.#blocks.push(header, content, Buffer.alloc(padding));
  }
}
