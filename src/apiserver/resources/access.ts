/** Roles and their bindings, as they are served. What they allow is in `identity/`, who may write them in `admission/escalation.ts`. */
import {
  type RoleBinding,
  type Subject,
  clusterRoleBindingKind,
  roleBindingKind,
} from '../../kube/kinds/access/role-binding.ts';
import { clusterRoleKind, roleKind } from '../../kube/kinds/access/role.ts';
import { ageColumn, createdAtColumn, nameColumn, text, wide } from '../model/columns.ts';
import { type Column, resource } from '../model/resource.ts';

const roleParts = { allowsCreateOnUpdate: true, columns: [nameColumn, createdAtColumn] };

export const roles = resource(roleKind, roleParts);
export const clusterRoles = resource(clusterRoleKind, roleParts);

const bindingColumns: readonly Column<RoleBinding>[] = [
  nameColumn,
  text('Role', 'The role and its kind.', ({ roleRef }) => `${roleRef.kind}/${roleRef.name}`),
  ageColumn,
  wide('Users', 'The users that it is given to.', (binding) => subjectsOf(binding, 'User', ({ name }) => name)),
  wide('Groups', 'The groups that it is given to.', (binding) => subjectsOf(binding, 'Group', ({ name }) => name)),
  wide('ServiceAccounts', 'The service accounts that it is given to.', (binding) =>
    subjectsOf(binding, 'ServiceAccount', ({ namespace = '', name }) => `${namespace}/${name}`),
  ),
];
const bindingParts = { allowsCreateOnUpdate: true, columns: bindingColumns };

export const roleBindings = resource(roleBindingKind, bindingParts);
export const clusterRoleBindings = resource(clusterRoleBindingKind, bindingParts);

function subjectsOf({ subjects = [] }: RoleBinding, kind: string, show: (subject: Subject) => string): string {
  return subjects
    .filter((subject) => subject.kind === kind)
    .map(show)
    .join(', ');
}
