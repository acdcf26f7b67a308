import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { PodStatus } from '../../kube/kinds/pod/pod-status.ts';
import type { Pod } from '../../kube/kinds/pod/pod.ts';
import { aContainer, aPod } from '../../testing/fakes/builders.ts';
import { FakeClock, settle } from '../../testing/fakes/fake-clock.ts';
import { MemoryPodApi } from '../../testing/fakes/memory-pod-api.ts';
import { finalStatus, mergeStatus, statusPatch } from './reported-status.ts';
import { StatusManager, type StatusNotice } from './status-manager.ts';

interface World {
  readonly api: MemoryPodApi;
  readonly clock: FakeClock;
  readonly manager: StatusManager;
  readonly notices: StatusNotice[];
  readonly running: Set<string>;
  readonly stop: () => Promise<void>;
}

function aWorld(mirror?: Pod): World {
  const api = new MemoryPodApi();
  const clock = new FakeClock();
  const notices: StatusNotice[] = [];
  const running = new Set<string>();
  const manager = new StatusManager({
    api,
    clock,
    pods: {
      apiPodOf: (pod) => (pod.metadata.annotations === undefined ? (api.find(pod.metadata.name) ?? pod) : mirror),
    },
    couldHaveRunningContainers: (uid) => running.has(uid),
    notify: (notice) => notices.push(notice),
  });
  const abort = new AbortController();
  const done = manager.run(abort.signal);
  const stop = async (): Promise<void> => {
    abort.abort();
    await done;
  };
  return { api, clock, manager, notices, running, stop };
}

const ready = (status: string): PodStatus => ({ phase: 'Running', conditions: [{ type: 'Ready', status }] });

test('a status is sent at once and once; times of what did not change are kept', async () => {
  const { api, clock, manager, stop } = aWorld();
  api.put(aPod());
  assert.ok(manager.set(aPod(), ready('False')));
  await settle();
  assert.deepEqual(api.calls, ['patch web']);
  const first = api.find('web')?.status;
  await clock.advance(5000);
  assert.equal(manager.set(aPod(), ready('False')), false);
  await settle();
  assert.deepEqual(api.calls, ['patch web']);
  assert.ok(manager.set(aPod(), ready('True')));
  await settle();
  const second = api.find('web')?.status;
  assert.equal(second?.startTime, first?.startTime);
  assert.notEqual(second?.conditions?.[0]?.lastTransitionTime, first?.conditions?.[0]?.lastTransitionTime);
  await stop();
});

test('of pods that wait for their turn the newest status is sent, and none in between', async () => {
  const api = new MemoryPodApi();
  let open = (): void => {};
  const opened = new Promise<void>((resolve) => (open = resolve));
  const patch = api.patchStatus.bind(api);
  const slowPatch: MemoryPodApi['patchStatus'] = (...request) => opened.then(() => patch(...request));
  const manager = new StatusManager({
    api: Object.assign(api, { patchStatus: slowPatch }),
    clock: new FakeClock(),
    pods: { apiPodOf: (pod) => pod },
    couldHaveRunningContainers: () => false,
    notify: () => {},
  });
  const abort = new AbortController();
  const done = manager.run(abort.signal);
  const names = Array.from({ length: 20 }, (_, index) => `pod-${index}`);
  const pods = names.map((name) => aPod({ metadata: { name, uid: name } }));
  for (const pod of pods) {
    api.put(pod);
    manager.set(pod, { phase: 'Pending' });
  }
  await settle();
  manager.set(pods.at(-1) ?? aPod(), ready('True'));
  open();
  await settle();
  assert.deepEqual(api.calls.toSorted(), names.map((name) => `patch ${name}`).toSorted());
  assert.equal(api.find('pod-19')?.status?.phase, 'Running');
  abort.abort();
  await done;
});

