/**
 * Requests for certificates: which are approved without a person, what is signed, and how long they are kept.
 *
 *   pending ──approved──▶ (signer) ──▶ issued ──an hour──▶ removed
 *      ├──denied, failed──an hour──▶ removed
 *      └──a day──▶ removed
 *
 * Without a person a node gets what is its own: a client certificate for itself, and a serving certificate for the names and
 * addresses that its Node object has.
 */
import { X509Certificate } from 'node:crypto';
import {
  type CertificateSigningRequest as Request,
  type RequestCondition,
  hasCondition,
  requestIn,
  signers,
} from '../kube/kinds/certificate-signing-request.ts';
import type { Node } from '../kube/kinds/node.ts';
import type { CertificateRequest } from '../kube/values/certificate-request.ts';
import { parseIpAddress } from '../kube/values/network-names.ts';
import {
  CannotRunError,
  type Cluster,
  type ControllerDeps,
  coreKind,
  deleteSame,
  kindNamed,
  unlessRefused,
} from './cluster/cluster.ts';
import { WorkQueue } from './cluster/work-queue.ts';

/** Has the key of the authority. */
export interface CertificateSigner {
  /** In PEM. */
  sign(signerName: string, request: CertificateRequest, order: SigningOrder): string;
}

interface SigningOrder {
  readonly usages: readonly string[];
  /** Undefined: as long as the signer gives. */
  readonly seconds: number | undefined;
}

const controller = 'certificate-controller';
const nodePrefix = 'system:node:';
const nodesGroup = 'system:nodes';

/** Without it nothing is approved or signed: what another signer's certificates are trusted for is not known here. */
interface SignerDeps extends ControllerDeps {
  readonly signer?: CertificateSigner | undefined;
}

function requireSigner({ signer }: SignerDeps): CertificateSigner {
  if (signer === undefined) throw new CannotRunError('it needs the key of the authority, which the API server keeps');
  return signer;
}

export async function runRequestApproval(deps: SignerDeps, signal: AbortSignal): Promise<void> {
  requireSigner(deps);
  const cluster = deps.clusterFor(controller, signal);
  const queue = new WorkQueue(controller, deps);
  const nodes = coreKind(cluster, 'Node');
  /** Keys of requests that do not fit the Node object of whoever made them, by that node. */
  const unfit = new Map<string, Set<string>>();
  const look = async (key: string): Promise<void> => {
    const request = await requestAt(cluster, key);
    if (request === undefined || isDecided(request)) return;
    const name = nodeNameOf(request);
    if (name === undefined) return;
    const node = await cluster.get(cluster.keyOf(nodes, '', name));
    const message = approvalOf(request, node);
    if (message === undefined) return void unfit.set(name, (unfit.get(name) ?? new Set()).add(key));
    const condition = { type: 'Approved', status: 'True', reason: 'AutoApproved', message };
    const approve = (current: Request): Request => (isDecided(current) ? current : withCondition(current, condition));
    await update(cluster, key, approve, 'approval');
  };
  const stops = [
    watchRequests(cluster, (key, request) => {
      if (!isDecided(request)) queue.touch(key);
    }),
    cluster.watch(nodes, ({ object }) => {
      const { name } = object.metadata;
      for (const key of unfit.get(name) ?? []) queue.touch(key);
      unfit.delete(name);
    }),
  ];
  try {
    await queue.run(look, signal);
  } finally {
    for (const stop of stops) stop();
  }
}

/** Who asks for themselves alone: undefined for anybody but a node. */
function nodeNameOf({ spec }: Request): string | undefined {
  const { username = '', groups = [] } = spec;
  return username.startsWith(nodePrefix) && groups.includes(nodesGroup) ? username.slice(nodePrefix.length) : undefined;
}

/** The message of an approval; undefined: a person has to decide. */
export function approvalOf(request: Request, node: Node | undefined): string | undefined {
  const { signerName, username } = request.spec;
  const asked = requestIn(request);
  if (asked.commonName !== username || refusalOf(request, asked) !== undefined) return undefined;
  if (signerName === signers.kubeletClient) return 'Auto approving self kubelet client certificate.';
  if (signerName !== signers.kubeletServing || node === undefined) return undefined;
  const own = new Set((node.status?.addresses ?? []).map(({ address }) => canonical(address)));
  const { dns, addresses } = asked.names;
  return [...dns, ...addresses].every((name) => own.has(canonical(name)))
    ? "Auto approving kubelet serving certificate for the node's own names and addresses."
    : undefined;
}

function canonical(name: string): string {
  return parseIpAddress(name)?.text ?? name.toLowerCase();
}

export async function runRequestSigning(deps: SignerDeps, signal: AbortSignal): Promise<void> {
  const signer = requireSigner(deps);
  const cluster = deps.clusterFor(controller, signal);
  const queue = new WorkQueue(controller, deps);
  const look = async (key: string): Promise<void> => {
    const request = await requestAt(cluster, key);
    if (request === undefined || !isToSign(request)) return;
    const outcome = signed(request, signer);
    await update(cluster, key, (current) => (isToSign(current) ? outcome(current) : current), 'status');
  };
  const stop = watchRequests(cluster, (key, request) => {
    if (isToSign(request)) queue.touch(key);
  });
  try {
    await queue.run(look, signal);
  } finally {
    stop();
  }
}

