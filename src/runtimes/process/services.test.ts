/** What a Service leads to, with real pods and the kernel's packet filter. The text of the rules: network/service-rules.test.ts. Needs root. */
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { randomInt } from 'node:crypto';
import { createSocket } from 'node:dgram';
import { once } from 'node:events';
import { createServer } from 'node:net';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { test } from 'node:test';
import { systemClock } from '../../base/clock.ts';
import {
  addressOf,
  ask,
  asking,
  openWithNode,
  port,
  script,
  server,
  traces,
  untilNothing,
} from '../../testing/machine/pod-servers.ts';
import { type ProcessSandboxes, soon } from '../../testing/machine/process-sandboxes.ts';
import type { ServiceForward } from '../runtime.ts';
import { networkNames } from './network/subnet.ts';

const own = { skip: process.getuid?.() === 0 ? false : 'needs root: an ordinary user has the network of the machine' };
// Other tests of this machine have Services too, and the machine itself is a client of all of them.
const address = `10.96.${randomInt(1, 255)}.${randomInt(1, 255)}`;
/** Above those that other tests of this machine listen at. */
const nodePort = randomInt(32_000, 32_767);

function forward(targets: readonly string[], more: Partial<ServiceForward> = {}): ServiceForward {
  const all = targets.map((target) => ({ address: target, port }));
  return {
    key: 'default/web',
    protocol: 'TCP',
    address,
    port: 80,
    nodePort: 0,
    targets: all,
    isSticky: false,
    ...more,
  };
}

async function heard(sandboxes: ProcessSandboxes, pod: string, host: string, at: number): Promise<string> {
  return (await sandboxes.run(pod, '', { command: asking(host, at) })).output.trim();
}

test('a Service answers pods, the pod behind it, and the machine; at a port of the machine too', own, async (t) => {
  const sandboxes = await openWithNode(t);
  const network = await sandboxes.runtime.openServiceNetwork();
  const [a, b] = [await server(sandboxes, 'a'), await server(sandboxes, 'b')];
  await sandboxes.pod({ uid: 'client' });
  assert.deepEqual(
    [a, network.gateway].map((one) => network.isPod(one)),
    [true, false],
  );
  await network.serve([forward([a], { nodePort })]);
  const by = network.gateway;
  assert.equal(await heard(sandboxes, 'client', address, 80), `a to ${by}`);
  assert.equal(await heard(sandboxes, 'a', address, 80), `a to ${by}`, 'itself');
  assert.match(await ask(address, 80), /^a to /);
  assert.match(await ask('127.0.0.1', nodePort), /^a to /);
  assert.match(await heard(sandboxes, 'client', by, nodePort), /^a to /);
  await network.serve([forward([b], { nodePort })]);
  assert.equal(await heard(sandboxes, 'client', address, 80), `b to ${by}`);
  assert.match(await ask('127.0.0.1', nodePort), /^b to /);
  await network.serve([]);
  await assert.rejects(ask('127.0.0.1', nodePort), { code: 'ECONNREFUSED' });
});

test('what nothing answers is refused at once: no pod is ready, or it is another port', own, async (t) => {
  const sandboxes = await openWithNode(t);
  const network = await sandboxes.runtime.openServiceNetwork();
  const a = await server(sandboxes, 'a');
  await network.serve([forward([a]), forward([], { key: 'none', port: 81 })]);
  for (const at of [81, 82]) {
    assert.equal(await heard(sandboxes, 'a', address, at), 'ECONNREFUSED');
    await assert.rejects(ask(address, at), { code: 'ECONNREFUSED' });
  }
  assert.match(await ask(address, 80), /^a to /);
});

