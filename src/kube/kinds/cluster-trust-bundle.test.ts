import assert from 'node:assert/strict';
import { test } from 'node:test';
import { decoded, messagesOf } from '../../testing/fakes/builders.ts';
import { clusterTrustBundleShape, trustBundleKind } from './cluster-trust-bundle.ts';

/** Self-signed, made for this test; its key was thrown away. */
const authority = `-----BEGIN CERTIFICATE-----
MIIBezCCASGgAwIBAgIUPbx480A1n/NpFAoHY2IYHlc2EOIwCgYIKoZIzj0EAwIw
EjEQMA4GA1UEAwwHdGVzdC1jYTAgFw0yNjExMTYwMzMxMjBaGA8yMTI2MTAyMzAz
MzEyMFowEjEQMA4GA1UEAwwHdGVzdC1jYTBZMBMGByqGSM49AgEGCCqGSM49AwEH
A0IABMQ0JPzVzVJAqhQdnZEIuhpUVgE1YNR+mTV4IblWWAEIm2JoifG5RVGQrjXr
QdAXjDio5j6RplyIkEWDmwSu6vijUzBRMB0GA1UdDgQWBBTf1sywltcF9bWw4Qjw
CNHVgOKLADAfBgNVHSMEGDAWgBTf1sywltcF9bWw4QjwCNHVgOKLADAPBgNVHRMB
Af8EBTADAQH/MAoGCCqGSM49BAMCA0gAMEUCIHob2BMBdu4uK//lpHthX/ZSwBES
wJwgGKxFAOQKvwzuAiEA5ITsysxMMuid7Ozj6CgmDZ/4R8OBzmCUOJg5T1VbnJc=
-----END CERTIFICATE-----
`;
const leaf = `-----BEGIN CERTIFICATE-----
MIIBcjCCARigAwIBAgIUEh59W4ta3l/M93PCTLEp7xWqBoQwCgYIKoZIzj0EAwIw
DzENMAsGA1UEAwwEbGVhZjAgFw0yNjExMTYwMzMxMjBaGA8yMTI2MTAyMzAzMzEy
MFowDzENMAsGA1UEAwwEbGVhZjBZMBMGByqGSM49AgEGCCqGSM49AwEHA0IABGb2
oo+1KCrAwtmfyuR9A90OQXJ/IDtmgpTgCaqzpTI6Ftga2gfgbmpSLVbIg1arHgHC
ylqs+SAG3isZ9oa5t/qjUDBOMB0GA1UdDgQWBBRjIq46/YJn2KEDFacVMjffrsB8
OjAfBgNVHSMEGDAWgBRjIq46/YJn2KEDFacVMjffrsB8OjAMBgNVHRMBAf8EAjAA
MAoGCCqGSM49BAMCA0gAMEUCIB0Cqb1XHGq9E/IdqlgodGg+Ucoymj44HeRrUIfw
y8/9AiEA5fArZobs++N5nq5iiyWXQrH23Az32FJnII4wawqxTuo=
-----END CERTIFICATE-----
`;

const omitted = 'spec.trustBundle: Invalid value: "<value omitted>"';
const bundles = [
  { it: 'accepts an authority between lines of text', trustBundle: `text\n${authority}more text\n`, errors: [] },
  { it: 'asks for an authority', trustBundle: '', errors: [`${omitted}: at least one trust anchor must be provided`] },
  {
    it: 'refuses one twice',
    trustBundle: authority + authority,
    errors: [`${omitted}: duplicate trust anchor (indices [0 1])`],
  },
  {
    it: 'refuses a certificate that is not an authority’s',
    trustBundle: authority + leaf,
    errors: [`${omitted}: entry 1 does not have the CA bit set`],
  },
  {
    it: 'refuses other blocks, headers and garbage',
    trustBundle: [
      '-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n',
      '-----BEGIN CERTIFICATE-----\nProc-Type: b\n\nAAAA\n-----END CERTIFICATE-----\n',
      '-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n',
    ].join(''),
    errors: [
      `${omitted}: entry 0 has bad block type: PRIVATE KEY`,
      `${omitted}: entry 1 has PEM block headers`,
      `${omitted}: entry 2 does not parse as X.509`,
    ],
  },
];
for (const { it, trustBundle, errors } of bundles) {
  test(`validateClusterTrustBundle ${it}`, () => {
    const object = decoded(clusterTrustBundleShape, { metadata: { name: 'a' }, spec: { trustBundle } });
    assert.deepEqual(messagesOf(trustBundleKind.validate(object)), errors);
  });
}

test('validateClusterTrustBundle wants the signer in the name', () => {
  assert.deepEqual(bundle('example.com:a:b', 'example.com/a'), []);
  assert.deepEqual(bundle('b', 'example.com/a'), [
    'metadata.name: Invalid value: "b": ClusterTrustBundle for signerName example.com/a must be named with prefix example.com:a:',
  ]);
  assert.deepEqual(bundle('a:b', ''), [
    'metadata.name: Invalid value: "a:b": ClusterTrustBundle without signer name must not have ":" in its name',
  ]);
});

function bundle(name: string, signerName: string): string[] {
  const object = decoded(clusterTrustBundleShape, { metadata: { name }, spec: { signerName, trustBundle: authority } });
  return messagesOf(trustBundleKind.validate(object));
}
