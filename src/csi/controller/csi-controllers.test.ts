/** Drivers behind real sockets: absent, not ready, silent, replaced, and two of one name. */
import assert from 'node:assert/strict';
import { type Server, type Socket, createServer } from 'node:net';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import type { ApiClient } from '../../client/api/api-client.ts';
import { persistentVolumeClaims } from '../../client/api/resource-reference.ts';
import { ensureDefaultObjects } from '../../controllers/default-objects.ts';
import { runStorage } from '../../controllers/storage/storage.ts';
import { runVolumeBinder } from '../../controllers/storage/volume-binder.ts';
import { startCsiDriver } from '../../testing/csi/csi-driver.ts';
import type { DriverScript } from '../../testing/csi/driver-script.ts';
import { aClass, newClaim } from '../../testing/fakes/storage-builders.ts';
import { temporaryDirectory } from '../../testing/machine/temporary-directory.ts';
import { memoryStore } from '../../testing/servers/stores.ts';
import { runningApiServer } from '../../testing/servers/test-api-server.ts';
import { type CsiControllerNotice, csiControllers } from './csi-controllers.ts';

const { signal } = new AbortController();
const classes = {
  group: 'storage.k8s.io',
  version: 'v1',
  plural: 'storageclasses',
  kind: 'StorageClass',
  isNamespaced: false,
};

class Scene {
  readonly client: ApiClient;
  readonly directory: string;
  /** What was said of sockets. */
  readonly complaints: readonly string[];

  private constructor(client: ApiClient, directory: string, complaints: readonly string[]) {
    this.client = client;
    this.directory = directory;
    this.complaints = complaints;
  }

  /** A control plane for drivers at these sockets, with the class `disks` of each. */
  static async open(t: TestContext, names: readonly string[]): Promise<Scene> {
    const directory = temporaryDirectory(t);
    const complaints: string[] = [];
    const notify = (notice: CsiControllerNotice): void =>
      void complaints.push(notice.kind === 'CsiControllerServes' ? `${notice.driver} runs` : notice.message);
    const sockets = names.map((name) => join(directory, `${name}.sock`));
    const loops = [runVolumeBinder, csiControllers(sockets, notify)];
    const server = await runningApiServer(t, memoryStore(), {
      controllers: (host, over) => {
        const settled = ensureDefaultObjects(host, over);
        return { settled, done: settled.then(() => runStorage(host, loops, true, over)) };
      },
    });
    const scene = new Scene(server.client(), directory, complaints);
    for (const name of names) {
      await scene.client.create(classes, {}, aClass(name, { provisioner: `${name}.example.com` }), signal);
    }
    return scene;
  }

  async driver(
    t: TestContext,
    name: string,
    script: () => DriverScript = () => ({}),
    socket = name,
  ): Promise<() => void> {
    const driver = await startCsiDriver(
      {
        name: `${name}.example.com`,
        nodeId: 'n1',
        directory: join(this.directory, name),
        socket: join(this.directory, `${socket}.sock`),
        services: ['controller'],
      },
      { script, die: () => assert.fail('it was to die') },
    );
    const stop = (): void => driver.stop();
    t.after(stop);
    return stop;
  }

  async claim(name: string, storageClassName: string): Promise<void> {
    const { metadata, spec } = newClaim({ name, storageClassName, size: '1Mi' }) as { metadata: object; spec: object };
    const claim = { metadata: { ...metadata, namespace: 'default' }, spec };
    await this.client.create(persistentVolumeClaims, { namespace: 'default' }, claim, signal);
  }

  async bound(name: string): Promise<void> {
    await until(async () => {
      const claim = await this.client.get(persistentVolumeClaims, { namespace: 'default', name }, signal);
      return (claim as { readonly status?: { readonly phase?: string } }).status?.phase === 'Bound';
    });
  }
}

async function until(holds: () => boolean | Promise<boolean>): Promise<void> {
  for (let tries = 0; !(await holds()); tries += 1) {
    assert.ok(tries < 6_000, 'it does not happen');
    await sleep(20);
  }
}

test('a driver that is not there is said once, and served when it comes, and when it comes again', async (t) => {
  const scene = await Scene.open(t, ['disks']);
  await scene.claim('one', 'disks');
  await until(() => scene.complaints.length > 0);
  const absent = `Cannot use the CSI driver at "${join(scene.directory, 'disks.sock')}": there is no such socket, start the driver or correct the path; it is tried again until it answers`;
  assert.equal(scene.complaints[0], absent);
  const stop = await scene.driver(t, 'disks');
  await scene.bound('one');
  stop();
  await scene.claim('two', 'disks');
  await until(() => scene.complaints.length > 2);
  await scene.driver(t, 'disks');
  await scene.bound('two');
  const runs = 'disks.example.com runs';
  assert.deepEqual(scene.complaints, [absent, runs, absent, runs]);
});

test('a socket that accepts and says nothing, and a driver that hangs in a call, hold up no other', async (t) => {
  const scene = await Scene.open(t, ['silent', 'hanging', 'disks']);
  const server: Server = createServer();
  const sockets = new Set<Socket>();
  server.on('connection', (socket) => void sockets.add(socket)).listen(join(scene.directory, 'silent.sock'));
  t.after(() => {
    for (const socket of sockets) socket.destroy();
    server.close();
  });
  await scene.driver(t, 'hanging', () => ({ faults: [{ method: 'CreateVolume', end: 'hang' }] }));
  await scene.driver(t, 'disks');
  await Promise.all(['silent', 'hanging'].map((name) => scene.claim(name, name)));
  await scene.claim('one', 'disks');
  await scene.bound('one');
});

test('a driver is served when it says that it is ready', async (t) => {
  const scene = await Scene.open(t, ['disks']);
  let isReady = false;
  await scene.driver(t, 'disks', () => ({ isReady }));
  await scene.claim('one', 'disks');
  await until(() => scene.complaints.some((text) => text.includes('not ready')));
  isReady = true;
  await scene.bound('one');
});

test('of two sockets with the same driver one is served', async (t) => {
  const scene = await Scene.open(t, ['disks', 'twin']);
  await scene.driver(t, 'disks');
  await scene.claim('one', 'disks');
  await scene.bound('one');
  await scene.driver(t, 'disks', () => ({}), 'twin');
  await until(() => scene.complaints.some((text) => text.includes('disks.example.com is served at')));
  await scene.claim('two', 'disks');
  await scene.bound('two');
});
