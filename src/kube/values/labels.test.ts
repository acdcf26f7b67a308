import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as fc from 'fast-check';
import { validateLabelSelector } from '../schema/metadata-validation.ts';
import {
  type LabelOperator,
  type LabelSelector,
  LabelSelectorError,
  type Labels,
  formatRequirements,
  parseLabelSelector,
  requirement,
  requirementsMatch,
  requirementsOf,
} from './labels.ts';

const parsed: [text: string, formatted: string][] = [
  ['x=a,y=b,z=c', 'x=a,y=b,z=c'],
  ['', ''],
  [' \t', ''],
  ['x!=a,y=b', 'x!=a,y=b'],
  ['x=', 'x='],
  ['x= ,z= ', 'x=,z='],
  ['!x', '!x'],
  ['x>1,z<5', 'x>1,z<5'],
  ['x==a', 'x==a'],
  ['x=a,a=x', 'a=x,x=a'],
  ['\rx', 'x'],
  ['this-is-a-dns.domain.com/key-with-dash', 'this-is-a-dns.domain.com/key-with-dash'],
  ['0.1.2.domain/99 notin (10.10.100.1, tick.tack.clock)', '0.1.2.domain/99 notin (10.10.100.1,tick.tack.clock)'],
  ['foo  in\t (abc)', 'foo in (abc)'],
  ['x notin\n (abc)', 'x notin (abc)'],
  ['x in (def,abc)', 'x in (abc,def)'],
  ['x in (abc,)', 'x in (,abc)'],
  ['x in (abc,abc)', 'x in (abc)'],
  ['x in ()', 'x in ()'],
  ['x in (a,,)', 'x in (,a)'],
  ['x in (a,,,,,,)', 'x in (,a)'],
  ['x in (a,,a,,a,,a,,)', 'x in (,a)'],
  ['x notin (abc,,def),bar,z in (),w', 'bar,w,x notin (,abc,def),z in ()'],
  ['x,y in (a)', 'x,y in (a)'],
  ['x notin ( )', 'x notin ()'],
  ['x notin (, a)', 'x notin (,a)'],
  ['a ', 'a'],
  ['a in (x,y,notin, z,in)', 'a in (in,notin,x,y,z)'],
  ['in=notin', 'in=notin'],
  ['notin notin (in)', 'notin notin (in)'],
  ['x=a\0', 'x=a'],
  ['x\0,y', 'x,y'],
  ['x \0,y', 'x'],
];
for (const [text, formatted] of parsed) {
  test(`the selector ${JSON.stringify(text)} is ${JSON.stringify(formatted)}`, () => {
    const requirements = parseLabelSelector(text);
    assert.equal(formatRequirements(requirements), formatted);
    assert.deepEqual(parseLabelSelector(formatted), requirements);
  });
}

const part =
  "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')";
const labelValue =
  "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')";
const refused: [text: string, message: string][] = [
  ['x=a||y=b', `unable to parse requirement: values[0][x]: Invalid value: "a||y": ${labelValue}`],
  ['x==a==b', "found '==', expected: ',' or 'end of string'"],
  ['!x=a', "found '=', expected: ',' or 'end of string'"],
  [
    'x<a',
    `unable to parse requirement: values[0]: Invalid value: "a": for 'Gt', 'Lt' operators, the value must be an integer`,
  ],
  ['x,,y', "found ',', expected: identifier after ','"],
  [',x,y', "found ',', expected: !, identifier, or 'end of string'"],
  ['x nott in (y)', "unable to parse requirement: found 'nott', expected: in, notin, =, ==, !=, gt, lt"],
  ['a in (xyz),', "found '', expected: identifier after ','"],
  ['a in (xyz)b notin ()', "found 'b', expected: ',' or 'end of string'"],
  ['a in (xyz abc)', "unable to parse requirement: found 'abc', expected: ',' or ')'"],
  ['a notin(', "unable to parse requirement: found '', expected: ',', ')' or identifier"],
  ['a in (b,', "unable to parse requirement: found '', expected: ',', or identifier"],
  ['a in b', "unable to parse requirement: found 'b' expected: '('"],
  ['a (', "unable to parse requirement: found '(', expected: in, notin, =, ==, !=, gt, lt"],
  ['(', "found '(', expected: !, identifier, or 'end of string'"],
  ['!', "unable to parse requirement: found '', expected: identifier"],
  ['a=(', "unable to parse requirement: found '(', expected: identifier"],
  ['a~b', `unable to parse requirement: <nil>: Invalid value: "a~b": ${part}`],
  ['constructor toString (a)', "unable to parse requirement: found 'toString', expected: in, notin, =, ==, !=, gt, lt"],
];
for (const [text, message] of refused) {
  test(`the selector ${JSON.stringify(text)} is refused in the API server's words`, () => {
    assert.throws(() => parseLabelSelector(text), new LabelSelectorError(message));
  });
}

