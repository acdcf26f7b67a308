import assert from 'node:assert/strict';
import { test } from 'node:test';
import { systemClock } from '../../base/clock.ts';
import { fixedCredentials } from '../../client/credentials/credentials.ts';
import { nodes } from '../../client/api/resource-reference.ts';
import { runningApiServer } from '../../testing/servers/test-api-server.ts';
import { FakeClock } from '../../testing/fakes/fake-clock.ts';
import { temporaryDirectory } from '../../testing/machine/temporary-directory.ts';
import { agentSettings } from './agent-settings.ts';
import { NodePresence, connectNode } from './node-presence.ts';

test('without a cluster the node has the labels, taints and room that it would register', (t) => {
  const settings = agentSettings(
    { nodeLabels: { disk: 'ssd' }, maxPods: 7, registerWithTaints: [{ key: 'a', value: 'b', effect: 'NoExecute' }] },
    { nodeName: 'here', rootDirectory: temporaryDirectory(t) },
  );
  const presence = new NodePresence(
    {
      clients: undefined,
      clock: new FakeClock(),
      random: () => 0,
      events: { record: () => {} },
      notify: () => {},
      runtimeVersion: 'fake://1',
      problems: () => [],
      isUnderDiskPressure: () => false,
      runtime: { images: undefined },
    },
    settings,
  );
  const { metadata, spec, status } = presence.current() ?? assert.fail('there is no node');
  const { disk, 'kubernetes.io/os': system, 'kubernetes.io/hostname': host } = metadata.labels ?? {};
  assert.deepEqual([disk, system, host], ['ssd', 'linux', 'here']);
  assert.deepEqual(spec?.taints, [{ key: 'a', value: 'b', effect: 'NoExecute' }]);
  assert.deepEqual(Object.keys(status?.allocatable ?? {}).sort(), ['cpu', 'ephemeral-storage', 'memory', 'pods']);
});

test('a volume that has just come into use is in the status of the node long before the next look', async (t) => {
  const server = await runningApiServer(t);
  const given = { nodeStatusUpdateFrequency: '10m' };
  const settings = agentSettings(given, { nodeName: 'here', rootDirectory: temporaryDirectory(t) });
  const trust = async (): Promise<{ authorityPem: string; isInsecure: false }> => {
    return { authorityPem: server.authorityPem, isInsecure: false };
  };
  const credentials = fixedCredentials({ headers: {}, identity: server.admin });
  const clients = connectNode({ endpoint: { url: new URL(server.url), trust }, credentials }, systemClock, settings);
  const stop = new AbortController();
  const presence = new NodePresence(
    {
      clients,
      clock: systemClock,
      random: () => 0,
      events: { record: () => {} },
      notify: () => {},
      runtimeVersion: 'fake://1',
      problems: () => [],
      isUnderDiskPressure: () => false,
      runtime: { images: undefined },
    },
    settings,
  );
  let inUse: readonly string[] = [];
  const reported = { port: 0, volumesInUse: () => inUse, reportedInUse: () => {} };
  const running = presence.run(reported, stop.signal);
  const admin = server.client();
  const listed = async (): Promise<unknown> => {
    const node = await admin.get(nodes, { name: 'here' }, stop.signal).catch(() => undefined);
    return (node as { readonly status?: { readonly volumesInUse?: unknown } } | undefined)?.status?.volumesInUse;
  };
  while (presence.current() === undefined) await systemClock.sleep(10);
  await systemClock.sleep(300);
  inUse = ['example.com/disk/data'];
  const startedAt = Date.now();
  presence.volumesInUseChanged();
  while (JSON.stringify(await listed()) !== JSON.stringify(inUse)) await systemClock.sleep(10);
  assert.ok(Date.now() - startedAt < settings.nodeStatusUpdateMs / 2);
  stop.abort();
  await running;
  await clients.close();
});
