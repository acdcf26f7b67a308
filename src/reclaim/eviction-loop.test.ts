import assert from 'node:assert/strict';
import { test } from 'node:test';
import { podUid } from '../kube/kinds/pod/pod-identity.ts';
import type { Pod } from '../kube/kinds/pod/pod.ts';
import { aPod } from '../testing/fakes/builders.ts';
import { FakeClock, settle } from '../testing/fakes/fake-clock.ts';
import { DiskPressure, type Filesystems } from './disk-pressure.ts';
import { EvictionLoop } from './eviction-loop.ts';
import type { PodUsage } from './pod-usage.ts';
import { type ThresholdTexts, readThresholds } from './thresholds.ts';

const named = (name: string, parts: Parameters<typeof aPod>[0] = {}): Pod =>
  aPod({ ...parts, metadata: { name, uid: name } });
const limited = (name: string): Pod => named(name, { volumes: [{ name: 'cache', emptyDir: { sizeLimit: '10' } }] });
const using = (name: string, usedBytes: number): PodUsage => ({
  podRef: { uid: name },
  containers: [{ name: 'main', rootfs: { usedBytes }, logs: { usedBytes: 0 } }],
  volume: [{ name: 'cache', usedBytes }],
});

class World {
  readonly clock = new FakeClock();
  readonly events: string[] = [];
  /** What was done, in order. */
  readonly steps: string[] = [];
  pods: Pod[] = [];
  usage: PodUsage[] = [];
  availableBytes = 1000;
  isImageDedicated = false;
  hasImages = true;
  /** What the removal of dead containers, and of images, makes available. */
  deadBytes = 0;
  imageBytes = 0;
  imageProblem = '';
  finished = new Set<string>();
  readonly signal = new AbortController().signal;
  readonly pressure: DiskPressure;
  readonly loop: EvictionLoop;

  constructor(texts: ThresholdTexts = { evictionHard: { 'nodefs.available': '100' } }, enforcesLimits = true) {
    this.pressure = new DiskPressure(readThresholds(texts, []).given, 300_000);
    this.loop = new EvictionLoop(
      {
        clock: this.clock,
        pressure: this.pressure,
        filesystems: () => Promise.resolve(this.#filesystems()),
        usage: () => {
          this.steps.push('measured');
          return Promise.resolve(this.usage);
        },
        pods: {
          activePods: () => this.pods,
          evict: ({ metadata }, { message, graceSeconds }) =>
            void this.steps.push(`evicted ${metadata.name} in ${graceSeconds}: ${message}`),
          isFinished: (uid) => this.finished.has(uid),
        },
        removeDeadContainers: async () => {
          this.steps.push('dead containers');
          this.availableBytes += this.deadBytes;
        },
        removeUnusedImages: async () => {
          if (this.imageProblem !== '') throw new Error(this.imageProblem);
          this.steps.push('images');
          this.availableBytes += this.imageBytes;
        },
        events: { record: ({ reason, message }) => void this.events.push(`${reason}: ${message}`) },
        changed: () => void this.steps.push(`pressure ${this.pressure.isUnderPressure}`),
        notify: ({ message }) => void this.steps.push(`failed: ${message}`),
      },
      { podGraceSecondsMax: 0, enforcesLimits },
    );
  }

  async look(): Promise<string[]> {
    this.steps.length = 0;
    const evicted = await this.loop.look(this.signal);
    assert.equal(evicted.length, this.steps.filter((step) => step.startsWith('evicted')).length);
    return [...this.steps];
  }

  #filesystems(): Filesystems {
    const usage = { availableBytes: this.availableBytes, capacityBytes: 1000, inodesFree: 100, inodes: 100 };
    return { node: usage, image: usage, isImageDedicated: this.isImageDedicated };
  }
}

const low = 'The node was low on resource: ephemeral-storage. Threshold quantity: 100, available: 50. ';

test('nothing is measured while nothing could follow from it', async () => {
  const world = new World({}, true);
  world.pods = [named('a')];
  assert.deepEqual(await world.look(), []);
});

test('a short disk is cleared of dead containers and unused images before any pod ends', async () => {
  const world = new World();
  world.pods = [named('a')];
  world.availableBytes = 50;
  world.imageBytes = 60;
  assert.deepEqual(await world.look(), ['pressure true', 'dead containers', 'images']);
  assert.deepEqual(world.events, ['EvictionThresholdMet: Attempting to reclaim ephemeral-storage']);
});

