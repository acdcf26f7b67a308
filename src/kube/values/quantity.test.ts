import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as fc from 'fast-check';
import { Quantity, QuantityError, type QuantityFormat, quantityProblem } from './quantity.ts';

const q = (value: string | number): Quantity => Quantity.parse(value);
const wrongFormat = "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'";
const wrongSuffix = "unable to parse quantity's suffix";
const wrongNumber = 'unable to parse numeric part of quantity';
const int64Max = 9223372036854775807n;

type Parsed = [text: string, mantissa: number | bigint, scale: number, format: QuantityFormat];
const parsed: Parsed[] = [
  ...['0', '0n', '0u', '0m', '0k', '0M', '0G', '0T'].map((text): Parsed => [text, 0, 0, 'DecimalSI']),
  ...['0Ki', '0Mi', '0Gi', '0Ti'].map((text): Parsed => [text, 0, 0, 'BinarySI']),
  ['1', 1, 0, 'DecimalSI'],
  ['1Ki', 1024, 0, 'BinarySI'],
  ['8Ki', 8 * 1024, 0, 'BinarySI'],
  ['7Mi', 7 * 1024 ** 2, 0, 'BinarySI'],
  ['6Gi', 6 * 1024 ** 3, 0, 'BinarySI'],
  ['5Ti', 5 * 1024 ** 4, 0, 'BinarySI'],
  ['4Pi', 4n * 1024n ** 5n, 0, 'BinarySI'],
  ['3Ei', 3n * 1024n ** 6n, 0, 'BinarySI'],
  ['10Ti', 10 * 1024 ** 4, 0, 'BinarySI'],
  ['100Ti', 100 * 1024 ** 4, 0, 'BinarySI'],
  ['5n', 5, -9, 'DecimalSI'],
  ['4u', 4, -6, 'DecimalSI'],
  ['3m', 3, -3, 'DecimalSI'],
  ['9', 9, 0, 'DecimalSI'],
  ['8k', 8, 3, 'DecimalSI'],
  ['50k', 5, 4, 'DecimalSI'],
  ['7M', 7, 6, 'DecimalSI'],
  ['6G', 6, 9, 'DecimalSI'],
  ['5T', 5, 12, 'DecimalSI'],
  ['40T', 4, 13, 'DecimalSI'],
  ['300T', 3, 14, 'DecimalSI'],
  ['2P', 2, 15, 'DecimalSI'],
  ['1E', 1, 18, 'DecimalSI'],
  ['1E-3', 1, -3, 'DecimalExponent'],
  ['1e3', 1, 3, 'DecimalExponent'],
  ['1E6', 1, 6, 'DecimalExponent'],
  ['1e9', 1, 9, 'DecimalExponent'],
  ['1E12', 1, 12, 'DecimalExponent'],
  ['1e14', 1, 14, 'DecimalExponent'],
  ['1e13', 1, 13, 'DecimalExponent'],
  ['100.035k', 100035, 0, 'DecimalSI'],
  ['0.001', 1, -3, 'DecimalSI'],
  ['0.0005k', 5, -1, 'DecimalSI'],
  ['0.05000', 5, -2, 'DecimalSI'],
  ['0.5e0', 5, -1, 'DecimalExponent'],
  ['0.5e-1', 5, -2, 'DecimalExponent'],
  ['10.035M', 10035, 3, 'DecimalSI'],
  ['1.2e3', 12, 2, 'DecimalExponent'],
  ['1.3E+6', 13, 5, 'DecimalExponent'],
  ['1.40e9', 14, 8, 'DecimalExponent'],
  ['1.7E18', 17, 17, 'DecimalExponent'],
  ['9.01', 901, -2, 'DecimalSI'],
  ['6.987654321G', 6987654321, 0, 'DecimalSI'],
  ['1.01E', 101, 16, 'DecimalSI'],
  // Rounded up to a nano unit.
  ['3.001n', 4, -9, 'DecimalSI'],
  ['1.1E-9', 2, -9, 'DecimalExponent'],
  ['0.0000000001', 1, -9, 'DecimalSI'],
  ['0.00000000050', 1, -9, 'DecimalSI'],
  ['0.5e-9', 1, -9, 'DecimalExponent'],
  ['0.9n', 1, -9, 'DecimalSI'],
  ['0.00000012345', 124, -9, 'DecimalSI'],
  ['0.00000012354', 124, -9, 'DecimalSI'],
  ['1e-999999999', 1, -9, 'DecimalExponent'],
  // Binary quantities stop at the largest 64-bit number, decimal ones do not.
  ['9Ei', int64Max, 0, 'BinarySI'],
  ['9223372036854775807Ki', int64Max, 0, 'BinarySI'],
  ['12E', 12, 18, 'DecimalSI'],
  ['100.035Ki', 10243584, -2, 'BinarySI'],
  ['0.5Mi', 524288, 0, 'BinarySI'],
  ['0.05Gi', 536870912, -1, 'BinarySI'],
  ['0.025Ti', 274877906944, -1, 'BinarySI'],
  ['0.000000000001Ki', 2, -9, 'DecimalSI'],
  ['.001', 1, -3, 'DecimalSI'],
  ['.0001k', 100, -3, 'DecimalSI'],
  ['1.', 1, 0, 'DecimalSI'],
  ['1.G', 1, 9, 'DecimalSI'],
  // The parser is looser than the expression it names.
  ['.', 0, 0, 'DecimalSI'],
  ['Ki', 0, 0, 'BinarySI'],
  ['', 0, 0, 'DecimalSI'],
];
for (const [text, mantissa, scale, format] of parsed) {
  test(`${JSON.stringify(text)} is ${mantissa}e${scale} in ${format}, with either sign`, () => {
    const expected = new Quantity(BigInt(mantissa), scale, format);
    const negative = new Quantity(-BigInt(mantissa), scale, format);
    for (const [sign, wanted] of [
      ['', expected],
      ['+', expected],
      ['-', negative],
    ] as const) {
      if (sign + text === '') continue; // no text at all is an error
      const got = q(sign + text);
      assert.equal(got.compare(wanted), 0, `${sign}${text} is ${got.toString()}`);
      assert.equal(got.format, format);
    }
  });
}

