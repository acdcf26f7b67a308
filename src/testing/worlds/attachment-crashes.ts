/** One story of attachments, told again for each point at which somebody writes something: struck there, it must come to the same end. */
import assert from 'node:assert/strict';
import { messageOf } from '../../base/errors.ts';
import { AttachmentWorld, volumeName } from './attachment-world.ts';
import type { Fault } from './storage-world.ts';

interface StoryOptions {
  /** Points are counted from the beginning of the story. */
  readonly fault?: Fault & { readonly point: number };
  /** Every update meets one. */
  readonly conflicts?: boolean;
}

/** Resolves to the points of the story. Rejects with what is wrong. */
export async function tellOfAttachments({ fault, conflicts = false }: StoryOptions = {}): Promise<readonly string[]> {
  const world = await AttachmentWorld.open();
  const { storage } = world;
  const started = storage.points.length;
  if (fault !== undefined) storage.fault = { ...fault, point: started + fault.point };
  storage.conflicts = conflicts;
  try {
    await tell(world);
    return storage.points.slice(started);
  } catch (error) {
    const where = fault === undefined ? '' : `${fault.victim} ${fault.moment} ${fault.point} (${storage.struck}): `;
    throw new Error(`${where}${messageOf(error)}\n${storage.failures.slice(-5).join('\n')}`, { cause: error });
  } finally {
    await world.close();
  }
}

async function tell(world: AttachmentWorld): Promise<void> {
  const step = async (...acts: readonly (() => Promise<unknown>)[]): Promise<void> => {
    for (const act of acts) await act();
    await world.rest();
    // Those that were killed come back when the others have come to rest.
    world.storage.start();
    await world.rest();
    assert.deepEqual(world.disks.violations, []);
  };
  const assertAttached = (...wanted: readonly string[]): void => {
    assert.deepEqual([...world.disks.attached].sort(), wanted, 'attached');
    assert.deepEqual([...world.disks.mounted].sort(), wanted, 'mounted');
    assert.deepEqual(
      world.attachments(),
      wanted.map((id) => `${id} attached`),
    );
    for (const node of ['a', 'b']) {
      const mine = wanted.filter((id) => id.endsWith(` ${node}`)).map((id) => volumeName(id.slice(2, -2)));
      assert.deepEqual(world.listed(node), mine, `listed on ${node}`);
    }
  };
  await step(
    () => world.disk('one'),
    () => world.disk('shared', ['ReadWriteMany']),
  );
  await step(
    () => world.pod('web', 'a', 'one', 'shared'),
    () => world.pod('other', 'b', 'shared'),
  );
  assertAttached('h-one a', 'h-shared a', 'h-shared b');
  await step(() => world.pod('second', 'b', 'one'));
  assertAttached('h-one a', 'h-shared a', 'h-shared b');
  await step(() => world.deletePod('web'));
  assertAttached('h-one b', 'h-shared b');
  await step(
    () => world.deletePod('second'),
    () => world.pod('back', 'a', 'one'),
  );
  assertAttached('h-one a', 'h-shared b');
  await step(
    () => world.deletePod('back'),
    () => world.deletePod('other'),
  );
  assertAttached();
}

const faultKinds = (['party', 'all', 'server'] as const).flatMap((victim) =>
  (['before', 'after'] as const).map((moment) => ({ victim, moment })),
);

/** Tells the story with faults of every kind at these of its points. Resolves to how many there were. */
export async function checkAttachmentCrashes(isChosen: (number: number) => boolean): Promise<number> {
  const points = await tellOfAttachments();
  const wrong: string[] = [];
  let count = 0;
  for (const kind of faultKinds) {
    for (const [at] of points.entries()) {
      count += 1;
      if (!isChosen(count)) continue;
      const told = tellOfAttachments({ fault: { point: at + 1, ...kind } });
      await told.catch((error: unknown) => wrong.push(messageOf(error)));
    }
  }
  assert.deepEqual(wrong, []);
  return count;
}
