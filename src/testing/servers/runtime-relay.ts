/**
 * Stands between a node and its container runtime: it passes on every call, remembers what was asked, and lets a test do
 * something at any of them, before the runtime hears of it or before the node hears of the answer.
 */
import { type DescMethod, type Message, type MessageShape, fromBinary } from '@bufbuild/protobuf';
import { Metadata, Server, ServerCredentials, type ServiceDefinition, type sendUnaryData } from '@grpc/grpc-js';
import type { ServerUnaryCall, UntypedServiceImplementation } from '@grpc/grpc-js';
import { socketChannel } from '../../grpc/grpc-channel.ts';
import { ImageService, RuntimeService } from '../../grpc/messages/cri_pb.ts';

export interface RelayedCall {
  /** Counted from 1. */
  readonly number: number;
  /** `RunPodSandbox` */
  readonly method: string;
  readonly request: Message;
}

/** What a promise of it delays is the call. */
export type RelayWatch = (call: RelayedCall, moment: 'asked' | 'answered') => Promise<unknown> | void;

export interface RuntimeRelay {
  readonly endpoint: string;
  readonly calls: readonly RelayedCall[];
  /** What was asked of one method, such as `RuntimeService.method.runPodSandbox`. */
  requests<Method extends DescMethod>(method: Method): MessageShape<Method['input']>[];
  watch(watch: RelayWatch): void;
}

export async function startRuntimeRelay(
  test: { after(act: () => void): void },
  { from, to }: { readonly from: string; readonly to: string },
): Promise<RuntimeRelay> {
  const channel = socketChannel(to);
  const calls: RelayedCall[] = [];
  let watch: RelayWatch = () => {};

  const relay = async (
    method: DescMethod,
    asked: ServerUnaryCall<Buffer, Buffer>,
    answer: sendUnaryData<Buffer>,
  ): Promise<void> => {
    const call = { number: calls.length + 1, method: method.name, request: fromBinary(method.input, asked.request) };
    calls.push(call);
    await watch(call, 'asked');
    const answered = await new Promise<Parameters<sendUnaryData<Buffer>>>((resolve) => {
      const passedOn = channel.makeUnaryRequest(
        asked.getPath(),
        (bytes: Buffer) => bytes,
        (bytes: Buffer) => bytes,
        asked.request,
        new Metadata(),
        { deadline: asked.getDeadline() },
        (error, bytes) => resolve([error, bytes ?? null]),
      );
      asked.on('cancelled', () => passedOn.cancel());
    });
    await watch(call, 'answered');
    answer(...answered);
  };

  const server = new Server();
  for (const { typeName, methods } of [RuntimeService, ImageService]) {
    const definition: Record<string, ServiceDefinition[string]> = {};
    const handlers: UntypedServiceImplementation = {};
    for (const method of methods) {
      definition[method.name] = {
        path: `/${typeName}/${method.name}`,
        requestStream: false,
        responseStream: false,
        requestSerialize: (bytes: Buffer) => bytes,
        requestDeserialize: (bytes: Buffer) => bytes,
        responseSerialize: (bytes: Buffer) => bytes,
        responseDeserialize: (bytes: Buffer) => bytes,
      };
      handlers[method.name] = (asked: ServerUnaryCall<Buffer, Buffer>, answer: sendUnaryData<Buffer>) =>
        void relay(method, asked, answer);
    }
    server.addService(definition, handlers);
  }
  await new Promise<void>((resolve, reject) => {
    server.bindAsync(`unix://${from}`, ServerCredentials.createInsecure(), (error) =>
      error === null ? resolve() : reject(error),
    );
  });
  test.after(() => {
    server.forceShutdown();
    channel.close();
  });
  return {
    endpoint: `unix://${from}`,
    calls,
    requests: (method) => calls.filter((call) => call.method === method.name).map((call) => call.request as never),
    watch: (next) => (watch = next),
  };
}
