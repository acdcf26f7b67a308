/** `mountlet apiserver` as an operator meets it: starting, refusing, stopping, being killed, backups, and what is on disk. */
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { cpSync, readFileSync, readdirSync, rmSync, statSync, truncateSync } from 'node:fs';
import { createServer } from 'node:net';
import { join } from 'node:path';
import type { TestContext } from 'node:test';
import { test } from 'node:test';
import { messageOf } from '../src/base/errors.ts';
import type { RunningApiServer } from './api-server-program.ts';
import { AdminClient } from './admin-client.ts';
import { startApiServerProgram } from './api-server-program.ts';
import { isRoot, mountlet, programCommand, rootDirectory } from './mountlet-program.ts';

const configMaps = '/api/v1/namespaces/default/configmaps';
const secrets = '/api/v1/namespaces/default/secrets';

interface Started {
  readonly server: RunningApiServer;
  readonly client: AdminClient;
}

async function start(t: Pick<TestContext, 'after'>, directory: string, listen?: string): Promise<Started> {
  const server = await startApiServerProgram(directory, listen === undefined ? {} : { listen });
  t.after(() => server.kill());
  const client = await AdminClient.connect(server);
  t.after(() => client.close());
  return { server, client };
}

function configMap(name: string, text: string): object {
  return { apiVersion: 'v1', kind: 'ConfigMap', metadata: { name }, data: { text } };
}

interface ObjectList {
  readonly items: readonly { readonly metadata: { readonly name: string }; readonly data?: Record<string, string> }[];
}

/** Every object with its metadata; what the server itself keeps renewing is not asked for. */
async function everything(client: AdminClient): Promise<unknown> {
  const lists = ['namespaces', 'configmaps', 'secrets', 'serviceaccounts', 'services'].map(async (kind) => [
    kind,
    (await client.ask<ObjectList>('GET', `/api/v1/${kind}`)).items,
  ]);
  return Object.fromEntries(await Promise.all(lists)) as unknown;
}

/** All files below a directory, with their paths. */
function filesBelow(directory: string): string[] {
  return readdirSync(directory, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => join(entry.parentPath, entry.name));
}

test('it prints one line when it is ready, and is', async (t) => {
  const { server, client } = await start(t, rootDirectory(t));
  assert.deepEqual(await client.request('GET', '/readyz'), { code: 200, text: 'ok' });
  await client.ask('POST', configMaps, configMap('web', 'x'));
  client.close();
  assert.equal(await server.stop(), 0);
  assert.equal(server.stdout.length, 1);
});

test('a second server on the same data is refused, and the first goes on', async (t) => {
  const directory = rootDirectory(t);
  const { server, client } = await start(t, directory);
  const { code, stdout, stderr } = mountlet(['apiserver', '--data', directory, '--listen', '127.0.0.1:0']);
  assert.deepEqual({ code, stdout }, { code: 1, stdout: '' });
  const command = [...programCommand(false), 'apiserver', '--data', directory, '--listen', '127.0.0.1:0'].join(' ');
  assert.equal(
    stderr,
    `error: Cannot use "${join(directory, 'store')}": process ${server.process.pid} (${command}) uses it; ` +
      'end that process, or choose another directory\n',
  );
  await client.ask('POST', configMaps, configMap('web', 'x'));
});

test('a port that is in use is refused with a message, and the data is free again', async (t) => {
  const directory = rootDirectory(t);
  const other = createServer().listen(0, '127.0.0.1');
  await once(other, 'listening');
  const { port } = other.address() as { port: number };
  const { code, stdout, stderr } = mountlet(['apiserver', '--data', directory, '--listen', `127.0.0.1:${port}`]);
  other.close();
  await once(other, 'close');
  assert.deepEqual({ code, stdout }, { code: 1, stdout: '' });
  assert.equal(
    stderr,
    `error: Cannot listen on 127.0.0.1:${port}: another program listens there; end it, or choose another port\n`,
  );
  await start(t, directory, `127.0.0.1:${port}`);
});

const addresses = [
  { it: 'without a port', listen: '127.0.0.1', says: /^error: Cannot listen on "127\.0\.0\.1": give HOST:PORT/ },
  { it: 'with a port out of range', listen: 'localhost:70000', says: /^error: Cannot listen on "localhost:70000": / },
  { it: 'that is not of this machine', listen: '192.0.2.1:0', says: /^error: Cannot listen on 192\.0\.2\.1:0: / },
];
for (const { it, listen, says } of addresses) {
  test(`--listen ${it} is refused with one line`, (t) => {
    const { code, stdout, stderr } = mountlet(['apiserver', '--data', rootDirectory(t), '--listen', listen]);
    assert.deepEqual({ code, stdout }, { code: 1, stdout: '' });
    assert.match(stderr, says);
    assert.equal(stderr.trimEnd().split('\n').length, 1, stderr);
  });
}

