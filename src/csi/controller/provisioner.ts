/**
 * Makes volumes for the claims of one driver, and deletes them, as Kubernetes' external provisioner does: the rest of a claim is
 * the volume binder's.
 *
 * ```text
 *   claim ──finalizer──▶ CreateVolume ──final failure──▶ finalizer goes, tried again later or on another node
 *                           │    ▲  └──outcome unknown──▶ the same call again, with the same name, also when the claim is deleted
 *                           ▼    └──────────────────────────────────────────────┘                or was given another volume
 *                    PersistentVolume ──▶ finalizer goes ─ ─ ▶ Released ──▶ DeleteVolume ──▶ object deleted ──▶ its finalizer goes
 * ```
 *
 * The claim's finalizer stands for a call whose outcome is not on record. Without it a claim that is deleted while this program
 * is down would leave a volume on no record.
 */
import { OperatingError, messageOf } from '../../base/errors.ts';
import { Timers } from '../../base/timers.ts';
import {
  type Cluster,
  type ControllerDeps,
  coreKind,
  kindNamed,
  deleteSame,
  refusalCode,
  unlessRefused,
  updateSame,
} from '../../controllers/cluster/cluster.ts';
import { ControllerEvents } from '../../controllers/cluster/events.ts';
import { WorkQueue } from '../../controllers/cluster/work-queue.ts';
import { type StorageView, claimId } from '../../controllers/storage/storage-view.ts';
import { ControllerServiceCapability_RPC_Type as Capability } from '../../grpc/messages/csi_pb.ts';
import type { CsiNode } from '../../kube/kinds/storage/csi.ts';
import type { PersistentVolumeClaim } from '../../kube/kinds/storage/persistent-volume-claim.ts';
import type { PersistentVolume } from '../../kube/kinds/storage/persistent-volume.ts';
import type { StorageClass } from '../../kube/kinds/storage/storage-class.ts';
import {
  classOf,
  hasAnnotation,
  migratedTo,
  provisionedBy,
  provisionerAnnotations,
  requestedBytes,
  selectedNode,
  volumeNameFor,
  withFinalizer,
  withoutAnnotation,
  withoutFinalizer,
} from '../../kube/references/claims.ts';
import { migratedDrivers, translatedVolume } from '../../kube/references/csi-translation.ts';
import { goQuote } from '../../kube/values/go-text.ts';
import { DriverError } from '../failures.ts';
import type { Strings } from '../requests.ts';
import { type ControllerDriver, call, hasDriverCode, isUncertain } from './controller-driver.ts';
import {
  type CreatePlan,
  answerProblem,
  dataFinalizer,
  deletionSecret,
  planCreation,
  volumeFor,
} from './create-volume.ts';
import { RefusedError, secretsOf } from './requests.ts';
import { NodeGoneError, type Requirement, requirementAnywhere, requirementAt } from './topology.ts';

const unsettled = 'mountlet.dev/csi-provisioning';
const provisioningFailed = 'ProvisioningFailed';
/** Storage may take minutes for a volume. As many as Kubernetes' provisioner. */
const parallelMax = 100;
/** A class that the driver cannot serve is rarely mended by asking again. As Kubernetes' provisioner at most. */
const infeasibleMs = 5 * 60_000;

type Failure =
  /** Nothing was called. */
  | 'unchanged'
  /** It may go on. */
  | 'background'
  | 'finished'
  | 'infeasible'
  /** It may succeed on another node. */
  | 'reschedule';

export function failureOf(error: unknown, mayReschedule: boolean): Failure {
  if (error instanceof NodeGoneError) return mayReschedule ? 'reschedule' : 'unchanged';
  if (error instanceof RefusedError) return 'unchanged';
  if (isUncertain(error)) return 'background';
  if (hasDriverCode(error, 'RESOURCE_EXHAUSTED') && mayReschedule) return 'reschedule';
  return hasDriverCode(error, 'INVALID_ARGUMENT') ? 'infeasible' : 'finished';
}

export class Provisioner {
  readonly #driver: ControllerDriver;
  readonly #view: StorageView;
  readonly #cluster: Cluster;
  readonly #events: ControllerEvents;
  readonly #queue: WorkQueue;
  readonly #timers: Timers;
  readonly #identity: string;
  readonly #attachedNode: (volumeName: string) => string | undefined;
  readonly #signal: AbortSignal;
  /** UIDs of claims that wait, with that of the class they were infeasible with. */
  readonly #infeasible = new Map<string, string>();

