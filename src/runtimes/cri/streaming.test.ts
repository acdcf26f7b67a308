/** Commands, streams and ports through a real containerd. */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { mkdirSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { PassThrough, Writable } from 'node:stream';
import { after, before, describe, test } from 'node:test';
import { systemClock } from '../../base/clock.ts';
import { type Containerd, containerdSkip, startContainerd } from '../../testing/machine/containerd.ts';
import { busyboxImage } from '../../testing/machine/oci-image.ts';
import type { ExecRequest, ProcessStreams } from '../runtime.ts';
import { type CriConnection, connectCri } from './cri-connection.ts';
import { openRuntimeStreams } from './runtime-stream.ts';
import { CriStreaming } from './streaming.ts';

const skip = containerdSkip();
const { signal } = new AbortController();
const soon = { timeoutMs: 60_000, signal };
const image = busyboxImage({ name: 'docker.io/library/shell:1' });

class Sink extends Writable {
  readonly pieces: Buffer[] = [];
  bytes = 0;
  override _write(chunk: Buffer, _encoding: string, done: () => void): void {
    this.pieces.push(chunk);
    this.bytes += chunk.length;
    done();
  }
  text(): string {
    return Buffer.concat(this.pieces).toString();
  }
}

describe('a container of containerd', { skip, concurrency: 1 }, () => {
  const hooks: (() => Promise<void>)[] = [];
  let containerd: Containerd;
  let connection: CriConnection;
  let streaming: CriStreaming;
  let sandboxId = '';
  let server = '';

  before(async () => {
    containerd = await startContainerd({ after: (act) => void hooks.push(act) });
    await containerd.import(image);
    connection = connectCri(containerd.endpoint);
    streaming = new CriStreaming(connection.runtime, systemClock);
    mkdirSync(join(containerd.directory, 'logs'));
    const { podSandboxId } = await connection.runtime.runPodSandbox({ config: sandboxConfig() }, soon);
    sandboxId = podSandboxId;
    server = await start('server', ['sh', '-c', 'while true; do nc -l -p 8080 -e cat; done']);
  });

  after(async () => {
    connection.close();
    for (const act of hooks) await act();
  });

  function sandboxConfig() {
    return {
      metadata: { name: 'web', namespace: 'default', uid: 'u1', attempt: 0 },
      hostname: 'web',
      logDirectory: join(containerd.directory, 'logs'),
      linux: {},
    };
  }

  async function start(name: string, command: readonly string[], more: object = {}): Promise<string> {
    const config = {
      metadata: { name, attempt: 0 },
      image: { image: image.name },
      command: [...command],
      logPath: `${name}.log`,
      linux: {},
      ...more,
    };
    const { containerId } = await connection.runtime.createContainer(
      { podSandboxId: sandboxId, config, sandboxConfig: sandboxConfig() },
      soon,
    );
    await connection.runtime.startContainer({ containerId }, soon);
    return containerId;
  }

  async function exec(
    command: readonly string[],
    more: Partial<ExecRequest> = {},
  ): Promise<{ exitCode: number; stdout: string; stderr: string }> {
    const [stdout, stderr] = [new Sink(), new Sink()];
    const { exitCode } = await streaming.exec(server, { command, tty: false, stdout, stderr, ...more }, signal);
    return { exitCode, stdout: stdout.text(), stderr: stderr.text() };
  }

  test('a command has its output, its errors and its exit code', async () => {
    assert.deepEqual(await exec(['sh', '-c', 'echo out; echo err >&2; exit 7']), {
      exitCode: 7,
      stdout: 'out\n',
      stderr: 'err\n',
    });
    assert.equal((await exec(['true'])).exitCode, 0);
  });

  test('the end of the input reaches a command that reads to the end', async () => {
    const stdin = new PassThrough();
    stdin.end('some words');
    assert.equal((await exec(['cat'], { stdin })).stdout, 'some words');
    const large = new PassThrough();
    const counted = exec(['wc', '-c'], { stdin: large });
    for (let piece = 0; piece < 200; piece += 1) if (!large.write(Buffer.alloc(50_000, 1))) await once(large, 'drain');
    large.end();
    assert.equal((await counted).stdout.trim(), String(200 * 50_000));
  });

  test('a command that does not read its input ends all the same', async () => {
    const stdin = new PassThrough();
    stdin.write('nobody reads this');
    assert.equal((await exec(['true'], { stdin })).exitCode, 0);
  });

  test('output of a command waits for a slow reader, and nothing of it is lost', async () => {
    let bytes = 0;
    const slow = new Writable({
      highWaterMark: 1024,
      write(chunk: Buffer, _encoding, done) {
        bytes += chunk.length;
        setImmediate(done);
      },
    });
    const { exitCode } = await streaming.exec(
      server,
      { command: ['head', '-c', '20000000', '/dev/zero'], tty: false, stdout: slow },
      signal,
    );
    assert.deepEqual({ exitCode, bytes }, { exitCode: 0, bytes: 20_000_000 });
  });

  test('a terminal has the size of the client, and takes new ones', async () => {
    const stdin = new PassThrough();
    const stdout = new Sink();
    let wake = (): void => {};
    const resizes = (async function* sizes() {
      yield { columns: 80, rows: 24 };
      await new Promise<void>((resolve) => (wake = resolve));
      yield { columns: 132, rows: 50 };
    })();
    const command = ['sh', '-c', 'while true; do read line; stty size; [ "$line" = last ] && exit 3; done'];
    const done = streaming.exec(server, { command, tty: true, stdin, stdout, resizes }, signal);
    while (!stdout.text().includes('24 80')) {
      stdin.write('\n');
      await systemClock.sleep(20);
    }
    wake();
    while (!stdout.text().includes('50 132')) {
      stdin.write('\n');
      await systemClock.sleep(20);
    }
    stdin.write('last\n');
    assert.deepEqual(await done, { exitCode: 3 });
  });

  test('a command that cannot be started says why, and one for a container that is gone too', async () => {
    await assert.rejects(exec(['/no/such/program']), (error: Error & { reason?: string }) => {
      assert.equal(error.reason, 'CommandStartFailed');
      assert.match(error.message, /no such file or directory/);
      assert.doesNotMatch(error.message, /^(Internal error|error executing)/);
      return true;
    });
    const ended = await start('ended', ['true']);
    while ((await connection.runtime.containerStatus({ containerId: ended }, soon)).status?.finishedAt === 0n)
      await systemClock.sleep(20);
    const request = { command: ['true'], tty: false, stdout: new Sink() };
    await assert.rejects(streaming.exec(ended, request, signal), { reason: 'ContainerNotRunning' });
    await assert.rejects(streaming.exec('absent', request, signal), { reason: 'NoSuchContainer' });
    const probe = { command: ['true'], timeoutMs: 1_000, bytesMax: 10 };
    await assert.rejects(streaming.run(ended, probe, signal), { reason: 'ContainerNotRunning' });
  });

  test('an aborted command leaves at once', async () => {
    const abort = new AbortController();
    const stdout = new Sink();
    const command = ['sh', '-c', 'echo begun; sleep 1000'];
    const done = streaming.exec(server, { command, tty: false, stdout }, abort.signal);
    while (stdout.bytes === 0) await systemClock.sleep(20);
    abort.abort(new Error('the client has left'));
    await assert.rejects(done, /the client has left/);
  });

  test('attaching joins the streams of the container itself, again and again', async () => {
    const id = await start('typed', ['sh', '-c', 'while read line; do echo "got $line"; done'], { stdin: true });
    for (const word of ['first', 'second']) {
      const stdin = new PassThrough();
      const stdout = new Sink();
      const abort = new AbortController();
      const streams: ProcessStreams = { stdin, stdout, tty: false };
      const attached = streaming.attach(id, streams, abort.signal);
      attached.catch(() => {});
      stdin.write(`${word}\n`);
      while (!stdout.text().includes(`got ${word}\n`)) await systemClock.sleep(20);
      abort.abort(new Error('enough'));
      await assert.rejects(attached, /enough/);
    }
    const stdin = new PassThrough();
    const stdout = new Sink();
    const attached = streaming.attach(id, { stdin, stdout, tty: false }, signal);
    stdin.write('last\n');
    while (!stdout.text().includes('got last\n')) await systemClock.sleep(20);
    await connection.runtime.stopContainer({ containerId: id, timeout: 0n }, soon);
    await attached;
  });

  test('a connection to a port reaches the program, each direction ends by itself, and a refusal has words', async () => {
    const socket = await streaming.connect(sandboxId, 8080, signal);
    const received = new Sink();
    socket.pipe(received);
    socket.end('hello');
    await once(socket, 'close');
    assert.equal(received.text(), 'hello');
    const refused = await streaming.connect(sandboxId, 81, signal);
    refused.resume();
    const [error] = (await once(refused, 'error')) as [Error];
    assert.match(error.message, /refused/);
    assert.doesNotMatch(error.message, /^error forwarding/);
    await assert.rejects(streaming.connect('absent', 80, signal), /not found/);
  });

  test('a probe has its output up to a limit, its exit code and its time', async () => {
    const run = (command: readonly string[], timeoutMs?: number) =>
      streaming.run(server, { command, timeoutMs, bytesMax: 8 }, signal);
    const result = await run(['sh', '-c', 'echo out; echo errors >&2; exit 3']);
    assert.ok(result !== 'timedOut');
    assert.equal(`${result.exitCode} ${result.output.toString()}`, '3 out\nerro');
    assert.equal(await run(['sleep', '1234'], 1_000), 'timedOut');
    assert.doesNotMatch((await exec(['ps'])).stdout, /sleep 1234/, 'what took too long is gone');
  });
});

const places: readonly { readonly it: string; readonly url: string }[] = [
  { it: 'another machine', url: 'http://192.0.2.1:80/exec/x' },
  { it: 'a name', url: 'http://runtime.example/exec/x' },
  { it: 'another protocol', url: 'file:///etc/passwd' },
  { it: 'something with a password', url: 'http://a:b@127.0.0.1/' },
  { it: 'nothing at all', url: 'exec/x' },
];
for (const { it, url } of places) {
  test(`a runtime that leads to ${it} is not followed`, async () => {
    const asked = openRuntimeStreams(systemClock, { url, protocol: 'p', headers: [] }, signal);
    await assert.rejects(asked, /must be http:\/\/ on a loopback address/);
  });
}

test('a streaming server that refuses, or speaks something else, is an error in its words', async (t) => {
  const refusing = createServer((_request, response) => response.writeHead(404).end('token expired'));
  refusing.on('upgrade', (request, socket) => {
    socket.on('error', () => {});
    if (request.url === '/other')
      socket.end('HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: SPDY/3.1\r\n\r\n');
    else if (request.url === '/huge') socket.write(`HTTP/1.1 101 Switching\r\nX: ${'x'.repeat(100_000)}\r\n\r\n`);
    else socket.end('HTTP/1.1 404 Not Found\r\nContent-Length: 13\r\nConnection: close\r\n\r\ntoken expired');
  });
  refusing.listen(0, '127.0.0.1');
  await once(refusing, 'listening');
  t.after(() => refusing.close());
  const { port } = refusing.address() as AddressInfo;
  const open = (path: string) =>
    openRuntimeStreams(systemClock, { url: `http://127.0.0.1:${port}${path}`, protocol: 'p', headers: [{}] }, signal);
  await assert.rejects(open('/gone'), /answered 404: token expired/);
  await assert.rejects(open('/other'), /does not speak p/);
  await assert.rejects(open('/huge'), /Header overflow/);
});
