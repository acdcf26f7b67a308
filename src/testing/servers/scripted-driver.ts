/** A CSI driver that only registers, and answers what a test says: for what no driver does on command. */
import { mkdirSync } from 'node:fs';
import { dirname, join } from 'node:path';
import type { Message, MessageInitShape } from '@bufbuild/protobuf';
import { Node, type NodeGetInfoResponseSchema } from '../../grpc/messages/csi_pb.ts';
import { Registration, type RegistrationStatus } from '../../grpc/messages/registration_pb.ts';
import { CallFailure, serveMessages } from './grpc-server.ts';

type NodeInfo = MessageInitShape<typeof NodeGetInfoResponseSchema>;

export interface ScriptedPlugin {
  type: string;
  name: string;
  /** Empty: the registration socket, which serves the driver too. */
  endpoint: string;
  supportedVersions: readonly string[];
  /** A function is asked at each call. One that throws fails it, one that never resolves hangs. */
  nodeInfo: NodeInfo | (() => NodeInfo | Promise<NodeInfo>);
  /** Fails the last call of a registration. */
  failsStatus: boolean;
}

export class ScriptedDriver {
  readonly socket: string;
  /** May be changed while it runs. */
  readonly plugin: ScriptedPlugin;
  /** What the node has said of its registration: empty for a success. */
  readonly statuses: string[] = [];
  #server: { forceShutdown(): void } | undefined;

  constructor(directory: string, plugin: Partial<ScriptedPlugin> & { readonly socketName?: string } = {}) {
    const { socketName = 'driver-reg.sock', ...rest } = plugin;
    this.socket = join(directory, socketName);
    this.plugin = {
      type: 'CSIPlugin',
      name: 'driver.example.com',
      endpoint: '',
      supportedVersions: ['1.0.0'],
      nodeInfo: { nodeId: 'node-1' },
      failsStatus: false,
      ...rest,
    };
  }

  async start(): Promise<this> {
    mkdirSync(dirname(this.socket), { recursive: true });
    this.#server = await serveMessages(this.socket, [Registration, Node], async ({ name }, request) => {
      const { nodeInfo, type, endpoint, supportedVersions, failsStatus } = this.plugin;
      switch (name) {
        case 'GetInfo':
          return { type, name: this.plugin.name, endpoint, supportedVersions: [...supportedVersions] };
        case 'NotifyRegistrationStatus':
          if (failsStatus) throw new CallFailure('INTERNAL', 'no ears');
          return this.#record(request);
        case 'NodeGetInfo':
          return { ...(await (typeof nodeInfo === 'function' ? nodeInfo() : nodeInfo)) };
        default:
          throw new CallFailure('UNIMPLEMENTED', `no ${name} here`);
      }
    });
    return this;
  }

  #record(status: Message): Record<string, never> {
    const { pluginRegistered, error } = status as RegistrationStatus;
    this.statuses.push(pluginRegistered ? '' : error);
    return {};
  }

  /** The socket goes with it. */
  stop(): void {
    this.#server?.forceShutdown();
  }
}
