import assert from 'node:assert/strict';
import { createServer as createHttpServer } from 'node:http';
import { createServer as createHttp2Server } from 'node:http2';
import { type AddressInfo, type Server, connect, createServer } from 'node:net';
import { type TestContext, test } from 'node:test';
import { systemClock } from '../../base/clock.ts';
import type { Probe } from '../../kube/kinds/pod/container.ts';
import type { PodStatus } from '../../kube/kinds/pod/pod-status.ts';
import { aContainer, aPod } from '../../testing/fakes/builders.ts';
import { FakeClock, settle } from '../../testing/fakes/fake-clock.ts';
import { FakeRuntime } from '../../testing/fakes/fake-runtime.ts';
import type { CommandRequest } from '../../runtimes/runtime.ts';
import { RecordedEvents } from '../../testing/fakes/memory-pod-api.ts';
import type { PodNetwork } from './http-exchange.ts';
import { type ProbeOutcome, runProbe } from './probe-handlers.ts';
import { ProbeManager } from './probe-manager.ts';
import { ProbeResults } from './probe-worker.ts';

const { signal } = new AbortController();
const network: PodNetwork = {
  connect: ({ port }) =>
    new Promise((resolve, reject) => {
      const socket = connect(port, '127.0.0.1', () => resolve(socket));
      socket.once('error', reject);
    }),
};

async function listen(t: TestContext, server: Server | ReturnType<typeof createHttp2Server>): Promise<number> {
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  t.after(() => server.close());
  return (server.address() as AddressInfo).port;
}

function ask(
  probe: Probe,
  clock = systemClock,
  runtime = new FakeRuntime(clock),
  reached = network,
): Promise<ProbeOutcome> {
  const container = aContainer({ ports: [{ name: 'named', containerPort: 1 }] });
  const target = {
    pod: aPod(),
    container,
    containerId: 'c1',
    podIp: '127.0.0.1',
    probe: { timeoutSeconds: 60, ...probe },
  };
  return runProbe(target, { runtime, network: reached, clock }, signal);
}

