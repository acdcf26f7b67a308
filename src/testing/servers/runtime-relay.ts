/**
 * Stands between a node and its container runtime: it passes on every call, remembers what was asked, and lets a test do
 * something at any of them, before the runtime hears of it or before the node hears of the answer.
 */
import { type DescMethod, type Message, type MessageShape, fromBinary } from '@bufbuild/protobuf';
import { Metadata, type sendUnaryData } from '@grpc/grpc-js';
import { socketChannel } from '../../grpc/grpc-channel.ts';
import { ImageService, RuntimeService } from '../../grpc/messages/cri_pb.ts';
import { type BytesHandler, serveBytes } from './grpc-server.ts';

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

  const relay: BytesHandler = async (method, asked, answer) => {
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

  const server = await serveBytes(from, [RuntimeService, ImageService], relay);
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