test('SIGTERM ends it with 0 while watches are open', { timeout: 240_000 }, async (t) => {
  const { server, client } = await start(t, rootDirectory(t));
  const watches = await Promise.all(
    Array.from({ length: 50 }, () => client.watch(`${configMaps}?watch=1&timeoutSeconds=3000`)),
  );
  const ended = watches.map(async (stream) => {
    stream.resume();
    await once(stream, 'end');
  });
  assert.equal(await server.stop(), 0);
  await Promise.all(ended);
});

test('kill -9 in the middle of writes loses no acknowledged write', { timeout: 240_000 }, async (t) => {
  const directory = rootDirectory(t);
  const acknowledged = new Map<string, number>();
  for (let round = 0; round < 3; round += 1) {
    const { server, client } = await start(t, directory);
    let count = 0;
    let killed: Promise<void> | undefined;
    await Promise.all(
      Array.from({ length: 8 }, async (_, writer) => {
        for (let n = 0; killed === undefined; n += 1) {
          const name = `r${round}-w${writer}-${n}`;
          const answer = await client
            .request('POST', configMaps, configMap(name, 'x'.repeat(500)))
            .catch(() => undefined);
          if (answer === undefined) return;
          assert.equal(answer.code, 201, answer.text);
          const { metadata } = JSON.parse(answer.text) as { metadata: { resourceVersion: string } };
          acknowledged.set(name, Number(metadata.resourceVersion));
          count += 1;
          // The others have writes under way at this moment.
          if (count === 100 + round * 37) killed = server.kill();
        }
      }),
    );
    await killed;
  }
  const { client } = await start(t, directory);
  const { items, metadata } = await client.ask<ObjectList & { metadata: { resourceVersion: string } }>(
    'GET',
    configMaps,
  );
  const found = new Set(items.map((item) => item.metadata.name));
  assert.deepEqual(
    [...acknowledged.keys()].filter((name) => !found.has(name)),
    [],
  );
  assert.ok(Number(metadata.resourceVersion) >= Math.max(...acknowledged.values()), 'revisions go on');
});

test('a backup of a running server, restored with its keys, has the same objects', async (t) => {
  const [directory, elsewhere] = [rootDirectory(t), rootDirectory(t)];
  const file = join(elsewhere, 'backup');
  const restored = join(elsewhere, 'restored');
  const { server, client } = await start(t, directory);
  await client.ask('POST', configMaps, configMap('web', 'x'));
  await client.ask('POST', secrets, { metadata: { name: 's' }, stringData: { password: 'correct horse' } });
  const before = await everything(client);
  const backup = mountlet(['apiserver', 'backup', file, '--data', directory]);
  assert.deepEqual({ code: backup.code, stdout: backup.stdout }, { code: 0, stdout: '' });
  assert.match(backup.stderr, new RegExp(`${directory}/pki.*not in the copy`));
  assert.equal(statSync(file).mode & 0o7777, 0o600);
  await client.ask('POST', configMaps, configMap('later', 'x'));
  client.close();
  await server.stop();
  const restore = mountlet(['apiserver', 'restore', file, '--data', restored]);
  assert.equal(restore.code, 0, restore.stderr);
  assert.match(restore.stderr, /pki/, 'it says where the keys belong');
  cpSync(join(directory, 'pki'), join(restored, 'pki'), { recursive: true });
  // The same address, so that the server's own endpoint is the same object.
  const again = await start(t, restored, new URL(server.url).host);
  assert.deepEqual(await everything(again.client), before);
  const refused = mountlet(['apiserver', 'restore', file, '--data', restored]);
  assert.equal(refused.code, 1);
  assert.match(refused.stderr, /^error: .*it is not empty/);
});

