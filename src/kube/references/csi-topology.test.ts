import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { PersistentVolume } from '../kinds/storage/persistent-volume.ts';
import {
  type DriverTopology,
  awsRegion,
  gceRegion,
  withDriverTopology,
  withKubernetesTopology,
} from './csi-topology.ts';

const [zone, region] = ['topology.kubernetes.io/zone', 'topology.kubernetes.io/region'];
const [oldZone, oldRegion] = ['failure-domain.beta.kubernetes.io/zone', 'failure-domain.beta.kubernetes.io/region'];
const gce: DriverTopology = { zone: 'gke/zone', regionOf: gceRegion };
const cinder: DriverTopology = { zone: 'cinder/zone' };
const vSphere: DriverTopology = { zone: 'vsphere/zone', region: 'vsphere/region' };

/** Terms as `key=value,value key=value`. */
type Terms = readonly string[];
type Labels = Readonly<Record<string, string>>;

function volume(terms: Terms | undefined, labels: Labels | undefined): PersistentVolume {
  const nodeSelectorTerms = terms?.map((term) => ({
    matchExpressions: term.split(' ').map((one) => {
      const [key = '', values = ''] = one.split('=');
      return { key, operator: 'In', values: values.split(',') };
    }),
  }));
  return {
    metadata: { name: 'pv', ...(labels && { labels }) },
    spec: nodeSelectorTerms === undefined ? {} : { nodeAffinity: { required: { nodeSelectorTerms } } },
  };
}

function termsOf({ spec }: PersistentVolume): Terms | undefined {
  return spec.nodeAffinity?.required?.nodeSelectorTerms.map(({ matchExpressions = [] }) =>
    matchExpressions.map(({ key, values = [] }) => `${key}=${values.join()}`).join(' '),
  );
}

interface Case {
  readonly it: string;
  readonly terms?: Terms;
  readonly labels?: Labels;
  readonly topology?: DriverTopology;
  readonly is?: Terms;
  /** Those after it; absent: as before. */
  readonly labelled?: Labels;
}

const there: readonly Case[] = [
  { it: 'renames the zone', terms: [`${zone}=a ${region}=r`], is: [`gke/zone=a ${region}=r`] },
  { it: 'brings the old region up to date', terms: [`${oldZone}=a ${oldRegion}=r`], is: [`gke/zone=a ${region}=r`] },
  { it: 'takes the zone of a label', labels: { [zone]: 'a', [region]: 'r' }, is: ['gke/zone=a'] },
  { it: 'takes the zone of an old label', labels: { [oldZone]: 'a' }, is: ['gke/zone=a'] },
  { it: 'takes several zones, sorted and without blanks', labels: { [zone]: 'f__ __a__c__a' }, is: ['gke/zone=a,c,f'] },
  { it: 'takes no zone from a blank label', labels: { [zone]: ' ' } },
  { it: 'prefers the terms to the label', terms: [`${oldZone}=b`], labels: { [oldZone]: 'a' }, is: ['gke/zone=b'] },
  {
    it: 'adds the zones to every term',
    terms: ['k=v', 'l=w'],
    labels: { [zone]: 'a' },
    is: ['k=v gke/zone=a', 'l=w gke/zone=a'],
  },
  { it: 'renames in every term', terms: [`${zone}=f`, `${zone}=g`], is: ['gke/zone=f', 'gke/zone=g'] },
  { it: 'leaves what is translated', terms: ['gke/zone=a'], is: ['gke/zone=a'] },
  { it: 'leaves a volume that is anywhere' },
  {
    it: 'renames zone and region',
    topology: vSphere,
    terms: [`${zone}=z ${region}=r`],
    is: ['vsphere/zone=z vsphere/region=r'],
  },
  {
    it: 'takes zone and region of labels, each as one',
    topology: vSphere,
    labels: { [oldZone]: 'z1__z2', [oldRegion]: 'r1' },
    is: ['vsphere/zone=z1__z2 vsphere/region=r1'],
  },
];
for (const { it, terms, labels, topology = gce, is } of there) {
  test(`translating for a driver ${it}`, () => {
    const given = volume(terms, labels);
    const made = withDriverTopology(given, topology);
    assert.deepEqual(termsOf(made), is);
    assert.deepEqual([made.metadata, given], [given.metadata, volume(terms, labels)]);
  });
}