test('a status is compared with the last one written, though the watch has not brought it yet', async () => {
  const api = new MemoryPodApi();
  const version = (resourceVersion: string): Pod => aPod({ metadata: { resourceVersion } });
  const patchStatus = api.patchStatus.bind(api);
  const manager = new StatusManager({
    api: Object.assign(api, {
      get: () => assert.fail('nothing is asked for'),
      patchStatus: async (...request: Parameters<MemoryPodApi['patchStatus']>) => {
        const written = await patchStatus(...request);
        return written && { ...written, metadata: { ...written.metadata, resourceVersion: '6' } };
      },
    }),
    clock: new FakeClock(),
    pods: { apiPodOf: () => version('5') },
    couldHaveRunningContainers: () => true,
    notify: () => {},
  });
  const abort = new AbortController();
  const done = manager.run(abort.signal);
  api.put(version('5'));
  manager.set(version('5'), ready('False'));
  await settle();
  manager.set(version('5'), ready('True'));
  await settle();
  const [first, second] = api.patches as PodStatus[];
  assert.equal(first?.phase, 'Running');
  assert.deepEqual(Object.keys(second ?? {}), ['conditions'], 'the phase was told before');
  abort.abort();
  await done;
});

test('a failed write is repeated by the next sync, and so is a status that another client changed', async () => {
  const { api, clock, manager, notices, stop } = aWorld();
  api.put(aPod());
  api.failure = new Error('away');
  manager.set(aPod(), ready('True'));
  await settle();
  assert.deepEqual(notices, [
    { kind: 'StatusNotSent', pod: 'web_shop(5f3a7c3e-0000-4000-8000-000000000001)', message: 'away' },
  ]);
  api.failure = undefined;
  await clock.advance(10_000);
  await settle();
  assert.equal(api.find('web')?.status?.phase, 'Running');
  api.put({ ...aPod(), status: { phase: 'Pending' } });
  await clock.advance(10_000);
  await settle();
  assert.equal(api.find('web')?.status?.phase, 'Running');
  await stop();
});

test('a pod that is gone is ignored, and one whose UID changed drops the status', async () => {
  const { api, manager, stop } = aWorld();
  manager.set(aPod(), ready('True'));
  await settle();
  assert.deepEqual(api.calls, []);
  api.put(aPod({ metadata: { uid: 'other' } }));
  const abort = new AbortController();
  const watching = new StatusManager({
    api,
    clock: new FakeClock(),
    pods: { apiPodOf: (pod) => pod },
    couldHaveRunningContainers: () => false,
    notify: () => {},
  });
  const done = watching.run(abort.signal);
  watching.set(aPod(), ready('True'));
  await settle();
  assert.equal(watching.get(aPod().metadata.uid ?? ''), undefined);
  assert.deepEqual(api.calls, []);
  abort.abort();
  await done;
  await stop();
});

test('the status of a static pod is sent to its mirror, and nowhere while there is none', async () => {
  const mirror = aPod({ metadata: { name: 'mirror', uid: 'm', annotations: { 'kubernetes.io/config.mirror': 'h' } } });
  const staticPod = aPod({ metadata: { annotations: { 'kubernetes.io/config.source': 'file' } } });
  const alone = aWorld();
  alone.manager.set(staticPod, ready('True'));
  await settle();
  assert.deepEqual(alone.api.calls, []);
  await alone.stop();
  const { api, manager, stop } = aWorld(mirror);
  api.put(mirror);
  manager.set(staticPod, ready('True'));
  await settle();
  assert.deepEqual(api.calls, ['patch mirror']);
  await stop();
});

test('a deleted pod leaves the API server when it is cleaned up and its phase there is terminal', async () => {
  const { api, manager, running, stop } = aWorld();
  const deleted = aPod({ metadata: { deletionTimestamp: '2026-01-01T00:00:00Z' } });
  const uid = deleted.metadata.uid ?? '';
  api.put(deleted);
  running.add(uid);
  manager.set(deleted, { phase: 'Running', containerStatuses: [] });
  await settle();
  running.delete(uid);
  manager.finish(deleted);
  await settle();
  assert.deepEqual(api.calls, ['patch web', 'patch web', 'delete web']);
  assert.equal(api.find('web'), undefined);
  await stop();
});

test('a mirror is never deleted by the status manager', async () => {
  const annotations = { 'kubernetes.io/config.mirror': 'h' };
  const mirror = aPod({
    metadata: { annotations, deletionTimestamp: '2026-01-01T00:00:00Z' },
    status: { phase: 'Failed' },
  });
  const { api, manager, stop } = aWorld(mirror);
  api.put(mirror);
  manager.finish(aPod({ metadata: { annotations: {} }, status: { phase: 'Failed' } }));
  await settle();
  assert.ok(!api.calls.includes('delete web'));
  await stop();
});

