import assert from 'node:assert/strict';
import { resolve } from 'node:path';
import { test } from 'node:test';
import * as fc from 'fast-check';
import { OperatingError } from '../../base/errors.ts';
import {
  containerDirectory,
  deviceDirectory,
  escapePluginName,
  etcHostsFile,
  globalMapDirectory,
  globalMountDirectory,
  pluginDirectory,
  podDirectory,
  podPluginDirectory,
  podPluginsDirectory,
  podsDirectory,
  readyMarker,
  splitUniqueVolumeName,
  subPathsDirectory,
  unescapePluginName,
  uniqueVolumeName,
  uniqueVolumeNameOfPod,
  volumeDirectory,
  volumesDirectory,
  wrappedVolumeName,
} from './node-layout.ts';

const root = '/var/lib/kubelet';
const layout: [path: string, expected: string][] = [
  [podsDirectory(root), 'pods'],
  [podDirectory(root, 'u1'), 'pods/u1'],
  [volumesDirectory(root, 'u1'), 'pods/u1/volumes'],
  [volumeDirectory(root, 'u1', 'kubernetes.io/configmap', 'cfg'), 'pods/u1/volumes/kubernetes.io~configmap/cfg'],
  [podPluginsDirectory(root, 'u1'), 'pods/u1/plugins'],
  [podPluginDirectory(root, 'u1', 'kubernetes.io/csi'), 'pods/u1/plugins/kubernetes.io~csi'],
  [readyMarker(root, 'u1', 'tmp'), 'pods/u1/plugins/kubernetes.io~empty-dir/tmp/ready'],
  [subPathsDirectory(root, 'u1'), 'pods/u1/volume-subpaths'],
  [deviceDirectory(root, 'u1', 'kubernetes.io/csi', 'pv1'), 'pods/u1/volumeDevices/kubernetes.io~csi/pv1'],
  [containerDirectory(root, 'u1', 'web'), 'pods/u1/containers/web'],
  [etcHostsFile(root, 'u1'), 'pods/u1/etc-hosts'],
  [pluginDirectory(root, 'kubernetes.io/csi'), 'plugins/kubernetes.io/csi'],
  [globalMountDirectory(root, 'kubernetes.io/local-volume', 'pv1'), 'plugins/kubernetes.io/local-volume/mounts/pv1'],
  [
    globalMapDirectory(root, 'kubernetes.io/local-volume', 'pv1'),
    'plugins/kubernetes.io~local-volume/volumeDevices/pv1',
  ],
];
for (const [path, expected] of layout) {
  test(`${expected} lies below the root`, () => {
    assert.equal(path, `${root}/${expected}`);
  });
}

test('the marker of a wrapper lies under wrapped_<volume>', () => {
  const marker = readyMarker(root, 'u1', wrappedVolumeName('cfg'));
  assert.equal(marker, `${root}/pods/u1/plugins/kubernetes.io~empty-dir/wrapped_cfg/ready`);
});

const makers: [name: string, make: (name: string) => string, keepsSlash?: true][] = [
  ['podDirectory', (name) => podDirectory(root, name)],
  ['etcHostsFile', (name) => etcHostsFile(root, name)],
  ['volumeDirectory', (name) => volumeDirectory(root, 'u1', 'kubernetes.io/secret', name)],
  ['volumeDirectory of a pod', (name) => volumeDirectory(root, name, 'kubernetes.io/secret', 'v')],
  ['volumeDirectory of a plugin', (name) => volumeDirectory(root, 'u1', name, 'v'), true],
  ['globalMapDirectory', (name) => globalMapDirectory(root, 'kubernetes.io/local-volume', name)],
  ['readyMarker', (name) => readyMarker(root, 'u1', name)],
  ['deviceDirectory', (name) => deviceDirectory(root, 'u1', 'kubernetes.io/csi', name)],
  ['containerDirectory', (name) => containerDirectory(root, 'u1', name)],
  ['pluginDirectory', (name) => pluginDirectory(root, name), true],
  ['globalMountDirectory', (name) => globalMountDirectory(root, 'kubernetes.io/csi', name)],
];
for (const [maker, make, keepsSlash] of makers) {
  test(`${maker} refuses a name that could leave its directory`, () => {
    const unsafe = ['', '.', '..', 'a\0b', 'x'.repeat(256), ...(keepsSlash ? [] : ['../..', '/etc', 'a/b', 'a/..'])];
    for (const name of unsafe) assert.throws(() => make(name), OperatingError, JSON.stringify(name));
    assert.match(make('x'.repeat(255)), /x{255}/);
  });

  test(`${maker} stays below the root whatever it is given`, () => {
    const name = fc.string({ unit: fc.constantFrom('.', '/', '~', 'a', '\\', '\0') });
    fc.assert(
      fc.property(name, (given) => {
        try {
          const path = make(given);
          assert.ok(path.startsWith(`${root}/`) && resolve(path) === path, path);
        } catch (error) {
          assert.ok(error instanceof OperatingError, String(error));
        }
      }),
    );
  });
}

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
      assert.throws(() => splitUniqueVolumeName(name), new OperatingError('InvalidUniqueName', message));
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
