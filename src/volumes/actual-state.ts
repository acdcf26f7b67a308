/**
 * What is, or may be, on this node now: the volumes that are attached, and for each the pods that have it mounted. Only
 * operations write it, and the start-up that finds what an earlier process left. It does no I/O; every method is one step.
 *
 * ```text
 *  volume   absent ──attached──────────────▶ attachable: yes │ no          a volume that needs no attaching is listed too,
 *             ▲  └──foundAttached──────────▶ uncertain ──resolveAttachable──▶ yes │ no     so everything mounted is here
 *             └──remove (refused while a pod has it)
 *
 *  device   not-mounted ──deviceMounted──▶ mounted        any ──deviceUncertain──▶ uncertain ──deviceMounted──▶ mounted
 *               ▲                             │                                        │
 *               └───────deviceUnmounted───────┴────────────────────────────────────────┘   (devicePath survives)
 *
 *  mount    absent ──mounted──▶ mounted ──uncertain──▶ uncertain ──mounted──▶ mounted
 *             │ ▲                  │                     ▲   │
 *             │ └────unmounted─────┴─────────────────────┼───┘
 *             └──uncertain, foundMounted─────────────────┘
 * ```
 *
 * Invariant: whatever may be on disk is listed here. Uncertain means: mounted as far as clean-up is concerned, not
 * mounted as far as use is concerned.
 */
import { type VolumeSpec, specName } from '../kube/references/volume-spec.ts';
import { goQuote } from '../kube/values/go-text.ts';
import {
  type MountId,
  type Plugins,
  type PodUid,
  type VolumeName,
  canAttach,
  matchOf,
  sharedName,
} from './volume-name.ts';
import { VolumeError } from '../plugins/plugin.ts';

export type Attachable = 'yes' | 'no' | 'uncertain';
export type DeviceState = 'not-mounted' | 'uncertain' | 'mounted';
export type MountState = 'not-mounted' | 'uncertain' | 'mounted';

export interface ActualVolume {
  readonly volume: VolumeName;
  /** Of the call that listed the volume; after a restart a guess that is good enough to unmount. */
  readonly spec: VolumeSpec;
  readonly pluginName: string;
  /** Uncertain only until the node's status was read after a restart; to everyone else it counts as "no". */
  readonly attachable: Attachable;
  readonly device: DeviceState;
  readonly devicePath: string;
  readonly deviceMountPath: string;
  /** What the volume is known to hold on this node; 0 when that is not known. */
  readonly sizeBytes: bigint;
  /** Growing it while it is in use was refused: that is not tried again. */
  readonly refusesExpansionInUse: boolean;
  /** It could not be grown yet and is tried again later. */
  readonly isExpansionPostponed: boolean;
  readonly mounts: ReadonlyMap<PodUid, ActualMount>;
}

export interface MountRecord extends MountId {
  readonly spec: VolumeSpec;
  readonly pluginName: string;
  readonly gid: string;
  /** Of the desired mount that was carried out; 0 for what was found on disk. */
  readonly revision: number;
}

export interface ActualMount extends MountRecord {
  readonly state: 'mounted' | 'uncertain';
}

interface Attached {
  /** Undefined: the name that the plugin gives the storage. */
  readonly volume?: VolumeName | undefined;
  readonly spec: VolumeSpec;
  readonly devicePath: string;
}

interface VolumeEntry extends ActualVolume {
  attachable: Attachable;
  device: DeviceState;
  devicePath: string;
  deviceMountPath: string;
  sizeBytes: bigint;
  refusesExpansionInUse: boolean;
  isExpansionPostponed: boolean;
  readonly mounts: Map<PodUid, ActualMount>;
}

export class ActualState {
  readonly #plugins: Plugins;
  readonly #changed: (podUid: PodUid) => void;
  readonly #inUseChanged: () => void;
  readonly #volumes = new Map<VolumeName, VolumeEntry>();
  readonly #volumesOfPod = new Map<PodUid, Set<VolumeName>>();
  readonly #reconstructed = new Map<VolumeName, Set<PodUid>>();
  readonly #finalExpansionErrors = new Set<VolumeName>();

  /** `changed` is called for every pod whose mounts have changed, `inUseChanged` when an attached volume is gone. */
  constructor(plugins: Plugins, changed: (podUid: PodUid) => void, inUseChanged: () => void = () => {}) {
    this.#plugins = plugins;
    this.#changed = changed;
    this.#inUseChanged = inUseChanged;
  }

