import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Container, VolumeMount } from '../../kube/kinds/pod/container.ts';
import { aContainer, aPod } from '../../testing/fakes/builders.ts';
import { type ContainerMount, type SubPathPreparer, buildMounts, canFollow } from './mounts.ts';

type SubPathRequest = Parameters<SubPathPreparer['prepare']>[0];

interface Asked {
  readonly annotation?: string;
  readonly replaced?: boolean;
  readonly mount?: Partial<VolumeMount>;
  readonly others?: readonly VolumeMount[];
}

/** One mount by subPath, and what the preparer was asked for; it follows where it may. */
async function ask({ annotation, replaced = true, mount = {}, others = [] }: Asked): Promise<{
  readonly request: SubPathRequest | undefined;
  readonly mount: ContainerMount | undefined;
}> {
  let request: SubPathRequest | undefined;
  const subPaths: SubPathPreparer = {
    async prepare(asked) {
      request = asked;
      return { hostPath: '/prepared', follows: asked.mayFollow };
    },
  };
  const container = aContainer({
    volumeMounts: [{ name: 'config', mountPath: '/app/a.conf', subPath: 'a.conf', ...mount }, ...others],
  });
  const pod = aPod({ containers: [container] });
  const annotations = annotation === undefined ? {} : { 'mountlet.dev/subpath-updates': annotation };
  const volume = { readOnly: true, replaced, specName: 'config' };
  const { mounts } = await buildMounts(
    {
      pod: { ...pod, metadata: { ...pod.metadata, annotations } },
      container,
      environment: [{ name: 'KEY', value: 'a.conf', secret: false, source: { kind: 'value', expands: [] } }],
      volumes: { get: () => ({ kind: 'filesystem', hostPath: '/volume', ...volume }) },
      podDirectory: '/pods/u',
      podIPs: [],
      hostname: { name: 'web', domain: '' },
      runtimeSupportsRecursiveReadOnly: true,
    },
    {
      subPaths,
      hostsFiles: { readNode: () => Promise.resolve(''), write: () => Promise.resolve('/hosts') },
    },
    new AbortController().signal,
  );
  return { request, mount: mounts[0] };
}

const cases: readonly (Asked & { readonly it: string; readonly follows: boolean })[] = [
  { it: 'follows by default', follows: true },
  { it: 'follows with the annotation "true"', annotation: 'true', follows: true },
  { it: 'stays with the annotation "false"', annotation: 'false', follows: false },
  { it: 'stays in a volume that others write', replaced: false, follows: false },
  { it: 'follows by subPathExpr', mount: { subPath: '', subPathExpr: '$(KEY)' }, follows: true },
  { it: 'follows with HostToContainer', mount: { mountPropagation: 'HostToContainer' }, follows: true },
  {
    it: 'stays when it is to be read-only recursively',
    mount: { readOnly: true, recursiveReadOnly: 'IfPossible' },
    follows: false,
  },
  {
    it: 'stays when something else is mounted in it',
    mount: { mountPath: '/app' },
    others: [{ name: 'config', mountPath: '/app/nested' }],
    follows: false,
  },
];
for (const { it, follows, ...asked } of cases) {
  test(`a mount by subPath ${it}`, async () => {
    const { request, mount } = await ask(asked);
    assert.deepEqual([request?.mayFollow, request?.subPath], [follows, 'a.conf']);
    const wanted = follows ? 'HostToContainer' : 'None';
    assert.deepEqual([mount?.propagation, mount?.hostPath, mount?.readOnly], [wanted, '/prepared', true]);
  });
}

test('a mount by subPath with Bidirectional stays as it is and shared as it was asked for', async () => {
  const { request, mount } = await ask({ mount: { mountPropagation: 'Bidirectional' } });
  assert.deepEqual([request?.mayFollow, mount?.propagation], [false, 'Bidirectional']);
});

for (const value of ['', 'False', 'no', 'off\n']) {
  test(`the annotation ${JSON.stringify(value)} is refused by its name`, async () => {
    await assert.rejects(ask({ annotation: value }), {
      name: 'ContainerMountsError',
      message: `invalid annotation mountlet.dev/subpath-updates: ${JSON.stringify(value)}: must be "true" or "false"`,
    });
  });
}

test('options of the mount are passed on, for later content to have them too', async () => {
  const { request } = await ask({ mount: { bindMountOptions: ['noexec'] } });
  assert.deepEqual(request?.bindMountOptions, ['noexec']);
});

const places: readonly { readonly at: string; readonly container?: Partial<Container>; readonly can: boolean }[] = [
  { at: '/etc/app', can: true },
  { at: '/etc/hosts', can: true },
  { at: '/etc', can: false },
  { at: '/', can: false },
  { at: 'etc/', can: false },
  { at: '/dev', can: false },
  { at: '/log', can: true },
  { at: '/log', container: { terminationMessagePath: '/log/end' }, can: false },
  { at: '/disk', container: { volumeDevices: [{ name: 'd', devicePath: '/disk/0' }] }, can: false },
  { at: '/a', container: { volumeMounts: [{ name: 'b', mountPath: '/ab' }] }, can: true },
  { at: '/a', container: { volumeMounts: [{ name: 'b', mountPath: '/a/./b' }] }, can: false },
  { at: '/a/b', container: { volumeMounts: [{ name: 'b', mountPath: '/a' }] }, can: true },
];
for (const { at, container = {}, can } of places) {
  test(`a mount at ${at} beside ${JSON.stringify(container)} ${can ? 'can' : 'cannot'} follow`, () => {
    assert.equal(canFollow({ name: 'config', mountPath: at }, aContainer(container)), can);
  });
}
