/** kubectl exec, attach, logs, cp and port-forward into containers of `mountlet up`, also at their edges: the last line, the end of an input, long commands. */
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { type AddressInfo, connect, createServer } from 'node:net';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { PassThrough } from 'node:stream';
import { text } from 'node:stream/consumers';
import { after, before, describe, test } from 'node:test';
import { KubeConfig, PortForward } from '@kubernetes/client-node';
import { eventually } from './kubectl-program.ts';
import { pod } from './manifests.ts';
import { testedRuntime } from './tested-runtime.ts';
import { UpMachine, freePort, withNode } from './up-program.ts';

const machine = new UpMachine();
const port = await freePort();
before(async () => {
  if (withNode.skip !== false) return;
  await machine.start();
  const script = testedRuntime().tcpServer(port, 'hello from inside');
  await machine.kubectl.apply(
    pod('idle'),
    pod('echo', { script: 'while read -r line; do echo "heard $line"; done; echo over', stdin: true, stdinOnce: true }),
    pod(
      'waiting',
      { volumeMounts: [{ name: 'v', mountPath: '/v' }] },
      { volumes: [{ name: 'v', configMap: { name: 'missing' } }] },
    ),
    pod('server', { script, ports: [{ containerPort: port }] }),
  );
  await machine.kubectl.running('idle', 'echo', 'server');
});
after(() => machine.end());