  constructor(
    driver: ControllerDriver,
    deps: ControllerDeps,
    view: StorageView,
    attachedNode: (volumeName: string) => string | undefined,
    signal: AbortSignal,
  ) {
    this.#driver = driver;
    this.#view = view;
    this.#cluster = deps.clusterFor('csi-provisioner', signal);
    this.#events = new ControllerEvents(driver.name, deps, this.#cluster);
    this.#queue = new WorkQueue(`csi-provisioner ${driver.name}`, deps, parallelMax);
    this.#timers = new Timers(deps.clock);
    this.#identity = `${deps.clock.now()}-${deps.random.suffix(4)}-${driver.name}`;
    this.#attachedNode = attachedNode;
    this.#signal = signal;
  }

  async run(signal: AbortSignal): Promise<void> {
    await Promise.all([this.#queue.run((key) => this.#look(key), signal), this.#timers.run(signal)]);
  }

  claimChanged(claim: PersistentVolumeClaim): void {
    if (this.#isOurs(claim) && (isUnsettled(claim) || (claim.spec.volumeName ?? '') === '')) {
      this.#queue.touch(`claim/${claimId(claim.metadata.namespace, claim.metadata.name)}`);
    }
  }

  classChanged(name: string): void {
    for (const claim of this.#view.claims.values()) if (classOf(claim) === name) this.claimChanged(claim);
  }

  volumeChanged(volume: PersistentVolume): void {
    if (this.#isOwn(volume) && (mayGo(volume) || protectedData(volume) !== volume)) {
      this.#queue.touch(`volume//${volume.metadata.name}`);
    }
  }

  async #look(key: string): Promise<void> {
    const [kind, namespace = '', name = ''] = key.split('/');
    if (kind === 'volume') return this.#lookAtVolume(name);
    const at = this.#view.keyOfClaim(claimId(namespace, name));
    const claim = (await this.#cluster.get(at)) as PersistentVolumeClaim | undefined;
    if (claim !== undefined && this.#isOurs(claim)) await this.#lookAtClaim(claim);
  }

  #isOurs({ metadata: { annotations = {} } }: PersistentVolumeClaim): boolean {
    const [beta, current] = provisionerAnnotations.map((name) => annotations[name]);
    return (current ?? beta) === this.#driver.name || annotations[migratedTo] === this.#driver.name;
  }

  async #lookAtClaim(claim: PersistentVolumeClaim): Promise<void> {
    const isMade = (await this.#cluster.get(this.#view.keyOfVolume(volumeNameFor(claim)))) !== undefined;
    if (isMade) return this.#settle(claim);
    const isUnwanted = needsNoVolume(claim);
    if (isUnwanted && !isUnsettled(claim)) return;
    const storageClass = this.#view.classes.get(classOf(claim));
    // The volume binder says that the class is missing.
    if (
      storageClass === undefined ||
      (migratedDrivers.get(storageClass.provisioner) ?? storageClass.provisioner) !== this.#driver.name
    )
      return;
    const node = claim.metadata.annotations?.[selectedNode] ?? '';
    const waits = storageClass.volumeBindingMode === 'WaitForFirstConsumer' && node === '' && !isUnwanted;
    const { uid = '' } = claim.metadata;
    const isInfeasible = this.#infeasible.get(uid) === storageClass.metadata.uid && !isUnwanted;
    if (waits || isInfeasible) return;
    await this.#provision(claim, storageClass, node);
  }

  async #provision(claim: PersistentVolumeClaim, storageClass: StorageClass, node: string): Promise<void> {
    const plan = await this.#plan(claim, storageClass);
    if (plan === undefined) return;
    const mayReschedule = this.#driver.hasTopology && node !== '' && !needsNoVolume(claim);
    try {
      await this.#create(claim, storageClass, plan, node);
    } catch (error) {
      const failure = failureOf(error, mayReschedule);
      if (failure !== 'background' && error instanceof DriverError) await this.#settle(claim);
      if (this.#signal.aborted) throw error;
      const prefix =
        failure === 'infeasible' ? 'Volume provisioning failed with infeasible error. Retries will be delayed. ' : '';
      await this.#record(claim, provisioningFailed, `${prefix}${messageOf(error)}`);
      if (failure === 'reschedule') return this.#updateClaim(claim, (current) => unscheduled(current, node));
      if (failure !== 'infeasible') throw error;
      this.#delay(claim, storageClass);
    }
  }

  /** Undefined where nothing is to be called: the claim, or its class, has to change first, and that leads to another look. */
  async #plan(claim: PersistentVolumeClaim, storageClass: StorageClass): Promise<CreatePlan | undefined> {
    try {
      if (!this.#driver.capabilities.has(Capability.CREATE_DELETE_VOLUME)) {
        const text = 'controller CREATE_DELETE_VOLUME capability is not reported';
        throw new RefusedError(`CSI driver does not support dynamic provisioning: ${text}`);
      }
      const plan = planCreation(claim, storageClass, this.#driver);
      const message = 'Assuming an external populator will provision the volume';
      if (plan === undefined) await this.#record(claim, 'Provisioning', message);
      return plan;
    } catch (error) {
      if (!(error instanceof RefusedError)) throw error;
      await this.#record(claim, provisioningFailed, error.message);
      return undefined;
    }
  }

  async #create(
    claim: PersistentVolumeClaim,
    storageClass: StorageClass,
    plan: CreatePlan,
    node: string,
  ): Promise<void> {
    const driver = this.#driver;
    const secrets = await secretsOf(this.#cluster, plan.secrets.provisioner);
    const requirement = driver.hasTopology ? await this.#requirement(plan, node) : undefined;
    const request = {
      ...plan.request,
      secrets,
      ...(requirement !== undefined && { accessibilityRequirements: requirement }),
    };
    const { namespace, name } = claim.metadata;
    const id = claimId(namespace, name);
    const begun = `External provisioner is provisioning volume for claim ${goQuote(id)}`;
    const [isOnRecord] = await Promise.all([this.#unsettle(claim), this.#record(claim, 'Provisioning', begun)]);
    if (!isOnRecord) return;
    const { volume } = await call(driver, 'createVolume', request, this.#signal);
    const problem = volume === undefined ? 'no volume' : answerProblem(volume);
    if (volume === undefined || problem !== undefined) {
      throw new OperatingError(
        'BadAnswer',
        `CSI driver ${driver.name} answered CreateVolume for ${id} with ${problem ?? ''}`,
      );
    }
    const remove = async (): Promise<void> => this.#remove(volume.volumeId, secrets, plan.request.name);
    if (needsNoVolume(claim)) {
      await remove();
      return this.#settle(claim);
    }
    const [given, requested] = [volume.capacityBytes, requestedBytes(claim)];
    // Zero stands for unknown. A driver that gives less than it was asked for has not understood.
    if (given !== 0n && given < requested) {
      await remove();
      const text = `created volume capacity ${given} less than requested capacity ${requested}`;
      throw new OperatingError('VolumeTooSmall', text);
    }
    const made = volumeFor(claim, storageClass, driver, plan, volume, this.#identity);
    try {
      await unlessRefused(this.#cluster.create(this.#view.kinds.volume, '', made), 409);
    } catch (error) {
      // The object is wrong for good; everything else is worth another try, with the volume that is there by now.
      if (refusalCode(error) !== 422) throw error;
      await remove();
      const why = `${messageOf(error)}. Deleting the volume.`;
      throw new OperatingError('VolumeRefused', `Error creating provisioned PV object for claim ${id}: ${why}`);
    }
    const done = `Successfully provisioned volume ${made.metadata.name}`;
    await Promise.all([this.#settle(claim), this.#record(claim, 'ProvisioningSucceeded', done)]);
  }

  /** A volume that cannot be used. As long as this fails, whatever the driver says, the claim is not settled. */
  async #remove(volumeId: string, secrets: Strings, name: string): Promise<void> {
    try {
      await call(this.#driver, 'deleteVolume', { volumeId, secrets }, this.#signal);
    } catch (error) {
      throw new OperatingError('VolumeNotDeleted', `Cleanup of volume ${name} failed: ${messageOf(error)}`);
    }
  }

  async #requirement({ allowedTopologies }: CreatePlan, name: string): Promise<Requirement> {
    const cluster = this.#cluster;
    const { name: driver } = this.#driver;
    const kind = kindNamed(cluster, 'storage.k8s.io/v1', 'CSINode');
    const nodes = coreKind(cluster, 'Node');
    if (name !== '') {
      const csiNode = (await cluster.get(cluster.keyOf(kind, '', name))) as CsiNode | undefined;
      return requirementAt(driver, name, { csiNode, node: await cluster.get(cluster.keyOf(nodes, '', name)) });
    }
    const csiNodes = (await cluster.list(kind)).map(({ object }) => object as CsiNode);
    const ours = csiNodes.filter(({ spec }) => spec.drivers.some((one) => one.name === driver));
    const places = ours.map(async (csiNode) => ({
      csiNode,
      node: await cluster.get(cluster.keyOf(nodes, '', csiNode.metadata.name)),
    }));
    return requirementAnywhere(driver, allowedTopologies, await Promise.all(places));
  }

  #delay({ metadata }: PersistentVolumeClaim, storageClass: StorageClass): void {
    const { uid = '', namespace, name } = metadata;
    this.#infeasible.set(uid, storageClass.metadata.uid ?? '');
    this.#timers.after(infeasibleMs, () => {
      this.#infeasible.delete(uid);
      this.#queue.touch(`claim/${claimId(namespace, name)}`);
    });
  }

  /** Before the call. False: the claim needs no volume, or is gone, and nothing was ever called for it. */
  async #unsettle(claim: PersistentVolumeClaim): Promise<boolean> {
    let isOnRecord = false;
    await this.#updateClaim(claim, (current) => {
      isOnRecord = isUnsettled(current) || !needsNoVolume(current);
      return isOnRecord ? withFinalizer(current, unsettled) : current;
    });
    return isOnRecord;
  }

  #settle(claim: PersistentVolumeClaim): Promise<void> {
    return this.#updateClaim(claim, (current) => withoutFinalizer(current, unsettled));
  }

  // Deletion.

  /** Made by this driver, by whichever provisioner; or written by hand. */
  #isOwn({ metadata, spec }: PersistentVolume): boolean {
    const { name } = this.#driver;
    const annotations = metadata.annotations ?? {};
    const maker = annotations[provisionedBy];
    if (annotations[migratedTo] === name) return true;
    return maker === undefined ? spec.csi?.driver === name : maker === name;
  }

  async #lookAtVolume(name: string): Promise<void> {
    const key = this.#view.keyOfVolume(name);
    const found = (await this.#cluster.get(key)) as PersistentVolume | undefined;
    if (found === undefined || !this.#isOwn(found)) return;
    if (protectedData(found) !== found) await updateSame(this.#cluster, key, found, protectedData);
    if (!mayGo(found)) return;
    const warn = (message: string): Promise<void> =>
      this.#events.record(this.#view.kinds.volume, found, { type: 'Warning', reason: 'VolumeFailedDelete', message });
    const node = this.#attachedNode(name);
    // Not a failure, which would be tried again: it is looked at when the attachment goes.
    if (node !== undefined) return warn(`persistentvolume ${name} is still attached to node ${node}`);
    try {
      await this.#deleteData(found);
    } catch (error) {
      if (!this.#signal.aborted) await warn(messageOf(error));
      throw error;
    }
    await deleteSame(this.#cluster, key, found);
    await updateSame(this.#cluster, key, found, (volume) => withoutFinalizer(volume, dataFinalizer));
  }

  async #deleteData(volume: PersistentVolume): Promise<void> {
    const { csi } = translatedVolume(volume).spec;
    if (csi === undefined) throw new RefusedError('invalid CSI PV');
    const reference = deletionSecret(volume, this.#view.classes.get(classOf(volume)));
    // Its Secret may have gone with the namespace; the driver decides whether it can do without.
    const secrets = await secretsOf(this.#cluster, reference).catch((error: unknown) => {
      if (error instanceof RefusedError) return {};
      throw error;
    });
    await call(this.#driver, 'deleteVolume', { volumeId: csi.volumeHandle, secrets }, this.#signal);
  }

  #updateClaim(
    claim: PersistentVolumeClaim,
    change: (current: PersistentVolumeClaim) => PersistentVolumeClaim,
  ): Promise<void> {
    const { namespace, name } = claim.metadata;
    return updateSame(this.#cluster, this.#view.keyOfClaim(claimId(namespace, name)), claim, change);
  }

  #record(claim: PersistentVolumeClaim, reason: string, message: string): Promise<void> {
    const type = reason === provisioningFailed ? 'Warning' : 'Normal';
    return this.#events.record(this.#view.kinds.claim, claim, { type, reason, message });
  }
}

function isUnsettled({ metadata }: PersistentVolumeClaim): boolean {
  return metadata.finalizers?.includes(unsettled) === true;
}

/** It is going, or has got a volume, of another maker where ours does not exist. What was made for it has to go. */
function needsNoVolume({ metadata, spec }: PersistentVolumeClaim): boolean {
  return metadata.deletionTimestamp !== undefined || (spec.volumeName ?? '') !== '';
}

/** Another node is to be chosen, unless one was meanwhile. */
function unscheduled(claim: PersistentVolumeClaim, node: string): PersistentVolumeClaim {
  const isSame = hasAnnotation(claim, selectedNode) && claim.metadata.annotations?.[selectedNode] === node;
  return isSame ? withoutAnnotation(claim, selectedNode) : claim;
}

/** Its claim is gone, and its data is to go too. */
function mayGo({ metadata, spec, status }: PersistentVolume): boolean {
  const isDeleted = metadata.deletionTimestamp !== undefined && metadata.finalizers?.includes(dataFinalizer) !== true;
  return status?.phase === 'Released' && spec.persistentVolumeReclaimPolicy === 'Delete' && !isDeleted;
}

/** With the finalizer while its data has to go first, and without it when the data is to be kept. */
function protectedData(volume: PersistentVolume): PersistentVolume {
  const { metadata, spec, status } = volume;
  if (spec.persistentVolumeReclaimPolicy !== 'Delete') return withoutFinalizer(volume, dataFinalizer);
  const isInUse = metadata.deletionTimestamp === undefined && status?.phase === 'Bound';
  return isInUse ? withFinalizer(volume, dataFinalizer) : volume;
}
