import assert from 'node:assert/strict';
import { test } from 'node:test';
import { FakeClock } from '../../testing/fakes/fake-clock.ts';
import { temporaryDirectory } from '../../testing/machine/temporary-directory.ts';
import { agentSettings } from './agent-settings.ts';
import { NodePresence } from './node-presence.ts';

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
    },
    settings,
  );
  const { metadata, spec, status } = presence.current() ?? assert.fail('there is no node');
  const { disk, 'kubernetes.io/os': system, 'kubernetes.io/hostname': host } = metadata.labels ?? {};
  assert.deepEqual([disk, system, host], ['ssd', 'linux', 'here']);
  assert.deepEqual(spec?.taints, [{ key: 'a', value: 'b', effect: 'NoExecute' }]);
  assert.deepEqual(Object.keys(status?.allocatable ?? {}).sort(), ['cpu', 'ephemeral-storage', 'memory', 'pods']);
});
