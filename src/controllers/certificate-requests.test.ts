import assert from 'node:assert/strict';
import { test } from 'node:test';
import { makeCertificateRequest } from '../apiserver/identity/certificates.ts';
import type { CertificateSigningRequest } from '../kube/kinds/certificate-signing-request.ts';
import type { Node } from '../kube/kinds/node.ts';
import { approvalOf, endOf } from './certificate-requests.ts';

const node: Node = {
  apiVersion: 'v1',
  kind: 'Node',
  metadata: { name: 'a' },
  status: {
    addresses: [
      { type: 'Hostname', address: 'A' },
      { type: 'InternalIP', address: '10.0.0.1' },
      { type: 'InternalIP', address: 'fd00:0::1' },
      // As `ip address` shows it.
      { type: 'InternalIP', address: 'fe80::1%eth0' },
    ],
  },
};

interface Asked {
  readonly signer?: string;
  readonly user?: string;
  readonly subject?: string;
  readonly groups?: readonly string[];
  readonly hosts?: readonly string[];
  readonly usages?: readonly string[];
}

function requestOf({
  signer = 'kubelet-serving',
  user = 'system:node:a',
  subject = user,
  groups = ['system:nodes'],
  hosts = ['a', '10.0.0.1', 'fd00::1'],
  usages = ['digital signature', 'server auth'],
}: Asked): CertificateSigningRequest {
  const { requestPem } = makeCertificateRequest({ user: subject, groups, hosts });
  const request = Buffer.from(requestPem).toString('base64');
  const spec = { request, signerName: `kubernetes.io/${signer}`, usages, username: user, groups: ['system:nodes'] };
  return { metadata: { name: 'csr' }, spec };
}

const client = { signer: 'kube-apiserver-client-kubelet', hosts: [], usages: ['digital signature', 'client auth'] };
const cases: readonly (readonly [it: string, asked: Asked, approved: boolean])[] = [
  ["approves a serving certificate for the node's names and addresses", {}, true],
  ['approves one that enciphers keys', { usages: ['digital signature', 'key encipherment', 'server auth'] }, true],
  ['leaves an address that the node does not have to a person', { hosts: ['a', '10.0.0.2'] }, false],
  ['leaves a name of the API server to a person', { hosts: ['kubernetes.default.svc'] }, false],
  ['leaves a serving certificate without names to a person', { hosts: [] }, false],
  ['leaves a certificate for another node to a person', { subject: 'system:node:b' }, false],
  ['leaves a certificate for administrators to a person', { groups: ['system:nodes', 'system:masters'] }, false],
  [
    'leaves a serving certificate that may be a client too to a person',
    { usages: ['digital signature', 'server auth', 'client auth'] },
    false,
  ],
  ["approves a node's own client certificate", client, true],
  ['leaves a client certificate with names to a person', { ...client, hosts: ['a'] }, false],
  ['leaves a client certificate for another node to a person', { ...client, subject: 'system:node:b' }, false],
  ["leaves a person's certificate to a person", { ...client, signer: 'kube-apiserver-client' }, false],
];
for (const [it, asked, approved] of cases) {
  test(`approvalOf ${it}`, () => {
    assert.equal(approvalOf(requestOf(asked), node) !== undefined, approved);
  });
}

test('a node that is not known gets no serving certificate', () => {
  assert.equal(approvalOf(requestOf({}), undefined), undefined);
});

test('requests are kept for a day while nobody has decided or signed, and for an hour afterwards', () => {
  const made = '2026-01-01T00:00:00Z';
  const at = (hours: number): number => Date.parse(made) + hours * 3_600_000;
  const base = requestOf({});
  const request = { ...base, metadata: { ...base.metadata, creationTimestamp: made } };
  const withCondition = (type: string, certificate?: string): CertificateSigningRequest => ({
    ...request,
    status: {
      conditions: [{ type, status: 'True', lastUpdateTime: '2026-01-01T02:00:00Z' }],
      ...(certificate && { certificate }),
    },
  });
  assert.equal(endOf(request), at(24));
  assert.equal(endOf(withCondition('Denied')), at(3));
  assert.equal(endOf(withCondition('Failed')), at(3));
  assert.equal(endOf(withCondition('Approved')), at(26));
  assert.equal(endOf(withCondition('Approved', 'AAAA')), at(3));
});
