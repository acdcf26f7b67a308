/**
 * The environment of one container: the variables of `env` and `envFrom`, and those of the services in its namespace. Every
 * variable records where its value came from and whether it holds bytes of a Secret.
 *
 * Later wins: envFrom in order, then env in order; a service's variable only where nothing else has its name. The order
 * of the result is that of first definition. The kubelet's has none; ours is the same on every run, so that two
 * renderings of a pod can be compared.
 */
import { isIP } from 'node:net';
import type { Node } from '../../kube/kinds/node.ts';
import type { EnvironmentSource, EnvironmentVariable } from '../../kube/kinds/pod/container.ts';
import { isStaticPod, podNamespace } from '../../kube/kinds/pod/pod-identity.ts';
import type { AnyContainer } from '../../kube/kinds/pod/pod-spec.ts';
import type { Pod } from '../../kube/kinds/pod/pod.ts';
import { type Service, apiServerAnnotation } from '../../kube/kinds/service.ts';
import { type VariableService, serviceVariablesOf } from '../../kube/references/environment.ts';
import { compareByteOrder } from '../../kube/values/go-text.ts';
import { EnvironmentObjects, type ObjectReaders } from './environment-objects.ts';
import { type EnvFileReader, resolveReference } from './environment-references.ts';
import type { MountedVolumes } from './mounts.ts';
import {
  ContainerConfigError,
  ExpansionBudget,
  type LookUp,
  type Variable,
  type VariableSource,
  expandVariables,
} from './variables.ts';

interface EnvironmentRequest {
  readonly pod: Pod;
  readonly container: AnyContainer;
  /** As the runtime reported them; empty before the pod has its sandbox. */
  readonly podIPs: readonly string[];
  /** Stands for the loopback address of the machine where a Service has that; undefined: the pod has the machine's network. */
  readonly loopbackIp?: string | undefined;
  readonly volumes: MountedVolumes;
}

export interface EnvironmentDeps extends ObjectReaders {
  /** All services that the node knows; `unsynced` until they were read once. */
  readonly services: readonly Service[] | 'unsynced';
  readonly node: Node;
  readonly envFiles: EnvFileReader;
}

export async function resolveEnvironment(
  request: EnvironmentRequest,
  deps: EnvironmentDeps,
  signal: AbortSignal,
): Promise<readonly Variable[]> {
  const { pod, container } = request;
  const fromServices = variablesOfServices(pod, reachable(deps.services, request.loopbackIp));
  const objects = new EnvironmentObjects(podNamespace(pod), deps, signal);
  const budget = new ExpansionBudget(container.name);
  const variables = new Map<string, Variable>();

  for (const source of container.envFrom ?? []) {
    for (const variable of await importVariables(source, objects)) {
      if (!variables.has(variable.name)) budget.spend(variable.name.length + variable.value.length);
      variables.set(variable.name, variable);
    }
  }
  const lookUp: LookUp = (name) => variables.get(name) ?? fromServices.get(name);
  for (const entry of container.env ?? []) {
    const variable = isReference(entry)
      ? await resolveReference(entry, { ...request, ...deps, objects }, signal)
      : expandValue(entry, lookUp, budget);
    if (variable !== undefined) variables.set(entry.name, { ...variable, name: entry.name });
  }
  for (const [name, variable] of fromServices) {
    if (!variables.has(name)) variables.set(name, variable);
  }
  return [...variables.values()];
}

function variablesOfServices(pod: Pod, services: EnvironmentDeps['services']): ReadonlyMap<string, Variable> {
  const { enableServiceLinks } = pod.spec;
  if (enableServiceLinks === undefined) {
    throw new ContainerConfigError('spec.enableServiceLinks is not set, cannot construct the variables of services');
  }
  if (services === 'unsynced') {
    // A static pod must start without an API server: it may be the API server.
    if (isStaticPod(pod)) return new Map();
    throw new ContainerConfigError('services have not yet been read at least once, cannot construct envvars');
  }
  const variables = new Map<string, Variable>();
  for (const [name, sameName] of byName(services)) {
    for (const [variable, value] of serviceVariablesOf(sameName, {
      namespace: podNamespace(pod),
      enableServiceLinks,
    })) {
      variables.set(variable, { name: variable, value, secret: false, source: { kind: 'Service', name } });
    }
  }
  return new Map([...variables].sort(([a], [b]) => compareByteOrder(a, b)));
}

/**
 * The API server's Service as the pod can reach it: our server says where it listens, because the Service's own address leads
 * there only where Services are served. The machine's loopback address is another one in a network of the pod's own.
 */
function reachable(services: EnvironmentDeps['services'], loopbackIp: string | undefined): EnvironmentDeps['services'] {
  if (services === 'unsynced') return services;
  return services.map((service) => {
    const { name, namespace, annotations } = service.metadata;
    if (name !== 'kubernetes' || namespace !== 'default') return service;
    const place = annotations?.[apiServerAnnotation] ?? '';
    const [, host = '', port] = /^\[?([0-9a-f.:]+?)\]?:(\d{1,5})$/.exec(place) ?? [];
    if (isIP(host) === 0) return service;
    const clusterIP = host.startsWith('127.') ? (loopbackIp ?? host) : host;
    const ports = service.spec.ports?.map((one) => ({ ...one, port: Number(port) }));
    return { ...service, spec: { ...service.spec, clusterIP, ...(ports && { ports }) } };
  });
}

/** Services of one name replace each other; those of different names all have variables. */
function byName(services: readonly Service[]): ReadonlyMap<string, readonly VariableService[]> {
  const groups = new Map<string, VariableService[]>();
  for (const { metadata, spec } of services.toSorted((a, b) => compareByteOrder(a.metadata.name, b.metadata.name))) {
    const { name, namespace = '' } = metadata;
    const group = groups.get(name) ?? [];
    group.push({ metadata: { name, namespace }, spec });
    groups.set(name, group);
  }
  return groups;
}

async function importVariables(
  { prefix = '', configMapRef, secretRef }: EnvironmentSource,
  objects: EnvironmentObjects,
): Promise<readonly Variable[]> {
  const found = configMapRef
    ? await objects.configMap(configMapRef)
    : secretRef
      ? await objects.secret(secretRef)
      : undefined;
  if (found === undefined) return [];
  // Keys are taken as they are, also those that are not valid names in a shell.
  return [...found.keys].sort(compareByteOrder).flatMap((key) => {
    const variable = found.get(key);
    return variable === undefined ? [] : [{ ...variable, name: `${prefix}${key}` }];
  });
}

/** An empty `value` counts as none, so `valueFrom` beside it is used. */
function isReference({ value = '', valueFrom }: EnvironmentVariable): boolean {
  return value === '' && valueFrom !== undefined;
}

function expandValue(
  { value: written = '' }: EnvironmentVariable,
  lookUp: LookUp,
  budget: ExpansionBudget,
): Omit<Variable, 'name'> {
  const { value, secret, defect, sources } = expandVariables(written, lookUp, budget);
  const source: VariableSource = { kind: 'value', expands: sources };
  return defect === undefined ? { value, secret, source } : { value, secret, source, defect };
}