const matches: [text: string, labels: Labels, expected: boolean][] = [
  ['', { x: 'y' }, true],
  ['x=y', { x: 'y' }, true],
  ['x=y,z=w', { x: 'y', z: 'w' }, true],
  ['x!=y,z!=w', { x: 'z', z: 'a' }, true],
  ['notin=in', { notin: 'in' }, true],
  ['x', { x: 'z' }, true],
  ['!x', { y: 'z' }, true],
  ['x>1', { x: '2' }, true],
  ['x<1', { x: '0' }, true],
  ['x=z', {}, false],
  ['x=y', { x: 'z' }, false],
  ['x!=y,z!=w', { x: 'z', z: 'w' }, false],
  ['x', { y: 'z' }, false],
  ['!x', { x: 'z' }, false],
  ['x>1', { x: '0' }, false],
  ['x>1', { x: 'v2' }, false],
  ['x>1', { x: '9223372036854775808' }, false],
  ['x<1', { x: '2' }, false],
  ['x notin ()', {}, true],
  ['x in ()', {}, false],
  ['x in ()', { x: '' }, true],
  ['foo=bar,foobar=bar', { foo: 'bar' }, false],
  ['toString', {}, false],
];
for (const [text, labels, expected] of matches) {
  test(`${JSON.stringify(text)} ${expected ? 'selects' : 'does not select'} ${JSON.stringify(labels)}`, () => {
    assert.equal(requirementsMatch(parseLabelSelector(text), labels), expected);
  });
}

const objects: [selector: LabelSelector, text: string][] = [
  [{}, ''],
  [{ matchLabels: { foo: 'bar' } }, 'foo=bar'],
  [{ matchExpressions: [{ key: 'baz', operator: 'In', values: ['qux', 'norf'] }] }, 'baz in (norf,qux)'],
  [
    { matchLabels: { foo: 'bar' }, matchExpressions: [{ key: 'baz', operator: 'NotIn', values: ['qux'] }] },
    'baz notin (qux),foo=bar',
  ],
  [
    {
      matchExpressions: [
        { key: 'b', operator: 'Exists' },
        { key: 'a', operator: 'DoesNotExist' },
      ],
    },
    '!a,b',
  ],
];
for (const [selector, text] of objects) {
  test(`the selector ${JSON.stringify(selector)} means ${JSON.stringify(text)}`, () => {
    assert.equal(formatRequirements(requirementsOf(selector)), text);
  });
}

test('an empty selector selects everything', () => {
  assert.equal(requirementsMatch(requirementsOf({}), { a: 'b' }), true);
  assert.equal(requirementsMatch(requirementsOf({}), {}), true);
  assert.equal(requirementsMatch(requirementsOf({ matchLabels: { a: 'b' } }), {}), false);
});