describe('streams', { concurrency: 4 }, () => {
  test('exec has output, input and the exit code of its command', withNode, async () => {
    const { kubectl } = machine;
    assert.deepEqual(await kubectl.run(['exec', 'idle', '--', 'sh', '-c', 'echo out; echo err >&2; exit 3']), {
      code: 3,
      stdout: 'out\n',
      stderr: 'err\ncommand terminated with exit code 3\n',
    });
    assert.equal(await kubectl.ok('exec -i idle -- sort', { input: 'b\na\n' }), 'a\nb\n');
    const { code, stderr } = await kubectl.run(['exec', 'idle', '--', '/no/such/program']);
    assert.notEqual(code, 0);
    assert.match(stderr, /\/no\/such\/program.*no such file or directory/);
  });

  test(
    'exec with a terminal: it is one, with the size it was given, and Ctrl-C reaches the command',
    withNode,
    async (t) => {
      if (spawnSync('script', ['--version']).status !== 0) return t.skip('needs script(1)');
      const { kubectl } = machine;
      // kubectl sends the size when the command runs already.
      const sized = 'until [ "$(stty size)" = "33 77" ]; do sleep 0.1; done';
      const inside = `[ -t 0 ] && [ -t 1 ] && ${sized} && trap 'echo stopped; exit 4' INT && echo waiting && while :; do sleep 0.1; done`;
      const outside = `stty rows 33 cols 77; exec kubectl exec -it idle -- sh -c "$INSIDE"`;
      const child = kubectl.startProgram('script', ['-qefc', outside, '/dev/null'], { INSIDE: inside });
      let seen = '';
      child.stdout?.on('data', (bytes: Buffer) => (seen += bytes.toString()));
      await eventually(() => assert.match(seen, /waiting/));
      const closed = once(child, 'close');
      child.stdin?.write('\x03');
      const [code] = (await closed) as [number];
      assert.match(seen, /stopped/);
      assert.equal(code, 4);
    },
  );

  test('attach talks to the main process', withNode, async () => {
    const child = machine.kubectl.start(['attach', '-i', 'echo']);
    const closed = once(child, 'close');
    const lines = createInterface({ input: child.stdout ?? process.stdin });
    const heard = once(lines, 'line');
    child.stdin?.write('me\n');
    assert.deepEqual(await heard, ['heard me']);
    const over = once(lines, 'line');
    child.stdin?.end();
    assert.deepEqual(await over, ['over']);
    await closed;
  });

  test('cp takes trees into a container and brings them back', withNode, async () => {
    const { kubectl } = machine;
    const from = join(machine.directory, 'from');
    mkdirSync(join(from, 'deep'), { recursive: true });
    const bytes = randomBytes(200_000);
    writeFileSync(join(from, 'deep', 'bytes'), bytes);
    writeFileSync(join(from, 'a file'), 'with a blank');
    await kubectl.ok(['cp', from, 'idle:/tmp/copied']);
    const to = join(machine.directory, 'to');
    await kubectl.ok(['cp', 'idle:/tmp/copied', to]);
    assert.ok(readFileSync(join(to, 'deep', 'bytes')).equals(bytes));
    assert.equal(readFileSync(join(to, 'a file'), 'utf8'), 'with a blank');
  });

  test('port-forward reaches a port of the pod', withNode, async () => {
    const { kubectl } = machine;
    const forward = kubectl.start(['port-forward', 'pod/server', `:${port}`]);
    const closed = once(forward, 'close');
    const [line] = (await once(createInterface({ input: forward.stdout ?? process.stdin }), 'line')) as [string];
    const local = Number(/^Forwarding from 127\.0\.0\.1:(\d+) ->/.exec(line)?.[1]);
    await eventually(async () => assert.equal(await text(connect(local, '127.0.0.1')), 'hello from inside'));
    forward.kill('SIGKILL');
    await closed;
  });

  test('port-forward to a pod that does not run yet reaches nothing of the machine', withNode, async (t) => {
    const server = createServer((peer) => peer.end('of the machine')).listen(0, '127.0.0.1');
    await once(server, 'listening');
    t.after(() => void server.close());
    const config = new KubeConfig();
    config.loadFromFile(join(machine.directory, 'state', 'kubeconfig'));
    const [input, output, errors] = [new PassThrough(), new PassThrough(), new PassThrough()];
    const { port: ofMachine } = server.address() as AddressInfo;
    const forward = new PortForward(config);
    const socket = await forward.portForward('default', 'waiting', [ofMachine], output, errors, input);
    const [seen] = (await Promise.race([once(errors, 'data'), once(output, 'data')])) as [Buffer];
    assert.match(seen.toString(), /: the pod is not running$/);
    (socket as { terminate(): void }).terminate();
  });

  test('a last line without a newline comes out of the log without one', withNode, async () => {
    const { kubectl } = machine;
    await kubectl.apply(pod('ends', { script: 'echo one; printf two' }, { restartPolicy: 'Never' }));
    await kubectl.until('pod/ends', '{.status.phase}', 'Succeeded');
    assert.equal(await kubectl.ok('logs ends'), 'one\ntwo');
    assert.equal(await kubectl.ok('logs ends --tail=1'), 'two');
  });

  test(
    'attach with an input ends with the input where others may send more, and the container goes on',
    withNode,
    async () => {
      const { kubectl } = machine;
      const script = 'while read -r line; do echo "got $line"; done; sleep 3600';
      await kubectl.apply(pod('asks', { script, stdin: true }));
      await kubectl.running('asks');
      for (const word of ['one', 'two']) await kubectl.ok('attach -i asks', { input: `${word}\n` });
      await eventually(async () => assert.equal(await kubectl.ok('logs asks'), 'got one\ngot two\n'));
    },
  );

  test('attach to a container that has ended says so, without a path of this machine', withNode, async () => {
    const { kubectl } = machine;
    await kubectl.apply(pod('stays', { script: 'exec sleep 3600' }));
    await kubectl.running('stays');
    const image = await kubectl.ok('get pod stays -o jsonpath={.spec.containers[0].image}');
    // It waits for kubectl, which would miss what a command prints before it is attached.
    const waits = [
      'debug',
      'stays',
      '-i',
      `--image=${image}`,
      '-c',
      'shown',
      '--',
      'sh',
      '-c',
      'read who; echo hi $who',
    ];
    assert.equal(await kubectl.ok(waits, { input: 'there\n' }), 'hi there\n');
    await kubectl.ok(`debug stays --image=${image} -c brief --target=main -- true`);
    const exitCode = '{.status.ephemeralContainerStatuses[?(@.name=="brief")].state.terminated.exitCode}';
    await eventually(async () => assert.equal(await kubectl.ok(`get pod stays -o jsonpath=${exitCode}`), '0'));
    const { code, stderr } = await kubectl.run(['attach', 'stays', '-c', 'brief']);
    assert.equal(code, 1);
    assert.match(stderr, /container not found \("brief"\)|container not running/);
    assert.doesNotMatch(stderr, /\/(var|tmp|run)\//);
    if (testedRuntime().hasImages) return;
    await eventually(async () => assert.match(await kubectl.ok('events --for pod/stays'), /Warning +TargetNotShared/));
  });

  test('a command of a hundred kilobytes is run', withNode, async () => {
    const { kubectl } = machine;
    await kubectl.apply(pod('long', { script: 'exec sleep 3600' }));
    await kubectl.running('long');
    const words = Array.from({ length: 5 }, (_, index) => String(index).repeat(20_000));
    const printed = await kubectl.exec('long', 'sh', '-c', 'echo "$#"; echo "$5"', 'sh', ...words);
    assert.equal(printed, `5\n${words[4]}\n`);
  });
});
