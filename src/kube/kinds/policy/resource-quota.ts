/** ResourceQuotas: how much of everything a namespace may use. */
import { type FieldError, invalidField, requiredField } from '../../schema/field-errors.ts';
import { resourceKind } from '../../schema/kind.ts';
import { objectFields } from '../../schema/meta.ts';
import { validateObjectMeta, validateObjectMetaUpdate } from '../../schema/metadata-validation.ts';
import { resourceQuantityErrors } from '../../schema/number-validation.ts';
import {
  type FieldPath,
  type Of,
  atomic,
  described,
  list,
  object,
  required,
  resourceList,
  string,
  keyPart,
} from '../../schema/schema.ts';
import { dnsSubdomainProblems } from '../../values/names.ts';
import { type ResourceList } from '../../values/quantity.ts';
import { resourceNameErrors, standardResources } from '../pod/resource-validation.ts';

const resourceQuotaShape = described(
  {
    text: 'How much a namespace may use. Not enforced by this server.',
    fields: { spec: 'What may be used.', status: 'What may be used, and what is.' },
  },
  object({
    ...objectFields,
    spec: object({
      hard: resourceList,
      scopes: list(string),
      scopeSelector: atomic(
        object({
          matchExpressions: list(
            object({ scopeName: required(string), operator: required(string), values: list(string) }),
          ),
        }),
      ),
    }),
    status: object({ hard: resourceList, used: resourceList }),
  }),
);
export interface ResourceQuota extends Of<typeof resourceQuotaShape> {}
type Spec = NonNullable<ResourceQuota['spec']>;

export const resourceQuotaKind = resourceKind<ResourceQuota>({
  kind: 'ResourceQuota',
  plural: 'resourcequotas',
  shortNames: ['quota'],
  namespaced: true,
  shape: resourceQuotaShape,
  validate: ({ metadata, spec = {} }) => [
    ...validateObjectMeta(metadata, { name: dnsSubdomainProblems, scope: 'namespace' }),
    ...specErrors(spec),
  ],
  validateUpdate: ({ metadata, spec = {} }, old) => [
    ...validateObjectMetaUpdate(metadata, old.metadata),
    ...specErrors(spec),
    ...(sorted(spec.scopes) === sorted(old.spec?.scopes)
      ? []
      : [invalidField(['spec', 'scopes'], spec.scopes ?? null, 'field is immutable')]),
  ],
  wire: {
    ResourceQuota: '1 metadata ObjectMeta, 2 spec ResourceQuotaSpec, 3 status ResourceQuotaStatus',
    ResourceQuotaSpec: '1 hard {Quantity}, 2 scopes [string], 3 scopeSelector? ScopeSelector',
    ScopeSelector: '1 matchExpressions [ScopedResourceSelectorRequirement]',
    ScopedResourceSelectorRequirement: '1 scopeName!, 2 operator!, 3 values [string]',
    ResourceQuotaStatus: '1 hard {Quantity}, 2 used {Quantity}',
  },
});

function sorted(scopes: readonly string[] = []): string {
  return [...new Set(scopes)].toSorted().join();
}

export function validateQuotaStatus({ metadata, status = {} }: ResourceQuota, old: ResourceQuota): FieldError[] {
  return [
    ...validateObjectMetaUpdate(metadata, old.metadata),
    ...amountErrors(status.hard, ['status', 'hard']),
    ...amountErrors(status.used, ['status', 'used']),
  ];
}

function specErrors(spec: Spec): FieldError[] {
  return [
    ...amountErrors(spec.hard, ['spec', 'hard']),
    ...scopeErrors(spec, spec.scopes ?? [], ['spec', 'scopes']),
    ...selectorErrors(spec, ['spec', 'scopeSelector', 'matchExpressions']),
  ];
}

function amountErrors(amounts: ResourceList = {}, path: FieldPath): FieldError[] {
  return Object.entries(amounts).flatMap(([name, value]) => {
    const here = [...path, keyPart(name)];
    // The one standard resource that says nothing about a namespace.
    const isKnown = name.includes('/') || (name !== 'storage' && isQuotaResource(name));
    return [
      ...resourceNameErrors(name, here),
      ...(isKnown ? [] : [invalidField(here, name, 'must be a standard resource for quota')]),
      ...resourceQuantityErrors(name, value, here),
    ];
  });
}

function isQuotaResource(name: string): boolean {
  return standardResources.has(name) || /^(requests\.)?hugepages-/.test(name);
}

const computeResources = new Set(
  ['cpu', 'memory'].flatMap((name) => [name, `requests.${name}`, `limits.${name}`]).concat('pods'),
);
const claimResources = new Set(['persistentvolumeclaims', 'requests.storage']);

/** What of a namespace each scope narrows down. */
const scopes: Readonly<Record<string, ReadonlySet<string>>> = {
  Terminating: computeResources,
  NotTerminating: computeResources,
  NotBestEffort: computeResources,
  PriorityClass: computeResources,
  CrossNamespacePodAffinity: computeResources,
  BestEffort: new Set(['pods']),
  VolumeAttributesClass: claimResources,
};
const opposites = [
  ['BestEffort', 'NotBestEffort'],
  ['Terminating', 'NotTerminating'],
];

function scopeErrors({ hard = {} }: Spec, names: readonly string[], path: FieldPath): FieldError[] {
  const refuse = (detail: string): FieldError => invalidField(path, names, detail);
  const all = Object.keys(hard).filter((name) => name !== 'storage' && isQuotaResource(name));
  return [
    ...names.flatMap((name) => {
      const narrowed = Object.hasOwn(scopes, name) ? scopes[name] : undefined;
      if (narrowed === undefined) return [refuse('unsupported scope')];
      return all.filter((one) => !narrowed.has(one)).map(() => refuse('unsupported scope applied to resource'));
    }),
    ...opposites.filter((pair) => pair.every((one) => names.includes(one))).map(() => refuse('conflicting scopes')),
  ];
}

const existence = new Set([
  'BestEffort',
  'NotBestEffort',
  'Terminating',
  'NotTerminating',
  'CrossNamespacePodAffinity',
]);

function selectorErrors(spec: Spec, path: FieldPath): FieldError[] {
  const expressions = spec.scopeSelector?.matchExpressions ?? [];
  const errors = scopeErrors(
    spec,
    expressions.map(({ scopeName }) => scopeName),
    path,
  );
  for (const { scopeName, operator, values = [] } of expressions) {
    if (existence.has(scopeName) && operator !== 'Exists') {
      const detail =
        "must be 'Exists' when scope is any of ResourceQuotaScopeTerminating, ResourceQuotaScopeNotTerminating, ResourceQuotaScopeBestEffort, ResourceQuotaScopeNotBestEffort or ResourceQuotaScopeCrossNamespacePodAffinity";
      errors.push(invalidField([...path, 'operator'], operator, detail));
    }
    if (operator === 'In' || operator === 'NotIn') {
      const detail = "must be at least one value when `operator` is 'In' or 'NotIn' for scope selector";
      if (values.length === 0) errors.push(requiredField([...path, 'values'], detail));
    } else if (operator === 'Exists' || operator === 'DoesNotExist') {
      const detail = "must be no value when `operator` is 'Exist' or 'DoesNotExist' for scope selector";
      if (values.length > 0) errors.push(invalidField([...path, 'values'], values, detail));
    } else errors.push(invalidField([...path, 'operator'], operator, 'not a valid selector operator'));
  }
  return errors;
}
