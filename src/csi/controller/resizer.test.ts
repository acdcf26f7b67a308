import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import { GrpcError } from '../../grpc/grpc-error.ts';
import { resizeStatusOf } from '../../kube/references/claim-resize.ts';
import type { PersistentVolumeClaim } from '../../kube/kinds/storage/persistent-volume-claim.ts';
import { podWithClaims } from '../../testing/fakes/storage-builders.ts';
import { type DriverTraits, allCapabilities } from '../../testing/csi/memory-driver.ts';
import { CsiWorld } from '../../testing/worlds/csi-story.ts';

/** A claim `data` of 1Gi that is bound. */
async function opened(t: TestContext, traits: DriverTraits = {}): Promise<CsiWorld> {
  const csi = await CsiWorld.open(traits);
  t.after(() => csi.world.close());
  await csi.claim({});
  await csi.world.rest();
  return csi;
}

async function sizes(csi: CsiWorld): Promise<object> {
  const claim = (await csi.claimed()) ?? assert.fail();
  return {
    usable: claim.status?.capacity?.['storage'],
    volume: csi.volumes[0]?.spec.capacity?.['storage'],
    status: resizeStatusOf(claim),
    conditions: conditionsOf(claim),
  };
}

const conditionsOf = ({ status }: PersistentVolumeClaim): readonly string[] =>
  (status?.conditions ?? []).map(({ type }) => type).filter((type) => type !== 'Unused');
const preResize = 'volume.alpha.kubernetes.io/pre-resize-capacity';

test('a claim grows with its driver alone where the node has nothing to do', async (t) => {
  const csi = await opened(t);
  await csi.resize('data', '2Gi');
  await csi.world.rest();
  assert.deepEqual(await sizes(csi), { usable: '2Gi', volume: '2Gi', status: '', conditions: [] });
  const { metadata } = (await csi.claimed()) ?? assert.fail();
  assert.equal(metadata.annotations?.['volume.kubernetes.io/node-expansion-not-required'], 'true');
  assert.equal(csi.volumes[0]?.metadata.annotations?.[preResize], undefined);
  const said = csi.events('data');
  assert.ok(said.includes(`Resizing: External resizer is resizing volume ${csi.volumes[0]?.metadata.name}`));
  assert.ok(said.includes('VolumeResizeSuccessful: Resize volume succeeded'));
});

test('what the driver makes larger than it was asked for is what the node uses', async (t) => {
  const csi = await opened(t);
  csi.driver.script.controllerExpandVolume = () => ({ capacityBytes: 4n * 2n ** 30n, nodeExpansionRequired: true });
  await csi.resize('data', '3Gi');
  await csi.world.rest();
  const pending = { usable: '1Gi', volume: '4Gi', status: 'NodeResizePending' };
  assert.deepEqual(await sizes(csi), { ...pending, conditions: ['Resizing', 'FileSystemResizePending'] });
  assert.equal((await csi.claimed())?.status?.allocatedResources?.['storage'], '4Gi');
  assert.equal(csi.volumes[0]?.metadata.annotations?.[preResize], '1Gi');
});

test('a driver whose nodes do it all is asked for nothing', async (t) => {
  const csi = await opened(t, { capabilities: ['CREATE_DELETE_VOLUME'] });
  await csi.resize('data', '2Gi');
  await csi.world.rest();
  assert.deepEqual(await sizes(csi), {
    usable: '1Gi',
    volume: '2Gi',
    status: 'NodeResizePending',
    conditions: ['Resizing', 'FileSystemResizePending'],
  });
  assert.deepEqual(csi.driver.named('controllerExpandVolume'), []);
});

test('a driver whose volumes never grow leaves the claim as it is', async (t) => {
  const csi = await opened(t, { capabilities: ['CREATE_DELETE_VOLUME'], nodeExpands: false });
  await csi.resize('data', '2Gi');
  await csi.world.rest();
  assert.deepEqual(await sizes(csi), { usable: '1Gi', volume: '1Gi', status: '', conditions: [] });
  assert.ok(csi.events('data').includes('ExternalExpanding: waiting for an external controller to expand this PVC'));
});

