import assert from 'node:assert/strict';
import { test } from 'node:test';
import { parseYamlDocuments } from '../../kube/manifests/yaml-documents.ts';
import { kubeconfig } from './certificates.ts';

const base = { server: 'https://127.0.0.1:6443', authorityPem: 'CA', cluster: 'mountlet', user: 'admin' };

test('a kubeconfig for a certificate is whole and valid YAML', () => {
  const text = kubeconfig({ ...base, credentials: { certificatePem: 'CERT', keyPem: 'KEY' } });
  const [document] = parseYamlDocuments(text);
  assert.deepEqual(document?.value, {
    apiVersion: 'v1',
    kind: 'Config',
    clusters: [{ name: 'mountlet', cluster: { server: base.server, 'certificate-authority-data': 'Q0E=' } }],
    users: [{ name: 'admin', user: { 'client-certificate-data': 'Q0VSVA==', 'client-key-data': 'S0VZ' } }],
    contexts: [{ name: 'admin@mountlet', context: { cluster: 'mountlet', user: 'admin', namespace: 'default' } }],
    'current-context': 'admin@mountlet',
    preferences: {},
  });
});

test('a kubeconfig for a token has nothing but the token', () => {
  const config = JSON.parse(kubeconfig({ ...base, namespace: 'shop', credentials: { token: 't' } })) as {
    users: unknown;
    contexts: { context: { namespace: string } }[];
  };
  assert.deepEqual(config.users, [{ name: 'admin', user: { token: 't' } }]);
  assert.equal(config.contexts[0]?.context.namespace, 'shop');
});
