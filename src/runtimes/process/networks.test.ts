/**
 * A network for each pod, with real namespaces: who reaches whom, and what is left. This file is also the program that gets
 * killed, and the one that may not make networks. Needs root.
 */
import assert from 'node:assert/strict';
import { type ChildProcess, spawn, spawnSync } from 'node:child_process';
import { randomInt } from 'node:crypto';
import { createSocket } from 'node:dgram';
import { once } from 'node:events';
import { mkdtempSync, readFileSync, readdirSync } from 'node:fs';
import { type AddressInfo, type Server, createServer } from 'node:net';
import { networkInterfaces, tmpdir } from 'node:os';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { type TestContext, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { systemClock } from '../../base/clock.ts';
import {
  addressOf,
  answering,
  ask,
  asking,
  briefMs,
  openWithNode as open,
  port,
  script,
  server,
  traces,
  untilNothing,
} from '../../testing/machine/pod-servers.ts';
import { ProcessSandboxes, mount, podRequest, security, soon } from '../../testing/machine/process-sandboxes.ts';
import type { PortMapping } from '../runtime.ts';
import { openProcessRuntime } from './machine.ts';
import { machineAddress } from './network/packet-rules.ts';
import { firstPod, lastPod, networkNames, numberIn } from './network/subnet.ts';
import { defaultProcessRuntimeSettings } from './process-runtime.ts';

const self = fileURLToPath(import.meta.url);
const victim = process.env['MOUNTLET_TEST_VICTIM'];
const skip = process.getuid?.() === 0 ? false : 'needs root: an ordinary user has the network of the machine';
async function listening(t: TestContext, answer: string, host: string): Promise<number> {
  const own: Server = createServer((socket) => socket.end(answer)).listen(0, host);
  t.after(() => own.close());
  await once(own, 'listening');
  return (own.address() as AddressInfo).port;
}

function ownAddress(): string {
  const all = Object.values(networkInterfaces()).flatMap((list = []) => list);
  return all.find(({ family, internal }) => family === 'IPv4' && !internal)?.address ?? '127.0.0.1';
}

if (victim !== undefined) {
  const settings = { ...defaultProcessRuntimeSettings, stateDirectory: join(victim, 'state') };
  const problems: string[] = [];
  const runtime = await openProcessRuntime(settings, {
    clock: systemClock,
    report: ({ reason, message }) => problems.push(`${reason}: ${message}`),
  });
  const seen = [];
  for (const uid of ['a', 'b']) seen.push((await runtime.runPod(podRequest(victim, { uid }), soon())).ips);
  process.stdout.write(`${JSON.stringify({ seen, problems })}\n`);
  await new Promise(() => setInterval(() => {}, 1000));
}

/** This file as a program of its own, with a runtime and two pods. */
async function anotherRuntime(
  t: TestContext,
  directory: string,
  ...under: readonly string[]
): Promise<{ readonly program: ChildProcess; readonly seen: string[][]; readonly problems: string[] }> {
  const [file, ...args] = [...under, process.execPath, self];
  const program = spawn(file, args, {
    env: { ...process.env, NODE_TEST_CONTEXT: undefined, MOUNTLET_TEST_VICTIM: directory },
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  t.after(() => program.kill('SIGKILL'));
  const [said] = (await once(program.stdout, 'data')) as [Buffer];
  return { program, ...(JSON.parse(said.toString()) as { seen: string[][]; problems: string[] }) };
}

const own = { skip: victim === undefined ? skip : 'this is the program of another test' };

test('two pods listen on one port, and reach each other and are reached by their addresses', own, async (t) => {
  const sandboxes = await open(t);
  const [a, b] = [await server(sandboxes, 'a'), await server(sandboxes, 'b')];
  assert.notEqual(a, b);
  const gateway = a.replace(/\d+$/, '1');
  assert.deepEqual([await ask(a, port), await ask(b, port)], [`a to ${gateway}`, `b to ${gateway}`]);
  const inA = await sandboxes.run('a', '', { name: 'client', command: asking(b, port) });
  assert.equal(inA.output, `b to ${a}\n`);
  assert.equal(
    (await sandboxes.run('a', '', { name: 'own', command: asking('127.0.0.1', port) })).output,
    'a to 127.0.0.1\n',
  );
  const seen = await sandboxes.run('a', 'cat /proc/net/dev; echo /sys/class/net/*; cat /sys/class/net/eth0/address');
  assert.match(seen.output, /eth0: [\s\S]*\n\/sys\/class\/net\/eth0 \/sys\/class\/net\/lo\n0a:58:/);
  const stats = (await sandboxes.runtime.stats()).find(({ uid }) => uid === 'a')?.network?.interfaces;
  assert.deepEqual(
    stats?.map(({ name, receivedBytes, sentBytes }) => [name, receivedBytes > 0, sentBytes > 0]),
    [['eth0', true, true]],
  );
});

test('a connection is opened inside of the pod: 127.0.0.1, then ::1', own, async (t) => {
  const sandboxes = await open(t);
  await server(sandboxes, 'four', {}, '127.0.0.1');
  await server(sandboxes, 'six', {}, '::1');
  for (const pod of ['four', 'six']) {
    const socket = await sandboxes.runtime.connect(pod, port, soon());
    assert.match(await text(socket), new RegExp(`^${pod} to `));
    await assert.rejects(sandboxes.runtime.connect(pod, 1, soon()), { code: 'ECONNREFUSED' });
  }
  const many = Array.from(
    { length: 20 },
    async () => await text(await sandboxes.runtime.connect('four', port, soon())),
  );
  assert.equal(new Set(await Promise.all(many)).size, 1);
  await sandboxes.runtime.stopPod('four', soon());
  await assert.rejects(sandboxes.runtime.connect('four', port, soon()));
});

test('of what listens on the loopback address of the machine a pod reaches what is meant for it', own, async (t) => {
  const meant = await listening(t, 'meant', '127.0.0.1');
  const other = await listening(t, 'other', '127.0.0.1');
  const sandboxes = await open(t, { machinePorts: [meant] });
  const pod = await sandboxes.pod();
  const gateway = (await addressOf(sandboxes, pod)).replace(/\d+$/, '1');
  const heard = async (host: string, at: number, patienceMs?: number): Promise<string> =>
    (await sandboxes.run(pod, '', { command: asking(host, at, '', patienceMs) })).output.trim();
  assert.equal(await heard(machineAddress, meant), 'meant');
  assert.notEqual(await heard(machineAddress, other, briefMs), 'other');
  assert.equal(await heard('127.0.0.1', meant), 'ECONNREFUSED');
  assert.equal(await heard(gateway, meant), 'ECONNREFUSED');
});

test('hostPorts lead to the pod that has them, and to nobody when it is gone', own, async (t) => {
  const sandboxes = await open(t);
  const [everywhere, here] = [await freePort(24_000), await freePort(27_000)];
  const mapping: PortMapping = { protocol: 'TCP', containerPort: port, hostPort: everywhere, hostIp: '' };
  await server(sandboxes, 'a', { ports: [mapping, { ...mapping, hostPort: 0 }] });
  await server(sandboxes, 'b', { ports: [{ ...mapping, hostPort: here, hostIp: '127.0.0.1' }] });
  assert.match(await ask('127.0.0.1', everywhere), /^a to /);
  assert.match(await ask(ownAddress(), everywhere), /^a to /);
  assert.match(await ask('127.0.0.1', here), /^b to /);
  await assert.rejects(ask(ownAddress(), here), { code: 'ECONNREFUSED' });
  for (const pod of ['a', 'b']) {
    const { output } = await sandboxes.run(pod, '', { name: 'client', command: asking(ownAddress(), everywhere) });
    assert.match(output, /^a to /, `asked by ${pod}`);
  }
  await sandboxes.reopen();
  assert.match(await ask('127.0.0.1', everywhere), /^a to /);
  await sandboxes.runtime.removePod('a', soon());
  await assert.rejects(ask('127.0.0.1', everywhere), { code: 'ECONNREFUSED' });
  assert.match(await ask('127.0.0.1', here), /^b to /);
  const wrong = { ...mapping, hostIp: '::1; drop' };
  await Promise.all([
    assert.rejects(sandboxes.pod({ uid: 'c', ports: [wrong] }), { message: /^Cannot publish a port at "::1; drop"/ }),
    server(sandboxes, 'd', { ports: [mapping] }),
  ]);
  assert.match(await ask('127.0.0.1', everywhere), /^d to /, 'made at the same time');
});

test('a client that sends to a hostPort over UDP without a pause reaches each pod that has it', own, async (t) => {
  const sandboxes = await open(t);
  const hostPort = await freePort(24_000);
  const mapping: PortMapping = { protocol: 'UDP', containerPort: port, hostPort, hostIp: '' };
  const client = createSocket('udp4');
  const sending = setInterval(() => client.send('who?', hostPort, '127.0.0.1'), 20);
  t.after(() => {
    clearInterval(sending);
    client.close();
  });
  client.on('error', () => {}); // nobody listens yet
  for (const uid of ['a', 'b']) {
    await sandboxes.pod({ uid, ports: [mapping] });
    const source = `const s = require('dgram').createSocket('udp4'); s.on('message', (_, { port, address }) => s.send('${uid}', port, address)).bind(${port})`;
    await sandboxes.start(uid, { command: script(source) });
    const [answer] = (await once(client, 'message', { signal: soon() })) as [Buffer];
    assert.equal(answer.toString(), uid);
    await sandboxes.runtime.removePod(uid, soon());
    client.removeAllListeners('message');
  }
});

/** One that the system gives to nobody: the rules take it from every program of the machine. */
async function freePort(portMin: number): Promise<number> {
  const free = randomInt(portMin, portMin + 3_000);
  const taken = createServer().listen(free, '127.0.0.1');
  const isFree = await once(taken, 'listening').then(
    () => true,
    () => false,
  );
  taken.close();
  return isFree ? free : await freePort(portMin);
}

test(
  'a pod reaches other networks with the address of the machine, and nobody there reaches the pod',
  own,
  async (t) => {
    if (spawnSync('ip', ['-V']).status !== 0) return t.skip('needs iproute2 to make another network');
    const run = (line: string): void => {
      const [file = '', ...args] = line.split(' ');
      const { status, stderr } = spawnSync(file, args, { encoding: 'utf8' });
      assert.equal(status, 0, `${line}: ${stderr}`);
    };
    // The other network: a namespace with a server that tells who asks.
    const [end, outside] = [`mt${process.pid}`, '198.51.100'];
    const away = spawn('unshare', ['--net', ...script('setInterval(() => {}, 1000); console.log(1)')], {
      stdio: ['ignore', 'pipe', 'inherit'],
    });
    t.after(() => away.kill('SIGKILL'));
    await once(away.stdout, 'data');
    run(`ip link add ${end} type veth peer name far netns ${away.pid}`);
    run(`ip addr add ${outside}.1/24 dev ${end}`);
    run(`ip link set ${end} up`);
    for (const words of [`addr add ${outside}.2/24 dev far`, 'link set far up', `route add default via ${outside}.1`]) {
      run(`nsenter -t ${away.pid} -n ip ${words}`);
    }
    const [file = '', ...args] = answering('away');
    const far = spawn('nsenter', ['-t', `${away.pid}`, '-n', file, ...args], { stdio: ['ignore', 'pipe', 'inherit'] });
    t.after(() => far.kill('SIGKILL'));
    await once(far.stdout, 'data');

    const sandboxes = await open(t);
    const address = await server(sandboxes, 'a');
    const { output } = await sandboxes.run('a', '', { name: 'client', command: asking(`${outside}.2`, port) });
    assert.equal(output, `away to ${outside}.1\n`);
    const back = spawnSync('nsenter', ['-t', `${away.pid}`, '-n', ...asking(address, port, '', briefMs)], {
      encoding: 'utf8',
    });
    assert.equal(back.stdout, 'nothing\n');
  },
);

test('a pod sends with its own address alone, even a privileged one', own, async (t) => {
  const sandboxes = await open(t);
  const b = await server(sandboxes, 'b');
  await sandboxes.pod({ uid: 'a' });
  const stolen = b.replace(/\d+$/, '77');
  const privileged = { security: security({ privileged: true }), name: 'thief' };
  const taken = await sandboxes.run('a', `ip addr add ${stolen}/32 dev eth0 && ip -4 addr`, privileged);
  assert.ok(taken.output.includes(stolen), taken.output);
  const { output } = await sandboxes.run('a', '', { ...privileged, command: asking(b, port, stolen, briefMs) });
  assert.match(output, /^(nothing|EHOSTUNREACH)\n$/);
  assert.match((await sandboxes.run('a', '', { ...privileged, command: asking(b, port) })).output, /^b to /);
  await sandboxes.run('a', 'ip link set eth0 address 0a:58:00:00:00:01', privileged);
  const disguised = await sandboxes.run('a', '', { ...privileged, command: asking(b, port, '', briefMs) });
  assert.match(disguised.output, /^(nothing|EHOSTUNREACH)\n$/);
});

test('sysctls of the network are those of the pod, and names are resolved as it says', own, async (t) => {
  const sandboxes = await open(t);
  const before = readFileSync('/proc/sys/net/core/somaxconn', 'utf8');
  const dns = { servers: ['10.0.0.53', 'fd00::53'], searches: ['a.local', 'b.local'], options: ['ndots:5'] };
  const pod = await sandboxes.pod({ sysctls: { 'net.core.somaxconn': '77', 'net.ipv4.tcp_syncookies': '0' }, dns });
  const { output } = await sandboxes.run(pod, 'cat /proc/sys/net/core/somaxconn /etc/resolv.conf');
  assert.equal(output, '77\nsearch a.local b.local\nnameserver 10.0.0.53\nnameserver fd00::53\noptions ndots:5\n');
  assert.equal(readFileSync('/proc/sys/net/core/somaxconn', 'utf8'), before);
  await sandboxes.runtime.removePod(pod, soon());
  assert.deepEqual(readdirSync(join(sandboxes.directory, 'state', 'resolvers')), []);
  const custom = sandboxes.volume('own');
  const plain = await sandboxes.pod({ uid: 'plain', hostNetwork: true });
  const mounts = [mount(custom, '/data')];
  const seen = await sandboxes.run(plain, 'cat /etc/resolv.conf; cat /proc/net/dev', { mounts });
  assert.ok(seen.output.startsWith(readFileSync('/etc/resolv.conf', 'utf8')));
  assert.deepEqual((await sandboxes.runtime.get(plain))?.ips, [], 'those of the node');
});

test('pods keep their network over restarts; without pods nothing is left', own, async (t) => {
  const sandboxes = await open(t);
  const [a, b] = [await server(sandboxes, 'a'), await server(sandboxes, 'b')];
  assert.equal(traces(sandboxes.directory).length, 5, 'a bridge, two ends, two tables');
  await sandboxes.reopen();
  assert.deepEqual([await addressOf(sandboxes, 'a'), await addressOf(sandboxes, 'b')], [a, b]);
  assert.match(await ask(a, port), /^a to /);
  assert.equal(await text(await sandboxes.runtime.connect('b', port, soon())), 'b to 127.0.0.1');
  const c = await sandboxes.pod({ uid: 'c' });
  assert.ok(![a, b, ''].includes(await addressOf(sandboxes, c)));
  for (const pod of ['a', 'b', 'c']) await sandboxes.runtime.removePod(pod, soon());
  await sandboxes.runtime.close();
  assert.deepEqual(traces(sandboxes.directory), []);
  await sandboxes.reopen();
  await sandboxes.pod();
  // The same one, unless another node of this machine has taken it meanwhile (subnet.test.ts).
  const remembered = readFileSync(join(sandboxes.directory, 'state', 'subnet'), 'utf8').trim();
  const number = numberIn(remembered, await addressOf(sandboxes, 'pod-1'));
  assert.ok(number >= firstPod && number <= lastPod, 'the subnet of its own file');
});

test(
  'a node that is killed, and its spawner too, leaves nothing that the next start does not take away',
  own,
  async (t) => {
    const directory = mkdtempSync(join(tmpdir(), 'mountlet-networks-'));
    const { program, seen } = await anotherRuntime(t, directory);
    assert.deepEqual(
      seen.map((ips) => ips.length),
      [1, 1],
    );
    program.kill('SIGKILL');
    await once(program, 'exit');
    const sandboxes = await ProcessSandboxes.open(t, {}, directory);
    const ips = (await sandboxes.runtime.list()).map((pod) => pod.ips);
    assert.deepEqual(ips, seen, 'adopted');
    const spawner = readdirSync('/proc').find((pid) => commandLine(pid).endsWith(` ${join(directory, 'state')}`));
    const lost = sandboxes.runtime.changes(soon())[Symbol.asyncIterator]().next();
    process.kill(Number(spawner), 'SIGKILL');
    await lost;
    const { state } = (await sandboxes.runtime.get('a')) ?? {};
    assert.equal(state, 'notReady');
    const again = await sandboxes.runtime.runPod(podRequest(directory, { uid: 'a' }), soon());
    assert.equal(again.ips.length, 1);
    for (const pod of ['a', 'b']) await sandboxes.runtime.removePod(pod, soon());
    await sandboxes.runtime.close();
    await untilNothing(directory);
    await sandboxes.reopen();
  },
);

test('packet rules that another program removed come back', own, async (t) => {
  const sandboxes = await open(t, { sweepMs: 20 });
  await server(sandboxes, 'a');
  const { table } = networkNames(join(sandboxes.directory, 'state'));
  for (const family of ['ip', 'bridge']) {
    assert.equal(spawnSync('nft', ['delete', 'table', family, table]).status, 0);
    const until = Date.now() + 120_000;
    while (Date.now() < until && traces(sandboxes.directory).length < 4) await systemClock.sleep(20);
    assert.equal(traces(sandboxes.directory).length, 4, 'a bridge, an end, two tables');
  }
});

test('packet rules are taken away also when another program has removed the bridge', own, async (t) => {
  if (spawnSync('ip', ['-V']).status !== 0) return t.skip('needs iproute2 to remove the bridge');
  const sandboxes = await open(t);
  await server(sandboxes, 'a');
  await sandboxes.runtime.removePod('a', soon());
  const { bridge } = networkNames(join(sandboxes.directory, 'state'));
  assert.equal(spawnSync('ip', ['link', 'delete', bridge]).status, 0);
  await sandboxes.runtime.close();
  await untilNothing(sandboxes.directory);
  await sandboxes.reopen();
});

test('two nodes of one machine have networks of their own', own, async (t) => {
  const [one, two] = [await open(t), await open(t)];
  const [a, b] = [await server(one, 'a'), await server(two, 'b')];
  assert.notEqual(a.replace(/\d+$/, ''), b.replace(/\d+$/, ''));
  assert.match((await one.run('a', '', { name: 'client', command: asking(b, port) })).output, /^b to /);
});

test('where the kernel permits no networks, pods have that of the machine, which is said once', own, async (t) => {
  const directory = mkdtempSync(join(tmpdir(), 'mountlet-networks-'));
  const without = ['setpriv', '--bounding-set=-net_admin', '--inh-caps=-net_admin'];
  const { program, seen, problems } = await anotherRuntime(t, directory, ...without);
  assert.deepEqual(seen, [[], []]);
  assert.equal(problems.length, 1);
  assert.match(
    problems[0] ?? '',
    /^PodNetworkUnavailable: Pods have the network of this machine instead of one of their own: .*operation not permitted/,
  );
  program.kill('SIGKILL');
  await once(program, 'exit');
  await ProcessSandboxes.open(t, {}, directory);
  assert.deepEqual(traces(directory), []);
});

function commandLine(pid: string): string {
  try {
    return readFileSync(`/proc/${pid}/cmdline`, 'utf8').replaceAll('\0', ' ').trim();
  } catch {
    return '';
  }
}
