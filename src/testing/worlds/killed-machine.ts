/**
 * Random lives of a machine whose node is killed again and again: pods come and go, also while no node runs, plugins fail and
 * hang, and a kill leaves whatever was going on half done. Nothing that a running pod uses is ever taken away, and in the end
 * the machine has what the cluster wants and nothing else.
 */
import assert from 'node:assert/strict';
import fc from 'fast-check';
import type { Volume } from '../../kube/kinds/pod/volume.ts';
import type { VolumeSpec } from '../../kube/references/volume-spec.ts';
import type { DeviceMount, NodeAttach, SetUpOutcome, SetUpRequest, TearDownRequest } from '../../plugins/plugin.ts';
import { asPodUid } from '../../volumes/volume-name.ts';
import { settle } from '../fakes/fake-clock.ts';
import { type PluginStep, ScriptedError, ScriptedPlugin } from '../fakes/scripted-plugin.ts';
import { FakePodsOnDisk, VolumeWorld, claimVolume, podUsing } from './volume-world.ts';

const volumesOf: Readonly<Record<string, Volume>> = {
  red: { name: 'red', configMap: { name: 'red' } },
  blue: { name: 'blue', configMap: { name: 'blue' } },
  d0: claimVolume('d0'),
  d1: claimVolume('d1'),
};
const configName = 'kubernetes.io/configmap';

type Command =
  | { readonly kind: 'add'; readonly volumes: readonly string[] }
  | { readonly kind: 'remove'; readonly which: number }
  | { readonly kind: 'fail'; readonly step: PluginStep; readonly failureClass: ScriptedError['failureClass'] }
  | { readonly kind: 'hold'; readonly step: PluginStep }
  | { readonly kind: 'kill'; readonly down: readonly Command[] }
  | { readonly kind: 'wait'; readonly ms: number };

const step = fc.constantFrom<PluginStep[]>('attach', 'mountDevice', 'setUp', 'tearDown', 'unmountDevice', 'detach');
const pods: fc.Arbitrary<Command> = fc.oneof(
  fc.record({ kind: fc.constant('add' as const), volumes: fc.subarray(Object.keys(volumesOf), { minLength: 1 }) }),
  fc.record({ kind: fc.constant('remove' as const), which: fc.nat({ max: 3 }) }),
);
const command: fc.Arbitrary<Command> = fc.oneof(
  { weight: 6, arbitrary: pods },
  {
    weight: 2,
    arbitrary: fc.record({
      kind: fc.constant('fail' as const),
      step,
      failureClass: fc.constantFrom('uncertain' as const, 'transient' as const, 'final' as const),
    }),
  },
  { weight: 3, arbitrary: fc.record({ kind: fc.constant('hold' as const), step }) },
  { weight: 3, arbitrary: fc.record({ kind: fc.constant('kill' as const), down: fc.array(pods, { maxLength: 2 }) }) },
  { weight: 2, arbitrary: fc.record({ kind: fc.constant('wait' as const), ms: fc.constantFrom(0, 501, 61_000) }) },
);

/** What a kill leaves; the plugins are the machine, and a world is one process on it. */
class Machine {
  readonly violations: string[] = [];
  readonly config: ScriptedPlugin;
  readonly disk: ScriptedPlugin;
  readonly directories = new FakePodsOnDisk();
  readonly #wanted = new Map<string, readonly string[]>();
  /** Begun and not ended: after a kill it may be there. */
  readonly #begun = new Set<() => void>();
  readonly #releases: (() => void)[] = [];
  readonly #stops: (() => Promise<void>)[] = [];
  #added = 0;
  world: VolumeWorld;

  constructor() {
    this.config = this.#watched(new ScriptedPlugin({ name: configName, follows: () => [] }));
    this.config.sourceOf = ({ volume }: VolumeSpec) => volume?.configMap;
    this.config.reconstruct = (name: string) => ({ volume: { name, configMap: { name: '' } }, readOnly: false });
    this.disk = this.#watched(new ScriptedPlugin({ kind: 'attachable', byNodeAlone: true }));
    this.world = this.#process();
  }

  async carryOut(next: Command): Promise<void> {
    if (next.kind === 'add' || next.kind === 'remove') this.#change(next);
    else if (next.kind === 'kill') await this.#kill(next.down);
    else if (next.kind === 'wait') await this.world.clock.advance(next.ms);
    else if (next.kind === 'hold')
      this.#releases.push(this.config.hold(next.step).release, this.disk.hold(next.step).release);
    else for (const plugin of [this.config, this.disk]) plugin.script(next.step, new ScriptedError(next.failureClass));
    await settle(2);
  }

  async comeToRest(): Promise<void> {
    for (const plugin of [this.config, this.disk]) plugin.stopFailing();
    await this.#kill([]); // also releases everything that hangs
    for (let round = 0; round < 4; round += 1) await this.world.advance(62_000);
  }

