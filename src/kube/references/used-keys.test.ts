import assert from 'node:assert/strict';
import { test } from 'node:test';
import { aContainer, aPod } from '../../testing/fakes/builders.ts';
import type { Container } from '../kinds/pod/container.ts';
import type { PodSpec } from '../kinds/pod/pod-spec.ts';
import type { Volume } from '../kinds/pod/volume.ts';
import { namesOf, referencesOf } from './pod-references.ts';
import { type UsedObject, followedObjects, usedObjects } from './used-keys.ts';

const at = (name: string, subPath?: string): NonNullable<Container['volumeMounts']>[number] => ({
  name,
  mountPath: `/${name}`,
  ...(subPath !== undefined && { subPath }),
});
const items = [
  { key: 'a', path: 'x' },
  { key: 'b', path: 'y/z' },
];

/** `configmap/web a,b! optional`: `!` after a key that has to be there, `*` for all keys. */
function show({ kind, name, keys, isRequired, requiredKeys }: UsedObject): string {
  const all = keys === undefined ? ['*', ...requiredKeys] : [...keys];
  const words = all.toSorted().map((key) => (requiredKeys.has(key) ? `${key}!` : key));
  return `${kind.toLowerCase()}/${name} ${words.join(',')}${isRequired ? '' : ' optional'}`;
}

const cases: readonly {
  readonly it: string;
  readonly container: Partial<Container>;
  readonly volumes?: readonly Volume[];
  readonly spec?: Partial<PodSpec>;
  readonly uses: readonly string[];
}[] = [
  { it: 'nothing', container: {}, uses: [] },
  {
    it: 'all keys of what an environment is taken from',
    container: {
      envFrom: [{ configMapRef: { name: 'web' } }, { secretRef: { name: 'login', optional: true } }],
    },
    uses: ['configmap/web *', 'secret/login * optional'],
  },
  {
    it: 'single keys of variables, together',
    container: {
      env: [
        { name: 'A', valueFrom: { configMapKeyRef: { name: 'web', key: 'a' } } },
        { name: 'B', valueFrom: { configMapKeyRef: { name: 'web', key: 'b', optional: true } } },
        { name: 'C', valueFrom: { secretKeyRef: { name: 'login', key: 'c' } } },
        { name: 'D', value: 'd' },
      ],
    },
    uses: ['configmap/web a!,b', 'secret/login c!'],
  },
  {
    it: 'volumes that are mounted, by their items',
    container: { volumeMounts: [at('all'), at('some')] },
    volumes: [
      { name: 'all', configMap: { name: 'web' } },
      { name: 'some', secret: { secretName: 'login', items } },
      { name: 'idle', configMap: { name: 'idle' } },
    ],
    uses: ['configmap/web *', 'secret/login a!,b!'],
  },
  {
    it: 'the parts of a volume that are seen, unless it is seen whole as well',
    container: { volumeMounts: [at('all', 'redis.conf'), at('some', 'y'), at('both', 'x'), at('both')] },
    volumes: [
      { name: 'all', configMap: { name: 'redis' } },
      { name: 'some', configMap: { name: 'some', items } },
      { name: 'both', configMap: { name: 'both' } },
    ],
    uses: ['configmap/redis redis.conf', 'configmap/some b!', 'configmap/both *'],
  },
  {
    it: 'projected sources, and one object by two ways',
    container: {
      volumeMounts: [at('all')],
      env: [{ name: 'A', valueFrom: { configMapKeyRef: { name: 'web', key: 'a' } } }],
    },
    volumes: [
      {
        name: 'all',
        projected: {
          sources: [
            { configMap: { name: 'web', optional: true } },
            { secret: { name: 'login', items, optional: true } },
            { downwardAPI: { items: [] } },
          ],
        },
      },
    ],
    uses: ['configmap/web *,a!', 'secret/login a,b optional'],
  },
  {
    it: 'what a driver reads, and not what images are pulled with',
    container: { volumeMounts: [at('disk')] },
    volumes: [{ name: 'disk', csi: { driver: 'example.com', nodePublishSecretRef: { name: 'disk' } } }],
    spec: { imagePullSecrets: [{ name: 'registry' }] },
    uses: ['secret/disk *'],
  },
];
for (const { it, container, volumes = [], spec, uses } of cases) {
  test(`usedObjects: ${it}`, () => {
    const pod = aPod({ containers: [aContainer(container)], volumes, ...spec });
    assert.deepEqual(usedObjects(pod).map(show), uses);
    // Nothing beside the list of what a pod refers to.
    const references = referencesOf(pod);
    for (const used of usedObjects(pod)) assert.ok(namesOf(references, used.kind).has(used.name), used.name);
  });
}

const template = aPod({
  containers: [
    aContainer({
      envFrom: [{ configMapRef: { name: 'a' } }, { configMapRef: { name: 'b' } }, { secretRef: { name: 'c' } }],
    }),
  ],
});
const wanted = 'want true, false or a list such as configmap/a,secret/b,!secret/c';
const annotations = [
  { text: 'false', follows: undefined },
  { text: 'true', follows: 'configmap/a *; configmap/b *; secret/c *' },
  { text: '!configmap/b', follows: 'configmap/a *; secret/c *' },
  { text: 'configmap/a,secret/other', follows: 'configmap/a *; secret/other * optional' },
  { text: 'configmap/a , configmap/b, !configmap/b', follows: 'configmap/a *' },
  { text: 'yes', follows: `unknown word "yes": ${wanted}` },
  { text: '', follows: `unknown word "": ${wanted}` },
  { text: 'true,!secret/c', follows: `unknown word "true": ${wanted}` },
  { text: 'pod/a', follows: `unknown word "pod/a": ${wanted}` },
  { text: 'toString/a', follows: `unknown word "toString/a": ${wanted}` },
  { text: Array.from({ length: 65 }, () => 'secret/a').join(), follows: '65 objects are more than 64' },
];
for (const { text, follows } of annotations) {
  test(`rollout-on-change: "${text.slice(0, 40)}"`, () => {
    const found = followedObjects(text, template);
    assert.equal(Array.isArray(found) ? found.map((one: UsedObject) => show(one)).join('; ') : found, follows);
  });
}

test('rollout-on-change: a name that no object can have', () => {
  assert.match(JSON.stringify(followedObjects('secret/A_B', template)), /^"\\"secret\/A_B\\" names no object: /);
});
