/** Manifests as users write them, with as little as a test is about. */
import { existsSync } from 'node:fs';
import { dirname } from 'node:path';

export interface ContainerPart {
  readonly name?: string;
  /** A script for sh; without one the container idles. */
  readonly script?: string;
  readonly [field: string]: unknown;
}

/** A pod of one container, or of those given; it ends at once on SIGTERM. */
export function pod(
  name: string,
  container: ContainerPart | readonly ContainerPart[] = {},
  { labels, ...spec }: Readonly<Record<string, unknown>> = {},
): object {
  const containers = Array.isArray(container) ? (container as readonly ContainerPart[]) : [container as ContainerPart];
  return {
    apiVersion: 'v1',
    kind: 'Pod',
    metadata: { name, ...(labels !== undefined && { labels }) },
    spec: { terminationGracePeriodSeconds: 0, containers: containers.map(containerOf), ...spec },
  };
}

export function containerOf({ script, ...fields }: ContainerPart): object {
  return { name: 'main', image: 'test:1', ...(script !== undefined && { command: ['sh', '-c', script] }), ...fields };
}

export function configMap(name: string, data: Readonly<Record<string, string>>): object {
  return { apiVersion: 'v1', kind: 'ConfigMap', metadata: { name }, data };
}

export function secret(name: string, stringData: Readonly<Record<string, string>>): object {
  return { apiVersion: 'v1', kind: 'Secret', metadata: { name }, stringData };
}

export const mountAt = (name: string, mountPath: string, more: object = {}): object => ({ name, mountPath, ...more });

const programDirectories = [...new Set(['/usr', '/lib', '/lib64', dirname(process.execPath)])].filter((path) =>
  existsSync(path),
);

/** For a container that runs curl or this Node, which no image of the tests has. */
export const programsOfMachine = {
  volumes: programDirectories.map((path, index) => ({ name: `programs-${index}`, hostPath: { path } })),
  volumeMounts: programDirectories.map((path, index) => mountAt(`programs-${index}`, path, { readOnly: true })),
};
