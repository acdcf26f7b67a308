/**
 * A cluster as a program sees it: typed clients for ConfigMaps and Secrets, and for any other kind that has a shape. Which
 * cluster that is, a kubeconfig says, or what a pod is given.
 */
import { readFile } from 'node:fs/promises';
import { homedir } from 'node:os';
import { systemClock } from '../../base/clock.ts';
import { type ApiClient, apiClientDefaults } from '../../client/api/api-client.ts';
import { NotFoundError } from '../../client/api/api-errors.ts';
import { type AccessDeps, type ClusterAccess, clusterAccess } from '../../client/credentials/cluster-access.ts';
import { connectApiClient } from '../../client/api/api-client.ts';
import { poolDefaults } from '../../client/transport/connection-pool.ts';
import { type Reflection, reflect } from '../../client/reflector.ts';
import {
  type ApiObject,
  type ResourceReference,
  configMaps,
  secrets,
  withShape,
} from '../../client/api/resource-reference.ts';
import { runCommand } from '../../client/credentials/exec-credentials.ts';
import { type ConfigMap, configMapShape } from '../../kube/kinds/config-map.ts';
import { type Secret, secretShape } from '../../kube/kinds/secret.ts';

export interface ClusterOptions {
  /** Absent: the variable KUBECONFIG of `env`, then ~/.kube/config, then the cluster that this runs in as a pod. */
  readonly kubeconfig?: string;
  readonly context?: string;
  /** Variables of the environment: `process.env`. Proxies and credential programs are found there too. */
  readonly env?: Readonly<Record<string, string | undefined>>;
}

export interface Cluster extends AsyncDisposable {
  /** The namespace of the kubeconfig's context. */
  readonly namespace: string;
  readonly client: ApiClient;
  /** For `startNode`. */
  readonly access: ClusterAccess;
  configMaps(namespace?: string): ObjectClient<ConfigMap>;
  secrets(namespace?: string): ObjectClient<Secret>;
  /** Objects of any kind; those of a namespace are in that of the context unless another one is named. */
  objects<T extends ApiObject>(resource: ResourceReference<T>, namespace?: string): ObjectClient<T>;
  close(): Promise<void>;
}

/** Connects when the first request is sent. To be closed by the caller. */
export async function connectCluster({ kubeconfig, context, env = {} }: ClusterOptions = {}): Promise<Cluster> {
  const access = await clusterAccess({ kubeconfig, context }, accessDeps(env, false));
  const client = connectApiClient(access, systemClock, apiClientDefaults, poolDefaults);
  const close = (): Promise<void> => client.close();
  const of = <T extends ApiObject>(resource: ResourceReference<T>, namespace = access.namespace): ObjectClient<T> =>
    new ObjectClient(client, resource, resource.isNamespaced ? namespace : undefined);
  return {
    namespace: access.namespace,
    client,
    access,
    configMaps: (namespace) => of(withShape(configMaps, configMapShape), namespace),
    secrets: (namespace) => of(withShape(secrets, secretShape), namespace),
    objects: of,
    close,
    [Symbol.asyncDispose]: close,
  };
}

/** What this machine says about clusters: its files, its home directory and its programs. */
export function accessDeps(env: AccessDeps['env'], hasTerminal: boolean): AccessDeps {
  return {
    env,
    homeDirectory: homedir(),
    readFile: (path) => readFile(path, 'utf8'),
    clock: systemClock,
    run: runCommand,
    hasTerminal,
  };
}

/** An object to be written: the server fills in what is missing. */
export type Draft<T extends ApiObject> = Omit<T, 'apiVersion' | 'kind'>;

/** The objects of one kind in one namespace. */
export class ObjectClient<T extends ApiObject> {
  readonly #client: ApiClient;
  readonly #resource: ResourceReference<T>;
  readonly #namespace: string | undefined;

  constructor(client: ApiClient, resource: ResourceReference<T>, namespace: string | undefined) {
    this.#client = client;
    this.#resource = resource;
    this.#namespace = namespace;
  }

  /** Undefined: there is no such object. */
  async get(name: string, signal: AbortSignal = never()): Promise<T | undefined> {
    try {
      return await this.#client.get(this.#resource, { namespace: this.#namespace, name }, signal);
    } catch (error) {
      if (error instanceof NotFoundError) return undefined;
      throw error;
    }
  }

  async list(labelSelector = '', signal: AbortSignal = never()): Promise<readonly T[]> {
    const selection = labelSelector === '' ? {} : { labelSelector };
    const { items } = await this.#client.list(this.#resource, { namespace: this.#namespace, ...selection }, signal);
    return items;
  }

  /** Rejects with AlreadyExistsError if there is one of that name. */
  create(object: Draft<T>, signal: AbortSignal = never()): Promise<T> {
    return this.#client.create(this.#resource, { namespace: this.#namespace }, object, signal);
  }

  /** Rejects with ConflictError if `object` has a resourceVersion that is no longer the newest. */
  update(object: Draft<T>, signal: AbortSignal = never()): Promise<T> {
    const { name } = object.metadata;
    return this.#client.update(this.#resource, { namespace: this.#namespace, name }, object, signal);
  }

  /** Server-side apply: creates the object, or sets the fields that are given, and leaves the fields of others alone. */
  apply(object: Draft<T>, fieldManager: string, signal: AbortSignal = never()): Promise<T> {
    const { group, version, kind } = this.#resource;
    const { name } = object.metadata;
    const place = { namespace: this.#namespace, name, type: 'apply', fieldManager, force: true } as const;
    const apiVersion = group === '' ? version : `${group}/${version}`;
    return this.#client.patch(this.#resource, place, { apiVersion, kind, ...object }, signal);
  }

  /** Deleting an object that does not exist is a success. */
  async delete(name: string, signal: AbortSignal = never()): Promise<void> {
    const place = { namespace: this.#namespace, name };
    await this.#client.delete(this.#resource, place, undefined, signal).catch((error: unknown) => {
      if (!(error instanceof NotFoundError)) throw error;
    });
  }

  /** All objects first, then each change. Lost connections are made again; ends when the signal aborts. */
  follow(signal: AbortSignal): AsyncIterable<Reflection<T>> {
    const target = { resource: this.#resource, namespace: this.#namespace };
    const deps = { client: this.#client, clock: systemClock, random: Math.random, notify: () => {} };
    return reflect(deps, target, signal);
  }
}

function never(): AbortSignal {
  return new AbortController().signal;
}
