/**
 * A driver's Controller service: what it is called, what it can do, and calls that give away no Secret. It is known only by its
 * socket, so a connection begins with questions; what it answers is not trusted.
 */
import type { MessageInitShape, MessageShape } from '@bufbuild/protobuf';
import type { Client } from '@grpc/grpc-js';
import { OperatingError } from '../../base/errors.ts';
import { type CallOptions, type GrpcClient, grpcClient } from '../../grpc/grpc-client.ts';
import { hasCode } from '../../grpc/grpc-error.ts';
import {
  Controller,
  type ControllerServiceCapability_RPC_Type as ControllerCapability,
  Identity,
  Node,
  NodeServiceCapability_RPC_Type as NodeCapability,
  PluginCapability_Service_Type as PluginCapability,
} from '../../grpc/messages/csi_pb.ts';
import { csiDriverErrors } from '../../kube/kinds/storage/volume-sources.ts';
import { DriverError, GivenSecrets, driverError } from '../failures.ts';
import type { Strings } from '../requests.ts';

type Methods = (typeof Controller)['method'];
type Request<Name extends keyof Methods> = MessageInitShape<Methods[Name]['input']>;

export interface ControllerDriver {
  readonly name: string;
  /** Of the Controller service; empty where there is none. */
  readonly capabilities: ReadonlySet<ControllerCapability>;
  /** The node makes file systems larger. */
  readonly nodeExpands: boolean;
  /** Volumes are not reachable from everywhere. */
  readonly hasTopology: boolean;
  readonly calls: GrpcClient<Methods>;
  /** On this connection. */
  readonly given: GivenSecrets;
}

/** Cloud providers take this long now and then; a driver that is slower is asked again, and goes on where it is. */
const callMs = 60_000;
/** Identity questions need no storage. */
const questionMs = 10_000;

/** Rejects when the driver is not ready, or is none. */
export async function identify(channel: Client, signal: AbortSignal): Promise<ControllerDriver> {
  const options: CallOptions = { timeoutMs: questionMs, signal };
  const identity = grpcClient(Identity, channel);
  const { ready } = await identity.probe({}, options);
  if (ready === false) throw new OperatingError('DriverNotReady', 'it says that it is not ready yet');
  const { name } = await identity.getPluginInfo({}, options);
  const [problem] = csiDriverErrors(name, ['name']);
  if (problem !== undefined)
    throw new OperatingError('DriverUnnamed', `its name ${JSON.stringify(name.slice(0, 100))} is none for a driver`);
  const plugin = await identity.getPluginCapabilities({}, options);
  const services = new Set(
    plugin.capabilities.flatMap(({ type }) => (type.case === 'service' ? [type.value.type] : [])),
  );
  const calls = grpcClient(Controller, channel);
  const hasController = services.has(PluginCapability.CONTROLLER_SERVICE);
  const capabilities = hasController ? (await calls.controllerGetCapabilities({}, options)).capabilities : [];
  return {
    name,
    capabilities: new Set(capabilities.flatMap(({ type }) => (type.case === 'rpc' ? [type.value.type] : []))),
    nodeExpands: await nodeExpands(channel, options),
    hasTopology: services.has(PluginCapability.VOLUME_ACCESSIBILITY_CONSTRAINTS),
    calls,
    given: new GivenSecrets(),
  };
}

/** The node's half may be behind another socket. */
async function nodeExpands(channel: Client, options: CallOptions): Promise<boolean> {
  try {
    const { capabilities } = await grpcClient(Node, channel).nodeGetCapabilities({}, options);
    return capabilities.some(({ type }) => type.case === 'rpc' && type.value.type === NodeCapability.EXPAND_VOLUME);
  } catch (error) {
    if (hasCode(error, 'UNIMPLEMENTED')) return false;
    throw error;
  }
}

/** One call. Whatever goes wrong is a DriverError, without the Secrets of the request. */
export async function call<Name extends keyof Methods>(
  { calls, given }: ControllerDriver,
  name: Name,
  request: Request<Name>,
  signal: AbortSignal,
): Promise<MessageShape<Methods[Name]['output']>> {
  const secrets = Object.values((request as { readonly secrets?: Strings }).secrets ?? {});
  given.add(secrets);
  try {
    return await calls[name](request, { timeoutMs: callMs, signal });
  } catch (thrown) {
    if (signal.aborted) throw thrown; // for the reason of the one who stopped it
    throw driverError(thrown, [...secrets, ...given.values()]);
  }
}

/** The storage may go on with what was asked: its outcome is unknown, and only the same call again tells it. */
export function isUncertain(error: unknown): boolean {
  if (!(error instanceof DriverError)) return true;
  // Controllers take a driver that is out of room at its word; nodes do not.
  return error.failureClass === 'uncertain' && error.code !== 'RESOURCE_EXHAUSTED';
}

export function hasDriverCode(error: unknown, ...codes: readonly DriverError['code'][]): boolean {
  return error instanceof DriverError && codes.includes(error.code);
}
