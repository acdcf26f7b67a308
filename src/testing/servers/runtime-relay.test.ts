import assert from 'node:assert/strict';
import { join } from 'node:path';
import { test } from 'node:test';
import { socketChannel } from '../../grpc/grpc-channel.ts';
import { grpcClient } from '../../grpc/grpc-client.ts';
import { hasCode } from '../../grpc/grpc-error.ts';
import { RuntimeService } from '../../grpc/messages/cri_pb.ts';
import { containerdSkip, startContainerd } from '../machine/containerd.ts';
import { startRuntimeRelay } from './runtime-relay.ts';

test('calls are passed on, remembered, delayed, and fail as they do there', { skip: containerdSkip() }, async (t) => {
  const containerd = await startContainerd(t);
  const from = join(containerd.directory, 'relay.sock');
  const relay = await startRuntimeRelay(t, { from, to: containerd.socket });
  const channel = socketChannel(from);
  t.after(() => channel.close());
  const runtime = grpcClient(RuntimeService, channel);
  const { signal } = new AbortController();

  assert.equal((await runtime.version({ version: '0.1.0' }, { timeoutMs: 60_000, signal })).runtimeName, 'containerd');
  const absent = runtime.containerStatus({ containerId: 'absent' }, { timeoutMs: 60_000, signal });
  await assert.rejects(absent, (error) => hasCode(error, 'NOT_FOUND'));
  const moments: string[] = [];
  const leave = new AbortController();
  relay.watch(({ method }, moment) => {
    moments.push(`${method} ${moment}`);
    if (method !== 'ListContainers') return undefined;
    leave.abort();
    return new Promise(() => {});
  });
  await runtime.listPodSandbox({}, { timeoutMs: 60_000, signal });
  const held = runtime.listContainers({}, { timeoutMs: 60_000, signal: leave.signal });
  await assert.rejects(held, { name: 'AbortError' });
  assert.deepEqual(moments, ['ListPodSandbox asked', 'ListPodSandbox answered', 'ListContainers asked']);
  assert.deepEqual(
    relay.calls.map(({ number, method }) => `${number} ${method}`),
    ['1 Version', '2 ContainerStatus', '3 ListPodSandbox', '4 ListContainers'],
  );
  assert.equal(relay.requests(RuntimeService.method.containerStatus)[0]?.containerId, 'absent');
});
