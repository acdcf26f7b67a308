/** Why a gRPC call failed, in the words of the other side. */
import { type ServiceError, status } from '@grpc/grpc-js';
import { MountletError } from '../base/errors.ts';

type GrpcCode = keyof typeof status;

/** The message is the server's own, without gRPC's prefix; it may quote what was sent, so it is not for logs as it is. */
export class GrpcError extends MountletError {
  readonly reason = 'GrpcCallFailed';
  readonly code: GrpcCode;
  /** `RunPodSandbox` */
  readonly method: string;

  constructor(method: string, code: GrpcCode, message: string, options?: ErrorOptions) {
    super(message, options);
    this.method = method;
    this.code = code;
  }
}

export function hasCode(thrown: unknown, ...codes: readonly GrpcCode[]): boolean {
  return thrown instanceof GrpcError && codes.includes(thrown.code);
}

/** The server's text can have any length, and ends up in Events. */
const messageCharactersMax = 8192;

export function grpcError(method: string, { code, details }: ServiceError): GrpcError {
  const name = Object.entries(status).find(([, number]) => number === code)?.[0] ?? 'UNKNOWN';
  const text = details === '' ? `it answered with the code ${name}` : details;
  return new GrpcError(method, name as GrpcCode, text.slice(0, messageCharactersMax));
}
