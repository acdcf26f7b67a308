/** On which nodes a DaemonSet creates and deletes pods, and that it comes back to those that failed when each is due. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Node } from '../../kube/kinds/node.ts';
import type { Pod } from '../../kube/kinds/pod/pod.ts';
import { type DaemonSet, daemonSetKind } from '../../kube/kinds/workloads/daemon-set.ts';
import type { KubeObject } from '../../kube/schema/kind.ts';
import { StorageWorld, namespace } from '../../testing/worlds/storage-world.ts';
import { endsAnnotation, workloadParties } from '../../testing/worlds/workload-world.ts';
import { type DaemonView, daemonSetStatus, planDaemonSet, templateFor } from './daemon-set-plan.ts';
import { runDaemonSets } from './daemon-sets.ts';

const nowMs = Date.parse('2026-01-01T10:00:00Z');

type Spec = Partial<DaemonSet['spec']>;

interface Given {
  readonly spec?: Spec;
  /** Taints of nodes: `NoSchedule`, `NoExecute`, or nothing. */
  readonly nodes?: Readonly<Record<string, string>>;
  /**
   * By node, the oldest first: `old`, `new`, ready since ten seconds. With `?` it is not ready, with `…` it ends, with `!` it has
   * failed, with `.` succeeded, with `-` no node has taken it.
   */
  readonly pods?: Readonly<Record<string, readonly string[]>>;
}

function podOf(node: string, index: number, text: string): Pod {
  const [, hash = '', state = ''] = /^(\w+)(.?)$/.exec(text) ?? [];
  const { spec } = templateFor({ spec: { containers: [] } }, node);
  const phase = state === '!' ? 'Failed' : state === '.' ? 'Succeeded' : 'Running';
  const lastTransitionTime = new Date(nowMs - 10_000).toISOString();
  return {
    metadata: {
      name: `${node}${index}`,
      creationTimestamp: `2026-01-01T09:00:0${index}Z`,
      labels: { 'controller-revision-hash': hash },
      ...(state === '…' && { deletionTimestamp: '2026-01-01T10:00:30Z' }),
    },
    spec: { ...spec, ...(state !== '-' && { nodeName: node }) },
    status: {
      phase,
      conditions: [{ type: 'Ready', status: state === '' || state === '…' ? 'True' : 'False', lastTransitionTime }],
    },
  };
}

function viewOf({ spec = {}, nodes = { a: '', b: '', c: '' }, pods = {} }: Given): DaemonView {
  const set = daemonSetKind.complete({
    metadata: { name: 'log', uid: 'u', generation: 1 },
    spec: { template: { spec: { containers: [] } }, ...spec },
  });
  const nodeOf = ([name, effect]: readonly [string, string]): Node => ({
    metadata: { name },
    spec: { taints: effect === '' ? [] : [{ key: 'test', effect }] },
  });
  return {
    set,
    nodes: Object.entries(nodes).map(nodeOf),
    pods: Object.entries(pods).flatMap(([node, texts]) => texts.map((text, index) => podOf(node, index, text))),
    hash: 'new',
    nowMs,
  };
}

/** `+a` creates a pod on the node a, `-a0` deletes its first, `!a0` is one that failed. */
function show(given: Given): string {
  const { create, remove, failed } = planDaemonSet(viewOf(given));
  const names = (sign: string, pods: readonly Pod[]): readonly string[] =>
    pods.map(({ metadata }) => `${sign}${metadata.name}`).sort();
  return [...create.map((node) => `+${node}`), ...names('-', remove), ...names('!', failed)].join(' ');
}

const rolling = (rollingUpdate: object, spec: Spec = {}): Spec => ({
  updateStrategy: { type: 'RollingUpdate', rollingUpdate },
  ...spec,
});
const surge = (maxSurge: number | string, spec: Spec = {}): Spec => rolling({ maxSurge, maxUnavailable: 0 }, spec);
const onDelete: Spec = { updateStrategy: { type: 'OnDelete' } };
const everywhere = (text: string): Required<Given>['pods'] => ({ a: [text], b: [text], c: [text] });

