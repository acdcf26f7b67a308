/**
 * Keeps the Node and the CSINode of this node as the drivers want them. The CSINode exists from the start, also without a driver,
 * and belongs to the Node of now: one of an earlier Node of the same name is replaced. Only one write is under way at a time.
 */
import { BackOff } from '../base/back-off.ts';
import type { Clock } from '../base/clock.ts';
import { MountletError, OperatingError, messageOf } from '../base/errors.ts';
import { Semaphore } from '../base/semaphore.ts';
import { WakeSignal } from '../base/wake-signal.ts';
import type { Node } from '../kube/kinds/node.ts';
import type { CsiNode } from '../kube/kinds/storage/csi.ts';
import { goQuote } from '../kube/values/go-text.ts';
import {
  type DriverInfo,
  foreignOwner,
  isReplacement,
  newCsiNode,
  nodeMetadataPatch,
  withDriver,
  withMigratedPlugins,
  withoutDriver,
} from './node-info.ts';

/** The two objects in the cluster. Everything may reject with a ClusterAwayError. */
export interface NodeInfoCluster {
  /** Of now, not from a cache. */
  node(signal: AbortSignal): Promise<Node>;
  /** A strategic merge patch. */
  patchNode(patch: unknown, signal: AbortSignal): Promise<void>;
  csiNode(signal: AbortSignal): Promise<CsiNode | undefined>;
  /** Rejects with a CsiNodesUnavailableError where the cluster has no CSINodes, or the node may not write them. */
  createCsiNode(csiNode: CsiNode, signal: AbortSignal): Promise<CsiNode>;
  /** Fails when the object has another version by now. */
  updateCsiNode(csiNode: CsiNode, signal: AbortSignal): Promise<CsiNode>;
  deleteCsiNode(csiNode: CsiNode, signal: AbortSignal): Promise<void>;
}

/** The API server cannot be asked now. */
export class ClusterAwayError extends MountletError {
  readonly reason = 'ClusterAway';
}

/** The node has no CSINode and will get none soon: its pods can run without, but no controller finds its drivers. */
export class CsiNodesUnavailableError extends MountletError {
  readonly reason = 'CsiNodesUnavailable';
}

export type CsiNodeNotice =
  | { readonly kind: 'CsiNodeFailed'; readonly message: string; readonly retryMs: number }
  | { readonly kind: 'CsiNodeReplaced'; readonly message: string }
  /** Emitted once. */
  | { readonly kind: 'CsiNodesUnavailable'; readonly message: string };

interface CsiNodeDeps {
  readonly cluster: NodeInfoCluster;
  readonly clock: Clock;
  readonly notify: (notice: CsiNodeNotice) => void;
}

/** As the kubelet tries: what fails is mostly a write by somebody else in between. */
const triesMax = 4;
const tryAgain = { firstMs: 10, msMax: 250 };
const initialRetries = { firstMs: 30, msMax: 30_000 };
/** An administrator may permit it, or upgrade the cluster. */
const unavailableMs = 60_000;

export class CsiNodeWriter {
  readonly #deps: CsiNodeDeps;
  readonly #turn = new Semaphore(1);
  readonly #wake = new WakeSignal();
  #problem: string | undefined = 'CSINode is not yet initialized';
  #isUnavailable = false;
  /** Of the Node that the cluster has, and of the one that the CSINode was last seen to belong to. */
  #nodeUid: string | undefined;
  #ownerUid: string | undefined;

  constructor(deps: CsiNodeDeps) {
    this.#deps = deps;
  }

  /** Why the node is not ready; undefined from the first time that the CSINode was there. */
  get problem(): string | undefined {
    return this.#problem;
  }

