/**
 * Programs of the node's operator that know logins for registries, such as those of clouds. Each is run for the images that it is
 * configured for, and what it answers is kept for as long as it says. One that fails is reported and gives no login.
 */
import { unlessAborted } from '../../base/abort.ts';
import type { Clock } from '../../base/clock.ts';
import { messageOf, OperatingError } from '../../base/errors.ts';
import {
  type Keyring,
  type Login,
  credentialsForRepository,
  keyringOf,
  mergedKeyring,
  registryMatches,
} from '../../kube/references/pull-credentials.ts';
import { decode, map, object, string } from '../../kube/schema/schema.ts';
import { parseDurationMs } from '../../kube/values/times.ts';
import type { CredentialProvider } from './credential-provider-config.ts';
import type { NodeLogins } from './image-puller.ts';

export interface CredentialProviderFailed {
  readonly kind: 'CredentialProviderFailed';
  readonly provider: string;
  /** Without a tag. */
  readonly image: string;
  readonly message: string;
}

interface ProvidersDeps {
  readonly clock: Clock;
  /** Resolves with what the program printed; rejects when it fails, prints too much or takes too long. */
  readonly run: (provider: CredentialProvider, input: string) => Promise<string>;
  readonly notify: (notice: CredentialProviderFailed) => void;
}

const failed = 'CredentialProviderFailed';

/** They are asked in the order of the configuration, and what they answer is one list of logins. */
export class CredentialProviders implements NodeLogins {
  readonly #providers: readonly ProviderLogins[];

  constructor(deps: ProvidersDeps, providers: readonly CredentialProvider[]) {
    this.#providers = providers.map((provider) => new ProviderLogins(deps, provider));
  }

  async loginsFor(repository: string, signal: AbortSignal): Promise<readonly Login[]> {
    const answers: Keyring[] = [];
    for (const provider of this.#providers) {
      // Others may wait for the same answer, so the program is not ended with one of the pods.
      answers.push(await unlessAborted(provider.keyringFor(repository), signal));
    }
    return credentialsForRepository(mergedKeyring(answers), repository);
  }
}

const response = object({
  apiVersion: string,
  kind: string,
  cacheKeyType: string,
  cacheDuration: string,
  auth: map(object({ username: string, password: string })),
});

/** For images of every registry; no name of an image has such characters. */
const everyImage = '<global>';
/** Entries are few: one for each image or registry. What is dropped is asked for again. */
const entriesMax = 1_000;

interface Answer {
  readonly keyring: Keyring;
  /** For which other images it holds. */
  readonly key: string;
  readonly keptMs: number;
}

class ProviderLogins {
  readonly #deps: ProvidersDeps;
  readonly #provider: CredentialProvider;
  readonly #kept = new Map<string, { readonly keyring: Keyring; readonly untilMs: number }>();
  readonly #running = new Map<string, Promise<Keyring>>();

  constructor(deps: ProvidersDeps, provider: CredentialProvider) {
    this.#deps = deps;
    this.#provider = provider;
  }

  /** Never rejects. */
  async keyringFor(image: string): Promise<Keyring> {
    const { name: provider, matchImages } = this.#provider;
    if (!matchImages.some((pattern) => registryMatches(pattern, image))) return new Map();
    try {
      return this.#cached(image) ?? (await this.#ask(image));
    } catch (error) {
      this.#deps.notify({ kind: 'CredentialProviderFailed', provider, image, message: messageOf(error) });
      return new Map();
    }
  }

  #cached(image: string): Keyring | undefined {
    const now = this.#deps.clock.now();
    for (const [key, { untilMs }] of this.#kept) if (untilMs < now) this.#kept.delete(key);
    return [image, registryOf(image), everyImage].flatMap((key) => this.#kept.get(key) ?? [])[0]?.keyring;
  }

  /** Pods that need the same image at the same time share one run. */
  #ask(image: string): Promise<Keyring> {
    const running = this.#running.get(image) ?? this.#run(image).finally(() => this.#running.delete(image));
    this.#running.set(image, running);
    return running;
  }

  async #run(image: string): Promise<Keyring> {
    const { apiVersion } = this.#provider;
    const request = { kind: 'CredentialProviderRequest', apiVersion, image };
    const output = await this.#deps.run(this.#provider, JSON.stringify(request));
    const { keyring, key, keptMs } = readAnswer(output, image, this.#provider);
    if (keptMs > 0) {
      const [oldest] = this.#kept.keys();
      if (this.#kept.size >= entriesMax && oldest !== undefined) this.#kept.delete(oldest);
      this.#kept.set(key, { keyring, untilMs: this.#deps.clock.now() + keptMs });
    }
    return keyring;
  }
}

/** Nothing of the output is quoted, except what cannot be a password. */
function readAnswer(output: string, image: string, { apiVersion, cacheMsDefault }: CredentialProvider): Answer {
  const { value, problems } = decode(response, parseJson(output));
  if (problems.length > 0 || value.kind !== 'CredentialProviderResponse')
    throw new OperatingError(failed, 'it printed something else than a CredentialProviderResponse');
  if (value.apiVersion !== apiVersion)
    throw new OperatingError(failed, `it answered in another version than ${apiVersion}, for which it is configured`);
  const { cacheKeyType = '', cacheDuration = '', auth = {} } = value;
  const keys: Readonly<Record<string, string>> = { Image: image, Registry: registryOf(image), Global: everyImage };
  const key = Object.hasOwn(keys, cacheKeyType) ? keys[cacheKeyType] : undefined;
  if (key === undefined) throw new OperatingError(failed, 'its cacheKeyType is none of Image, Registry and Global');
  const keptMs = cacheDuration === '' ? cacheMsDefault : parseDurationMs(cacheDuration);
  if (keptMs === undefined) throw new OperatingError(failed, 'its cacheDuration is not a duration');
  const logins = Object.entries(auth).map(
    ([match, { username = '', password = '' }]) => [match, { username, password }] as const,
  );
  return { keyring: keyringOf(logins), key, keptMs };
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    // Without the cause, which quotes what it read.
    throw new OperatingError(failed, 'it printed something else than JSON');
  }
}

function registryOf(image: string): string {
  return image.split('/', 1).join('');
}