test('exactly one pod ends in a pass, the one that is furthest above what it asked for, and never a critical one', async () => {
  const world = new World();
  world.pods = [
    named('critical', { priority: 2_000_000_000 }),
    named('static', { metadata: { annotations: { 'kubernetes.io/config.source': 'file' } } }),
    named('small'),
    named('large'),
  ];
  const annotated = world.pods[1];
  if (annotated !== undefined)
    world.pods[1] = {
      ...annotated,
      metadata: { ...annotated.metadata, annotations: { 'kubernetes.io/config.source': 'file' } },
    };
  world.usage = [using('critical', 900), using('static', 800), using('small', 1), using('large', 2)];
  world.availableBytes = 50;
  const blame = 'Container main was using 2, request is 0, has larger consumption of ephemeral-storage. ';
  assert.deepEqual((await world.look()).slice(3), ['measured', `evicted large in 1: ${low}${blame}`]);
  world.pods = world.pods.slice(0, 2);
  assert.deepEqual((await world.look()).at(-1), 'measured');
});

test('with a disk of their own only the images are cleared for it, and nothing but pods for that of the node', async () => {
  const world = new World({ evictionHard: { 'nodefs.available': '100' } });
  world.isImageDedicated = true;
  world.availableBytes = 50;
  assert.deepEqual(await world.look(), ['pressure true', 'measured']);
  const images = new World({ evictionHard: { 'imagefs.available': '100' } });
  images.isImageDedicated = true;
  images.availableBytes = 50;
  assert.deepEqual(await images.look(), ['pressure true', 'dead containers', 'images', 'measured']);
});

test('what was reclaimed has to suffice for the minimum reclaim too', async () => {
  const world = new World({
    evictionHard: { 'nodefs.available': '100' },
    evictionMinimumReclaim: { 'nodefs.available': '100' },
  });
  world.pods = [named('a')];
  world.availableBytes = 50;
  world.deadBytes = 100;
  assert.equal(
    (await world.look()).some((step) => step.startsWith('evicted a')),
    true,
  );
  assert.equal(
    (await world.look()).some((step) => step.startsWith('evicted')),
    false,
  );
});

test('all pods above their limits end in one pass, whatever the disks', async () => {
  const world = new World({});
  world.pods = [limited('a'), limited('b'), limited('c')];
  world.usage = [using('a', 11), using('b', 10), using('c', 12)];
  const text = 'Usage of EmptyDir volume "cache" exceeds the limit "10". ';
  assert.deepEqual(await world.look(), ['measured', `evicted a in 1: ${text}`, `evicted c in 1: ${text}`]);
});

test('limits come before a short disk, and are left alone when switched off', async () => {
  const world = new World();
  world.pods = [limited('a')];
  world.usage = [using('a', 11)];
  world.availableBytes = 50;
  assert.equal((await world.look()).at(-1)?.includes('exceeds the limit'), true);
  assert.deepEqual(world.events, []);
  const off = new World({}, false);
  off.pods = [limited('a')];
  assert.deepEqual(await off.look(), []);
});

test('the loop looks every ten seconds, and after an eviction as soon as the pod is gone', async () => {
  const world = new World({});
  world.pods = [limited('a')];
  const stop = new AbortController();
  const running = world.loop.run(stop.signal);
  await settle();
  const looks = (): number => world.steps.filter((step) => step === 'measured').length;
  await world.clock.advance(29_999);
  assert.equal(looks(), 3);
  world.usage = [using('a', 11)];
  await world.clock.advance(1);
  assert.equal(looks(), 4);
  await world.clock.advance(3_000);
  assert.equal(looks(), 4, 'the pod is not gone');
  world.pods.forEach((pod) => world.finished.add(podUid(pod)));
  world.usage = [];
  await world.clock.advance(1_000);
  assert.equal(looks(), 5);
  world.usage = [using('a', 11)];
  world.finished.clear();
  await world.clock.advance(40_000);
  assert.equal(looks(), 7, 'the wait for a pod has an end');
  stop.abort();
  await running;
});

test('a failure is reported once and the loop goes on', async () => {
  const world = new World({ evictionHard: { 'nodefs.available': '100' } });
  const stop = new AbortController();
  Object.defineProperty(world, 'availableBytes', {
    get: () => {
      throw new Error('no disk');
    },
  });
  const running = world.loop.run(stop.signal);
  await settle();
  await world.clock.advance(35_000);
  assert.deepEqual(world.steps, ['failed: no disk']);
  stop.abort();
  await running;
});

test('what fails in the same way at every look is reported once', async () => {
  const world = new World();
  world.availableBytes = 50;
  world.imageProblem = 'in use';
  const failures = async (): Promise<string[]> => (await world.look()).filter((step) => step.startsWith('failed'));
  assert.deepEqual(await failures(), ['failed: in use']);
  assert.deepEqual(await failures(), []);
  world.imageProblem = 'runtime is away';
  assert.deepEqual(await failures(), ['failed: runtime is away']);
  world.imageProblem = '';
  assert.deepEqual(await failures(), []);
  world.imageProblem = 'in use';
  assert.deepEqual(await failures(), ['failed: in use']);
});