  /** Of a volume that is listed already only the device's path is taken. */
  attached(attached: Attached): VolumeName {
    return this.#list(attached, (isAttachable) => (isAttachable ? 'yes' : 'no'));
  }

  /** Found on disk: whether it is attached, only the node's status says. */
  foundAttached(attached: Attached): VolumeName {
    const volume = this.#list(attached, () => 'uncertain');
    this.#reconstructed.set(volume, this.#reconstructed.get(volume) ?? new Set());
    return volume;
  }

  /** Says once what was uncertain; afterwards it does not change any more. */
  resolveAttachable(volume: VolumeName, isAttachable: boolean): void {
    const entry = this.#volumes.get(volume);
    if (entry?.attachable === 'uncertain') entry.attachable = isAttachable ? 'yes' : 'no';
  }

  /** Only for a device found on disk and not mounted since. */
  resolveDevicePath(volume: VolumeName, devicePath: string): void {
    const entry = this.#volumes.get(volume);
    if (entry?.device === 'uncertain') entry.devicePath = devicePath;
  }

  /** Refused while a pod has, or may have, the volume mounted; one that is not listed is a success. */
  remove(volume: VolumeName): void {
    const entry = this.#volumes.get(volume);
    if (entry === undefined) return;
    if (entry.mounts.size > 0) {
      const pods = entry.mounts.size;
      throw new VolumeError(
        'VolumeState',
        `failed to DeleteVolume ${goQuote(volume)}, it still has ${pods} mountedPods`,
      );
    }
    this.#volumes.delete(volume);
    if (entry.attachable === 'yes') this.#inUseChanged();
    this.#reconstructed.delete(volume);
  }

  mounted(record: MountRecord): void {
    this.#putMount(record, 'mounted');
    this.#reconstructed.get(record.volume)?.delete(record.podUid);
    this.#changed(record.podUid);
  }

  /** Also takes back that a volume is mounted. */
  uncertain(record: MountRecord): void {
    this.#putMount(record, 'uncertain');
    this.#changed(record.podUid);
  }

  unmounted({ volume, podUid }: MountId): void {
    const entry = this.#require(volume);
    this.#reconstructed.get(volume)?.delete(podUid);
    if (!entry.mounts.delete(podUid)) return;
    const ofPod = this.#volumesOfPod.get(podUid);
    ofPod?.delete(volume);
    if (ofPod?.size === 0) this.#volumesOfPod.delete(podUid);
    this.#changed(podUid);
  }

  /** True when it was news: the volume is listed and its pod was not. */
  foundMounted(record: MountRecord): boolean {
    const { volume, podUid } = record;
    const entry = this.#volumes.get(volume);
    if (entry === undefined || entry.mounts.has(podUid)) return false;
    this.#putMount(record, 'uncertain');
    this.#reconstructed.set(volume, (this.#reconstructed.get(volume) ?? new Set()).add(podUid));
    this.#changed(podUid);
    return true;
  }

  deviceMounted(volume: VolumeName, devicePath: string, deviceMountPath: string): void {
    this.#setDevice(volume, 'mounted', devicePath, deviceMountPath);
  }

  deviceUncertain(volume: VolumeName, devicePath: string, deviceMountPath: string): void {
    this.#setDevice(volume, 'uncertain', devicePath, deviceMountPath);
  }

  /** The device's own path survives: a volume that is wanted again meanwhile is mounted from it. */
  deviceUnmounted(volume: VolumeName): void {
    this.#setDevice(volume, 'not-mounted', '', '');
  }

  /** What the claim's status said when it was first read; a size that is known stays. */
  initializeSize(volume: VolumeName, sizeBytes: bigint): void {
    const entry = this.#volumes.get(volume);
    if (entry?.sizeBytes === 0n) entry.sizeBytes = sizeBytes;
  }

  sizeOf(volume: VolumeName): bigint {
    return this.#volumes.get(volume)?.sizeBytes ?? 0n;
  }

  /** False when the volume is not listed. */
  resized(volume: VolumeName, sizeBytes: bigint): boolean {
    const entry = this.#volumes.get(volume);
    if (entry !== undefined) entry.sizeBytes = sizeBytes;
    return entry !== undefined;
  }

  refuseExpansionInUse(volume: VolumeName): void {
    const entry = this.#volumes.get(volume);
    if (entry !== undefined) entry.refusesExpansionInUse = true;
  }

  postponeExpansion(volume: VolumeName, isPostponed: boolean): void {
    const entry = this.#volumes.get(volume);
    if (entry !== undefined) entry.isExpansionPostponed = isPostponed;
  }

