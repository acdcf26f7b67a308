/**
 * Calls a gRPC service whose messages `npm run generate` made: each method of the service is a function of the client.
 *
 *   const runtime = grpcClient(RuntimeService, channel);
 *   const { runtimeName } = await runtime.version({}, { timeoutMs: 5_000, signal });
 */
import {
  type DescMethod,
  type Message,
  type MessageInitShape,
  type MessageShape,
  create,
  fromBinary,
  toBinary,
} from '@bufbuild/protobuf';
import type { GenMessage, GenService } from '@bufbuild/protobuf/codegenv2';
import { type Client, Metadata } from '@grpc/grpc-js';
import { onAbort } from '../base/abort.ts';
import { grpcError } from './grpc-error.ts';

export interface CallOptions {
  /** Undefined: as long as it takes. */
  readonly timeoutMs: number | undefined;
  readonly signal: AbortSignal;
}

interface Method {
  readonly methodKind: 'unary';
  readonly input: GenMessage<Message>;
  readonly output: GenMessage<Message>;
}

export type GrpcClient<Methods extends Record<string, Method>> = {
  readonly [Name in keyof Methods]: (
    request: MessageInitShape<Methods[Name]['input']>,
    options: CallOptions,
  ) => Promise<MessageShape<Methods[Name]['output']>>;
};

/** Rejects with a GrpcError, or with the reason of the signal. */
export function grpcClient<Methods extends Record<string, Method>>(
  service: GenService<Methods>,
  channel: Client,
): GrpcClient<Methods> {
  const methods = service.methods.map((method) => [
    method.localName,
    (request: MessageInitShape<typeof method.input>, options: CallOptions) => call(channel, method, request, options),
  ]);
  return Object.fromEntries(methods) as GrpcClient<Methods>;
}

function call(
  channel: Client,
  { name, parent, input, output }: DescMethod,
  request: MessageInitShape<typeof input>,
  { timeoutMs, signal }: CallOptions,
): Promise<Message> {
  signal.throwIfAborted();
  return new Promise((resolve, reject) => {
    const under = channel.makeUnaryRequest(
      `/${parent.typeName}/${name}`,
      (message: Message) => Buffer.from(toBinary(input, message)),
      (bytes: Buffer) => fromBinary(output, bytes),
      create(input, request),
      new Metadata(),
      timeoutMs === undefined ? {} : { deadline: Date.now() + timeoutMs },
      (error, answer) => {
        stopListening();
        if (signal.aborted) reject(signal.reason);
        else if (error !== null) reject(grpcError(name, error));
        else if (answer === undefined) reject(new Error(`${name} was answered with nothing`));
        else resolve(answer);
      },
    );
    const stopListening = onAbort(signal, () => under.cancel());
  });
}
