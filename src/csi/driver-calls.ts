/** Calls of drivers' Node services: none longer than two minutes, and every failure in words that can be shown. */
import { withDeadline } from '../base/abort.ts';
import type { Clock } from '../base/clock.ts';
import type { CallOptions } from '../grpc/grpc-client.ts';
import { NodeServiceCapability_RPC_Type as Rpc, type VolumeUsage } from '../grpc/messages/csi_pb.ts';
import type { DriverNode } from './drivers.ts';
import { GivenSecrets, driverError, timedOut } from './failures.ts';
import type { NodeCapabilities, Strings } from './requests.ts';

export interface DriverCallsDeps {
  readonly drivers: {
    /** Throws a transient failure for a driver that is not registered. */
    node(name: string): DriverNode;
    /** Resolves when the driver is registered, or is not to be expected; also when the signal aborts. */
    whenSettled(name: string, signal: AbortSignal): Promise<void>;
  };
  readonly clock: Clock;
}

/** The kubelet's. */
const callMsMax = 120_000;
/** How long drivers have to register after a start of the node, before volumes fail for want of them. */
const startMsMax = 5_000;

type Asked<Method extends keyof DriverNode> = Parameters<DriverNode[Method]>[0];
type DriverCall<T> = (node: DriverNode, options: CallOptions) => Promise<T>;

export class DriverCalls {
  readonly #deps: DriverCallsDeps;
  readonly #given = new Map<string, GivenSecrets>();

  constructor(deps: DriverCallsDeps) {
    this.#deps = deps;
  }

  /** Rejects while the driver is not registered, before anything is read or made for it. */
  async require(driver: string, signal: AbortSignal): Promise<void> {
    const { drivers, clock } = this.#deps;
    await withDeadline(clock, startMsMax, timedOut, signal, (limited) => drivers.whenSettled(driver, limited));
    signal.throwIfAborted();
    drivers.node(driver);
  }

  async stage(driver: string, request: Asked<'nodeStageVolume'>, signal: AbortSignal): Promise<void> {
    await this.#call(driver, (node, options) => node.nodeStageVolume(request, options), signal, valuesOf(request));
  }

  async unstage(driver: string, request: Asked<'nodeUnstageVolume'>, signal: AbortSignal): Promise<void> {
    await this.#call(driver, (node, options) => node.nodeUnstageVolume(request, options), signal);
  }

  /** `tokens` are in the request, among what may be shown of it. */
  async publish(
    driver: string,
    request: Asked<'nodePublishVolume'>,
    tokens: readonly string[],
    signal: AbortSignal,
  ): Promise<void> {
    const secrets = [...valuesOf(request), ...tokens];
    await this.#call(driver, (node, options) => node.nodePublishVolume(request, options), signal, secrets);
  }

  async unpublish(driver: string, request: Asked<'nodeUnpublishVolume'>, signal: AbortSignal): Promise<void> {
    await this.#call(driver, (node, options) => node.nodeUnpublishVolume(request, options), signal);
  }

  async expand(driver: string, request: Asked<'nodeExpandVolume'>, signal: AbortSignal): Promise<void> {
    await this.#call(driver, (node, options) => node.nodeExpandVolume(request, options), signal, valuesOf(request));
  }

  async figures(
    driver: string,
    request: Asked<'nodeGetVolumeStats'>,
    signal: AbortSignal,
  ): Promise<readonly VolumeUsage[]> {
    return (await this.#call(driver, (node, options) => node.nodeGetVolumeStats(request, options), signal)).usage;
  }

  /** `secrets` are the values in the request that must not be shown, whatever the driver says. */
  async #call<T>(driver: string, act: DriverCall<T>, signal: AbortSignal, secrets: readonly string[] = []): Promise<T> {
    const node = this.#deps.drivers.node(driver);
    if (secrets.length > 0) this.#givenTo(driver).add(secrets);
    try {
      // The deadline goes to the driver too, which stops its own work then.
      return await withDeadline(this.#deps.clock, callMsMax, timedOut, signal, async (limited) =>
        act(node, { timeoutMs: callMsMax, signal: limited }),
      );
    } catch (thrown) {
      if (signal.aborted) throw thrown; // for the reason of the one who stopped it
      throw driverError(thrown, [...secrets, ...(this.#given.get(driver)?.values() ?? [])]);
    }
  }

  #givenTo(driver: string): GivenSecrets {
    const known = this.#given.get(driver) ?? new GivenSecrets();
    this.#given.set(driver, known);
    return known;
  }

  /** Asked anew by each operation: a driver may be replaced by a newer one at any time. */
  async capabilities(driver: string, signal: AbortSignal): Promise<NodeCapabilities> {
    const { capabilities } = await this.#call(driver, (node, options) => node.nodeGetCapabilities({}, options), signal);
    const types = new Set(capabilities.map(({ type }) => (type.case === 'rpc' ? type.value.type : undefined)));
    return {
      stages: types.has(Rpc.STAGE_UNSTAGE_VOLUME),
      expands: types.has(Rpc.EXPAND_VOLUME),
      hasStats: types.has(Rpc.GET_VOLUME_STATS),
      hasSingleWriters: types.has(Rpc.SINGLE_NODE_MULTI_WRITER),
      mountsForGroup: types.has(Rpc.VOLUME_MOUNT_GROUP),
    };
  }
}

function valuesOf({ secrets = {} }: { readonly secrets?: Strings }): readonly string[] {
  return Object.values(secrets);
}
