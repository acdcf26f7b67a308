import assert from 'node:assert/strict';
import { createPublicKey, generateKeyPairSync, verify } from 'node:crypto';
import { test } from 'node:test';
import fc from 'fast-check';
import { FakeClock } from '../../testing/fakes/fake-clock.ts';
import {
  TokenIssuer,
  type TokenOrder,
  type TokenVerdict,
  jsonWebKeySet,
  openIdConfiguration,
} from './service-account-tokens.ts';
import { loadSigningKey, makeSigningKeyPem, signToken } from './signing-key.ts';

const keyPem = makeSigningKeyPem();
const issuerUrl = 'https://kubernetes.default.svc';

interface LiveObject {
  readonly uid: string;
  readonly deletionTimestamp?: string;
}

interface World {
  readonly clock: FakeClock;
  readonly issuer: TokenIssuer;
  /** Live objects by `kind/namespace/name`; a test changes them between issue and use. */
  readonly objects: Map<string, LiveObject>;
}

const settings = { issuer: issuerUrl, audiences: [issuerUrl], key: loadSigningKey(keyPem) };

function world(): World {
  const clock = new FakeClock();
  const objects = new Map<string, LiveObject>([
    ['serviceAccount/shop/robot', { uid: 'a1' }],
    ['pod/shop/web', { uid: 'p1' }],
    ['secret/shop/old', { uid: 's1' }],
    ['node//n1', { uid: 'n-uid' }],
  ]);
  const live = (kind: string, namespace: string, name: string) => {
    const metadata = objects.get(`${kind}/${namespace}/${name}`);
    return metadata && { metadata };
  };
  const subjects = {
    serviceAccount: (namespace: string, name: string) => live('serviceAccount', namespace, name),
    pod: (namespace: string, name: string) => live('pod', namespace, name),
    secret: (namespace: string, name: string) => live('secret', namespace, name),
    node: (name: string) => live('node', '', name),
  };
  const issuer = new TokenIssuer({ clock, subjects }, settings);
  return { clock, issuer, objects };
}

const order: TokenOrder = {
  namespace: 'shop',
  serviceAccount: { name: 'robot', uid: 'a1' },
  audiences: [],
  expirationSeconds: 3600,
};
const podOrder: TokenOrder = { ...order, pod: { name: 'web', uid: 'p1' }, node: { name: 'n1', uid: 'n-uid' } };

function show(verdict: TokenVerdict): string {
  return verdict.kind === 'refused' ? verdict.message : verdict.kind;
}

function partOf(token: string, index: number): Record<string, unknown> {
  return JSON.parse(Buffer.from(token.split('.')[index] ?? '', 'base64url').toString()) as Record<string, unknown>;
}

test('a token has the claims that relying parties look for', () => {
  const { issuer, clock } = world();
  const { token, expirationTimestamp } = issuer.issue(podOrder);
  const now = Math.floor(clock.now() / 1000);
  const { jti, ...claims } = partOf(token, 1);
  assert.equal(typeof jti, 'string');
  assert.deepEqual(claims, {
    aud: [issuerUrl],
    exp: now + 3600,
    iat: now,
    nbf: now,
    iss: issuerUrl,
    sub: 'system:serviceaccount:shop:robot',
    'kubernetes.io': {
      namespace: 'shop',
      serviceaccount: { name: 'robot', uid: 'a1' },
      pod: { name: 'web', uid: 'p1' },
      node: { name: 'n1', uid: 'n-uid' },
    },
  });
  assert.deepEqual(partOf(token, 0), { alg: 'ES256', kid: loadSigningKey(keyPem).id });
  assert.equal(Date.parse(expirationTimestamp), (now + 3600) * 1000);
  assert.match(expirationTimestamp, /:\d\dZ$/);
});

test('an accepted token makes the user of its account, pod and node', () => {
  const { issuer } = world();
  const verdict = issuer.verify(issuer.issue(podOrder).token);
  assert.equal(verdict.kind, 'accepted');
  const { user, audiences } = verdict;
  assert.equal(user.name, 'system:serviceaccount:shop:robot');
  assert.equal(user.uid, 'a1');
  assert.deepEqual(user.groups, ['system:serviceaccounts', 'system:serviceaccounts:shop']);
  assert.deepEqual(user.extra['authentication.kubernetes.io/pod-name'], ['web']);
  assert.deepEqual(user.extra['authentication.kubernetes.io/pod-uid'], ['p1']);
  assert.deepEqual(user.extra['authentication.kubernetes.io/node-name'], ['n1']);
  assert.deepEqual(user.extra['authentication.kubernetes.io/node-uid'], ['n-uid']);
  assert.match(user.extra['authentication.kubernetes.io/credential-id']?.[0] ?? '', /^JTI=[0-9a-f-]{36}$/);
  assert.deepEqual(audiences, [issuerUrl]);
});

