/** The value of one `env` entry that refers to something: a field, a resource, a key of an object or of a file. */
import { MountletError } from '../../base/errors.ts';
import type { Node } from '../../kube/kinds/node.ts';
import type { EnvironmentVariable } from '../../kube/kinds/pod/container.ts';
import type { AnyContainer } from '../../kube/kinds/pod/pod-spec.ts';
import type { Pod } from '../../kube/kinds/pod/pod.ts';
import { readEnvFileKey } from '../../kube/references/environment.ts';
import { environmentResourceValue } from '../../kube/references/pod-resources.ts';
import { environmentFieldValue } from '../../kube/values/field-path.ts';
import { goQuote } from '../../kube/values/go-text.ts';
import { type IpAddress, parseIpAddress } from '../../kube/values/network-names.ts';
import { type EnvironmentObjects, decodeValue } from './environment-objects.ts';
import type { MountedVolumes } from './mounts.ts';
import { ContainerConfigError, ExpansionBudget, type Variable } from './variables.ts';

interface EnvFile {
  readonly directory: string;
  /** Relative to the directory, as the pod gives it. */
  readonly path: string;
  /** A container may have written more than a program can use. The rest is not read. */
  readonly bytesMax: number;
}

export interface EnvFileReader {
  /**
   * Reads the beginning of a regular file of a volume, with links resolved as if the volume were the root directory. Returns
   * its path too, and rejects when it cannot be read.
   */
  read(file: EnvFile, signal: AbortSignal): Promise<{ readonly path: string; readonly content: Uint8Array }>;
}

interface ReferenceContext {
  readonly pod: Pod;
  readonly container: AnyContainer;
  readonly podIPs: readonly string[];
  readonly objects: EnvironmentObjects;
  readonly node: Node;
  readonly volumes: MountedVolumes;
  readonly envFiles: EnvFileReader;
}

type Value = Omit<Variable, 'name'>;
type Source = NonNullable<EnvironmentVariable['valueFrom']>;

/** Undefined for something optional that is missing: the variable is then not set, which differs from empty. */
export async function resolveReference(
  { valueFrom = {} }: EnvironmentVariable,
  context: ReferenceContext,
  signal: AbortSignal,
): Promise<Value | undefined> {
  // The first that is set counts.
  const { fieldRef, resourceFieldRef, configMapKeyRef, secretKeyRef, fileKeyRef } = valueFrom;
  if (fieldRef) return fieldValue(fieldRef, context);
  if (resourceFieldRef) return resourceValue(resourceFieldRef, context);
  if (configMapKeyRef) return keyOf('ConfigMap', configMapKeyRef, context);
  if (secretKeyRef) return keyOf('Secret', secretKeyRef, context);
  if (fileKeyRef) return fileValue(fileKeyRef, context, signal);
  return { value: '', secret: false, source: { kind: 'value', expands: [] } };
}

function fieldValue(
  { apiVersion = '', fieldPath }: NonNullable<Source['fieldRef']>,
  { pod, node, podIPs }: ReferenceContext,
): Value {
  const hosts = hostAddresses(node);
  const addresses = {
    podIps: podIPs,
    hostIps: hosts.map(({ text }) => text),
    nodeFamily: hosts[0]?.family ?? 'IPv4',
  } as const;
  const value = asConfigError(() => environmentFieldValue(pod, { apiVersion, fieldPath }, addresses));
  if (value === '' && (fieldPath === 'status.hostIP' || fieldPath === 'status.hostIPs')) {
    const known = (node.status?.addresses ?? []).map(({ type, address }) => `{${type} ${address}}`);
    throw new ContainerConfigError(`host IP unknown; known addresses: [${known.join(' ')}]`);
  }
  return { value, secret: false, source: { kind: 'field', path: fieldPath } };
}

