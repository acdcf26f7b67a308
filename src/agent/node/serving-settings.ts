/** The settings of the node's own server: whether there is one, its certificate and ciphers, and whom it answers. */
import { getCiphers } from 'node:tls';
import { type Of, boolean, integer, list, object, string } from '../../kube/schema/schema.ts';

export const servingFields = {
  enableServer: boolean,
  tlsCertFile: string,
  tlsPrivateKeyFile: string,
  tlsCipherSuites: list(string),
  tlsMinVersion: string,
  serverTLSBootstrap: boolean,
  authentication: object({
    x509: object({ clientCAFile: string }),
    webhook: object({ enabled: boolean }),
    anonymous: object({ enabled: boolean }),
  }),
  authorization: object({ mode: string }),
  streamingConnectionIdleTimeout: string,
  healthzPort: integer,
  healthzBindAddress: string,
};
const shape = object(servingFields);

export interface ServingSettings {
  readonly isEnabled: boolean;
  /** Undefined: one that the node makes for itself. */
  readonly certificate: { readonly file: string; readonly keyFile: string } | undefined;
  /** The node asks the cluster for a certificate, in place of the one that it makes for itself. */
  readonly requestsCertificate: boolean;
  readonly minVersion: TlsVersion;
  /** As OpenSSL names them; undefined: the usual ones. */
  readonly ciphers: string | undefined;
  /** The authority of clients that show certificates; undefined: the cluster's. */
  readonly clientAuthorityFile: string | undefined;
  /** Bearer tokens are asked about at the API server. */
  readonly reviewsTokens: boolean;
  readonly allowsAnonymous: boolean;
  /** Everybody whom the server knows may do everything; otherwise the API server is asked. */
  readonly allowsAll: boolean;
  readonly streamIdleMs: number;
  /** Where /healthz is served without TLS; undefined: nowhere. */
  readonly health: { readonly host: string; readonly port: number } | undefined;
}

type TlsVersion = 'TLSv1' | 'TLSv1.1' | 'TLSv1.2' | 'TLSv1.3';

/** Each records what is wrong with a value. */
interface Checks {
  absolute(field: string, value: string): string;
  duration(field: string, value: string): number;
  among<T extends string>(field: string, value: string, known: readonly T[]): T;
  within(field: string, value: number, least: number, most: number): number;
  address(field: string, value: string): string;
  refuse(field: string, value: string, problem: string): void;
}

export function servingSettings(given: Of<typeof shape>, check: Checks): ServingSettings {
  const { tlsCertFile = '', tlsPrivateKeyFile = '', tlsCipherSuites = [], authentication, authorization } = given;
  const { clientCAFile = '' } = authentication?.x509 ?? {};
  if ((tlsCertFile === '') !== (tlsPrivateKeyFile === ''))
    check.refuse('tlsCertFile', tlsCertFile, 'needs tlsPrivateKeyFile, and the other way round');
  const healthPort = check.within('healthzPort', given.healthzPort ?? 0, 0, 65_535);
  const healthHost = check.address('healthzBindAddress', given.healthzBindAddress ?? '127.0.0.1');
  const mode = check.among('authorization.mode', authorization?.mode ?? 'Webhook', ['Webhook', 'AlwaysAllow']);
  return {
    isEnabled: given.enableServer ?? true,
    certificate:
      tlsCertFile === ''
        ? undefined
        : {
            file: check.absolute('tlsCertFile', tlsCertFile),
            keyFile: check.absolute('tlsPrivateKeyFile', tlsPrivateKeyFile),
          },
    requestsCertificate: tlsCertFile === '' && (given.serverTLSBootstrap ?? true),
    minVersion: versions[check.among('tlsMinVersion', given.tlsMinVersion ?? 'VersionTLS12', knownVersions)],
    ciphers: tlsCipherSuites.length === 0 ? undefined : ciphersOf(tlsCipherSuites, check),
    clientAuthorityFile:
      clientCAFile === '' ? undefined : check.absolute('authentication.x509.clientCAFile', clientCAFile),
    reviewsTokens: authentication?.webhook?.enabled ?? true,
    allowsAnonymous: authentication?.anonymous?.enabled ?? false,
    allowsAll: mode === 'AlwaysAllow',
    streamIdleMs: check.duration('streamingConnectionIdleTimeout', given.streamingConnectionIdleTimeout ?? '4h0m0s'),
    health: healthPort === 0 ? undefined : { host: healthHost, port: healthPort },
  };
}

const knownVersions = ['VersionTLS10', 'VersionTLS11', 'VersionTLS12', 'VersionTLS13'] as const;
const versions: Readonly<Record<(typeof knownVersions)[number], TlsVersion>> = {
  VersionTLS10: 'TLSv1',
  VersionTLS11: 'TLSv1.1',
  VersionTLS12: 'TLSv1.2',
  VersionTLS13: 'TLSv1.3',
};

/** In the newest version the suites are fixed, as they are for the kubelet. */
const newestSuites = ['TLS_AES_128_GCM_SHA256', 'TLS_AES_256_GCM_SHA384', 'TLS_CHACHA20_POLY1305_SHA256'];

/** `TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256` is OpenSSL's `ECDHE-RSA-AES128-GCM-SHA256`. */
function ciphersOf(suites: readonly string[], check: Checks): string {
  const known = new Set(getCiphers());
  const chosen = suites.flatMap((suite, index) => {
    if (newestSuites.includes(suite)) return [];
    const [, exchange = '', cipher = ''] = /^TLS_(ECDHE_RSA|ECDHE_ECDSA|RSA)_WITH_(\w+)$/.exec(suite) ?? [];
    const words = cipher
      .replace(/^AES_(\d+)/, 'AES$1')
      .replace('_CBC', '')
      .replace(/^(CHACHA20_POLY1305).*/, '$1');
    const name = `${exchange === 'RSA' ? '' : `${exchange}-`}${words}`.replaceAll('_', '-');
    if (!known.has(name.toLowerCase())) check.refuse(`tlsCipherSuites[${index}]`, suite, 'is not known');
    return [name];
  });
  return [...newestSuites, ...chosen].join(':');
}
