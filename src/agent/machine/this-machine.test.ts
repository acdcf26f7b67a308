import assert from 'node:assert/strict';
import { isIP } from 'node:net';
import { test } from 'node:test';
import { nodeKind } from '../../kube/kinds/node.ts';
import { Quantity } from '../../kube/values/quantity.ts';
import { temporaryDirectory } from '../../testing/machine/temporary-directory.ts';
import { thisMachine } from './machine-facts.ts';

test('this machine is a valid Node with an address and something to give', (t) => {
  const node = thisMachine('here', temporaryDirectory(t));
  assert.deepEqual(nodeKind.validate(node), []);
  assert.equal(node.metadata.name, 'here');
  const { addresses = [], allocatable = {} } = node.status ?? {};
  assert.deepEqual(addresses.at(-1), { type: 'Hostname', address: 'here' });
  const internal = addresses.filter(({ type }) => type === 'InternalIP');
  assert.ok(internal.length > 0);
  for (const { address } of internal) assert.notEqual(isIP(address), 0, address);
  for (const name of ['cpu', 'memory', 'ephemeral-storage']) {
    assert.ok(Quantity.parse(allocatable[name] ?? '0').mantissa > 0n, name);
  }
});
