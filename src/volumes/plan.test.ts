import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { type VolumeSpec, inlineSpec } from '../kube/references/volume-spec.ts';
import { PluginRegistry } from '../plugins/registry.ts';
import { ScriptedPlugin, storageSpec } from '../testing/fakes/scripted-plugin.ts';
import { podUsing } from '../testing/worlds/volume-world.ts';
import { ActualState, type Attachable, type DeviceState } from './actual-state.ts';
import { DesiredState } from './desired-state.ts';
import { type PlanContext, type VolumeAction, planDevice, planMount } from './plan.ts';
import { asPodUid } from './volume-name.ts';

const pod = podUsing('web', []);
const podUid = asPodUid('web');

/** One volume in both states, as a test describes it. */
interface Case {
  readonly kind?: 'plain' | 'device' | 'attachable' | 'loop';
  readonly mode?: 'Filesystem' | 'Block';
  /** Undefined: not wanted. */
  readonly wants?: number;
  readonly reported?: boolean;
  readonly sizeWanted?: bigint;
  /** Undefined: not listed. */
  readonly device?: DeviceState;
  readonly attachable?: Attachable;
  /** `1` mounted at revision 1, `1?` uncertain. */
  readonly has?: string;
  readonly sizeNow?: bigint;
  readonly refusesExpansion?: boolean;
  readonly otherPod?: boolean;
  readonly mayUnmount?: boolean;
  readonly unresolved?: boolean;
  readonly controllerAttach?: boolean;
  readonly listed?: boolean;
}

class World {
  readonly desired: DesiredState;
  readonly actual: ActualState;
  readonly context: PlanContext;
  readonly spec: VolumeSpec;
  readonly volume;
  #attachable: Attachable | undefined;

  constructor(given: Case) {
    const { kind = 'plain', mode = 'Filesystem' } = given;
    const plugin = new ScriptedPlugin({
      kind: kind === 'loop' ? 'attachable' : kind,
      byNodeAlone: kind === 'loop',
      follows: () => [],
    });
    const { registry } = PluginRegistry.of([plugin]);
    this.desired = new DesiredState({ plugins: registry, now: () => 0, touched: () => {}, inUseChanged: () => {} });
    this.actual = new ActualState(registry, () => {});
    this.spec =
      kind === 'plain' ? inlineSpec({ name: 'data', csi: { driver: 'x' } }) : storageSpec('disk', { volumeMode: mode });
    this.volume = this.#want(given);
    this.#list(given);
    this.#attachable = given.attachable;
    this.context = {
      mayUnmount: given.mayUnmount ?? true,
      isUnresolved: () => given.unresolved ?? false,
      controllerAttach: given.controllerAttach ?? true,
      plugins: registry,
      isListedAttached: () => given.listed,
    };
  }

  mountPlan(): VolumeAction | undefined {
    return planMount(podUid, this.desired.volume(this.volume), this.present(), this.context);
  }

  devicePlan(): VolumeAction | undefined {
    const present = this.present();
    return present && planDevice(this.desired.volume(this.volume), present, this.context);
  }

  present(): ReturnType<ActualState['volume']> {
    const present = this.actual.volume(this.volume);
    return present && { ...present, attachable: this.#attachable ?? present.attachable };
  }

  #want({ wants, reported, sizeWanted }: Case) {
    const volume = this.desired.want({ pod, spec: this.spec, podVolumeName: 'data', gid: '' });
    if (wants === undefined) this.desired.forget({ volume, podUid });
    else for (let revision = 1; revision < wants; revision += 1) this.desired.refresh({ volume, podUid });
    if (reported === true) this.desired.markReportedInUse(new Set([volume]));
    if (sizeWanted !== undefined) this.desired.setSize(volume, sizeWanted, 0n);
    return volume;
  }

  #list({ device, has, sizeNow, refusesExpansion, otherPod, kind = 'plain' }: Case): void {
    if (device === undefined) return;
    const { volume, spec } = this;
    this.actual.attached({ volume, spec, devicePath: '' });
    if (device === 'mounted') this.actual.deviceMounted(volume, '', '/mnt');
    if (device === 'uncertain') this.actual.deviceUncertain(volume, '', '/mnt');
    if (sizeNow !== undefined) this.actual.initializeSize(volume, sizeNow);
    if (refusesExpansion === true) this.actual.refuseExpansionInUse(volume);
    const pluginName = kind === 'plain' ? 'example.com/plain' : 'example.com/disk';
    const record = { volume, podUid, spec, pluginName, gid: '', revision: Number.parseInt(has ?? '', 10) };
    if (otherPod === true) this.actual.mounted({ ...record, podUid: asPodUid('other'), revision: 1 });
    if (has?.endsWith('?') === true) this.actual.uncertain(record);
    else if (has !== undefined) this.actual.mounted(record);
  }
}

