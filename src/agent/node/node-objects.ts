/** ConfigMaps, Secrets and tokens for the pods of a node: from an API server, from a folder of manifests, or from both. */
import type { Pausing } from '../../base/clock.ts';
import { runTask } from '../../base/run-task.ts';
import type { ApiClient } from '../../client/api-client.ts';
import type { ReflectorNotice } from '../../client/reflector.ts';
import type { ConfigMap } from '../../kube/kinds/config-map.ts';
import type { Node } from '../../kube/kinds/node.ts';
import type { Pod } from '../../kube/kinds/pod/pod.ts';
import type { Secret } from '../../kube/kinds/secret.ts';
import { configMapKind, secretKind } from '../../kube/manifests/manifest-kinds.ts';
import type { Manifests } from '../../kube/manifests/manifests.ts';
import { ApiObjectSource } from '../../objects/api-object-source.ts';
import { ApiTokenRequester } from '../../objects/api-token-requester.ts';
import { managedConfigMaps, managedSecrets } from '../../objects/managed-kind.ts';
import { type ObjectManagers, objectManagers } from '../../objects/object-managers.ts';
import type { ObjectNotice } from '../../objects/object-notices.ts';
import { TokenManager } from '../../objects/token-manager.ts';
import type { AgentSettings } from '../agent-settings.ts';
import { FolderObjects } from './folder-objects.ts';

interface NodeObjectsDeps extends Pausing {
  /** Undefined: there is no API server. */
  readonly client: ApiClient | undefined;
  readonly random: () => number;
  readonly ownNode: () => Node | undefined;
  readonly notify: (notice: ObjectNotice | ReflectorNotice) => void;
}

export class NodeObjects {
  readonly configMaps: FolderObjects<ConfigMap>;
  readonly secrets: FolderObjects<Secret>;
  readonly tokens: TokenManager;
  readonly #deps: NodeObjectsDeps;

  constructor(deps: NodeObjectsDeps, settings: Pick<AgentSettings, 'strategy' | 'watchScope' | 'syncMs'>) {
    this.#deps = deps;
    const { client } = deps;
    const managers = client === undefined ? undefined : managersOf({ ...deps, client }, settings);
    this.configMaps = new FolderObjects(managedConfigMaps.singular, managers?.configMaps);
    this.secrets = new FolderObjects(managedSecrets.singular, managers?.secrets);
    this.tokens = new TokenManager({
      ...deps,
      requester: client === undefined ? undefined : new ApiTokenRequester(client),
    });
  }

  registerPod(pod: Pod): void {
    this.configMaps.registerPod(pod);
    this.secrets.registerPod(pod);
  }

  unregisterPod(pod: Pod): void {
    this.configMaps.unregisterPod(pod);
    this.secrets.unregisterPod(pod);
    this.tokens.forgetPod(pod.metadata.uid ?? '');
  }

  /** What the folder of manifests has now; what it had before stays until `replaceFolder`. */
  addFolder(objects: Manifests): void {
    this.configMaps.add(objects.all(configMapKind));
    this.secrets.add(objects.all(secretKind));
  }

  /** What the folder of manifests has now. */
  replaceFolder(objects: Manifests): void {
    this.configMaps.replace(objects.all(configMapKind));
    this.secrets.replace(objects.all(secretKind));
  }

  async run(signal: AbortSignal): Promise<void> {
    const parts = { ConfigMaps: this.configMaps, Secrets: this.secrets, tokens: this.tokens };
    const running = Object.entries(parts).map(([task, part]) =>
      runTask(task, (ended) => part.run(ended), this.#deps, signal),
    );
    await Promise.all(running);
  }
}

function managersOf(
  deps: NodeObjectsDeps & { readonly client: ApiClient },
  { strategy, watchScope, syncMs }: Pick<AgentSettings, 'strategy' | 'watchScope' | 'syncMs'>,
): ObjectManagers {
  return objectManagers(
    {
      ...deps,
      configMaps: new ApiObjectSource(managedConfigMaps.resource, deps),
      secrets: new ApiObjectSource(managedSecrets.resource, deps),
    },
    { strategy, scope: watchScope, syncFrequencyMs: syncMs },
  );
}
