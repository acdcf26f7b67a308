import assert from 'node:assert/strict';
import { mkdirSync } from 'node:fs';
import { type Socket, createServer } from 'node:net';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import type { Clock } from '../base/clock.ts';
import { systemClock } from '../base/clock.ts';
import { FakeClock, settle } from '../testing/fakes/fake-clock.ts';
import { temporaryDirectory } from '../testing/machine/temporary-directory.ts';
import { ScriptedDriver, type ScriptedPlugin } from '../testing/servers/scripted-driver.ts';
import { ClusterAwayError } from './csi-node.ts';
import { CsiDrivers } from './drivers.ts';
import type { DriverInfo } from './node-info.ts';
import { type RegistrationNotice, Registrations } from './registration.ts';

const driverName = 'driver.example.com';
const { signal } = new AbortController();
type Kind = RegistrationNotice['kind'];
type Of<K extends Kind> = Extract<RegistrationNotice, { readonly kind: K }>;

/** Sockets and drivers that are real; the cluster is what was recorded. */
class World {
  readonly directory: string;
  readonly drivers = new CsiDrivers();
  readonly recorded = new Map<string, DriverInfo>();
  readonly registrations: Registrations;
  isAway = false;
  readonly #notices: RegistrationNotice[] = [];
  readonly #stop = new AbortController();
  readonly #running: Promise<void>;
  #wake: () => void = () => {};

  constructor(t: TestContext, clock: Clock = systemClock, directory = join(temporaryDirectory(t), 'registry')) {
    this.directory = directory;
    const reach = async (): Promise<void> => {
      await Promise.resolve();
      if (this.isAway) throw new ClusterAwayError('connection refused');
    };
    this.registrations = new Registrations({
      drivers: this.drivers,
      records: {
        install: async (driver, info) => {
          await reach();
          this.recorded.set(driver, info);
        },
        remove: async (driver, isBack) => {
          await reach();
          if (!isBack()) this.recorded.delete(driver);
        },
      },
      updatePeriodMs: () => undefined,
      timeouts: { infoMs: 60_000, notifyMs: 60_000 },
      clock,
      notify: (notice) => {
        this.#notices.push(notice);
        this.#wake();
      },
    });
    this.#running = this.registrations.run(this.directory, this.#stop.signal);
    // Watches alone do not keep a process.
    const alive = setInterval(() => {}, 1_000);
    t.after(async () => {
      clearInterval(alive);
      await this.end();
    });
  }

  async end(): Promise<void> {
    this.#stop.abort();
    await this.#running;
  }

  async driver(
    t: TestContext,
    plugin: Partial<ScriptedPlugin> & { readonly socketName?: string } = {},
  ): Promise<ScriptedDriver> {
    const driver = await new ScriptedDriver(this.directory, plugin).start();
    t.after(() => driver.stop());
    return driver;
  }

