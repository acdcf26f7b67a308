import assert from 'node:assert/strict';
import { test } from 'node:test';
import { podUid } from '../../kube/kinds/pod/pod-identity.ts';
import type { Secret } from '../../kube/kinds/secret.ts';
import { type ImageStatus, type PodRequest, type PullCredential, RuntimeError } from '../../runtimes/runtime.ts';
import { aPod, aSecret } from '../../testing/fakes/builders.ts';
import { FakeClock, settle } from '../../testing/fakes/fake-clock.ts';
import { FakeRuntime } from '../../testing/fakes/fake-runtime.ts';
import { RecordedEvents } from '../../testing/fakes/memory-pod-api.ts';
import { testNodeSettings } from '../../testing/worlds/container-world.ts';
import { ImageError, ImagePuller, type NodeLogins, type PullSettings } from './image-puller.ts';

interface Wanted {
  readonly image?: string;
  readonly policy?: string;
  readonly uid?: string;
  readonly secrets?: readonly Secret[];
  readonly container?: string | undefined;
  readonly signal?: AbortSignal;
}

/** A puller whose runtime lets a test decide how each pull ends. */
class Pulls {
  readonly clock = new FakeClock();
  readonly events = new RecordedEvents();
  readonly runtime = new FakeRuntime(this.clock);
  readonly asked: string[] = [];
  readonly puller: ImagePuller;
  pull: (image: string, credential: PullCredential | undefined, signal: AbortSignal) => Promise<ImageStatus> = (
    image,
  ) => Promise.resolve({ id: `sha256:${image}`, sizeBytes: 42 });

  constructor(settings: Partial<PullSettings> = {}, ...nodeLogins: readonly NodeLogins[]) {
    const { clock, events, runtime } = this;
    runtime.presentImages = new Set();
    if (runtime.images !== undefined) {
      runtime.images = {
        ...runtime.images,
        pull: (image, credential, _pod, signal) => {
          this.asked.push(`${image} ${credential?.username ?? '-'}`);
          return this.pull(image, credential, signal);
        },
      };
    }
    this.puller = new ImagePuller({ clock, events, runtime, nodeLogins }, { ...testNodeSettings, ...settings });
  }

  ensure({
    image = 'registry.example/web:1',
    policy = 'Always',
    uid = 'u1',
    secrets = [],
    container = 'main',
    signal = new AbortController().signal,
  }: Wanted = {}): Promise<string> {
    const pod = aPod({ metadata: { uid } });
    const podRequest = { uid: podUid(pod) } as PodRequest;
    return this.puller
      .ensure({ pod, container, image, policy, secrets: { secrets, missing: [] }, podRequest }, signal)
      .then(
        ({ id }) => id,
        (error: unknown) => {
          if (!(error instanceof ImageError)) throw error;
          return `${error.reason}: ${error.message}`;
        },
      );
  }
}

const fails = (...messages: readonly string[]) => {
  const left = [...messages];
  return () => Promise.reject(new RuntimeError(left.shift() ?? 'no more'));
};

function login(name: string, password: string, registry = 'registry.example'): Secret {
  const config = JSON.stringify({ auths: { [registry]: { username: name, password } } });
  return aSecret({ name, type: 'kubernetes.io/dockerconfigjson', data: { '.dockerconfigjson': config } });
}

const names = [
  { image: 'nginx', asks: 'nginx:latest' },
  { image: 'registry.example:5000/web', asks: 'registry.example:5000/web:latest' },
  { image: 'nginx:1.8', asks: 'nginx:1.8' },
  { image: `nginx@sha256:${'a'.repeat(64)}`, asks: `nginx@sha256:${'a'.repeat(64)}` },
  { image: `nginx:1.8@sha256:${'a'.repeat(64)}`, asks: `nginx:1.8@sha256:${'a'.repeat(64)}` },
];
for (const { image, asks } of names) {
  test(`the runtime is asked for ${asks} when a pod has ${image}`, async () => {
    const pulls = new Pulls();
    await pulls.ensure({ image });
    assert.deepEqual(pulls.asked, [`${asks} -`]);
    assert.equal(pulls.events.lines()[0], `Normal Pulling main: Pulling image "${image}"`);
  });
}

