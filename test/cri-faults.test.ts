/** A container runtime that is absent, strange, without a network, killed; registries that stall or have no image. */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { readFileSync, writeFileSync } from 'node:fs';
import { createServer as createHttpServer } from 'node:http';
import { type AddressInfo, createServer } from 'node:net';
import { join } from 'node:path';
import { type TestContext, describe, test } from 'node:test';
import { create, toBinary } from '@bufbuild/protobuf';
import { Server, ServerCredentials, type sendUnaryData } from '@grpc/grpc-js';
import { VersionResponseSchema } from '../src/grpc/messages/cri_pb.ts';
import type { Containerd, ContainerdSettings } from '../src/testing/machine/containerd.ts';
import { imageOf } from '../src/testing/machine/oci-image.ts';
import { registrySkip, startRegistry } from '../src/testing/machine/registry.ts';
import { temporaryDirectory } from '../src/testing/machine/temporary-directory.ts';
import { eventually } from './kubectl-program.ts';
import { configMap, mountAt, pod } from './manifests.ts';
import { containerdRuntime, containerdWithImages, thisContainerd } from './tested-runtime.ts';
import { UpMachine, UpProgram, withNode } from './up-program.ts';

const skip = withNode.skip || containerdRuntime.skip;

/** A machine whose containerd the test has in its hands. */
async function machineOf(t: TestContext, settings: ContainerdSettings = {}): Promise<[UpMachine, Containerd]> {
  const containerd = await containerdWithImages(settings);
  const machine = new UpMachine(thisContainerd(containerd));
  t.after(() => machine.end());
  await machine.start('--node-name', 'here');
  return [machine, containerd];
}

interface ShownPod {
  readonly status: {
    readonly containerStatuses: readonly [{ readonly containerID: string; readonly restartCount: number }];
  };
}

describe('faults', { concurrency: 4 }, () => {
  test('pods outlive a killed runtime, and the node goes on when it is back', { skip }, async (t) => {
    const [{ kubectl }, containerd] = await machineOf(t);
    const volumes = [{ name: 'config', configMap: { name: 'config' } }];
    await kubectl.apply(
      configMap('config', { key: 'one' }),
      pod('stays', { volumeMounts: [mountAt('config', '/config')] }, { volumes }),
    );
    await kubectl.running('stays');
    const before = await kubectl.json<ShownPod>('get pod stays');
    const [{ containerID }] = before.status.containerStatuses;
    const inside = join(containerd.rootOf(containerID), 'config/key');

    await containerd.kill();
    await kubectl.apply(configMap('config', { key: 'two' }), pod('waits'));
    await eventually(() => assert.equal(readFileSync(inside, 'utf8'), 'two', 'volumes need no runtime'));
    await containerd.start();
    await kubectl.running('waits');
    const now = await kubectl.json<ShownPod>('get pod stays');
    assert.deepEqual(now.status.containerStatuses, before.status.containerStatuses, 'the same container');

    await containerd.kill();
    await containerd.start();
    await kubectl.ok('delete pod stays waits --now');
    await eventually(() => assert.deepEqual(containerd.left(), []));
  });

  test(
    'without a network the node is not ready and pods wait, unless they use that of the machine',
    { skip },
    async (t) => {
      const [{ kubectl }, containerd] = await machineOf(t, { cni: false });
      const ready = '{.status.conditions[?(@.type=="Ready")].status}';
      const message = 'get node here -o jsonpath={.status.conditions[?(@.type=="Ready")].message}';
      await kubectl.until('node/here', ready, 'False');
      assert.match(await kubectl.ok(message), /container runtime network not ready: NetworkReady=false/);
      await kubectl.apply(
        pod('waits', {}, { nodeName: 'here' }),
        pod('machine', {}, { nodeName: 'here', hostNetwork: true }),
      );
      await kubectl.running('machine');
      await eventually(async () =>
        assert.match(await kubectl.ok('events --for pod/waits'), /NetworkNotReady.*network is not ready/),
      );
      containerd.installNetwork();
      await kubectl.until('node/here', ready, 'True');
      await kubectl.running('waits');
      const address = await kubectl.ok('get pod waits -o jsonpath={.status.podIP}');
      assert.ok(address.startsWith(containerd.addresses), address);
    },
  );

  test('a registry that stalls keeps no other pod from starting, nor its own from going', { skip }, async (t) => {
    const registry = createHttpServer(() => {}).listen(0, '127.0.0.1');
    await once(registry, 'listening');
    t.after(() => registry.closeAllConnections());
    t.after(() => registry.close());
    const [{ kubectl }, containerd] = await machineOf(t);
    containerd.mirror('docker.io', `http://127.0.0.1:${(registry.address() as AddressInfo).port}`);
    await kubectl.apply(pod('stalled', { image: 'stalled:1' }));
    await eventually(async () =>
      assert.match(await kubectl.ok('events --for pod/stalled'), /Pulling image "stalled:1"/),
    );
    await kubectl.apply(pod('quick'));
    await kubectl.running('quick');
    await kubectl.ok('delete pod stalled --now');
    assert.equal(await kubectl.ok('get pods -o name'), 'pod/quick\n');
  });

  test('what is no image is an error with its name', { skip: skip || registrySkip() }, async (t) => {
    const registry = await startRegistry(t);
    await registry.push(imageOf(Buffer.from('this is no archive'), { name: 'docker.io/library/broken:1' }));
    const [{ kubectl }, containerd] = await machineOf(t);
    containerd.mirror('docker.io', registry.url);
    await kubectl.apply(
      pod('broken', { image: 'broken:1' }),
      pod('absent', { image: 'absent:1' }),
      pod('invalid', { image: 'Invalid::Name' }),
      pod('never', { image: 'absent:1', imagePullPolicy: 'Never' }),
      pod('empty', { image: 'test:1', command: ['/no/such/program'] }),
    );
    const reason = '{.status.containerStatuses[0].state.waiting.reason}';
    const says = async (name: string, words: RegExp): Promise<void> =>
      await eventually(async () => assert.match(await kubectl.ok(`events --for pod/${name}`), words));
    await kubectl.until('pod/invalid', reason, 'InvalidImageName');
    await says('invalid', /InspectFailed.*Failed to apply default image tag "Invalid::Name"/);
    await kubectl.until('pod/never', reason, 'ErrImageNeverPull');
    await says('never', /ErrImageNeverPull.*Container image "absent:1" is not present with pull policy of Never/);
    await says('absent', /Failed to pull image "absent:1": .*not found/);
    await says('broken', /Failed to pull image "broken:1": .*(?:archive|tar|unexpected EOF)/);
    await says('empty', /Failed.*\/no\/such\/program.*no such file or directory/);
  });
});

