/** From a kubeconfig on disk to objects of the real API server, as the program does it. */
import assert from 'node:assert/strict';
import { chmodSync, writeFileSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { systemClock } from '../base/clock.ts';
import { runningApiServer } from '../testing/running-api-server.ts';
import { temporaryDirectory } from '../testing/temporary-directory.ts';
import { apiClientDefaults } from './api-client.ts';
import type { AccessDeps } from './cluster-access.ts';
import { clusterAccess } from './cluster-access.ts';
import { connectApiClient } from './connect.ts';
import { poolDefaults } from './connection-pool.ts';
import { namespaces } from './resource-reference.ts';
import { runCommand } from './run-command.ts';

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
