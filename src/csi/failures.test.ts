import assert from 'node:assert/strict';
import { test } from 'node:test';
import { GrpcError } from '../grpc/grpc-error.ts';
import { failureClassOf } from '../plugins/plugin.ts';
import { DriverError, GivenSecrets, driverError, safeText } from './failures.ts';

const uncertain = new Set(['CANCELLED', 'DEADLINE_EXCEEDED', 'UNAVAILABLE', 'RESOURCE_EXHAUSTED', 'ABORTED']);
const codes: readonly [code: GrpcError['code'], shown: string][] = [
  ['CANCELLED', 'Canceled'],
  ['UNKNOWN', 'Unknown'],
  ['INVALID_ARGUMENT', 'InvalidArgument'],
  ['DEADLINE_EXCEEDED', 'DeadlineExceeded'],
  ['NOT_FOUND', 'NotFound'],
  ['ALREADY_EXISTS', 'AlreadyExists'],
  ['PERMISSION_DENIED', 'PermissionDenied'],
  ['RESOURCE_EXHAUSTED', 'ResourceExhausted'],
  ['FAILED_PRECONDITION', 'FailedPrecondition'],
  ['ABORTED', 'Aborted'],
  ['OUT_OF_RANGE', 'OutOfRange'],
  ['UNIMPLEMENTED', 'Unimplemented'],
  ['INTERNAL', 'Internal'],
  ['UNAVAILABLE', 'Unavailable'],
  ['DATA_LOSS', 'DataLoss'],
  ['UNAUTHENTICATED', 'Unauthenticated'],
];
for (const [code, shown] of codes) {
  test(`a driver's ${shown} is ${uncertain.has(code) ? 'uncertain' : 'final'}, in the words that Go has for it`, () => {
    const error = driverError(new GrpcError('NodePublishVolume', code, 'no such disk'), []);
    assert.equal(failureClassOf(error), uncertain.has(code) ? 'uncertain' : 'final');
    assert.equal(error.message, `rpc error: code = ${shown} desc = no such disk`);
  });
}

test('what is not an answer says nothing about what the driver did', () => {
  assert.equal(failureClassOf(driverError(new Error('socket hang up'), [])), 'uncertain');
});

test('an error that is put into other words has no class any more', () => {
  assert.equal(failureClassOf(new Error('again', { cause: new DriverError('UNAVAILABLE', 'gone') })), 'final');
});

const secret = 'p&ss "wörd"\\1';
const echoes: readonly [how: string, text: string][] = [
  ['as it is', `login with ${secret} failed`],
  ['in JSON', `login with ${JSON.stringify(secret).slice(1, -1)} failed`],
  ['in base64', `login with ${Buffer.from(secret).toString('base64')} failed`],
  ['in base64 for an address', `login with ${Buffer.from(secret).toString('base64url')} failed`],
  ['in an address', `login with ${encodeURIComponent(secret)} failed`],
  ['in a form', `login with ${encodeURIComponent(secret).replaceAll('%20', '+')} failed`],
  ['as Go prints JSON', String.raw`login with p\u0026ss \"wörd\"\\1 failed`],
];
for (const [how, text] of echoes) {
  test(`a Secret that a driver repeats ${how} is not shown`, () => {
    assert.equal(safeText(text, [secret]), 'login with [redacted] failed');
  });
}

test('a Secret is not shown where another one is a part of it', () => {
  assert.equal(safeText('between abcdefgh and abcd', ['abcd', 'abcdefgh']), 'between [redacted] and [redacted]');
});

test('Secrets that overlap are hidden together', () => {
  assert.equal(safeText('login with abcdefgh failed', ['abcdef', 'cdefgh']), 'login with [redacted] failed');
});

test('a Secret is not looked for in what stands for another one', () => {
  const text = safeText('login with hunter2 failed', ['hunter2', 'redacted', '[red', 'acted]']);
  assert.equal(text, 'login with [redacted] failed');
});

test('a text does not grow with the number of Secrets, and a Secret of a few characters hides nothing', () => {
  const letters = 'abcdefghijklmnopqrstuvwxyz[]'.split('');
  assert.equal(safeText('login failed on 443', [...letters, 'on', '443']), 'login failed on 443');
  assert.ok(safeText('wxyz '.repeat(2_000), [...letters, 'wxyz']).length <= 4_096);
});

for (const before of ['', 'u', 'us', 'use', 'user:']) {
  test(`a Secret is not shown in the base64 of ${JSON.stringify(`${before}…`)}`, () => {
    const password = 'correct horse battery staple';
    const shown = safeText(`Basic ${Buffer.from(`${before}${password}!`).toString('base64')}`, [password]);
    assert.match(shown, /^Basic [\w+/]{0,8}\[redacted\][\w+/=]{0,4}$/);
  });
}

test('a Secret as large as one can be, in lines, is looked for in a moment', () => {
  const lines = Array.from({ length: 60_000 }, (_, line) => `line ${line} of the key`);
  const shown = safeText(`cannot parse "${lines[59_999]}"`, [lines.join('\n')]);
  assert.equal(shown, 'cannot parse "[redacted]"');
});

test('of a Secret of several lines no line is shown', () => {
  const key = '-----BEGIN KEY-----\nMIIEvQIBADANBgkq\nhkiG9w0BAQEFAASC\n-----END KEY-----\n';
  assert.equal(safeText('cannot use MIIEvQIBADANBgkq of it', [key]), 'cannot use [redacted] of it');
  assert.equal(safeText(`cannot use ${key}`, [key]), 'cannot use [redacted]');
});

test('the beginning of a Secret is not shown where the text was cut', () => {
  assert.equal(safeText('login with hunter', ['hunter2 is the password']), 'login with [redacted]');
});

test('control characters do not get through to a terminal or a log', () => {
  assert.equal(safeText('no\u001b[31m disk\r\n\u202efake line\u2028end', []), 'no [31m disk fake line end');
});

test('an empty Secret hides nothing', () => {
  assert.equal(safeText('no disk', ['', ' ']), 'no disk');
});

test('what a driver was given last is remembered, up to a limit', () => {
  const given = new GivenSecrets();
  given.add(['old', 'a'.repeat(40_000)]);
  given.add(['old', 'b'.repeat(30_000)]);
  assert.deepEqual(
    given.values().map(([first]) => first),
    ['o', 'b'],
  );
  given.add(['x'.repeat(70_000)]);
  assert.deepEqual(given.values(), []);
});
