/** A node's connections to its API server. As the kubelet has them: what pods need, events, and heartbeats that wait for neither. */
import type { Clock } from '../../base/clock.ts';
import type { ApiClient, ApiClientSettings } from '../../client/api-client.ts';
import { apiClientDefaults } from '../../client/api-client.ts';
import type { ClusterAccess } from '../../client/cluster-access.ts';
import { connectApiClient } from '../../client/connect.ts';
import { poolDefaults } from '../../client/connection-pool.ts';
import { heartbeatClientSettings } from '../../node/heartbeat-client.ts';
import type { AgentSettings } from '../agent-settings.ts';

export interface NodeClients {
  readonly general: ApiClient;
  readonly events: ApiClient;
  readonly heartbeat: ApiClient;
  close(): Promise<void>;
}

export function connectNode(
  cluster: Pick<ClusterAccess, 'endpoint' | 'credentials' | 'transport'>,
  clock: Clock,
  settings: AgentSettings,
): NodeClients {
  const connect = (client: ApiClientSettings): ApiClient => connectApiClient(cluster, clock, client, poolDefaults);
  const rate = { perSecond: settings.requestsPerSecond, burst: settings.requestsBurst };
  const shared = { ...apiClientDefaults, userAgent: 'mountlet-agent', rate };
  const [general, events] = [connect(shared), connect(shared)];
  const heartbeat = connect(heartbeatClientSettings(shared, settings));
  return {
    general,
    events,
    heartbeat,
    async close() {
      await Promise.all([general.close(), events.close(), heartbeat.close()]);
    },
  };
}
