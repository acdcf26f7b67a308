import assert from 'node:assert/strict';
import { test } from 'node:test';
import { interfaceCountersOf } from './network-counters.ts';

test('traffic is read for each interface but loopback', () => {
  const table = `Inter-|   Receive                                                |  Transmit
 face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets errs drop fifo colls carrier compressed
    lo:     100       1    0    0    0     0          0         0      100       1    0    0    0     0       0          0
  eth0:    1234      10    2    0    0     0          0         0     5678      20    3    0    0     0       0          0
`;
  assert.deepEqual(interfaceCountersOf(table), [
    { name: 'eth0', receivedBytes: 1234, receiveErrors: 2, sentBytes: 5678, sendErrors: 3 },
  ]);
});