const deleted = (clock: FakeClock, secondsAgo: number): string =>
  new Date(clock.now() - secondsAgo * 1000).toISOString();

const verdicts: readonly { it: string; order?: TokenOrder; change: (world: World) => unknown; says: string }[] = [
  { it: 'within the minute of leeway', change: ({ clock }) => clock.advance(3660_000), says: 'accepted' },
  { it: 'after it', change: ({ clock }) => clock.advance(3661_000), says: 'service account token has expired' },
  {
    it: 'for an account that is gone',
    change: ({ objects }) => objects.delete('serviceAccount/shop/robot'),
    says: 'serviceaccounts "robot" not found',
  },
  {
    it: 'for an account created again',
    change: ({ objects }) => objects.set('serviceAccount/shop/robot', { uid: 'a2' }),
    says: 'service account UID (a2) does not match claim (a1)',
  },
  {
    it: 'for an account deleted two minutes ago',
    change: ({ objects, clock }) =>
      objects.set('serviceAccount/shop/robot', { uid: 'a1', deletionTimestamp: deleted(clock, 120) }),
    says: 'service account shop/robot has been deleted',
  },
  {
    it: 'of a pod that is gone',
    order: podOrder,
    change: ({ objects }) => objects.delete('pod/shop/web'),
    says: 'service account token has been invalidated',
  },
  {
    it: 'of a pod created again',
    order: podOrder,
    change: ({ objects }) => objects.set('pod/shop/web', { uid: 'p2' }),
    says: 'pod UID (p2) does not match service account pod ref claim (p1)',
  },
  {
    it: 'of a pod deleted half a minute ago',
    order: podOrder,
    change: ({ objects, clock }) => objects.set('pod/shop/web', { uid: 'p1', deletionTimestamp: deleted(clock, 30) }),
    says: 'accepted',
  },
  {
    it: 'of a pod deleted a minute ago',
    order: podOrder,
    change: ({ objects, clock }) => objects.set('pod/shop/web', { uid: 'p1', deletionTimestamp: deleted(clock, 61) }),
    says: 'service account token has been invalidated',
  },
  {
    it: 'of a pod whose Node object is gone',
    order: podOrder,
    change: ({ objects }) => objects.delete('node//n1'),
    says: 'accepted',
  },
  {
    it: 'of a secret that is gone',
    order: { ...order, secret: { name: 'old', uid: 's1' } },
    change: ({ objects }) => objects.delete('secret/shop/old'),
    says: 'service account token has been invalidated',
  },
  {
    it: 'of a secret created again',
    order: { ...order, secret: { name: 'old', uid: 's1' } },
    change: ({ objects }) => objects.set('secret/shop/old', { uid: 's2' }),
    says: 'secret UID (s2) does not match service account secret ref claim (s1)',
  },
  {
    it: 'of a node that is gone',
    order: { ...order, node: { name: 'n1', uid: 'n-uid' } },
    change: ({ objects }) => objects.delete('node//n1'),
    says: 'service account token has been invalidated',
  },
  {
    it: 'of a node created again',
    order: { ...order, node: { name: 'n1', uid: 'n-uid' } },
    change: ({ objects }) => objects.set('node//n1', { uid: 'x' }),
    says: 'node UID (x) does not match service account node ref claim (n-uid)',
  },
  {
    it: 'for another audience',
    order: { ...order, audiences: ['vault', 'b"c'] },
    change: () => {},
    says: `token audiences ["vault" "b\\"c"] is invalid for the target audiences ["${issuerUrl}"]`,
  },
];
for (const { it, order: asked = order, change, says } of verdicts) {
  test(`a token ${it}: ${says}`, async () => {
    const here = world();
    const { token } = here.issuer.issue(asked);
    await change(here);
    assert.equal(show(here.issuer.verify(token)), says);
  });
}

test('a token from further in the future than a clock is set back waits for its time', () => {
  const { issuer, clock } = world();
  const now = clock.now() / 1000;
  const own = { namespace: 'shop', serviceaccount: { name: 'robot', uid: 'a1' } };
  const token = (claims: object): string =>
    signToken(loadSigningKey(keyPem), { iss: issuerUrl, 'kubernetes.io': own, ...claims });
  assert.equal(show(issuer.verify(token({ nbf: now + 86_399, iat: now + 86_399 }))), 'accepted');
  assert.equal(show(issuer.verify(token({ nbf: now + 86_401 }))), 'service account token is not valid yet');
  assert.equal(show(issuer.verify(token({ iat: now + 86_401 }))), 'service account token is issued in the future');
});

