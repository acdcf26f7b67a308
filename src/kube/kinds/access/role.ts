/** Roles and ClusterRoles: lists of what somebody may do. Who that is, a binding says. */
import { type FieldError, invalidField, requiredField } from '../../schema/field-errors.ts';
import { resourceKind } from '../../schema/kind.ts';
import { labelSelector, objectFields } from '../../schema/meta.ts';
import {
  validateLabelSelector,
  validateObjectMeta,
  validateObjectMetaUpdate,
} from '../../schema/metadata-validation.ts';
import { type FieldPath, type Of, atomic, described, list, object, required, string } from '../../schema/schema.ts';
import { pathSegmentProblems } from '../../values/names.ts';

export const accessGroup = 'rbac.authorization.k8s.io';

const policyRule = described(
  {
    name: 'PolicyRule',
    text: 'One thing that is allowed: verbs on resources, or on paths that are no resources. A star stands for all.',
    fields: {
      verbs: 'What may be done.',
      apiGroups: 'The groups of the resources. The core group is the empty text.',
      resources: 'The resources, by their plurals. `pods/log` is a subresource, `*/scale` that of any resource.',
      resourceNames: 'The names of the objects. Without one, all.',
      nonResourceURLs: 'Paths. One that ends with a star stands for all that begin like it. In ClusterRoles only.',
    },
  },
  object({
    verbs: required(list(string)),
    apiGroups: list(string),
    resources: list(string),
    resourceNames: list(string),
    nonResourceURLs: list(string),
  }),
);
export interface PolicyRule extends Of<typeof policyRule> {}

const roleShape = described(
  { text: 'What somebody may do in a namespace.', fields: { rules: 'Each allows something. Nothing is forbidden.' } },
  object({ ...objectFields, rules: atomic(list(policyRule)) }),
);
export interface Role extends Of<typeof roleShape> {}

const clusterRoleShape = described(
  {
    text: 'What somebody may do in the whole cluster, or in a namespace if a RoleBinding refers to it.',
    fields: {
      rules: 'Each allows something. Nothing is forbidden.',
      aggregationRule: 'Where the rules come from. A controller then writes them, over whatever else is there.',
    },
  },
  object({
    ...objectFields,
    rules: atomic(list(policyRule)),
    aggregationRule: object({ clusterRoleSelectors: atomic(list(labelSelector)) }),
  }),
);
export interface ClusterRole extends Of<typeof clusterRoleShape> {}

const wire = {
  PolicyRule:
    '1 verbs [string], 2 apiGroups [string], 3 resources [string], 4 resourceNames [string], 5 nonResourceURLs [string]',
};

export const roleKind = resourceKind<Role>({
  group: accessGroup,
  kind: 'Role',
  plural: 'roles',
  namespaced: true,
  shape: roleShape,
  validate: validateRole,
  validateUpdate: (role, old) => [...validateRole(role), ...validateObjectMetaUpdate(role.metadata, old.metadata)],
  wire: { Role: '1 metadata ObjectMeta, 2 rules [PolicyRule]', ...wire },
});

export const clusterRoleKind = resourceKind<ClusterRole>({
  group: accessGroup,
  kind: 'ClusterRole',
  plural: 'clusterroles',
  namespaced: false,
  shape: clusterRoleShape,
  validate: validateClusterRole,
  validateUpdate: (role, old) => [
    ...validateClusterRole(role),
    ...validateObjectMetaUpdate(role.metadata, old.metadata),
  ],
  wire: {
    ClusterRole: '1 metadata ObjectMeta, 2 rules [PolicyRule], 3 aggregationRule? AggregationRule',
    AggregationRule: '1 clusterRoleSelectors [LabelSelector]',
  },
});

function validateRole({ metadata, rules = [] }: Role): FieldError[] {
  return [
    ...validateObjectMeta(metadata, { name: pathSegmentProblems, scope: 'namespace' }),
    ...rules.flatMap((rule, index) => ruleErrors(rule, true, ['rules', index])),
  ];
}

function validateClusterRole({ metadata, rules = [], aggregationRule }: ClusterRole): FieldError[] {
  const path = ['aggregationRule', 'clusterRoleSelectors'];
  const selectors = aggregationRule?.clusterRoleSelectors ?? [];
  const isEmpty = aggregationRule !== undefined && selectors.length === 0;
  return [
    ...validateObjectMeta(metadata, { name: pathSegmentProblems, scope: 'cluster' }),
    ...rules.flatMap((rule, index) => ruleErrors(rule, false, ['rules', index])),
    ...(isEmpty
      ? [requiredField(path, 'at least one clusterRoleSelector required if aggregationRule is non-nil')]
      : []),
    ...selectors.flatMap((selector, index) => validateLabelSelector(selector, [...path, index])),
  ];
}

function ruleErrors(rule: PolicyRule, isNamespaced: boolean, path: FieldPath): FieldError[] {
  const { verbs, apiGroups = [], resources = [], resourceNames = [], nonResourceURLs = [] } = rule;
  const errors: FieldError[] = [];
  if (verbs.length === 0) errors.push(requiredField([...path, 'verbs'], 'verbs must contain at least one value'));
  if (nonResourceURLs.length > 0) {
    const here = [...path, 'nonResourceURLs'];
    const isMixed = apiGroups.length > 0 || resources.length > 0 || resourceNames.length > 0;
    const wrong = (detail: string): FieldError => invalidField(here, nonResourceURLs, detail);
    if (isNamespaced) errors.push(wrong('namespaced rules cannot apply to non-resource URLs'));
    if (isMixed) errors.push(wrong('rules cannot apply to both regular resources and non-resource URLs'));
    return errors;
  }
  if (apiGroups.length === 0) {
    errors.push(requiredField([...path, 'apiGroups'], 'resource rules must supply at least one api group'));
  }
  if (resources.length === 0) {
    errors.push(requiredField([...path, 'resources'], 'resource rules must supply at least one resource'));
  }
  return errors;
}
