/**
 * One story of claims of every kind, told again for each point at which somebody writes something: struck there, it must come to
 * the same end.
 */
import assert from 'node:assert/strict';
import { messageOf } from '../../base/errors.ts';
import { unlessRefused } from '../../controllers/cluster/cluster.ts';
import type { Pod } from '../../kube/kinds/pod/pod.ts';
import type { PersistentVolumeClaim } from '../../kube/kinds/storage/persistent-volume-claim.ts';
import type { PersistentVolume } from '../../kube/kinds/storage/persistent-volume.ts';
import type { KubeObject } from '../../kube/schema/kind.ts';
import { ephemeralVolume, newClaim as claim, newVolume as volume, podWithClaims } from '../fakes/storage-builders.ts';
import { problemsAtRest, watchMoments } from './storage-invariants.ts';
import { type Fault, StorageWorld, namespace } from './storage-world.ts';

const local = { storageClassName: 'local-path' };
const ofClass = (name: string): KubeObject =>
  ({
    metadata: { name },
    provisioner: 'mountlet.dev/local-path',
    reclaimPolicy: 'Retain',
    volumeBindingMode: 'WaitForFirstConsumer',
  }) as KubeObject;

interface StoryOptions {
  /** Points are counted from the beginning of the story. */
  readonly fault?: Fault & { readonly point: number };
  /** Every update meets one. */
  readonly conflicts?: boolean;
  /** When the fault has struck, and before anything that died is back, the user deletes everything. */
  readonly isCutShort?: boolean;
}

class CutShort extends Error {}

export class ClaimStory {
  readonly world: StorageWorld;
  readonly #moments: readonly string[];
  readonly #isCutShort: boolean;

  private constructor(world: StorageWorld, isCutShort: boolean) {
    this.world = world;
    this.#isCutShort = isCutShort;
    this.#moments = watchMoments(world);
  }

