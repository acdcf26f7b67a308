/** From a kubeconfig on disk to objects of the real API server, as the program does it. */
import assert from 'node:assert/strict';
import { chmodSync, writeFileSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { systemClock } from '../../base/clock.ts';
import { temporaryDirectory } from '../../testing/machine/temporary-directory.ts';
import { runningApiServer } from '../../testing/servers/running-api-server.ts';
import { scriptedApiServer } from '../../testing/servers/scripted-api-server.ts';
import { apiClientDefaults, connectApiClient } from './api-client.ts';
import { namespaces } from './resource-reference.ts';
import { type AccessDeps, clusterAccess } from '../credentials/cluster-access.ts';
import { runCommand } from '../credentials/exec-credentials.ts';
import { poolDefaults } from '../transport/connection-pool.ts';

const { signal } = new AbortController();

function deps(): AccessDeps {
  return {
    env: { PATH: '/usr/bin:/bin' },
    homeDirectory: '/nonexistent',
    readFile: (path) => readFile(path, 'utf8'),
    run: runCommand,
    hasTerminal: false,
    clock: systemClock,
  };
}

for (const kind of ['files', 'program'] as const) {
  test(`a client from a kubeconfig with a certificate from ${kind} lists the namespaces`, async (t) => {
    const server = await runningApiServer(t);
    const directory = temporaryDirectory(t);
    const { certificatePem, keyPem } = server.admin;
    const credential = {
      kind: 'ExecCredential',
      apiVersion: 'client.authentication.k8s.io/v1',
      status: { clientCertificateData: certificatePem, clientKeyData: keyPem },
    };
    writeFileSync(join(directory, 'ca.crt'), server.authorityPem);
    writeFileSync(join(directory, 'admin.crt'), certificatePem);
    writeFileSync(join(directory, 'admin.key'), keyPem);
    writeFileSync(join(directory, 'answer.json'), JSON.stringify(credential));
    writeFileSync(
      join(directory, 'login'),
      `#!/bin/sh\ntest -n "$KUBERNETES_EXEC_INFO" && cat ${directory}/answer.json\n`,
    );
    chmodSync(join(directory, 'login'), 0o755);
    const user =
      kind === 'files'
        ? '{ client-certificate: admin.crt, client-key: admin.key }'
        : '{ exec: { apiVersion: client.authentication.k8s.io/v1, command: ./login, interactiveMode: Never } }';
    const file = join(directory, 'kubeconfig');
    writeFileSync(
      file,
      [
        'current-context: here',
        `clusters: [{ name: here, cluster: { server: ${server.url}, certificate-authority: ca.crt } }]`,
        `users: [{ name: admin, user: ${user} }]`,
        'contexts: [{ name: here, context: { cluster: here, user: admin } }]',
      ].join('\n'),
    );
    const access = await clusterAccess({ kubeconfig: file, context: undefined }, deps());
    const client = connectApiClient(access, systemClock, apiClientDefaults, poolDefaults);
    t.after(() => client.close());
    const { items } = await client.list(namespaces, {}, signal);
    assert.ok(items.some(({ metadata }) => metadata.name === 'default'));
  });
}

test('a program that is not there is named, with the hint of the kubeconfig', async (t) => {
  const directory = temporaryDirectory(t);
  const file = join(directory, 'kubeconfig');
  const exec = {
    apiVersion: 'client.authentication.k8s.io/v1',
    command: './none',
    interactiveMode: 'Never',
    installHint: 'install none',
  };
  writeFileSync(
    file,
    JSON.stringify({
      'current-context': 'here',
      clusters: [{ name: 'here', cluster: { server: 'https://nowhere' } }],
      users: [{ name: 'me', user: { exec } }],
      contexts: [{ name: 'here', context: { cluster: 'here', user: 'me' } }],
    }),
  );
  const { credentials } = await clusterAccess({ kubeconfig: file, context: undefined }, deps());
  await assert.rejects(credentials.current(signal), {
    reason: 'ExecCredentialFailed',
    message: `Cannot get credentials from "${directory}/none": there is no such program\n\ninstall none`,
  });
});

for (const { name, isAccepted } of [
  { name: 'localhost', isAccepted: true },
  { name: '127.0.0.1', isAccepted: true },
  { name: 'other.acme.com', isAccepted: false },
]) {
  test(`a server that shall be ${name} is ${isAccepted ? 'accepted' : 'refused'} by its certificate`, async (t) => {
    const server = await runningApiServer(t);
    const file = join(temporaryDirectory(t), 'kubeconfig');
    const cluster = {
      server: server.url,
      'tls-server-name': name,
      'certificate-authority-data': Buffer.from(server.authorityPem).toString('base64'),
    };
    const context = { cluster: 'here' };
    writeFileSync(
      file,
      JSON.stringify({ clusters: [{ name: 'here', cluster }], contexts: [{ name: 'here', context }] }),
    );
    const access = await clusterAccess({ kubeconfig: file, context: 'here' }, deps());
    const client = connectApiClient(access, systemClock, apiClientDefaults, poolDefaults);
    t.after(() => client.close());
    if (isAccepted) assert.ok((await client.read('/version', {}, signal))['gitVersion']);
    else await assert.rejects(client.read('/version', {}, signal), { reason: 'ConnectionFailed', message: /altnames/ });
  });
}

test('a token file that was replaced is read again when the server refuses the old token; files of KUBECONFIG are merged', async (t) => {
  const server = await scriptedApiServer(t);
  const directory = temporaryDirectory(t);
  const write = (name: string, content: unknown): void =>
    writeFileSync(join(directory, name), typeof content === 'string' ? content : JSON.stringify(content));
  const cluster = { server: server.url, 'certificate-authority': 'ca.crt' };
  write('ca.crt', server.authorityPem);
  write('token', 'one\n');
  write('clusters', { clusters: [{ name: 'here', cluster }] });
  write('users', { users: [{ name: 'ann', user: { tokenFile: 'token' } }] });
  write('contexts', {
    'current-context': 'main',
    contexts: [{ name: 'main', context: { cluster: 'here', user: 'ann' } }],
  });
  const env = { KUBECONFIG: ['clusters', 'users', 'contexts'].map((name) => join(directory, name)).join(':') };
  const access = await clusterAccess({ kubeconfig: undefined, context: undefined }, { ...deps(), env });
  const client = connectApiClient(access, systemClock, apiClientDefaults, poolDefaults);
  t.after(() => client.close());
  const list = client.list(namespaces, {}, signal);
  const first = await server.next();
  assert.equal(first.headers.authorization, 'Bearer one');
  write('token', 'two\n');
  first.refuse(401, 'Unauthorized');
  const second = await server.next();
  assert.equal(second.headers.authorization, 'Bearer two');
  second.answer(200, { kind: 'NamespaceList', apiVersion: 'v1', metadata: { resourceVersion: '1' }, items: [] });
  await list;
});
