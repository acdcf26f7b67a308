import assert from 'node:assert/strict';
import { createServer } from 'node:http';
import { type AddressInfo, type Socket, connect, createServer as createTcpServer } from 'node:net';
import { type TestContext, test } from 'node:test';
import { systemClock } from '../../base/clock.ts';
import { aContainer, aPod } from '../../testing/fakes/builders.ts';
import { FakeRuntime } from '../../testing/fakes/fake-runtime.ts';
import { RecordedEvents } from '../../testing/fakes/memory-pod-api.ts';
import type { PodNetwork } from '../probes/http-exchange.ts';
import { runHook } from './container-killer.ts';

type Hook = Parameters<typeof runHook>[0]['hook'];

const network: PodNetwork = {
  connect: ({ port }) =>
    new Promise((resolve, reject) => {
      const socket = connect(port, '127.0.0.1', () => resolve(socket));
      socket.once('error', reject);
    }),
};

async function serve(t: TestContext, statusCode: number): Promise<{ port: number; paths: string[] }> {
  const paths: string[] = [];
  const server = createServer((request, response) => {
    paths.push(request.url ?? '');
    response.writeHead(statusCode).end('a secret');
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  t.after(() => server.close());
  return { port: (server.address() as AddressInfo).port, paths };
}

function run(
  hook: Hook,
  events = new RecordedEvents(),
  ports: { name: string; containerPort: number }[] = [],
  { signal } = new AbortController(),
): Promise<void> {
  const deps = { runtime: new FakeRuntime(systemClock), network, clock: systemClock, events };
  const request = { pod: aPod(), container: aContainer({ ports }), containerId: 'c1', podIp: '127.0.0.1', hook };
  return runHook(request, deps, signal);
}

test('an httpGet hook takes any answer for a success, and names its port as the container does', async (t) => {
  const { port, paths } = await serve(t, 500);
  await run({ httpGet: { port: 'web', path: 'drain' } }, undefined, [{ name: 'web', containerPort: port }]);
  assert.deepEqual(paths, ['/drain']);
});

test('an httpGet hook that asks a plain server for https asks again in plain, and says so', async (t) => {
  const { port, paths } = await serve(t, 200);
  const events = new RecordedEvents();
  await run({ httpGet: { port, scheme: 'HTTPS', path: '/x' } }, events);
  assert.deepEqual(paths, ['/x']);
  assert.deepEqual(events.lines(), [
    `Warning LifecycleHTTPFallback main: request to HTTPS lifecycle hook 127.0.0.1:${port} got HTTP response, retry with HTTP succeeded`,
  ]);
});

for (const scheme of ['HTTP', 'HTTPS']) {
  test(
    `a hook over ${scheme} ends with its pod, also when its server accepts connections and says nothing`,
    { timeout: 240_000 },
    async (t) => {
      const stop = new AbortController();
      const sockets: Socket[] = [];
      const mute = createTcpServer((socket) => {
        sockets.push(socket);
        socket.once('data', () => stop.abort(new Error('the pod has to end')));
        socket.on('error', () => {});
      });
      await new Promise<void>((resolve) => mute.listen(0, '127.0.0.1', resolve));
      t.after(() => {
        for (const socket of sockets) socket.destroy();
        mute.close();
      });
      const { port } = mute.address() as AddressInfo;
      await assert.rejects(run({ httpGet: { port, scheme } }, undefined, [], stop), /the pod has to end/);
    },
  );
}

const failures: readonly { it: string; hook: Hook; says: RegExp }[] = [
  { it: 'the port is closed', hook: { httpGet: { port: 1 } }, says: /ECONNREFUSED/ },
  { it: 'its port has no name', hook: { httpGet: { port: 'none' } }, says: /couldn't find port: none/ },
  { it: 'it asks for a socket', hook: { tcpSocket: { port: 1 } }, says: /cannot run handler/ },
];
for (const { it, hook, says } of failures) {
  test(`a hook fails when ${it}`, async () => {
    await assert.rejects(run(hook), says);
  });
}
