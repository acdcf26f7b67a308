/**
 * Logins of the node itself, from the files in which docker keeps them: the first `config.json` that can be read, else the first
 * `.dockercfg`. What it cannot read it passes over: these files belong to others, and pods have their own secrets.
 */
import { join } from 'node:path';
import type { Clock } from '../../base/clock.ts';
import {
  type Keyring,
  type Login,
  credentialsForRepository,
  parsePullSecrets,
} from '../../kube/references/pull-credentials.ts';
import type { NodeLogins } from './image-puller.ts';

interface LoginFilesDeps {
  readonly clock: Clock;
  /** Rejects for a file that is not there, cannot be read, or is too large. */
  readonly read: (path: string) => Promise<string>;
}

interface LoginDirectories {
  /** The node's. */
  readonly root: string;
  /** The one this program was started in. */
  readonly working: string;
  readonly home: string;
}

/** As long as the kubelet's: who changes a file expects to wait a little. */
const keptMs = 300_000;

export class NodeLoginFiles implements NodeLogins {
  readonly #deps: LoginFilesDeps;
  readonly #directories: LoginDirectories;
  #known: { readonly atMs: number; readonly keyring: Promise<Keyring> } | undefined;

  constructor(deps: LoginFilesDeps, directories: LoginDirectories) {
    this.#deps = deps;
    this.#directories = directories;
  }

  async loginsFor(repository: string): Promise<readonly Login[]> {
    const now = this.#deps.clock.now();
    if (this.#known === undefined || Math.abs(now - this.#known.atMs) >= keptMs)
      this.#known = { atMs: now, keyring: this.#read() };
    // docker leaves empty entries for registries whose passwords are kept elsewhere.
    return credentialsForRepository(await this.#known.keyring, repository).filter(
      ({ username, password }) => username !== '' || password !== '',
    );
  }

  async #read(): Promise<Keyring> {
    const { root, working, home } = this.#directories;
    const places = [
      ...[root, working, join(home, '.docker'), '/.docker'].map((directory) => ({
        path: join(directory, 'config.json'),
        type: 'kubernetes.io/dockerconfigjson',
        key: '.dockerconfigjson',
      })),
      ...[root, working, home, '/'].map((directory) => ({
        path: join(directory, '.dockercfg'),
        type: 'kubernetes.io/dockercfg',
        key: '.dockercfg',
      })),
    ];
    for (const { path, type, key } of places) {
      try {
        const data = { [key]: Buffer.from(await this.#deps.read(path)).toString('base64') };
        return parsePullSecrets([{ name: path, type, data }]);
      } catch {
        continue;
      }
    }
    return new Map();
  }
}
