import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Node } from '../kube/kinds/node.ts';
import type { CsiNode } from '../kube/kinds/storage/csi.ts';
import {
  type DriverInfo,
  foreignOwner,
  isReplacement,
  newCsiNode,
  nodeMetadataPatch,
  withDriver,
  withoutDriver,
} from './node-info.ts';

const annotation = 'csi.volume.kubernetes.io/nodeid';
const info = (parts: Partial<DriverInfo> = {}): DriverInfo => ({
  nodeId: 'n1',
  topology: {},
  volumesMax: undefined,
  ...parts,
});
const node = (ids?: string, labels: Readonly<Record<string, string>> = {}): Node => ({
  metadata: { name: 'here', uid: 'u1', labels, ...(ids !== undefined && { annotations: { [annotation]: ids } }) },
});

const patches: readonly {
  readonly it: string;
  readonly before: Node;
  readonly info: DriverInfo | undefined;
  readonly patch: object | undefined;
}[] = [
  {
    it: 'a first driver',
    before: node(),
    info: info({ topology: { zone: 'a' } }),
    patch: { metadata: { annotations: { [annotation]: '{"d":"n1"}' }, labels: { zone: 'a' } } },
  },
  {
    it: 'another beside those that are there',
    before: node('{"z":"9"}'),
    info: info(),
    patch: { metadata: { annotations: { [annotation]: '{"d":"n1","z":"9"}' } } },
  },
  {
    it: 'one with another node ID than before',
    before: node('{"d":"old"}'),
    info: info(),
    patch: { metadata: { annotations: { [annotation]: '{"d":"n1"}' } } },
  },
  {
    it: 'one that is recorded already, with a label named as a property of every object',
    before: node('{"d":"n1"}', { zone: 'a' }),
    info: info({ topology: { zone: 'a', constructor: 'b' } }),
    patch: { metadata: { labels: { constructor: 'b' } } },
  },
  { it: 'one that is recorded already', before: node('{"d":"n1"}'), info: info(), patch: undefined },
  {
    it: 'the end of one of two',
    before: node('{"d":"n1","e":"n2"}', { zone: 'a' }),
    info: undefined,
    patch: { metadata: { annotations: { [annotation]: '{"e":"n2"}' } } },
  },
  {
    it: 'the end of the last',
    before: node('{"d":"n1"}'),
    info: undefined,
    patch: { metadata: { annotations: { [annotation]: null } } },
  },
  { it: 'the end of one that was not there', before: node(), info: undefined, patch: undefined },
];
for (const { it, before, info: now, patch } of patches) {
  test(`the Node is patched for ${it}`, () => assert.deepEqual(nodeMetadataPatch(before, 'd', now), patch));
}

test('an annotation that cannot be read is an error, and not overwritten', () => {
  for (const text of ['nonsense', '[]', '{"d":1}', '"d"']) {
    assert.throws(() => nodeMetadataPatch(node(text), 'd', info()), {
      message: new RegExp(`^failed to parse node's "${annotation}" annotation value \\(.+\\) err=.+`),
    });
  }
  assert.notEqual(nodeMetadataPatch(node('null'), 'd', info()), undefined);
});

test('an entry is replaced at the end only when something in it is different', () => {
  const empty = newCsiNode(node());
  const first = withDriver(withDriver(empty, 'a', info({ topology: { z: '1', b: '2' } })), 'b', info());
  assert.equal(withDriver(first, 'a', info({ topology: { b: '2', z: '3' } })), first, 'its keys are the same');
  const limited = withDriver(first, 'a', info({ topology: { z: '1', b: '2' }, volumesMax: 3 }));
  assert.deepEqual(limited.spec.drivers, [
    { name: 'b', nodeID: 'n1', topologyKeys: [] },
    { name: 'a', nodeID: 'n1', topologyKeys: ['b', 'z'], allocatable: { count: 3 } },
  ]);
  assert.equal(isReplacement(first, limited), false, 'the API lets a limit change');
  assert.equal(isReplacement(first, withDriver(first, 'b', info({ nodeId: 'n2' }))), true);
  assert.equal(withoutDriver(first, 'c'), first);
  assert.deepEqual(withoutDriver(limited, 'a').spec.drivers, [{ name: 'b', nodeID: 'n1', topologyKeys: [] }]);
});

test('a CSINode without an owner may be used; one of another Node may not', () => {
  const own = newCsiNode(node());
  const bare: CsiNode = { ...own, metadata: { name: 'here' } };
  assert.equal(foreignOwner(own, node()), undefined);
  assert.equal(foreignOwner(bare, node()), undefined);
  assert.equal(foreignOwner(own, { metadata: { name: 'here', uid: 'u2' } }), 'u1');
});
