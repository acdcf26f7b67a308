import assert from 'node:assert/strict';
import { test } from 'node:test';
import { systemClock } from '../base/clock.ts';
import { clusterTrustBundles, withShape } from '../client/api/resource-reference.ts';
import { clusterTrustBundleShape } from '../kube/kinds/cluster-trust-bundle.ts';
import { scriptedApiServer } from '../testing/servers/scripted-api-server.ts';
import { runningApiServer } from '../testing/servers/test-api-server.ts';
import { TrustBundles } from './trust-bundles.ts';

const resource = withShape(clusterTrustBundles, clusterTrustBundleShape);

test('trust bundles are watched from the first read on, and each change is reported with its version', async (t) => {
  const server = await runningApiServer(t);
  const { authorityPem: certificate } = server;
  const client = server.client();
  const stop = new AbortController();
  const { signal } = stop;
  const bundles = new TrustBundles({
    client,
    clock: systemClock,
    random: Math.random,
    notify: () => {},
  });
  const changes: string[] = [];
  let wake = (): void => {};
  const running = bundles.run((name, version) => {
    changes.push(`${name} ${version === undefined ? 'gone' : 'changed'}`);
    wake();
  }, signal);
  const next = (): Promise<void> => new Promise((resolve) => (wake = resolve));
  await client.create(resource, {}, { metadata: { name: 'ca' }, spec: { trustBundle: certificate } }, signal);

  assert.equal((await bundles.get('ca', signal))?.spec.trustBundle, certificate);
  assert.equal(await bundles.get('other', signal), undefined);
  assert.deepEqual(changes, []);
  let changed = next();
  await client.patch(resource, { name: 'ca', type: 'merge' }, { metadata: { labels: { tier: 'gold' } } }, signal);
  await changed;
  changed = next();
  await client.delete(resource, { name: 'ca' }, undefined, signal);
  await changed;
  assert.deepEqual(changes, ['ca changed', 'ca gone']);
  assert.deepEqual(await bundles.list('example.com/ca', signal), []);
  stop.abort();
  await running;
});

const bundle = { metadata: { name: 'ca', resourceVersion: '3' }, spec: { trustBundle: 'x' } };
const list = { metadata: { resourceVersion: '7' }, items: [bundle] };
const requests = { v1: ['certificatesigningrequests'], v1beta1: ['clustertrustbundles'], v1alpha1: [] };
/** What a server answers to `GET path`; `404`, `403` and the like where it refuses. */
const servers: readonly {
  it: string;
  has: Readonly<Record<string, readonly string[]>>;
  code?: number;
  ends: string;
}[] = [
  { it: 'the newest version is taken', has: { ...requests, v1: ['clustertrustbundles'] }, ends: 'v1' },
  { it: 'an older version is taken where the newest has other kinds alone', has: requests, ends: 'v1beta1' },
  {
    it: 'the oldest version is taken where there is no other',
    has: { v1: [], v1alpha1: ['clustertrustbundles'] },
    ends: 'v1alpha1',
  },
  {
    it: 'a server without bundles is an error, also of an optional source, and nothing is watched',
    has: { v1: ['certificatesigningrequests'] },
    ends: 'ClusterTrustBundle projection is not supported: the API server has no clustertrustbundles.certificates.k8s.io in version v1, v1beta1, v1alpha1',
  },
  {
    it: 'a server that refuses bundles to nodes is an error, and nothing is watched',
    has: requests,
    code: 403,
    ends: 'Forbidden',
  },
];
for (const { it, has, code = 200, ends } of servers) {
  test(`trust bundles: ${it}`, async (t) => {
    const server = await scriptedApiServer(t);
    const { client } = server.client();
    const stop = new AbortController();
    const bundles = new TrustBundles({ client, clock: systemClock, random: Math.random, notify: () => {} });
    const running = bundles.run(() => {}, stop.signal);
    const asked: string[] = [];
    void (async () => {
      for (;;) {
        const request = await server.next();
        const [, version = '', rest = ''] = /^\/apis\/certificates\.k8s\.io\/(\w+)(.*)$/.exec(request.path) ?? [];
        const kinds = has[version];
        asked.push(request.query['watch'] === undefined ? `${version}${rest}` : 'watch');
        if (kinds === undefined) request.refuse(404, 'NotFound');
        else if (rest === '') request.answer(200, { resources: kinds.map((name) => ({ name })) });
        else if (code !== 200) request.refuse(code, 'Forbidden');
        else if (request.query['watch'] !== undefined) request.refuse(422, 'Invalid');
        else if (rest.endsWith('/none')) request.refuse(404, 'NotFound', 'not found', { details: { name: 'none' } });
        else request.answer(200, rest.endsWith('/ca') ? bundle : list);
      }
    })();
    const read = bundles.get('ca', stop.signal);
    if (ends.startsWith('v1')) {
      assert.equal((await read)?.spec.trustBundle, 'x');
      assert.ok(asked.includes(`${ends}/clustertrustbundles/ca`), asked.join());
      assert.equal(await bundles.get('none', stop.signal), undefined);
    } else {
      await assert.rejects(read, { message: ends });
      await assert.rejects(bundles.list('example.com/ca', stop.signal), { message: ends });
      assert.ok(!asked.includes('watch'));
    }
    stop.abort();
    await running;
  });
}
