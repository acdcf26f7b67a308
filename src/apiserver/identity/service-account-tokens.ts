/**
 * Tokens of service accounts: signed, for an audience, with an end, and bound to objects that must still be there when the
 * token is used. A token is checked against the live objects each time, so that deleting a pod ends its tokens.
 */
import { randomUUID } from 'node:crypto';
import type { Clock } from '../../base/clock.ts';
import { isRecord } from '../../kube/schema/equality.ts';
import type { ObjectMeta } from '../../kube/schema/meta.ts';
import { goQuote } from '../../kube/values/go-text.ts';
import { timestamp } from '../../kube/values/times.ts';
import { type SigningKey, type VerificationKey, isSignedBy, parseToken, signToken } from './signing-key.ts';
import { type User, serviceAccountGroups, serviceAccountUserName } from './user.ts';

type LiveObject = { readonly metadata: Pick<ObjectMeta, 'uid' | 'deletionTimestamp'> };

/** The objects as they are now; undefined for one that does not exist. */
interface TokenSubjects {
  serviceAccount(namespace: string, name: string): LiveObject | undefined;
  pod(namespace: string, name: string): LiveObject | undefined;
  secret(namespace: string, name: string): LiveObject | undefined;
  node(name: string): LiveObject | undefined;
}

interface TokenIssuerDeps {
  readonly clock: Pick<Clock, 'now'>;
  readonly subjects: TokenSubjects;
}

export interface TokenIssuerSettings {
  /** A URL; relying parties find the public keys below it. */
  readonly issuer: string;
  /** What a token is for when its requester does not say. */
  readonly audiences: readonly string[];
  readonly key: SigningKey;
}

export interface TokenOrder {
  readonly namespace: string;
  readonly serviceAccount: BoundName;
  readonly audiences: readonly string[];
  readonly expirationSeconds: number;
  /** A pod's token names its node too; apart from that a token is bound to one object at most. */
  readonly pod?: BoundName;
  readonly secret?: BoundName;
  readonly node?: BoundName;
}

export interface IssuedToken {
  readonly token: string;
  /** RFC 3339, whole seconds. */
  readonly expirationTimestamp: string;
}

export type TokenVerdict =
  | { readonly kind: 'accepted'; readonly user: User; readonly audiences: readonly string[] }
  /** Ours, but not good. The message is for logs and TokenReviews; the requester only learns "Unauthorized". */
  | { readonly kind: 'refused'; readonly message: string }
  /** Not a token of this issuer; another authenticator may accept it. */
  | { readonly kind: 'foreign' };

/** How far clocks may be apart, and how long a deleted object's tokens live on: the same minute in the API. */
const leewayMs = 60_000;
/** A token of this issuer from the future means that its clock was set back; that must not shut out every pod for hours. */
const setBackMsMax = 24 * 3_600_000;

export class TokenIssuer {
  readonly #deps: TokenIssuerDeps;
  readonly #settings: TokenIssuerSettings;

  constructor(deps: TokenIssuerDeps, settings: TokenIssuerSettings) {
    this.#deps = deps;
    this.#settings = settings;
  }

  issue(order: TokenOrder): IssuedToken {
    const { issuer, key, audiences } = this.#settings;
    const { namespace, serviceAccount, pod, secret, node } = order;
    const now = Math.floor(this.#deps.clock.now() / 1000);
    const expires = now + order.expirationSeconds;
    const token = signToken(key, {
      aud: order.audiences.length === 0 ? audiences : order.audiences,
      exp: expires,
      iat: now,
      iss: issuer,
      jti: randomUUID(),
      'kubernetes.io': { namespace, node, pod, secret, serviceaccount: serviceAccount },
      nbf: now,
      sub: serviceAccountUserName(namespace, serviceAccount.name),
    });
    return { token, expirationTimestamp: timestamp(expires * 1000) };
  }

  /** `audiences` are those that the verifier belongs to; the API server's own unless said otherwise. */
  verify(token: string, audiences: readonly string[] = this.#settings.audiences): TokenVerdict {
    const parsed = parseToken(token);
    if (parsed === undefined || parsed.claims['iss'] !== this.#settings.issuer) return { kind: 'foreign' };
    const { key } = this.#settings;
    if (parsed.keyId !== '' && parsed.keyId !== key.id) return refused('invalid signature, no keys found');
    if (!isSignedBy(key, parsed)) return refused('invalid signature');
    const { claims } = parsed;
    if (!areClaims(claims)) return refused('service account token claims could not be validated');

    const named = [claims.aud ?? []].flat();
    const tokenAudiences = named.length === 0 ? this.#settings.audiences : named;
    const shared = tokenAudiences.filter((audience) => audiences.includes(audience));
    if (shared.length === 0) {
      return refused(
        `token audiences ${quotedList(tokenAudiences)} is invalid for the target audiences ${quotedList(audiences)}`,
      );
    }
    const problem = this.#timeProblem(claims) ?? this.#subjectProblem(claims);
    return problem === undefined ? { kind: 'accepted', user: userOf(claims), audiences: shared } : refused(problem);
  }

  #timeProblem({ nbf = 0, exp = Infinity, iat = 0 }: TokenClaims): string | undefined {
    const now = this.#deps.clock.now();
    if (now + setBackMsMax < nbf * 1000) return 'service account token is not valid yet';
    if (now - leewayMs > exp * 1000) return 'service account token has expired';
    if (now + setBackMsMax < iat * 1000) return 'service account token is issued in the future';
    return undefined;
  }

  #subjectProblem({ 'kubernetes.io': own }: TokenClaims): string | undefined {
    const { namespace, serviceaccount: serviceAccount, secret, pod, node } = own;
    const { subjects } = this.#deps;
    const account = subjects.serviceAccount(namespace, serviceAccount.name);
    if (account === undefined) return `serviceaccounts ${goQuote(serviceAccount.name)} not found`;
    const { uid = '' } = account.metadata;
    if (uid !== serviceAccount.uid) {
      return `service account UID (${uid}) does not match claim (${serviceAccount.uid})`;
    }
    if (this.#isGone(account)) return `service account ${namespace}/${serviceAccount.name} has been deleted`;
    return (
      this.#boundProblem('secret', secret, (name) => subjects.secret(namespace, name)) ??
      this.#boundProblem('pod', pod, (name) => subjects.pod(namespace, name)) ??
      // The node of a pod's token is information: the pod may outlive the Node object's re-creation.
      (pod === undefined ? this.#boundProblem('node', node, (name) => subjects.node(name)) : undefined)
    );
  }

  #boundProblem(
    kind: 'secret' | 'pod' | 'node',
    claim: BoundName | undefined,
    find: (name: string) => LiveObject | undefined,
  ): string | undefined {
    if (claim === undefined) return undefined;
    const live = find(claim.name);
    if (live === undefined) return 'service account token has been invalidated';
    const { uid = '' } = live.metadata;
    if (uid !== claim.uid) {
      return `${kind} UID (${uid}) does not match service account ${kind} ref claim (${claim.uid})`;
    }
    return this.#isGone(live) ? 'service account token has been invalidated' : undefined;
  }

  #isGone({ metadata: { deletionTimestamp } }: LiveObject): boolean {
    return deletionTimestamp !== undefined && Date.parse(deletionTimestamp) < this.#deps.clock.now() - leewayMs;
  }
}

