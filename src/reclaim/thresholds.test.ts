import assert from 'node:assert/strict';
import { test } from 'node:test';
import { type Threshold, type ThresholdTexts, readThresholds } from './thresholds.ts';

function show({ signal, below, minimumReclaim, graceMs }: Threshold): string {
  const text = (amount: Threshold['below']): string =>
    'part' in amount ? `${Number((amount.part * 100).toFixed(3))}%` : String(amount.quantity);
  const kind = graceMs === 0 ? 'hard' : `soft ${graceMs / 1000}s`;
  return `${signal}<${text(below)}+${text(minimumReclaim)} ${kind}`;
}

const cases: readonly {
  readonly it: string;
  readonly given: ThresholdTexts;
  readonly thresholds?: readonly string[];
  readonly defaults?: readonly string[];
  readonly unwatched?: readonly string[];
  readonly problems?: readonly string[];
}[] = [
  {
    it: 'has the defaults of the kubelet without evictionHard',
    given: {},
    defaults: [
      'nodefs.available<10%+0 hard',
      'nodefs.inodesFree<5%+0 hard',
      'imagefs.available<15%+0 hard',
      'imagefs.inodesFree<5%+0 hard',
    ],
  },
  {
    it: 'replaces all defaults by evictionHard',
    given: { evictionHard: { 'nodefs.available': '1Gi' } },
    thresholds: ['nodefs.available<1Gi+0 hard'],
    defaults: [],
  },
  {
    it: 'merges evictionHard with the defaults when asked to',
    given: { evictionHard: { 'nodefs.available': '1Gi' }, mergeDefaultEvictionSettings: true },
    thresholds: [
      'nodefs.available<1Gi+0 hard',
      'nodefs.inodesFree<5%+0 hard',
      'imagefs.available<15%+0 hard',
      'imagefs.inodesFree<5%+0 hard',
    ],
    defaults: [],
  },
  {
    it: 'switches a signal off with 0% and with 100%',
    given: { evictionHard: { 'nodefs.available': '0%', 'imagefs.available': '100%' } },
    thresholds: [],
    defaults: [],
  },
  {
    it: 'has soft thresholds with their grace, after the hard ones',
    given: {
      evictionSoft: { 'nodefs.available': '12.5%' },
      evictionSoftGracePeriod: { 'nodefs.available': '1m30s' },
      evictionHard: { 'imagefs.inodesFree': '1k' },
    },
    thresholds: ['imagefs.inodesFree<1k+0 hard', 'nodefs.available<12.5%+0 soft 90s'],
    defaults: [],
  },
  {
    it: 'adds what has to be reclaimed beyond',
    given: {
      evictionHard: { 'nodefs.available': '1Gi', 'imagefs.available': '5%' },
      evictionMinimumReclaim: { 'nodefs.available': '500Mi', 'imagefs.available': '2%' },
    },
    thresholds: ['nodefs.available<1Gi+500Mi hard', 'imagefs.available<5%+2% hard'],
    defaults: [],
  },
  {
    it: 'accepts signals that nothing watches here',
    given: { evictionHard: { 'memory.available': '100Mi', 'pid.available': '5%', 'containerfs.available': '1Gi' } },
    thresholds: [],
    defaults: [],
    unwatched: ['memory.available', 'pid.available', 'containerfs.available'],
  },
  {
    it: 'refuses an unknown signal in every field',
    given: {
      evictionHard: { 'disk.free': '1Gi' },
      evictionSoftGracePeriod: { 'disk.free': '1m' },
      evictionMinimumReclaim: { 'disk.free': '1Gi' },
    },
    problems: [
      'evictionSoftGracePeriod: unsupported eviction signal disk.free',
      'evictionMinimumReclaim: unsupported eviction signal disk.free',
      'evictionHard: unsupported eviction signal disk.free',
    ],
  },
  {
    it: 'refuses amounts that are not above zero',
    given: { evictionHard: { 'nodefs.available': '0', 'imagefs.available': '-1Gi', 'nodefs.inodesFree': '-5%' } },
    problems: [
      'evictionHard: eviction threshold nodefs.available must be positive: 0',
      'evictionHard: eviction threshold imagefs.available must be positive: -1Gi',
      'evictionHard: eviction percentage threshold nodefs.inodesFree must be >= 0%: -5%',
    ],
  },
  {
    it: 'refuses what is no amount',
    given: { evictionHard: { 'nodefs.available': 'much', 'nodefs.inodesFree': '101%', 'imagefs.available': 'x%' } },
    problems: [
      "evictionHard: quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'",
      'evictionHard: eviction percentage threshold nodefs.inodesFree must be <= 100%: 101%',
      'evictionHard: "x%" is not a percentage',
    ],
  },
  {
    it: 'refuses a soft threshold without a grace',
    given: { evictionSoft: { 'nodefs.available': '5%' } },
    problems: ['evictionSoft: grace period must be specified for the soft eviction threshold nodefs.available'],
  },
  {
    it: 'refuses wrong graces and wrong reclaims',
    given: {
      evictionSoftGracePeriod: { 'nodefs.available': '-1m', 'imagefs.available': 'soon' },
      evictionMinimumReclaim: { 'nodefs.available': '-1Gi', 'imagefs.available': '0%' },
    },
    problems: [
      'evictionSoftGracePeriod: invalid eviction grace period specified: -1m, must be a positive value',
      'evictionSoftGracePeriod: "soon" is not a duration, such as 1m30s',
      'evictionMinimumReclaim: negative eviction minimum reclaim specified for nodefs.available',
      'evictionMinimumReclaim: eviction percentage minimum reclaim imagefs.available must be positive: 0%',
    ],
  },
];

for (const { it, given, thresholds = [], defaults, unwatched = [], problems = [] } of cases) {
  test(`readThresholds ${it}`, () => {
    const found: string[] = [];
    const read = readThresholds(given, found);
    assert.deepEqual(found, problems);
    if (problems.length > 0) return;
    assert.deepEqual(read.given.map(show), thresholds);
    if (defaults !== undefined) assert.deepEqual(read.defaults.map(show), defaults);
    assert.deepEqual(read.unwatched, unwatched);
  });
}
