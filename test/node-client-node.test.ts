/** A client that others wrote, through the API server to a node: commands, attaching, logs and ports. */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { type AddressInfo, createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { PassThrough } from 'node:stream';
import { after, before, test } from 'node:test';
import { Attach, Exec, KubeConfig, Log, PortForward, type V1Status } from '@kubernetes/client-node';
import { type RunningNode, runningNode } from '../src/testing/servers/running-node.ts';

const directory = mkdtempSync(join(tmpdir(), 'mountlet-test-'));
const cleanUps: (() => Promise<void>)[] = [];
const config = new KubeConfig();
let node: RunningNode;

before(async () => {
  node = await runningNode({ after: (act) => void cleanUps.push(act) }, directory);
  config.loadFromFile(node.kubeconfig);
  await node.addPod('web', { main: ['sh', '-c', 'echo started; while read line; do echo "got $line"; done'] });
});

after(async () => {
  for (const act of cleanUps) await act();
  rmSync(directory, { recursive: true, force: true });
});

async function textOf(stream: PassThrough): Promise<string> {
  return Buffer.concat((await stream.toArray()) as Buffer[]).toString();
}

test('client-node Exec: output, errors and the exit code', async () => {
  const [stdout, stderr] = [new PassThrough(), new PassThrough()];
  const status = await new Promise<V1Status>((resolve, reject) => {
    const command = ['sh', '-c', 'echo out; echo err >&2; exit 4'];
    new Exec(config).exec('default', 'web', 'main', command, stdout, stderr, null, false, resolve).catch(reject);
  });
  assert.deepEqual([status.status, status.reason], ['Failure', 'NonZeroExitCode']);
  assert.equal(status.details?.causes?.[0]?.message, '4');
  assert.deepEqual(await Promise.all([stdout, stderr].map(textOf)), ['out\n', 'err\n']);
});

test('client-node Exec: input', async () => {
  const [stdin, stdout] = [new PassThrough(), new PassThrough()];
  const ended = new Promise<V1Status>((resolve, reject) => {
    const command = ['head', '-n', '2'];
    new Exec(config).exec('default', 'web', 'main', command, stdout, null, stdin, false, resolve).catch(reject);
  });
  stdin.write('one\ntwo\nthree\n');
  assert.equal((await ended).status, 'Success');
  assert.equal(await textOf(stdout), 'one\ntwo\n');
});

test('client-node Attach joins the streams of the container', async () => {
  const [stdin, stdout] = [new PassThrough(), new PassThrough()];
  const socket = await new Attach(config).attach('default', 'web', 'main', stdout, null, stdin, false);
  const answered = once(stdout, 'data') as Promise<[Buffer]>;
  stdin.write('hello\n');
  const [bytes] = await answered;
  assert.equal(bytes.toString(), 'got hello\n');
  (socket as { terminate(): void }).terminate();
});

test('client-node Log reads and follows', async () => {
  const output = new PassThrough();
  const controller = await new Log(config).log('default', 'web', 'main', output, { follow: true, tailLines: 1 });
  const [bytes] = (await once(output, 'data')) as [Buffer];
  assert.match(bytes.toString(), /^(started|got hello)\n$/);
  output.on('error', () => {});
  controller.abort();
});

test('client-node PortForward reaches a port of the pod', async (t) => {
  const echo = createServer((peer) => peer.pipe(peer)).listen(0, '127.0.0.1');
  await once(echo, 'listening');
  t.after(() => void echo.close());
  const [input, output] = [new PassThrough(), new PassThrough()];
  const { port } = echo.address() as AddressInfo;
  const socket = await new PortForward(config).portForward('default', 'web', [port], output, null, input);
  input.write('there and back');
  const [bytes] = (await once(output, 'data')) as [Buffer];
  assert.equal(bytes.toString(), 'there and back');
  (socket as { terminate(): void }).terminate();
});
