/** Claims under `mountlet up`, with kubectl: made, bound, used, and deleted in every order; nothing hangs and nothing is left. */
import assert from 'node:assert/strict';
import { existsSync, mkdirSync, readdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { eventually } from './kubectl-program.ts';
import { mountAt, pod } from './manifests.ts';
import { UpMachine, withNode } from './up-program.ts';

const machine = new UpMachine();
before(async () => void (withNode.skip === false && (await machine.start('--node-name', 'here'))));
after(() => machine.end());

const claim = (name: string, spec: object = {}, namespace = 'default'): object => ({
  apiVersion: 'v1',
  kind: 'PersistentVolumeClaim',
  metadata: { name, namespace },
  spec: { accessModes: ['ReadWriteOnce'], resources: { requests: { storage: '1Gi' } }, ...spec },
});
const volume = (name: string, spec: object = {}): object => ({
  apiVersion: 'v1',
  kind: 'PersistentVolume',
  metadata: { name },
  spec: {
    capacity: { storage: '1Gi' },
    accessModes: ['ReadWriteOnce'],
    persistentVolumeReclaimPolicy: 'Retain',
    hostPath: { path: join(machine.directory, name) },
    ...spec,
  },
});
const user = (name: string, claimName: string): object =>
  pod(
    name,
    { script: 'echo $HOSTNAME >>/data/log; sleep 1000', volumeMounts: [mountAt('data', '/data')] },
    { volumes: [{ name: 'data', persistentVolumeClaim: { claimName } }] },
  );
const directories = (): readonly string[] => {
  const path = join(machine.directory, 'state', 'node', 'local-path');
  return existsSync(path) ? readdirSync(path) : [];
};
/** Volumes that belong to claims of these names, in the namespace. */
const volumesOf = async (namespace: string, ...names: readonly string[]): Promise<readonly string[]> => {
  const { items } = await machine.kubectl.json<{
    items: { metadata: { name: string }; spec: { claimRef?: { namespace: string; name: string } } }[];
  }>('get pv');
  return items
    .filter(({ spec: { claimRef } }) => claimRef?.namespace === namespace && names.includes(claimRef.name))
    .map(({ metadata }) => metadata.name);
};

describe('claims', { concurrency: 3 }, () => {
  test(
    'a claim without a class gets a directory of the node with its first pod, and its data outlives the pod',
    withNode,
    async () => {
      const { kubectl } = machine;
      await kubectl.apply(claim('data'));
      await eventually(async () =>
        assert.match(await kubectl.ok('describe pvc data'), /WaitForFirstConsumer .*waiting for first consumer/),
      );
      await kubectl.apply(user('first', 'data'));
      await kubectl.running('first');
      await kubectl.until('pvc/data', '{.status.phase}', 'Bound');
      await eventually(async () => assert.notEqual(await kubectl.exec('first', 'cat', '/data/log'), ''));
      await kubectl.ok('delete pod first');
      await kubectl.apply(user('second', 'data'));
      await kubectl.running('second');
      await eventually(async () =>
        assert.equal((await kubectl.exec('second', 'cat', '/data/log')).split('\n').length, 3),
      );
      const [name = ''] = await volumesOf('default', 'data');
      assert.ok(directories().includes(name));
      // The claim first: it waits for the pod, and then all of it goes.
      await kubectl.ok('delete pvc data --wait=false');
      assert.equal(await kubectl.ok('get pvc data -o jsonpath={.status.phase}'), 'Bound');
      await kubectl.ok('delete pod second');
      await kubectl.ok(`wait pvc/data pv/${name} --for=delete --timeout=100s`);
      await eventually(() => assert.ok(!directories().includes(name)));
    },
  );

  test('the pod first, or the namespace first: everything goes', withNode, async () => {
    const { kubectl } = machine;
    for (const namespace of ['pod-first', 'namespace-first']) {
      await kubectl.ok(`create namespace ${namespace}`);
      const templated = {
        name: 'scratch',
        ephemeral: {
          volumeClaimTemplate: {
            spec: { accessModes: ['ReadWriteMany'], resources: { requests: { storage: '1Mi' } } },
          },
        },
      };
      const web = pod(
        'web',
        { script: 'sleep 1000', volumeMounts: [mountAt('data', '/data'), mountAt('scratch', '/scratch')] },
        { volumes: [{ name: 'data', persistentVolumeClaim: { claimName: 'data' } }, templated] },
      );
      const input = JSON.stringify({ apiVersion: 'v1', kind: 'List', items: [claim('data', {}, namespace), web] });
      await kubectl.ok(`apply -n ${namespace} -f -`, { input });
      await kubectl.ok(`wait -n ${namespace} pod/web --for=jsonpath={.status.phase}=Running --timeout=100s`);
      const names = await volumesOf(namespace, 'data', 'web-scratch');
      assert.equal(names.length, 2);
      if (namespace === 'pod-first') {
        await kubectl.ok(`delete -n ${namespace} pod/web --timeout=100s`);
        await kubectl.ok(`wait -n ${namespace} pvc/web-scratch --for=delete --timeout=100s`);
        await kubectl.ok(`delete -n ${namespace} pvc/data --timeout=100s`);
      }
      await kubectl.ok(`delete namespace ${namespace} --timeout=100s`);
      await eventually(async () => assert.deepEqual(await volumesOf(namespace, 'data', 'web-scratch'), []));
      await eventually(() => assert.ok(names.every((name) => !directories().includes(name))));
    }
  });

  test(
    'volumes are bound by size, access modes and name; a kept one is released, and free again when its claim is forgotten',
    withNode,
    async () => {
      const { kubectl } = machine;
      const storageClassName = 'by-hand';
      await kubectl.apply(
        volume('large', { storageClassName, capacity: { storage: '10Gi' } }),
        volume('small', { storageClassName }),
        volume('shared', { storageClassName, accessModes: ['ReadWriteOnce', 'ReadWriteMany'] }),
        volume('mine', { storageClassName, claimRef: { namespace: 'default', name: 'named' } }),
      );
      for (const name of ['one', 'two', 'three']) {
        await kubectl.apply(claim(name, { storageClassName }));
        await kubectl.until(`pvc/${name}`, '{.status.phase}', 'Bound');
      }
      const bound = await Promise.all(
        ['one', 'two', 'three'].map((name) => kubectl.ok(`get pvc ${name} -o jsonpath={.spec.volumeName}`)),
      );
      assert.deepEqual(bound, ['small', 'large', 'shared']);
      await kubectl.apply(claim('named', { storageClassName }));
      await kubectl.until('pvc/named', '{.spec.volumeName}', 'mine');
      await kubectl.ok('delete pvc one');
      await kubectl.until('pv/small', '{.status.phase}', 'Released');
      await kubectl.apply(claim('four', { storageClassName }));
      await eventually(async () =>
        assert.match(await kubectl.ok('describe pvc four'), /ProvisioningFailed .*"by-hand" not found/),
      );
      await kubectl.ok('patch pv small --type=merge -p {"spec":{"claimRef":null}}');
      await kubectl.until('pvc/four', '{.status.phase}', 'Bound');
      await kubectl.ok('delete pvc two three four named');
      await kubectl.ok('delete pv small large shared mine --timeout=100s');
    },
  );

  test('a pod says why its claims keep it from running', withNode, async () => {
    const { kubectl } = machine;
    await kubectl.apply(user('lonely', 'absent'));
    const says = async (name: string, text: RegExp): Promise<void> =>
      eventually(async () => assert.match(await kubectl.ok(`events --for pod/${name}`), text));
    await says('lonely', /0\/1 nodes are available: persistentvolumeclaim "absent" not found\./);
    await kubectl.apply(claim('absent'));
    await kubectl.running('lonely');
    await kubectl.apply(claim('alone', { accessModes: ['ReadWriteOncePod'] }), user('holder', 'alone'));
    await kubectl.running('holder');
    await kubectl.apply(user('waiter', 'alone'));
    await says(
      'waiter',
      /1 node\(s\) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode already in-use/,
    );
    await kubectl.ok('delete pod holder');
    await kubectl.running('waiter');
    const elsewhere = {
      nodeAffinity: {
        required: {
          nodeSelectorTerms: [
            { matchExpressions: [{ key: 'kubernetes.io/hostname', operator: 'In', values: ['there'] }] },
          ],
        },
      },
      hostPath: undefined,
      local: { path: '/volumes' },
      storageClassName: 'far',
    };
    await kubectl.apply(volume('far', elsewhere), claim('far', { storageClassName: 'far' }), user('far', 'far'));
    await says('far', /1 node\(s\) didn't match PersistentVolume's node affinity/);
    await kubectl.ok('delete pod lonely waiter far');
    await kubectl.ok('delete pvc absent alone far --timeout=100s');
    await kubectl.ok('delete pv far --timeout=100s');
  });

  test('the volume first, or the class: nothing hangs, and data in use stays', withNode, async () => {
    const { kubectl } = machine;
    await kubectl.apply(claim('held'), user('holding', 'held'));
    await kubectl.running('holding');
    const [name = ''] = await volumesOf('default', 'held');
    await kubectl.ok(`delete pv ${name} --wait=false`);
    assert.equal(await kubectl.ok(`get pv ${name} -o jsonpath={.status.phase}`), 'Bound');
    assert.ok(directories().includes(name));
    await kubectl.ok('delete pvc held --wait=false');
    await kubectl.ok('delete pod holding --timeout=100s');
    await kubectl.ok(`wait pvc/held pv/${name} --for=delete --timeout=100s`);
    await eventually(() => assert.ok(!directories().includes(name)));
    const slow = {
      apiVersion: 'storage.k8s.io/v1',
      kind: 'StorageClass',
      metadata: { name: 'slow' },
      provisioner: 'mountlet.dev/local-path',
      volumeBindingMode: 'WaitForFirstConsumer',
    };
    await kubectl.apply(slow, claim('early', { storageClassName: 'slow' }));
    await kubectl.ok('delete storageclass slow');
    await kubectl.apply(user('early', 'early'));
    await eventually(async () => {
      assert.match(
        await kubectl.ok('describe pvc early'),
        /ProvisioningFailed .*storageclass.storage.k8s.io "slow" not found/,
      );
      assert.match(await kubectl.ok('events --for pod/early'), /pod has unbound immediate PersistentVolumeClaims/);
    });
    await kubectl.apply(slow);
    await kubectl.running('early');
    await kubectl.ok('delete storageclass slow');
    await kubectl.ok('delete pod early --timeout=100s');
    await kubectl.ok('delete pvc early --timeout=100s');
    await eventually(async () => assert.deepEqual(await volumesOf('default', 'early'), []));
  });

  test(
    'a class that does not wait for a pod says what it needs, and its claim is served once it does',
    withNode,
    async () => {
      const { kubectl } = machine;
      const hasty = {
        apiVersion: 'storage.k8s.io/v1',
        kind: 'StorageClass',
        metadata: { name: 'hasty' },
        provisioner: 'mountlet.dev/local-path',
      };
      await kubectl.apply(hasty, claim('hasty', { storageClassName: 'hasty' }), user('hasty', 'hasty'));
      await eventually(async () =>
        assert.match(
          await kubectl.ok('describe pvc hasty'),
          /ProvisioningFailed .*StorageClass "hasty" needs volumeBindingMode: WaitForFirstConsumer/,
        ),
      );
      await kubectl.ok('delete storageclass hasty');
      await kubectl.apply({ ...hasty, volumeBindingMode: 'WaitForFirstConsumer' });
      await kubectl.running('hasty');
      await kubectl.ok('delete pod hasty');
      await kubectl.ok('delete pvc hasty --timeout=100s');
      await kubectl.ok('delete storageclass hasty');
    },
  );

  test('a volume that nothing here can empty or delete says so when its claim is gone', withNode, async () => {
    const { kubectl } = machine;
    const policies = [
      ['Recycle', /VolumeFailedRecycle .*No recycler plugin found for the volume!/],
      ['Delete', /VolumeFailedDelete .*error getting deleter volume plugin for volume "on-delete": no deletable/],
    ] as const;
    for (const [policy, says] of policies) {
      const name = `on-${policy.toLowerCase()}`;
      const storageClassName = name;
      await kubectl.apply(volume(name, { storageClassName, persistentVolumeReclaimPolicy: policy }));
      await kubectl.apply(claim(name, { storageClassName }));
      await kubectl.until(`pvc/${name}`, '{.status.phase}', 'Bound');
      await kubectl.ok(`delete pvc ${name} --timeout=100s`);
      await kubectl.until(`pv/${name}`, '{.status.phase}', 'Failed');
      await eventually(async () => assert.match(await kubectl.ok(`describe pv ${name}`), says));
      await kubectl.ok(`delete pv ${name} --timeout=100s`);
    }
  });

  test('what a volume says of its path is never deleted', withNode, async () => {
    const { kubectl } = machine;
    const precious = join(machine.directory, 'precious');
    mkdirSync(precious);
    writeFileSync(join(precious, 'file'), 'kept');
    const forged = volume('forged', {
      persistentVolumeReclaimPolicy: 'Delete',
      storageClassName: 'by-force',
      hostPath: undefined,
      local: { path: precious },
      nodeAffinity: {
        required: {
          nodeSelectorTerms: [{ matchExpressions: [{ key: 'kubernetes.io/hostname', operator: 'Exists' }] }],
        },
      },
    }) as { metadata: object };
    const annotations = { 'pv.kubernetes.io/provisioned-by': 'mountlet.dev/local-path' };
    await kubectl.apply(
      { ...forged, metadata: { name: 'forged', annotations } },
      claim('forged', { storageClassName: 'by-force' }),
    );
    await kubectl.until('pvc/forged', '{.status.phase}', 'Bound');
    await kubectl.ok('delete pvc forged');
    await kubectl.until('pv/forged', '{.status.phase}', 'Released');
    await kubectl.ok('delete pv forged --timeout=100s');
    assert.ok(existsSync(join(precious, 'file')));
  });
});

// Alone: the others make claims of the default class.
test('a claim that was made while there was no default class gets the one there is later', withNode, async () => {
  const { kubectl } = machine;
  const annotation = 'storageclass.kubernetes.io/is-default-class';
  await kubectl.ok(`annotate storageclass local-path ${annotation}-`);
  await kubectl.apply(claim('early'), user('early', 'early'));
  await eventually(async () =>
    assert.match(await kubectl.ok('describe pvc early'), /FailedBinding .*no storage class is set/),
  );
  await kubectl.ok(`annotate storageclass local-path ${annotation}=true`);
  await kubectl.until('pvc/early', '{.spec.storageClassName}', 'local-path');
  await kubectl.until('pvc/early', '{.status.phase}', 'Bound');
  await kubectl.running('early');
  await kubectl.ok('delete pod early');
  await kubectl.ok('delete pvc early --timeout=100s');
  await eventually(async () => assert.deepEqual(await volumesOf('default', 'early'), []));
});
