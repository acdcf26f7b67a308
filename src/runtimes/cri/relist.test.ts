import assert from 'node:assert/strict';
import { test } from 'node:test';
import { create } from '@bufbuild/protobuf';
import { ContainerSchema, ContainerState, PodSandboxSchema, PodSandboxState } from '../../grpc/messages/cri_pb.ts';
import { FakeClock } from '../../testing/fakes/fake-clock.ts';
import type { Listed } from './cri-pods.ts';
import { Relist } from './relist.ts';

const states = {
  r: ContainerState.CONTAINER_RUNNING,
  x: ContainerState.CONTAINER_EXITED,
  c: ContainerState.CONTAINER_CREATED,
  u: ContainerState.CONTAINER_UNKNOWN,
} as const;

/** `a r` is a running container with the ID a, `S` a sandbox that is ready, `s` one that is not. */
function listed(text: string): Listed {
  const words = text.split(', ').filter(Boolean);
  const isSandbox = (word: string): boolean => /^s$/i.test(word);
  return {
    sandboxes: words.filter(isSandbox).map((word) =>
      create(PodSandboxSchema, {
        id: 'sandbox',
        state: word === 'S' ? PodSandboxState.SANDBOX_READY : PodSandboxState.SANDBOX_NOTREADY,
      }),
    ),
    containers: words
      .filter((word) => !isSandbox(word))
      .map((word) => {
        const [id = '', state = ''] = word.split(' ');
        return create(ContainerSchema, { id, state: states[state as keyof typeof states] });
      }),
  };
}

const cases = [
  { it: 'a container started', before: 'S', after: 'S, a r', changed: true },
  { it: 'a container ended', before: 'S, a r', after: 'S, a x', changed: true },
  { it: 'a container began and ended between two looks', before: 'S', after: 'S, a x', changed: true },
  { it: 'a container ended and was removed between two looks', before: 'S, a r', after: 'S', changed: true },
  { it: 'the sandbox ended', before: 'S, a r', after: 's, a r', changed: true },
  { it: 'the sandbox and all are gone', before: 'S, a r', after: '', changed: true },
  { it: 'a container was only created', before: 'S', after: 'S, a c', changed: false },
  { it: 'a container that had ended was removed', before: 'S, a x', after: 'S', changed: false },
  { it: 'the runtime lost track of a container', before: 'S, a r', after: 'S, a u', changed: false },
  { it: 'nothing happened', before: 'S, a r, b x', after: 'S, a r, b x', changed: false },
];

for (const { it, before, after, changed } of cases) {
  test(`when ${it}, the pod is ${changed ? '' : 'not '}looked at`, async () => {
    const told: string[] = [];
    let now = new Map([['pod', listed(before)]]);
    const relist = new Relist({
      clock: new FakeClock(),
      listed: async () => now,
      inspect: async () => {},
      changed: (uid) => told.push(uid),
    });
    await relist.relist(new AbortController().signal);
    told.length = 0;
    now = after === '' ? new Map() : new Map([['pod', listed(after)]]);
    await relist.relist(new AbortController().signal);
    assert.deepEqual(told, changed ? ['pod'] : []);
  });
}

test('it is healthy until it was silent for three minutes; when the runtime is back, every pod is looked at', async () => {
  const clock = new FakeClock();
  const told: string[] = [];
  let isAway = true;
  const relist = new Relist({
    clock,
    listed: async () => {
      if (isAway) throw new Error('away');
      return new Map([['pod', listed('S, a r')]]);
    },
    inspect: async () => {},
    changed: (uid) => told.push(uid),
  });
  const look = async (afterMs: number): Promise<void> => {
    await clock.advance(afterMs);
    await relist.relist(new AbortController().signal);
  };
  await look(0);
  assert.deepEqual(relist.problems(), ['PLEG is not healthy: pleg has yet to be successful']);
  isAway = false;
  await look(1_000);
  assert.deepEqual(relist.problems(), []);
  assert.deepEqual(told, ['pod']);
  isAway = true;
  relist.missed('new');
  await look(180_000);
  assert.deepEqual(relist.problems(), []);
  await look(500);
  assert.deepEqual(relist.problems(), ['PLEG is not healthy: pleg was last seen active 3m0.5s ago; threshold is 3m0s']);
  isAway = false;
  await look(1_000);
  assert.deepEqual(relist.problems(), []);
  assert.deepEqual(told, ['pod', 'pod', 'new']);
});

test('a pod about which the runtime does not answer is looked at when it does, and not before', async () => {
  const told: string[] = [];
  let isAnswered = false;
  const relist = new Relist({
    clock: new FakeClock(),
    listed: async () => new Map([['pod', listed('S, a r')]]),
    inspect: async () => {
      if (!isAnswered) throw new Error('no answer');
    },
    changed: (uid) => told.push(uid),
  });
  const { signal } = new AbortController();
  await relist.relist(signal);
  told.length = 0;
  relist.missed('pod');
  await relist.relist(signal);
  await relist.relist(signal);
  assert.deepEqual(told, []);
  isAnswered = true;
  await relist.relist(signal);
  await relist.relist(signal);
  assert.deepEqual(told, ['pod']);
});