function isToSign(request: Request): boolean {
  const isOurs = Object.values<string>(signers).includes(request.spec.signerName);
  return isOurs && hasCondition(request, 'Approved') && !hasCondition(request, 'Failed') && !isIssued(request);
}

function signed(request: Request, signer: CertificateSigner): (current: Request) => Request {
  const { signerName, usages = [], expirationSeconds: seconds } = request.spec;
  const asked = requestIn(request);
  const message = refusalOf(request, asked);
  if (message !== undefined) {
    const condition = { type: 'Failed', status: 'True', reason: 'SignerValidationFailure', message };
    return (current) => withCondition(current, condition);
  }
  const certificate = Buffer.from(signer.sign(signerName, asked, { usages, seconds })).toString('base64');
  return (current) => ({ ...current, status: { ...current.status, certificate } });
}

const clientUsages = new Set(['digital signature', 'key encipherment', 'client auth']);

/** Why a signer does not sign this, in its words; undefined: it does. */
function refusalOf({ spec }: Request, asked: CertificateRequest): string | undefined {
  const { signerName, usages = [] } = spec;
  if (signerName === signers.client) {
    const wrong = usages.find((usage) => !clientUsages.has(usage));
    if (wrong !== undefined) return `invalid usage for client certificate: ${wrong}`;
    return usages.includes('client auth') ? undefined : 'missing required usage for client certificate: client auth';
  }
  const { dns, addresses, emails, uris } = asked.names;
  const isServing = signerName === signers.kubeletServing;
  const required = ['digital signature', 'key encipherment', isServing ? 'server auth' : 'client auth'];
  if (asked.organizations.length !== 1 || asked.organizations[0] !== nodesGroup) {
    return `subject organization is not ${nodesGroup}`;
  }
  if (isServing && dns.length + addresses.length === 0) return 'DNS or IP subjectAltName is required';
  if (!isServing && dns.length > 0) return 'DNS subjectAltNames are not allowed';
  if (emails.length > 0) return 'Email subjectAltNames are not allowed';
  if (!isServing && addresses.length > 0) return 'IP subjectAltNames are not allowed';
  if (uris.length > 0) return 'URI subjectAltNames are not allowed';
  if (!asked.commonName.startsWith(nodePrefix)) return `subject common name does not begin with ${nodePrefix}`;
  // Keys that encipher nothing do not ask for it.
  const isComplete = required.every((usage) => usage === 'key encipherment' || usages.includes(usage));
  const isExact = usages.every((usage) => required.includes(usage));
  return isComplete && isExact ? undefined : `usages did not match [${required.toSorted().join(' ')}]`;
}

const hourMs = 3_600_000;

/** Removes them by the times of kube-controller-manager, which looks once an hour. */
export async function runRequestCleaning(deps: ControllerDeps, signal: AbortSignal): Promise<void> {
  const cluster = deps.clusterFor(controller, signal);
  const queue = new WorkQueue(controller, deps);
  const look = async (key: string): Promise<void> => {
    const request = await requestAt(cluster, key);
    if (request === undefined) return;
    const endMs = endOf(request);
    if (endMs > deps.clock.now()) queue.touchAt(key, endMs);
    else await deleteSame(cluster, key, request);
  };
  const stop = watchRequests(cluster, (key) => queue.touch(key));
  try {
    await queue.run(look, signal);
  } finally {
    stop();
  }
}

/** When it has been kept long enough. */
export function endOf(request: Request): number {
  const { conditions = [], certificate = '' } = request.status ?? {};
  const createdMs = Date.parse(request.metadata.creationTimestamp ?? '');
  const ends = conditions.map(({ type, lastUpdateTime }) => {
    const isWaiting = type === 'Approved' && certificate === '';
    return Date.parse(lastUpdateTime ?? '') + (isWaiting ? 24 : 1) * hourMs;
  });
  if (conditions.length === 0) ends.push(createdMs + 24 * hourMs);
  if (certificate !== '') ends.push(lastMomentOf(certificate));
  return Math.min(...ends.filter((end) => !Number.isNaN(end)));
}

function lastMomentOf(base64: string): number {
  try {
    return Date.parse(new X509Certificate(Buffer.from(base64, 'base64')).validTo);
  } catch {
    return Infinity;
  }
}

function watchRequests(cluster: Cluster, report: (key: string, request: Request) => void): () => void {
  return cluster.watch(kindOfRequests(cluster), ({ key, type, object }) => {
    if (type === 'put') report(key, object as Request);
  });
}

function kindOfRequests(cluster: Cluster): ReturnType<typeof kindNamed> {
  return kindNamed(cluster, 'certificates.k8s.io/v1', 'CertificateSigningRequest');
}

async function requestAt(cluster: Cluster, key: string): Promise<Request | undefined> {
  return (await cluster.get(key)) as Request | undefined;
}

/** One that is gone is left alone. */
function update(cluster: Cluster, key: string, change: (request: Request) => Request, part: string): Promise<void> {
  return unlessRefused(
    cluster.update(key, (object) => change(object as Request), part),
    404,
  );
}

function isDecided(request: Request): boolean {
  return hasCondition(request, 'Approved') || hasCondition(request, 'Denied') || isIssued(request);
}

function isIssued({ status }: Request): boolean {
  return (status?.certificate ?? '') !== '';
}

function withCondition(request: Request, condition: RequestCondition): Request {
  return { ...request, status: { ...request.status, conditions: [...(request.status?.conditions ?? []), condition] } };
}
