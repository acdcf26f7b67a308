/** RoleBindings and ClusterRoleBindings: who may do what a role allows. */
import {
  type FieldError,
  invalidField,
  invalidFields,
  requiredField,
  unsupportedText,
} from '../../schema/field-errors.ts';
import { resourceKind } from '../../schema/kind.ts';
import { objectFields } from '../../schema/meta.ts';
import { validateObjectMeta, validateObjectMetaUpdate } from '../../schema/metadata-validation.ts';
import { type FieldPath, type Of, atomic, described, list, object, required, string } from '../../schema/schema.ts';
import { dnsSubdomainProblems, pathSegmentProblems } from '../../values/names.ts';
import { accessGroup } from './role.ts';

const subject = described(
  {
    name: 'Subject',
    text: 'Somebody: a user, a group of users, or a service account.',
    fields: {
      kind: 'User, Group or ServiceAccount.',
      apiGroup: 'The group of the kind: rbac.authorization.k8s.io, or nothing for service accounts.',
      name: 'The name.',
      namespace: 'Of a service account. In a RoleBinding its own if absent.',
    },
  },
  object({ kind: required(string), apiGroup: string, name: required(string), namespace: string }),
);
export interface Subject extends Of<typeof subject> {}

const roleRef = described(
  {
    name: 'RoleRef',
    text: 'The role. It cannot be changed.',
    fields: { apiGroup: 'rbac.authorization.k8s.io.', kind: 'Role or ClusterRole.', name: 'The name of the role.' },
  },
  atomic(object({ apiGroup: required(string), kind: required(string), name: required(string) })),
);
export interface RoleRef extends Of<typeof roleRef> {}

const fields = object({ ...objectFields, subjects: atomic(list(subject)), roleRef: required(roleRef) });
const texts = { subjects: 'Who may do it.', roleRef: 'The role. It cannot be changed.' };
const roleBindingShape = described({ text: 'Who may do what a role allows, in a namespace.', fields: texts }, fields);
const clusterRoleBindingShape = described(
  { text: 'Who may do what a ClusterRole allows, in the whole cluster.', fields: texts },
  fields,
);
/** Both kinds; only that of a ClusterRoleBinding has no namespace. */
export interface RoleBinding extends Of<typeof roleBindingShape> {}

export const roleBindingKind = resourceKind<RoleBinding>({
  group: accessGroup,
  kind: 'RoleBinding',
  plural: 'rolebindings',
  namespaced: true,
  shape: roleBindingShape,
  complete: withGroups,
  validate: (binding) => bindingErrors(binding, 'namespace'),
  validateUpdate: (binding, old) => [...bindingErrors(binding, 'namespace'), ...changeErrors(binding, old)],
  wire: {
    RoleBinding: '1 metadata ObjectMeta, 2 subjects [Subject], 3 roleRef! RoleRef',
    RoleRef: '1 apiGroup!, 2 kind!, 3 name!',
    Subject: '1 kind!, 2 apiGroup, 3 name!, 4 namespace',
  },
});

export const clusterRoleBindingKind = resourceKind<RoleBinding>({
  group: accessGroup,
  kind: 'ClusterRoleBinding',
  plural: 'clusterrolebindings',
  namespaced: false,
  shape: clusterRoleBindingShape,
  complete: withGroups,
  validate: (binding) => bindingErrors(binding, 'cluster'),
  validateUpdate: (binding, old) => [...bindingErrors(binding, 'cluster'), ...changeErrors(binding, old)],
  wire: { ClusterRoleBinding: '1 metadata ObjectMeta, 2 subjects [Subject], 3 roleRef! RoleRef' },
});

const people: readonly string[] = ['User', 'Group'];

function withGroups(binding: RoleBinding): RoleBinding {
  const { subjects, roleRef: role } = binding;
  return {
    ...binding,
    ...(subjects && { subjects: subjects.map(withGroup) }),
    roleRef: role.apiGroup === '' ? { ...role, apiGroup: accessGroup } : role,
  };
}

function withGroup(one: Subject): Subject {
  return (one.apiGroup ?? '') === '' && people.includes(one.kind) ? { ...one, apiGroup: accessGroup } : one;
}

function bindingErrors(
  { metadata, subjects = [], roleRef: role }: RoleBinding,
  scope: 'namespace' | 'cluster',
): FieldError[] {
  const errors = validateObjectMeta(metadata, { name: pathSegmentProblems, scope });
  const kinds = scope === 'namespace' ? ['Role', 'ClusterRole'] : ['ClusterRole'];
  if (role.apiGroup !== accessGroup) {
    errors.push(unsupportedText(['roleRef', 'apiGroup'], role.apiGroup, [accessGroup]));
  }
  if (!kinds.includes(role.kind)) errors.push(unsupportedText(['roleRef', 'kind'], role.kind, kinds));
  const here = ['roleRef', 'name'];
  if (role.name === '') errors.push(requiredField(here));
  return [
    ...errors,
    ...invalidFields(here, role.name, pathSegmentProblems(role.name)),
    ...subjects.flatMap((one, index) => subjectErrors(one, scope, ['subjects', index])),
  ];
}

function changeErrors(binding: RoleBinding, old: RoleBinding): FieldError[] {
  const errors = validateObjectMetaUpdate(binding.metadata, old.metadata);
  const { apiGroup, kind, name } = binding.roleRef;
  const isSame = apiGroup === old.roleRef.apiGroup && kind === old.roleRef.kind && name === old.roleRef.name;
  // The API server shows the value with the names of its own fields.
  const shown = { APIGroup: apiGroup, Kind: kind, Name: name };
  return isSame ? errors : [...errors, invalidField(['roleRef'], shown, 'cannot change roleRef')];
}

function subjectErrors(one: Subject, scope: 'namespace' | 'cluster', path: FieldPath): FieldError[] {
  const { kind, apiGroup = '', name, namespace = '' } = one;
  const errors = name === '' ? [requiredField([...path, 'name'])] : [];
  const group = [...path, 'apiGroup'];
  if (people.includes(kind)) {
    if (apiGroup !== accessGroup) errors.push(unsupportedText(group, apiGroup, [accessGroup]));
  } else if (kind === 'ServiceAccount') {
    if (name !== '') errors.push(...invalidFields([...path, 'name'], name, dnsSubdomainProblems(name)));
    if (apiGroup !== '') errors.push(unsupportedText(group, apiGroup, ['']));
    if (scope === 'cluster' && namespace === '') errors.push(requiredField([...path, 'namespace']));
  } else {
    errors.push(unsupportedText([...path, 'kind'], kind, ['ServiceAccount', ...people]));
  }
  return errors;
}
