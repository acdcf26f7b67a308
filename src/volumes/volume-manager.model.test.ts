/**
 * Random lives of a node: pods come and go, objects change, plugins fail in every way, all in between each other. Whatever
 * happens, nothing that is in use is taken away and no two operations meet; and once the failures stop, what is there is what
 * is wanted, at its newest content.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import type { Volume } from '../kube/kinds/pod/volume.ts';
import type { VolumeSpec } from '../kube/references/volume-spec.ts';
import type { SetUpOutcome, SetUpRequest, TearDownRequest } from '../plugins/plugin.ts';
import { settle } from '../testing/fakes/fake-clock.ts';
import { type PluginStep, ScriptedError, ScriptedPlugin } from '../testing/fakes/scripted-plugin.ts';
import { VolumeWorld, claimVolume, podUsing } from '../testing/worlds/volume-world.ts';
import { asPodUid } from './volume-name.ts';

const uids = ['p0', 'p1', 'p2', 'p3'] as const;
const objects = ['red', 'blue'] as const;
const volumesOf: Readonly<Record<string, Volume>> = {
  red: { name: 'red', configMap: { name: 'red' } },
  blue: { name: 'blue', configMap: { name: 'blue' } },
  d0: claimVolume('d0'),
  d1: claimVolume('d1'),
};

type Command =
  | { readonly kind: 'add'; readonly uid: string; readonly volumes: readonly string[] }
  | { readonly kind: 'terminate' | 'remove' | 'sync'; readonly uid: string }
  | { readonly kind: 'change'; readonly object: string }
  | { readonly kind: 'fail'; readonly step: PluginStep; readonly failureClass: ScriptedError['failureClass'] }
  | { readonly kind: 'hold'; readonly step: PluginStep }
  | { readonly kind: 'release' }
  | { readonly kind: 'wait'; readonly ms: number };

const uid = fc.constantFrom(...uids);
const step = fc.constantFrom<PluginStep[]>(
  'attach',
  'waitForAttach',
  'mountDevice',
  'setUp',
  'tearDown',
  'unmountDevice',
  'detach',
);
const command: fc.Arbitrary<Command> = fc.oneof(
  {
    weight: 4,
    arbitrary: fc.record({
      kind: fc.constant('add' as const),
      uid,
      volumes: fc.subarray(Object.keys(volumesOf), { minLength: 1 }),
    }),
  },
  {
    weight: 4,
    arbitrary: fc.record({ kind: fc.constantFrom('terminate' as const, 'remove' as const, 'sync' as const), uid }),
  },
  { weight: 4, arbitrary: fc.record({ kind: fc.constant('change' as const), object: fc.constantFrom(...objects) }) },
  {
    weight: 3,
    arbitrary: fc.record({
      kind: fc.constant('fail' as const),
      step,
      failureClass: fc.constantFrom('uncertain' as const, 'transient' as const, 'final' as const),
    }),
  },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant('hold' as const), step }) },
  { weight: 2, arbitrary: fc.record({ kind: fc.constant('release' as const) }) },
  {
    weight: 3,
    arbitrary: fc.record({ kind: fc.constant('wait' as const), ms: fc.constantFrom(0, 1, 501, 2500, 61_000) }),
  },
);

class Node {
  readonly versions = new Map<string, number>(objects.map((name) => [name, 1]));
  /** What is in the directory of each volume that shows an object. */
  readonly written = new Map<string, number>();
  readonly violations: string[] = [];
  readonly config: ScriptedPlugin;
  readonly disk: ScriptedPlugin;
  readonly world: VolumeWorld;
  readonly #releases: (() => void)[] = [];
  readonly #cleanUps: (() => Promise<void>)[] = [];

  constructor() {
    this.config = this.#watched(new ScriptedPlugin({ name: 'kubernetes.io/configmap', follows: () => [] }));
    this.config.sourceOf = ({ volume }: VolumeSpec) => volume?.configMap;
    this.config.follows = (source) => [{ object: { kind: 'ConfigMap', name: (source as { name: string }).name } }];
    this.disk = this.#watched(new ScriptedPlugin({ kind: 'attachable', byNodeAlone: true }));
    const after = (act: () => Promise<void>): number => this.#cleanUps.push(act);
    this.world = new VolumeWorld({ after }, { plugins: [this.config, this.disk] });
    for (const name of ['d0', 'd1']) this.world.claims.bind(name);
  }

  async close(): Promise<void> {
    for (const cleanUp of this.#cleanUps) await cleanUp();
  }

  async carryOut(next: Command): Promise<void> {
    const { world } = this;
    const { pods, manager } = world;
    if (next.kind === 'add') {
      // A UID never comes back.
      if (pods.pod(asPodUid(next.uid)) !== undefined || pods.terminated.has(next.uid)) return;
      pods.put(
        podUsing(
          next.uid,
          next.volumes.map((name) => volumesOf[name] ?? assert.fail(name)),
        ),
      );
      manager.podChanged(asPodUid(next.uid));
    } else if (next.kind === 'terminate' || next.kind === 'remove') {
      if (pods.pod(asPodUid(next.uid)) === undefined) return;
      pods.terminated.add(next.uid);
      if (next.kind === 'remove') pods.remove(next.uid);
      manager.podChanged(asPodUid(next.uid));
    } else if (next.kind === 'sync') this.#sync(next.uid);
    else if (next.kind === 'change') {
      this.versions.set(next.object, (this.versions.get(next.object) ?? 0) + 1);
      manager.objectChanged({ kind: 'ConfigMap', namespace: 'shop', name: next.object });
    } else if (next.kind === 'fail') {
      for (const plugin of [this.config, this.disk]) plugin.script(next.step, new ScriptedError(next.failureClass));
    } else if (next.kind === 'hold')
      this.#releases.push(this.disk.hold(next.step).release, this.config.hold(next.step).release);
    else if (next.kind === 'release') for (const release of this.#releases.splice(0)) release();
    else if (next.kind === 'wait') await world.clock.advance(next.ms);
    await settle(1);
  }

  /** Nothing fails any more, and there is time for every delay. */
  async comeToRest(): Promise<void> {
    for (const plugin of [this.config, this.disk]) plugin.stopFailing();
    for (let round = 0; round < 8; round += 1) {
      await this.carryOut({ kind: 'release' });
      await this.world.advance(62_000);
    }
  }

  /** A pod worker's sync: it does not care how the wait ends. */
  #sync(podUid: string): void {
    const pod = this.world.pods.pod(asPodUid(podUid));
    if (pod === undefined || this.world.pods.terminated.has(podUid)) return;
    const stop = new AbortController();
    this.world.manager.waitForMounted(pod, stop.signal).catch(() => {});
    this.#cleanUps.push(async () => stop.abort());
  }

  #watched(plugin: ScriptedPlugin): ScriptedPlugin {
    const [setUp, tearDown] = [plugin.setUp.bind(plugin), plugin.tearDown.bind(plugin)];
    plugin.setUp = async (request: SetUpRequest, signal: AbortSignal): Promise<SetUpOutcome> => {
      const version = this.versions.get(request.volumeName) ?? 0;
      const outcome = await setUp(request, signal);
      this.written.set(request.directory, version);
      return outcome;
    };
    plugin.tearDown = async (request: TearDownRequest): Promise<void> => {
      const isRunning = this.world.pods.pod(asPodUid(request.podUid)) !== undefined;
      if (isRunning && !this.world.pods.terminated.has(request.podUid)) {
        this.violations.push(`${request.directory} was torn down while its pod ran`);
      }
      this.written.delete(request.directory);
      await tearDown(request);
    };
    return plugin;
  }
}

