/** A clock that was wrong by hours when a server started, and is put right while it runs or before the next start. */
import assert from 'node:assert/strict';
import { request } from 'node:https';
import { test } from 'node:test';
import { systemClock } from '../base/clock.ts';
import { http2Client } from '../testing/servers/test-client.ts';
import { startTestApiServer } from '../testing/servers/test-api-server.ts';
import { issueClientCertificate, issueServerCertificate, makeAuthority } from './identity/certificates.ts';

const hoursMs = 5 * 3_600_000;

test('a clock that is set back by hours shuts out neither the administrator nor pods nor nodes', async (t) => {
  let aheadMs = hoursMs;
  const clock = { ...systemClock, now: () => systemClock.now() + aheadMs };
  const then = { now: clock.now(), days: 1 };
  const authority = makeAuthority(then);
  const certificate = issueServerCertificate(authority, { hosts: ['localhost', '127.0.0.1'], ...then });
  const admin = issueClientCertificate(authority, { user: 'admin', groups: ['system:masters'], ...then });
  const server = await startTestApiServer({
    deps: { clock },
    settings: {
      tls: { certificate: certificate.certificatePem, key: certificate.keyPem, clientCa: authority.certificatePem },
    },
  });
  t.after(() => server.close());
  const client = http2Client({ url: server.url, authority });
  t.after(() => client.close());
  const account = '/api/v1/namespaces/default/serviceaccounts/default';
  const issued = await client.send(`${account}/token`, { method: 'POST', body: { spec: { expirationSeconds: 3600 } } });
  const { token } = issued.json.status;
  const leases = '/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases';
  const renewTime = (): string => `${new Date(clock.now()).toISOString().slice(0, -1)}000Z`;
  const lease = await client.send(leases, {
    method: 'POST',
    body: { metadata: { name: 'here' }, spec: { holderIdentity: 'here', renewTime: renewTime() } },
  });

  // TLS knows the real time only: for it the certificates are of the future already.
  aheadMs = 0;
  const status = await new Promise<number | undefined>((resolve, reject) => {
    const { certificatePem: cert, keyPem: key } = admin;
    const options = { ca: authority.certificatePem, cert, key, agent: false as const };
    request(`${server.url}/api/v1/namespaces/default/secrets`, options, (response) => {
      response.resume();
      resolve(response.statusCode);
    })
      .on('error', reject)
      .end();
  });
  assert.equal(status, 200, 'with the certificate of a kubeconfig');
  const review = await client.send('/apis/authentication.k8s.io/v1/tokenreviews', {
    method: 'POST',
    body: { spec: { token } },
  });
  assert.equal(review.json.status.authenticated, true, review.text);
  const who = await client.send('/apis/authentication.k8s.io/v1/selfsubjectreviews', {
    method: 'POST',
    body: {},
    token,
  });
  assert.equal(who.json.status?.userInfo.username, 'system:serviceaccount:default:default', who.text);
  const renewed = { ...lease.json, spec: { ...lease.json.spec, renewTime: renewTime() } };
  assert.equal((await client.send(`${leases}/here`, { method: 'PUT', body: renewed })).status, 200);
});