test('a text that names no image is refused before the runtime is asked', async () => {
  const pulls = new Pulls();
  const text =
    'Failed to apply default image tag "Web": couldn\'t parse image name "Web": invalid reference format: repository name (library/Web) must be lowercase';
  assert.equal(await pulls.ensure({ image: 'Web' }), `InvalidImageName: ${text}`);
  assert.deepEqual(pulls.events.lines(), [`Warning InspectFailed main: ${text}`]);
  assert.deepEqual(pulls.asked, []);
});

const policies = [
  {
    policy: 'Always',
    present: true,
    pulls: 1,
    last: /^Normal Pulled main: Successfully pulled image "registry.example\/web:1" in 0s \(0s including waiting\)\. Image size: 42 bytes\.$/,
  },
  {
    policy: 'IfNotPresent',
    present: true,
    pulls: 0,
    last: /^Normal Pulled main: Container image "registry.example\/web:1" already present on machine$/,
  },
  { policy: 'IfNotPresent', present: false, pulls: 1, last: /Successfully pulled/ },
  { policy: 'Never', present: true, pulls: 0, last: /already present on machine$/ },
  {
    policy: 'Never',
    present: false,
    pulls: 0,
    last: /^Warning ErrImageNeverPull main: Container image "registry.example\/web:1" is not present with pull policy of Never$/,
  },
];
for (const { policy, present, pulls: count, last } of policies) {
  test(`${policy} with an image that is ${present ? '' : 'not '}there: ${count} pulls`, async () => {
    const pulls = new Pulls();
    if (present) pulls.runtime.presentImages?.add('registry.example/web:1');
    await pulls.ensure({ policy });
    assert.equal(pulls.asked.length, count);
    assert.match(pulls.events.lines().at(-1) ?? '', last);
  });
}

test('an image that is there is used during the back-off of a pull that failed', async () => {
  const pulls = new Pulls();
  pulls.pull = fails('unknown');
  assert.match(await pulls.ensure({ policy: 'IfNotPresent' }), /^ErrImagePull/);
  pulls.runtime.presentImages?.add('registry.example/web:1');
  assert.equal(await pulls.ensure({ policy: 'IfNotPresent' }), 'sha256:registry.example/web:1');
});

test('the back-off is of one image for one pod, doubles up to five minutes, and ends after ten without a failure', async () => {
  const pulls = new Pulls();
  pulls.pull = () => Promise.reject(new RuntimeError('unknown'));
  for (const seconds of [10, 20, 40, 80, 160, 300, 300]) {
    assert.match(await pulls.ensure(), /^ErrImagePull: unknown$/, `${seconds}`);
    await pulls.clock.advance(seconds * 1000 - 1);
    assert.equal(
      await pulls.ensure(),
      'ImagePullBackOff: Back-off pulling image "registry.example/web:1": ErrImagePull: unknown',
    );
    await pulls.clock.advance(1);
  }
  assert.match(await pulls.ensure({ uid: 'u2' }), /^ErrImagePull/, 'another pod');
  assert.match(await pulls.ensure({ image: 'registry.example/web:2' }), /^ErrImagePull/, 'another image');
  await pulls.clock.advance(601_000);
  pulls.puller.collectGarbage();
  assert.match(await pulls.ensure(), /^ErrImagePull/);
  await pulls.clock.advance(10_000);
  assert.match(await pulls.ensure(), /^ErrImagePull/, 'ten seconds again');
});

const reserved = [
  {
    text: 'RegistryUnavailable: try later',
    shows:
      'RegistryUnavailable: image pull failed for registry.example/web:1 because the registry is unavailable: try later',
  },
  {
    text: 'SignatureValidationFailed',
    shows:
      'SignatureValidationFailed: image pull failed for registry.example/web:1 because the signature validation failed',
  },
  { text: 'the registry said: RegistryUnavailable', shows: 'ErrImagePull: the registry said: RegistryUnavailable' },
];
for (const { text, shows } of reserved) {
  test(`a runtime that answers "${text}" is understood`, async () => {
    const pulls = new Pulls();
    pulls.pull = fails(text);
    assert.equal(await pulls.ensure(), shows);
    assert.equal(
      pulls.events.lines().at(-1),
      `Warning Failed main: Failed to pull image "registry.example/web:1": ${text}`,
    );
  });
}