const refused: [text: string | number, problem: string][] = [
  ['', wrongFormat],
  ['  ', wrongFormat],
  ['1.1.M', wrongFormat],
  ['1+1.0M', wrongFormat],
  ['0.1am', wrongFormat],
  ['aoeu', wrongFormat],
  ['Non-Numeric', wrongFormat],
  ['1 Gi', wrongFormat],
  [NaN, wrongFormat],
  [Infinity, wrongFormat],
  ['0.1mi', wrongSuffix],
  ['.5i', wrongSuffix],
  ['1i', wrongSuffix],
  ['-3.01i', wrongSuffix],
  ['-3.01e-', wrongSuffix],
  ['1K', wrongSuffix],
  ['1e', wrongSuffix],
  ['1ee3', wrongSuffix],
  ['1-3', wrongSuffix],
  ['1e1001', wrongSuffix],
  ['1e99999999999999999999', wrongSuffix],
  ['.e-10', wrongNumber],
];
for (const [text, problem] of refused) {
  test(`${JSON.stringify(text)} is not a quantity`, () => {
    assert.throws(() => q(text), new QuantityError(problem));
    assert.equal(quantityProblem(text), problem);
  });
}

test('a JSON number is a quantity, and space around a text is ignored', () => {
  assert.equal(q(0.5).milliValue(), 500n);
  assert.equal(q(1e21).toString(), '1e+21');
  assert.equal(q(' 5Gi\n').toString(), '5Gi');
  assert.equal(quantityProblem('5Gi'), undefined);
});

