/**
 * The example that everybody has seen, unchanged: a ConfigMap, and a pod with nginx that has it at /etc/config. Its image is made
 * here and pulled from a private registry that stands for docker.io, with credentials of the service account.
 */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { type IncomingMessage, get } from 'node:http';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { after, before, test } from 'node:test';
import { fileURLToPath } from 'node:url';

import { once } from 'node:events';
import { type Containerd, startContainerd } from '../src/testing/machine/containerd.ts';
import { busyboxImage } from '../src/testing/machine/oci-image.ts';
import { type Registry, registrySkip, startRegistry } from '../src/testing/machine/registry.ts';
import { eventually } from './kubectl-program.ts';
import { containerdRuntime, thisContainerd } from './tested-runtime.ts';
import { UpMachine, withNode } from './up-program.ts';

const manifest = fileURLToPath(new URL('../../test/fixtures/classic-configmap.yaml', import.meta.url));
const pod = 'pod/myconfigmap01-pod';
const waiting = '{.status.containerStatuses[0].state.waiting.reason}';
const nginx = busyboxImage({
  name: 'docker.io/library/nginx:1.8',
  entrypoint: ['httpd', '-f', '-p', '80', '-h', '/www'],
  files: { 'www/index.html': 'welcome' },
});

const skip = withNode.skip || containerdRuntime.skip || registrySkip();
let machine: UpMachine;
const atEnd: (() => Promise<void>)[] = [];
let containerd: Containerd;
let registry: Registry;

before(async () => {
  if (skip !== false) return;
  registry = await startRegistry({ after: (act) => atEnd.push(act) }, { shop: 'first' });
  await registry.push(nginx);
  containerd = await startContainerd({ after: () => {} }); // the machine ends it
  containerd.mirror('docker.io', registry.url);
  machine = new UpMachine(thisContainerd(containerd));
  await machine.start();
});
after(async () => {
  await machine?.end();
  for (const act of atEnd) await act();
});

async function setPassword(password: string): Promise<void> {
  const { kubectl } = machine;
  const words = `create secret docker-registry docker --docker-username=shop --docker-password=${password}`;
  const secret = await kubectl.ok(`${words} --dry-run=client -o yaml`);
  await kubectl.ok('apply -f -', { input: secret });
}

async function applyAgain(): Promise<void> {
  const { kubectl } = machine;
  await kubectl.ok(`delete ${pod} --now --ignore-not-found`);
  await kubectl.ok(['apply', '-f', manifest]);
}

async function refused(): Promise<void> {
  const { kubectl } = machine;
  const reasons = /^(?:ErrImagePull|ImagePullBackOff)$/;
  await eventually(async () => assert.match(await kubectl.ok(`get ${pod} -o jsonpath=${waiting}`), reasons));
  await eventually(async () =>
    assert.match(await kubectl.ok(`events --for ${pod}`), /Failed to pull image "nginx:1.8".*401 Unauthorized/),
  );
}

test('nobody is let in without a password', { skip }, async () => {
  await applyAgain();
  await refused();
});

test('with a wrong one neither; the right one counts at the next try, without a new pod', { skip }, async () => {
  const { kubectl } = machine;
  await setPassword('wrong');
  await kubectl.ok(['patch', 'serviceaccount', 'default', '-p', '{"imagePullSecrets":[{"name":"docker"}]}']);
  await applyAgain();
  await refused();
  await kubectl.until(pod, waiting, 'ImagePullBackOff');
  await setPassword('first');
  await kubectl.until(pod, '{.status.phase}', 'Running');
  const events = await eventually(async () => {
    const said = await kubectl.ok(`events --for ${pod}`);
    assert.match(said, /Successfully pulled image "nginx:1.8" in .*Image size: \d+ bytes/);
    return said;
  });
  assert.doesNotMatch(`${events}${machine.up.output()}`, /password|Basic |wrong/);
});

test('it serves at its port, has its file, and an edit is inside in milliseconds', { skip }, async (t) => {
  const { kubectl, up } = machine;
  const { status } = await kubectl.json<{
    status: { podIP: string; containerStatuses: [{ containerID: string; imageID: string; image: string }] };
  }>(`get ${pod}`);
  const [{ containerID, imageID, image }] = status.containerStatuses;
  assert.ok(status.podIP.startsWith(containerd.addresses), status.podIP);
  assert.equal(image, 'docker.io/library/nginx:1.8');
  assert.ok(imageID.endsWith(nginx.manifest.digest) || imageID.endsWith(nginx.config.digest), imageID);
  await eventually(async () => {
    const [answer] = (await once(get({ host: status.podIP, port: 80, path: '/' }), 'response')) as [IncomingMessage];
    assert.equal(await text(answer), 'welcome');
  });

  const inside = join(containerd.rootOf(containerID), 'etc/config/redis.conf');
  assert.equal(readFileSync(inside, 'utf8'), 'port=6379\nmaxmemory=2mb\n');
  const volume = await up.volume('myconfigmap01-pod', 'configmap', 'config-volume');
  assert.equal(readFileSync(join(volume, 'redis.conf'), 'utf8'), 'port=6379\nmaxmemory=2mb\n');
  const patch = JSON.stringify({ data: { 'redis.conf': 'port=6379\nmaxmemory=4mb\n' } });
  await kubectl.ok(['patch', 'configmap', 'myconfigmap01', '-p', patch]);
  const startMs = performance.now();
  while (!readFileSync(inside, 'utf8').includes('4mb')) await new Promise((resolve) => setTimeout(resolve, 1));
  t.diagnostic(`inside ${(performance.now() - startMs).toFixed(0)} ms after kubectl has ended`);
  const env = { KUBE_EDITOR: 'sed -i s/maxmemory=4mb/maxmemory=8mb/' };
  assert.match(await kubectl.ok('edit configmap myconfigmap01', { env }), /edited/);
  await eventually(() => assert.equal(readFileSync(inside, 'utf8'), 'port=6379\nmaxmemory=8mb\n'));
});

test('a password that was changed on both sides is used for the next pull', { skip }, async () => {
  const { kubectl } = machine;
  await kubectl.ok(`delete ${pod} --now`);
  await containerd.images.removeImage(
    { image: { image: nginx.name } },
    { timeoutMs: 30_000, signal: new AbortController().signal },
  );
  registry.setUsers({ shop: 'second' });
  await applyAgain();
  await refused();
  await setPassword('second');
  await applyAgain();
  await kubectl.until(pod, '{.status.phase}', 'Running');
});