function refused(message: string): TokenVerdict {
  return { kind: 'refused', message };
}

function userOf({ jti = '', 'kubernetes.io': own }: TokenClaims): User {
  const { namespace, serviceaccount: serviceAccount, pod, node } = own;
  const prefix = 'authentication.kubernetes.io';
  const extra: Record<string, readonly string[]> = {};
  if (pod !== undefined) {
    extra[`${prefix}/pod-name`] = [pod.name];
    extra[`${prefix}/pod-uid`] = [pod.uid];
  }
  if (jti !== '') extra[`${prefix}/credential-id`] = [`JTI=${jti}`];
  if (node !== undefined) {
    extra[`${prefix}/node-name`] = [node.name];
    if (node.uid !== '') extra[`${prefix}/node-uid`] = [node.uid];
  }
  return {
    name: serviceAccountUserName(namespace, serviceAccount.name),
    uid: serviceAccount.uid,
    groups: serviceAccountGroups(namespace),
    extra,
  };
}

/** As Go prints a list of quoted strings. */
function quotedList(items: readonly string[]): string {
  return `[${items.map(goQuote).join(' ')}]`;
}

export interface BoundName {
  readonly name: string;
  readonly uid: string;
}

/** Times are in seconds since the epoch. */
interface TokenClaims {
  readonly jti?: string;
  readonly aud?: string | readonly string[];
  readonly nbf?: number;
  readonly exp?: number;
  readonly iat?: number;
  readonly 'kubernetes.io': {
    readonly namespace: string;
    readonly serviceaccount: BoundName;
    readonly pod?: BoundName;
    readonly secret?: BoundName;
    readonly node?: BoundName;
  };
}

/** What was signed may still be of any form, and name no service account. */
function areClaims(json: unknown): json is TokenClaims {
  if (!isRecord(json)) return false;
  const { aud = [], nbf, exp, iat, jti = '', 'kubernetes.io': own } = json;
  if (!isRecord(own) || typeof own['namespace'] !== 'string' || typeof jti !== 'string') return false;
  if (![aud].flat().every((item) => typeof item === 'string')) return false;
  if (![nbf, exp, iat].every((time) => time === undefined || typeof time === 'number')) return false;
  const bound = [own['pod'], own['secret'], own['node']];
  return isName(own['serviceaccount']) && bound.every((item) => item === undefined || isName(item));
}

function isName(value: unknown): value is BoundName {
  return isRecord(value) && typeof value['name'] === 'string' && typeof value['uid'] === 'string';
}

export const jwksPath = '/openid/v1/jwks';

interface Issuer {
  readonly issuer: string;
  readonly key: VerificationKey;
}

/** Relying parties read it to verify our tokens themselves. `serverUrl` is this server's; the issuer may have another address. */
export function openIdConfiguration({ issuer, key }: Issuer, serverUrl: string): object {
  return {
    issuer,
    jwks_uri: `${serverUrl}${jwksPath}`,
    response_types_supported: ['id_token'],
    subject_types_supported: ['public'],
    id_token_signing_alg_values_supported: [key.algorithm],
  };
}

/** Its media type is `application/jwk-set+json`. */
export function jsonWebKeySet({ key: { id, algorithm, publicKey } }: Issuer): object {
  return { keys: [{ use: 'sig', ...publicKey.export({ format: 'jwk' }), kid: id, alg: algorithm }] };
}