type Shown = [mantissa: number, scale: number, format: QuantityFormat, text: string, alternate?: string];
const shown: Shown[] = [
  [1024 ** 3, 0, 'BinarySI', '1Gi', '1024Mi'],
  [300 * 1024 ** 2, 0, 'BinarySI', '300Mi', '307200Ki'],
  [6 * 1024, 0, 'BinarySI', '6Ki'],
  [1001 * 1024 ** 3, 0, 'BinarySI', '1001Gi', '1025024Mi'],
  [1024 ** 4, 0, 'BinarySI', '1Ti', '1024Gi'],
  [5, 0, 'BinarySI', '5', '5000m'],
  [500, -3, 'BinarySI', '500m', '0.5'],
  [1, 9, 'DecimalSI', '1G', '1000M'],
  [1000, 6, 'DecimalSI', '1G', '0.001T'],
  [1000000000, 0, 'DecimalSI', '1G'],
  [1, -3, 'DecimalSI', '1m', '1000u'],
  [80, -3, 'DecimalSI', '80m'],
  [1080, -3, 'DecimalSI', '1080m', '1.08'],
  [108, -2, 'DecimalSI', '1080m', '1080000000n'],
  [10800, -4, 'DecimalSI', '1080m'],
  [300, 6, 'DecimalSI', '300M'],
  [1, 12, 'DecimalSI', '1T'],
  [1234567, 6, 'DecimalSI', '1234567M'],
  [1234567, -3, 'BinarySI', '1234567m'],
  [3, 3, 'DecimalSI', '3k'],
  [1025, 0, 'BinarySI', '1025'],
  [0, 0, 'DecimalSI', '0'],
  [0, 0, 'BinarySI', '0'],
  [1, 9, 'DecimalExponent', '1e9', '.001e12'],
  [1, -3, 'DecimalExponent', '1e-3', '0.001e0'],
  [1, -9, 'DecimalExponent', '1e-9', '1000e-12'],
  [80, -3, 'DecimalExponent', '80e-3'],
  [300, 6, 'DecimalExponent', '300e6'],
  [0, 0, 'DecimalExponent', '0', '00'],
  [108, -8, 'DecimalSI', '1080n'],
  [10800, -10, 'DecimalSI', '1080n'],
  [1080, -6, 'DecimalSI', '1080u'],
];
for (const [mantissa, scale, format, text, alternate] of shown) {
  test(`${mantissa}e${scale} in ${format} is written ${text}`, () => {
    assert.equal(new Quantity(BigInt(mantissa), scale, format).toString(), text);
    if (mantissa !== 0) assert.equal(new Quantity(-BigInt(mantissa), scale, format).toString(), `-${text}`);
    if (alternate !== undefined) assert.equal(q(alternate).toString(), text);
  });
}

const repeated: [text: string, shown: string][] = [
  ['1Ki', '1Ki'],
  ['1024Mi', '1Gi'],
  ['1000M', '1G'],
  ['.001Ki', '1024m'],
  ['.000001Ki', '1024u'],
  ['.000000001Ki', '1024n'],
  ['.000000000001Ki', '2n'],
  ['-.001Ki', '-1024m'],
  // Taken for canonical by the API server, so repeated as written.
  ['1E3', '1E3'],
  ['+5Gi', '+5Gi'],
  ['1.500k', '1.500k'],
  ['1.', '1.'],
  // Past the largest suffix there is none, so the zeros are written out.
  ['1000E', '1000E'],
  ['1500000000000000000000000', '1500000E'],
];
for (const [text, expected] of repeated) {
  test(`${text} is shown as ${expected}`, () => {
    assert.equal(q(text).toString(), expected);
    assert.equal(JSON.stringify({ size: q(text) }), `{"size":"${expected}"}`);
  });
}

const values: [text: string, value: bigint, milliValue: bigint][] = [
  ['0', 0n, 0n],
  ['1', 1n, 1000n],
  ['1m', 1n, 1n],
  ['1n', 1n, 1n],
  ['-1n', -1n, -1n],
  ['1001m', 2n, 1001n],
  ['-1001m', -2n, -1001n],
  ['999999999n', 1n, 1000n],
  ['1.5Gi', 1610612736n, 1610612736000n],
  ['9Ei', int64Max, int64Max],
  ['12E', int64Max, int64Max],
  ['-12E', -int64Max - 1n, -int64Max - 1n],
  ['1e1000', int64Max, int64Max],
];
for (const [text, value, milliValue] of values) {
  test(`${text} is ${value} whole and ${milliValue} milli units`, () => {
    assert.equal(q(text).value(), value);
    assert.equal(q(text).milliValue(), milliValue);
  });
}

