import assert from 'node:assert/strict';
import { existsSync, mkdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { systemClock } from '../../base/clock.ts';
import { type Containerd, containerdSkip, startContainerd } from './containerd.ts';
import { busyboxImage } from './oci-image.ts';
import { registrySkip, startRegistry } from './registry.ts';

const skip = containerdSkip();
const soon = { timeoutMs: 120_000, signal: new AbortController().signal };
const image = busyboxImage({ name: 'docker.io/library/shell:1', command: ['sh', '-c', 'echo $0 $(id -u)', 'hello'] });

function sandbox(directory: string, name: string): Parameters<Containerd['runtime']['runPodSandbox']>[0] {
  mkdirSync(join(directory, name), { recursive: true });
  return {
    config: {
      metadata: { name, namespace: 'default', uid: name, attempt: 0 },
      hostname: name,
      logDirectory: join(directory, name),
      linux: {},
    },
  };
}

async function runContainer({ runtime, directory }: Containerd, name: string, command: readonly string[] = []) {
  const request = sandbox(directory, name);
  const { podSandboxId } = await runtime.runPodSandbox(request, soon);
  const { containerId } = await runtime.createContainer(
    {
      podSandboxId,
      config: {
        metadata: { name: 'main', attempt: 0 },
        image: { image: image.name },
        command: [...command],
        logPath: 'main.log',
        linux: {},
      },
      ...(request.config === undefined ? {} : { sandboxConfig: request.config }),
    },
    soon,
  );
  await runtime.startContainer({ containerId }, soon);
  return { podSandboxId, containerId, log: join(directory, name, 'main.log') };
}

async function untilExited({ runtime }: Containerd, containerId: string): Promise<number | undefined> {
  for (;;) {
    const { status } = await runtime.containerStatus({ containerId }, soon);
    if (status?.exitCode !== undefined && status.finishedAt > 0n) return status.exitCode;
    await systemClock.sleep(20);
  }
}

test(
  'a containerd of a test runs containers of images that the test makes, and leaves nothing',
  { skip },
  async (t) => {
    const hooks: (() => Promise<void>)[] = [];
    t.after(() => Promise.all(hooks.map((act) => act())));
    const containerd = await startContainerd({ after: (act) => hooks.push(act) });
    await containerd.import(image);
    assert.deepEqual(containerd.left(), []);

    const { podSandboxId, containerId, log } = await runContainer(containerd, 'one');
    assert.equal(await untilExited(containerd, containerId), 0);
    assert.match(readFileSync(log, 'utf8'), / stdout F hello 0\n$/);
    const { status } = await containerd.runtime.podSandboxStatus({ podSandboxId }, soon);
    assert.ok(status?.network?.ip.startsWith(containerd.addresses), `the pod has an address: ${status?.network?.ip}`);

    await runContainer(containerd, 'two', ['sleep', '1000']);
    await containerd.restart();
    assert.equal((await containerd.runtime.listContainers({}, soon)).containers.length, 2);
    const kinds = new Set(containerd.left().map((line) => line.split(' ')[0]));
    for (const kind of ['process', 'mount', 'container', 'control-group', 'address', 'interface', 'file'])
      assert.ok(kinds.has(kind), kind);

    await containerd.close();
    assert.deepEqual(await containerd.leftAtLast(), []);
    assert.ok(!existsSync(containerd.directory));
    assert.ok(!existsSync(`/sys/class/net/${containerd.bridge}`));
  },
);

test('what a killed containerd left is removed as well', { skip }, async (t) => {
  const containerd = await startContainerd(t, { cni: false });
  await containerd.import(image);
  await assert.rejects(runContainer(containerd, 'early'), /cni plugin not initialized/);
  const { status } = await containerd.runtime.status({}, soon);
  assert.equal(status?.conditions.find(({ type }) => type === 'NetworkReady')?.status, false);
  containerd.installNetwork();
  while (!(await containerd.runtime.status({}, soon)).status?.conditions.every(({ status: met }) => met))
    await systemClock.sleep(20);
  await runContainer(containerd, 'late', ['sleep', '1000']);
  await containerd.kill();
  assert.notDeepEqual(containerd.left(), []);
  await containerd.close();
  assert.deepEqual(await containerd.leftAtLast(), []);
});

test(
  'images come from a registry to those who know the password of the day',
  { skip: skip || registrySkip() },
  async (t) => {
    const registry = await startRegistry(t, { shop: 'first' });
    await registry.push(image);
    const containerd = await startContainerd(t);
    containerd.mirror('docker.io', registry.url);
    const pull = async (username: string, password: string) =>
      await containerd.images.pullImage({ image: { image: 'shell:1' }, auth: { username, password } }, soon);

    await assert.rejects(containerd.images.pullImage({ image: { image: 'shell:1' } }, soon), /401 Unauthorized/);
    await assert.rejects(pull('shop', 'second'), /401 Unauthorized/);
    assert.equal((await pull('shop', 'first')).imageRef, image.config.digest);
    registry.setUsers({ shop: 'second' });
    await assert.rejects(pull('shop', 'first'), /401 Unauthorized/);
    assert.equal((await pull('shop', 'second')).imageRef, image.config.digest);
  },
);
