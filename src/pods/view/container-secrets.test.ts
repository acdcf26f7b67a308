/** No Secret goes unmarked, whatever way it takes into what a container sees, and no error contains one. */
import assert from 'node:assert/strict';
import * as fc from 'fast-check';
import { test } from 'node:test';
import { MountletError } from '../../base/errors.ts';
import type { Container } from '../../kube/kinds/pod/container.ts';
import { aConfigMap, aContainer, aNode, aPod, aSecret, objectReader } from '../../testing/fakes/builders.ts';
import { plainFiles, resolveIn, showVariables } from '../../testing/worlds/container-world.ts';
import { type ContainerView, viewContainer } from './container-view.ts';

test('a variable is secret while a Secret is in it, and no longer when another value replaces it', async () => {
  const variables = await resolveIn(
    {
      envFrom: [{ secretRef: { name: 'login' } }],
      env: [
        { name: 'URL', value: 'https://$(user):$(password)@host' },
        { name: 'ESCAPED', value: '$$(password)' },
        { name: 'COPY', value: '$(URL)' },
        { name: 'password', value: 'public' },
        { name: 'AFTER', value: '$(password)' },
        { name: 'URL', value: 'plain' },
      ],
    },
    { secrets: [aSecret({ name: 'login', data: { user: 'ann', password: 'hunter2', '.dot': 'x' } })] },
  );
  assert.deepEqual(showVariables(variables), {
    '.dot': 'x (secret)',
    password: 'public',
    user: 'ann (secret)',
    URL: 'plain',
    ESCAPED: '$(password)',
    COPY: 'https://ann:hunter2@host (secret)',
    AFTER: 'public',
  });
});

class DiskError extends MountletError {
  readonly reason = 'DiskFailed';
}

/** Nothing that a generated pod says itself can spell it, so that finding it means that a Secret leaked. */
const marker = '§';
const secretText = fc.constantFrom('', 'a', '/', '..', '../', 'x/..', '$(A)', '\0').map((text) => `${text}${marker}`);
const variableName = fc.constantFrom('A', 'B', 'C', 'D', 'S1', 'S2');
const text = fc
  .array(
    fc.oneof(
      variableName.map((name) => `$(${name})`),
      fc.constantFrom('$', '$$', '(', ')', '$(', 'x', '/', '..', ' '),
    ),
    { maxLength: 6 },
  )
  .map((pieces) => pieces.join(''));
const entry = fc.oneof(
  fc.record({ name: variableName, value: text }),
  fc
    .constantFrom('S1', 'S2')
    .chain((key) => variableName.map((name) => ({ name, valueFrom: { secretKeyRef: { name: 's', key } } }))),
  fc
    .constantFrom('A', 'B')
    .chain((key) => variableName.map((name) => ({ name, valueFrom: { configMapKeyRef: { name: 'c', key } } }))),
);
const containers: fc.Arbitrary<Container> = fc
  .record({
    envFrom: fc.subarray([{ configMapRef: { name: 'c' } }, { secretRef: { name: 's' } }]),
    env: fc.array(entry, { maxLength: 10 }),
    command: fc.array(text, { maxLength: 2 }),
    args: fc.array(text, { maxLength: 2 }),
    volumeMounts: fc.array(
      text.map((subPathExpr) => ({ name: 'data', mountPath: '/data', subPathExpr })),
      { maxLength: 3 },
    ),
  })
  .map(aContainer);

test("property: a Secret's bytes are in nothing that is not marked secret, and in no error", async () => {
  await fc.assert(
    fc.asyncProperty(secretText, secretText, containers, fc.boolean(), async (S1, S2, container, diskFails) => {
      const secrets = [aSecret({ name: 's', data: { S1, S2 } })];
      const outcome = await viewWithDisk(container, secrets, diskFails).catch((error: unknown) => error);
      if (outcome instanceof Error) return assertUntold(outcome);
      assertMarked(outcome as ContainerView);
    }),
    { numRuns: 500 },
  );
});

function viewWithDisk(
  container: Container,
  secrets: readonly ReturnType<typeof aSecret>[],
  diskFails: boolean,
): Promise<ContainerView> {
  return viewContainer(
    {
      pod: aPod({ containers: [container] }),
      container,
      podIPs: [],
      podDirectory: '/pods/u',
      clusterDomain: 'cluster.local',
      runtimeSupportsRecursiveReadOnly: false,
      volumes: {
        get: () => ({
          kind: 'filesystem',
          hostPath: '/pods/u/volumes/data',
          specName: 'data',
          readOnly: false,
        }),
      },
    },
    {
      configMaps: objectReader(aConfigMap({ name: 'c', data: { A: 'a', B: '$(S1)' } })),
      secrets: objectReader(...secrets),
      services: [],
      node: aNode(),
      envFiles: plainFiles,
      subPaths: {
        // As a disk would, its cause contains the path that failed.
        prepare: ({ subPath }) =>
          diskFails
            ? Promise.reject(new DiskError('failed to prepare subPath', { cause: new Error(`ENOENT: ${subPath}`) }))
            : Promise.resolve({ hostPath: '/pods/u/pinned' }),
      },
      hostsFiles: { readNode: () => Promise.resolve(''), write: () => Promise.resolve('/pods/u/etc-hosts') },
    },
    new AbortController().signal,
  );
}

function assertMarked({ environment, command, args, mounts }: ContainerView): void {
  for (const { name, value, secret } of environment) {
    assert.ok(secret || !value.includes(marker), `${name}=${value} is not marked`);
  }
  for (const { value, secret, written } of [...command, ...args]) {
    assert.ok(secret || !value.includes(marker), `${value} is not marked`);
    assert.ok(!written.includes(marker));
  }
  for (const { subPath = '', secretSubPath } of mounts) {
    assert.ok(secretSubPath || !subPath.includes(marker), `${subPath} is not marked`);
  }
  assert.equal(new Set(environment.map(({ name }) => name)).size, environment.length, 'a name occurs twice');
}

function assertUntold(error: Error): void {
  for (let told: unknown = error; told instanceof Error; told = told.cause) {
    assert.ok(!`${told.message}${told.stack ?? ''}`.includes(marker), told.message);
  }
}
