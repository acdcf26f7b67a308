import assert from 'node:assert/strict';
import { test } from 'node:test';
import { apiClientDefaults } from '../client/api/api-client.ts';
import { heartbeatClientSettings } from './node-lease.ts';

test('heartbeats have no rate and no more patience than there is between two of them', () => {
  const settings = heartbeatClientSettings(apiClientDefaults, { nodeStatusUpdateMs: 10_000, leaseSeconds: 40 });
  assert.equal(settings.rate.perSecond, Infinity);
  assert.equal(settings.requestTimeoutMs, 10_000);
  assert.ok(settings.retryAfterMsMax * settings.retriesMax < 10_000);
  const short = heartbeatClientSettings(apiClientDefaults, { nodeStatusUpdateMs: 10_000, leaseSeconds: 4 });
  assert.equal(short.requestTimeoutMs, 4_000);
});
