/** The health check of a gRPC probe. */
import { MountletError, messageOf } from '../../base/errors.ts';
import { addressChannel, isConnected } from '../../grpc/grpc-channel.ts';
import { grpcClient } from '../../grpc/grpc-client.ts';
import { hasCode } from '../../grpc/grpc-error.ts';
import { Health, HealthCheckResponse_ServingStatus as statuses } from '../../grpc/messages/health_pb.ts';

interface HealthTarget {
  readonly host: string;
  readonly port: number;
  readonly service: string;
  /** What the server is told that it was called as. */
  readonly authority: string;
  readonly userAgent: string;
}

/** There was nobody to ask. */
export class GrpcConnectError extends MountletError {
  readonly reason = 'GrpcConnectFailed';
}

/** Resolves with the name of the status: `SERVING`. Rejects with a GrpcConnectError, or with the server's refusal. */
export async function checkGrpcHealth(
  { service, ...target }: HealthTarget,
  timeoutMs: number,
  signal: AbortSignal,
): Promise<string> {
  const channel = addressChannel(target);
  try {
    const { status } = await grpcClient(Health, channel).check({ service }, { timeoutMs, signal });
    return Object.entries(statuses).find(([, value]) => value === status)?.[0] ?? String(status);
  } catch (error) {
    if (hasCode(error, 'UNAVAILABLE') && !isConnected(channel)) throw new GrpcConnectError(messageOf(error));
    throw error;
  } finally {
    channel.close();
  }
}
