/** How the client of a node's heartbeats differs from its others: what must get through waits for nothing. */
import type { ApiClientSettings } from '../client/api-client.ts';

/** A heartbeat that is late by a whole period is worth less than the next one. */
export function heartbeatClientSettings(
  general: ApiClientSettings,
  { nodeStatusUpdateMs, leaseSeconds }: { readonly nodeStatusUpdateMs: number; readonly leaseSeconds: number },
): ApiClientSettings {
  const patienceMs = Math.min(nodeStatusUpdateMs, leaseSeconds * 1_000);
  return {
    ...general,
    rate: { perSecond: Infinity, burst: 1 },
    requestTimeoutMs: Math.min(general.requestTimeoutMs, patienceMs),
    retriesMax: 1,
    retryAfterMsMax: Math.min(general.retryAfterMsMax, patienceMs / 2),
  };
}
