/**
 * The connection to a container runtime: its calls, in our words when they fail. A runtime that is away is not an error of this
 * object: each call fails, and succeeds again when the runtime is back.
 */
import { messageOf } from '../../base/errors.ts';
import { socketChannel } from '../../grpc/grpc-channel.ts';
import { type CallOptions, type GrpcClient, grpcClient } from '../../grpc/grpc-client.ts';
import { GrpcError, hasCode } from '../../grpc/grpc-error.ts';
import { ImageService, RuntimeService } from '../../grpc/messages/cri_pb.ts';
import { RuntimeError } from '../runtime.ts';

export type RuntimeCalls = GrpcClient<(typeof RuntimeService)['method']>;
export type ImageCalls = GrpcClient<(typeof ImageService)['method']>;

/** `runtimeRequestTimeout`: for almost all calls. */
export const requestMsMax = 120_000;

/** All calls reject with a RuntimeError whose cause is the GrpcError, or with the reason of their signal. */
export interface CriConnection {
  /** `unix:///run/containerd/containerd.sock` */
  readonly endpoint: string;
  readonly runtime: RuntimeCalls;
  readonly images: ImageCalls;
  close(): void;
}

const scheme = 'unix://';

export function connectCri(endpoint: string): CriConnection {
  const path = endpoint.startsWith(scheme) ? endpoint.slice(scheme.length) : endpoint;
  if (!path.startsWith('/')) {
    throw new RuntimeError(
      `Cannot use the container runtime endpoint "${endpoint}": give the path of its socket, such as unix:///run/containerd/containerd.sock`,
    );
  }
  const channel = socketChannel(path);
  return {
    endpoint: `${scheme}${path}`,
    runtime: inOurWords(grpcClient(RuntimeService, channel), endpoint),
    images: inOurWords(grpcClient(ImageService, channel), endpoint),
    close: () => channel.close(),
  };
}

/** What a call that was refused, or that found nothing, failed with. */
export function isNotFound(thrown: unknown): boolean {
  return thrown instanceof RuntimeError && hasCode(thrown.cause, 'NOT_FOUND');
}

/** Undefined for what is gone: it needs no stop, no removal and no description. */
export async function unlessGone<T>(answer: Promise<T>): Promise<T | undefined> {
  try {
    return await answer;
  } catch (thrown) {
    if (isNotFound(thrown)) return undefined;
    throw thrown;
  }
}

/** All times of a runtime are nanoseconds since the epoch. */
export function milliseconds(nanoseconds: bigint): number {
  return Number(nanoseconds / 1_000_000n);
}

export function isUnimplemented(thrown: unknown): boolean {
  return thrown instanceof RuntimeError && hasCode(thrown.cause, 'UNIMPLEMENTED');
}

function inOurWords<Client extends Record<string, (request: never, options: CallOptions) => Promise<unknown>>>(
  client: Client,
  endpoint: string,
): Client {
  const calls = Object.entries(client).map(([name, call]) => [
    name,
    async (request: never, options: CallOptions) => {
      try {
        return await call(request, options);
      } catch (thrown) {
        throw thrown instanceof GrpcError ? runtimeError(thrown, endpoint) : thrown;
      }
    },
  ]);
  return Object.fromEntries(calls) as Client;
}

function runtimeError(error: GrpcError, endpoint: string): RuntimeError {
  if (error.code !== 'UNAVAILABLE') return new RuntimeError(messageOf(error), { cause: error });
  const [, code = ''] = /\bconnect (E[A-Z]+)\b/.exec(messageOf(error)) ?? [];
  const text = `Cannot reach the container runtime at ${endpoint}: ${connectProblems[code] ?? messageOf(error)}`;
  return new RuntimeError(text, { cause: error });
}

/** gRPC has one long sentence for all of them. */
const connectProblems: Readonly<Record<string, string>> = {
  ENOENT: 'there is no such socket',
  ECONNREFUSED: 'nothing listens there',
  EACCES: 'this user may not connect to it',
};