for (const code of ['INVALID_ARGUMENT', 'OUT_OF_RANGE', 'NOT_FOUND'] as const) {
  test(`a size that the driver refuses with ${code} waits, and a smaller one is had at once`, async (t) => {
    const csi = await opened(t);
    csi.driver.script.controllerExpandVolume = ({ capacityRange }) => {
      if ((capacityRange?.requiredBytes ?? 0n) <= 2n * 2n ** 30n) return undefined;
      throw new GrpcError('ControllerExpandVolume', code, 'too large');
    };
    await csi.resize('data', '9Gi');
    await csi.world.rest();
    await csi.world.clock.advance(4 * 60_000);
    await csi.world.rest();
    assert.deepEqual(await sizes(csi), {
      usable: '1Gi',
      volume: '1Gi',
      status: 'ControllerResizeInfeasible',
      conditions: ['Resizing', 'ControllerResizeError'],
    });
    assert.equal(csi.driver.named('controllerExpandVolume').length, 1);
    const failed = csi.events('data').find((event) => event.startsWith('VolumeResizeFailed'));
    assert.match(
      failed ?? '',
      /^VolumeResizeFailed: resize volume "pvc-\S+" by resizer "disks.example.com" failed: rpc error: code = \w+ desc = too large$/,
    );
    await csi.resize('data', '2Gi');
    await csi.world.rest();
    assert.deepEqual(await sizes(csi), { usable: '2Gi', volume: '2Gi', status: '', conditions: [] });
  });
}

test('a size whose outcome is unknown is asked for until it is known, also when another one is wanted', async (t) => {
  const csi = await opened(t);
  let code: GrpcError['code'] | undefined = 'UNAVAILABLE';
  csi.driver.script.controllerExpandVolume = () => {
    if (code !== undefined) throw new GrpcError('ControllerExpandVolume', code, 'busy');
    return undefined;
  };
  await csi.resize('data', '9Gi');
  await csi.world.rest();
  await csi.resize('data', '2Gi');
  await csi.world.clock.advance(30_000);
  await csi.world.rest();
  const asked = (): readonly bigint[] =>
    csi.driver
      .named('controllerExpandVolume')
      .map(
        (one) =>
          (one as { readonly capacityRange: { readonly requiredBytes: bigint } }).capacityRange.requiredBytes /
          2n ** 30n,
      );
  assert.deepEqual([...new Set(asked())], [9n]);
  // Now it is known that nothing goes on, so the smaller one can be had.
  code = 'INTERNAL';
  await csi.world.clock.advance(30_000);
  await csi.world.rest();
  code = undefined;
  await csi.world.clock.advance(60_000);
  await csi.world.rest();
  assert.deepEqual(
    [asked().at(-1), await sizes(csi)],
    [2n, { usable: '2Gi', volume: '2Gi', status: '', conditions: [] }],
  );
});

test('a volume that only grows while it is not in use waits for the end of its pods', async (t) => {
  const csi = await opened(t);
  await csi.create('v1', 'Pod', podWithClaims('user', ['data']));
  await csi.world.rest();
  let isUsed = true;
  csi.driver.script.controllerExpandVolume = () => {
    if (isUsed) throw new GrpcError('ControllerExpandVolume', 'FAILED_PRECONDITION', 'in use');
    return undefined;
  };
  await csi.resize('data', '2Gi');
  await csi.world.clock.advance(120_000);
  await csi.world.rest();
  assert.equal(csi.driver.named('controllerExpandVolume').length, 1);
  const text =
    'VolumeResizeFailed: Unable to expand shop/data because CSI driver disks.example.com only supports offline expansion and volume is currently in-use';
  assert.ok(csi.events('data').includes(text), String(csi.events('data')));
  isUsed = false;
  await csi.world.user.delete(csi.world.key('Pod', 'user'), {}, { gracePeriodSeconds: 0 });
  await csi.world.rest();
  await csi.world.clock.advance(30_000);
  await csi.world.rest();
  assert.deepEqual(await sizes(csi), { usable: '2Gi', volume: '2Gi', status: '', conditions: [] });
});

test('an answer of less than was asked for is no growth', async (t) => {
  const csi = await opened(t, { capabilities: allCapabilities });
  csi.driver.script.controllerExpandVolume = () => ({ capacityBytes: 5n, nodeExpansionRequired: false });
  await csi.resize('data', '2Gi');
  await csi.world.rest();
  const { usable, volume } = (await sizes(csi)) as Record<string, string>;
  assert.deepEqual([usable, volume], ['1Gi', '1Gi']);
});