test("logins are tried one after another: the pod's secrets in their order, then the node's, and none without", async () => {
  const node: NodeLogins = { loginsFor: (repository) => Promise.resolve([{ username: repository, password: 'p' }]) };
  const pulls = new Pulls({}, node, { loginsFor: () => Promise.resolve([{ username: 'plugin', password: 'p' }]) });
  pulls.pull = fails('401 a', '401 b', '401 a', '401 c');
  const secrets = [login('bob', 'hunter2'), login('ann', 'hunter3'), login('eve', 'x', 'other.example')];
  assert.equal(await pulls.ensure({ secrets }), 'ErrImagePull: [401 a, 401 b, 401 c]');
  assert.deepEqual(
    pulls.asked.map((line) => line.split(' ')[1]),
    ['bob', 'ann', 'registry.example/web', 'plugin'],
  );
});

test('the first login that works is the last that is tried', async () => {
  const pulls = new Pulls();
  pulls.pull = (image, credential) =>
    credential?.username === 'ann'
      ? Promise.resolve({ id: image, sizeBytes: 1 })
      : Promise.reject(new RuntimeError('401'));
  await pulls.ensure({ secrets: [login('bob', 'b'), login('ann', 'a'), login('cid', 'c')] });
  assert.equal(pulls.asked.length, 2);
});

test('a secret that was rotated during the back-off counts at the next try', async () => {
  const pulls = new Pulls();
  pulls.pull = (image, credential) =>
    credential?.password === 'second'
      ? Promise.resolve({ id: image, sizeBytes: 1 })
      : Promise.reject(new RuntimeError('401'));
  assert.match(await pulls.ensure({ secrets: [login('bob', 'first')] }), /^ErrImagePull/);
  assert.match(await pulls.ensure({ secrets: [login('bob', 'second')] }), /^ImagePullBackOff/);
  await pulls.clock.advance(10_000);
  assert.equal(await pulls.ensure({ secrets: [login('bob', 'second')] }), 'registry.example/web:1');
});

test('what a registry repeats of a login is not shown', async () => {
  const pulls = new Pulls();
  const secret = 'p&ss w/rd';
  const pair = Buffer.from(`bob:${secret}`).toString('base64');
  pulls.pull = fails(`401: Basic ${pair} is wrong: ${secret}; see http://h/?password=p%26ss+w%2Frd`);
  const shown = await pulls.ensure({ secrets: [login('bob', secret)] });
  assert.equal(shown, 'ErrImagePull: 401: Basic *** is wrong: ***; see http://h/?password=***');
  assert.ok(!JSON.stringify(pulls.events.lines()).includes('w/rd'));
  await pulls.ensure({ secrets: [login('bob', secret)] });
  assert.ok(!JSON.stringify(pulls.events.lines()).includes(pair));
});

test('a long message is cut where it shows no part of a password', async () => {
  const pulls = new Pulls();
  const long = `${'x'.repeat(8190)}hunter2 ${'y'.repeat(8190)}`;
  pulls.pull = fails(long, long);
  const shown = await pulls.ensure({ secrets: [login('bob', 'hunter2')] });
  assert.equal(shown, `ErrImagePull: ${'x'.repeat(8190)}**`);
  assert.equal(
    await pulls.ensure({ uid: 'u2' }),
    `ErrImagePull: ${long.slice(0, 8192)}`,
    'nor is one without a login longer',
  );
});

test('a malformed secret fails the image, and nothing of it is shown', async () => {
  const pulls = new Pulls();
  const data = { '.dockerconfigjson': '{"auths": hunter2' };
  const broken = aSecret({ name: 'broken', type: 'kubernetes.io/dockerconfigjson', data });
  const shown = await pulls.ensure({ secrets: [broken] });
  assert.match(shown, /^ErrImagePull: Cannot read pull secret "broken"/);
  assert.ok(!shown.includes('hunter2'));
});

/** Pulls that end when a test says so. */
function held(pulls: Pulls): Map<string, () => void> {
  const waiting = new Map<string, () => void>();
  pulls.pull = (image, _credential, signal) =>
    new Promise((resolve, reject) => {
      waiting.set(image, () => resolve({ id: image, sizeBytes: 7 }));
      signal.addEventListener('abort', () => reject(signal.reason as Error));
    });
  return waiting;
}

