/** Strangers who open connections and say nothing, to a machine that may open few files. */
import assert from 'node:assert/strict';
import { readFileSync, readdirSync } from 'node:fs';
import type { Socket } from 'node:net';
import { connect } from 'node:net';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { connect as connectTls } from 'node:tls';
import { eventually } from './kubectl-program.ts';
import { mountAt, pod } from './manifests.ts';
import { UpMachine, withNode } from './up-program.ts';

const descriptors = 400;
const strangers = 900;

const machine = new UpMachine();
before(async () => {
  if (withNode.skip === false) await machine.startUnder(['prlimit', `--nofile=${descriptors}`], '--node-name', 'here');
});
after(() => machine.end());

/** Resolves when all are connected, or were refused. */
async function crowd(port: number, open: (port: number) => Socket): Promise<readonly Socket[]> {
  const sockets = Array.from({ length: strangers }, () => open(port));
  const settled = (socket: Socket): Promise<unknown> =>
    new Promise((resolve) => socket.once('connect', resolve).once('error', resolve).once('close', resolve));
  await Promise.all(sockets.map(settled));
  return sockets;
}

const silent = (port: number): Socket => connect(port, '127.0.0.1').on('error', () => {});
const unnamed = (port: number): Socket =>
  connectTls({ port, host: '127.0.0.1', rejectUnauthorized: false }).on('error', () => {});

test(
  `${strangers} connections of strangers to either server of a machine with ${descriptors} descriptors stop neither updates nor clients`,
  withNode,
  async () => {
    const { kubectl, up } = machine;
    await kubectl.ok('create configmap web --from-literal=text=0');
    const volumes = [{ name: 'web', configMap: { name: 'web' } }];
    await kubectl.apply(pod('web', { volumeMounts: [mountAt('web', '/web')] }, { volumes }));
    await kubectl.running('web');
    const file = join(await up.volume('web', 'configmap', 'web'), 'text');
    const [, apiPort = ''] = /API server is ready at \S+:(\d+)/.exec(up.output()) ?? [];
    const nodePort = await kubectl.ok([
      'get',
      'node',
      'here',
      '-o',
      'jsonpath={.status.daemonEndpoints.kubeletEndpoint.Port}',
    ]);
    let text = 0;
    for (const open of [silent, unnamed]) {
      const sockets = await Promise.all([crowd(Number(apiPort), open), crowd(Number(nodePort), open)]);
      try {
        text += 1;
        // Each is a new connection of a client that shows who it is; exec goes through the server of the node as well.
        await kubectl.ok(['patch', 'configmap', 'web', '-p', JSON.stringify({ data: { text: String(text) } })]);
        await eventually(() => assert.equal(readFileSync(file, 'utf8'), String(text)));
        assert.equal(await kubectl.exec('web', 'cat', '/web/text'), String(text));
        const used = readdirSync(`/proc/${up.process.pid}/fd`).length;
        assert.ok(used < descriptors * 0.6, `${used} descriptors are open`);
      } finally {
        for (const socket of sockets.flat()) socket.destroy();
      }
    }
    assert.doesNotMatch(up.output(), /EMFILE|too many open files/);
  },
);
