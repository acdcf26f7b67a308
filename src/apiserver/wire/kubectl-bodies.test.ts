/** Bodies that a real kubectl sends, captured by a server that answers just enough, and decoded. */
import assert from 'node:assert/strict';
import { execFile, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { writeFileSync } from 'node:fs';
import { createServer } from 'node:https';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { promisify } from 'node:util';
import { temporaryDirectory } from '../../testing/machine/temporary-directory.ts';
import { issueServerCertificate, kubeconfig, makeAuthority } from '../identity/certificates.ts';
import { decodeProtobuf } from './decode-protobuf.ts';
import { bodyTypeOf, negotiateAnswer, objectConversions, protobufType } from './media-types.ts';

interface Captured {
  readonly path: string;
  readonly accept: string;
  readonly body: unknown;
}

/** Answers every POST with the object that came, as JSON: the least that kubectl is content with. */
async function capture(t: TestContext, commands: readonly (readonly string[])[]): Promise<readonly Captured[]> {
  const captured: Captured[] = [];
  const validity = { now: Date.now(), days: 1 };
  const authority = makeAuthority(validity);
  const { certificatePem: cert, keyPem: key } = issueServerCertificate(authority, {
    ...validity,
    hosts: ['127.0.0.1'],
  });
  const server = createServer({ cert, key }, (request, response) => {
    const chunks: Buffer[] = [];
    request.on('data', (chunk: Buffer) => chunks.push(chunk));
    request.on('end', () => {
      const path = new URL(request.url ?? '', 'https://server').pathname;
      const answer = (code: number, object: unknown): void => {
        response.writeHead(code, { 'Content-Type': 'application/json' }).end(JSON.stringify(object));
      };
      if (request.method !== 'POST') return answer(path === '/api/v1' ? 200 : 404, coreResources);
      const isProtobuf = bodyTypeOf(request.headers['content-type']) === protobufType;
      const object = isProtobuf ? decodeProtobuf(Buffer.concat(chunks)).object : { kind: 'not protobuf' };
      captured.push({ path, accept: request.headers.accept ?? '', body: JSON.parse(JSON.stringify(object)) });
      answer(201, { ...object, status: { token: 'secret', allowed: true, userInfo: { username: 'me' } } });
    });
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  t.after(() => server.close());

  const home = temporaryDirectory(t);
  const config = join(home, 'config');
  const url = `https://127.0.0.1:${(server.address() as AddressInfo).port}`;
  writeFileSync(
    config,
    kubeconfig({
      server: url,
      authorityPem: authority.certificatePem,
      cluster: 'test',
      user: 'me',
      credentials: { token: 't' },
    }),
  );
  for (const command of commands) {
    await promisify(execFile)('kubectl', ['--kubeconfig', config, '--cache-dir', join(home, 'cache'), ...command], {
      env: { PATH: process.env['PATH'], HOME: home },
    });
  }
  return captured;
}

const coreResources = {
  kind: 'APIResourceList',
  apiVersion: 'v1',
  groupVersion: 'v1',
  resources: [{ name: 'pods', singularName: 'pod', namespaced: true, kind: 'Pod', verbs: ['get'] }],
};

test('what a real kubectl sends in protobuf is understood', async (t) => {
  const version = spawnSync('kubectl', ['version', '--client', '-o', 'json'], { encoding: 'utf8' });
  const minor = Number(/"minor": "(\d+)/.exec(version.stdout ?? '')?.[1] ?? 0);
  if (minor < 32) {
    t.skip(
      `needs kubectl 1.32 or newer: ${version.error === undefined ? `found minor version ${minor}` : 'there is none'}`,
    );
    return;
  }
  const captured = await capture(t, [
    ['create', 'configmap', 'web', '--from-literal=a=b', '--from-literal=c=ö'],
    ['create', 'secret', 'generic', 'tls', '--from-literal=key=value', '-n', 'shop'],
    ['create', 'namespace', 'shop'],
    ['create', 'serviceaccount', 'robot'],
    [
      'create',
      'token',
      'robot',
      '--duration=20m',
      '--audience=vault',
      '--bound-object-kind=Pod',
      '--bound-object-name=p',
      '--bound-object-uid=u',
    ],
    ['auth', 'can-i', 'get', 'pods/web', '-n', 'shop'],
    ['auth', 'whoami'],
  ]);
  const summary = captured.map(({ path, body }) => [path, body]);
  assert.deepEqual(summary, [
    [
      '/api/v1/namespaces/default/configmaps',
      {
        apiVersion: 'v1',
        kind: 'ConfigMap',
        metadata: { name: 'web' },
        data: { a: 'b', c: 'ö' },
      },
    ],
    [
      '/api/v1/namespaces/shop/secrets',
      { apiVersion: 'v1', kind: 'Secret', metadata: { name: 'tls', namespace: 'shop' }, data: { key: 'dmFsdWU=' } },
    ],
    ['/api/v1/namespaces', { apiVersion: 'v1', kind: 'Namespace', metadata: { name: 'shop' } }],
    [
      '/api/v1/namespaces/default/serviceaccounts',
      { apiVersion: 'v1', kind: 'ServiceAccount', metadata: { name: 'robot' } },
    ],
    [
      '/api/v1/namespaces/default/serviceaccounts/robot/token',
      {
        apiVersion: 'authentication.k8s.io/v1',
        kind: 'TokenRequest',
        spec: {
          audiences: ['vault'],
          boundObjectRef: { apiVersion: 'v1', kind: 'Pod', name: 'p', uid: 'u' },
          expirationSeconds: 1200,
        },
      },
    ],
    [
      '/apis/authorization.k8s.io/v1/selfsubjectaccessreviews',
      {
        apiVersion: 'authorization.k8s.io/v1',
        kind: 'SelfSubjectAccessReview',
        spec: { resourceAttributes: { namespace: 'shop', verb: 'get', resource: 'pods', name: 'web' } },
      },
    ],
    [
      '/apis/authentication.k8s.io/v1/selfsubjectreviews',
      { apiVersion: 'authentication.k8s.io/v1', kind: 'SelfSubjectReview' },
    ],
  ]);
  for (const { accept } of captured) assert.equal(negotiateAnswer(accept, objectConversions).type, 'application/json');
});
