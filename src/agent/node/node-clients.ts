/** A node's connections to its API server. As the kubelet has them: what pods need, events, and heartbeats that wait for neither. */
import type { Clock } from '../../base/clock.ts';
import type { ApiClient } from '../../client/api-client.ts';
import { apiClientDefaults } from '../../client/api-client.ts';
import type { ClusterAccess } from '../../client/cluster-access.ts';
import { connectApiClient } from '../../client/connect.ts';
import { poolDefaults } from '../../client/connection-pool.ts';
import type { AgentSettings } from '../agent-settings.ts';

export interface NodeClients {
  readonly general: ApiClient;
  readonly events: ApiClient;
  readonly heartbeat: ApiClient;
  close(): Promise<void>;
}

/** Nothing but a few heartbeats goes through it, and those must not wait. */
const heartbeatRate = { perSecond: 1_000, burst: 1_000 };

export function connectNode(
  cluster: Pick<ClusterAccess, 'endpoint' | 'credentials'>,
  clock: Clock,
  { requestsPerSecond, requestsBurst, nodeStatusUpdateMs, leaseSeconds }: AgentSettings,
): NodeClients {
  const connect = (settings: Partial<typeof apiClientDefaults>): ApiClient =>
    connectApiClient(cluster, clock, { ...apiClientDefaults, userAgent: 'mountlet-agent', ...settings }, poolDefaults);
  const rate = { perSecond: requestsPerSecond, burst: requestsBurst };
  const general = connect({ rate });
  const events = connect({ rate });
  const requestTimeoutMs = Math.min(nodeStatusUpdateMs, leaseSeconds * 1_000);
  const heartbeat = connect({ rate: heartbeatRate, requestTimeoutMs });
  return {
    general,
    events,
    heartbeat,
    async close() {
      await Promise.all([general.close(), events.close(), heartbeat.close()]);
    },
  };
}
