/** A node's surroundings in which a test resolves the environment of one container. */
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { ConfigMap } from '../kube/objects/config-map.ts';
import type { Container } from '../kube/objects/container.ts';
import type { Secret } from '../kube/objects/secret.ts';
import { resolveEnvironment } from '../pods/environment.ts';
import type { EnvironmentDeps } from '../pods/environment.ts';
import type { MountedVolumes } from '../pods/mounted-volumes.ts';
import type { Variable } from '../pods/variables.ts';
import { aContainer, aNode, aPod, objectReader } from './builders.ts';
import type { PodParts } from './builders.ts';

export interface EnvironmentWorld extends Partial<Omit<EnvironmentDeps, 'configMaps' | 'secrets'>> {
  readonly configMaps?: readonly ConfigMap[];
  readonly secrets?: readonly Secret[];
  readonly pod?: PodParts;
  readonly podIPs?: readonly string[];
  readonly volumes?: MountedVolumes;
}

export const noVolumes: MountedVolumes = { get: () => undefined };
export const plainFiles: EnvironmentDeps['envFiles'] = {
  async read({ directory, path }) {
    const file = join(directory, path);
    return { path: file, content: await readFile(file) };
  },
};

export function resolveIn(
  container: Partial<Container>,
  { configMaps = [], secrets = [], pod = {}, podIPs = [], volumes = noVolumes, ...deps }: EnvironmentWorld = {},
): Promise<readonly Variable[]> {
  const own = aContainer(container);
  return resolveEnvironment(
    { pod: aPod({ containers: [own], ...pod }), container: own, podIPs, volumes },
    {
      configMaps: objectReader(...configMaps),
      secrets: objectReader(...secrets),
      services: [],
      node: aNode({
        addresses: [{ type: 'InternalIP', address: '192.0.2.1' }],
        allocatable: { cpu: '4', memory: '8Gi', 'ephemeral-storage': '100Gi' },
      }),
      envFiles: plainFiles,
      ...deps,
    },
    new AbortController().signal,
  );
}

/** Name and value of each, with a remark at those that are secret. */
export function showVariables(variables: readonly Variable[]): Record<string, string> {
  return Object.fromEntries(variables.map(({ name, value, secret }) => [name, secret ? `${value} (secret)` : value]));
}