const limits = [
  { it: 'one after another', pullsAtOnceMax: 1, running: ['a:1'] },
  { it: 'two at once', pullsAtOnceMax: 2, running: ['a:1', 'b:1'] },
  { it: 'all at once', pullsAtOnceMax: Infinity, running: ['a:1', 'b:1', 'c:1'] },
];
for (const { it, pullsAtOnceMax, running } of limits) {
  test(`images are pulled ${it}`, async () => {
    const pulls = new Pulls({ pullsAtOnceMax });
    const waiting = held(pulls);
    const results = ['a:1', 'b:1', 'c:1'].map((image) => pulls.ensure({ image }));
    await settle();
    assert.deepEqual([...waiting.keys()], running);
    for (const image of ['a:1', 'b:1', 'c:1']) {
      await settle();
      waiting.get(image)?.();
    }
    assert.deepEqual(await Promise.all(results), ['a:1', 'b:1', 'c:1']);
  });
}

test('the time of a pull is counted without and with the time it waited', async () => {
  const pulls = new Pulls({ pullsAtOnceMax: 1 });
  const waiting = held(pulls);
  const results = [pulls.ensure({ image: 'a:1' }), pulls.ensure({ image: 'b:1' })];
  await settle();
  await pulls.clock.advance(1_500);
  waiting.get('a:1')?.();
  await settle();
  await pulls.clock.advance(250);
  waiting.get('b:1')?.();
  await Promise.all(results);
  assert.match(pulls.events.lines().at(-1) ?? '', /"b:1" in 250ms \(1\.75s including waiting\)/);
});

test('a registry that stalls is reported, and after two minutes other images are pulled', async () => {
  const pulls = new Pulls({ pullsAtOnceMax: 1 });
  const waiting = held(pulls);
  const stop = new AbortController();
  const stalled = pulls.ensure({ image: 'a:1', signal: stop.signal });
  const other = pulls.ensure({ image: 'b:1', uid: 'u2' });
  await settle();
  assert.deepEqual([...waiting.keys()], ['a:1']);
  await pulls.clock.advance(120_000);
  await settle();
  assert.ok(
    pulls.events
      .lines()
      .includes(
        'Warning PullIsSlow main: Image "a:1" is still being pulled after 2m0s: its registry may be slow, or not answer',
      ),
  );
  waiting.get('b:1')?.();
  assert.equal(await other, 'b:1');
  stop.abort(new Error('the pod is deleted'));
  await assert.rejects(stalled, /the pod is deleted/);
});

test('a pod that is deleted leaves the queue and holds up nobody', async () => {
  const pulls = new Pulls({ pullsAtOnceMax: 1 });
  const waiting = held(pulls);
  const [first, second] = [new AbortController(), new AbortController()];
  const results = [
    pulls.ensure({ image: 'a:1', signal: first.signal }),
    pulls.ensure({ image: 'b:1', signal: second.signal }),
  ].map((one) => assert.rejects(one, /deleted/));
  const last = pulls.ensure({ image: 'c:1' });
  await settle();
  second.abort(new Error('deleted'));
  first.abort(new Error('deleted'));
  await Promise.all(results);
  await settle();
  waiting.get('c:1')?.();
  assert.equal(await last, 'c:1');
  assert.ok(!pulls.events.lines().some((line) => line.startsWith('Warning')));
});

test('more pulls in a second than allowed fail, and are tried again after their back-off', async () => {
  const pulls = new Pulls({ pullsPerSecond: 1, pullsBurst: 2 });
  const shown = [];
  for (const image of ['a:1', 'b:1', 'c:1']) shown.push(await pulls.ensure({ image }));
  assert.deepEqual(shown, ['sha256:a:1', 'sha256:b:1', 'ErrImagePull: pull QPS exceeded']);
  await pulls.clock.advance(10_000);
  assert.equal(await pulls.ensure({ image: 'c:1' }), 'sha256:c:1');
});

test('several pods may pull the same image at once', async () => {
  const pulls = new Pulls();
  const results = await Promise.all(['u1', 'u2', 'u3'].map((uid) => pulls.ensure({ uid })));
  assert.deepEqual(new Set(results), new Set(['sha256:registry.example/web:1']));
});
