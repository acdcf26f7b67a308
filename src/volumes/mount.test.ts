import assert from 'node:assert/strict';
import { test } from 'node:test';
import { PluginRegistry } from '../plugins/registry.ts';
import { ScriptedError, ScriptedPlugin, storageSpec } from '../testing/fakes/scripted-plugin.ts';
import { ActualState } from './actual-state.ts';
import { recordFailedDevice, recordFailedMount } from './mount.ts';
import { asPodUid, asVolumeName } from './volume-name.ts';

const volume = asVolumeName('example.com/disk/disk');
const spec = storageSpec('disk');
const record = { volume, podUid: asPodUid('web'), spec, pluginName: 'example.com/disk', gid: '', revision: 1 };
const never = new AbortController().signal;

type Before = 'not mounted' | 'uncertain' | 'found on disk' | 'mounted';
type Failure = ScriptedError['failureClass'];

/** The table of the file's own comment; what is left out stays as it was. */
const changes: Readonly<Record<string, string>> = {
  'not mounted, uncertain': 'uncertain',
  'uncertain, final': 'not-mounted',
};
const stays = {
  'not mounted': 'not-mounted',
  uncertain: 'uncertain',
  'found on disk': 'uncertain',
  mounted: 'mounted',
};

function stateThatIs(before: Before): ActualState {
  const { registry } = PluginRegistry.of([new ScriptedPlugin({ kind: 'device' })]);
  const actual = new ActualState(registry, () => {});
  actual.attached({ volume, spec, devicePath: '' });
  if (before === 'found on disk') actual.foundMounted(record);
  if (before === 'uncertain') actual.uncertain(record);
  if (before === 'mounted') {
    actual.mounted(record);
    actual.deviceMounted(volume, '', '/mnt');
  } else if (before !== 'not mounted') actual.deviceUncertain(volume, '', '/mnt');
  return actual;
}

for (const before of ['not mounted', 'uncertain', 'found on disk', 'mounted'] as const) {
  for (const failure of ['uncertain', 'transient', 'final'] as const satisfies readonly Failure[]) {
    const after = changes[`${before}, ${failure}`] ?? stays[before];
    test(`what was ${before} is ${after} after a failure that is ${failure}`, () => {
      const error = new ScriptedError(failure);
      const forMount = stateThatIs(before);
      recordFailedMount(forMount, record, error, never);
      assert.equal(forMount.mountState(record), after);
      const forDevice = stateThatIs(before);
      recordFailedDevice(forDevice, { volume, devicePath: '', deviceMountPath: '/mnt' }, error, never);
      assert.equal(forDevice.deviceState(volume), after);
    });
  }
}

test('an aborted set-up may have been in the middle of anything', () => {
  const stop = new AbortController();
  stop.abort(new Error('the node stops'));
  const actual = stateThatIs('not mounted');
  recordFailedMount(actual, record, stop.signal.reason, stop.signal);
  assert.equal(actual.mountState(record), 'uncertain');
});
