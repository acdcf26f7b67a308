import assert from 'node:assert/strict';
import { test } from 'node:test';
import { sampleTokens } from './render-node.ts';

const wish = {
  namespace: 'shop',
  serviceAccount: 'robot',
  expirationSeconds: 600,
  pod: { name: 'web', uid: 'u1' },
};

function decode(part: string | undefined): Record<string, unknown> {
  return JSON.parse(Buffer.from(part ?? '', 'base64url').toString()) as Record<string, unknown>;
}

test('a sample token has the form and the claims of a real one', () => {
  const [header, claims, signature] = sampleTokens({ now: () => 1_000_999 })({ ...wish, audience: 'vault' }).split('.');
  assert.deepEqual(decode(header), { alg: 'ES256', kid: 'mountlet-sample', typ: 'JWT' });
  const { jti, ...rest } = decode(claims);
  assert.match(String(jti), /^[0-9a-f-]{36}$/);
  assert.deepEqual(rest, {
    aud: ['vault'],
    exp: 1600,
    iat: 1000,
    nbf: 1000,
    iss: 'https://kubernetes.default.svc.cluster.local',
    'kubernetes.io': {
      namespace: 'shop',
      pod: { name: 'web', uid: 'u1' },
      serviceaccount: { name: 'robot' },
    },
    sub: 'system:serviceaccount:shop:robot',
  });
  assert.equal(Buffer.from(signature ?? '', 'base64url').length, 64);
});

test('a sample token without an audience is for the API server', () => {
  const [, claims] = sampleTokens({ now: () => 0 })(wish).split('.');
  assert.deepEqual(decode(claims)['aud'], ['https://kubernetes.default.svc.cluster.local']);
});

test('two issuers sign with keys of their own', () => {
  const signatures = [sampleTokens, sampleTokens].map((issuer) => issuer({ now: () => 0 })(wish).split('.')[2]);
  assert.notEqual(signatures[0], signatures[1]);
});
