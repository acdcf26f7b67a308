import { serviceAccountKind, tokenRequestKind } from '../../kube/kinds/service-account.ts';
import { ageColumn, nameColumn } from '../model/columns.ts';
import { resource } from '../model/resource.ts';

export const serviceAccounts = resource(serviceAccountKind, {
  subresources: [{ name: 'token', kind: tokenRequestKind, verbs: ['create'] }],
  columns: [nameColumn, ageColumn],
  deleteAnswers: 'object',
});
