/** What TLS knows of the client at the other end. Asked once for each connection: it cannot change. */
import type { TLSSocket } from 'node:tls';
import type { PeerIdentity } from './authentication.ts';

/** Undefined for a client that showed no certificate. The server must ask for one and must not end the connection itself. */
export function peerIdentityOf(socket: Pick<TLSSocket, 'authorized' | 'getPeerCertificate'>): PeerIdentity | undefined {
  const { subject, ext_key_usage: keyUsages } = socket.getPeerCertificate();
  // Node answers with an empty object when there is no certificate.
  if (subject === undefined) return undefined;
  const identity = { verified: socket.authorized, subject: { ...pick(subject, 'CN'), ...pick(subject, 'O') } };
  return keyUsages === undefined ? identity : { ...identity, keyUsages };
}

/** A part of the subject that comes several times is a list. */
function pick(subject: object, key: 'CN' | 'O'): { readonly [key in 'CN' | 'O']?: string | readonly string[] } {
  const value = (subject as Record<string, string | string[] | undefined>)[key];
  return value === undefined ? {} : { [key]: value };
}
