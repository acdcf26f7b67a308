import assert from 'node:assert/strict';
import { once } from 'node:events';
import { type AddressInfo, type Socket, createServer } from 'node:net';
import { type TestContext, test } from 'node:test';
import { ImageService } from '../../grpc/messages/cri_pb.ts';
import { containerdSkip, startContainerd } from '../../testing/machine/containerd.ts';
import { busyboxImage } from '../../testing/machine/oci-image.ts';
import { registrySkip, startRegistry } from '../../testing/machine/registry.ts';
import { startRuntimeRelay } from '../../testing/servers/runtime-relay.ts';
import type { PodRequest, PullCredential } from '../runtime.ts';
import { connectCri } from './cri-connection.ts';
import { CriImages } from './images.ts';

const { signal } = new AbortController();
const skip = containerdSkip() || registrySkip();
const image = busyboxImage({ name: 'docker.io/library/shell:1', user: '1000' });
const pod = { annotations: { 'example.com/a': 'b' } } as unknown as PodRequest;
const login = (username: string, password: string): PullCredential => {
  return { username, password };
};

function imagesOf(t: TestContext, endpoint: string): CriImages {
  const connection = connectCri(endpoint);
  t.after(() => connection.close());
  return new CriImages(connection, () => ({ metadata: { name: 'web', namespace: 'shop', uid: 'u1' } }));
}

test('images are pulled with a login, found, listed and removed', { skip }, async (t) => {
  const registry = await startRegistry(t, { shop: 'first' });
  await registry.push(image);
  const named = busyboxImage({ name: 'docker.io/library/named:1', user: 'nobody' });
  const plain = busyboxImage({ name: 'docker.io/library/plain:1' });
  for (const one of [named, plain]) await registry.push(one);
  const containerd = await startContainerd(t);
  containerd.mirror('docker.io', registry.url);
  const relay = await startRuntimeRelay(t, { from: `${containerd.directory}/relay.sock`, to: containerd.socket });
  const images = imagesOf(t, relay.endpoint);
  const before = (await images.list(signal)).map(({ tags, pinned }) => [tags.join(), pinned]);
  assert.deepEqual(before, [['localhost/pause:1', true]], 'without it there are no sandboxes');

  assert.equal(await images.status('shell:1', signal), undefined);
  await assert.rejects(images.pull('shell:1', undefined, pod, signal), /401 Unauthorized/);
  await assert.rejects(images.pull('shell:1', login('shop', 'wrong'), pod, signal), /401 Unauthorized/);
  await assert.rejects(
    images.pull('shell:2', login('shop', 'first'), pod, signal),
    /^RuntimeError: rpc error: code = NotFound desc = .*shell:2: not found$/,
  );
  const pulled = await images.pull('shell:1', login('shop', 'first'), pod, signal);
  assert.equal(pulled.id, image.config.digest);
  assert.deepEqual(pulled, await images.status('shell:1', signal));
  assert.ok(pulled.sizeBytes > 100_000);
  assert.equal(pulled.uid, 1000);
  assert.equal(pulled.username, undefined);
  const userOf = async (name: string): Promise<unknown> => {
    const { uid, username } = await images.pull(name, login('shop', 'first'), pod, signal);
    return { uid, username };
  };
  assert.deepEqual(await userOf('named:1'), { uid: undefined, username: 'nobody' });
  assert.deepEqual(await userOf('plain:1'), { uid: 0, username: undefined });

  const [, , , request] = relay.requests(ImageService.method.pullImage);
  assert.equal(request?.image?.image, 'shell:1');
  assert.deepEqual(request.image.annotations, { 'example.com/a': 'b' });
  assert.equal(request.sandboxConfig?.metadata?.uid, 'u1');
  const { username, password, auth, serverAddress } = request.auth ?? {};
  assert.deepEqual([username, password, auth, serverAddress], ['shop', 'first', '', '']);

  const listed = (await images.list(signal)).find(({ id }) => id === pulled.id);
  assert.deepEqual(listed?.tags, ['docker.io/library/shell:1']);
  assert.deepEqual(listed.digests, [`docker.io/library/shell@${image.manifest.digest}`]);
  assert.equal(listed.pinned, false);
  assert.ok((await images.filesystem(signal)).mountPoint.startsWith(containerd.directory));
  await images.remove(pulled.id, signal);
  await images.remove(pulled.id, signal);
  assert.equal(await images.status('shell:1', signal), undefined);
});

test('a pull from a registry that says nothing ends when nobody wants it any more', { skip }, async (t) => {
  const sockets: Socket[] = [];
  const silent = createServer((socket) => sockets.push(socket)).listen(0, '127.0.0.1');
  t.after(() => {
    silent.close();
    for (const socket of sockets) socket.destroy();
  });
  await once(silent, 'listening');
  const containerd = await startContainerd(t);
  containerd.mirror('docker.io', `http://127.0.0.1:${(silent.address() as AddressInfo).port}`);
  const stop = new AbortController();
  const connected = once(silent, 'connection');
  const pulling = assert.rejects(imagesOf(t, containerd.endpoint).pull('shell:1', undefined, pod, stop.signal), /over/);
  await connected;
  stop.abort(new Error('over'));
  await pulling;
});
