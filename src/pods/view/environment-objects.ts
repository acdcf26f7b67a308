/**
 * The ConfigMaps and Secrets that one container start reads its variables from. Each is fetched once, so that all references
 * to one object see the same version of it, or all see that it is missing.
 */
import { isUtf8 } from 'node:buffer';
import { messageOf } from '../../base/errors.ts';
import type { ConfigMap } from '../../kube/kinds/config-map.ts';
import type { Secret } from '../../kube/kinds/secret.ts';
import { ContainerConfigError, type Variable, type VariableSource } from './variables.ts';

/** All that pods need of the object managers. */
export interface ObjectReader<T> {
  /** Undefined for an object that does not exist; rejects when that is unknown. */
  get(namespace: string, name: string, signal: AbortSignal): Promise<T | undefined>;
}

export interface ObjectReaders {
  /** Undefined on a node without an API server. */
  readonly configMaps: ObjectReader<ConfigMap> | undefined;
  readonly secrets: ObjectReader<Secret> | undefined;
}

interface OptionalReference {
  readonly name: string;
  readonly optional?: boolean;
}

/** An object's entries as variables; those of a Secret are secret. */
interface VariablesOfObject {
  readonly keys: readonly string[];
  get(key: string): Omit<Variable, 'name'> | undefined;
}

export class EnvironmentObjects {
  readonly namespace: string;
  readonly #readers: ObjectReaders;
  readonly #signal: AbortSignal;
  readonly #fetched = new Map<string, VariablesOfObject | undefined>();

  constructor(namespace: string, readers: ObjectReaders, signal: AbortSignal) {
    this.namespace = namespace;
    this.#readers = readers;
    this.#signal = signal;
  }

  /** The ConfigMap's `data`: its `binaryData` never becomes a variable. Undefined if it is missing and may be. */
  configMap(reference: OptionalReference): Promise<VariablesOfObject | undefined> {
    return this.#find('configMap', this.#readers.configMaps, reference, ({ metadata, data = {} }) =>
      variablesOf(data, (key, text) => ({
        value: text,
        secret: false,
        ...(text.includes('\0') ? { defect: 'NulByte' } : {}),
        source: sourceOf('ConfigMap', metadata, key),
      })),
    );
  }

  secret(reference: OptionalReference): Promise<VariablesOfObject | undefined> {
    return this.#find('secret', this.#readers.secrets, reference, ({ metadata, data = {} }) =>
      variablesOf(data, (key, base64) => ({
        ...decodeValue(Buffer.from(base64, 'base64')),
        secret: true,
        source: sourceOf('Secret', metadata, key),
      })),
    );
  }

  async #find<T>(
    kind: 'configMap' | 'secret',
    reader: ObjectReader<T> | undefined,
    { name, optional = false }: OptionalReference,
    variables: (object: T) => VariablesOfObject,
  ): Promise<VariablesOfObject | undefined> {
    const key = `${kind}/${name}`;
    if (!this.#fetched.has(key)) {
      if (reader === undefined) {
        throw new ContainerConfigError(`couldn't get ${kind} ${this.namespace}/${name}: the node has no API server`);
      }
      const object = await this.#fetch(reader, name);
      this.#fetched.set(key, object === undefined ? undefined : variables(object));
    }
    const found = this.#fetched.get(key);
    if (found === undefined && !optional) throw new ContainerConfigError(`${kind.toLowerCase()} "${name}" not found`);
    return found;
  }

  async #fetch<T>(reader: ObjectReader<T>, name: string): Promise<T | undefined> {
    try {
      return await reader.get(this.namespace, name, this.#signal);
    } catch (cause) {
      this.#signal.throwIfAborted();
      // Optional excuses an object that is missing, not one that may exist and could not be read.
      throw new ContainerConfigError(messageOf(cause), { cause });
    }
  }
}

/** A value's bytes as text. What is not UTF-8 is shown with replacement characters and marked. */
export function decodeValue(bytes: Uint8Array): Pick<Variable, 'value' | 'defect'> {
  const value = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString('utf8');
  if (!isUtf8(bytes)) return { value, defect: 'NotUtf8' };
  return bytes.includes(0) ? { value, defect: 'NulByte' } : { value };
}

function variablesOf(
  data: Readonly<Record<string, string>>,
  variable: (key: string, value: string) => Omit<Variable, 'name'>,
): VariablesOfObject {
  return {
    keys: Object.keys(data),
    // Only own keys: a key may be named like a member of every object, such as `constructor`.
    get: (key) => (Object.hasOwn(data, key) ? variable(key, data[key] ?? '') : undefined),
  };
}

function sourceOf(
  kind: 'ConfigMap' | 'Secret',
  { name, resourceVersion }: { readonly name: string; readonly resourceVersion?: string },
  key: string,
): VariableSource {
  return { kind, name, key, ...(resourceVersion === undefined ? {} : { resourceVersion }) };
}
