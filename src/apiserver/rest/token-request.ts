/** Answers TokenRequests: checks what the token is to be bound to and has it signed. Nothing is stored. */
import type { TokenRequest } from '../../kube/kinds/service-account.ts';
import { type FieldError, invalidField } from '../../kube/schema/field-errors.ts';
import { timestamp } from '../../kube/values/times.ts';
import { admitAll } from '../admission/admission.ts';
import type { BoundName, IssuedToken, TokenOrder } from '../identity/service-account-tokens.ts';
import type { Subresource } from '../model/resource.ts';
import { badRequest, conflict, invalid, notFound, resourceName } from '../model/status.ts';
import { StoredObjects } from '../model/stored-objects.ts';
import type { ApiRequest, Reply } from './api-request.ts';
import { readExchanged } from './pod-subresources.ts';
import type { WriteDeps } from './write-context.ts';

interface TokenSigner {
  readonly audiences: readonly string[];
  issue(order: TokenOrder): IssuedToken;
}

export interface TokenDeps extends WriteDeps {
  readonly tokens: TokenSigner;
}

const requestKind = { group: 'authentication.k8s.io', name: 'TokenRequest' };

export async function requestToken(deps: TokenDeps, request: ApiRequest, subresource: Subresource): Promise<Reply> {
  const { resource, info, user } = request;
  const { namespace, name } = info;
  const { object } = await readExchanged(request, subresource);
  const asked = object as TokenRequest;
  const errors = addressErrors(asked, namespace, name);
  if (errors.length > 0) throw invalid(requestKind, name, errors);

  const objects = new StoredObjects(deps.store);
  const account = objects.serviceAccount(namespace, name);
  if (account === undefined) throw notFound(resourceName(resource), name);
  const uid = account.metadata.uid ?? '';
  const { uid: askedUid = '' } = asked.metadata;
  if (askedUid !== '' && askedUid !== uid) {
    throw conflict(
      requestKind,
      name,
      `the UID in the token request (${askedUid}) does not match the UID of the service account (${uid})`,
    );
  }
  const admission = { operation: 'CREATE', user, resource, subresource: 'token', namespace, name } as const;
  admitAll(deps.admission, { ...admission, object: asked, old: undefined });
  const bound = boundTo(objects, asked, namespace, name);

  const audiences = asked.spec.audiences.length === 0 ? deps.tokens.audiences : asked.spec.audiences;
  const expirationSeconds = asked.spec.expirationSeconds ?? 0;
  const order = { namespace, serviceAccount: { name, uid }, audiences, expirationSeconds, ...bound };
  const { token, expirationTimestamp } = deps.tokens.issue(order);
  const answer = {
    kind: 'TokenRequest',
    apiVersion: 'authentication.k8s.io/v1',
    metadata: { name, namespace, uid, creationTimestamp: timestamp(deps.clock.now()) },
    spec: { ...asked.spec, audiences, expirationSeconds },
    status: { token, expirationTimestamp },
  };
  return { kind: 'object', code: 201, text: JSON.stringify(answer) };
}

function addressErrors({ metadata }: TokenRequest, namespace: string, name: string): FieldError[] {
  const errors: FieldError[] = [];
  if (metadata.name !== '' && metadata.name !== name) {
    const text = 'must match the service account name if specified';
    errors.push(invalidField(['metadata', 'name'], metadata.name, text));
  }
  const { namespace: given = '' } = metadata;
  if (given !== '' && given !== namespace) {
    const text = 'must match the service account namespace if specified';
    errors.push(invalidField(['metadata', 'namespace'], given, text));
  }
  return errors;
}

type Bound = Pick<TokenOrder, 'pod' | 'secret' | 'node'>;

function boundTo(objects: StoredObjects, { spec }: TokenRequest, namespace: string, account: string): Bound {
  const reference = spec.boundObjectRef;
  if (reference === undefined) return {};
  const { kind = '', apiVersion = '', name = '', uid: expected = '' } = reference;
  const check = (resource: string, found: { metadata: { uid?: string } } | undefined): BoundName => {
    if (found === undefined) throw notFound({ group: '', name: resource }, name);
    const uid = found.metadata.uid ?? '';
    if (expected !== '' && expected !== uid) {
      throw conflict(
        { group: '', name: resource },
        name,
        `the UID in the bound object reference (${expected}) does not match the UID in record. The object might have been deleted and then recreated`,
      );
    }
    return { name, uid };
  };
  switch (`${apiVersion}/${kind}`) {
    case 'v1/Pod': {
      const pod = objects.pod(namespace, name);
      const bound = check('pods', pod);
      if (pod?.spec.serviceAccountName !== account) {
        throw badRequest(
          `cannot bind token for serviceaccount ${JSON.stringify(account)} to pod running with different serviceaccount name.`,
        );
      }
      return { pod: bound, ...nodeOf(objects, pod.spec.nodeName ?? '') };
    }
    case 'v1/Secret':
      return { secret: check('secrets', objects.secret(namespace, name)) };
    case 'v1/Node':
      return { node: check('nodes', objects.node(name)) };
    default:
      throw badRequest(`cannot bind token to object of type ${apiVersion}, Kind=${kind}`);
  }
}

/** A pod's token says where the pod runs, as far as that is known. */
function nodeOf(objects: StoredObjects, name: string): Bound {
  if (name === '') return {};
  return { node: { name, uid: objects.node(name)?.metadata.uid ?? '' } };
}
