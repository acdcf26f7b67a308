import assert from 'node:assert/strict';
import { test } from 'node:test';
import { systemClock } from '../base/clock.ts';
import { clusterTrustBundles, withShape } from '../client/api/resource-reference.ts';
import { clusterTrustBundleShape } from '../kube/kinds/cluster-trust-bundle.ts';
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
