/**
 * Small valid objects for tests: each builder fills in what a test does not care about, and takes what it does. All
 * live in the namespace `shop` unless given another.
 */
import assert from 'node:assert/strict';
import type { ConfigMap } from '../../kube/kinds/config-map.ts';
import type { Node } from '../../kube/kinds/node.ts';
import type { Container } from '../../kube/kinds/pod/container.ts';
import type { PodSpec } from '../../kube/kinds/pod/pod-spec.ts';
import type { PodStatus } from '../../kube/kinds/pod/pod-status.ts';
import type { Pod } from '../../kube/kinds/pod/pod.ts';
import type { Secret } from '../../kube/kinds/secret.ts';
import type { Service } from '../../kube/kinds/service.ts';
import type { FieldError } from '../../kube/schema/field-errors.ts';
import type { ObjectMeta } from '../../kube/schema/meta.ts';
import { type Shape, decode } from '../../kube/schema/schema.ts';
import type { MachineFacts, NodeSettings } from '../../node/node-status.ts';

export type PodParts = Partial<PodSpec> & {
  readonly metadata?: Partial<ObjectMeta>;
  readonly status?: PodStatus;
};

/** A pod `shop/web` with one container; the parts are fields of its spec, except `metadata` and `status`. */
export function aPod({ metadata, status, ...spec }: PodParts = {}): Pod {
  return {
    apiVersion: 'v1',
    kind: 'Pod',
    metadata: { name: 'web', namespace: 'shop', uid: '5f3a7c3e-0000-4000-8000-000000000001', ...metadata },
    spec: { containers: [aContainer()], enableServiceLinks: true, ...spec },
    ...(status === undefined ? {} : { status }),
  };
}

export function aContainer(parts: Partial<Container> = {}): Container {
  return { name: 'main', image: 'registry.example/web:1', ...parts };
}

export function aConfigMap({
  name,
  namespace = 'shop',
  ...parts
}: { readonly name: string; readonly namespace?: string } & Partial<ConfigMap>): ConfigMap {
  return {
    apiVersion: 'v1',
    kind: 'ConfigMap',
    ...parts,
    metadata: { name, namespace, resourceVersion: '1', ...parts.metadata },
  };
}

/** `data` is given in clear, as text or bytes; the object carries it in base64, as the API does. */
export function aSecret({
  name,
  namespace = 'shop',
  data = {},
  type = 'Opaque',
  metadata,
}: {
  readonly name: string;
  readonly namespace?: string;
  readonly data?: Readonly<Record<string, string | Uint8Array>>;
  readonly type?: string;
  readonly metadata?: Partial<ObjectMeta>;
}): Secret {
  const encoded = Object.entries(data).map(([key, value]) => [key, Buffer.from(value).toString('base64')] as const);
  return {
    apiVersion: 'v1',
    kind: 'Secret',
    metadata: { name, namespace, resourceVersion: '1', ...metadata },
    type,
    data: Object.fromEntries(encoded),
  };
}

export function aService({
  name,
  namespace = 'shop',
  clusterIP = '10.0.0.1',
  ports = [{ port: 80, protocol: 'TCP' }],
  annotations,
}: {
  readonly name: string;
  readonly namespace?: string;
  readonly clusterIP?: string;
  readonly ports?: Service['spec']['ports'];
  readonly annotations?: Readonly<Record<string, string>>;
}): Service {
  const metadata = { name, namespace, ...(annotations && { annotations }) };
  return { apiVersion: 'v1', kind: 'Service', metadata, spec: { clusterIP, ports: ports ?? [] } };
}

export function aNode({
  name = 'node-1',
  ...status
}: { readonly name?: string } & NonNullable<Node['status']> = {}): Node {
  return { apiVersion: 'v1', kind: 'Node', metadata: { name }, status };
}

/** A reader over objects at hand that counts how often each one was asked for. */
export function objectReader<T extends { readonly metadata: ObjectMeta }>(
  ...objects: readonly T[]
): { get(namespace: string, name: string): Promise<T | undefined>; readonly asked: readonly string[] } {
  const asked: string[] = [];
  return {
    asked,
    get(namespace, name) {
      asked.push(`${namespace}/${name}`);
      return Promise.resolve(
        objects.find(({ metadata }) => metadata.namespace === namespace && metadata.name === name),
      );
    },
  };
}

/** A node called `here` on a small machine, for tests of what it reports. */
export const nodeSettings: NodeSettings = {
  nodeName: 'here',
  nodeLabels: {},
  taints: [],
  podsMax: 110,
  port: 10_250,
  controllerAttaches: true,
  providerId: '',
  kubeletVersion: 'v1.33.0+mountlet',
  runtimeVersion: 'process://0.1.0',
  reserved: [],
  imagesMax: 50,
  registersNode: true,
  nodeStatusUpdateMs: 10_000,
  nodeStatusReportMs: 300_000,
};

export const smallMachine: MachineFacts = {
  capacity: { cpu: '2', memory: '2048Ki', 'ephemeral-storage': '10Gi' },
  internalAddresses: ['192.0.2.1'],
  machineId: 'm1',
  systemUuid: 's1',
  bootId: 'b1',
  kernelVersion: '6.8.0',
  osImage: 'Linux From Scratch',
  operatingSystem: 'linux',
  architecture: 'amd64',
};

/** An object as a user would write it. A test that writes a field the shape does not know is itself wrong. */
export function decoded<T>(shape: Shape<T>, json: unknown): T {
  const { value, problems } = decode(shape, json);
  assert.deepEqual(problems, []);
  return value;
}

export function messagesOf(errors: readonly FieldError[]): string[] {
  return errors.map(({ message }) => message);
}
