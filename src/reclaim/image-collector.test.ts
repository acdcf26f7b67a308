import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { RuntimeImage, RuntimePod } from '../runtimes/runtime.ts';
import { FakeClock, settle } from '../testing/fakes/fake-clock.ts';
import { ImageCollector, type ImageCollectorSettings } from './image-collector.ts';

const minute = 60_000;
const defaults: ImageCollectorSettings = { highPercent: 85, lowPercent: 80, ageMsMin: 2 * minute, unusedMsMax: 0 };

function image(id: string, parts: Partial<RuntimeImage> = {}): RuntimeImage {
  return { id, tags: [], digests: [], sizeBytes: 10, pinned: false, ...parts };
}

/** A pod with one ended container of this image. */
function podWith(imageId: string, name = '', moreImages: readonly string[] = []): RuntimePod {
  const state = {
    kind: 'exited',
    createdAtMs: 0,
    startedAtMs: 0,
    finishedAtMs: 0,
    exitCode: 0,
    reason: '',
    message: '',
  } as const;
  const container = {
    id: 'c',
    name: 'main',
    attempt: 0,
    image: name,
    imageId,
    moreImages,
    state,
    logPath: '',
    labels: {},
    annotations: {},
  };
  return { uid: 'u', namespace: 'n', name: 'p', state: 'notReady', createdAtMs: 0, ips: [], containers: [container] };
}

class World {
  readonly clock = new FakeClock();
  readonly events: string[] = [];
  readonly signal = new AbortController().signal;
  images: RuntimeImage[];
  pods: RuntimePod[] = [];
  availableBytes = 1000;
  capacityBytes = 1000;
  removable = (_id: string): boolean => true;
  readonly collector: ImageCollector;

  constructor(images: readonly RuntimeImage[], settings: Partial<ImageCollectorSettings> = {}) {
    this.images = [...images];
    this.collector = new ImageCollector(
      {
        clock: this.clock,
        events: { record: ({ type, reason, message }) => void this.events.push(`${type} ${reason}: ${message}`) },
        pods: () => Promise.resolve(this.pods),
        filesystem: () => {
          const { availableBytes, capacityBytes } = this;
          return Promise.resolve({ availableBytes, capacityBytes, inodesFree: 1, inodes: 1 });
        },
        images: {
          list: () => Promise.resolve(this.images),
          remove: async (id) => {
            if (!this.removable(id)) throw new Error(`${id} is busy`);
            this.images = this.images.filter((one) => one.id !== id);
          },
        },
      },
      { ...defaults, ...settings },
    );
  }

  left(): string {
    return this.images.map(({ id }) => id).join(' ');
  }

  /** Looks once, so that every image is known, and then lets the time pass after which it may go. */
  async age(): Promise<void> {
    const { availableBytes } = this;
    this.availableBytes = this.capacityBytes;
    await this.collector.collect(this.signal);
    this.availableBytes = availableBytes;
    await this.clock.advance(3 * minute);
  }
}

test('images stay below the high threshold and go down to the low one above it', async () => {
  const world = new World(['a', 'b', 'c', 'd', 'e', 'f', 'g'].map((id) => image(id)));
  world.availableBytes = 160;
  await world.age();
  await world.collector.collect(world.signal);
  assert.equal(world.left(), 'a b c d e f g');
  world.availableBytes = 150;
  await world.collector.collect(world.signal);
  assert.equal(world.left(), 'f g');
});

test('an image that any container has or mounts, ended or not, is in use by its ID, a digest or a tag; pinned ones stay', async () => {
  const world = new World([
    image('by-id'),
    image('by-digest', { digests: ['x@sha256:1'] }),
    image('by-tag', { tags: ['x:1'] }),
    image('mounted'),
    image('pinned', { pinned: true }),
    image('unused'),
  ]);
  world.pods = [podWith('by-id'), podWith('x@sha256:1'), podWith('?', 'x:1', ['mounted'])];
  await world.age();
  await world.collector.removeUnused(world.signal);
  assert.equal(world.left(), 'by-id by-digest by-tag mounted pinned');
});

