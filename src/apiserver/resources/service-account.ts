import {
  type ServiceAccount,
  type TokenRequest,
  defaultTokenRequest,
  serviceAccountShape,
  tokenRequestShape,
  validateServiceAccount,
  validateServiceAccountUpdate,
  validateTokenRequest,
} from '../../kube/kinds/service-account.ts';
import { ageColumn, nameColumn } from '../model/columns.ts';
import { type ExchangedKind, resource } from '../model/resource.ts';

const tokenRequestKind: ExchangedKind<TokenRequest> = {
  group: 'authentication.k8s.io',
  version: 'v1',
  kind: 'TokenRequest',
  shape: tokenRequestShape,
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
  shape: serviceAccountShape,
  validate: (object) => validateServiceAccount(object),
  validateUpdate: validateServiceAccountUpdate,
  columns: [nameColumn, ageColumn],
  deleteAnswers: 'object',
});
