/** Who we are to the API server: the contract, and its simplest kinds. Credentials from a kubeconfig are in user-credentials.ts. */

export interface TlsIdentity {
  readonly certificatePem: string;
  readonly keyPem: string;
}

export interface CurrentCredentials {
  /** `authorization` and who to act as. Never told to anybody but the server. */
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

export function isSameIdentity(one: TlsIdentity | undefined, other: TlsIdentity | undefined): boolean {
  return one?.certificatePem === other?.certificatePem && one?.keyPem === other?.keyPem;
}
