/** Random operations against the simplest store that could be right: same lists, pages, snapshots, changes and revisions. */
import assert from 'node:assert/strict';
import { rmSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import fc from 'fast-check';
import { compareByteOrder } from '../../kube/values/go-text.ts';
import { temporaryDirectory } from '../../testing/machine/temporary-directory.ts';
import { openStore, put, remove, valueOf } from '../../testing/servers/stores.ts';
import { type DurableStore, storeDefaults } from './durable-store.ts';
import { encryptionKey } from './encryption.ts';
import { CompactedError } from './store-errors.ts';
import type { Change, ListRequest, ListResult, StoredObject } from './store.ts';

class Model {
  /** The state after each revision, complete: slow, and obviously right. */
  readonly states: ReadonlyMap<string, StoredObject>[] = [new Map()];
  readonly changes: Change[] = [];

  get revision(): number {
    return this.states.length - 1;
  }

  write(key: string, text: string | undefined): void {
    const before = this.states[this.revision] ?? new Map<string, StoredObject>();
    const previous = before.get(key)?.value;
    if (text === undefined && previous === undefined) return;
    const revision = this.revision + 1;
    const after = new Map(before);
    const value = valueOf(text ?? 'deleted', revision);
    if (text === undefined) after.delete(key);
    else after.set(key, { key, value, revision });
    this.states.push(after);
    this.changes.push({ type: text === undefined ? 'delete' : 'put', key, revision, value, previous });
  }

  list({ prefix, after = '', limit = Infinity, atRevision = this.revision }: ListRequest): ListResult {
    const all = [...(this.states[atRevision]?.values() ?? [])]
      .filter(({ key }) => key.startsWith(prefix) && compareByteOrder(key, after) > 0)
      .toSorted((a, b) => compareByteOrder(a.key, b.key));
    const items = all.slice(0, limit);
    return { items, revision: atRevision, remaining: all.length - items.length };
  }
}

const key = fc
  .tuple(
    fc.constantFrom('pods', 'secrets', 'secrets-x'),
    fc.constantFrom('a', 'a-b', 'b'),
    fc.constantFrom('1', '2', '\u{1f600}'),
  )
  .map(([kind, namespace, name]) => `/registry/core/${kind}/${namespace}/${name}`);
const operation = fc.oneof(
  {
    weight: 6,
    arbitrary: fc.record({ do: fc.constant('put' as const), key, text: fc.string({ unit: 'grapheme', maxLength: 8 }) }),
  },
  { weight: 3, arbitrary: fc.record({ do: fc.constant('remove' as const), key }) },
  { weight: 1, arbitrary: fc.record({ do: fc.constant('settle' as const) }) },
  { weight: 1, arbitrary: fc.record({ do: fc.constant('reopen' as const) }) },
);
const request = fc.record(
  {
    prefix: fc.constantFrom('/', '/registry/core/pods/', '/registry/core/secrets/', '/registry/core/secrets/a/'),
    after: key,
    limit: fc.integer({ min: 1, max: 4 }),
    atRevision: fc.nat(30),
  },
  { requiredKeys: ['prefix'] },
);

const plain = ({ type, key: of, revision, value, previous }: Change): Change => ({
  type,
  key: of,
  revision,
  value,
  previous,
});

function compare(store: DurableStore, model: Model, requests: readonly ListRequest[]): void {
  assert.equal(store.revision, model.revision);
  const { compactedRevision } = store;
  assert.ok(model.revision - compactedRevision >= Math.min(model.revision, 8), 'the log keeps its minimum');
  assert.deepEqual(store.changesAfter(compactedRevision, '/').map(plain), model.changes.slice(compactedRevision));
  for (const wanted of requests) {
    if ((wanted.atRevision ?? 0) > model.revision) continue;
    const list = (): ListResult => store.list(wanted);
    if (wanted.atRevision !== undefined && wanted.atRevision < compactedRevision) assert.throws(list, CompactedError);
    else assert.deepEqual(list(), model.list(wanted));
  }
}

test('any operations give what the model gives: lists, pages, snapshots, changes, across restarts', async (t) => {
  const root = temporaryDirectory(t);
  const options = {
    keys: [encryptionKey(Buffer.alloc(32, 7))],
    limits: { ...storeDefaults, changesMin: 8, ageMsMin: -1, changesMax: 12 },
  };
  let run = 0;
  await fc.assert(
    fc.asyncProperty(
      fc.array(operation, { maxLength: 40 }),
      fc.array(request, { maxLength: 12 }),
      async (operations, requests) => {
        const directory = join(root, String((run += 1)));
        const model = new Model();
        const heard: Change[] = [];
        let waiting: Promise<unknown>[] = [];
        const reopen = async (): Promise<DurableStore> => {
          const opened = await openStore(directory, options);
          opened.subscribe((changes) => heard.push(...changes.map(plain)));
          return opened;
        };
        let store = await reopen();
        for (const next of operations) {
          if (next.do === 'put') {
            waiting.push(put(store, next.key, next.text));
            model.write(next.key, next.text);
          } else if (next.do === 'remove') {
            waiting.push(remove(store, next.key));
            model.write(next.key, undefined);
          } else {
            await Promise.all(waiting);
            waiting = [];
            compare(store, model, requests);
            if (next.do === 'reopen') {
              await store.close();
              store = await reopen();
              compare(store, model, requests);
            }
          }
        }
        await Promise.all(waiting);
        compare(store, model, requests);
        assert.deepEqual(heard, model.changes);
        await store.close();
        rmSync(directory, { recursive: true });
      },
    ),
    { numRuns: 60 },
  );
});
