/** Who we are to the API server: the contract, fixed credentials, and those of a kubeconfig's user. */
import type { Clock } from '../../base/clock.ts';
import { messageOf } from '../../base/errors.ts';
import { type TlsIdentity, isSameIdentity } from '../transport/transport.ts';
import { ExecCredentials, type ExecDeps, type ExecResult } from './exec-credentials.ts';
import { type Entry, kubeconfigError, type KubeconfigUser } from './kubeconfig.ts';

export interface CurrentCredentials {
  /** `authorization` and who to act as. Sent to the server alone. */
  readonly headers: Readonly<Record<string, string | readonly string[]>>;
  readonly identity?: TlsIdentity | undefined;
}

export interface Credentials {
  /** Cheap while nothing changed: it is asked before every request. */
  current(signal: AbortSignal): Promise<CurrentCredentials>;
  /** The server answered 401 to these. True when others may be had, so that asking once more is worth while. */
  refused(used: CurrentCredentials): boolean;
}

export function fixedCredentials(credentials: CurrentCredentials): Credentials {
  return { current: () => Promise.resolve(credentials), refused: () => false };
}

export const anonymous: Credentials = fixedCredentials({ headers: {} });

export interface UserDeps extends ExecDeps {
  readonly readFile: (path: string) => Promise<string>;
  readonly clock: Clock;
}

/**
 * What a kubeconfig's user shows to the server: a token, a certificate, or what a program prints, and whom to act as. `cluster` is
 * passed to the program if its entry asks for that.
 */
export function userCredentials(entry: Entry<KubeconfigUser>, cluster: unknown, deps: UserDeps): Credentials {
  const { file, field, value: user } = entry;
  const fail = (name: string, problem: string): never => {
    throw kubeconfigError(file, `${field}.${name}`, problem);
  };
  const hasCertificate = (user['client-certificate-data'] ?? user['client-certificate'] ?? '') !== '';
  const hasKey = (user['client-key-data'] ?? user['client-key'] ?? '') !== '';
  if (hasCertificate && !hasKey) fail('client-key', 'is missing, but there is a client certificate');
  if (hasKey && !hasCertificate) fail('client-certificate', 'is missing, but there is a client key');
  if (user['auth-provider'] !== undefined && user['auth-provider'] !== null)
    fail('auth-provider', 'is no longer supported by Kubernetes: use exec');
  const acts = (user['as-groups'] ?? []).length > 0 || Object.keys(user['as-user-extra'] ?? {}).length > 0;
  if ((acts || (user['as-uid'] ?? '') !== '') && (user.as ?? '') === '')
    fail('as', 'is missing, but groups, a uid or extra fields to act as are given');
  const source = (data: string | undefined, path: string | undefined): (() => Promise<string>) | undefined => {
    if (data !== undefined && data !== '') {
      const text = Buffer.from(data, 'base64').toString('utf8');
      return () => Promise.resolve(text);
    }
    return path === undefined || path === '' ? undefined : fileOf(path);
  };
  const files: RotatingFile[] = [];
  const fileOf = (path: string): (() => Promise<string>) => {
    const rotating = new RotatingFile(path, deps.readFile, deps.clock);
    files.push(rotating);
    return async () => {
      try {
        return await rotating.content();
      } catch (error) {
        throw kubeconfigError(file, field, `cannot read "${path}": ${messageOf(error)}`, { cause: error });
      }
    };
  };
  const certificate = source(user['client-certificate-data'], user['client-certificate']);
  const key = source(user['client-key-data'], user['client-key']);
  const execEntry = user.exec === undefined ? undefined : { file, field: `${field}.exec`, value: user.exec };
  return new UserCredentials({
    token: tokenFrom(fixedToken(user.token), user.tokenFile ? fileOf(user.tokenFile) : undefined),
    identity: certificate && key && (async () => ({ certificatePem: await certificate(), keyPem: await key() })),
    exec: execEntry && new ExecCredentials(execEntry, cluster, deps),
    headers: { ...basicHeader(user), ...impersonationHeaders(user) },
    files,
  });
}

/** The file's, and until it could be read once the one that stands beside it. */
function tokenFrom(
  fixed: (() => Promise<string>) | undefined,
  file: (() => Promise<string>) | undefined,
): (() => Promise<string>) | undefined {
  return fixed === undefined || file === undefined ? (file ?? fixed) : () => file().catch(fixed);
}

