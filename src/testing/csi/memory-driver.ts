/**
 * The Controller service of a storage driver in memory, for tests that count and strike every call. Its volumes outlive the
 * program that calls it. As the specification asks, every call can be repeated.
 */
import type { MessageInitShape, MessageShape } from '@bufbuild/protobuf';
import { create } from '@bufbuild/protobuf';
import type { ControllerDriver } from '../../csi/controller/controller-driver.ts';
import { GivenSecrets } from '../../csi/failures.ts';
import type { CallOptions } from '../../grpc/grpc-client.ts';
import { GrpcError } from '../../grpc/grpc-error.ts';
import { Controller, ControllerServiceCapability_RPC_Type as Capability } from '../../grpc/messages/csi_pb.ts';

type Methods = (typeof Controller)['method'];
type Request<Name extends keyof Methods> = MessageShape<Methods[Name]['input']>;
type Answer<Name extends keyof Methods> = MessageInitShape<Methods[Name]['output']>;
type Handlers = { readonly [Name in keyof Methods]?: (request: Request<Name>) => Answer<Name> };
/** Makes a call a point of the world. */
type Effect = <Result>(text: string, act: () => Promise<Result>) => Promise<Result>;

interface StoredVolume {
  readonly id: string;
  sizeBytes: bigint;
  /** Nodes. */
  readonly published: Set<string>;
}

export interface DriverTraits {
  readonly capabilities?: readonly (keyof typeof Capability)[];
  readonly nodeExpands?: boolean;
  readonly hasTopology?: boolean;
}

export const allCapabilities = [
  'CREATE_DELETE_VOLUME',
  'PUBLISH_UNPUBLISH_VOLUME',
  'PUBLISH_READONLY',
  'EXPAND_VOLUME',
] as const;

export class MemoryDriver {
  readonly name = 'disks.example.com';
  /** By name. */
  readonly volumes = new Map<string, StoredVolume>();
  readonly requests: { readonly method: keyof Methods; readonly request: object }[] = [];
  /** What it must not have been asked. */
  readonly problems: string[] = [];
  /** Happens instead of an answer, or is one. */
  script: { [Name in keyof Methods]?: (request: Request<Name>) => Answer<Name> | undefined } = {};
  readonly #traits: DriverTraits;

  constructor(traits: DriverTraits = {}) {
    this.#traits = traits;
  }

  /** As one process is connected to it. */
  connected(effect: Effect = (_text, act) => act()): ControllerDriver {
    const { capabilities = allCapabilities, nodeExpands = true, hasTopology = false } = this.#traits;
    const calls = Controller.methods.map((method) => [
      method.localName,
      (given: MessageInitShape<typeof method.input>, { signal }: CallOptions): Promise<unknown> => {
        signal.throwIfAborted();
        const request = create(method.input, given);
        const { name, volumeId } = request as { readonly name?: string; readonly volumeId?: string };
        const act = async (): Promise<unknown> => this.#answer(method.localName as keyof Methods, request as never);
        return effect(`call ${method.localName} ${name ?? volumeId ?? ''}`, act);
      },
    ]);
    return {
      name: this.name,
      capabilities: new Set(capabilities.map((one) => Capability[one])),
      nodeExpands,
      hasTopology,
      calls: Object.fromEntries(calls) as ControllerDriver['calls'],
      given: new GivenSecrets(),
    };
  }

  named(method: keyof Methods): readonly object[] {
    return this.requests.filter((one) => one.method === method).map(({ request }) => request);
  }

  #answer<Name extends keyof Methods>(name: Name, request: Request<Name>): object {
    this.requests.push({ method: name, request });
    const act = this.#handlers[name];
    if (act === undefined) throw new GrpcError(name, 'UNIMPLEMENTED', `unknown method ${name}`);
    const scripted = this.script[name];
    return create(Controller.method[name].output, scripted?.(request) ?? act(request));
  }

  readonly #handlers: Handlers = {
    createVolume: ({ name, capacityRange, parameters }) => {
      const sizeBytes = capacityRange?.requiredBytes ?? 0n;
      const volume = this.volumes.get(name) ?? { id: `id-${name}`, sizeBytes, published: new Set<string>() };
      this.volumes.set(name, volume);
      return { volume: { volumeId: volume.id, capacityBytes: volume.sizeBytes, volumeContext: parameters } };
    },
    deleteVolume: ({ volumeId }) => {
      const volume = this.#found(volumeId);
      if (volume !== undefined && volume.published.size > 0) this.problems.push(`${volumeId} was deleted while in use`);
      this.volumes.delete(volumeId.replace(/^id-/, ''));
      return {};
    },
    controllerPublishVolume: ({ volumeId, nodeId }) => {
      const volume = this.#required(volumeId);
      if ([...volume.published].some((node) => node !== nodeId)) this.problems.push(`${volumeId} is on two nodes`);
      volume.published.add(nodeId);
      return { publishContext: { device: `/dev/${volumeId}` } };
    },
    controllerUnpublishVolume: ({ volumeId, nodeId }) => {
      this.#found(volumeId)?.published.delete(nodeId);
      return {};
    },
    controllerExpandVolume: ({ volumeId, capacityRange }) => {
      const volume = this.#required(volumeId);
      const wanted = capacityRange?.requiredBytes ?? 0n;
      if (wanted > volume.sizeBytes) volume.sizeBytes = wanted;
      return { capacityBytes: volume.sizeBytes, nodeExpansionRequired: false };
    },
  };

  #found(id: string): StoredVolume | undefined {
    return [...this.volumes.values()].find((volume) => volume.id === id);
  }

  #required(id: string): StoredVolume {
    const volume = this.#found(id);
    if (volume === undefined) throw new GrpcError('', 'NOT_FOUND', `no volume ${id}`);
    return volume;
  }
}