test('a reviewer may ask for its own audience', () => {
  const { issuer } = world();
  const { token } = issuer.issue({ ...order, audiences: ['vault', 'other'] });
  const verdict = issuer.verify(token, ['vault', 'third']);
  assert.deepEqual(verdict.kind === 'accepted' && verdict.audiences, ['vault']);
});

test('a token that was tampered with, that has no signature or that names another key is refused', () => {
  const { issuer } = world();
  const { token } = issuer.issue(order);
  const [head = '', body = '', signature = ''] = token.split('.');
  const other = { ...partOf(token, 1), sub: 'system:serviceaccount:kube-system:admin' };
  const forged = Buffer.from(JSON.stringify(other)).toString('base64url');
  const header = (fields: object): string => Buffer.from(JSON.stringify(fields)).toString('base64url');
  const kid = partOf(token, 0)['kid'];
  assert.equal(show(issuer.verify(`${head}.${forged}.${signature}`)), 'invalid signature');
  assert.equal(show(issuer.verify(`${header({ alg: 'none', kid })}.${body}.AA`)), 'invalid signature');
  assert.equal(show(issuer.verify(`${header({ alg: 'HS256', kid })}.${body}.${signature}`)), 'invalid signature');
  assert.equal(
    show(issuer.verify(`${header({ alg: 'ES256', kid: 'other' })}.${body}.${signature}`)),
    'invalid signature, no keys found',
  );
  assert.equal(
    show(issuer.verify(signToken(loadSigningKey(makeSigningKeyPem()), partOf(token, 1)))),
    'invalid signature, no keys found',
  );
});

test('a token that is signed but makes no sense is refused', () => {
  const { issuer } = world();
  const key = loadSigningKey(keyPem);
  for (const claims of [
    {},
    { 'kubernetes.io': 5 },
    { 'kubernetes.io': { namespace: 'shop' } },
    { aud: 5 },
    { exp: 'soon' },
    { 'kubernetes.io': { namespace: 'shop', serviceaccount: { name: 'robot', uid: 'a1' }, pod: 'web' } },
  ]) {
    assert.equal(
      show(issuer.verify(signToken(key, { iss: issuerUrl, ...claims }))),
      'service account token claims could not be validated',
    );
  }
});

test('a token that is not ours is left to others, whatever it looks like', () => {
  const { issuer } = world();
  const foreign = signToken(loadSigningKey(keyPem), { iss: 'https://elsewhere' });
  for (const token of ['', 'abc', 'a.b.c', 'a.b', foreign, '...', `${foreign}.x`])
    assert.equal(show(issuer.verify(token)), 'foreign');
  fc.assert(fc.property(fc.string(), (token) => show(issuer.verify(token)) === 'foreign'));
});

test('an RSA key signs with RS256; other keys are refused', () => {
  const { privateKey } = generateKeyPairSync('rsa', { modulusLength: 2048 });
  const key = loadSigningKey(privateKey.export({ type: 'pkcs8', format: 'pem' }).toString());
  assert.equal(partOf(signToken(key, {}), 0)['alg'], 'RS256');
  const wrong = generateKeyPairSync('ed25519').privateKey.export({ type: 'pkcs8', format: 'pem' }).toString();
  assert.throws(() => loadSigningKey(wrong), { reason: 'UnsupportedKey' });
});

test('a token can be verified with the published keys', () => {
  const { issuer } = world();
  const { keys } = jsonWebKeySet(settings) as { keys: (Record<string, string> & { kid: string })[] };
  const { token } = issuer.issue(order);
  const [head = '', body = '', signature = ''] = token.split('.');
  const key = keys.find(({ kid }) => kid === partOf(token, 0)['kid']);
  assert.deepEqual({ use: key?.['use'], alg: key?.['alg'], d: key?.['d'] }, { use: 'sig', alg: 'ES256', d: undefined });
  const publicKey = createPublicKey({ key: key ?? {}, format: 'jwk' });
  assert.ok(
    verify(
      'sha256',
      Buffer.from(`${head}.${body}`),
      { key: publicKey, dsaEncoding: 'ieee-p1363' },
      Buffer.from(signature, 'base64url'),
    ),
  );
  assert.deepEqual(openIdConfiguration(settings, 'https://10.0.0.1:6443'), {
    issuer: issuerUrl,
    jwks_uri: 'https://10.0.0.1:6443/openid/v1/jwks',
    response_types_supported: ['id_token'],
    subject_types_supported: ['public'],
    id_token_signing_alg_values_supported: ['ES256'],
  });
});
