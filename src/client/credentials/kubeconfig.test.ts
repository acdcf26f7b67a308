/** From kubeconfig files to an endpoint and credentials. Files are in memory: nothing here depends on this machine. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { FakeClock, settle } from '../../testing/fakes/fake-clock.ts';
import { type AccessDeps, clusterAccess } from './cluster-access.ts';
import type { Command, CommandResult } from './exec-credentials.ts';

const signal = new AbortController().signal;
const base64 = (text: string): string => Buffer.from(text).toString('base64');

interface World extends AccessDeps {
  readonly files: Map<string, string>;
  readonly clock: FakeClock;
  readonly commands: Command[];
}

function world(
  files: Readonly<Record<string, string>>,
  {
    env = {},
    hasTerminal = false,
    run = () => ({ code: 1, stdout: '' }),
  }: {
    env?: Readonly<Record<string, string>>;
    hasTerminal?: boolean;
    run?: (command: Command) => CommandResult;
  } = {},
): World {
  const known = new Map(Object.entries(files));
  const commands: Command[] = [];
  return {
    files: known,
    clock: new FakeClock(Date.UTC(2026, 0, 1)),
    commands,
    env,
    hasTerminal,
    homeDirectory: '/home/ann',
    readFile: (path) => {
      const text = known.get(path);
      return text === undefined
        ? Promise.reject(Object.assign(new Error(`no such file ${path}`), { code: 'ENOENT' }))
        : Promise.resolve(text);
    },
    run: async (command) => {
      commands.push(command);
      return run(command);
    },
  };
}

interface Entries {
  readonly cluster?: object;
  readonly user?: object;
  readonly context?: object;
  readonly current?: string;
  readonly name?: string;
}

function kubeconfig({ cluster, user, context, current = 'main', name = 'main' }: Entries = {}): string {
  return JSON.stringify({
    apiVersion: 'v1',
    kind: 'Config',
    'current-context': current,
    clusters: [{ name, cluster: { server: 'https://one:6443', ...cluster } }],
    users: [{ name, user: user ?? {} }],
    contexts: [{ name, context: { cluster: name, user: name, ...context } }],
  });
}

const none = { kubeconfig: undefined, context: undefined };
const explicit = { kubeconfig: '/k/config', context: undefined };

const choices = [
  { it: '--kubeconfig before all', kubeconfig: '/k/config', env: { KUBECONFIG: '/k/other' }, host: 'one' },
  { it: 'KUBECONFIG before the home directory', env: { KUBECONFIG: '/k/other' }, host: 'two' },
  { it: 'the home directory when KUBECONFIG is empty', env: { KUBECONFIG: '' }, host: 'home' },
  { it: 'the home directory', env: {}, host: 'home' },
  { it: 'an empty file of KUBECONFIG as absent', env: { KUBECONFIG: '/k/empty:/k/other' }, host: 'two' },
  { it: 'the proxy of the environment', env: { HTTPS_PROXY: 'proxy:3128' }, host: 'home', proxy: 'proxy' },
  { it: 'a missing file of KUBECONFIG as absent', env: { KUBECONFIG: '/k/none:/k/other' }, host: 'two' },
];
for (const { it, env, host, proxy, ...given } of choices) {
  test(`the access takes ${it}`, async () => {
    const files = {
      '/k/empty': '',
      '/k/config': kubeconfig(),
      '/k/other': kubeconfig({ cluster: { server: 'https://two' } }),
      '/home/ann/.kube/config': kubeconfig({ cluster: { server: 'https://home' } }),
    };
    const settings = { context: undefined, kubeconfig: given.kubeconfig };
    const { endpoint } = await clusterAccess(settings, world(files, { env }));
    assert.equal(endpoint.url.hostname, host);
    assert.equal(endpoint.proxy?.hostname, proxy);
  });
}

test('of several files the first wins for each name, and relative paths are those of their file', async () => {
  const first = kubeconfig({ name: 'a', current: '', user: { tokenFile: 'token' } });
  const second = JSON.stringify({
    'current-context': 'b',
    clusters: [
      { name: 'a', cluster: { server: 'https://lost' } },
      { name: 'b', cluster: { server: 'https://b', 'certificate-authority': '../ca.crt' } },
    ],
    contexts: [{ name: 'b', context: { cluster: 'b', user: 'a', namespace: 'shop' } }],
  });
  const deps = world(
    { '/k/1/config': first, '/k/2/config': second, '/k/1/token': ' secret \n', '/k/ca.crt': 'PEM' },
    { env: { KUBECONFIG: '/k/1/config:/k/2/config' } },
  );
  const access = await clusterAccess(none, deps);
  assert.equal(access.endpoint.url.href, 'https://b/');
  assert.equal(access.namespace, 'shop');
  assert.equal((await access.endpoint.trust(signal)).authorityPem, 'PEM');
  assert.equal((await access.credentials.current(signal)).headers['authorization'], 'Bearer secret');
  const other = await clusterAccess({ ...none, context: 'a' }, deps);
  assert.equal(other.endpoint.url.hostname, 'one');
  assert.equal(other.namespace, 'default');
});

const secret = 'hunter2-very-secret';
const wrong = [
  {
    it: 'two users of one name',
    text: JSON.stringify({ users: [{ name: 'a' }, { name: 'a', user: { token: secret } }] }),
    error: /users\[1\]\.name: is used by another one before it/,
  },
  { it: 'no YAML', text: `a: [${secret}`, error: /"\/k\/config": line 1, column \d+/ },
  {
    it: 'a field of the wrong type',
    text: `users: [{name: a, user: {token: [${secret}]}}]`,
    error: /users\[0\]\.user\.token: expected a string, got a list/,
  },
  {
    it: 'data that is not base64',
    text: kubeconfig({ user: { 'client-key-data': `!${secret}` } }),
    error: /users\[0\]\.user\.client-key-data: expected base64 text/,
  },
  { it: 'no current context', text: kubeconfig({ current: '' }), error: /current-context: is not set/ },
  { it: 'an unknown context', text: kubeconfig({ current: 'x' }), error: /there is no context "x"/ },
  {
    it: 'an unknown cluster',
    text: kubeconfig({ context: { cluster: 'x' } }),
    error: /contexts\[0\]\.context\.cluster: there is no cluster "x"/,
  },
  {
    it: 'an unknown user',
    text: kubeconfig({ context: { user: 'x' } }),
    error: /contexts\[0\]\.context\.user: there is no user "x"/,
  },
  {
    it: 'no server',
    text: kubeconfig({ cluster: { server: '' } }),
    error: /clusters\[0\]\.cluster\.server: must be a URL/,
  },
  {
    it: 'a proxy by socks',
    text: kubeconfig({ cluster: { 'proxy-url': `socks5://u:${secret}@proxy:1080` } }),
    error: /proxy-url: socks5:\/\/ is not supported: use http:\/\/ or https:\/\//,
  },
  {
    it: 'an authority and none',
    text: kubeconfig({ cluster: { 'insecure-skip-tls-verify': true, 'certificate-authority': 'x' } }),
    error: /insecure-skip-tls-verify: is set, but/,
  },
  {
    it: 'a certificate without a key',
    text: kubeconfig({ user: { 'client-certificate-data': base64(secret) } }),
    error: /users\[0\]\.user\.client-key: is missing/,
  },
  {
    it: 'a key without a certificate',
    text: kubeconfig({ user: { 'client-key-data': base64(secret) } }),
    error: /client-certificate: is missing/,
  },
  {
    it: 'an auth provider',
    text: kubeconfig({ user: { 'auth-provider': { name: secret } } }),
    error: /auth-provider: is no longer supported/,
  },
  {
    it: 'groups without a user to act as',
    text: kubeconfig({ user: { 'as-groups': ['x'] } }),
    error: /user\.as: is missing/,
  },
  {
    it: 'exec without a command',
    text: kubeconfig({ user: { exec: { apiVersion: 'client.authentication.k8s.io/v1' } } }),
    error: /exec\.command: name the program/,
  },
  {
    it: 'exec in an old version',
    text: kubeconfig({ user: { exec: { command: 'x', apiVersion: 'client.authentication.k8s.io/v1alpha1' } } }),
    error: /exec\.apiVersion: must be one of/,
  },
  {
    it: 'exec v1 without a mode',
    text: kubeconfig({ user: { exec: { command: 'x', apiVersion: 'client.authentication.k8s.io/v1' } } }),
    error: /exec\.interactiveMode: must be one of/,
  },
  {
    it: 'exec that must ask without a terminal',
    text: kubeconfig({
      user: { exec: { command: 'x', apiVersion: 'client.authentication.k8s.io/v1', interactiveMode: 'Always' } },
    }),
    error: /there is no terminal/,
  },
];
for (const { it, text, error } of wrong) {
  test(`a kubeconfig with ${it} is refused by file and field, without its values`, async () => {
    const failure: unknown = await clusterAccess(explicit, world({ '/k/config': text })).catch((e: unknown) => e);
    assert.ok(failure instanceof Error);
    assert.match(failure.message, error);
    assert.match(failure.message, /"\/k\/config"/);
    assert.ok(!failure.message.includes(secret));
    assert.ok(!failure.message.includes(base64(secret)));
  });
}

test('a kubeconfig with nothing in it counts as none, unless it was asked for', async () => {
  const directory = '/var/run/secrets/kubernetes.io/serviceaccount';
  const empty = JSON.stringify({ apiVersion: 'v1', kind: 'Config', clusters: [], users: [], contexts: [] });
  const deps = world(
    { '/home/ann/.kube/config': empty, '/k/config': empty, [`${directory}/token`]: 'one' },
    { env: { KUBERNETES_SERVICE_HOST: '10.96.0.1', KUBERNETES_SERVICE_PORT: '443', HTTPS_PROXY: 'proxy:3128' } },
  );
  const { endpoint } = await clusterAccess(none, deps);
  assert.equal(endpoint.url.hostname, '10.96.0.1');
  assert.equal(endpoint.proxy?.hostname, 'proxy');
  await assert.rejects(clusterAccess(explicit, deps), { message: /current-context: is not set/ });
});

test('a token beside a token file serves until the file can be read', async () => {
  const deps = world({ '/k/config': kubeconfig({ user: { token: 'one', tokenFile: 't' } }) });
  const { credentials } = await clusterAccess(explicit, deps);
  assert.equal((await credentials.current(signal)).headers['authorization'], 'Bearer one');
  deps.files.set('/k/t', 'two');
  assert.equal((await credentials.current(signal)).headers['authorization'], 'Bearer two');
});

test('an explicit kubeconfig must exist', async () => {
  await assert.rejects(clusterAccess(explicit, world({})), {
    reason: 'KubeconfigInvalid',
    message: 'Cannot use kubeconfig "/k/config": there is no such file',
  });
});

test('without a kubeconfig and outside a cluster the error says what to do', async () => {
  await assert.rejects(clusterAccess(none, world({})), { reason: 'NoCluster', message: /give --kubeconfig/ });
});

test('inside a cluster address, token, authority and namespace are those of the pod, and the token is read again', async () => {
  const directory = '/var/run/secrets/kubernetes.io/serviceaccount';
  const deps = world(
    { [`${directory}/token`]: 'one', [`${directory}/ca.crt`]: 'PEM', [`${directory}/namespace`]: 'shop\n' },
    { env: { KUBERNETES_SERVICE_HOST: 'fd00::1', KUBERNETES_SERVICE_PORT: '443' } },
  );
  const access = await clusterAccess(none, deps);
  assert.equal(access.endpoint.url.href, 'https://[fd00::1]/');
  assert.equal(access.namespace, 'shop');
  assert.deepEqual(await access.endpoint.trust(signal), { authorityPem: 'PEM', isInsecure: false });
  assert.equal((await access.credentials.current(signal)).headers['authorization'], 'Bearer one');
  deps.files.set(`${directory}/token`, 'two');
  assert.equal((await access.credentials.current(signal)).headers['authorization'], 'Bearer one', 'not for a while');
  await deps.clock.advance(10_000);
  assert.equal((await access.credentials.current(signal)).headers['authorization'], 'Bearer two');
  deps.files.delete(`${directory}/token`);
  await deps.clock.advance(10_000);
  assert.equal((await access.credentials.current(signal)).headers['authorization'], 'Bearer two', 'the last one stays');
});

test('credentials of a user are the same object until they change, and files are read again after a refusal', async () => {
  const user = { 'client-certificate': 'c.pem', 'client-key': 'k.pem', tokenFile: 't' };
  const deps = world({ '/k/config': kubeconfig({ user }), '/k/c.pem': 'C', '/k/k.pem': 'K', '/k/t': 'T' });
  const { credentials } = await clusterAccess(explicit, deps);
  const first = await credentials.current(signal);
  assert.deepEqual(first, {
    headers: { authorization: 'Bearer T' },
    identity: { certificatePem: 'C', keyPem: 'K' },
  });
  assert.equal(await credentials.current(signal), first);
  deps.files.set('/k/c.pem', 'C2');
  assert.equal(credentials.refused(first), true);
  const second = await credentials.current(signal);
  assert.equal(second.identity?.certificatePem, 'C2');
  assert.equal(credentials.refused(first), true, 'others are already there');
});

test('a token in the file cannot be renewed', async () => {
  const deps = world({ '/k/config': kubeconfig({ user: { token: 'T', username: 'ann', password: 'p' } }) });
  const { credentials } = await clusterAccess(explicit, deps);
  const current = await credentials.current(signal);
  assert.equal(current.headers['authorization'], 'Bearer T');
  assert.equal(credentials.refused(current), false);
});

test('the user to act as is sent in headers, each group in one of its own', async () => {
  const user = {
    as: 'ann',
    'as-uid': '7',
    'as-groups': ['dev', 'ops,2'],
    'as-user-extra': { 'Acme.com/Team': ['x', 'y'] },
  };
  const { credentials } = await clusterAccess(explicit, world({ '/k/config': kubeconfig({ user }) }));
  assert.deepEqual((await credentials.current(signal)).headers, {
    'impersonate-user': 'ann',
    'impersonate-uid': '7',
    'impersonate-group': ['dev', 'ops,2'],
    'impersonate-extra-acme.com%2Fteam': ['x', 'y'],
  });
});

test('a cluster may name a proxy, another server name, a path, and no authority at all', async () => {
  const cluster = {
    server: 'https://one:6443/k8s/clusters/c-1/',
    'proxy-url': 'http://proxy:3128',
    'tls-server-name': 'api',
    'insecure-skip-tls-verify': true,
  };
  const { endpoint } = await clusterAccess(explicit, world({ '/k/config': kubeconfig({ cluster }) }));
  assert.equal(endpoint.proxy?.host, 'proxy:3128');
  assert.equal(endpoint.url.pathname, '/k8s/clusters/c-1/');
  assert.deepEqual(await endpoint.trust(signal), { isInsecure: true, serverName: 'api', authorityPem: undefined });
});

const v1 = 'client.authentication.k8s.io/v1';
const exec = {
  apiVersion: v1,
  command: './login',
  args: ['--a'],
  env: [{ name: 'X', value: '1' }],
  interactiveMode: 'IfAvailable',
};
const credential = (status: object, apiVersion = v1): CommandResult => ({
  code: 0,
  stdout: JSON.stringify({ kind: 'ExecCredential', apiVersion, status }),
});

test('a program is run once for many, again when its credentials expire, and again when they were refused', async () => {
  let runs = 0;
  const deps = world(
    { '/k/config': kubeconfig({ user: { exec: { ...exec, provideClusterInfo: true } } }) },
    {
      env: { PATH: '/bin' },
      run: () => credential({ token: `T${++runs}`, expirationTimestamp: `2026-01-01T0${runs}:00:00Z` }),
    },
  );
  const { credentials } = await clusterAccess(explicit, deps);
  const token = async (): Promise<unknown> => (await credentials.current(signal)).headers['authorization'];
  assert.deepEqual(await Promise.all([token(), token(), token()]), ['Bearer T1', 'Bearer T1', 'Bearer T1']);
  const [command] = deps.commands;
  assert.equal(command?.command, '/k/login', 'a path is relative to its file');
  assert.deepEqual(command?.args, ['--a']);
  assert.equal(command?.env['X'], '1');
  assert.equal(command?.env['PATH'], '/bin');
  assert.deepEqual(JSON.parse(command?.env['KUBERNETES_EXEC_INFO'] ?? ''), {
    kind: 'ExecCredential',
    apiVersion: v1,
    spec: { cluster: { server: 'https://one:6443' }, interactive: false },
  });
  await deps.clock.advance(3_600_000);
  assert.equal(await token(), 'Bearer T2');
  const refused = await credentials.current(signal);
  assert.equal(credentials.refused(refused), true);
  assert.equal(await token(), 'Bearer T3');
});

test('a program may give a certificate, in the older version too, and may ask at a terminal', async () => {
  const v1beta1 = 'client.authentication.k8s.io/v1beta1';
  const user = { exec: { apiVersion: v1beta1, command: 'login' } };
  const status = { clientCertificateData: 'C', clientKeyData: 'K' };
  const deps = world(
    { '/k/config': kubeconfig({ user }) },
    { hasTerminal: true, run: () => credential(status, v1beta1) },
  );
  const { credentials } = await clusterAccess(explicit, deps);
  const { identity, headers } = await credentials.current(signal);
  assert.deepEqual(identity, { certificatePem: 'C', keyPem: 'K' });
  assert.deepEqual(headers, {});
  assert.equal(deps.commands[0]?.command, 'login');
  assert.equal(deps.commands[0]?.isInteractive, true);
});

const answers = [
  { it: 'ends with an error', result: { code: 3, stdout: secret }, error: /it ended with code 3\n\ninstall it/ },
  { it: 'prints no JSON', result: { code: 0, stdout: secret }, error: /is no JSON/ },
  { it: 'prints something else', result: { code: 0, stdout: '{}' }, error: /is no ExecCredential/ },
  { it: 'answers in another version', result: credential({ token: secret }, 'v2'), error: /another apiVersion/ },
  { it: 'gives nothing', result: credential({}), error: /neither a token nor a certificate/ },
  { it: 'gives half a certificate', result: credential({ clientKeyData: secret }), error: /without a certificate/ },
  {
    it: 'gives a token that is none',
    result: credential({ token: [secret] }),
    error: /status\.token: expected a string/,
  },
  {
    it: 'gives a time that is none',
    result: credential({ token: secret, expirationTimestamp: 'soon' }),
    error: /is no time/,
  },
];
for (const { it, result, error } of answers) {
  test(`a program that ${it} gives an error without what it printed`, async () => {
    const user = { exec: { ...exec, installHint: 'install it' } };
    const deps = world({ '/k/config': kubeconfig({ user }) }, { run: () => result });
    const { credentials } = await clusterAccess(explicit, deps);
    const failure: unknown = await credentials.current(signal).catch((e: unknown) => e);
    assert.ok(failure instanceof Error);
    assert.match(failure.message, error);
    assert.ok(!failure.message.includes(secret));
  });
}

test('who gives up waiting for a program leaves it to the others, and the last one ends it', async () => {
  const deps = world({ '/k/config': kubeconfig({ user: { exec } }) });
  const signals: AbortSignal[] = [];
  let finish = (): void => {};
  const run: AccessDeps['run'] = (_, stop) =>
    new Promise((resolve, reject) => {
      signals.push(stop);
      stop.addEventListener('abort', () => reject(stop.reason));
      finish = () => resolve(credential({ token: 'T' }));
    });
  const { credentials } = await clusterAccess(explicit, { ...deps, run });
  const [one, two] = [new AbortController(), new AbortController()];
  const first = assert.rejects(credentials.current(one.signal), { message: 'one gave up' });
  const second = credentials.current(two.signal);
  one.abort(new Error('one gave up'));
  await first;
  assert.equal(signals[0]?.aborted, false, 'somebody still waits for it');
  finish();
  assert.equal((await second).headers['authorization'], 'Bearer T');
  credentials.refused(await second);
  const third = assert.rejects(credentials.current(two.signal), { message: 'two gave up' });
  await settle();
  two.abort(new Error('two gave up'));
  await third;
  assert.equal(signals[1]?.aborted, true);
  const fourth = credentials.current(signal);
  await settle();
  finish();
  assert.equal((await fourth).headers['authorization'], 'Bearer T', 'it was started anew');
});