  /** The next of its kind that was not read yet. */
  async until<K extends Kind>(...kinds: readonly K[]): Promise<Of<K>> {
    for (;;) {
      const index = this.#notices.findIndex(({ kind }) => (kinds as readonly Kind[]).includes(kind));
      if (index >= 0) return this.#notices.splice(index, 1)[0] as Of<K>;
      await new Promise<void>((resolve) => (this.#wake = resolve));
    }
  }
}

test('a driver may listen elsewhere than its registration socket', async (t) => {
  const world = new World(t);
  const elsewhere = await new ScriptedDriver(temporaryDirectory(t), { nodeInfo: { nodeId: 'elsewhere' } }).start();
  t.after(() => elsewhere.stop());
  await world.driver(t, { endpoint: elsewhere.socket, nodeInfo: { nodeId: 'here' } });
  await world.until('DriverRegistered');
  assert.equal(world.drivers.get(driverName)?.endpoint, elsewhere.socket);
  assert.equal(world.recorded.get(driverName)?.nodeId, 'elsewhere');
});

const refusals: readonly (readonly [it: string, plugin: Partial<ScriptedPlugin>, message: string | RegExp])[] = [
  [
    'another type',
    { type: 'DevicePlugin' },
    /^RegisterPlugin error -- no handler registered for plugin type: DevicePlugin at socket .+\.sock$/,
  ],
  [
    'no versions',
    { supportedVersions: [] },
    /^RegisterPlugin error -- plugin validation failed with err: validation failed for CSI Driver driver\.example\.com at endpoint .+\.sock: kubernetes\.io\/csi: ValidatePlugin for CSI driver "driver\.example\.com" failed\. Plugin returned an empty list for supported versions$/,
  ],
  [
    'an empty node ID',
    { nodeInfo: { nodeId: '' } },
    'RegisterPlugin error -- plugin registration failed with err: error adding CSI driver node info: driverNodeID must not be empty',
  ],
  ['a node ID that is too long', { nodeInfo: { nodeId: 'x'.repeat(257) } }, /256 bytes or less$/],
  [
    'topology that cannot be a label',
    { nodeInfo: { nodeId: 'n', accessibleTopology: { segments: { 'a b': 'c' } } } },
    /the topology "a b":"c" of a driver cannot be a label/,
  ],
  [
    'endless topology',
    {
      nodeInfo: {
        nodeId: 'n',
        accessibleTopology: { segments: Object.fromEntries(Array.from({ length: 33 }, (_, i) => [`k${i}`, 'v'])) },
      },
    },
    /32 topology keys or less$/,
  ],
  [
    'an error of many lines',
    {
      nodeInfo: () => {
        throw new Error(`no\nnode\u0000${'x'.repeat(3_000)}`);
      },
    },
    /^RegisterPlugin error -- plugin registration failed with err: rpc error: code = Unknown desc = no node x{900,1100}$/,
  ],
  [
    'an endpoint where nothing listens',
    { endpoint: '/nowhere/csi.sock' },
    /plugin registration failed with err: connect ENOENT \/nowhere\/csi\.sock$/,
  ],
];
for (const [it, plugin, message] of refusals) {
  test(`a driver with ${it} is told why it is refused, and is neither listed nor recorded`, async (t) => {
    const world = new World(t, new FakeClock());
    const driver = await world.driver(t, plugin);
    const { message: text } = await world.until('DriverNotRegistered');
    if (typeof message === 'string') assert.equal(text, message);
    else assert.match(text, message);
    assert.equal(driver.statuses.length, 1);
    assert.equal(driver.statuses[0]?.slice(0, 100), text.slice(0, 100));
    assert.deepEqual(world.drivers.names(), []);
    assert.deepEqual([...world.recorded], []);
  });
}

test('those that were there at the start are settled when each has registered or failed', async (t) => {
  const directory = join(temporaryDirectory(t), 'registry');
  mkdirSync(directory);
  const there = await new ScriptedDriver(directory, {}).start();
  const wrong = await new ScriptedDriver(directory, { type: 'DRAPlugin', socketName: 'wrong.sock' }).start();
  t.after(() => {
    there.stop();
    wrong.stop();
  });
  const world = new World(t, systemClock, directory);
  await world.drivers.whenSettled(driverName, signal);
  assert.deepEqual(world.drivers.names(), [driverName]);
  await world.drivers.whenSettled('absent.example.com', signal);
  assert.equal((await world.until('DriverNotRegistered')).socket, join(directory, 'wrong.sock'));
});

test('where no driver is there at the start, none is waited for', async (t) => {
  await new World(t).drivers.whenSettled(driverName, signal);
});

test('what fails is tried again later each time, up to two minutes, and said once', async (t) => {
  const clock = new FakeClock();
  const world = new World(t, clock);
  const driver = await world.driver(t, { type: 'DRAPlugin' });
  assert.equal((await world.until('DriverNotRegistered')).retryMs, 500);
  const tried = async (times: number): Promise<void> => {
    while (driver.statuses.length < times) await settle();
  };
  for (const [index, ms] of [500, 1_000, 2_000, 4_000, 8_000, 16_000, 32_000, 64_000, 122_000, 122_000].entries()) {
    await tried(index + 1);
    await settle(20);
    await clock.advance(ms - 1);
    assert.equal(driver.statuses.length, index + 1);
    await clock.advance(1);
  }
  driver.plugin.type = 'CSIPlugin';
  await settle(20);
  for (let waited = 0; waited < 2 && world.drivers.names().length === 0; waited += 1) {
    await tried(11);
    await settle(20);
    await clock.advance(122_000);
  }
  const { kind } = await world.until('DriverNotRegistered', 'DriverRegistered');
  assert.equal(kind, 'DriverRegistered');
});

test('sockets that say nothing, or nothing sensible, hold up no other', async (t) => {
  const world = new World(t);
  await world.driver(t, { name: 'hanging.example.com', socketName: 'a.sock', nodeInfo: () => new Promise(() => {}) });
  for (const [name, answer] of [
    ['b.sock', ''],
    ['c.sock', 'HTTP/1.1 400 Bad Request\r\n\r\n'],
  ] as const) {
    const server = createServer((socket) => void socket.on('error', () => {}).write(answer));
    t.after(() => server.close());
    await new Promise<void>((resolve) => server.listen(join(world.directory, name), resolve));
  }
  await world.driver(t, { socketName: 'd.sock' });
  await world.until('DriverRegistered');
  assert.ok(world.drivers.names().includes(driverName));
  assert.deepEqual([...world.recorded.keys()], [driverName]);
});

test('a socket that accepts and says nothing is left after ten seconds, and tried again', async (t) => {
  const clock = new FakeClock();
  const world = new World(t, clock);
  const connections = new Set<Socket>();
  const server = createServer((socket) => {
    connections.add(socket);
    socket.on('error', () => {}).on('close', () => connections.delete(socket));
    socket.resume();
  });
  t.after(() => server.close());
  await new Promise<void>((resolve) => server.listen(join(world.directory, 'silent.sock'), resolve));
  while (connections.size === 0) await settle();
  await clock.advance(10_000);
  const { message, retryMs } = await world.until('DriverNotRegistered');
  assert.match(
    message,
    /^RegisterPlugin error -- dial failed at socket .+silent\.sock, err: it said nothing for 10 s$/,
  );
  assert.equal(retryMs, 500);
  while (connections.size > 0) await settle();
});

test('a driver that is started anew leaves and comes back, with what it says then', async (t) => {
  const world = new World(t);
  const first = await world.driver(t);
  await world.until('DriverRegistered');
  const before = world.drivers.node(driverName);
  first.stop();
  await world.driver(t, { nodeInfo: { nodeId: 'node-2' } });
  await world.until('DriverUnregistered');
  await world.until('DriverRegistered');
  assert.notEqual(world.drivers.node(driverName), before);
  assert.equal(world.recorded.get(driverName)?.nodeId, 'node-2');
});

test('of two drivers of one name the first stays, and the second takes its place as soon as it goes', async (t) => {
  const world = new World(t, new FakeClock());
  const first = await world.driver(t, { socketName: 'a.sock', nodeInfo: { nodeId: 'first' } });
  await world.until('DriverRegistered');
  const second = await world.driver(t, { socketName: 'b.sock', nodeInfo: { nodeId: 'second' } });
  await world.until('DriverNotRegistered');
  assert.match(second.statuses.join(), /Another driver with the same name is already registered/);
  assert.equal(world.recorded.get(driverName)?.nodeId, 'first');
  first.stop();
  await world.until('DriverRegistered');
  assert.equal(world.recorded.get(driverName)?.nodeId, 'second');
});

test('a higher version takes over, and the end of the older one does it no harm', async (t) => {
  const world = new World(t);
  const old = await world.driver(t, { socketName: 'a.sock' });
  await world.until('DriverRegistered');
  const higher = await world.driver(t, {
    socketName: 'b.sock',
    supportedVersions: ['1.1'],
    nodeInfo: { nodeId: 'new' },
  });
  await world.until('DriverRegistered');
  old.stop();
  await settle(50);
  assert.equal(world.drivers.get(driverName)?.version, '1.1');
  assert.equal(world.recorded.get(driverName)?.nodeId, 'new');
  higher.stop();
  await world.until('DriverUnregistered');
  while (world.recorded.size > 0) await settle();
});

test('when the higher version goes, the older one is back', async (t) => {
  const world = new World(t);
  await world.driver(t, { socketName: 'a.sock', nodeInfo: { nodeId: 'old' } });
  await world.until('DriverRegistered');
  const higher = await world.driver(t, { socketName: 'b.sock', supportedVersions: ['1.1'] });
  await world.until('DriverRegistered');
  higher.stop();
  await world.until('DriverRegistered');
  while (world.recorded.get(driverName)?.nodeId !== 'old') await settle();
});

test('a higher version that fails leaves the older one in its place', async (t) => {
  const world = new World(t, new FakeClock());
  const good = await world.driver(t, { socketName: 'a.sock', nodeInfo: { nodeId: 'good' } });
  await world.until('DriverRegistered');
  await world.driver(t, { socketName: 'b.sock', supportedVersions: ['1.1'], nodeInfo: { nodeId: '' } });
  await world.until('DriverNotRegistered');
  await world.until('DriverRegistered');
  assert.equal(world.drivers.get(driverName)?.endpoint, good.socket);
  assert.equal(world.recorded.get(driverName)?.nodeId, 'good');
});

test('drivers that fail do not make each other try again', async (t) => {
  const world = new World(t, new FakeClock());
  const drivers = await Promise.all(
    ['a.sock', 'b.sock', 'c.sock'].map((socketName) => world.driver(t, { socketName, nodeInfo: { nodeId: '' } })),
  );
  for (const _ of drivers) await world.until('DriverNotRegistered');
  await settle(200);
  assert.deepEqual(
    drivers.map(({ statuses }) => statuses.length),
    [1, 1, 1],
  );
});

test('a driver that cannot be told of its success is not used', async (t) => {
  const world = new World(t, new FakeClock());
  await world.driver(t, { failsStatus: true });
  const { message } = await world.until('DriverNotRegistered');
  assert.match(
    message,
    /^RegisterPlugin error -- failed to send registration status at socket .+, err: rpc error: code = Internal desc = no ears$/,
  );
  assert.deepEqual(world.drivers.names(), []);
  while (world.recorded.size > 0) await settle();
});

test('with the API server away a driver works, and is recorded and removed when it is back', async (t) => {
  const world = new World(t);
  world.isAway = true;
  const driver = await world.driver(t);
  await world.until('DriverRegistered');
  await world.until('DriverNotRecorded');
  assert.equal(world.recorded.size, 0);
  world.isAway = false;
  world.registrations.retryNow();
  while (world.recorded.size === 0) await settle();
  world.isAway = true;
  driver.stop();
  await world.until('DriverUnregistered');
  await world.until('DriverNotRecorded');
  world.isAway = false;
  while (world.recorded.size > 0) await settle();
});

test('the end of the node leaves what is recorded: its next start has the same drivers', async (t) => {
  const world = new World(t);
  await world.driver(t);
  await world.until('DriverRegistered');
  await world.end();
  assert.equal(world.recorded.size, 1);
});
