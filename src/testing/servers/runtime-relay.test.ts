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

  assert.equal((await runtime.version({ version: '0.1.0' }, { timeoutMs: 5_000, signal })).runtimeName, 'containerd');
  const absent = runtime.containerStatus({ containerId: 'absent' }, { timeoutMs: 5_000, signal });
  await assert.rejects(absent, (error) => hasCode(error, 'NOT_FOUND'));
  const moments: string[] = [];
  relay.watch(({ method }, moment) => {
    moments.push(`${method} ${moment}`);
    return method === 'ListContainers' ? new Promise(() => {}) : undefined;
  });
  await runtime.listPodSandbox({}, { timeoutMs: 5_000, signal });
  await assert.rejects(runtime.listContainers({}, { timeoutMs: 100, signal }), (error) =>
    hasCode(error, 'DEADLINE_EXCEEDED'),
  );
  assert.deepEqual(moments, ['ListPodSandbox asked', 'ListPodSandbox answered', 'ListContainers asked']);
  assert.deepEqual(
    relay.calls.map(({ number, method }) => `${number} ${method}`),
    ['1 Version', '2 ContainerStatus', '3 ListPodSandbox', '4 ListContainers'],
  );
  assert.equal(relay.requests(RuntimeService.method.containerStatus)[0]?.containerId, 'absent');
});
