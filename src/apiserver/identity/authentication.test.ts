import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Authenticator, type Credentials } from './authentication.ts';
import type { TokenVerdict } from './service-account-tokens.ts';

const account = { name: 'system:serviceaccount:shop:robot', uid: 'a1', groups: ['system:serviceaccounts'], extra: {} };
const verdicts: Record<string, TokenVerdict> = {
  good: { kind: 'accepted', user: account, audiences: ['api'] },
  expired: { kind: 'refused', message: 'service account token has expired' },
};

function authenticator(allowsAnonymous: boolean): Authenticator {
  const accountTokens = { verify: (token: string): TokenVerdict => verdicts[token] ?? { kind: 'foreign' } };
  const staticTokens = [
    { token: 's3cret', user: { name: 'ann', uid: 'u1', groups: ['dev', 'ops'] } },
    { token: 'other', user: { name: 'bob', uid: 'u2', groups: [] } },
  ];
  return new Authenticator({ accountTokens }, { staticTokens, allowsAnonymous });
}

const peer = { verified: true, subject: { CN: 'system:node:n1', O: 'system:nodes' } };
const clientAuth = '1.3.6.1.5.5.7.3.2';

const cases: readonly { it: string; credentials: Credentials; user?: string; fails?: string; anonymous?: boolean }[] = [
  {
    it: 'a certificate is its common name and organizations',
    credentials: { peer },
    user: 'system:node:n1 [system:nodes,system:authenticated]',
  },
  {
    it: 'several organizations are several groups',
    credentials: { peer: { ...peer, subject: { CN: ['x', 'ann'], O: ['a', 'b'] } } },
    user: 'ann [a,b,system:authenticated]',
  },
  {
    it: 'a certificate for clients counts',
    credentials: { peer: { ...peer, keyUsages: [clientAuth] } },
    user: 'system:node:n1 [system:nodes,system:authenticated]',
  },
  {
    it: 'a certificate for servers does not',
    credentials: { peer: { ...peer, keyUsages: ['1.3.6.1.5.5.7.3.1'] } },
    fails: 'the certificate is not for clients',
  },
  {
    it: 'a certificate that is not verified does not, although anonymous access is on',
    credentials: { peer: { ...peer, verified: false } },
    fails: 'the client certificate could not be verified',
  },
  {
    it: 'a certificate without a name does not',
    credentials: { peer: { verified: true, subject: {} } },
    fails: 'the client certificate has no common name',
  },
  {
    it: 'a bad certificate can be made up for by a token',
    credentials: { peer: { ...peer, verified: false }, authorization: 'Bearer good' },
    user: 'system:serviceaccount:shop:robot [system:serviceaccounts,system:authenticated]',
  },
  {
    it: 'a good certificate counts before a bad token',
    credentials: { peer, authorization: 'Bearer nonsense' },
    user: 'system:node:n1 [system:nodes,system:authenticated]',
  },
  {
    it: 'a token of an account',
    credentials: { authorization: 'bearer good' },
    user: 'system:serviceaccount:shop:robot [system:serviceaccounts,system:authenticated]',
  },
  {
    it: 'a token of the list, with its groups',
    credentials: { authorization: 'BEARER s3cret' },
    user: 'ann [dev,ops,system:authenticated]',
  },
  {
    it: 'a token of the list, without groups',
    credentials: { authorization: 'Bearer other' },
    user: 'bob [system:authenticated]',
  },
  {
    it: 'an invalid token is refused even if anonymous access is on',
    credentials: { authorization: 'Bearer nonsense' },
    fails: 'invalid bearer token',
  },
  {
    it: 'an expired token is refused with its reason',
    credentials: { authorization: 'Bearer expired' },
    fails: 'service account token has expired',
  },
  { it: 'no credentials are anonymous', credentials: {}, user: 'system:anonymous [system:unauthenticated]' },
  {
    it: 'no credentials are refused when anonymous access is off',
    credentials: {},
    anonymous: false,
    fails: 'no credentials were given',
  },
  {
    it: 'another scheme is not a credential',
    credentials: { authorization: 'Basic YTpi' },
    user: 'system:anonymous [system:unauthenticated]',
  },
  {
    it: 'a bearer without a token is not a credential',
    credentials: { authorization: 'Bearer  ' },
    user: 'system:anonymous [system:unauthenticated]',
  },
];
for (const { it, credentials, user, fails, anonymous = true } of cases) {
  test(it, () => {
    const result = authenticator(anonymous).authenticate(credentials);
    if (result.kind === 'unauthenticated') assert.equal(result.message, fails);
    else assert.equal(`${result.user.name} [${result.user.groups.join(',')}]`, user);
  });
}
