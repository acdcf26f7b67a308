import assert from 'node:assert/strict';
import { test } from 'node:test';
import { aContainer } from '../../testing/fakes/builders.ts';
import { expandCommand } from './container-view.ts';
import type { Variable } from './variables.ts';

function variable(name: string, value: string, secret = false): Variable {
  return { name, value, secret, source: { kind: 'value', expands: [] } };
}
const environment = [
  variable('A', 'a'),
  variable('EMPTY', ''),
  variable('REF', '$(A)'),
  variable('PASSWORD', 'hunter2', true),
];

const cases: readonly { readonly written: string; readonly value: string; readonly secret?: boolean }[] = [
  { written: 'plain', value: 'plain' },
  { written: '$(A)-$(A)', value: 'a-a' },
  { written: '$(EMPTY)', value: '' },
  { written: '$(UNKNOWN)', value: '$(UNKNOWN)' },
  { written: '$(REF)', value: '$(A)' },
  { written: '$$(A)', value: '$(A)' },
  { written: '$$$$$$$(A)', value: '$$$a' },
  { written: '${A} $A \\$(A)', value: '${A} $A \\a' },
  { written: '$(A$(A))', value: '$(A$(A))' },
  { written: '$(A', value: '$(A' },
  { written: '--password=$(PASSWORD)', value: '--password=hunter2', secret: true },
  { written: '$$(PASSWORD)', value: '$(PASSWORD)' },
];
for (const { written, value, secret = false } of cases) {
  test(`the argument ${written} becomes ${value}`, () => {
    const { command, args } = expandCommand(aContainer({ command: [written], args: ['x', written] }), environment);
    assert.deepEqual(command, [{ value, secret, written }]);
    assert.deepEqual(args, [
      { value: 'x', secret: false, written: 'x' },
      { value, secret, written },
    ]);
  });
}

test('an argument with a defect is marked', () => {
  const torn: Variable = { ...variable('TORN', '\uFFFD'), defect: 'NotUtf8' };
  const { args } = expandCommand(aContainer({ args: ['$(TORN)', '\0', 'fine'] }), [torn]);
  assert.deepEqual(
    args.map(({ defect }) => defect),
    ['NotUtf8', 'NulByte', undefined],
  );
});

test('a container without a command leaves it to its image', () => {
  assert.deepEqual(expandCommand(aContainer(), environment), { command: [], args: [] });
});

test('arguments that would not fit any program are refused before they are made', () => {
  const long = [variable('LONG', 'x'.repeat(100_000))];
  assert.throws(() => expandCommand(aContainer({ args: ['$(LONG)'.repeat(1000)] }), long), {
    reason: 'CreateContainerConfigError',
    message: /^Variables and arguments of container "main" take more than 6 MiB/,
  });
});
