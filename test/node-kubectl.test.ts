/** Real kubectl through the embedded API server to the server of a node: commands, files, logs, ports, over both transports. */
import assert from 'node:assert/strict';
import { type ChildProcess, spawn, spawnSync } from 'node:child_process';
import { createHash, randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { appendFileSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { after, before, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { type RunningNode, rotateLog, runningNode } from '../src/testing/servers/running-node.ts';
import { noKubectl, runToEnd, withoutCollector } from './kubectl-program.ts';
import type { Ran } from './mountlet-program.ts';

const options = { skip: noKubectl };
const directory = mkdtempSync(join(tmpdir(), 'mountlet-test-'));
const cleanUps: (() => Promise<void>)[] = [];
let node: RunningNode;

before(async () => {
  if (noKubectl !== false) return;
  node = await runningNode({ after: (act) => void cleanUps.push(act) }, directory);
  await node.addPod('web', { main: ['cat'], side: ['sh', '-c', 'echo side; exec cat >/dev/null'] });
});

after(async () => {
  for (const act of cleanUps) await act();
  rmSync(directory, { recursive: true, force: true });
});

type Transport = 'websockets' | 'spdy';

function environment(transport: Transport): NodeJS.ProcessEnv {
  const isOn = String(transport === 'websockets');
  return {
    PATH: process.env['PATH'],
    HOME: directory,
    KUBECONFIG: node.kubeconfig,
    KUBECTL_REMOTE_COMMAND_WEBSOCKETS: isOn,
    KUBECTL_PORT_FORWARD_WEBSOCKETS: isOn,
    ...withoutCollector,
  };
}

function start(args: readonly string[], transport: Transport, program = 'kubectl'): ChildProcess {
  return spawn(program, args, { env: environment(transport), stdio: ['pipe', 'pipe', 'pipe'] });
}

async function run(
  args: readonly string[],
  { input = '', transport = 'websockets' }: { input?: string | Buffer; transport?: Transport } = {},
): Promise<Ran> {
  return await runToEnd(() => start(args, transport), input);
}

/** What succeeds; anything else is shown. */
async function kubectl(line: string | readonly string[], extra: Parameters<typeof run>[1] = {}): Promise<string> {
  const args = typeof line === 'string' ? line.split(' ') : line;
  const { code, stdout, stderr } = await run(args, extra);
  assert.equal(code, 0, `kubectl ${args.join(' ')}: ${code}\n${stdout.slice(0, 2000)}${stderr}`);
  return stdout;
}

/** WebSockets are GET, SPDY is POST: kubectl silently takes the other when the first is refused. */
async function assertTransport(transport: Transport, path: RegExp): Promise<void> {
  const methods = (): readonly string[] =>
    node.notices.flatMap((notice) =>
      notice.kind === 'NodeRequestServed' && path.test(notice.path) ? [notice.method] : [],
    );
  const wanted = transport === 'websockets' ? 'GET' : 'POST';
  // kubectl may be gone before the node has reported it.
  for (let looks = 0; looks < 2_400 && methods().at(-1) !== wanted; looks += 1) await sleep(50);
  assert.equal(methods().at(-1), wanted);
}

test('kubectl get --raw and create --raw reach the server of a node behind nodes/NAME/proxy', options, async () => {
  const raw = (path: string): Promise<string> => kubectl(['get', '--raw', `/api/v1/nodes/${path}`]);
  assert.equal(await raw('here/proxy/configz'), '{"kubeletconfig":{"maxPods":7}}');
  assert.equal(await raw('here/proxy/stats/summary?only_cpu_and_memory=true'), '{"onlyCpuAndMemory":true}');
  assert.equal(await raw(`https:here:${node.node.address.port}/proxy/metrics`), 'up 1\n');
  const posted = ['create', '--raw', '/api/v1/nodes/here/proxy/stats/summary', '-f', '-'];
  assert.equal(await kubectl(posted, { input: '{}' }), '{"onlyCpuAndMemory":false}');
});

test('a log that is followed behind nodes/NAME/proxy comes as it is written', options, async () => {
  const path = '/api/v1/nodes/here/proxy/containerLogs/default/web/side?follow=true';
  const child = start(['get', '--raw', path], 'websockets');
  const ended = once(child, 'close');
  const [line] = (await once(createInterface({ input: child.stdout ?? assert.fail() }), 'line')) as [string];
  assert.equal(line, 'side');
  child.kill('SIGKILL');
  await ended;
});

for (const transport of ['websockets', 'spdy'] as const) {
  test(`kubectl exec over ${transport}: output, errors, exit codes, input`, options, async () => {
    const exec = ['exec', 'web', '-c', 'main', '--'];
    assert.equal(await kubectl([...exec, 'echo', 'hello world'], { transport }), 'hello world\n');
    await assertTransport(transport, /exec/);
    const both = await run([...exec, 'sh', '-c', 'echo out; echo err >&2; exit 3'], { transport });
    assert.deepEqual(both, { code: 3, stdout: 'out\n', stderr: 'err\ncommand terminated with exit code 3\n' });
    const interactive = ['exec', '-i', 'web', '-c', 'main', '--'];
    assert.equal(await kubectl([...interactive, 'sort'], { transport, input: 'b\na\n' }), 'a\nb\n');
    const missing = await run([...exec, '/does/not/exist'], { transport });
    assert.equal(missing.code, 1);
    assert.match(missing.stderr, /error executing command in container: Cannot start "\/does\/not\/exist"/);
  });

  test(`kubectl exec over ${transport}: much output and input arrive whole`, options, async () => {
    const bytes = randomBytes(3 * 1024 * 1024).toString('base64');
    const sum = createHash('sha256').update(bytes).digest('hex');
    const interactive = ['exec', '-i', 'web', '-c', 'main', '--'];
    assert.equal(await kubectl([...interactive, 'sha256sum'], { transport, input: bytes }), `${sum}  -\n`);
    assert.ok((await kubectl([...interactive, 'cat'], { transport, input: bytes })) === bytes);
    // A command that ends before its input does.
    assert.equal(await kubectl([...interactive, 'head', '-c', '5'], { transport, input: bytes }), bytes.slice(0, 5));
  });

  test(`kubectl exec over ${transport}: what cannot be is refused with a reason`, options, async () => {
    const cases: readonly [string, RegExp][] = [
      ['exec nowhere -- true', /pods "nowhere" not found/],
      ['exec web -c nope -- true', /container nope is not valid for pod web/],
    ];
    for (const [line, text] of cases) {
      const { code, stderr } = await run(line.split(' '), { transport });
      assert.equal(code, 1);
      assert.match(stderr, text);
    }
  });

  test(`kubectl exec -t over ${transport}: a terminal of the right size, also when it changes`, options, async (t) => {
    if (spawnSync('script', ['--version']).status !== 0) return t.skip('needs script of util-linux');
    // A command may begin before the size of the client's terminal has come.
    const until = (size: string): string => `until [ "$(stty size)" = "${size}" ]; do sleep 0.05; done`;
    const inside = `${until('33 77')}; echo sized; ${until('44 88')}; echo resized; exit 7`;
    const fifo = join(directory, `fifo-${transport}`);
    assert.equal(spawnSync('mkfifo', [fifo]).status, 0);
    const outside =
      `stty rows 33 cols 77; { read _ <${fifo}; stty rows 44 cols 88 </dev/tty; } & ` +
      `kubectl exec -it web -c main -- sh -c '${inside}'`;
    const child = start(['-qec', outside, '/dev/null'], transport, 'script');
    let text = '';
    const sized = new Promise<void>((resolve) =>
      child.stdout?.on('data', (bytes: Buffer) => {
        text += bytes.toString();
        if (text.includes('sized')) resolve();
      }),
    );
    const closed = once(child, 'close') as Promise<[number]>;
    await Promise.race([sized, closed]);
    writeFileSync(fifo, 'go\n');
    const [code] = await closed;
    assert.match(text, /sized\r\n[^]*resized\r\n/);
    assert.equal(code, 7);
  });

  test(`kubectl cp over ${transport}: a file of 20 MB there and back`, options, async () => {
    const from = join(directory, `big-${transport}`);
    const there = join(directory, `there-${transport}`);
    const back = join(directory, `back-${transport}`);
    const bytes = randomBytes(20 * 1024 * 1024);
    writeFileSync(from, bytes);
    await kubectl(['cp', from, `default/web:${there}`, '-c', 'main'], { transport });
    assert.ok(readFileSync(there).equals(bytes));
    await kubectl(['cp', `default/web:${there}`, back, '-c', 'main'], { transport });
    assert.ok(readFileSync(back).equals(bytes));
  });

  test(`kubectl attach over ${transport}: joins the container's own streams`, options, async () => {
    const name = `attached-${transport}`;
    await node.addPod(name, { main: ['sh', '-c', 'while read line; do echo "got $line"; done; echo bye'] });
    const attached = await run(['attach', '-i', name], { transport, input: 'one\ntwo\n' });
    assert.match(attached.stdout, /got one\ngot two\nbye\n/);
    assert.equal(attached.code, 0, attached.stderr);
    await assertTransport(transport, /attach/);
  });

  test(`kubectl port-forward over ${transport}: many connections at once, and a closed port`, options, async () => {
    const server = createServer((request, response) => {
      request.resume();
      request.on('end', () => response.end(`${request.url}:${'x'.repeat(100_000)}`));
    }).listen(0, '127.0.0.1');
    await once(server, 'listening');
    const { port } = server.address() as AddressInfo;
    const forward = start(['port-forward', 'pod/web', `:${port}`, ':1'], transport);
    const closed = once(forward, 'close');
    const stderr: string[] = [];
    forward.stderr?.on('data', (bytes: Buffer) => stderr.push(bytes.toString()));
    const locals: number[] = [];
    for await (const line of createInterface({ input: forward.stdout ?? process.stdin })) {
      const [, local] = /127\.0\.0\.1:(\d+) ->/.exec(line) ?? [];
      if (local !== undefined) locals.push(Number(local));
      if (locals.length === 2) break;
    }
    const [good, refused] = locals;
    const texts = await Promise.all(
      Array.from({ length: 8 }, async (_, index) => (await fetch(`http://127.0.0.1:${good}/${index}`)).text()),
    );
    assert.deepEqual(
      texts.map((text) => [text.slice(0, 3), text.length]),
      texts.map((_, index) => [`/${index}:`, 100_003]),
    );
    const said = new Promise<void>((resolve) => {
      forward.stderr?.on('data', () => {
        if (stderr.join('').includes('error forwarding')) resolve();
      });
    });
    await assert.rejects(fetch(`http://127.0.0.1:${refused}/`));
    await said;
    assert.match(stderr.join(''), /error forwarding port 1 to pod web, uid [0-9a-f-]+: connect ECONNREFUSED/);
    forward.kill('SIGKILL');
    await closed;
    server.closeAllConnections();
    server.close();
    while (
      !node.notices.some(
        (notice) =>
          'path' in notice &&
          notice.path.startsWith('/portForward') &&
          notice.kind === 'NodeRequestServed' &&
          notice.method === (transport === 'websockets' ? 'GET' : 'POST'),
      )
    ) {
      await new Promise((resolve) => setImmediate(resolve));
    }
    await assertTransport(transport, /portForward/);
  });
}

test('kubectl logs: tail, timestamps, since, limits, several containers', options, async () => {
  await node.addPod('logged', { main: ['cat'], other: ['sh', '-c', 'echo from-other; exec cat'] });
  const log = node.logPath('logged', 'main');
  writeFileSync(
    log,
    [
      '2020-01-01T00:00:00.000000001Z stdout F first',
      '2020-01-02T00:00:00.5Z stderr P sec',
      '2020-01-02T00:00:00.5Z stderr F ond',
      `${new Date().toISOString()} stdout F third`,
      '',
    ].join('\n'),
  );
  assert.equal(await kubectl('logs logged -c main'), 'first\nsecond\nthird\n');
  assert.equal(await kubectl('logs logged -c main --tail=2'), 'second\nthird\n');
  assert.equal(await kubectl('logs logged -c main --tail=0'), '');
  assert.equal(await kubectl('logs logged -c main --since=1h'), 'third\n');
  assert.equal(await kubectl('logs logged -c main --since-time=2020-01-02T00:00:00Z'), 'second\nthird\n');
  assert.equal(await kubectl('logs logged -c main --limit-bytes=8'), 'first\nse');
  assert.match(
    await kubectl('logs logged -c main --timestamps'),
    /^2020-01-01T00:00:00\.000000001Z first\n2020-01-02T00:00:00\.500000000Z second\n\S+\d{6}Z third\n$/,
  );
  const all = await kubectl('logs logged --all-containers --prefix');
  assert.match(all, /^\[pod\/logged\/main\] first$/m);
  assert.match(all, /^\[pod\/logged\/other\] from-other$/m);
  assert.equal(
    await kubectl('get --raw /api/v1/namespaces/default/pods/logged/log?container=main&stream=Stderr'),
    'second\n',
  );
});

test('kubectl logs refuses what makes no sense, in the words of the API', options, async () => {
  const raw = (query: string): Promise<Ran> =>
    run(['get', '--raw', `/api/v1/namespaces/default/pods/web/log?container=main&${query}`]);
  const cases: readonly [string, RegExp][] = [
    ['tailLines=-1', /tailLines: Invalid value: -1: must be greater than or equal to 0/],
    ['limitBytes=0', /limitBytes: Invalid value: 0: must be greater than 0/],
    ['sinceSeconds=0', /sinceSeconds: Invalid value: 0: must be greater than 0/],
    ['sinceSeconds=1&sinceTime=2020-01-01T00:00:00Z', /at most one of `sinceTime` or `sinceSeconds` may be specified/],
    ['stream=Sideways', /stream: Unsupported value: "Sideways"/],
    ['tailLines=many', /invalid syntax/],
    ['previous=true', /previous terminated container "main" in pod "web" not found/],
  ];
  for (const [query, text] of cases) {
    const { code, stderr } = await raw(query);
    assert.equal(code, 1, query);
    assert.match(stderr, text);
  }
});

test('kubectl logs says why there is no log yet', options, async () => {
  await node.addPod('waiting', { main: ['cat'] });
  const cases: readonly [string, string][] = [
    ['ContainerCreating', 'is waiting to start: ContainerCreating'],
    ['ErrImagePull', "is waiting to start: image can't be pulled"],
    ['ImagePullBackOff', 'is waiting to start: trying and failing to pull image'],
  ];
  for (const [reason, text] of cases) {
    const status = {
      name: 'main',
      image: '',
      imageID: '',
      ready: false,
      restartCount: 0,
      state: { waiting: { reason } },
    };
    await node.setStatus('waiting', { phase: 'Pending', containerStatuses: [status] });
    const { code, stderr } = await run(['logs', 'waiting']);
    assert.equal(code, 1);
    assert.match(stderr, new RegExp(`BadRequest\\): container "main" in pod "waiting" ${text}`));
  }
});

test(
  'kubectl logs -f follows over a rotation until the container ends; --previous shows the run before',
  options,
  async () => {
    await node.addPod('followed', { main: ['cat'] });
    const log = node.logPath('followed', 'main');
    const line = (text: string): string => `${new Date().toISOString()} stdout F ${text}\n`;
    appendFileSync(log, line('one'));
    const child = start(['logs', '-f', 'followed'], 'websockets');
    const closed = once(child, 'close') as Promise<[number]>;
    const lines = createInterface({ input: child.stdout ?? process.stdin })[Symbol.asyncIterator]();
    const next = async (): Promise<string> => String((await lines.next()).value);
    assert.equal(await next(), 'one');
    appendFileSync(log, line('two'));
    assert.equal(await next(), 'two');
    rotateLog(log);
    appendFileSync(`${log}.1`, line('late'));
    appendFileSync(log, line('three'));
    assert.equal(await next(), 'late');
    assert.equal(await next(), 'three');
    await node.restart('followed', 'main', ['sh', '-c', 'echo again; exec cat']);
    const [code] = await closed;
    assert.equal(code, 0);
    assert.equal(await kubectl('logs followed --previous'), 'three\n');
  },
);
