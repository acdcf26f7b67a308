/** What a node removes from its containerd: images that nobody uses, containers that were replaced, and what an evicted pod left. */
import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { type Containerd, startContainerd } from '../src/testing/machine/containerd.ts';
import { busyboxImage } from '../src/testing/machine/oci-image.ts';
import { eventually } from './kubectl-program.ts';
import { pod } from './manifests.ts';
import { containerdRuntime, thisContainerd } from './tested-runtime.ts';
import { UpMachine, withNode } from './up-program.ts';

const skip = withNode.skip || containerdRuntime.skip;
const names = ['used', 'ended', 'unused'].map((name) => `docker.io/library/${name}:1`);
let machine: UpMachine;
let containerd: Containerd;
const soon = { timeoutMs: 30_000, signal: new AbortController().signal };

before(async () => {
  if (skip !== false) return;
  containerd = await startContainerd({ after: () => {} }); // the machine ends it
  for (const name of names) await containerd.import(busyboxImage({ name, files: { 'etc/image': name } }));
  machine = new UpMachine(thisContainerd(containerd));
  await machine.start('--node-name', 'here');
});
after(() => machine?.end());

async function tags(): Promise<string[]> {
  const { images } = await containerd.images.listImages({}, soon);
  return images.flatMap(({ repoTags }) => repoTags).toSorted();
}

test('a container that ends again and again leaves one of its predecessors', { skip }, async () => {
  const { kubectl } = machine;
  await kubectl.apply(pod('crashing', { image: 'used:1', script: 'echo here; exit 1' }));
  await eventually(async () => {
    const restarts = await kubectl.ok('get pod crashing -o jsonpath={.status.containerStatuses[0].restartCount}');
    assert.ok(Number(restarts) >= 2, restarts);
  });
  const labelSelector = { 'io.kubernetes.pod.uid': await machine.up.uidOf('crashing') };
  await eventually(async () => {
    const { containers } = await containerd.runtime.listContainers({ filter: { labelSelector } }, soon);
    assert.ok(containers.length <= 2, `${containers.length} containers`);
  });
  await eventually(async () => assert.equal(await kubectl.ok('logs crashing --previous'), 'here\n'));
  await kubectl.ok('delete pod crashing --now');
});

test('on a full disk images go that no container has, running or not', { skip }, async () => {
  const { kubectl } = machine;
  await kubectl.apply(
    pod('running', { image: 'used:1', script: 'exec sleep 1000' }),
    pod('done', { image: 'ended:1', script: 'exit 0' }, { restartPolicy: 'Never' }),
  );
  await kubectl.running('running');
  await kubectl.until('pod/done', '{.status.phase}', 'Succeeded');
  assert.deepEqual(await tags(), [...names, 'localhost/pause:1'].toSorted());
  await machine.up.stop();
  // Any disk counts as full.
  const settings = {
    apiVersion: 'mountlet.dev/v1alpha1',
    kind: 'AgentConfiguration',
    imageGCHighThresholdPercent: 1,
    imageGCLowThresholdPercent: 0,
    imageMinimumGCAge: '0s',
  };
  writeFileSync(join(machine.directory, 'agent.yaml'), JSON.stringify(settings));
  await machine.start('--node-name', 'here', '--config', join(machine.directory, 'agent.yaml'));
  await eventually(async () => assert.deepEqual(await tags(), [...names.slice(0, 2), 'localhost/pause:1'].toSorted()));
  await eventually(async () =>
    assert.match(
      await machine.kubectl.ok('get events --field-selector involvedObject.name=here'),
      /FreeDiskSpaceFailed .*Insufficient free disk space on the node's image filesystem \(\d+% of [\d.]+ [GTM]iB used\)/,
    ),
  );
  await machine.kubectl.running('running');
});
