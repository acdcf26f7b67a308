/** The text of a kubeconfig file: how to reach this server, and as whom. Writing it somewhere is the caller's business. */
import type { KeyPair } from './certificates.ts';

interface KubeconfigSettings {
  /** The URL must be https: kubectl sends no credentials at all over plain http. */
  readonly server: string;
  readonly authorityPem: string;
  /** Of the cluster, and with the user's name of the context. */
  readonly cluster: string;
  readonly user: string;
  readonly credentials: KeyPair | { readonly token: string };
  readonly namespace?: string;
}

/** JSON is YAML, and needs no rules about what to quote. */
export function kubeconfig(settings: KubeconfigSettings): string {
  const { server, authorityPem, cluster, user, credentials, namespace = 'default' } = settings;
  const context = `${user}@${cluster}`;
  const config = {
    apiVersion: 'v1',
    kind: 'Config',
    clusters: [{ name: cluster, cluster: { server, 'certificate-authority-data': base64(authorityPem) } }],
    users: [{ name: user, user: credentialsOf(credentials) }],
    contexts: [{ name: context, context: { cluster, user, namespace } }],
    'current-context': context,
    preferences: {},
  };
  return `${JSON.stringify(config, undefined, 2)}\n`;
}

function credentialsOf(credentials: KubeconfigSettings['credentials']): Record<string, string> {
  if ('token' in credentials) return { token: credentials.token };
  return {
    'client-certificate-data': base64(credentials.certificatePem),
    'client-key-data': base64(credentials.keyPem),
  };
}

function base64(text: string): string {
  return Buffer.from(text).toString('base64');
}