const versionPath = '/runtime.v1.RuntimeService/Version';

/** A server of gRPC that answers Version with these bytes, and nothing else. */
async function strangeRuntime(t: TestContext, socket: string, answer: Buffer): Promise<void> {
  const server = new Server();
  const same = (bytes: Buffer): Buffer => bytes;
  server.addService(
    {
      Version: {
        path: versionPath,
        requestStream: false,
        responseStream: false,
        requestSerialize: same,
        requestDeserialize: same,
        responseSerialize: same,
        responseDeserialize: same,
      },
    },
    { Version: (_: unknown, done: sendUnaryData<Buffer>) => done(null, answer) },
  );
  await new Promise<void>((resolve, reject) => {
    server.bindAsync(`unix://${socket}`, ServerCredentials.createInsecure(), (error) =>
      error === null ? resolve() : reject(error),
    );
  });
  t.after(() => server.forceShutdown());
}

const version = (fields: Partial<{ version: string; runtimeName: string }>): Buffer =>
  Buffer.from(
    toBinary(
      VersionResponseSchema,
      create(VersionResponseSchema, {
        version: '0.1.0',
        runtimeName: 'strange',
        runtimeVersion: '1',
        runtimeApiVersion: 'v1',
        ...fields,
      }),
    ),
  );

describe('endpoints', { concurrency: 4 }, () => {
  for (const { what, says, prepare } of [
    { what: 'is absent', says: /there is no such socket; start containerd/, prepare: () => Promise.resolve() },
    {
      what: 'is a file',
      says: /nothing listens there; start containerd/,
      prepare: async (_: TestContext, socket: string) => writeFileSync(socket, ''),
    },
    {
      what: 'says nothing',
      says: /deadline|answer/i,
      prepare: async (t: TestContext, socket: string) => {
        const server = createServer(() => {}).listen(socket);
        await once(server, 'listening');
        t.after(() => server.close());
      },
    },
    {
      what: 'speaks another protocol',
      says: /validate CRI/,
      prepare: async (t: TestContext, socket: string) => {
        const server = createServer((connection) => connection.end('220 hello\r\n').on('error', () => {})).listen(
          socket,
        );
        await once(server, 'listening');
        t.after(() => server.close());
      },
    },
    {
      what: 'has another version',
      says: /runtime api version is not supported/,
      prepare: (t: TestContext, socket: string) => strangeRuntime(t, socket, version({ version: '2.0.0' })),
    },
    {
      what: 'does not say its name',
      says: /not all fields are set in VersionResponse \(missing RuntimeName\)/,
      prepare: (t: TestContext, socket: string) => strangeRuntime(t, socket, version({ runtimeName: '' })),
    },
    {
      what: 'sends bytes that are no message',
      says: /validate CRI/,
      prepare: (t: TestContext, socket: string) => strangeRuntime(t, socket, Buffer.alloc(100, 0xff)),
    },
  ]) {
    test(`an endpoint that ${what} ends the start with words`, async (t) => {
      const directory = temporaryDirectory(t);
      const socket = join(directory, 's');
      await prepare(t, socket);
      const runtime = {
        args: ['--runtime', 'cri', '--container-runtime-endpoint', `unix://${socket}`],
        left: () => Promise.resolve([]),
        close: () => Promise.resolve(),
      };
      const started = UpProgram.start(join(directory, 'state'), runtime, [], false);
      const end = await started.then(
        () => assert.fail('it started'),
        (error: unknown) => String(error),
      );
      assert.match(end, /ended with 1 before it was ready: error: /);
      assert.match(end, says);
      assert.ok(end.includes(socket), 'it names the endpoint');
      assert.doesNotMatch(end, /\n {4}at .*mountlet/);
    });
  }
});
