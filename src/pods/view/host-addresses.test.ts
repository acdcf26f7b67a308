import assert from 'node:assert/strict';
import { test } from 'node:test';
import { aNode } from '../../testing/fakes/builders.ts';
import { hostAddresses } from './environment-references.ts';

const cases: readonly { readonly it: string; readonly has: readonly string[]; readonly gives: readonly string[] }[] = [
  { it: 'of a node without any', has: [], gives: [] },
  { it: 'that are neither names nor nonsense', has: ['Hostname node-1', 'InternalIP nonsense'], gives: [] },
  { it: 'internal before external', has: ['ExternalIP 198.51.100.1', 'InternalIP 192.0.2.1'], gives: ['192.0.2.1'] },
  {
    it: 'one of each family, led by the first',
    has: ['InternalIP 2001:db8::1', 'InternalIP 2001:db8::2', 'ExternalIP 198.51.100.1', 'ExternalIP 198.51.100.2'],
    gives: ['2001:db8::1', '198.51.100.1'],
  },
  { it: 'in canonical form', has: ['InternalIP 2001:DB8:0:0::1'], gives: ['2001:db8::1'] },
];
for (const { it, has, gives } of cases) {
  test(`hostAddresses gives addresses ${it}`, () => {
    const addresses = has.map((line) => {
      const [type = '', address = ''] = line.split(' ');
      return { type, address };
    });
    assert.deepEqual(
      hostAddresses(aNode({ addresses })).map(({ text }) => text),
      gives,
    );
  });
}