test('a store that was emptied, or misses a file, is refused with the command to restore a backup, unless nothing is lost', async (t) => {
  const [directory, elsewhere] = [rootDirectory(t), rootDirectory(t)];
  const file = join(elsewhere, 'backup');
  const store = join(directory, 'store');
  const { server, client } = await start(t, directory);
  await client.ask('POST', configMaps, configMap('web', 'x'));
  assert.equal(mountlet(['apiserver', 'backup', file, '--data', directory]).code, 0);
  await client.ask('POST', configMaps, configMap('later', 'x'));
  await server.kill();
  const whole = join(elsewhere, 'whole');
  cpSync(directory, whole, { recursive: true });

  const losses: (() => void)[] = [
    () => rmSync(store, { recursive: true }),
    () => readdirSync(store).forEach((name) => rmSync(join(store, name))),
    ...readdirSync(store).map((name) => () => rmSync(join(store, name))),
    ...readdirSync(store).map((name) => () => truncateSync(join(store, name))),
  ];
  let refusals = 0;
  for (const [index, lose] of losses.entries()) {
    rmSync(directory, { recursive: true });
    cpSync(whole, directory, { recursive: true });
    lose();
    const again = await startApiServerProgram(directory).catch(messageOf);
    if (typeof again === 'string') {
      refusals += 1;
      const says = `error: Cannot open the store in "${store}": .*restore a backup: mountlet apiserver restore FILE --data "${directory}"`;
      assert.match(again, new RegExp(says));
      continue;
    }
    t.after(() => again.kill());
    assert.ok(index > 1, 'an emptied store is refused');
    const reader = await AdminClient.connect(again);
    assert.equal((await reader.request('GET', `${configMaps}/later`)).code, 200, `loss ${index}`);
    reader.close();
    await again.kill();
  }
  assert.ok(refusals > 2, 'a loss that matters is refused');

  // What the message says to do, done.
  rmSync(store, { recursive: true });
  assert.equal(mountlet(['apiserver', 'restore', file, '--data', directory]).code, 0);
  const restored = await start(t, directory);
  assert.equal((await restored.client.request('GET', `${configMaps}/web`)).code, 200);
  assert.equal((await restored.client.request('GET', `${configMaps}/later`)).code, 404);
});

test(
  'on a full disk writes are refused in words and objects can be deleted, also after a restart, until there is room again',
  { skip: !isRoot && 'needs root: mounts a small tmpfs' },
  async (t) => {
    const directory = rootDirectory(t);
    assert.equal(spawnSync('mount', ['-t', 'tmpfs', '-o', 'size=40m', 'none', directory]).status, 0);
    let { server, client } = await start(t, directory);
    const core = '/api/v1/namespaces';
    await client.ask('POST', core, { metadata: { name: 'shop' } });
    const large = 'x'.repeat(500_000);
    for (let i = 0; i < 6; i += 1) await client.ask('POST', `${core}/shop/configmaps`, configMap(`large-${i}`, large));
    for (let i = 0; i < 6; i += 1) await client.ask('POST', configMaps, configMap(`kept-${i}`, large));
    const pod = { metadata: { name: 'p' }, spec: { nodeName: 'n', containers: [{ name: 'c', image: 'i' }] } };
    await client.ask('POST', '/api/v1/namespaces/default/pods', pod);
    const other = join(directory, 'other');
    spawnSync('dd', ['if=/dev/zero', `of=${other}`, 'bs=4k']);

    const refusal = async (): Promise<void> => {
      let answer = { code: 0, text: '' };
      // It is noticed when room is needed; the log has some.
      for (let i = 0; answer.code !== 507 && i < 50; i += 1) {
        answer = await client.request('POST', configMaps, configMap(`more-${i}`, large));
      }
      assert.equal(answer.code, 507, answer.text);
      const { reason, message } = JSON.parse(answer.text) as { reason: string; message: string };
      assert.equal(reason, 'InsufficientStorage');
      assert.match(
        message,
        /disk .* is full: nothing was changed; free some room on it .*deleting objects still works/,
      );
    };
    await refusal();
    await client.ask('DELETE', `${configMaps}/kept-0`);
    // A pod on a node is marked first, and its end is reported by the node.
    await client.ask('DELETE', '/api/v1/namespaces/default/pods/p');
    await client.ask('DELETE', '/api/v1/namespaces/default/pods/p?gracePeriodSeconds=0');
    const gone = await client.watch(`${core}?watch=true&fieldSelector=metadata.name=shop`);
    await client.ask('DELETE', `${core}/shop`);
    for await (const piece of gone) if (String(piece).includes('"DELETED"')) break;
    client.close();
    await server.kill();

    ({ server, client } = await start(t, directory, new URL(server.url).host));
    await refusal();
    await client.ask('DELETE', `${configMaps}/kept-1`);
    assert.equal((await client.request('GET', `${core}/shop`)).code, 404);
    assert.equal((await client.request('GET', `${configMaps}/kept-0`)).code, 404);
    rmSync(other);
    let code = 507;
    while (code === 507) ({ code } = await client.request('POST', configMaps, configMap('again', large)));
    assert.equal(code, 201);
  },
);

