/** An API client from what a kubeconfig or a cluster says: the pieces of this room put together. */
import type { Clock } from '../base/clock.ts';
import type { ApiClientSettings } from './api-client.ts';
import { ApiClient } from './api-client.ts';
import type { ClusterAccess } from './cluster-access.ts';
import type { PoolSettings } from './connection-pool.ts';
import { ConnectionPool } from './connection-pool.ts';

/** Connects when the first request asks for it. To be closed by the caller. */
export function connectApiClient(
  { endpoint, credentials, transport }: Pick<ClusterAccess, 'endpoint' | 'credentials' | 'transport'>,
  clock: Clock,
  settings: ApiClientSettings,
  pool: PoolSettings,
): ApiClient {
  const connected = transport?.() ?? new ConnectionPool(endpoint, clock, pool);
  return new ApiClient({ transport: connected, credentials, clock }, settings);
}
