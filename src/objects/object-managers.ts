/** The managers of a node, by the strategy that its configuration names. */
import type { ConfigMap } from '../kube/kinds/config-map.ts';
import type { Secret } from '../kube/kinds/secret.ts';
import { GetObjects } from './get-objects.ts';
import { type ManagedKind, type ManagedObject, managedConfigMaps, managedSecrets } from './managed-kind.ts';
import { UnknownStrategyError } from './object-errors.ts';
import type { ObjectManager } from './object-manager.ts';
import type { ObjectSource } from './object-source.ts';
import { TtlObjects, type TtlObjectsDeps } from './ttl-objects.ts';
import { WatchedObjects, type WatchedObjectsDeps, type WatchedObjectsSettings } from './watched-objects.ts';

interface ObjectManagersSettings extends WatchedObjectsSettings {
  /** As the kubelet's configMapAndSecretChangeDetectionStrategy: `Get`, `Cache` or `Watch`. */
  readonly strategy: string;
}

interface ObjectManagersDeps
  extends Omit<TtlObjectsDeps<ManagedObject>, 'source'>, Omit<WatchedObjectsDeps<ManagedObject>, 'source'> {
  readonly configMaps: ObjectSource<ConfigMap>;
  readonly secrets: ObjectSource<Secret>;
}

export interface ObjectManagers {
  readonly configMaps: ObjectManager<ConfigMap>;
  readonly secrets: ObjectManager<Secret>;
}

export function objectManagers(
  { configMaps, secrets, ...deps }: ObjectManagersDeps,
  settings: ObjectManagersSettings,
): ObjectManagers {
  const managerOf = <T extends ManagedObject>(kind: ManagedKind<T>, source: ObjectSource<T>): ObjectManager<T> => {
    switch (settings.strategy) {
      case 'Get':
        return new GetObjects(source);
      case 'Cache':
        return new TtlObjects(kind, { ...deps, source });
      case 'Watch':
        return new WatchedObjects(kind, { ...deps, source }, settings);
      default:
        throw new UnknownStrategyError(settings.strategy);
    }
  };
  return { configMaps: managerOf(managedConfigMaps, configMaps), secrets: managerOf(managedSecrets, secrets) };
}
