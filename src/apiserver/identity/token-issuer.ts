/**
 * Tokens of service accounts: signed, for an audience, with an end, and bound to objects that must still be there when the
 * token is used. A token is checked against the live objects each time, so that deleting a pod ends its tokens.
 */
import { randomUUID } from 'node:crypto';
import type { Clock } from '../../base/clock.ts';
import { goQuote } from '../../kube/values/go-text.ts';
import { type SigningKey, type VerificationKey, isSignedBy, parseToken, signToken } from './signing-key.ts';
import { type BoundName, type TokenClaims, claimsOf } from './token-claims.ts';
import { type User, serviceAccountGroups, serviceAccountUserName } from './user.ts';

export interface LiveObject {
  readonly uid: string;
  readonly deletionTimestamp?: string;
}

/** What the objects are now; undefined for one that does not exist. */
export interface TokenSubjects {
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
  /** Keys that signed tokens before this one. */
  readonly retiredKeys: readonly VerificationKey[];
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
  /** The id of this one token, for logs: never the token. */
  readonly credentialId: string;
}

export type TokenVerdict =
  | { readonly kind: 'accepted'; readonly user: User; readonly audiences: readonly string[] }
  /** Ours, but not good. The message is for logs and TokenReviews; the requester only learns "Unauthorized". */
  | { readonly kind: 'refused'; readonly message: string }
  /** Not a token of this issuer; somebody else may know it. */
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
    const id = randomUUID();
    const token = signToken(key, {
      aud: order.audiences.length === 0 ? audiences : order.audiences,
      exp: expires,
      iat: now,
      iss: issuer,
      jti: id,
      'kubernetes.io': { namespace, node, pod, secret, serviceaccount: serviceAccount },
      nbf: now,
      sub: serviceAccountUserName(namespace, serviceAccount.name),
    });
    return { token, expirationTimestamp: timestamp(expires), credentialId: `JTI=${id}` };
  }

  /** `audiences` are those that the verifier belongs to; the API server's own unless said otherwise. */
  verify(token: string, audiences: readonly string[] = this.#settings.audiences): TokenVerdict {
    const parsed = parseToken(token);
    if (parsed === undefined || parsed.claims['iss'] !== this.#settings.issuer) return { kind: 'foreign' };
    const keys = this.keys.filter(({ id }) => parsed.keyId === '' || parsed.keyId === id);
    if (keys.length === 0) return refused('invalid signature, no keys found');
    if (!keys.some((key) => isSignedBy(key, parsed))) return refused('invalid signature');
    const claims = claimsOf(parsed.claims);
    if (claims === undefined) return refused('service account token claims could not be validated');

    const tokenAudiences = claims.audiences.length === 0 ? this.#settings.audiences : claims.audiences;
    const shared = tokenAudiences.filter((audience) => audiences.includes(audience));
    if (shared.length === 0) {
      return refused(
        `token audiences ${quotedList(tokenAudiences)} is invalid for the target audiences ${quotedList(audiences)}`,
      );
    }
    const problem = this.#timeProblem(claims) ?? this.#subjectProblem(claims);
    return problem === undefined ? { kind: 'accepted', user: userOf(claims), audiences: shared } : refused(problem);
  }

  get keys(): readonly VerificationKey[] {
    return [this.#settings.key, ...this.#settings.retiredKeys];
  }

  get issuer(): string {
    return this.#settings.issuer;
  }

  #timeProblem({ notBefore, expires, issuedAt }: TokenClaims): string | undefined {
    const now = this.#deps.clock.now();
    if (notBefore !== undefined && now + setBackMsMax < notBefore * 1000)
      return 'service account token is not valid yet';
    if (expires !== undefined && now - leewayMs > expires * 1000) return 'service account token has expired';
    if (issuedAt !== undefined && now + setBackMsMax < issuedAt * 1000)
      return 'service account token is issued in the future';
    return undefined;
  }

  #subjectProblem({ namespace, serviceAccount, secret, pod, node }: TokenClaims): string | undefined {
    const { subjects } = this.#deps;
    const account = subjects.serviceAccount(namespace, serviceAccount.name);
    if (account === undefined) return `serviceaccounts ${goQuote(serviceAccount.name)} not found`;
    if (account.uid !== serviceAccount.uid) {
      return `service account UID (${account.uid}) does not match claim (${serviceAccount.uid})`;
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
    if (live.uid !== claim.uid) {
      return `${kind} UID (${live.uid}) does not match service account ${kind} ref claim (${claim.uid})`;
    }
    return this.#isGone(live) ? 'service account token has been invalidated' : undefined;
  }

  #isGone({ deletionTimestamp }: LiveObject): boolean {
    return deletionTimestamp !== undefined && Date.parse(deletionTimestamp) < this.#deps.clock.now() - leewayMs;
  }
}

function refused(message: string): TokenVerdict {
  return { kind: 'refused', message };
}

function userOf({ namespace, serviceAccount, pod, node, id }: TokenClaims): User {
  const prefix = 'authentication.kubernetes.io';
  const extra: Record<string, readonly string[]> = {};
  if (pod !== undefined) {
    extra[`${prefix}/pod-name`] = [pod.name];
    extra[`${prefix}/pod-uid`] = [pod.uid];
  }
  if (id !== '') extra[`${prefix}/credential-id`] = [`JTI=${id}`];
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

function timestamp(seconds: number): string {
  return `${new Date(seconds * 1000).toISOString().slice(0, 19)}Z`;
}