  /** Remembered for as long as the process lives, also when the volume leaves the node. */
  addFinalExpansionError(volume: VolumeName): void {
    this.#finalExpansionErrors.add(volume);
  }

  hasFinalExpansionError(volume: VolumeName): boolean {
    return this.#finalExpansionErrors.has(volume);
  }

  removeFinalExpansionError(volume: VolumeName): void {
    this.#finalExpansionErrors.delete(volume);
  }

  /** Found on disk after a restart and not set up since. */
  isReconstructed({ volume, podUid }: MountId): boolean {
    return (
      this.mountState({ volume, podUid }) === 'uncertain' && (this.#reconstructed.get(volume)?.has(podUid) ?? false)
    );
  }

  /** It, or some pod's mount of it, was found on disk; true until the volume leaves the node. */
  isDeviceReconstructed(volume: VolumeName): boolean {
    return this.#reconstructed.has(volume);
  }

  volume(volume: VolumeName): ActualVolume | undefined {
    return this.#volumes.get(volume);
  }

  volumes(): Iterable<ActualVolume> {
    return this.#volumes.values();
  }

  mount({ volume, podUid }: MountId): ActualMount | undefined {
    return this.#volumes.get(volume)?.mounts.get(podUid);
  }

  mountState(id: MountId): MountState {
    return this.mount(id)?.state ?? 'not-mounted';
  }

  deviceState(volume: VolumeName): DeviceState {
    return this.#volumes.get(volume)?.device ?? 'not-mounted';
  }

  /** Uncertain mounts count: they may be there. */
  isMountedElsewhere({ volume, podUid }: MountId): boolean {
    const mounts = this.#volumes.get(volume)?.mounts;
    return mounts !== undefined && mounts.size > (mounts.has(podUid) ? 1 : 0);
  }

  /** Of which something is mounted, or may be. */
  podsWithMounts(): readonly PodUid[] {
    return [...this.#volumesOfPod.keys()];
  }

  /** Mounted and uncertain. A list of its own, as of now. */
  possiblyMountedOf(podUid: PodUid): readonly ActualMount[] {
    const mounts: ActualMount[] = [];
    for (const volume of this.#volumesOfPod.get(podUid) ?? []) {
      const mount = this.#volumes.get(volume)?.mounts.get(podUid);
      if (mount !== undefined) mounts.push(mount);
    }
    return mounts;
  }

  mountedOf(podUid: PodUid): readonly ActualMount[] {
    return this.possiblyMountedOf(podUid).filter(({ state }) => state === 'mounted');
  }

  hasSpecName(podUid: PodUid, name: string): boolean {
    return this.possiblyMountedOf(podUid).some(({ spec }) => specName(spec) === name);
  }

  #list({ volume, spec, devicePath }: Attached, attachability: (isAttachable: boolean) => Attachable): VolumeName {
    const match = matchOf(this.#plugins, spec);
    const name = volume ?? sharedName(match, spec);
    const known = this.#volumes.get(name);
    if (known !== undefined) {
      known.devicePath = devicePath;
      return name;
    }
    this.#volumes.set(name, {
      volume: name,
      spec,
      pluginName: match.plugin.name,
      attachable: attachability(canAttach(match, spec)),
      device: 'not-mounted',
      devicePath,
      deviceMountPath: '',
      sizeBytes: 0n,
      refusesExpansionInUse: false,
      isExpansionPostponed: false,
      mounts: new Map(),
    });
    return name;
  }

  #putMount(record: MountRecord, state: ActualMount['state']): void {
    const { volume, podUid, spec, pluginName, gid, revision } = record;
    const entry = this.#require(volume);
    const known = entry.mounts.get(podUid);
    // What is mounted keeps the facts it was mounted with; of anything else the newest are the best.
    const facts = known?.state === 'mounted' ? known : { volume, podUid, spec, pluginName, gid };
    entry.mounts.set(podUid, { ...facts, revision, state });
    this.#volumesOfPod.set(podUid, (this.#volumesOfPod.get(podUid) ?? new Set()).add(volume));
  }

  #setDevice(volume: VolumeName, device: DeviceState, devicePath: string, deviceMountPath: string): void {
    const entry = this.#require(volume);
    entry.device = device;
    entry.deviceMountPath = deviceMountPath;
    if (devicePath !== '') entry.devicePath = devicePath;
  }

  #require(volume: VolumeName): VolumeEntry {
    const entry = this.#volumes.get(volume);
    if (entry !== undefined) return entry;
    throw new VolumeError(
      'VolumeState',
      `no volume with the name ${goQuote(volume)} exists in the list of attached volumes`,
    );
  }
}