  async close(): Promise<void> {
    for (const release of this.#releases) release();
    for (const stop of this.#stops) await stop();
  }

  /** `pod/volume`, for all that must be there. */
  wanted(): readonly string[] {
    return [...this.#wanted].flatMap(([uid, volumes]) => volumes.map((name) => `${uid}/${name}`)).sort();
  }

  #change(next: Extract<Command, { kind: 'add' | 'remove' }>): void {
    if (next.kind === 'add') {
      const uid = `p${(this.#added += 1)}`;
      this.#wanted.set(uid, next.volumes);
      this.#tell(uid);
    } else {
      const uid = [...this.#wanted.keys()][next.which];
      if (uid === undefined) return;
      this.#wanted.delete(uid);
      this.#tell(uid);
    }
  }

  #tell(uid: string): void {
    this.#put(this.world, uid);
    this.world.manager.podChanged(asPodUid(uid));
  }

  #put({ pods: known }: VolumeWorld, uid: string): void {
    const volumes = this.#wanted.get(uid);
    if (volumes !== undefined)
      return known.put(
        podUsing(
          uid,
          volumes.map((name) => volumesOf[name] ?? assert.fail(name)),
        ),
      );
    known.terminated.add(uid);
    known.remove(uid);
  }

  async #kill(down: readonly Command[]): Promise<void> {
    const halfDone = [...this.#begun];
    const stopped = this.world.stop();
    for (const release of this.#releases.splice(0)) release();
    await stopped;
    for (const leave of halfDone) leave();
    this.#begun.clear();
    for (const next of down) if (next.kind === 'add' || next.kind === 'remove') this.#change(next);
    this.directories.trees.clear();
    for (const [plugin, name] of [
      [this.config, configName],
      [this.disk, this.disk.name],
    ] as const) {
      for (const path of plugin.mounted) {
        const [, , , uid = '', , , volume = ''] = path.split('/');
        this.directories.leave(uid, name, volume);
      }
    }
    this.world = this.#process();
    for (let pod = 1; pod <= this.#added; pod += 1) this.#put(this.world, `p${pod}`);
    await this.world.start();
  }

  #process(): VolumeWorld {
    const after = (act: () => Promise<void>): number => this.#stops.push(act);
    const plugins = [this.config, this.disk];
    const world = new VolumeWorld({ after }, { plugins, deps: { podsOnDisk: this.directories } });
    for (const name of ['d0', 'd1']) world.claims.bind(name);
    return world;
  }

  #watched(plugin: ScriptedPlugin): ScriptedPlugin {
    const [setUp, tearDown] = [plugin.setUp.bind(plugin), plugin.tearDown.bind(plugin)];
    plugin.setUp = (request: SetUpRequest, signal: AbortSignal): Promise<SetUpOutcome> =>
      this.#during(
        () => plugin.mounted.add(request.directory),
        () => setUp(request, signal),
      );
    plugin.tearDown = (request: TearDownRequest): Promise<void> => {
      if (this.#wanted.has(request.podUid))
        this.violations.push(`${request.directory} was torn down while its pod ran`);
      return tearDown(request);
    };
    const { deviceMount } = plugin;
    const attach = plugin.attach?.byNodeAlone;
    if (deviceMount !== undefined) this.#watchDevices(plugin, deviceMount);
    if (attach !== undefined) this.#watchAttach(plugin, attach);
    return plugin;
  }

  #watchDevices(plugin: ScriptedPlugin, deviceMount: DeviceMount): void {
    const mount = deviceMount.mount.bind(deviceMount);
    deviceMount.mount = (request, signal) =>
      this.#during(
        () => plugin.devices.add(request.path),
        () => mount(request, signal),
      );
  }

  #watchAttach(plugin: ScriptedPlugin, attach: NodeAttach): void {
    const begin = attach.attach.bind(attach);
    attach.attach = (request, signal) =>
      this.#during(
        () => plugin.attached.add(request.spec.persistentVolume?.metadata.name ?? ''),
        () => begin(request, signal),
      );
  }

  async #during<Result>(leave: () => void, act: () => Promise<Result>): Promise<Result> {
    this.#begun.add(leave);
    try {
      return await act();
    } finally {
      this.#begun.delete(leave);
    }
  }
}

export async function checkRandomKills(runs: number): Promise<void> {
  await fc.assert(
    fc.asyncProperty(fc.array(command, { minLength: 5, maxLength: 30 }), async (commands) => {
      const machine = new Machine();
      try {
        await machine.world.start();
        for (const next of commands) await machine.carryOut(next);
        await machine.comeToRest();
        const { config, disk, world } = machine;
        assert.deepEqual([...machine.violations, ...config.violations, ...disk.violations], []);
        const wanted = machine.wanted();
        assert.deepEqual(
          world.states(),
          wanted.map((name) => `${name}: mounted`),
        );
        const there = [...config.mounted, ...disk.mounted].map((path) =>
          path.split('/').filter((_, at) => at === 3 || at === 6),
        );
        assert.deepEqual(there.map((parts) => parts.join('/')).sort(), wanted, 'the machine has what the states say');
        const disks = [...new Set(wanted.flatMap((name) => /\/(d\d)$/.exec(name)?.[1] ?? []))].sort();
        assert.deepEqual(
          [...disk.devices].sort(),
          disks.map((name) => `/plugins/${name}`),
        );
        assert.deepEqual([...disk.attached].sort(), disks);
      } finally {
        await machine.close();
      }
    }),
    { numRuns: runs },
  );
}
