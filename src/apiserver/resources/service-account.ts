import { type ServiceAccount, serviceAccount } from '../../kube/objects/service-account.ts';
import { type TokenRequest, defaultTokenRequest, tokenRequest } from '../../kube/objects/token-request.ts';
import {
  validateServiceAccount,
  validateServiceAccountUpdate,
} from '../../kube/validation/validate-service-account.ts';
import { validateTokenRequest } from '../../kube/validation/validate-token-request.ts';
import { ageColumn, nameColumn } from '../model/columns.ts';
import { type ExchangedKind, resource } from '../model/resource.ts';

const tokenRequestKind: ExchangedKind<TokenRequest> = {
  group: 'authentication.k8s.io',
  version: 'v1',
  kind: 'TokenRequest',
  shape: tokenRequest,
  complete: defaultTokenRequest,
  validate: validateTokenRequest,
};

export const serviceAccounts = resource<ServiceAccount>({
  version: 'v1',
  plural: 'serviceaccounts',
  singular: 'serviceaccount',
  kind: 'ServiceAccount',
  shortNames: ['sa'],
  namespaced: true,
  subresources: [{ name: 'token', kind: tokenRequestKind, verbs: ['create'] }],
  shape: serviceAccount,
  validate: (object) => validateServiceAccount(object),
  validateUpdate: validateServiceAccountUpdate,
  columns: [nameColumn, ageColumn],
  deleteAnswers: 'object',
});