test('a container that ended for good cannot run again in a status', async () => {
  const { manager, notices, stop } = aWorld();
  const pod = aPod({ restartPolicy: 'Never' });
  const status = (state: object): PodStatus => ({
    phase: 'Running',
    containerStatuses: [{ name: 'main', ready: false, restartCount: 0, image: '', imageID: '', state }],
  });
  assert.ok(manager.set(pod, status({ terminated: { exitCode: 0 } })));
  assert.equal(manager.set(pod, status({ running: {} })), false);
  assert.match(
    notices[0]?.message ?? '',
    /terminated container main attempted illegal transition to non-terminated state/,
  );
  const restarting = aPod({ metadata: { uid: 'b' }, restartPolicy: 'OnFailure' });
  assert.ok(manager.set(restarting, status({ terminated: { exitCode: 1 } })));
  assert.ok(manager.set(restarting, status({ running: {} })));
  await stop();
});

test('conditions of others are kept, and a terminal phase waits for the containers', () => {
  const api: PodStatus = { phase: 'Running', conditions: [{ type: 'x/y', status: 'True' }] };
  const own: PodStatus = {
    phase: 'Failed',
    reason: 'Error',
    conditions: [
      { type: 'Ready', status: 'True' },
      { type: 'x/y', status: 'False' },
    ],
  };
  const withheld = mergeStatus(api, own, true);
  assert.deepEqual([withheld.phase, withheld.reason], ['Running', undefined]);
  assert.deepEqual(withheld.conditions, [
    { type: 'x/y', status: 'True' },
    { type: 'Ready', status: 'True' },
  ]);
  const told = mergeStatus(api, own, false);
  assert.equal(told.phase, 'Failed');
  assert.deepEqual(told.conditions?.[1], { type: 'Ready', status: 'False', reason: 'PodFailed' });
});

const container = (name: string, state: object, more: object = {}): object => ({ name, state, ...more });
const ends: readonly {
  it: string;
  pod: Pod;
  status: object;
  phase: string;
  states: readonly (number | undefined)[];
}[] = [
  {
    it: 'fills in a container whose end was not seen',
    pod: aPod(),
    status: { phase: 'Running', containerStatuses: [container('main', { running: {} })] },
    phase: 'Failed',
    states: [137],
  },
  {
    it: 'fills nothing in before the pod had initialised',
    pod: aPod({ initContainers: [aContainer({ name: 'i' }), aContainer({ name: 'j' })] }),
    status: {
      phase: 'Pending',
      initContainerStatuses: [container('i', { running: {} }), container('j', { waiting: {} })],
      containerStatuses: [container('main', { waiting: {} })],
    },
    phase: 'Failed',
    states: [137, undefined, undefined],
  },
  {
    it: 'the first init container counts as tried',
    pod: aPod({ initContainers: [aContainer({ name: 'i' })] }),
    status: {
      phase: 'Pending',
      initContainerStatuses: [container('i', { waiting: {} })],
      containerStatuses: [container('main', { waiting: {} })],
    },
    phase: 'Failed',
    states: [137, undefined],
  },
  {
    it: 'keeps an end that is known',
    pod: aPod(),
    status: { phase: 'Succeeded', containerStatuses: [container('main', { terminated: { exitCode: 0 } })] },
    phase: 'Succeeded',
    states: [0],
  },
  {
    it: 'leaves the phase of a static pod',
    pod: aPod({ metadata: { annotations: { 'kubernetes.io/config.source': 'file' } } }),
    status: { phase: 'Running', containerStatuses: [] },
    phase: 'Running',
    states: [],
  },
];
for (const { it, pod, status, phase, states } of ends) {
  test(`the last status ${it}`, () => {
    const last = finalStatus(pod, status);
    assert.equal(last.phase, phase);
    assert.deepEqual(
      [...(last.initContainerStatuses ?? []), ...(last.containerStatuses ?? [])].map(
        ({ state }) => state?.terminated?.exitCode,
      ),
      states,
    );
  });
}

