/**
 * Who the embedded API server is, kept in its data directory: the authority that signs certificates, the key that signs
 * tokens, the keys that encrypt Secrets. Made at the first start and used by every later one.
 *
 *   DIR/pki/authority.json   certificate and key of the authority     DIR/pki/encryption.keys   see apiserver/store
 *   DIR/pki/nodes.json       certificate and key of the authority for the servers of nodes
 *   DIR/pki/tokens.key       signs service account tokens             DIR/store/                the objects
 *   DIR/kubeconfig           for the admin; written at each start, because the port may have changed
 */
import { createPrivateKey } from 'node:crypto';
import { mkdirSync } from 'node:fs';
import { hostname } from 'node:os';
import { join } from 'node:path';
import {
  type Authority,
  type KeyPair,
  issueClientCertificate,
  issueNodeClientCertificate,
  issueNodeServingCertificate,
  issueServerCertificate,
  kubeconfig,
  makeAuthority,
  signRequest,
} from '../../apiserver/identity/certificates.ts';
import { type SigningKey, loadSigningKey, makeSigningKeyPem } from '../../apiserver/identity/signing-key.ts';
import { type EncryptionKey, ensureEncryptionKeys } from '../../apiserver/store/encryption.ts';
import type { Clock } from '../../base/clock.ts';
import type { CertificateSigner } from '../../controllers/certificate-requests.ts';
import { signers } from '../../kube/kinds/certificate-signing-request.ts';
import { ensurePrivateFile, readPrivateFile, replacePrivateFile } from '../../disk/paths/node-files.ts';

interface ApiServerIdentity {
  readonly authority: Authority;
  /** Signs what the servers of nodes show, and nothing else: clients of the API server do not trust it. */
  readonly nodeAuthority: Authority;
  readonly server: KeyPair;
  /** Shown to the servers of nodes. */
  readonly nodeClient: KeyPair;
  readonly signingKey: SigningKey;
  readonly encryptionKeys: readonly EncryptionKey[];
}

// An authority must outlive the machine's use; the others are issued again at each start.
const authorityDays = 3650;
const leafDays = 365;

export function apiServerIdentity(directory: string, host: string, now: number): ApiServerIdentity {
  const keys = join(directory, 'pki');
  mkdirSync(keys, { recursive: true, mode: 0o700 });
  const { authority, server } = ensurePrivateFile(
    join(keys, 'authority.json'),
    () => JSON.stringify(makeAuthority({ now, days: authorityDays })),
    (text) => {
      const read = JSON.parse(text) as Authority;
      return { authority: read, server: issueServerCertificate(read, { hosts: hostsFor(host), now, days: leafDays }) };
    },
  );
  return {
    authority,
    nodeAuthority: ensurePrivateFile(
      join(keys, 'nodes.json'),
      () => JSON.stringify(makeAuthority({ now, days: authorityDays, name: 'mountlet-nodes-ca' })),
      (text) => {
        const read = JSON.parse(text) as Authority;
        createPrivateKey(read.keyPem);
        return read;
      },
    ),
    server,
    nodeClient: issueNodeClientCertificate(authority, { now, days: leafDays }),
    signingKey: ensurePrivateFile(join(keys, 'tokens.key'), makeSigningKeyPem, loadSigningKey),
    encryptionKeys: ensureEncryptionKeys(encryptionKeysFile(directory)),
  };
}

export function encryptionKeysFile(directory: string): string {
  return join(directory, 'pki', 'encryption.keys');
}

export function issueAdmin(authority: Authority, now: number): KeyPair {
  return issueClientCertificate(authority, {
    user: 'mountlet-admin',
    groups: ['system:masters'],
    now,
    days: leafDays,
  });
}

export function writeKubeconfig(file: string, authority: Authority, server: string, credentials: KeyPair): void {
  const authorityPem = authority.certificatePem;
  const text = kubeconfig({ server, authorityPem, cluster: 'mountlet', user: 'admin', credentials });
  try {
    replacePrivateFile(file, text);
  } catch (thrown) {
    // On a full disk the file of an earlier start serves as well, if it leads to this server.
    if (clustersOf(readPrivateFile(file)) !== clustersOf(text)) throw thrown;
  }
}

function clustersOf(kubeconfigText: string | undefined): string | undefined {
  try {
    return JSON.stringify((JSON.parse(kubeconfigText ?? '') as { clusters?: unknown }).clusters);
  } catch {
    return undefined;
  }
}

/** What the certificates API signs with. */
export function requestSigner(
  { authority, nodeAuthority }: Pick<ApiServerIdentity, 'authority' | 'nodeAuthority'>,
  clock: Pick<Clock, 'now'>,
): CertificateSigner {
  return {
    sign(signerName, request, order) {
      const signs = signerName === signers.kubeletServing ? nodeAuthority : authority;
      return signRequest(signs, request, { ...order, now: clock.now() });
    },
  };
}

/** `hosts` are the addresses and names under which the node's own server is reached. */
export function issueNode(
  authority: Authority,
  nodeName: string,
  hosts: readonly string[],
  now: number,
): { readonly client: KeyPair; readonly serving: KeyPair } {
  const validity = { now, days: leafDays };
  return {
    client: issueClientCertificate(authority, {
      user: `system:node:${nodeName}`,
      groups: ['system:nodes'],
      ...validity,
    }),
    serving: issueNodeServingCertificate(authority, { nodeName, hosts, ...validity }),
  };
}

/** The names a client may call the server by: what it listens on, this machine, and what pods call it. */
function hostsFor(host: string): readonly string[] {
  const names = ['localhost', '127.0.0.1', '::1', hostname().toLowerCase()];
  const inCluster = [
    'kubernetes',
    'kubernetes.default',
    'kubernetes.default.svc',
    'kubernetes.default.svc.cluster.local',
    '10.96.0.1',
  ];
  return [...new Set([...(host === '0.0.0.0' || host === '::' ? [] : [host]), ...names, ...inCluster])];
}