function show(action: VolumeAction | undefined): string | undefined {
  if (action === undefined) return undefined;
  return 'isRemount' in action && action.isRemount ? `${action.kind} again` : action.kind;
}

const notMounted = 'not-mounted' as const;
const mounts: readonly (Case & { readonly it: string; readonly plan: string | undefined })[] = [
  { it: 'lists a plain volume first', wants: 1, plan: 'verify' },
  { it: 'lists a device that needs no attaching first', kind: 'device', wants: 1, plan: 'verify' },
  { it: 'mounts what is listed', wants: 1, device: notMounted, plan: 'mount' },
  { it: 'repeats an uncertain mount', wants: 1, device: notMounted, has: '1?', plan: 'mount' },
  { it: 'leaves a current mount alone', wants: 1, device: notMounted, has: '1', plan: undefined },
  { it: 'refreshes an old mount', wants: 2, device: notMounted, has: '1', plan: 'mount again' },
  { it: 'unmounts an unwanted mount', device: notMounted, has: '1', plan: 'unmount' },
  { it: 'unmounts an unwanted uncertain mount', device: notMounted, has: '1?', plan: 'unmount' },
  { it: 'unmounts nothing while pods are unread', device: notMounted, has: '1', mayUnmount: false, plan: undefined },
  { it: 'mounts also while pods are unread', wants: 1, device: notMounted, mayUnmount: false, plan: 'mount' },
  { it: 'unmounts nothing of an unresolved pod', device: notMounted, has: '1', unresolved: true, plan: undefined },
  { it: 'does nothing about nothing', plan: undefined },
  { it: 'waits until it is reported in use', kind: 'attachable', wants: 1, plan: undefined },
  {
    it: 'waits until it is listed as attached',
    kind: 'attachable',
    wants: 1,
    reported: true,
    listed: false,
    plan: undefined,
  },
  {
    it: 'verifies what is listed as attached',
    kind: 'attachable',
    wants: 1,
    reported: true,
    listed: true,
    plan: 'verify',
  },
  { it: 'verifies where the status was never read', kind: 'attachable', wants: 1, reported: true, plan: 'verify' },
  {
    it: 'tries to attach where no controller does, and fails with an Event',
    kind: 'attachable',
    wants: 1,
    controllerAttach: false,
    plan: 'attach',
  },
  { it: 'attaches what only the node can', kind: 'loop', wants: 1, plan: 'attach' },
  { it: 'lists a plain volume also where no controller attaches', wants: 1, controllerAttach: false, plan: 'verify' },
  { it: 'maps a raw device', kind: 'device', mode: 'Block', wants: 1, device: notMounted, plan: 'map' },
  { it: 'unmaps a raw device', kind: 'device', mode: 'Block', device: 'mounted', has: '1', plan: 'unmap' },
  {
    it: 'grows what is mounted and grew',
    kind: 'device',
    wants: 1,
    device: 'mounted',
    has: '1',
    sizeNow: 1n,
    sizeWanted: 2n,
    plan: 'expand',
  },
  {
    it: 'refreshes before it grows',
    kind: 'device',
    wants: 2,
    device: 'mounted',
    has: '1',
    sizeNow: 1n,
    sizeWanted: 2n,
    plan: 'mount again',
  },
  {
    it: 'grows nothing of unknown size',
    kind: 'device',
    wants: 1,
    device: 'mounted',
    has: '1',
    sizeNow: 0n,
    sizeWanted: 2n,
    plan: undefined,
  },
  {
    it: 'shrinks nothing',
    kind: 'device',
    wants: 1,
    device: 'mounted',
    has: '1',
    sizeNow: 2n,
    sizeWanted: 1n,
    plan: undefined,
  },
  {
    it: 'does not grow what refused it',
    kind: 'device',
    wants: 1,
    device: 'mounted',
    has: '1',
    sizeNow: 1n,
    sizeWanted: 2n,
    refusesExpansion: true,
    plan: undefined,
  },
];
for (const { it, plan, ...given } of mounts) {
  test(`planMount ${it}`, () => assert.equal(show(new World(given).mountPlan()), plan));
}