function fixedToken(token: string | undefined): (() => Promise<string>) | undefined {
  return token === undefined || token === '' ? undefined : () => Promise.resolve(token);
}

type Headers = CurrentCredentials['headers'];

interface Sources {
  readonly token: (() => Promise<string>) | undefined;
  readonly identity: (() => Promise<TlsIdentity>) | undefined;
  readonly exec: ExecCredentials | undefined;
  readonly headers: Headers;
  readonly files: readonly RotatingFile[];
}

class UserCredentials implements Credentials {
  readonly #sources: Sources;
  #given: CurrentCredentials | undefined;
  #fromExec: ExecResult | undefined;

  constructor(sources: Sources) {
    this.#sources = sources;
  }

  async current(signal: AbortSignal): Promise<CurrentCredentials> {
    const { token: tokenSource, identity: identitySource, exec, headers } = this.#sources;
    const ownToken = (await tokenSource?.())?.trim();
    const ownIdentity = await identitySource?.();
    // What stands in the file is stronger than what a program says.
    const isEnough = ownToken !== undefined || 'authorization' in headers;
    const made = exec === undefined || isEnough ? undefined : await exec.current(signal);
    this.#fromExec = made;
    const token = ownToken ?? made?.token;
    const identity = ownIdentity ?? made?.identity;
    const authorization = token === undefined || token === '' ? headers['authorization'] : `Bearer ${token}`;
    const given = this.#given;
    const isSame = given?.headers['authorization'] === authorization && isSameIdentity(given?.identity, identity);
    if (given !== undefined && isSame) return given;
    return (this.#given = { headers: { ...headers, ...(authorization !== undefined && { authorization }) }, identity });
  }

  refused(used: CurrentCredentials): boolean {
    const { files, exec } = this.#sources;
    // Others may have been refused with these a moment ago, and new ones are already there.
    if (used !== this.#given) return true;
    for (const file of files) file.expire();
    if (this.#fromExec !== undefined) exec?.refused(this.#fromExec);
    return files.length > 0 || this.#fromExec !== undefined;
  }
}

function basicHeader({ username = '', password = '' }: KubeconfigUser): Headers {
  if (username === '') return {};
  return { authorization: `Basic ${Buffer.from(`${username}:${password}`).toString('base64')}` };
}

function impersonationHeaders(user: KubeconfigUser): Headers {
  if (user.as === undefined || user.as === '') return {};
  const extra = Object.entries(user['as-user-extra'] ?? {}).map(
    ([key, values]) => [`impersonate-extra-${encodeURIComponent(key.toLowerCase())}`, values] as const,
  );
  return {
    'impersonate-user': user.as,
    ...(user['as-uid'] !== undefined && user['as-uid'] !== '' && { 'impersonate-uid': user['as-uid'] }),
    // Each group is a header of its own: the server takes commas for a part of the name.
    ...(user['as-groups'] !== undefined && { 'impersonate-group': user['as-groups'] }),
    ...Object.fromEntries(extra),
  };
}

// A rotated file is in use this long after it was replaced at worst, and at once after a refusal.
const freshMs = 10_000;

/** A small file that others replace while we run: a token, a certificate. The last content that could be read stays in use. */
export class RotatingFile {
  readonly path: string;
  readonly #readFile: (path: string) => Promise<string>;
  readonly #clock: Clock;
  #content: string | undefined;
  #readAt = -Infinity;
  #reading: Promise<string> | undefined;

  constructor(path: string, readFile: (path: string) => Promise<string>, clock: Clock) {
    this.path = path;
    this.#readFile = readFile;
    this.#clock = clock;
  }

  /** Rejects only when it could never be read. */
  content(): Promise<string> {
    if (this.#content !== undefined && this.#clock.now() - this.#readAt < freshMs)
      return Promise.resolve(this.#content);
    return (this.#reading ??= this.#read());
  }

  /** The next `content` looks at the file. */
  expire(): void {
    this.#readAt = -Infinity;
  }

  async #read(): Promise<string> {
    try {
      this.#content = await this.#readFile(this.path);
      this.#readAt = this.#clock.now();
      return this.#content;
    } catch (error) {
      if (this.#content === undefined) throw error;
      this.#readAt = this.#clock.now();
      return this.#content;
    } finally {
      this.#reading = undefined;
    }
  }
}
