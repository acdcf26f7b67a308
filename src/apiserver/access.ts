/** Who asks, what for, and whether they may: what the server needs of authentication and authorisation. */
import type { PeerCertificate } from 'node:tls';

export interface User {
  readonly name: string;
  readonly uid?: string;
  readonly groups: readonly string[];
  readonly extra?: Readonly<Record<string, readonly string[]>>;
}

export interface Credentials {
  readonly authorization: string | undefined;
  readonly certificate: PeerCertificate | undefined;
}

export interface Authenticator {
  /** Undefined: the credentials are wrong, or there are none and nobody may come without. */
  authenticate(credentials: Credentials): Promise<User | undefined>;
}

export interface Attributes {
  readonly user: User;
  readonly verb: string;
  /** Empty for requests that are not about a resource; `path` then says what they are about. */
  readonly resource: string;
  readonly group: string;
  readonly version: string;
  readonly subresource: string;
  readonly namespace: string;
  readonly name: string;
  readonly path: string;
  readonly fieldSelector: string;
  readonly labelSelector: string;
}

export interface AccessDecision {
  readonly allowed: boolean;
  readonly reason?: string;
}

export interface Authorizer {
  authorize(attributes: Attributes): AccessDecision;
}

/** The server itself, when its controllers write. */
export const systemUser: User = { name: 'system:apiserver', groups: ['system:masters'] };