const devices: readonly (Case & { readonly it: string; readonly plan: string | undefined })[] = [
  { it: 'keeps what is wanted', wants: 1, device: 'mounted', kind: 'device', plan: undefined },
  { it: 'keeps what a pod has', device: 'mounted', kind: 'device', has: '1', plan: undefined },
  { it: 'keeps what a pod may have', device: 'mounted', kind: 'device', has: '1?', plan: undefined },
  { it: 'keeps what another pod has', device: 'mounted', kind: 'device', otherPod: true, plan: undefined },
  {
    it: 'keeps everything while pods are unread',
    device: 'mounted',
    kind: 'device',
    mayUnmount: false,
    plan: undefined,
  },
  { it: 'unmounts a device', device: 'mounted', kind: 'device', plan: 'unmountDevice' },
  { it: 'unmounts a device that may be mounted', device: 'uncertain', kind: 'device', plan: 'unmountDevice' },
  { it: 'unmaps a raw device', device: 'mounted', kind: 'device', mode: 'Block', plan: 'unmapDevice' },
  { it: 'drops what was never attached', device: notMounted, plan: 'drop' },
  { it: 'drops what the controller detaches', device: notMounted, kind: 'attachable', plan: 'drop' },
  { it: 'detaches what only the node can', device: notMounted, kind: 'loop', plan: 'detach' },
  {
    it: 'detaches what only the node can detach, even if it is unknown whether it is attached',
    device: notMounted,
    kind: 'loop',
    attachable: 'uncertain',
    plan: 'detach',
  },
];
for (const { it, plan, ...given } of devices) {
  test(`planDevice ${it}`, () => assert.equal(show(new World(given).devicePlan()), plan));
}

/** What an operation that succeeds leaves in the states. */
function carryOut(world: World, action: VolumeAction): void {
  const { actual, volume, spec } = world;
  const pluginName = 'example.com/disk';
  if (action.kind === 'verify' || action.kind === 'attach') actual.attached({ volume, spec, devicePath: '' });
  else if (action.kind === 'mount' || action.kind === 'map') {
    actual.mounted({ volume, podUid, spec, pluginName, gid: '', revision: action.mount.revision });
  } else if (action.kind === 'expand') actual.resized(volume, action.sizeBytesWanted);
  else if (action.kind === 'unmount' || action.kind === 'unmap') actual.unmounted(action);
  else if (action.kind === 'unmountDevice' || action.kind === 'unmapDevice') actual.deviceUnmounted(volume);
  else actual.remove(volume);
}

test('a plan carried out leaves nothing to plan', () => {
  const anyCase = fc.record(
    {
      kind: fc.constantFrom('plain', 'device', 'attachable', 'loop'),
      mode: fc.constantFrom('Filesystem', 'Block'),
      wants: fc.constantFrom(1, 2, 3),
      sizeWanted: fc.constantFrom(0n, 1n, 2n),
      device: fc.constantFrom('not-mounted', 'uncertain', 'mounted'),
      has: fc.constantFrom('1', '2', '1?', '2?'),
      sizeNow: fc.constantFrom(0n, 1n, 2n),
      refusesExpansion: fc.boolean(),
      controllerAttach: fc.boolean(),
    },
    { requiredKeys: ['kind', 'mode'] },
  );
  fc.assert(
    fc.property(anyCase, (given) => {
      const world = new World({ ...given, reported: true, listed: true });
      const done: string[] = [];
      for (let steps = 0; steps < 6; steps += 1) {
        const action = world.mountPlan() ?? world.devicePlan();
        if (action === undefined) break;
        done.push(action.kind);
        carryOut(world, action);
      }
      assert.equal(world.mountPlan() ?? world.devicePlan(), undefined, done.join(', '));
      const state = world.actual.mountState({ volume: world.volume, podUid });
      assert.equal(state, given.wants === undefined ? 'not-mounted' : 'mounted');
      if (given.wants === undefined) assert.equal(world.present(), undefined);
      assert.equal(new Set(done).size, done.length, 'no step is taken twice');
    }),
  );
});
