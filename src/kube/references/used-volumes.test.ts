import assert from 'node:assert/strict';
import { test } from 'node:test';
import { aContainer, aPod } from '../../testing/fakes/builders.ts';
import { usedVolumes } from './pod-references.ts';

test('usedVolumes are those that init, regular and ephemeral containers mount or open as a device', () => {
  const pod = aPod({
    volumes: ['init', 'main', 'debug', 'block', 'unused', 'file'].map((name) => ({ name, emptyDir: {} })),
    initContainers: [aContainer({ volumeMounts: [{ name: 'init', mountPath: '/a' }] })],
    containers: [
      aContainer({
        volumeMounts: [
          { name: 'main', mountPath: '/a' },
          { name: 'main', mountPath: '/b' },
          { name: 'undeclared', mountPath: '/c' },
        ],
        volumeDevices: [{ name: 'block', devicePath: '/dev/xvda' }],
        env: [{ name: 'F', valueFrom: { fileKeyRef: { volumeName: 'file', path: 'env', key: 'K' } } }],
      }),
    ],
    ephemeralContainers: [{ ...aContainer({ volumeMounts: [{ name: 'debug', mountPath: '/a' }] }), name: 'd' }],
  });
  const { mounted, devices } = usedVolumes(pod);
  assert.deepEqual([...mounted], ['init', 'main', 'undeclared', 'debug']);
  assert.deepEqual([...devices], ['block']);
});