test(
  'connections are spread over the pods; a client that is to stay with one stays, whatever happens to other Services',
  own,
  async (t) => {
    const sandboxes = await openWithNode(t);
    const network = await sandboxes.runtime.openServiceNetwork();
    const targets = [await server(sandboxes, 'a'), await server(sandboxes, 'b')];
    const answers = async (): Promise<ReadonlySet<string>> =>
      new Set((await Promise.all(Array.from({ length: 24 }, () => ask(address, 80)))).map((text) => text.slice(0, 1)));
    await network.serve([forward(targets)]);
    assert.equal((await answers()).size, 2);
    await network.serve([forward(targets, { isSticky: true })]);
    const chosen = await answers();
    assert.equal(chosen.size, 1);
    await network.serve([forward(targets, { isSticky: true }), forward([], { key: 'other', port: 81 })]);
    assert.deepEqual(await answers(), chosen);
  },
);

test('a client that sends over UDP without a pause comes to the pod that is there', own, async (t) => {
  const sandboxes = await openWithNode(t);
  const network = await sandboxes.runtime.openServiceNetwork();
  const client = createSocket('udp4');
  const sending = setInterval(() => client.send('who?', 53, address), 20);
  t.after(() => {
    clearInterval(sending);
    client.close();
  });
  client.on('error', () => {}); // nobody listens yet
  for (const uid of ['a', 'b']) {
    await sandboxes.pod({ uid });
    const source = `const s = require('dgram').createSocket('udp4'); s.on('message', (_, { port, address }) => s.send('${uid}', port, address)).bind(${port})`;
    await sandboxes.start(uid, { command: script(source) });
    await network.serve([forward([await addressOf(sandboxes, uid)], { protocol: 'UDP', port: 53 })]);
    let answer = '';
    while (answer !== uid) answer = String((await once(client, 'message', { signal: soon() }))[0]);
  }
});

test('no Service leads to the loopback address of the machine, but that of its API server', own, async (t) => {
  const listener = createServer((socket) => socket.end('machine')).listen(0, '127.0.0.1');
  t.after(() => listener.close());
  await once(listener, 'listening');
  const { port: machinePort } = listener.address() as AddressInfo;
  const leadingTo = (target: string): ServiceForward =>
    forward([], { targets: [{ address: target, port: machinePort }] });
  const sandboxes = await openWithNode(t, { machinePorts: [machinePort] });
  await sandboxes.pod({ uid: 'client' });
  const network = await sandboxes.runtime.openServiceNetwork();
  await network.serve([leadingTo('10.96.0.1')]);
  assert.equal(await heard(sandboxes, 'client', address, 80), 'machine');
  assert.equal(await ask(address, 80), 'machine');
  const others = await openWithNode(t);
  await others.pod({ uid: 'client' });
  await (await others.runtime.openServiceNetwork()).serve([leadingTo('127.0.0.1')]);
  assert.equal(await heard(others, 'client', address, 80), 'ECONNREFUSED');
});

test(
  'rules stay for pods that go on, come back when someone removes them, and go with the last pod',
  own,
  async (t) => {
    const sandboxes = await openWithNode(t, { sweepMs: 20 });
    const a = await server(sandboxes, 'a');
    await (await sandboxes.runtime.openServiceNetwork()).serve([forward([a])]);
    await sandboxes.reopen();
    assert.match(await ask(address, 80), /^a to /, 'as before, until the Services are known');
    await (await sandboxes.runtime.openServiceNetwork()).serve([forward([a], { port: 81 })]);
    assert.match(await ask(address, 81), /^a to /);
    await assert.rejects(ask(address, 80), { code: 'ECONNREFUSED' });
    const table = `${networkNames(join(sandboxes.directory, 'state')).table}-services`;
    assert.equal(spawnSync('nft', ['delete', 'table', 'ip', table]).status, 0);
    const isThere = (): boolean => traces(sandboxes.directory).some((line) => line.endsWith(table));
    for (const until = Date.now() + 120_000; Date.now() < until && !isThere();) await systemClock.sleep(20);
    assert.ok(isThere());
    await sandboxes.runtime.removePod('a', soon());
    await sandboxes.reopen();
    await untilNothing(sandboxes.directory);
  },
);