function resourceValue(
  reference: NonNullable<Source['resourceFieldRef']>,
  { pod, container, node }: ReferenceContext,
): Value {
  const { resource, containerName = '' } = reference;
  const allocatable = node.status?.allocatable ?? {};
  const value = asConfigError(() => environmentResourceValue(pod.spec, container, reference, allocatable));
  const of = containerName === '' ? container.name : containerName;
  return { value, secret: false, source: { kind: 'resource', resource, containerName: of } };
}

async function keyOf(
  kind: 'ConfigMap' | 'Secret',
  reference: NonNullable<Source['configMapKeyRef']>,
  { objects }: ReferenceContext,
): Promise<Value | undefined> {
  const { name, key, optional = false } = reference;
  const object = await (kind === 'ConfigMap' ? objects.configMap(reference) : objects.secret(reference));
  const value = object?.get(key);
  if (object !== undefined && value === undefined && !optional) {
    throw new ContainerConfigError(`couldn't find key ${key} in ${kind} ${objects.namespace}/${name}`);
  }
  return value;
}

async function fileValue(
  { volumeName, path, key, optional = false }: NonNullable<Source['fileKeyRef']>,
  { pod, volumes, envFiles }: ReferenceContext,
  signal: AbortSignal,
): Promise<Value | undefined> {
  const volume = volumes.get(volumeName);
  if (volume?.kind !== 'filesystem') {
    throw new ContainerConfigError(`cannot find the volume ${goQuote(volumeName)} referenced by FileKeyRef`);
  }
  const file = await readFile(envFiles, volume.hostPath, path, signal);
  const { value, ...marks } = valueInFile(file.content, key);
  // An empty value counts as none: the file's format does not distinguish it from a missing key.
  if (value === '') {
    if (optional) return undefined;
    throw new ContainerConfigError(`environment variable key ${goQuote(key)} not found in file ${goQuote(file.path)}`);
  }
  // The API allows only an emptyDir here. What got past it may be a volume of a Secret.
  const declared = pod.spec.volumes?.find(({ name }) => name === volumeName);
  return {
    ...marks,
    value,
    secret: declared?.emptyDir === undefined,
    source: { kind: 'file', volumeName, path, key },
  };
}

/** What is wrong with a file stays in the cause: it is logged by the node and not shown in the pod's status. */
const unreadable = "couldn't parse env file";

async function readFile(
  envFiles: EnvFileReader,
  directory: string,
  path: string,
  signal: AbortSignal,
): ReturnType<EnvFileReader['read']> {
  try {
    return await envFiles.read({ directory, path, bytesMax: ExpansionBudget.charactersMax }, signal);
  } catch (cause) {
    signal.throwIfAborted();
    throw new ContainerConfigError(unreadable, { cause });
  }
}

function valueInFile(content: Uint8Array, key: string): Pick<Variable, 'value' | 'defect'> {
  const { value: text, defect } = decodeValue(content);
  const value = asConfigError(() => readEnvFileKey(text, key), unreadable);
  // The file may be broken elsewhere than in this value.
  if (defect === 'NotUtf8' && value.includes('\uFFFD')) return { value, defect };
  return value.includes('\0') ? { value, defect: 'NulByte' } : { value };
}

/** Runs a rule of kube. A refusal becomes a ContainerConfigError, in the rule's words unless others are given. */
function asConfigError<T>(rule: () => T, message?: string): T {
  try {
    return rule();
  } catch (cause) {
    if (!(cause instanceof MountletError)) throw cause;
    throw new ContainerConfigError(message ?? cause.message, { cause });
  }
}

/** At most one address of each family. Internal addresses go before external ones, and the first decides which family leads. */
export function hostAddresses(node: Node): readonly IpAddress[] {
  const all = node.status?.addresses ?? [];
  const addresses = ['InternalIP', 'ExternalIP'].flatMap((wanted) =>
    all.filter(({ type }) => type === wanted).flatMap(({ address }) => parseIpAddress(address) ?? []),
  );
  const [first] = addresses;
  if (first === undefined) return [];
  const other = addresses.find(({ family }) => family !== first.family);
  return other === undefined ? [first] : [first, other];
}