test('a restored store without its key serves the rest and says which Secrets it cannot read', async (t) => {
  const [directory, elsewhere] = [rootDirectory(t), rootDirectory(t)];
  const file = join(elsewhere, 'backup');
  const restored = join(elsewhere, 'restored');
  const { client, server } = await start(t, directory);
  await client.ask('POST', configMaps, configMap('web', 'x'));
  await client.ask('POST', secrets, { metadata: { name: 's' }, stringData: { password: 'correct horse' } });
  assert.equal(mountlet(['apiserver', 'backup', file, '--data', directory]).code, 0);
  await server.kill();
  assert.equal(mountlet(['apiserver', 'restore', file, '--data', restored]).code, 0);
  const again = await start(t, restored);
  assert.match(
    again.server.stderr(),
    /^error: API server: .*secrets\/default\/s.*encrypted with the key "[0-9a-f]{16}", which was not given/m,
  );
  const { data } = await again.client.ask<{ data: Record<string, string> }>('GET', `${configMaps}/web`);
  assert.deepEqual(data, { text: 'x' });
  const { code, text } = await again.client.request('GET', `${secrets}/s`);
  assert.equal(code, 500, text);
  assert.match(text, /encrypted with the key/);
});

const usage = [
  { it: 'a backup of nothing', args: ['backup', 'FILE'], says: /^error: .*there is no store in it/ },
  { it: 'a restore of nothing', args: ['restore', 'FILE'], says: /^error: .*FILE/ },
];
for (const { it, args, says } of usage) {
  test(`${it} is refused and leaves nothing behind`, (t) => {
    const directory = rootDirectory(t);
    const named = args.map((argument) => (argument === 'FILE' ? join(directory, 'FILE') : argument));
    const { code, stderr } = mountlet(['apiserver', ...named, '--data', join(directory, 'data')]);
    assert.equal(code, 1, stderr);
    assert.match(stderr, says);
    assert.deepEqual(readdirSync(directory), []);
  });
}

test('Secrets are nowhere on disk in clear, while it runs and after it has ended', async (t) => {
  const directory = rootDirectory(t);
  const { server, client } = await start(t, directory);
  const password = 'correct-horse-battery-staple';
  const manifest = { metadata: { name: 's' }, stringData: { password } };
  await client.ask('POST', secrets, manifest);
  await client.ask('PUT', `${secrets}/s`, { ...manifest, stringData: { password: `${password}-2` } });
  await client.ask('DELETE', `${secrets}/s`);
  await client.ask('POST', secrets, manifest);
  await client.ask('POST', configMaps, configMap('web', 'not-a-secret'));
  const base64 = Buffer.from(password).toString('base64').slice(0, 30);
  const inClear = (text: string): string[] => filesBelow(directory).filter((file) => readFileSync(file).includes(text));
  const look = (): void => {
    assert.deepEqual([...inClear(password), ...inClear(base64)], []);
    assert.notDeepEqual(inClear('not-a-secret'), [], 'one looks where objects are');
  };
  look();
  client.close();
  assert.equal(await server.stop(), 0);
  look();
});

test('rotate-keys gives Secrets a new key, forgets the old one, and is refused while a server runs', async (t) => {
  const directory = rootDirectory(t);
  const keys = join(directory, 'pki', 'encryption.keys');
  const first = await start(t, directory);
  await first.client.ask('POST', secrets, { metadata: { name: 's' }, stringData: { password: 'x' } });
  const old = readFileSync(keys, 'utf8');
  const refused = mountlet(['apiserver', 'rotate-keys', '--data', directory]);
  assert.equal(refused.code, 1);
  assert.match(refused.stderr, /^error: Cannot use .*: process \d+ \(.* apiserver .*\) uses it/m);
  assert.equal(readFileSync(keys, 'utf8'), old);
  first.client.close();
  assert.equal(await first.server.stop(), 0);

  const { code, stderr } = mountlet(['apiserver', 'rotate-keys', '--data', directory]);
  assert.equal(code, 0, stderr);
  assert.match(stderr, /^wrote 1 value again/);
  const lines = readFileSync(keys, 'utf8').trim().split('\n');
  assert.equal(lines.length, 1);
  assert.ok(!old.includes(lines[0] ?? ''));
  const second = await start(t, directory);
  const secret = await second.client.ask<{ data: Record<string, string> }>('GET', `${secrets}/s`);
  assert.equal(secret.data['password'], 'eA==');
});

test('only its owner can read what it keeps', async (t) => {
  const directory = join(rootDirectory(t), 'made', 'by', 'it');
  await start(t, directory);
  const modeOf = (path: string): string => (statSync(path).mode & 0o7777).toString(8);
  assert.equal(modeOf(join(directory, 'pki')), '700');
  assert.equal(modeOf(join(directory, 'store')), '700');
  for (const file of filesBelow(directory)) assert.equal(modeOf(file), '600', file);
});
