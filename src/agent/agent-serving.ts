/**
 * What the server of an agent shows and believes. Like a kubelet without a signed certificate it makes its own, which API servers
 * accept unless they were told to verify it; the authority whose clients it believes is the cluster's.
 */
import { join } from 'node:path';
import { createSecureContext } from 'node:tls';
import { issueServerCertificate, makeAuthority } from '../apiserver/identity/certificates.ts';
import type { ClusterAccess } from '../client/cluster-access.ts';
import { ensurePrivateFile } from '../disk/paths/private-file.ts';
import type { AgentSettings } from './agent-settings.ts';
import type { NodeDeps } from './node/node.ts';
import { thisMachine } from './this-machine.ts';

const days = 365;

export async function agentServing(
  { rootDirectory, nodeName, nodeIp }: Pick<AgentSettings, 'rootDirectory' | 'nodeName' | 'nodeIp'>,
  host: string,
  cluster: Pick<ClusterAccess, 'endpoint'> | undefined,
  signal: AbortSignal,
): Promise<NodeDeps['serving']> {
  const trust = await cluster?.endpoint.trust(signal);
  const addresses = (thisMachine(nodeName, rootDirectory).status?.addresses ?? []).map(({ address }) => address);
  const hosts = [...new Set([nodeName, host.toLowerCase(), ...(nodeIp === undefined ? addresses : [nodeIp])])];
  const now = Date.now();
  const { certificatePem, keyPem } = ensurePrivateFile(
    join(rootDirectory, 'serving.json'),
    () => JSON.stringify(issueServerCertificate(makeAuthority({ now, days }), { hosts, now, days })),
    (text) => {
      const read = JSON.parse(text) as { certificatePem: string; keyPem: string };
      createSecureContext({ cert: read.certificatePem, key: read.keyPem });
      return read;
    },
  );
  // Without an authority nobody can show a certificate; bearer tokens still work.
  return { certificatePem, keyPem, clientAuthorityPem: trust?.authorityPem ?? certificatePem };
}