test('a patch says only what differs, and what is gone', () => {
  const before: PodStatus = {
    phase: 'Running',
    message: 'x',
    podIPs: [{ ip: '10.0.0.1' }],
    conditions: [
      { type: 'Ready', status: 'False', reason: 'Why' },
      { type: 'Old', status: 'True' },
    ],
  };
  const after: PodStatus = {
    phase: 'Running',
    podIPs: [{ ip: '10.0.0.2' }],
    conditions: [{ type: 'Ready', status: 'True' }],
  };
  assert.deepEqual(statusPatch(before, after), {
    message: null,
    podIPs: [{ ip: '10.0.0.2' }, { $patch: 'replace' }],
    conditions: [
      { type: 'Ready', status: 'True', reason: null },
      { type: 'Old', $patch: 'delete' },
    ],
  });
  assert.equal(statusPatch(after, after), undefined);
});

const addressCases: readonly {
  it: string;
  before: PodStatus;
  after: PodStatus;
  sent: Readonly<Record<string, unknown>>;
}[] = [
  {
    it: 'a pod without addresses gets them without a directive, which servers before 1.28 would take for one of them',
    before: {},
    after: { podIPs: [{ ip: '10.0.0.1' }], hostIPs: [{ ip: '192.0.2.1' }] },
    sent: { podIPs: [{ ip: '10.0.0.1' }], hostIPs: [{ ip: '192.0.2.1' }] },
  },
  {
    it: 'addresses replace those before them, which would stay otherwise',
    before: { podIPs: [{ ip: '10.0.0.1' }], hostIPs: [{ ip: '192.0.2.1' }] },
    after: { hostIPs: [{ ip: '192.0.2.2' }] },
    sent: { podIPs: [{ $patch: 'replace' }], hostIPs: [{ ip: '192.0.2.2' }, { $patch: 'replace' }] },
  },
];
for (const { it, before, after, sent } of addressCases) {
  test(it, () => assert.deepEqual(statusPatch(before, after), sent));
}

test('what an older server leaves out of a status is sent once, and again only after another client has written', async () => {
  const api = new MemoryPodApi();
  let version = 5;
  const stored = (): Pod => aPod({ metadata: { resourceVersion: String(version) }, status: { phase: 'Running' } });
  const patches: unknown[] = [];
  const clock = new FakeClock();
  const manager = new StatusManager({
    api: Object.assign(api, {
      patchStatus: async (_namespace: string, _name: string, patch: unknown) => {
        if (patches.push(patch) === 1) version = 6;
        return { metadata: stored().metadata };
      },
    }),
    clock,
    pods: { apiPodOf: stored },
    couldHaveRunningContainers: () => true,
    notify: () => {},
  });
  const abort = new AbortController();
  const done = manager.run(abort.signal);
  manager.set(stored(), { phase: 'Running', hostIPs: [{ ip: '192.0.2.1' }] });
  await settle();
  for (let passes = 0; passes < 5; passes += 1) await clock.advance(10_000);
  assert.equal(patches.length, 1);
  version = 7;
  for (let passes = 0; passes < 5; passes += 1) await clock.advance(10_000);
  assert.equal(patches.length, 2);
  abort.abort();
  await done;
});

test('termination messages share 12 KiB', () => {
  const manager = new StatusManager({
    api: new MemoryPodApi(),
    clock: new FakeClock(),
    pods: { apiPodOf: () => undefined },
    couldHaveRunningContainers: () => false,
    notify: () => {},
  });
  const ended = (name: string): NonNullable<PodStatus['containerStatuses']>[number] => ({
    name,
    ready: false,
    restartCount: 0,
    image: '',
    imageID: '',
    state: { terminated: { exitCode: 1, message: 'ä'.repeat(6000) } },
  });
  manager.set(aPod(), { phase: 'Failed', containerStatuses: ['a', 'b', 'c'].map(ended) });
  const [first] = manager.get(aPod().metadata.uid ?? '')?.containerStatuses ?? [];
  assert.equal(first?.state?.terminated?.message, 'ä'.repeat(2048));
});