const answers: readonly { status: number; headers?: Record<string, string>; is: string }[] = [
  { status: 200, is: 'success hello' },
  { status: 399, is: 'success hello' },
  { status: 404, is: 'failure HTTP probe failed with statuscode: 404' },
  { status: 500, is: 'failure HTTP probe failed with statuscode: 500' },
  {
    status: 302,
    headers: { location: 'http://elsewhere.example/' },
    is: 'warning Probe terminated redirects, Response body: hello',
  },
  { status: 302, headers: { location: '/good' }, is: 'success hello' },
];
for (const { status, headers = {}, is } of answers) {
  test(`an httpGet probe that is answered ${status} ${headers['location'] ?? ''} is a ${is}`, async (t) => {
    const port = await listen(
      t,
      createHttpServer((request, response) => {
        assert.match(request.headers['user-agent'] ?? '', /^kube-probe\//);
        assert.equal(request.headers['x-mine'], 'yes');
        response.writeHead(request.url === '/good' ? 200 : status, headers).end('hello');
      }),
    );
    const httpHeaders = [{ name: 'X-Mine', value: 'yes' }];
    const { result, output } = await ask({ httpGet: { port, path: 'health', httpHeaders } });
    assert.equal(`${result} ${output}`, is);
  });
}

test('a probe of a port where nothing listens fails in the words of Go', async (t) => {
  const server = createServer();
  const port = await listen(t, server);
  await new Promise((resolve) => server.close(resolve));
  const http = await ask({ httpGet: { port } });
  assert.match(`${http.result} ${http.output}`, new RegExp(`^failure Get "http://127.0.0.1:${port}/": .*ECONNREFUSED`));
  const tcp = await ask({ tcpSocket: { port } });
  assert.match(`${tcp.result} ${tcp.output}`, new RegExp(`^failure dial tcp 127.0.0.1:${port}: .*ECONNREFUSED`));
  const grpc = await ask({ grpc: { port } });
  assert.match(`${grpc.result} ${grpc.output}`, /^failure error: failed to connect service at "127\.0\.0\.1:\d+": /);
});

test('a tcpSocket probe succeeds on an open port, and a port that has no name fails the probe itself', async (t) => {
  const port = await listen(
    t,
    createServer((socket) => socket.end()),
  );
  assert.equal((await ask({ tcpSocket: { port } })).result, 'success');
  await assert.rejects(ask({ tcpSocket: { port: 'nowhere' } }), /couldn't find port: nowhere/);
});

test('a tcpSocket probe that takes too long names the address that was dialled', async () => {
  const clock = new FakeClock();
  const dialled: object[] = [];
  const silent: PodNetwork = { connect: (address) => (dialled.push(address), new Promise(() => {})) };
  for (const [tcpSocket, address] of [
    [{ port: 'named' }, '127.0.0.1:1'],
    [{ host: '10.0.0.9', port: 80 }, '10.0.0.9:80'],
    [{ host: '::1', port: 80 }, '[::1]:80'],
  ] as const) {
    const outcome = ask({ tcpSocket, timeoutSeconds: 5 }, clock, new FakeRuntime(clock), silent);
    await settle();
    await clock.advance(5000);
    assert.deepEqual(await outcome, { result: 'failure', output: `dial tcp ${address}: i/o timeout` });
  }
  assert.equal(dialled.length, 3);
});

test('an exec probe is judged by its exit code, and fails when it takes too long', async () => {
  const clock = new FakeClock();
  const runtime = new FakeRuntime(clock);
  const request = { podUid: 'u', name: 'main' };
  await runtime.runPod({ uid: 'u', namespace: 'shop', name: 'web', hostNetwork: false, runtimeHandler: '' } as never);
  await runtime.createContainer({ ...request, attempt: 0, image: '', labels: {}, logPath: '' } as never);
  await runtime.startContainer('c1', signal);
  runtime.execute = (_id, [command]) =>
    command === 'slow' ? new Promise(() => {}) : Promise.resolve(command === 'good' ? 0 : 1);
  assert.equal((await ask({ exec: { command: ['good'] } }, clock, runtime)).result, 'success');
  assert.equal((await ask({ exec: { command: ['bad'] } }, clock, runtime)).result, 'failure');
  const slow = ask({ exec: { command: ['slow', 'x'] }, timeoutSeconds: 5 }, clock, runtime);
  await settle();
  await clock.advance(5000);
  assert.deepEqual(await slow, { result: 'failure', output: 'command timed out: "slow x" timed out after 5s' });
});

test("an exec probe's command is expanded from the values written in the pod, and nothing else", async () => {
  const asked: (readonly string[])[] = [];
  const runtime = { run: async (_id: string, { command }: CommandRequest) => (asked.push(command), done) };
  const done = { exitCode: 0, output: Buffer.alloc(0) };
  const env = [
    { name: 'PORT', value: '1' },
    { name: 'PORT', value: '$(HOST):80' },
    { name: 'KEY', valueFrom: { secretKeyRef: { name: 's', key: 'k' } } },
  ];
  const probe = { exec: { command: ['check', '$(PORT)', 'key=$(KEY)', '$(NONE)', '$$(PORT)'] } };
  const target = { pod: aPod(), container: aContainer({ env }), containerId: 'c1', podIp: '', probe };
  await runProbe(target, { runtime, network, clock: new FakeClock() }, signal);
  assert.deepEqual(asked, [['check', '$(HOST):80', 'key=', '$(NONE)', '$(PORT)']]);
});

const healths: readonly { it: string; status?: number; grpcStatus?: number; is: string }[] = [
  { it: 'serves', status: 1, is: 'success service healthy' },
  { it: 'does not serve', status: 2, is: 'failure service unhealthy (responded with "NOT_SERVING")' },
  { it: 'does not know', status: 0, is: 'failure service unhealthy (responded with "UNKNOWN")' },
  {
    it: 'has no health',
    grpcStatus: 12,
    is: 'failure error: this server does not implement the grpc health protocol (grpc.health.v1.Health): sorry',
  },
  { it: 'fails', grpcStatus: 13, is: 'failure error: health rpc probe failed: sorry' },
];
for (const { it, status = 0, grpcStatus = 0, is } of healths) {
  test(`a grpc probe of a server that ${it}: ${is}`, async (t) => {
    const server = createHttp2Server();
    server.on('stream', (stream, headers) => {
      assert.equal(headers[':path'], '/grpc.health.v1.Health/Check');
      const chunks: Buffer[] = [];
      stream.on('data', (chunk: Buffer) => chunks.push(chunk));
      stream.on('end', () => {
        assert.equal(Buffer.concat(chunks).toString('hex'), '00000000050a03737663');
        const trailers = { 'grpc-status': String(grpcStatus), 'grpc-message': 'sorry' };
        stream.respond({ ':status': 200, 'content-type': 'application/grpc' }, { waitForTrailers: true });
        stream.on('wantTrailers', () => stream.sendTrailers(trailers));
        stream.end(
          grpcStatus === 0 ? Buffer.from(status === 0 ? [0, 0, 0, 0, 0] : [0, 0, 0, 0, 2, 8, status]) : undefined,
        );
      });
    });
    const port = await listen(t, server);
    const { result, output } = await ask({ grpc: { port, service: 'svc' } });
    assert.equal(`${result} ${output}`, is);
  });
}

interface World {
  readonly clock: FakeClock;
  readonly manager: ProbeManager;
  readonly results: ProbeResults;
  readonly events: RecordedEvents;
  readonly changes: string[];
  readonly asked: string[];
  outcome: ProbeOutcome | Error;
  /** The container that is probed has ended, and its status does not show it yet. */
  hasEnded: boolean;
  status: PodStatus;
  readonly stop: () => Promise<void>;
}

const running = (id: string, started = true, startedAt = '2026-08-20T18:59:00Z'): PodStatus => ({
  phase: 'Running',
  containerStatuses: [
    {
      name: 'main',
      ready: false,
      started,
      restartCount: 0,
      image: '',
      imageID: '',
      containerID: `fake://${id}`,
      state: { running: { startedAt } },
    },
  ],
});

function aWorld(random = 0): World {
  const clock = new FakeClock();
  const events = new RecordedEvents();
  const results = new ProbeResults();
  const changes: string[] = [];
  const asked: string[] = [];
  const abort = new AbortController();
  const world: Omit<World, 'manager'> = {
    clock,
    events,
    results,
    changes,
    asked,
    outcome: { result: 'success', output: '' },
    hasEnded: false,
    status: running('c1'),
    stop: async () => {
      abort.abort();
      await manager.settled();
    },
  };
  const manager = new ProbeManager(
    {
      clock,
      events,
      results,
      notify: ({ error }) => assert.fail(String(error)),
      random: () => random,
      statusOf: () => world.status,
      hasEnded: () => Promise.resolve(world.hasEnded),
      changed: (_uid, kind, result) => changes.push(`${kind} ${result}`),
      run: async ({ containerId }) => {
        asked.push(containerId);
        if (world.outcome instanceof Error) throw world.outcome;
        return world.outcome;
      },
    },
    abort.signal,
  );
  return Object.assign(world, { manager });
}

const uid = aPod().metadata.uid ?? '';
const probed = (probes: object): ReturnType<typeof aPod> => aPod({ containers: [aContainer(probes)] });

test('a readiness probe decides after as many equal answers as its threshold says', async () => {
  const world = aWorld();
  world.manager.add(probed({ readinessProbe: { periodSeconds: 10, failureThreshold: 2, successThreshold: 2 } }));
  await settle();
  assert.equal(world.manager.isReady(uid, 'main', 'c1'), undefined, 'one success is not enough');
  await world.clock.advance(10_000);
  assert.equal(world.manager.isReady(uid, 'main', 'c1'), true);
  world.outcome = { result: 'failure', output: 'no' };
  await world.clock.advance(10_000);
  assert.equal(world.manager.isReady(uid, 'main', 'c1'), true);
  await world.clock.advance(10_000);
  assert.equal(world.manager.isReady(uid, 'main', 'c1'), false);
  assert.deepEqual(world.changes, ['readiness true', 'readiness false']);
  assert.deepEqual(world.events.lines(), Array(2).fill('Warning Unhealthy main: Readiness probe failed: no'));
  await world.stop();
});

test('a liveness probe that failed waits for the next container', async () => {
  const world = aWorld();
  world.outcome = { result: 'failure', output: 'dead' };
  world.manager.add(probed({ livenessProbe: { periodSeconds: 1, failureThreshold: 3 } }));
  await settle();
  await world.clock.advance(10_000);
  assert.equal(world.asked.length, 3);
  assert.equal(world.results.get('liveness', 'c1'), false);
  world.status = running('c2');
  await world.clock.advance(1000);
  assert.equal(world.results.get('liveness', 'c1'), undefined, 'nobody needs it any more');
  assert.deepEqual(world.asked.slice(3), ['c2']);
  await world.stop();
});

test('nothing but the startup is asked for before it succeeded, and nothing of it after', async () => {
  const world = aWorld();
  world.status = running('c1', false);
  const probe = { periodSeconds: 10 };
  world.manager.add(probed({ startupProbe: probe, livenessProbe: probe, readinessProbe: probe }));
  await settle();
  assert.equal(world.asked.length, 1);
  assert.equal(world.manager.hasStarted(uid, 'main', 'c1'), true);
  world.status = running('c1', true);
  await world.clock.advance(10_000);
  await settle();
  assert.equal(world.asked.length, 3, 'liveness and readiness');
  await world.stop();
});

test('a probe waits for its initial delay, and an error says nothing of the container', async () => {
  const world = aWorld();
  world.status = running('c1', true, '2026-08-20T18:59:46Z');
  world.outcome = new Error('no runtime');
  world.manager.add(probed({ readinessProbe: { periodSeconds: 5, initialDelaySeconds: 8 } }));
  await settle();
  await world.clock.advance(5000);
  assert.deepEqual(world.asked, []);
  await world.clock.advance(5000);
  assert.equal(world.asked.length, 3, 'three tries');
  assert.deepEqual(world.changes, []);
  assert.deepEqual(world.events.lines(), [
    'Warning Unhealthy main: Readiness probe errored and resulted in unknown state: no runtime',
  ]);
  await world.stop();
});

for (const outcome of [
  new Error("ENOENT: open '/proc/31547/fd/3'"),
  { result: 'failure', output: 'killed' } as const,
]) {
  test(`a probe whose container ends meanwhile has not failed: ${outcome instanceof Error ? 'error' : 'failure'}`, async () => {
    const world = aWorld();
    world.manager.add(probed({ livenessProbe: { periodSeconds: 1, failureThreshold: 1 } }));
    await settle();
    world.outcome = outcome;
    world.hasEnded = true;
    await world.clock.advance(1000);
    assert.equal(world.asked.length, 2, 'and it is not asked again at once');
    assert.equal(world.results.get('liveness', 'c1'), true);
    assert.deepEqual(world.events.lines(), []);
    world.hasEnded = false;
    await world.clock.advance(1000);
    assert.match(world.events.lines().join(), /Unhealthy/);
    await world.stop();
  });
}

test('probes of a node that just started begin at a random moment of their period', async () => {
  const world = aWorld(0.5);
  world.manager.add(probed({ livenessProbe: { periodSeconds: 10 } }));
  await settle();
  assert.deepEqual(world.asked, []);
  await world.clock.advance(5000);
  assert.deepEqual(world.asked, ['c1']);
  world.manager.remove(uid);
  await world.clock.advance(60_000);
  assert.deepEqual(world.asked, ['c1'], 'and end with their pod');
  await world.stop();
});

test('a pod that ends keeps its readiness probe alone; a container without probes is always ready', async () => {
  const world = aWorld();
  const probe = { periodSeconds: 10 };
  world.manager.add(probed({ livenessProbe: probe, readinessProbe: probe }));
  await settle();
  world.asked.length = 0;
  world.manager.stopLivenessAndStartup(uid);
  await world.clock.advance(10_000);
  assert.equal(world.asked.length, 1);
  assert.equal(world.manager.isReady(uid, 'other', 'c9'), true);
  assert.equal(world.manager.hasStarted(uid, 'other', 'c9'), true);
  await world.stop();
});