test('the final state is the desired state, and no volume in use was removed', async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(command, { minLength: 5, maxLength: 40 }), async (commands) => {
      const node = new Node();
      try {
        await node.world.start();
        for (const next of commands) await node.carryOut(next);
        await node.comeToRest();
        assert.deepEqual([...node.violations, ...node.config.violations, ...node.disk.violations], []);
        const { pods, manager } = node.world;
        const running = [...pods.pods()].filter(({ metadata }) => !pods.terminated.has(metadata.uid ?? ''));
        const expected = running.flatMap(({ metadata, spec }) =>
          (spec.volumes ?? []).map(({ name }) => `${metadata.uid}/${name}: mounted`),
        );
        assert.deepEqual(node.world.states(), expected.sort());
        const onDisk = [...node.config.mounted, ...node.disk.mounted].length;
        assert.equal(onDisk, expected.length, 'the disk has what the states say');
        const disks = new Set(expected.flatMap((text) => /\/(d\d):/.exec(text)?.[1] ?? []));
        assert.deepEqual([...node.disk.devices].sort(), [...disks].map((name) => `/plugins/${name}`).sort());
        assert.deepEqual([...node.disk.attached].sort(), [...disks].sort());
        for (const [directory, version] of node.written) {
          const name = directory.split('/').at(-1) ?? '';
          if (node.versions.has(name)) assert.equal(version, node.versions.get(name), `${directory} is out of date`);
        }
        assert.equal(manager.operationsRunning, 0);
        assert.ok(manager.queries.statuses().every(({ isStale, lastError }) => !isStale && lastError === undefined));
      } finally {
        await node.close();
      }
    }),
    { numRuns: 30 },
  );
});