const cases: readonly (Given & { readonly it: string; readonly plan: string })[] = [
  { it: 'creates a pod on each node', plan: '+a +b +c' },
  { it: 'creates none where a pod ends', pods: { a: ['new…'], b: ['new'], c: ['new'] }, plan: '' },
  { it: 'keeps away from a node with a taint', nodes: { a: 'NoSchedule', b: '' }, plan: '+b' },
  { it: 'stays on a node that takes no more', nodes: { a: 'NoSchedule' }, pods: { a: ['new'] }, plan: '' },
  { it: 'leaves a node that keeps nothing', nodes: { a: 'NoExecute' }, pods: { a: ['new'] }, plan: '-a0' },
  {
    it: 'keeps the oldest of several that a node has',
    nodes: { a: '' },
    pods: { a: ['new', 'new', 'new-'] },
    plan: '-a1 -a2',
  },
  {
    it: 'deletes one that nobody took for a node that is gone',
    nodes: { a: '' },
    pods: { a: ['new'], z: ['new-'] },
    plan: '-z0',
  },
  {
    it: 'names what failed, and deletes what is done',
    nodes: { a: '', b: '' },
    pods: { a: ['new!'], b: ['new.'] },
    plan: '-b0 !a0',
  },

  { it: 'replaces one at a time', pods: everywhere('old'), plan: '-a0' },
  { it: 'waits until the new one is ready', pods: { a: ['new?'], b: ['old'], c: ['old'] }, plan: '' },
  { it: 'waits until it is there', pods: { b: ['old'], c: ['old'], a: ['old…'] }, plan: '' },
  { it: 'goes on when it is ready', pods: { a: ['new'], b: ['old'], c: ['old'] }, plan: '-b0' },
  {
    it: 'replaces as many at once as may be missing',
    spec: rolling({ maxUnavailable: 2 }),
    pods: everywhere('old'),
    plan: '-a0 -b0',
  },
  { it: 'counts a share up', spec: rolling({ maxUnavailable: '34%' }), pods: everywhere('old'), plan: '-a0 -b0' },
  { it: 'replaces what is not ready anyway', pods: { a: ['old'], b: ['old?'], c: ['old?'] }, plan: '-b0 -c0' },
  { it: 'leaves its update to others', spec: onDelete, pods: { a: ['old'], b: ['old'] }, plan: '+c' },

  { it: 'adds a new one beside an old one', spec: surge(1), pods: everywhere('old'), plan: '+a' },
  { it: 'adds as many as a share, counted up', spec: surge('34%'), pods: everywhere('old'), plan: '+a +b' },
  {
    it: 'waits until the new one is ready before it takes the old one',
    spec: surge(1),
    pods: { a: ['old', 'new?'], b: ['old'], c: ['old'] },
    plan: '',
  },
  {
    it: 'then takes it, and goes on',
    spec: surge(1),
    pods: { a: ['old', 'new'], b: ['old'], c: ['old'] },
    plan: '+b -a0',
  },
  { it: 'goes on when the old one is gone', spec: surge(1), pods: { a: ['new'], b: ['old'], c: ['old'] }, plan: '+b' },
  {
    it: 'takes an old one that is not ready as soon as there is a new one',
    spec: surge(1),
    nodes: { a: '' },
    pods: { a: ['old?', 'new?'] },
    plan: '-a0',
  },
  {
    it: 'adds new ones beside all that are not ready, and beside one more',
    spec: surge(1),
    pods: { a: ['old?'], b: ['old?'], c: ['old'] },
    plan: '+a +b +c',
  },
];
for (const { it, plan, ...given } of cases) {
  test(`a DaemonSet ${it}`, () => assert.equal(show(given), plan));
}

test('a DaemonSet counts nodes', () => {
  const status = daemonSetStatus(
    viewOf({ nodes: { a: '', b: '', c: 'NoSchedule', d: '' }, pods: { a: ['old', 'new'], b: ['new?'], c: ['old'] } }),
  );
  assert.deepEqual(status, {
    desiredNumberScheduled: 3,
    currentNumberScheduled: 2,
    numberMisscheduled: 1,
    numberReady: 1,
    updatedNumberScheduled: 1,
    numberAvailable: 1,
    numberUnavailable: 2,
    observedGeneration: 1,
  });
});

test('a pod that failed is made again when its own pause is over, however long that of another is', async () => {
  const world = await StorageWorld.open(workloadParties(runDaemonSets));
  try {
    const { user, clock } = world;
    const taint = (name: string, effect: string | undefined): Promise<void> =>
      user.update(world.key('Node', name), (object) => {
        const taints = effect === undefined ? [] : [{ key: 'test', value: 'yes', effect }];
        return { ...object, spec: { ...(object as Node).spec, taints } } as KubeObject;
      });
    const made: string[] = [];
    user.watch(user.kindOf('v1', 'Pod') ?? assert.fail(), ({ type, object }) => {
      const { metadata, spec } = object as Pod;
      const who = `${spec.nodeName} ${metadata.name}`;
      if (type === 'put' && spec.nodeName !== undefined && !made.includes(who)) made.push(who);
    });
    const on = (node: string): number => made.filter((who) => who.startsWith(`${node} `)).length;
    await world.create('v1', 'Node', { metadata: { name: 'there' } });
    await world.setReady('there', true);
    await taint('here', 'NoExecute');
    const template = {
      metadata: { labels: { app: 'log' }, annotations: { [endsAnnotation]: 'Failed' } },
      spec: { containers: [{ name: 'main', image: 'none' }] },
    };
    const spec = { selector: { matchLabels: { app: 'log' } }, template };
    await world.create('apps/v1', 'DaemonSet', { metadata: { name: 'log', namespace }, spec } as KubeObject);
    for (let seconds = 0; seconds < 60; seconds += 1) {
      await clock.advance(1_000);
      await world.rest();
    }
    assert.ok(on('there') > 4, String(made));
    assert.equal(on('here'), 0);
    await taint('here', undefined);
    // The node that changed last is looked at last.
    await user.update(world.key('Node', 'there'), (object) => {
      return { ...object, metadata: { ...object.metadata, labels: { changed: 'last' } } };
    });
    await world.rest();
    const before = on('there');
    // Its second pod is due after one second, its third two seconds later; the pause of the other node is a minute by now.
    for (let seconds = 0; seconds < 6; seconds += 1) {
      await clock.advance(1_000);
      await world.rest();
    }
    assert.ok(on('here') >= 3, String(made));
    assert.equal(on('there'), before);
    assert.deepEqual(world.failures, []);
  } finally {
    await world.close();
  }
});
