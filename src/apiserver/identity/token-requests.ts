/**
 * A TokenRequest: is it in order, and what token does it ask for? Pure; the caller fetched the account and the object that
 * the token is to be bound to. What a node may ask for is checked before, in `node-restriction.ts`.
 */
import { invalidField } from '../../kube/validation/field-errors.ts';
import type { FieldError } from '../../kube/validation/field-errors.ts';
import { integer, list, map, object, string } from '../../kube/objects/schema.ts';
import type { Of } from '../../kube/objects/schema.ts';
import type { TokenOrder } from './token-issuer.ts';

export const tokenRequestSpec = object({
  audiences: list(string),
  expirationSeconds: integer,
  boundObjectRef: object({ kind: string, apiVersion: string, name: string, uid: string }),
  attestations: map(list(string)),
});
export interface TokenRequestSpec extends Of<typeof tokenRequestSpec> {}

const expirationSecondsDefault = 3600;
const expirationSecondsMin = 600;
const expirationSecondsMax = 2 ** 32;

/** What the request did not say. The answer repeats it, and a kubelet plans the next request by the echoed expiry. */
export function completeTokenRequest(
  spec: TokenRequestSpec,
  serverAudiences: readonly string[],
): TokenRequestSpec & { readonly expirationSeconds: number; readonly audiences: readonly string[] } {
  const { audiences = [], expirationSeconds = expirationSecondsDefault } = spec;
  return { ...spec, expirationSeconds, audiences: audiences.length === 0 ? serverAudiences : audiences };
}

export function validateTokenRequest({
  expirationSeconds = expirationSecondsDefault,
}: TokenRequestSpec): readonly FieldError[] {
  const path = ['spec', 'expirationSeconds'];
  if (expirationSeconds < expirationSecondsMin) {
    return [invalidField(path, expirationSeconds, 'may not specify a duration less than 10 minutes')];
  }
  if (expirationSeconds > expirationSecondsMax) {
    return [invalidField(path, expirationSeconds, 'may not specify a duration larger than 2^32 seconds')];
  }
  return [];
}

/** `limitSeconds` is the server's own maximum; the requester learns of a shorter life by the echo and by a warning. */
export function shortenExpiry(
  expirationSeconds: number,
  limitSeconds: number,
): { readonly expirationSeconds: number; readonly warning: string | undefined } {
  if (expirationSeconds <= limitSeconds) return { expirationSeconds, warning: undefined };
  const warning = `requested expiration of ${expirationSeconds} seconds shortened to ${limitSeconds} seconds`;
  return { expirationSeconds: limitSeconds, warning };
}

export interface BoundObject {
  readonly uid: string;
  /** Of a pod: who it runs as and where. */
  readonly serviceAccountName?: string;
  readonly nodeName?: string;
}

/** Where the object of a reference is to be looked for. Nodes live in no namespace, the others in the account's. */
export type BoundKind = 'Pod' | 'Secret' | 'Node';

export type TokenBinding =
  | { readonly kind: 'bound'; readonly parts: Pick<TokenOrder, 'pod' | 'secret' | 'node'> }
  | { readonly kind: 'refused'; readonly code: 400 | 404 | 409; readonly message: string };

/** The live object, if there is one. */
export type FindBound = (kind: BoundKind, name: string) => BoundObject | undefined;

export function bindToken(
  reference: TokenRequestSpec['boundObjectRef'],
  account: string,
  find: FindBound,
): TokenBinding {
  if (reference === undefined) return { kind: 'bound', parts: {} };
  const { apiVersion = '', kind = '', name = '', uid = '' } = reference;
  const [version = '', group = ''] = apiVersion.split('/').toReversed();
  if (group !== '' || !isBoundKind(kind)) {
    return refused(400, `cannot bind token to object of type ${group}/${version}, Kind=${kind}`);
  }
  const found = find(kind, name);
  if (found === undefined) return refused(404, `${plurals[kind]} "${name}" not found`);
  if (kind === 'Pod' && found.serviceAccountName !== account) {
    const text = `cannot bind token for serviceaccount "${account}" to pod running with different serviceaccount name.`;
    return refused(400, text);
  }
  if (uid !== '' && uid !== found.uid) {
    const text = `the UID in the bound object reference (${uid}) does not match the UID in record. The object might have been deleted and then recreated`;
    return refused(409, `Operation cannot be fulfilled on ${kind} "${name}": ${text}`);
  }
  const bound = { name, uid: found.uid };
  if (kind === 'Secret') return { kind: 'bound', parts: { secret: bound } };
  if (kind === 'Node') return { kind: 'bound', parts: { node: bound } };
  return { kind: 'bound', parts: { pod: bound, ...nodeOfPod(found, find) } };
}

/** A scheduled pod's token says on which node; a Node object that does not exist leaves the name alone. */
function nodeOfPod({ nodeName = '' }: BoundObject, find: FindBound): Pick<TokenOrder, 'node'> {
  return nodeName === '' ? {} : { node: { name: nodeName, uid: find('Node', nodeName)?.uid ?? '' } };
}

const plurals: Readonly<Record<BoundKind, string>> = { Pod: 'pods', Secret: 'secrets', Node: 'nodes' };

function isBoundKind(kind: string): kind is BoundKind {
  return Object.hasOwn(plurals, kind);
}

function refused(code: 400 | 404 | 409, message: string): TokenBinding {
  return { kind: 'refused', code, message };
}