test('the one that was unused the longest goes first, then the one seen first', async () => {
  const world = new World([image('lately')]);
  world.pods = [podWith('lately')];
  await world.age();
  world.pods = [];
  world.images.push(image('late'), image('never'));
  await world.age();
  world.images.push(image('later'));
  await world.age();
  world.availableBytes = 150;
  const { removable } = world;
  const order: string[] = [];
  world.removable = (id) => order.push(id) > 0 && removable(id);
  await world.collector.collect(world.signal).catch(() => {});
  assert.deepEqual(order, ['late', 'never', 'later', 'lately']);
});

test('an image that is younger than the minimum age stays', async () => {
  const world = new World([image('a')]);
  await world.collector.removeUnused(world.signal);
  await world.clock.advance(2 * minute - 1);
  await world.collector.removeUnused(world.signal);
  assert.equal(world.left(), 'a');
  await world.clock.advance(1);
  await world.collector.removeUnused(world.signal);
  assert.equal(world.left(), '');
});

test('with a maximum age unused images go, but not before the node has run that long', async () => {
  const world = new World([image('old'), image('used')], { unusedMsMax: 60 * minute });
  world.pods = [podWith('used')];
  await world.clock.advance(60 * minute);
  await world.collector.collect(world.signal);
  assert.equal(world.left(), 'old used');
  await world.clock.advance(1);
  world.pods = [];
  await world.collector.collect(world.signal);
  assert.equal(world.left(), 'used', 'unused for a moment only');
});

test('too little to free is told as the kubelet tells it', async () => {
  const gibi = 1024 ** 3;
  const world = new World([image('a', { sizeBytes: 5 })]);
  world.capacityBytes = 12.5 * gibi;
  world.availableBytes = gibi;
  await world.age();
  await assert.rejects(world.collector.collect(world.signal));
  assert.deepEqual(world.events, [
    "Warning FreeDiskSpaceFailed: Insufficient free disk space on the node's image filesystem (92% of 12.5 GiB used). " +
      'Failed to free sufficient space by deleting unused images (freed 5 bytes). ' +
      'Investigate disk usage, as it could be used by active images, logs, volumes, or other data.',
  ]);
});

test('a disk without a capacity is reported', async () => {
  const world = new World([]);
  world.capacityBytes = 0;
  await assert.rejects(world.collector.collect(world.signal), { message: 'invalid capacity 0 on image filesystem' });
  assert.deepEqual(world.events, ['Warning InvalidDiskCapacity: invalid capacity 0 on image filesystem']);
});

test('a threshold of 100 switches the collection by space off', async () => {
  const world = new World([image('a')], { highPercent: 100 });
  await world.age();
  world.availableBytes = 0;
  await world.collector.collect(world.signal);
  assert.equal(world.left(), 'a');
});

test('an image that cannot be removed does not hold up the others', async () => {
  const world = new World([image('stuck'), image('free')]);
  await world.age();
  world.availableBytes = 190;
  world.capacityBytes = 1000;
  world.removable = (id) => id !== 'stuck';
  await world.collector.collect(world.signal);
  world.availableBytes = 100;
  await assert.rejects(world.collector.collect(world.signal), {
    message: 'wanted to free 100 bytes, but freed 10 bytes space with errors in image deletion: stuck is busy',
  });
  assert.equal(world.left(), 'stuck');
});

test('the node is told of the second failure in a row, five minutes after the first', async () => {
  const world = new World([]);
  world.capacityBytes = 0;
  const stop = new AbortController();
  const running = world.collector.run(stop.signal);
  await settle();
  const failures = (): number => world.events.filter((line) => line.includes('ImageGCFailed')).length;
  await world.clock.advance(5 * minute - 1);
  assert.equal(failures(), 0);
  await world.clock.advance(1);
  assert.equal(failures(), 1);
  world.capacityBytes = 1000;
  await world.clock.advance(5 * minute);
  world.capacityBytes = 0;
  await world.clock.advance(5 * minute);
  assert.equal(failures(), 1);
  stop.abort();
  await running;
});
