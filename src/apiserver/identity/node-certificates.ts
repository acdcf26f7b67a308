/** The two certificates between an API server and its nodes: what a node shows, and what the server shows to a node. */
import type { Authority, KeyPair, Validity } from './certificates.ts';
import { issueClientCertificate, issueServerCertificate } from './certificates.ts';

/** For the server of a node; `hosts` are its addresses and names as its Node object has them. */
export function issueNodeServingCertificate(
  authority: Authority,
  { nodeName, hosts, ...validity }: Validity & { readonly nodeName: string; readonly hosts: readonly string[] },
): KeyPair {
  const user = `system:node:${nodeName}`;
  return issueServerCertificate(authority, { ...validity, hosts, user, groups: ['system:nodes'] });
}

/** By which a node knows that its API server asks, and not just anybody who can reach it. */
export function issueNodeClientCertificate(authority: Authority, validity: Validity): KeyPair {
  return issueClientCertificate(authority, {
    ...validity,
    user: 'kube-apiserver-kubelet-client',
    groups: ['system:masters'],
  });
}
