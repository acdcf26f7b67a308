/** `mountlet apply`: manifests to the API server, for machines without kubectl. */
import { applyManifests } from '../agent/apply-manifests.ts';
import { readSources } from '../agent/sources.ts';
import { DiscoveredResources } from '../client/discovery.ts';
import type { ClusterOptions } from './cluster-client.ts';
import { clusterClient } from './cluster-client.ts';
import { openStandardInput } from './standard-input.ts';
import { telling } from './talk.ts';

export interface ApplyOptions extends ClusterOptions {
  readonly filename: readonly string[];
  readonly namespace?: string;
}

export function applyCommand(options: ApplyOptions): Promise<number> {
  return telling(async () => {
    const { signal } = new AbortController();
    const files = await readSources(options.filename, () => openStandardInput(signal));
    const { client, namespace } = await clusterClient(options);
    try {
      const kinds = await DiscoveredResources.ask(client, signal);
      for await (const applied of applyManifests(files, options.namespace ?? namespace, client, kinds, signal)) {
        process.stdout.write(`${applied.name} ${applied.outcome}\n`);
      }
    } finally {
      await client.close();
    }
  });
}
