import assert from 'node:assert/strict';
import { test } from 'node:test';
import { decoded, messagesOf } from '../../../testing/fakes/builders.ts';
import { type FieldError, placeOf } from '../../schema/field-errors.ts';
import { validateVolumes } from './volume-validation.ts';
import { defaultVolume, volumeShape } from './volume.ts';

const subdomain =
  "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";
const label =
  "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')";
const conflict = 'conflicting duplicate paths';
const form = "must be a fully qualified domain and path of the form 'example.com/signer-name'";
const certificate = { signerName: 'example.com/a', keyType: 'ED25519' };

interface Case {
  readonly it: string;
  readonly sources: readonly object[];
  readonly more?: object;
  /** Without the volume's own path in front. */
  readonly errors: readonly string[];
}

const cases: readonly Case[] = [
  {
    it: 'accepts the volume that admission adds to every pod',
    sources: [
      { serviceAccountToken: { expirationSeconds: 3607, path: 'token' } },
      { configMap: { name: 'kube-root-ca.crt', items: [{ key: 'ca.crt', path: 'ca.crt' }] } },
      { downwardAPI: { items: [{ path: 'namespace', fieldRef: { fieldPath: 'metadata.namespace' } }] } },
    ],
    errors: [],
  },
  {
    it: 'holds modes and users to their ranges',
    more: { defaultMode: 0o1000, defaultUser: -1 },
    sources: [],
    errors: [
      '.defaultMode: Invalid value: 512: must be a number between 0 and 0777 (octal), both inclusive',
      '.defaultUser: Invalid value: -1: must be between 0 and 2147483647, inclusive',
    ],
  },
  {
    it: 'takes one member for each source',
    sources: [{ secret: { name: 'a' }, configMap: { name: 'a' } }, {}],
    errors: ['.sources[0]: Forbidden: may not specify more than 1 volume type per source'],
  },
  {
    it: 'asks objects for a name and their items for what items need',
    sources: [{ secret: { items: [{ key: '', path: '..' }] } }, { configMap: {} }],
    errors: [
      '.sources[0].secret.name: Required value',
      '.sources[0].secret.items[0].key: Required value',
      `.sources[0].secret.items[0].path: Invalid value: "..": must not contain '..'`,
      `.sources[0].secret.items[0].path: Invalid value: "..": must not start with '..'`,
      '.sources[1].configMap.name: Required value',
    ],
  },
  {
    it: 'refuses two items for the same file, and blames the object or the path',
    sources: [
      { secret: { name: 's', items: [{ key: 'a', path: 'f' }] } },
      { configMap: { name: 'c', items: [{ key: 'a', path: 'f' }] } },
      { downwardAPI: { items: [{ path: 'f', fieldRef: { fieldPath: 'metadata.name' } }] } },
      { clusterTrustBundle: { name: 'b', path: 'f' } },
    ],
    errors: [
      `: Invalid value: "c": ${conflict}`,
      `: Invalid value: "f": ${conflict}`,
      `: Invalid value: "f": ${conflict}`,
    ],
  },
  {
    it: 'leaves tokens and whole objects out of that comparison',
    sources: [
      { serviceAccountToken: { path: 'f' } },
      { serviceAccountToken: { path: 'f' } },
      { secret: { name: 's', items: [{ key: 'a', path: 'f' }] } },
      { secret: { name: 's' } },
      { secret: { name: 's' } },
    ],
    errors: [],
  },
  {
    it: 'refuses tokens that are too short or too long lived',
    sources: [
      { serviceAccountToken: { expirationSeconds: 599, path: 'a' } },
      { serviceAccountToken: { expirationSeconds: 4294967297, path: 'b' } },
      { serviceAccountToken: { expirationSeconds: 600, path: 'c' } },
      { serviceAccountToken: { expirationSeconds: 4294967296, path: 'd' } },
    ],
    errors: [
      '.sources[0].serviceAccountToken.expirationSeconds: Invalid value: 599: may not specify a duration less than 10 minutes',
      '.sources[1].serviceAccountToken.expirationSeconds: Invalid value: 4294967297: may not specify a duration larger than 2^32 seconds',
    ],
  },
  {
    it: 'reports the path of a token as if it were the volume’s',
    sources: [{ serviceAccountToken: { path: '' } }, { serviceAccountToken: { path: '/a', user: -1 } }],
    errors: [
      '.path: Required value',
      '.path: Invalid value: "/a": must be a relative path',
      '.sources[1].serviceAccountToken.user: Invalid value: -1: must be between 0 and 2147483647, inclusive',
    ],
  },
  {
    it: 'asks a trust bundle for a name or a signer',
    sources: [
      { clusterTrustBundle: { path: 'a' } },
      { clusterTrustBundle: { name: 'x', signerName: 'example.com/y', path: 'b', optional: true } },
    ],
    errors: [
      '.sources[0].clusterTrustBundle: Required value: either name or signerName must be specified',
      '.sources[1].clusterTrustBundle: Invalid value: {"name":"x","signerName":"example.com/y","optional":true,"path":"b"}: only one of name and signerName may be used',
    ],
  },
  {
    it: 'holds a trust bundle to its rules',
    sources: [
      { clusterTrustBundle: { name: '', path: '' } },
      { clusterTrustBundle: { name: 'a', labelSelector: { matchLabels: { a: 'b' } }, path: 'c' } },
      { clusterTrustBundle: { signerName: '', path: '/d' } },
      { clusterTrustBundle: { signerName: 'nothing', path: 'e' } },
      { clusterTrustBundle: { signerName: 'com/a', path: 'f', user: -1 } },
      { clusterTrustBundle: { name: 'example.com:signer:bundle', path: 'g' } },
      { clusterTrustBundle: { name: 'example.com:signer:Bundle', path: 'h' } },
      {
        clusterTrustBundle: {
          signerName: 'a_.com/b',
          labelSelector: { matchExpressions: [{ key: 'k', operator: 'Is' }] },
          path: 'i',
        },
      },
    ],
    errors: [
      '.sources[0].clusterTrustBundle.name: Required value: must be a valid object name',
      `.sources[0].clusterTrustBundle.name: Invalid value: "": not a valid clustertrustbundlename: ${subdomain}`,
      '.sources[0].clusterTrustBundle.path: Required value',
      '.sources[1].clusterTrustBundle.labelSelector: Invalid value: {"matchLabels":{"a":"b"}}: labelSelector must be unset if name is specified',
      '.sources[2].clusterTrustBundle.signerName: Required value: must be a valid signer name',
      '.sources[2].clusterTrustBundle.signerName: Required value',
      '.sources[2].clusterTrustBundle.path: Invalid value: "/d": must be a relative path',
      `.sources[3].clusterTrustBundle.signerName: Invalid value: "nothing": ${form}`,
      '.sources[4].clusterTrustBundle.signerName: Invalid value: "com": should be a domain with at least two segments separated by dots',
      '.sources[4].clusterTrustBundle.user: Invalid value: -1: must be between 0 and 2147483647, inclusive',
      `.sources[6].clusterTrustBundle.name: Invalid value: "example.com:signer:Bundle": not a valid clustertrustbundlename: ${subdomain}`,
      `.sources[7].clusterTrustBundle.signerName: Invalid value: "a_.com": validating label "a_": ${label}`,
      '.sources[7].clusterTrustBundle.labelSelector.matchExpressions[0].operator: Invalid value: "Is": not a valid selector operator',
    ],
  },
  {
    it: 'holds a certificate to its signer, key and life',
    sources: [
      { podCertificate: { keyType: 'DSA', keyPath: 'a' } },
      { podCertificate: { ...certificate, keyPath: 'b', maxExpirationSeconds: 3599 } },
      { podCertificate: { ...certificate, keyPath: 'c', maxExpirationSeconds: 7862401 } },
      { podCertificate: { ...certificate, signerName: 'kubernetes.io/x', keyPath: 'd', maxExpirationSeconds: 86401 } },
      { podCertificate: { ...certificate, keyPath: 'e', maxExpirationSeconds: 7862400 } },
      { podCertificate: { ...certificate, userAnnotations: { 'Acme.io/foo': 'x', bar: 'y' } } },
    ],
    errors: [
      '.sources[0].podCertificate.signerName: Required value',
      '.sources[0].podCertificate.keyType: Unsupported value: "DSA": supported values: "RSA3072", "RSA4096", "ECDSAP256", "ECDSAP384", "ECDSAP521", "ED25519"',
      '.sources[1].podCertificate.maxExpirationSeconds: Invalid value: 3599: if provided, maxExpirationSeconds must be >= 3600',
      '.sources[2].podCertificate.maxExpirationSeconds: Invalid value: 7862401: if provided, maxExpirationSeconds must be <= 7862400',
      '.sources[3].podCertificate.maxExpirationSeconds: Invalid value: 86401: if provided, maxExpirationSeconds must be <= 86400',
      '.sources[5].podCertificate.userAnnotations: Invalid value: "bar": must be a domain-prefixed key (such as "acme.io/foo")',
      '.sources[5].podCertificate: Required value: specify at least one of credentialBundlePath, keyPath, and certificateChainPath',
    ],
  },
  {
    it: 'refuses a certificate’s key and chain at one path',
    sources: [{ podCertificate: { ...certificate, keyPath: 'a', certificateChainPath: 'a' } }],
    errors: [`: Invalid value: "a": ${conflict}`],
  },
  {
    it: 'holds the paths of a certificate to the rules of paths',
    sources: [
      { podCertificate: { ...certificate, credentialBundlePath: '/a', keyPath: '..b', certificateChainPath: 'c/..' } },
    ],
    errors: [
      '.sources[0].podCertificate.credentialBundlePath: Invalid value: "/a": must be a relative path',
      `.sources[0].podCertificate.keyPath: Invalid value: "..b": must not start with '..'`,
      `.sources[0].podCertificate.certificateChainPath: Invalid value: "c/..": must not contain '..'`,
    ],
  },
];
for (const { it, sources, more, errors } of cases) {
  test(`a projected volume ${it}`, () => {
    assert.deepEqual(
      messagesOf(errorsOf(sources, more)),
      errors.map((text) => `volumes[0].projected${text}`),
    );
  });
}

test('errors of projected volumes know the place that is meant', () => {
  const errors = errorsOf([
    { secret: { name: 's', items: [{ key: 'a', path: 'f' }] } },
    { downwardAPI: { items: [{ path: 'f', fieldRef: { fieldPath: 'metadata.name' } }, { path: 'g' }] } },
    { serviceAccountToken: { path: '' } },
  ]);
  assert.deepEqual(
    errors.map((error) => placeOf(error).slice(4)),
    [
      [1, 'downwardAPI', 'items', 0, 'path'],
      [1, 'downwardAPI', 'items', 1],
      [2, 'serviceAccountToken', 'path'],
    ],
  );
});

function errorsOf(sources: readonly object[], more: object = {}): readonly FieldError[] {
  const projected = decoded(volumeShape, { name: 'v', projected: { sources, ...more } });
  return validateVolumes([defaultVolume(projected)], 'web', ['volumes']).errors;
}
