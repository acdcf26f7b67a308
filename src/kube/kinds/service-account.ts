/** The ServiceAccount, and the TokenRequest by which a client gets a token of one. */
import { type FieldError, invalidField } from '../schema/field-errors.ts';
import { exchangedKind, resourceKind } from '../schema/kind.ts';
import { localObjectReference, objectFields, objectReference } from '../schema/meta.ts';
import { validateObjectMeta, validateObjectMetaUpdate } from '../schema/metadata-validation.ts';
import { type Of, boolean, described, integer, list, map, object, required, string, time } from '../schema/schema.ts';
import { dnsSubdomainProblems } from '../values/names.ts';

const serviceAccountShape = described(
  {
    text: 'Somebody that pods act as.',
    fields: {
      secrets: 'Secrets that pods of the account may use, where that is enforced.',
      imagePullSecrets: 'Secrets with the passwords of registries, for pods that name none.',
      automountServiceAccountToken: 'Whether pods get a token of the account. A pod may say otherwise.',
    },
  },
  object({
    ...objectFields,
    secrets: list(objectReference, 'name'),
    imagePullSecrets: list(localObjectReference),
    automountServiceAccountToken: boolean,
  }),
);
export interface ServiceAccount extends Of<typeof serviceAccountShape> {}

export const serviceAccountKind = resourceKind<ServiceAccount>({
  kind: 'ServiceAccount',
  plural: 'serviceaccounts',
  shortNames: ['sa'],
  namespaced: true,
  shape: serviceAccountShape,
  validate: validateServiceAccount,
  validateUpdate: validateServiceAccountUpdate,
  wire: {
    ServiceAccount: `
    1 metadata ObjectMeta, 2 secrets [ObjectReference], 3 imagePullSecrets [LocalObjectReference],
    4 automountServiceAccountToken? bool`,
  },
});

/** The Secrets it names need not exist, nor have valid names: they are checked when they are used. */
function validateServiceAccount({ metadata }: ServiceAccount): FieldError[] {
  return validateObjectMeta(metadata, { name: dnsSubdomainProblems, scope: 'namespace' }, ['metadata']);
}

function validateServiceAccountUpdate(account: ServiceAccount, old: ServiceAccount): FieldError[] {
  return [...validateObjectMetaUpdate(account.metadata, old.metadata), ...validateServiceAccount(account)];
}

/** A request for a token of a service account, with what it is for and how long. */
export const tokenRequestShape = described(
  {
    text: 'The request for a token of a service account.',
    fields: { spec: 'What the token is for.', status: 'The token.' },
  },
  object({
    ...objectFields,
    spec: required(
      object({
        audiences: required(list(string)),
        expirationSeconds: integer,
        boundObjectRef: object({ kind: string, apiVersion: string, name: string, uid: string }),
        attestations: map(list(string)),
      }),
    ),
    status: object({ token: required(string), expirationTimestamp: time }),
  }),
);
export interface TokenRequest extends Of<typeof tokenRequestShape> {}

export const tokenRequestKind = exchangedKind<TokenRequest>({
  group: 'authentication.k8s.io',
  kind: 'TokenRequest',
  shape: tokenRequestShape,
  complete: defaultTokenRequest,
  validate: validateTokenRequest,
  wire: {
    TokenRequest: '1 metadata ObjectMeta, 2 spec TokenRequestSpec, 3 status TokenRequestStatus',
    TokenRequestSpec: `
    1 audiences [string], 4 expirationSeconds? int, 3 boundObjectRef? BoundObjectReference, 5 attestations {Strings}`,
    BoundObjectReference: '1 kind, 2 apiVersion, 3 name, 4 uid',
    TokenRequestStatus: '1 token!, 2 expirationTimestamp Time',
  },
});

const hourSeconds = 60 * 60;

/** The kubelet plans its refresh by the time in the answer, so it is always there. */
function defaultTokenRequest(request: TokenRequest): TokenRequest {
  const { spec } = request;
  return { ...request, spec: { ...spec, expirationSeconds: spec.expirationSeconds ?? hourSeconds } };
}

const lifetimeSecondsMin = 10 * 60;
const lifetimeSecondsMax = 2 ** 32;

/** Expects a defaulted request. Whether the bound object exists is checked when the token is issued. */
function validateTokenRequest({ spec }: TokenRequest): FieldError[] {
  const { expirationSeconds: seconds = 0, attestations = {} } = spec;
  const path = ['spec', 'expirationSeconds'];
  const errors: FieldError[] = [];
  if (seconds < lifetimeSecondsMin) {
    errors.push(invalidField(path, seconds, 'may not specify a duration less than 10 minutes'));
  }
  if (seconds > lifetimeSecondsMax) {
    errors.push(invalidField(path, seconds, 'may not specify a duration larger than 2^32 seconds'));
  }
  if (Object.keys(attestations).length === 0) return errors;
  const detail = 'attestations may only be specified with a webhook bound object reference';
  return [invalidField(['spec', 'attestations'], attestations, detail)];
}
