import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Container } from '../../kube/kinds/pod/container.ts';
import {
  type PodParts,
  aConfigMap,
  aContainer,
  aNode,
  aPod,
  aSecret,
  objectReader,
} from '../../testing/fakes/builders.ts';
import { plainFiles } from '../../testing/worlds/container-world.ts';
import { type ContainerView, viewContainer } from './container-view.ts';

function view(container: Partial<Container>, pod: PodParts = {}): Promise<ContainerView> {
  const own = aContainer(container);
  return viewContainer(
    {
      pod: aPod({ containers: [own], ...pod }),
      container: own,
      podIPs: ['10.0.0.7'],
      podDirectory: '/pods/u',
      clusterDomain: 'cluster.local',
      runtimeSupportsRecursiveReadOnly: true,
      volumes: {
        get: (name) =>
          name === 'data'
            ? {
                kind: 'filesystem',
                hostPath: '/pods/u/volumes/data',
                specName: 'data',
                readOnly: false,
              }
            : undefined,
      },
    },
    {
      configMaps: objectReader(aConfigMap({ name: 'settings', data: { LEVEL: 'debug' } })),
      secrets: objectReader(aSecret({ name: 'login', data: { password: 'hunter2' } })),
      services: [],
      node: aNode(),
      envFiles: plainFiles,
      subPaths: { prepare: ({ index }) => Promise.resolve({ hostPath: `/pods/u/volume-subpaths/${index}` }) },
      hostsFiles: { readNode: () => Promise.resolve(''), write: () => Promise.resolve('/pods/u/etc-hosts') },
    },
    new AbortController().signal,
  );
}

test('viewContainer puts the final environment into command and sub paths', async () => {
  const seen = await view({
    envFrom: [{ configMapRef: { name: 'settings' } }],
    env: [{ name: 'PASSWORD', valueFrom: { secretKeyRef: { name: 'login', key: 'password' } } }],
    command: ['server', '--level=$(LEVEL)'],
    args: ['--password=$(PASSWORD)'],
    volumeMounts: [{ name: 'data', mountPath: '/data', subPathExpr: '$(LEVEL)' }],
  });
  assert.deepEqual(
    seen.environment.map(({ name, value, secret }) => [name, value, secret]),
    [
      ['LEVEL', 'debug', false],
      ['PASSWORD', 'hunter2', true],
    ],
  );
  assert.deepEqual(
    seen.command.map(({ value }) => value),
    ['server', '--level=debug'],
  );
  assert.deepEqual(seen.args, [{ value: '--password=hunter2', secret: true, written: '--password=$(PASSWORD)' }]);
  assert.deepEqual(
    seen.mounts.map(({ name, hostPath, subPath }) => [name, hostPath, subPath]),
    [
      ['data', '/pods/u/volume-subpaths/0', 'debug'],
      ['k8s-managed-etc-hosts', '/pods/u/etc-hosts', undefined],
    ],
  );
  assert.deepEqual(seen.devices, []);
});

test('of several errors that of the hostname is reported first, then devices, the environment and mounts', async () => {
  const broken: Partial<Container> = {
    volumeDevices: [{ name: 'gone', devicePath: '/dev/a' }],
    envFrom: [{ configMapRef: { name: 'gone' } }],
    volumeMounts: [{ name: 'gone', mountPath: '/gone' }],
  };
  const { volumeDevices: _devices, ...withoutDevices } = broken;
  const { envFrom: _envFrom, ...withoutEnvironment } = withoutDevices;
  await assert.rejects(view(broken, { hostname: 'a.b' }), { message: /^pod Hostname "a\.b" is not a valid DNS label/ });
  await assert.rejects(view(broken), { message: 'cannot find volume "gone" to pass into container "main"' });
  await assert.rejects(view(withoutDevices), { message: 'configmap "gone" not found' });
  await assert.rejects(view(withoutEnvironment), {
    message: 'cannot find volume "gone" to mount into container "main"',
  });
});
