import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as fc from 'fast-check';
import {
  escapePluginName,
  splitUniqueVolumeName,
  UniqueNameError,
  uniqueVolumeName,
  uniqueVolumeNameOfPod,
  unescapePluginName,
} from './unique-names.ts';

test('a plugin name becomes one path segment and comes back', () => {
  assert.equal(escapePluginName('kubernetes.io/configmap'), 'kubernetes.io~configmap');
  assert.equal(escapePluginName('a/b/c'), 'a~b~c');
  assert.equal(unescapePluginName('kubernetes.io~empty-dir'), 'kubernetes.io/empty-dir');
});

test('volumes of a pod carry its UID, shared volumes the name of their storage', () => {
  assert.equal(uniqueVolumeNameOfPod('kubernetes.io/secret', 'uid-1', 'certs'), 'kubernetes.io/secret/uid-1-certs');
  assert.equal(uniqueVolumeName('kubernetes.io/csi', 'driver^handle'), 'kubernetes.io/csi/driver^handle');
});

const splits: [name: string, parts: [plugin: string, volume: string] | undefined][] = [
  ['kubernetes.io/csi/driver^handle', ['kubernetes.io/csi', 'driver^handle']],
  ['kubernetes.io/iscsi/portal:iqn/with/slash:0', ['kubernetes.io/iscsi', 'portal:iqn/with/slash:0']],
  ['a/b/', ['a/b', '']],
  ['//', ['/', '']],
  ['a/b', undefined],
  ['a', undefined],
  ['', undefined],
];
for (const [name, parts] of splits) {
  test(`${JSON.stringify(name)} ${parts === undefined ? 'cannot be split' : `splits into ${parts.join(' and ')}`}`, () => {
    if (parts === undefined) {
      const message = `cannot split volume unique name ${name} to plugin/volume components`;
      assert.throws(() => splitUniqueVolumeName(name), new UniqueNameError(message));
    } else assert.deepEqual(splitUniqueVolumeName(name), { pluginName: parts[0], volumeName: parts[1] });
  });
}

test('a unique name splits into what it was made of', () => {
  const plugin = fc.stringMatching(/^[a-z.]{1,9}\/[a-z-]{1,9}$/);
  fc.assert(
    fc.property(plugin, fc.string(), (pluginName, volumeName) => {
      assert.deepEqual(splitUniqueVolumeName(uniqueVolumeName(pluginName, volumeName)), { pluginName, volumeName });
      assert.equal(unescapePluginName(escapePluginName(pluginName)), pluginName);
    }),
  );
});
