import { type Reference, ReferencedObjects } from './object-manager.ts';
import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import type { Pod } from '../kube/kinds/pod/pod.ts';
import { aContainer, aPod } from '../testing/fakes/builders.ts';

class Objects extends ReferencedObjects {
  readonly #add: (reference: Reference) => void;
  readonly #release: (reference: Reference) => void;

  constructor(add: (reference: Reference) => void, release: (reference: Reference) => void) {
    super('Secret');
    this.#add = add;
    this.#release = release;
  }

  override addReference(reference: Reference): void {
    this.#add(reference);
  }

  override releaseReference(reference: Reference): void {
    this.#release(reference);
  }
}

/** Holds references as a store would, and logs the calls: `+shop/a`, `-shop/a`. */
function holder(): { counts: ReferencedObjects; log: string[]; held: Map<string, number> } {
  const log: string[] = [];
  const held = new Map<string, number>();
  const change = (sign: '+' | '-', { namespace, name }: Reference): void => {
    const key = `${namespace}/${name}`;
    log.push(`${sign}${key}`);
    const count = (held.get(key) ?? 0) + (sign === '+' ? 1 : -1);
    assert.ok(count >= 0, `${key} was released more often than it was added`);
    if (count === 0) held.delete(key);
    else held.set(key, count);
  };
  const counts = new Objects(
    (reference) => change('+', reference),
    (reference) => change('-', reference),
  );
  return { counts, log, held };
}

function podWith(secrets: readonly string[], { name = 'web', uid = 'u1', namespace = 'shop' } = {}): Pod {
  return aPod({ metadata: { name, uid, namespace }, imagePullSecrets: secrets.map((secret) => ({ name: secret })) });
}

type Step = readonly ['register' | 'unregister', Pod];
const twin = { uid: 'u2' };
const cases: readonly { readonly it: string; readonly steps: readonly Step[]; readonly log: readonly string[] }[] = [
  {
    it: 'registering twice is one reference, unregistering twice one release',
    steps: [
      ['register', podWith(['a'])],
      ['register', podWith(['a'])],
      ['unregister', podWith(['a'])],
      ['unregister', podWith(['a'])],
    ],
    log: ['+shop/a', '-shop/a'],
  },
  {
    it: 'different pods count separately',
    steps: [
      ['register', podWith(['a'])],
      ['register', podWith(['a'], { name: 'db', uid: 'u9' })],
      ['unregister', podWith(['a'])],
    ],
    log: ['+shop/a', '+shop/a', '-shop/a'],
  },
  {
    it: 'a pod and its successor of the same name are apart, whatever the argument names',
    steps: [
      ['register', podWith(['a', 'b'])],
      ['register', podWith(['b', 'c'], twin)],
      ['unregister', podWith([])],
      ['unregister', podWith([], twin)],
    ],
    log: ['+shop/a', '+shop/b', '+shop/b', '+shop/c', '-shop/a', '-shop/b', '-shop/b', '-shop/c'],
  },
  {
    it: 'an update adds what is new, then releases what is gone, and leaves the rest alone',
    steps: [
      ['register', podWith(['s1', 's2', 's3'])],
      ['register', podWith(['s2', 's4'])],
    ],
    log: ['+shop/s1', '+shop/s2', '+shop/s3', '+shop/s4', '-shop/s1', '-shop/s3'],
  },
  {
    it: 'a name in another namespace is another object',
    steps: [
      ['register', podWith(['a'])],
      ['register', podWith(['a'], { namespace: 'bank' })],
      ['unregister', podWith(['a'])],
    ],
    log: ['+shop/a', '+bank/a', '-shop/a'],
  },
  { it: 'unregistering an unknown pod does nothing', steps: [['unregister', podWith(['a'])]], log: [] },
];
for (const { it, steps, log } of cases) {
  test(it, () => {
    const { counts, log: told } = holder();
    for (const [step, pod] of steps) counts[step === 'register' ? 'registerPod' : 'unregisterPod'](pod);
    assert.deepEqual(told, log);
  });
}

test('references from pull secrets, env, envFrom and volumes all count, and volumes show theirs', () => {
  const uses: string[] = [];
  const counts = new Objects(
    ({ name, use }) => uses.push(`${name} ${use}`),
    () => {},
  );
  counts.registerPod(
    aPod({
      imagePullSecrets: [{ name: 'pull' }, { name: 'both' }],
      containers: [
        aContainer({
          env: [{ name: 'A', valueFrom: { secretKeyRef: { name: 'env', key: 'k' } } }],
          envFrom: [{ secretRef: { name: 'from' } }],
        }),
      ],
      volumes: [
        { name: 'v', secret: { secretName: 'volume' } },
        { name: 'w', projected: { sources: [{ secret: { name: 'both' } }] } },
      ],
    }),
  );
  assert.deepEqual(uses.toSorted(), ['both shown', 'env read', 'from read', 'pull read', 'volume shown']);
});

test('a pod update never releases a shared object, and at the end exactly what registered pods name is held', () => {
  const names = fc.subarray(['a', 'b', 'c', 'd']);
  const pods = fc.constantFrom(
    { uid: 'u1' },
    { uid: 'u2' },
    { uid: 'u3', name: 'db' },
    { uid: 'u1', namespace: 'bank' },
  );
  const step = fc.record({ pod: pods, names, isRegistered: fc.boolean() });
  fc.assert(
    fc.property(fc.array(step, { maxLength: 40 }), (steps) => {
      const { counts, held } = holder();
      const model = new Map<string, readonly string[]>();
      for (const { pod, names: secrets, isRegistered } of steps) {
        const key = JSON.stringify(pod);
        const { namespace = 'shop' } = pod as { namespace?: string };
        const full = secrets.map((name) => `${namespace}/${name}`);
        const kept = (model.get(key) ?? []).filter((name) => isRegistered && full.includes(name));
        const releases = new Set<string>();
        const remember = held.delete.bind(held);
        held.delete = (name) => (releases.add(name), remember(name));
        if (isRegistered) counts.registerPod(podWith(secrets, pod));
        else counts.unregisterPod(podWith([], pod));
        held.delete = remember;
        assert.ok(!kept.some((name) => releases.has(name)), 'a kept object was let go of');
        if (isRegistered) model.set(key, full);
        else model.delete(key);
        const expected = new Map<string, number>();
        for (const name of [...model.values()].flat()) expected.set(name, (expected.get(name) ?? 0) + 1);
        assert.deepEqual([...held].toSorted(), [...expected].toSorted());
      }
    }),
    { numRuns: 200 },
  );
});