const orders: [smaller: string, larger: string][] = [
  ['50m', '100m'],
  ['100Gi', '10000T'],
  ['9', '9.01'],
  ['-9.01', '-9'],
  ['-1', '0'],
  ['0', '1n'],
  ['790m', '800m'],
  ['1e999', '1e1000'],
  ['-1e1000', '1n'],
];
for (const [smaller, larger] of orders) {
  test(`${smaller} is less than ${larger}`, () => {
    assert.equal(q(smaller).compare(q(larger)), -1);
    assert.equal(q(larger).compare(q(smaller)), 1);
  });
}

const sums: [a: string, b: string, sum: string][] = [
  ['0', '100m', '100m'],
  ['100m', '0', '100m'],
  ['0', '1Gi', '1Gi'],
  ['1Gi', '0', '1Gi'],
  ['1Gi', '1G', '2073741824'],
  ['1G', '1Gi', '2073741824'],
  ['500m', '500m', '1'],
  ['1.5', '-1500m', '0'],
];
for (const [a, b, sum] of sums) {
  test(`${a} and ${b} make ${sum}`, () => {
    assert.equal(q(a).plus(q(b)).toString(), sum);
  });
}

test('rounding to milli units goes up, away from zero', () => {
  assert.equal(q('100500u').roundUpToMilli().toString(), '101m');
  assert.equal(q('-1n').roundUpToMilli().toString(), '-1m');
  assert.equal(q('1.500k').roundUpToMilli().toString(), '1.500k');
});

test('the zero quantity has a sign of 0 and any format', () => {
  assert.equal(Quantity.zero().sign(), 0);
  assert.equal(Quantity.zero('BinarySI').plus(q('1k')).format, 'DecimalSI');
  assert.deepEqual([q('-1').sign(), q('5m').sign()], [-1, 1]);
  assert.ok(q('-0Gi').isZero() && q('1000m').equals(q('1')));
});

test('a hostile quantity is refused before it is worked on', () => {
  for (const text of [
    '9'.repeat(1_001),
    `${'0'.repeat(50_000)}!`,
    `1${'0'.repeat(1_000_000)}`,
    `${'9'.repeat(1_000)}Ei`,
  ]) {
    assert.equal(quantityProblem(text), 'quantities must not be longer than 1000 characters');
  }
  assert.equal(q(`1${'0'.repeat(999)}`).toString(), `1${'0'.repeat(999 - 18)}E`);
  assert.equal(q(`${'9'.repeat(998)}Ei`).value(), int64Max);
});

const quantityText = fc
  .tuple(
    fc.constantFrom('', '-', '+'),
    fc.bigInt({ min: 0n, max: 10n ** 25n }),
    fc.option(fc.stringMatching(/^[0-9]{1,12}$/), { nil: undefined }),
    fc.constantFrom('', 'n', 'u', 'm', 'k', 'M', 'G', 'T', 'P', 'E', 'Ki', 'Mi', 'Gi', 'Ti', 'Pi', 'Ei', 'e7', 'E-4'),
  )
  .map(([sign, whole, fraction, suffix]) => `${sign}${whole}${fraction === undefined ? '' : `.${fraction}`}${suffix}`);

test('what a quantity prints parses to the same quantity and prints the same', () => {
  fc.assert(
    fc.property(quantityText, (text) => {
      const first = q(text);
      const again = q(first.toString());
      assert.ok(again.equals(first), `${text} became ${first.toString()} became ${again.toString()}`);
      assert.equal(again.toString(), first.toString());
    }),
  );
});

function nanos(x: Quantity): bigint {
  return x.mantissa * 10n ** BigInt(x.scale + 9);
}

test('order and sum agree with exact rational arithmetic', () => {
  fc.assert(
    fc.property(quantityText, quantityText, (a, b) => {
      const [x, y] = [q(a), q(b)];
      const difference = nanos(x) - nanos(y);
      assert.equal(x.compare(y), difference === 0n ? 0 : difference < 0n ? -1 : 1);
      assert.equal(nanos(x.plus(y)), nanos(x) + nanos(y));
    }),
  );
});