  /** The cluster has this Node now: another may have taken the place of the one the CSINode belongs to. */
  nodeChanged(uid: string | undefined): void {
    this.#nodeUid = uid;
    if (uid !== undefined && uid !== this.#ownerUid) this.#wake.wake();
  }

  retryNow(): void {
    if (this.#problem !== undefined) this.#wake.wake();
  }

  /** Creates the CSINode, and again for each new Node; until it works, as pods wait for it. */
  async run(signal: AbortSignal): Promise<void> {
    const { clock } = this.#deps;
    const backOff = new BackOff(initialRetries);
    for (let waitMs = Infinity; ;) {
      await this.#wake.sleep(waitMs, clock, signal);
      if (signal.aborted) return;
      waitMs = Infinity;
      if (this.#nodeUid === undefined) continue;
      try {
        await this.#exclusively(signal, () => this.#change((csiNode) => csiNode, signal));
        backOff.reset();
        if (this.#isUnavailable) waitMs = unavailableMs;
        this.#problem = undefined;
      } catch (error) {
        if (signal.aborted) return;
        waitMs = backOff.next();
        const message = `Failed to initialize CSINode: ${messageOf(error)}`;
        if (this.#problem !== undefined) this.#problem = message;
        this.#deps.notify({ kind: 'CsiNodeFailed', message, retryMs: waitMs });
      }
    }
  }

  /** Records a driver, or what it says now. Rejects with a ClusterAwayError, or with why it can never be recorded. */
  async install(driver: string, info: DriverInfo, signal: AbortSignal): Promise<void> {
    await this.#exclusively(signal, async () => {
      await this.#patchNode(driver, info, signal);
      await this.#change((csiNode) => withDriver(csiNode, driver, info), signal);
    });
  }

  /** Removes it, unless `isBack` says by the time of writing that it is registered again. */
  async remove(driver: string, isBack: () => boolean, signal: AbortSignal): Promise<void> {
    await this.#exclusively(signal, async () => {
      if (isBack()) return;
      await this.#change((csiNode) => withoutDriver(csiNode, driver), signal);
      await this.#patchNode(driver, undefined, signal);
    });
  }

  /** One after the other, and several times: each attempt begins with what the cluster has. */
  async #exclusively(signal: AbortSignal, act: () => Promise<void>): Promise<void> {
    const release = await this.#turn.acquire(signal);
    const backOff = new BackOff(tryAgain);
    try {
      for (let tries = 1; ; tries += 1) {
        try {
          return await act();
        } catch (error) {
          // What the driver says does not become right by repetition.
          const isDecided = error instanceof ClusterAwayError || error instanceof OperatingError;
          if (isDecided || tries >= triesMax) throw error;
          await this.#deps.clock.sleep(backOff.next(), signal);
        }
      }
    } finally {
      release();
    }
  }

  async #patchNode(driver: string, info: DriverInfo | undefined, signal: AbortSignal): Promise<void> {
    const { cluster } = this.#deps;
    const patch = nodeMetadataPatch(await cluster.node(signal), driver, info);
    if (patch !== undefined) await cluster.patchNode(patch, signal);
  }

  async #change(change: (csiNode: CsiNode) => CsiNode, signal: AbortSignal): Promise<void> {
    const { cluster } = this.#deps;
    const node = await cluster.node(signal);
    try {
      const before = await this.#current(node, signal);
      const after = withMigratedPlugins(change(before));
      if (after !== before) await this.#update(before, after, signal);
      this.#isUnavailable = false;
    } catch (error) {
      if (!(error instanceof CsiNodesUnavailableError)) throw error;
      if (!this.#isUnavailable) this.#deps.notify({ kind: 'CsiNodesUnavailable', message: error.message });
      this.#isUnavailable = true;
    }
    this.#ownerUid = node.metadata.uid;
  }

  async #current(node: Node, signal: AbortSignal): Promise<CsiNode> {
    const { cluster, notify } = this.#deps;
    const existing = await cluster.csiNode(signal);
    const owner = existing && foreignOwner(existing, node);
    if (existing !== undefined && owner === undefined) return existing;
    if (existing !== undefined) {
      await cluster.deleteCsiNode(existing, signal);
      const [name, old, now] = [node.metadata.name, owner ?? '', node.metadata.uid ?? ''].map(goQuote);
      const message = `CSINode ${name} was owned by different node (oldNodeID=${old}, newNodeID=${now}), deleted it`;
      notify({ kind: 'CsiNodeReplaced', message });
    }
    return await cluster.createCsiNode(newCsiNode(node), signal);
  }

  async #update(before: CsiNode, after: CsiNode, signal: AbortSignal): Promise<void> {
    const { cluster } = this.#deps;
    if (!isReplacement(before, after)) return void (await cluster.updateCsiNode(after, signal));
    const kept = after.spec.drivers.filter((entry) => before.spec.drivers.includes(entry));
    const without = await cluster.updateCsiNode({ ...after, spec: { drivers: kept } }, signal);
    await cluster.updateCsiNode({ ...without, spec: after.spec }, signal);
  }
}
