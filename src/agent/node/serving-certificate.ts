/**
 * The certificate of the node's own server, signed by the cluster: asked for, kept across restarts, and asked for again before it
 * ends or when the node has other names. As long as there is none the server shows one that the node made for itself.
 */
import { X509Certificate, createHash, createPrivateKey } from 'node:crypto';
import { isIP } from 'node:net';
import { join } from 'node:path';
import { makeCertificateRequest } from '../../apiserver/identity/certificates.ts';
import { onAbort } from '../../base/abort.ts';
import type { Clock } from '../../base/clock.ts';
import { type TaskFailed, runTask } from '../../base/run-task.ts';
import type { ApiClient } from '../../client/api/api-client.ts';
import { ForbiddenError, NotFoundError } from '../../client/api/api-errors.ts';
import { certificateSigningRequests, withShape } from '../../client/api/resource-reference.ts';
import { ObjectCache } from '../../client/object-cache.ts';
import type { ReflectorDeps } from '../../client/reflector.ts';
import { readPrivateFile, replacePrivateFile } from '../../disk/paths/node-files.ts';
import {
  type CertificateSigningRequest,
  certificateSigningRequestShape,
  signers,
} from '../../kube/kinds/certificate-signing-request.ts';
import type { Node } from '../../kube/kinds/node.ts';
import type { NodeServer } from '../../node-server/node-server.ts';

export type ServingCertificateNotice =
  | { readonly kind: 'ServingCertificateIssued'; readonly until: string }
  /** Said once for each reason. */
  | { readonly kind: 'ServingCertificateUnsigned'; readonly why: string };

interface ServingCertificateDeps extends ReflectorDeps {
  readonly clock: Clock;
  readonly client: Pick<ApiClient, 'create' | 'get' | 'list' | 'watch'>;
  readonly random: () => number;
  /** As the cluster knows it. */
  readonly node: {
    current(): Node | undefined;
    subscribe(follower: { readonly changed: () => void; readonly registered: () => void }): void;
  };
  readonly server: Pick<NodeServer, 'showCertificate'>;
  readonly notify: (notice: ServingCertificateNotice | TaskFailed | Parameters<ReflectorDeps['notify']>[0]) => void;
}

interface ServingCertificateSettings {
  readonly rootDirectory: string;
  readonly nodeName: string;
  /** A certificate of another cluster is of no use in this one. */
  readonly clusterAuthorityPem: string;
}

/** As it is kept on disk. */
interface Kept {
  readonly certificatePem: string;
  readonly keyPem: string;
  readonly cluster: string;
}

const requests = withShape(certificateSigningRequests, certificateSigningRequestShape);
/** A request that was turned down is made again after this long: the answer may be another one then. */
const patienceMs = 3_600_000;
/** After this long without an answer somebody should hear of it. */
const unansweredMs = 10_000;
/** Timers cannot wait for months. */
const sleepMsMax = 86_400_000;

export async function runServingCertificate(
  deps: ServingCertificateDeps,
  settings: ServingCertificateSettings,
  signal: AbortSignal,
): Promise<void> {
  const holder = new ServingCertificate(deps, settings);
  await runTask('the serving certificate of the node', (stop) => holder.run(stop), deps, signal);
}

class ServingCertificate {
  readonly #deps: ServingCertificateDeps;
  readonly #settings: ServingCertificateSettings;
  readonly #file: string;
  readonly #cluster: string;
  #told = '';
  #wake = (): void => {};

