import type { Authority, KeyPair } from '../apiserver/identity/certificates.ts';
import { issueClientCertificate } from '../apiserver/identity/certificates.ts';

/** The certificate of a node, which may do what nodes may. */
export function nodeIdentity({ authority }: { readonly authority: Authority }, name: string): KeyPair {
  const user = `system:node:${name}`;
  return issueClientCertificate(authority, { user, groups: ['system:nodes'], now: Date.now(), days: 1 });
}
