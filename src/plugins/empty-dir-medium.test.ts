import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Pod } from '../kube/kinds/pod/pod.ts';
import { Quantity } from '../kube/values/quantity.ts';
import { hugePageSize, mediumOf } from './empty-dir.ts';

function pod(spec: Partial<Pod['spec']> = {}): Pod {
  return { metadata: { name: 'web', namespace: 'shop', uid: 'uid-1' }, spec: { containers: [{ name: 'c' }], ...spec } };
}
const container = (
  resources: NonNullable<Pod['spec']['resources']>,
  name = 'c',
): Pod['spec']['containers'][number] => ({ name, resources });
const limited = (memory: string): Pod => pod({ containers: [container({ limits: { memory } })] });

const sizes = [
  { it: 'the node alone', sizeLimit: undefined, of: pod(), size: '8Gi' },
  { it: 'the pod has less', sizeLimit: undefined, of: limited('1Gi'), size: '1Gi' },
  { it: 'the pod asks for more than there is', sizeLimit: undefined, of: limited('64Gi'), size: '8Gi' },
  { it: 'the volume wants less than the pod', sizeLimit: '64Mi', of: limited('1Gi'), size: '64Mi' },
  { it: 'the volume wants more than the pod has', sizeLimit: '2Gi', of: limited('1Gi'), size: '1Gi' },
  { it: 'a size of 0 is ignored', sizeLimit: 0, of: limited('1Gi'), size: '1Gi' },
  { it: 'a fraction of a byte is rounded up', sizeLimit: '1500m', of: pod(), size: '2' },
];
for (const { it, sizeLimit, of, size } of sizes) {
  test(`size of a tmpfs: ${it}`, () => {
    const source = sizeLimit === undefined ? {} : { sizeLimit };
    const medium = mediumOf({ medium: 'Memory', ...source }, of, Quantity.parse('8Gi'));
    assert.deepEqual(medium, { kind: 'memory', sizeBytes: Quantity.parse(size).value() });
  });
}

test('a node without a known capacity leaves the size to the kernel', () => {
  const medium = mediumOf({ medium: 'Memory', sizeLimit: '1Gi' }, pod(), Quantity.zero());
  assert.deepEqual(medium, { kind: 'memory', sizeBytes: 0n });
});

const twoSizes = pod({
  containers: [container({ requests: { 'hugepages-2Mi': '4Mi' } })],
  initContainers: [container({ requests: { 'hugepages-1Gi': '1Gi' } }, 'i')],
});
const pages = [
  {
    it: 'a request names the size',
    medium: 'HugePages',
    of: pod({ containers: [container({ requests: { 'hugepages-2Mi': '4Mi' } })] }),
    size: '2Mi',
  },
  {
    it: 'a request of an init container alone suffices',
    medium: 'HugePages',
    of: pod({ initContainers: [container({ requests: { 'hugepages-1Gi': '1Gi' } }, 'i')] }),
    size: '1Gi',
  },
  { it: 'of several sizes the medium names one', medium: 'HugePages-1Gi', of: twoSizes, size: '1Gi' },
  { it: 'the medium may spell the size differently', medium: 'HugePages-1024Mi', of: twoSizes, size: '1Gi' },
  {
    it: 'the pod as a whole may request them',
    medium: 'HugePages',
    of: pod({ resources: { requests: { 'hugepages-2Mi': '4Mi' } } }),
    size: '2Mi',
  },
];
for (const { it, medium, of, size } of pages) {
  test(`huge pages: ${it}`, () => {
    assert.equal(hugePageSize(medium, of), size);
  });
}

const refused = [
  {
    medium: 'HugePages',
    of: twoSizes,
    says: "medium: HugePages can't be used if container requests multiple huge page sizes",
  },
  {
    medium: 'HugePages',
    of: pod(),
    says: 'medium HugePages: hugePages storage requested, but there is no resource request for huge pages',
  },
  {
    medium: 'HugePages-32Mi',
    of: twoSizes,
    says: 'medium HugePages-32Mi: hugePages storage requested, but there is no resource request for huge pages',
  },
  {
    medium: 'HugePages-big',
    of: twoSizes,
    says: "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'",
  },
  { medium: 'Flash', of: pod(), says: 'unknown storage medium "Flash"' },
];
for (const { medium, of, says } of refused) {
  test(`medium ${medium} is refused: ${says}`, () => {
    assert.throws(() => mediumOf({ medium }, of, Quantity.zero()), { message: says });
  });
}

test('no medium means the disk', () => {
  assert.deepEqual(mediumOf({}, pod(), Quantity.zero()), { kind: 'disk' });
  assert.deepEqual(mediumOf({ medium: '' }, pod(), Quantity.zero()), { kind: 'disk' });
});