  constructor(deps: ServingCertificateDeps, settings: ServingCertificateSettings) {
    this.#deps = deps;
    this.#settings = settings;
    this.#file = join(settings.rootDirectory, 'serving-signed.json');
    this.#cluster = createHash('sha256').update(settings.clusterAuthorityPem).digest('hex');
    deps.node.subscribe({ changed: () => this.#wake(), registered: () => {} });
  }

  async run(signal: AbortSignal): Promise<void> {
    const { clock, random, server } = this.#deps;
    let shown: string | undefined;
    // Nodes that were started together do not all ask together.
    const share = 0.7 + 0.2 * random();
    while (!signal.aborted) {
      const hosts = this.#hosts();
      const kept = this.#kept(hosts);
      if (kept !== undefined && kept.certificatePem !== shown) {
        server.showCertificate(kept);
        shown = kept.certificatePem;
      }
      const renewalMs = kept === undefined ? 0 : renewalOf(kept.certificatePem, share);
      if (hosts.length === 0 || renewalMs > clock.now()) {
        await this.#sleep(hosts.length === 0 ? sleepMsMax : Math.min(renewalMs - clock.now(), sleepMsMax), signal);
      } else if (!(await this.#request(hosts, signal))) {
        await clock.sleep(patienceMs, signal).catch(() => {});
      }
    }
  }

  /** Until the time, or until the node has changed. */
  async #sleep(ms: number, signal: AbortSignal): Promise<void> {
    const woken = new AbortController();
    this.#wake = () => woken.abort();
    await this.#deps.clock.sleep(ms, AbortSignal.any([woken.signal, signal])).catch(() => {});
  }

  /** Names and addresses of the node; none as long as the cluster does not know it. */
  #hosts(): readonly string[] {
    const addresses = this.#deps.node.current()?.status?.addresses ?? [];
    return [...new Set(addresses.map(({ address }) => address))].sort();
  }

  /** What is on disk, if it is of use: for this node, its names, its cluster and the time being. */
  #kept(hosts: readonly string[]): Kept | undefined {
    try {
      const kept = JSON.parse(readPrivateFile(this.#file) ?? '') as Kept;
      const certificate = new X509Certificate(kept.certificatePem);
      const names = (host: string): boolean =>
        (isIP(host) === 0 ? certificate.checkHost(host) : certificate.checkIP(host)) !== undefined;
      const isUsable =
        kept.cluster === this.#cluster &&
        certificate.checkPrivateKey(createPrivateKey(kept.keyPem)) &&
        certificate.subject.split('\n').includes(`CN=system:node:${this.#settings.nodeName}`) &&
        Date.parse(certificate.validTo) > this.#deps.clock.now();
      return isUsable && hosts.every(names) ? kept : undefined;
    } catch {
      // There is none, or it cannot be read: another takes its place.
      return undefined;
    }
  }

  /** False: not now. */
  async #request(hosts: readonly string[], signal: AbortSignal): Promise<boolean> {
    const { client, clock, notify } = this.#deps;
    const groups = ['system:nodes'];
    const { requestPem, keyPem } = makeCertificateRequest({
      user: `system:node:${this.#settings.nodeName}`,
      groups,
      hosts,
    });
    const body = {
      apiVersion: 'certificates.k8s.io/v1',
      kind: 'CertificateSigningRequest',
      metadata: { generateName: 'csr-' },
      spec: {
        request: Buffer.from(requestPem).toString('base64'),
        signerName: signers.kubeletServing,
        usages: ['digital signature', 'server auth'],
      },
    };
    let made: CertificateSigningRequest;
    try {
      made = await client.create(requests, {}, body, signal);
    } catch (error) {
      if (!(error instanceof NotFoundError) && !(error instanceof ForbiddenError)) throw error;
      const why = error instanceof NotFoundError ? 'the API server signs no certificates' : error.message;
      return this.#unsigned(why);
    }
    const { name } = made.metadata;
    const answered = new AbortController();
    const reminded = clock.sleep(unansweredMs, AbortSignal.any([answered.signal, signal])).then(
      () => void this.#unsigned(`nobody has approved this node's request (kubectl certificate approve ${name})`),
      () => {},
    );
    const answer = await this.#answer(name, signal).finally(() => answered.abort());
    await reminded;
    if (answer === undefined) return true;
    const certificatePem = Buffer.from(answer.status?.certificate ?? '', 'base64').toString('latin1');
    const refusal = answer.status?.conditions?.find(({ type }) => type === 'Denied' || type === 'Failed');
    if (certificatePem === '') {
      return this.#unsigned(
        `the request ${name} was turned down: ${refusal?.type} ${refusal?.message ?? ''}`.trimEnd(),
      );
    }
    const kept: Kept = { certificatePem, keyPem, cluster: this.#cluster };
    replacePrivateFile(this.#file, JSON.stringify(kept));
    this.#told = '';
    notify({
      kind: 'ServingCertificateIssued',
      until: new Date(new X509Certificate(certificatePem).validTo).toISOString(),
    });
    // One that is of no use would be asked for again at once, for ever.
    return this.#kept(hosts) !== undefined || this.#unsigned('the cluster has signed a certificate for other names');
  }

  /** The request once somebody has decided; undefined: it was removed before. */
  async #answer(name: string, signal: AbortSignal): Promise<CertificateSigningRequest | undefined> {
    const cache = new ObjectCache<CertificateSigningRequest>();
    const over = new AbortController();
    const until = AbortSignal.any([signal, over.signal]);
    let stopListening = (): void => {};
    const found = new Promise<CertificateSigningRequest | undefined>((resolve, reject) => {
      const look = (): void => {
        const current = cache.get(name);
        if (current === undefined) resolve(undefined);
        else if (isAnswered(current)) resolve(current);
      };
      cache.subscribe(look);
      cache.whenSynced(until).then(look, reject);
      stopListening = onAbort(signal, () => reject(signal.reason));
    });
    const following = cache.follow(this.#deps, { resource: requests, fieldSelector: `metadata.name=${name}` }, until);
    try {
      return await found;
    } finally {
      stopListening();
      over.abort();
      await following.catch(() => {});
    }
  }

  #unsigned(why: string): false {
    const reason = why.replace(/csr-\w+/g, 'csr');
    if (reason !== this.#told) this.#deps.notify({ kind: 'ServingCertificateUnsigned', why });
    this.#told = reason;
    return false;
  }
}

function isAnswered({ status }: CertificateSigningRequest): boolean {
  const conditions = status?.conditions ?? [];
  return (status?.certificate ?? '') !== '' || conditions.some(({ type }) => type === 'Denied' || type === 'Failed');
}

/** At a share of its life, as the kubelet does: late enough to be rare, early enough for somebody to approve it by hand. */
function renewalOf(certificatePem: string, share: number): number {
  const { validFrom, validTo } = new X509Certificate(certificatePem);
  const [from, to] = [Date.parse(validFrom), Date.parse(validTo)];
  return from + (to - from) * share;
}