const nonsense: [selector: LabelSelector, message: string][] = [
  [{ matchExpressions: [{ key: 'a', operator: 'in' }] }, '"in" is not a valid label selector operator'],
  [
    { matchExpressions: [{ key: 'a', operator: 'In' }] },
    "values: Invalid value: null: for 'in', 'notin' operators, values set can't be empty",
  ],
  [
    { matchExpressions: [{ key: 'a', operator: 'Exists', values: ['b'] }] },
    'values: Invalid value: ["b"]: values set must be empty for exists and does not exist',
  ],
  [
    { matchExpressions: [{ key: '', operator: 'In', values: ['~'] }] },
    `[key: Invalid value: "": name part must be non-empty; ${part}, values[0][]: Invalid value: "~": ${labelValue}]`,
  ],
];
for (const [selector, message] of nonsense) {
  test(`the selector ${JSON.stringify(selector)} cannot be evaluated`, () => {
    assert.throws(() => requirementsOf(selector), new LabelSelectorError(message));
  });
}

test('validation reports everything that is wrong with a selector, field by field', () => {
  const errors = validateLabelSelector(
    {
      matchLabels: { 'a/b/c': 'ok', fine: '-' },
      matchExpressions: [
        { key: 'a', operator: 'In' },
        { key: 'a', operator: 'Exists', values: ['x'] },
        { key: '', operator: 'Like', values: ['~'] },
      ],
    },
    ['spec', 'selector'],
  ).map(({ message }) => message.replace(/: (a valid label|name part must consist).*/, ''));
  assert.deepEqual(errors, [
    'spec.selector.matchLabels: Invalid value: "a/b/c"',
    'spec.selector.matchLabels: Invalid value: "-"',
    "spec.selector.matchExpressions[0].values: Required value: must be specified when `operator` is 'In' or 'NotIn'",
    "spec.selector.matchExpressions[1].values: Forbidden: may not be specified when `operator` is 'Exists' or 'DoesNotExist'",
    'spec.selector.matchExpressions[2].operator: Invalid value: "Like": not a valid selector operator',
    'spec.selector.matchExpressions[2].key: Invalid value: "": name part must be non-empty',
    'spec.selector.matchExpressions[2].key: Invalid value: ""',
    'spec.selector.matchExpressions[2].values[0]: Invalid value: "~"',
  ]);
  assert.deepEqual(validateLabelSelector(undefined, []), []);
});

const word = fc.stringMatching(/^[a-z0-9]{1,4}$/);
const condition = fc.oneof(
  fc.tuple(word, fc.constantFrom<LabelOperator>('exists', '!'), fc.constant<string[]>([])),
  fc.tuple(word, fc.constantFrom<LabelOperator>('in', 'notin'), fc.uniqueArray(word, { minLength: 1 })),
  fc.tuple(word, fc.constantFrom<LabelOperator>('=', '==', '!='), fc.tuple(word)),
  fc.tuple(word, fc.constantFrom<LabelOperator>('gt', 'lt'), fc.tuple(fc.integer({ min: 0 }).map(String))),
);

test('a selector that is written out and parsed again selects the same objects', () => {
  const labels = fc.dictionary(word, word);
  fc.assert(
    fc.property(fc.array(condition), labels, (conditions, set) => {
      const requirements = conditions.map(([key, operator, values]) => requirement(key, operator, values));
      const again = parseLabelSelector(formatRequirements(requirements));
      assert.equal(requirementsMatch(again, set), requirementsMatch(requirements, set));
      assert.equal(formatRequirements(parseLabelSelector(formatRequirements(again))), formatRequirements(again));
    }),
  );
});

test('any text is either a selector or a LabelSelectorError', () => {
  const text = fc.string({
    unit: fc.constantFrom('a', 'in', 'notin', ' ', ',', '(', ')', '!', '=', '<', '>', '\0', 'é'),
  });
  fc.assert(
    fc.property(text, (selector) => {
      try {
        assert.ok(Array.isArray(parseLabelSelector(selector)));
      } catch (error) {
        assert.ok(error instanceof LabelSelectorError, String(error));
      }
    }),
  );
});