  /** Resolves to the points of the story. Rejects with what is wrong. */
  static async tell({ fault, conflicts = false, isCutShort = false }: StoryOptions = {}): Promise<readonly string[]> {
    const world = await StorageWorld.open();
    const started = world.points.length;
    if (fault !== undefined) world.fault = { ...fault, point: started + fault.point };
    world.conflicts = conflicts;
    try {
      const story = new ClaimStory(world, isCutShort);
      await story.#tell().catch((error: unknown) => {
        if (!(error instanceof CutShort)) throw error;
      });
      return world.points.slice(started);
    } catch (error) {
      const where = fault === undefined ? '' : `${fault.victim} ${fault.moment} ${fault.point} (${world.struck}): `;
      throw new Error(`${where}${messageOf(error)}\n${world.failures.slice(-5).join('\n')}`, { cause: error });
    } finally {
      await world.close();
    }
  }

  async #tell(): Promise<void> {
    const { world } = this;
    await this.#step(
      world.create('storage.k8s.io/v1', 'StorageClass', ofClass('kept')),
      this.#volumes(
        volume('small'),
        volume('large', { size: '10Gi' }),
        volume('reserved', { for: 'named' }),
        volume('asked-for', { size: '2Gi' }),
      ),
    );
    await this.#step(
      this.#claims(
        claim({ name: 'asking', volumeName: 'asked-for' }),
        claim({ name: 'free' }),
        claim({ name: 'named' }),
        claim({ name: 'big', size: '5Gi' }),
        claim({ name: 'dynamic', ...local }),
        claim({ name: 'kept', storageClassName: 'kept' }),
        claim({ name: 'alone', accessModes: ['ReadWriteOncePod'], ...local }),
      ),
    );
    await this.#assertBound({ asking: 'asked-for', free: 'small', named: 'reserved', big: 'large' });
    await this.#step(
      this.#pods(
        podWithClaims('static', ['asking', 'free', 'named', 'big']),
        podWithClaims('dynamic', ['dynamic', 'kept']),
        podWithClaims('ephemeral', [], [ephemeralVolume('scratch')]),
        podWithClaims('alone-1', ['alone']),
        podWithClaims('alone-2', ['alone']),
      ),
    );
    this.#assertRunning(4);
    const dynamic = await this.#volumeOf('dynamic');
    const kept = await this.#volumeOf('kept');
    // They read what the first ones wrote: the disk compares it.
    await this.#step(this.#deletePods('static', 'dynamic', 'ephemeral', 'alone-1'));
    await this.#step(
      this.#pods(
        podWithClaims('static-2', ['asking', 'free', 'named', 'big']),
        podWithClaims('dynamic-2', ['dynamic', 'kept']),
        podWithClaims('ephemeral', [], [ephemeralVolume('scratch')]),
      ),
    );
    this.#assertRunning(4);
    // The claim first, the volume first, the pod first.
    await this.#step(
      this.#delete('PersistentVolumeClaim', 'dynamic', 'free'),
      this.#delete('PersistentVolume', 'reserved'),
    );
    assert.ok(await world.get('PersistentVolumeClaim', 'dynamic'), 'a claim in use stays');
    assert.ok(await world.get('PersistentVolume', 'reserved'), 'a bound volume stays');
    assert.equal(world.disk.linesOf(`/local/${dynamic}`).length, 2);
    await this.#step(this.#deletePods('static-2', 'dynamic-2'));
    await this.#step(this.#delete('PersistentVolumeClaim', 'named', 'kept', 'asking'));
    assert.deepEqual(
      [await world.get('PersistentVolume', dynamic), world.disk.linesOf(`/local/${dynamic}`)],
      [undefined, []],
    );
    assert.equal(await world.get('PersistentVolume', 'reserved'), undefined);
    assert.equal((await world.get<PersistentVolume>('PersistentVolume', kept))?.status?.phase, 'Released');
    await this.#step(world.user.delete(world.key('Namespace', namespace)));
    assert.equal(await world.get('Namespace', namespace), undefined, 'the namespace is gone');
    assert.deepEqual(world.disk.directoryNames, [kept], 'what is to be kept is, and nothing else');
    assert.equal(world.disk.linesOf(`/local/${kept}`).length, 2);
    await this.#step(this.#delete('PersistentVolume', 'small', 'large', 'asked-for', kept));
    assert.deepEqual(world.all('v1', 'PersistentVolume'), []);
    assert.deepEqual([...world.disk.mounts], []);
    for (const name of ['small', 'large', 'reserved', 'asked-for'])
      assert.equal(world.disk.linesOf(`/volumes/${name}`).length, 2, `the data of ${name} is kept`);
    assert.equal(world.disk.linesOf(`/local/${kept}`).length, 2, 'the data of a kept volume is');
  }

  /** What the user does, and all that follows. Those that were killed come back when the others have come to rest. */
  async #step(...acts: readonly Promise<unknown>[]): Promise<void> {
    await Promise.all(acts);
    await this.world.rest();
    if (this.#isCutShort && this.world.struck !== undefined) await this.#endAll();
    this.world.start();
    await this.world.rest();
    assert.deepEqual([...this.#moments, ...problemsAtRest(this.world)], []);
  }

  async #endAll(): Promise<never> {
    const { world } = this;
    const names = (): readonly string[] => world.all('v1', 'PersistentVolume').map(({ metadata }) => metadata.name);
    await this.#delete('Namespace', namespace);
    await this.#delete('PersistentVolume', ...names());
    world.start();
    await world.rest();
    assert.deepEqual([...this.#moments, ...problemsAtRest(world)], []);
    assert.equal(await world.get('Namespace', namespace), undefined, 'the namespace is gone');
    // Provisioned meanwhile, for a claim that went before it was bound.
    await this.#delete('PersistentVolume', ...names());
    await world.rest();
    assert.deepEqual(world.all('v1', 'PersistentVolume'), []);
    assert.deepEqual([...world.disk.mounts], []);
    const left = world.disk.directoryNames.map((name) => world.disk.linesOf(`/local/${name}`).length);
    assert.ok(left.length < 2 && !left.includes(0), `only the data of a volume that is kept is left: ${String(left)}`);
    throw new CutShort();
  }

  #volumes(...objects: readonly KubeObject[]): Promise<unknown> {
    return Promise.all(objects.map((object) => this.world.create('v1', 'PersistentVolume', object)));
  }

  #claims(...objects: readonly KubeObject[]): Promise<unknown> {
    return Promise.all(objects.map((object) => this.world.create('v1', 'PersistentVolumeClaim', object)));
  }

  #pods(...objects: readonly KubeObject[]): Promise<unknown> {
    return Promise.all(objects.map((object) => this.world.create('v1', 'Pod', object)));
  }

  #deletePods(...names: readonly string[]): Promise<unknown> {
    return this.#delete('Pod', ...names);
  }

  #delete(kind: string, ...names: readonly string[]): Promise<unknown> {
    return Promise.all(
      names.map((name) => unlessRefused(this.world.user.delete(this.world.key(kind, name)), 404, 409)),
    );
  }

  async #volumeOf(name: string): Promise<string> {
    return (await this.world.get<PersistentVolumeClaim>('PersistentVolumeClaim', name))?.spec.volumeName ?? '';
  }

  async #assertBound(wanted: Readonly<Record<string, string>>): Promise<void> {
    const found = await Promise.all(
      Object.keys(wanted).map(async (name) => [name, await this.#volumeOf(name)] as const),
    );
    assert.deepEqual(Object.fromEntries(found), wanted);
  }

  #assertRunning(count: number): void {
    const running = this.world.all<Pod>('v1', 'Pod').filter(({ status }) => status?.phase === 'Running');
    assert.equal(running.length, count, 'pods that run');
  }
}

export const faultKinds = (['party', 'all', 'server'] as const).flatMap((victim) =>
  (['before', 'after'] as const).flatMap((moment) =>
    [false, true].map((isCutShort) => ({ victim, moment, isCutShort })),
  ),
);

/** Tells the story with faults at these points; all that went wrong is in the error. */
export async function checkCrashes(stories: Iterable<StoryOptions>): Promise<number> {
  const wrong: string[] = [];
  let count = 0;
  for (const story of stories) {
    count += 1;
    await ClaimStory.tell(story).catch((error: unknown) => wrong.push(messageOf(error)));
  }
  assert.deepEqual(wrong, []);
  return count;
}
