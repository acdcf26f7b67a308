import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as fc from 'fast-check';
import { trustAnchors } from './trust-bundle.ts';

function block(der: Uint8Array, { type = 'CERTIFICATE', headers = '' } = {}): string {
  const lines = (
    Buffer.from(der)
      .toString('base64')
      .match(/.{1,64}/g) ?? []
  ).join('\n');
  return `-----BEGIN ${type}-----\n${headers}${lines}\n-----END ${type}-----\n`;
}

function certificatesIn(pem: Buffer): string[] {
  return [...pem.toString().matchAll(/BEGIN CERTIFICATE-----\n([^-]*)-----END CERTIFICATE/g)]
    .map(([, body = '']) => body.replaceAll('\n', ''))
    .toSorted();
}

const one = Buffer.from('certificate one, long enough that its base64 takes more than one line of text');
const two = Buffer.from('two');

test('headers, text between blocks and other block types are gone; what remains are bare certificates', () => {
  const bundle = `subject: x\n${block(one, { headers: 'Proc-Type: 4\nDEK: a\n\n' })}comment\n${block(two, { type: 'TRUSTED' })}`;
  const anchors = trustAnchors([bundle]);
  assert.deepEqual(certificatesIn(anchors), [one.toString('base64'), two.toString('base64')].toSorted());
  const withoutBlocks = anchors
    .toString()
    .replaceAll(/-----BEGIN CERTIFICATE-----\n[^-]+-----END CERTIFICATE-----\n/g, '');
  assert.equal(withoutBlocks, '');
});

test('the same certificate in two bundles, or written in other line lengths, is there once', () => {
  const wide = `-----BEGIN CERTIFICATE-----\r\n${one.toString('base64')}\r\n-----END CERTIFICATE-----\r\n`;
  assert.deepEqual(certificatesIn(trustAnchors([block(one), wide + block(one)])), [one.toString('base64')]);
});

test('malformed blocks are skipped and the ones after them are found', () => {
  const broken =
    '-----BEGIN CERTIFICATE-----\n!!!\n-----END CERTIFICATE-----\n-----BEGIN A-----\nAAAA\n-----END B-----\n';
  assert.deepEqual(certificatesIn(trustAnchors([broken + block(two)])), [two.toString('base64')]);
});

test('no bundle gives an empty file', () => {
  assert.equal(trustAnchors([]).length, 0);
});

test('the same certificates give the same bytes, however they are spread over bundles', () => {
  const certificates = fc.uniqueArray(fc.uint8Array({ minLength: 1, maxLength: 80 }), {
    selector: (der) => Buffer.from(der).toString('hex'),
    maxLength: 6,
  });
  fc.assert(
    fc.property(certificates, fc.integer({ min: 0, max: 6 }), (ders, cut) => {
      const blocks = ders.map((der) => block(der));
      const together = trustAnchors([blocks.join('')]);
      const apart = trustAnchors([blocks.slice(cut).toReversed().join('junk\n'), blocks.slice(0, cut).join('')]);
      assert.deepEqual(apart, together);
      assert.deepEqual(certificatesIn(together), ders.map((der) => Buffer.from(der).toString('base64')).toSorted());
    }),
  );
});
