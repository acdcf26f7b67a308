/** Messages to the kernel about networks, sent for real. What they are for: runtimes/process/networks.test.ts. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { NetlinkSocket, loopbackIndex, netlinkBatch, readNetlinkFailure, requests } from './netlink.ts';

test('interfaces are found by their names, and what fails says what and why', async (t) => {
  const socket = NetlinkSocket.open('routes');
  t.after(() => socket.close());
  assert.equal(await socket.indexOf('lo'), loopbackIndex);
  assert.equal(await socket.indexOf('no-such'), undefined);
  const removing = socket.ask(requests.deleteLink('no-such'));
  // Before it looks for the interface, the kernel asks whether the user may remove one.
  await assert.rejects(removing, { message: /remove the interface no-such/, code: /^(ENODEV|EPERM)$/ });
  const answers = await Promise.all(Array.from({ length: 20 }, () => socket.indexOf('lo')));
  assert.deepEqual(new Set(answers), new Set([loopbackIndex]), 'each has its own answer');
  assert.throws(() => requests.deleteLink('longer-than-15-characters'), { code: 'ENAMETOOLONG' });
});

test('requests stand one after the other, and a failure names the one that failed', () => {
  const batch = [requests.setUp(1), requests.addAddress(7, '10.0.0.9', 22), requests.addDefaultRoute(7, '10.0.0.1')];
  const bytes = netlinkBatch(batch, 0);
  const lengths = [];
  for (let at = 0; at < bytes.length; at += bytes.readUInt32LE(at)) lengths.push(bytes.readUInt32LE(at));
  assert.equal(lengths.length, batch.length);
  assert.ok(lengths.every((length) => length % 4 === 0));
  assert.ok(bytes.includes(Buffer.from([10, 0, 3, 255])), 'the broadcast address of a /22');

  const report = Buffer.alloc(36);
  report.writeUInt16LE(2, 4);
  report.writeInt32LE(-17, 16);
  report.writeUInt32LE(1, 28);
  assert.deepEqual(readNetlinkFailure(report, batch), { what: 'add the address 10.0.0.9', errno: 17 });
  assert.equal(readNetlinkFailure(report.subarray(0, 20), batch), undefined);
  assert.equal(readNetlinkFailure(Buffer.alloc(36), batch), undefined);
});
