/**
 * Finds out who a request comes from: a client certificate, a token of a service account, a token from a list, or none of them.
 * What they may do is decided in `authorization.ts`.
 */
import { createHash, timingSafeEqual } from 'node:crypto';
import type { TokenVerdict } from './service-account-tokens.ts';
import { type User, anonymousUser, wellKnownGroups } from './user.ts';

/** What the TLS layer knows of a client that showed a certificate. */
export interface PeerIdentity {
  /** The certificate leads to our authority, is in time, and its holder has the key. */
  readonly verified: boolean;
  readonly subject: { readonly CN?: string | readonly string[]; readonly O?: string | readonly string[] };
  /** Object ids of the extended key usages; absent means any. */
  readonly keyUsages?: readonly string[];
}

export interface Credentials {
  readonly peer?: PeerIdentity;
  /** The header of that name, as it came. */
  readonly authorization?: string;
}

export interface StaticToken {
  readonly token: string;
  readonly user: Omit<User, 'extra'>;
}

interface AuthenticatorDeps {
  readonly accountTokens: { verify(token: string, audiences?: readonly string[]): TokenVerdict };
}

interface AuthenticatorSettings {
  readonly staticTokens: readonly StaticToken[];
  readonly allowsAnonymous: boolean;
}

type Authentication =
  | { readonly kind: 'authenticated'; readonly user: User; readonly audiences: readonly string[] }
  /** 401. The message is for logs and TokenReviews. */
  | { readonly kind: 'unauthenticated'; readonly message: string };

const clientAuth = '1.3.6.1.5.5.7.3.2';
const anyUsage = '2.5.29.37.0';

export class Authenticator {
  readonly #deps: AuthenticatorDeps;
  readonly #settings: AuthenticatorSettings;
  readonly #peers = new WeakMap<PeerIdentity, Authentication>();

  constructor(deps: AuthenticatorDeps, settings: AuthenticatorSettings) {
    this.#deps = deps;
    this.#settings = settings;
  }

  /** A certificate counts before a token. Bad credentials are refused: they never make a request anonymous. */
  authenticate({ peer, authorization = '' }: Credentials): Authentication {
    const problems: string[] = [];
    if (peer !== undefined) {
      const result = this.#authenticatePeer(peer);
      if (result.kind === 'authenticated') return result;
      problems.push(result.message);
    }
    const token = bearerToken(authorization);
    if (token !== undefined) {
      const result = this.authenticateToken(token);
      if (result.kind === 'authenticated') return result;
      problems.push(result.message);
    }
    if (problems.length > 0) return unauthenticated(problems.join(', '));
    if (!this.#settings.allowsAnonymous) return unauthenticated('no credentials were given');
    return { kind: 'authenticated', user: anonymousUser, audiences: [] };
  }

  /** Follows from the certificate alone, which stays the same as long as its connection lasts. */
  #authenticatePeer(peer: PeerIdentity): Authentication {
    let known = this.#peers.get(peer);
    if (known === undefined) {
      const user = userOfCertificate(peer);
      known = typeof user === 'string' ? unauthenticated(user) : accepted(user);
      this.#peers.set(peer, known);
    }
    return known;
  }

  /** Also the answer to a TokenReview, which may ask for other audiences than the server's own. */
  authenticateToken(token: string, audiences?: readonly string[]): Authentication {
    const known = this.#userOfStaticToken(token);
    if (known !== undefined) return accepted(known, audiences);
    const verdict = this.#deps.accountTokens.verify(token, audiences);
    switch (verdict.kind) {
      case 'accepted':
        return accepted(verdict.user, verdict.audiences);
      case 'refused':
        return unauthenticated(verdict.message);
      case 'foreign':
        return unauthenticated('invalid bearer token');
    }
  }

  /** Every token is compared, by its hash and in constant time: the time it takes reveals nothing about any of them. */
  #userOfStaticToken(token: string): User | undefined {
    const given = hash(token);
    let found: User | undefined;
    for (const { token: expected, user } of this.#settings.staticTokens) {
      if (timingSafeEqual(given, hash(expected))) found ??= { ...user, extra: {} };
    }
    return found;
  }
}

function userOfCertificate({ verified, subject, keyUsages }: PeerIdentity): User | string {
  if (!verified) return 'the client certificate could not be verified';
  if (keyUsages !== undefined && !keyUsages.includes(clientAuth) && !keyUsages.includes(anyUsage)) {
    return 'the certificate is not for clients';
  }
  const name = listOf(subject.CN).at(-1) ?? '';
  if (name === '') return 'the client certificate has no common name';
  return { name, uid: '', groups: listOf(subject.O), extra: {} };
}

function listOf(value: string | readonly string[] | undefined): readonly string[] {
  return typeof value === 'string' ? [value] : (value ?? []);
}

/** Another scheme, or a header without a token, counts as no credential. */
function bearerToken(header: string): string | undefined {
  const [scheme = '', token = ''] = header.trim().split(' ');
  return scheme.toLowerCase() === 'bearer' && token !== '' ? token : undefined;
}

function accepted(user: User, audiences: readonly string[] = []): Authentication {
  const groups = [...new Set([...user.groups, wellKnownGroups.authenticated])];
  return { kind: 'authenticated', user: { ...user, groups }, audiences };
}

function unauthenticated(message: string): Authentication {
  return { kind: 'unauthenticated', message };
}

function hash(text: string): Buffer {
  return createHash('sha256').update(text).digest();
}