const back: readonly Case[] = [
  {
    it: 'keeps a region and the labels',
    terms: [`${region}=us-east1 gke/zone=us-east1-a`],
    labels: { [zone]: 'us-east1-a', [region]: 'us-east1' },
    is: [`${region}=us-east1 ${zone}=us-east1-a`],
  },
  {
    it: 'keeps to the old names of the labels',
    terms: [`${oldRegion}=us-west2 gke/zone=us-west2-b`],
    labels: { [oldZone]: 'us-west2-b', [oldRegion]: 'us-west2' },
    is: [`${oldRegion}=us-west2 ${oldZone}=us-west2-b`],
  },
  {
    it: 'does not change labels that say something else',
    terms: ['gke/zone=us-east1-a'],
    labels: { [zone]: 'existingZone', [region]: 'existingRegion' },
    is: [`${zone}=us-east1-a ${region}=us-east1`],
  },
  { it: 'adds nothing where there are no terms', terms: [], labels: { [zone]: 'z' }, is: [] },
  {
    it: 'derives region and labels',
    terms: ['gke/zone=us-east1-a'],
    is: [`${zone}=us-east1-a ${region}=us-east1`],
    labelled: { [zone]: 'us-east1-a', [region]: 'us-east1' },
  },
  {
    it: 'derives them by their old names',
    terms: [`${oldZone}=us-west2-b`],
    is: [`${oldZone}=us-west2-b ${oldRegion}=us-west2`],
    labelled: { [oldZone]: 'us-west2-b', [oldRegion]: 'us-west2' },
  },
  {
    it: 'derives a region for each term',
    terms: ['gke/zone=us-east1-c', 'gke/zone=us-east1-a'],
    is: [`${zone}=us-east1-c ${region}=us-east1`, `${zone}=us-east1-a ${region}=us-east1`],
    labelled: { [zone]: 'us-east1-a__us-east1-c', [region]: 'us-east1' },
  },
  {
    it: 'labels with no region where terms differ in it',
    terms: ['gke/zone=us-east1-c', 'gke/zone=us-west1-a'],
    is: [`${zone}=us-east1-c ${region}=us-east1`, `${zone}=us-west1-a ${region}=us-west1`],
    labelled: { [zone]: 'us-east1-c__us-west1-a' },
  },
  {
    it: 'knows no region of a Cinder zone',
    topology: cinder,
    terms: ['cinder/zone=nova'],
    is: [`${zone}=nova`],
    labelled: { [zone]: 'nova' },
  },
  {
    it: 'renames zone and region of vSphere',
    topology: vSphere,
    terms: ['vsphere/zone=z1 vsphere/region=r1'],
    is: [`${zone}=z1 ${region}=r1`],
    labelled: { [zone]: 'z1', [region]: 'r1' },
  },
];
for (const { it, terms, labels, topology = gce, is, labelled = labels } of back) {
  test(`translating back ${it}`, () => {
    const made = withKubernetesTopology(volume(terms, labels), topology);
    assert.deepEqual(termsOf(made), is);
    assert.deepEqual(made.metadata.labels, labelled);
  });
}

test('drivers whose classes alone are translated see volumes as they are', () => {
  const given = volume([`${zone}=a`], { [zone]: 'a' });
  const topology = { zone: 'azure/zone', ofClassesAlone: true } as const;
  assert.equal(withDriverTopology(given, topology), given);
  assert.equal(withKubernetesTopology(given, topology), given);
});

for (const [zones, is] of [
  [['us-west-2a', 'us-west-2b'], 'us-west-2'],
  [['us-gov-east-1a'], 'us-gov-east-1'],
  [['us-east-1-wl1-bos-wlz-1'], 'us-east-1'],
  [['us-west-2-lax-1a'], 'us-west-2'],
] as const) {
  test(`${zones.join(' and ')} are in ${is}`, () => assert.equal(awsRegion(zones), is));
}

for (const [zones, says] of [
  [[], 'no zones specified'],
  [['us-west-2a', 'us-east-1a'], 'multiple or no regions gotten from zones, got: map[us-east-1:{} us-west-2:{}]'],
  [['us-west-2'], 'Unexpected zone format: us-west-2 is not a valid AWS zone'],
  [['us-west-2ab'], 'Unexpected zone format: us-west-2ab is not a valid AWS zone'],
  [['us-west'], 'Unexpected zone format: us-west is not a valid AWS zone'],
] as const) {
  test(`the AWS zones ${zones.join(' and ')} are in no region`, () => {
    assert.throws(() => awsRegion(zones), { message: says });
  });
}

test('a GCE zone has three parts', () => {
  assert.equal(gceRegion(['us-east1-a', 'us-east1-b']), 'us-east1');
  assert.throws(
    () => gceRegion(['us-east1']),
    /zone in unexpected format, expected: \{locale\}-\{region\}-\{zone\}, got/,
  );
});
