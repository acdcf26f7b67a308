/** LimitRanges: bounds for what containers, pods and claims of a namespace ask for. */
import {
  type FieldError,
  duplicateField,
  forbiddenField,
  invalidField,
  invalidFields,
  requiredField,
} from '../../schema/field-errors.ts';
import { resourceKind } from '../../schema/kind.ts';
import { objectFields } from '../../schema/meta.ts';
import { validateObjectMeta, validateObjectMetaUpdate } from '../../schema/metadata-validation.ts';
import {
  type FieldPath,
  type Of,
  keyPart,
  described,
  list,
  object,
  required,
  resourceList,
  string,
} from '../../schema/schema.ts';
import { dnsSubdomainProblems, qualifiedNameProblems } from '../../values/names.ts';
import { Quantity, canBeOvercommitted, readQuantity } from '../../values/quantity.ts';
import { containerResourceNameErrors, resourceNameErrors } from '../pod/resource-validation.ts';

const limitRangeShape = described(
  {
    text: 'Bounds for what containers, pods and claims of a namespace ask for. Not enforced by this server.',
    fields: { spec: 'The bounds.' },
  },
  object({
    ...objectFields,
    spec: object({
      limits: required(
        list(
          object({
            type: required(string),
            max: resourceList,
            min: resourceList,
            default: resourceList,
            defaultRequest: resourceList,
            maxLimitRequestRatio: resourceList,
          }),
        ),
      ),
    }),
  }),
);
export interface LimitRange extends Of<typeof limitRangeShape> {}
type Limit = NonNullable<LimitRange['spec']>['limits'][number];

export const limitRangeKind = resourceKind<LimitRange>({
  kind: 'LimitRange',
  plural: 'limitranges',
  shortNames: ['limits'],
  namespaced: true,
  shape: limitRangeShape,
  complete: (range) =>
    range.spec === undefined ? range : { ...range, spec: { limits: range.spec.limits.map(withDefaults) } },
  validate: validateLimitRange,
  validateUpdate: (range, old) => [
    ...validateObjectMetaUpdate(range.metadata, old.metadata),
    ...validateLimitRange(range),
  ],
  wire: {
    LimitRange: '1 metadata ObjectMeta, 2 spec LimitRangeSpec',
    LimitRangeSpec: '1 limits! [LimitRangeItem]',
    LimitRangeItem: `
      1 type!, 2 max {Quantity}, 3 min {Quantity}, 4 default {Quantity}, 5 defaultRequest {Quantity},
      6 maxLimitRequestRatio {Quantity}`,
  },
});

/** Of containers: a limit is the maximum unless given, and a request the limit, or else the minimum. */
function withDefaults(limit: Limit): Limit {
  if (limit.type !== 'Container') return limit;
  const defaults = { ...limit.max, ...limit.default };
  return { ...limit, default: defaults, defaultRequest: { ...limit.min, ...defaults, ...limit.defaultRequest } };
}

const types = new Set(['Pod', 'Container', 'PersistentVolumeClaim']);

function validateLimitRange({ metadata, spec }: LimitRange): FieldError[] {
  const { limits = [] } = spec ?? {};
  return [
    ...validateObjectMeta(metadata, { name: dnsSubdomainProblems, scope: 'namespace' }),
    ...limits.flatMap((limit, index) => {
      const path = ['spec', 'limits', index];
      const isRepeated = limits.findIndex(({ type }) => type === limit.type) < index;
      return [
        ...typeErrors(limit.type, [...path, 'type']),
        ...(isRepeated ? [duplicateField([...path, 'type'], limit.type)] : []),
        ...limitErrors(limit, path),
      ];
    }),
  ];
}

function typeErrors(type: string, path: FieldPath): FieldError[] {
  const errors = invalidFields(path, type, qualifiedNameProblems(type));
  if (errors.length > 0 || type.includes('/') || types.has(type)) return errors;
  return [invalidField(path, type, 'must be a standard limit type or fully qualified')];
}

const fields = ['max', 'min', 'default', 'defaultRequest', 'maxLimitRequestRatio'] as const;
type Amounts = { readonly [Field in (typeof fields)[number]]?: Quantity };

function limitErrors(limit: Limit, path: FieldPath): FieldError[] {
  const { type } = limit;
  const isPod = type === 'Pod';
  const errors: FieldError[] = [];
  const names = new Set<string>();
  for (const field of fields) {
    const amounts = limit[field] ?? {};
    if (isPod && (field === 'default' || field === 'defaultRequest')) {
      const isGiven = Object.keys(amounts).length > 0;
      if (isGiven) errors.push(forbiddenField([...path, field], "may not be specified when `type` is 'Pod'"));
      continue;
    }
    for (const name of Object.keys(amounts)) {
      const here = [...path, field, keyPart(name)];
      const rule = isPod || type === 'Container' ? containerResourceNameErrors : resourceNameErrors;
      errors.push(...rule(name, here));
      names.add(name);
    }
  }
  if (type === 'PersistentVolumeClaim' && !Object.hasOwn({ ...limit.min, ...limit.max }, 'storage')) {
    const detail = 'either minimum or maximum storage value is required, but neither was provided';
    errors.push(requiredField([...path, 'limits'], detail));
  }
  for (const name of names) errors.push(...orderErrors(name, amountsOf(limit, name, isPod), path));
  return errors;
}

function amountsOf(limit: Limit, name: string, isPod: boolean): Amounts {
  const given = fields.flatMap((field) => {
    const amount = readQuantity(limit[field]?.[name]);
    const counts = !isPod || (field !== 'default' && field !== 'defaultRequest');
    return amount === undefined || !counts ? [] : [[field, amount] as const];
  });
  return Object.fromEntries(given);
}

/** Which amount may not be larger than which, in the words and at the place of the error. */
const orders: readonly {
  readonly small: keyof Amounts;
  readonly large: keyof Amounts;
  readonly at: keyof Amounts;
  readonly shown: keyof Amounts;
  readonly words: readonly [string, string];
}[] = [
  { small: 'min', large: 'max', at: 'min', shown: 'min', words: ['min', 'max'] },
  {
    small: 'min',
    large: 'defaultRequest',
    at: 'defaultRequest',
    shown: 'defaultRequest',
    words: ['min', 'default request'],
  },
  {
    small: 'defaultRequest',
    large: 'max',
    at: 'defaultRequest',
    shown: 'defaultRequest',
    words: ['default request', 'max'],
  },
  {
    small: 'defaultRequest',
    large: 'default',
    at: 'defaultRequest',
    shown: 'defaultRequest',
    words: ['default request', 'default limit'],
  },
  { small: 'min', large: 'default', at: 'default', shown: 'min', words: ['min', 'default'] },
  { small: 'default', large: 'max', at: 'default', shown: 'max', words: ['default', 'max'] },
];

function orderErrors(name: string, amounts: Amounts, path: FieldPath): FieldError[] {
  const errors: FieldError[] = [];
  const refuse = (field: keyof Amounts, shown: Quantity, detail: string): void => {
    errors.push(invalidField([...path, field, keyPart(name)], String(shown), detail));
  };
  for (const { small, large, at, shown, words } of orders) {
    const [less, more] = [amounts[small], amounts[large]];
    if (less === undefined || more === undefined || less.compare(more) <= 0) continue;
    const detail = `${words[0]} value ${String(less)} is greater than ${words[1]} value ${String(more)}`;
    refuse(at, amounts[shown] ?? less, detail);
  }
  const { maxLimitRequestRatio: ratio, min, max, default: limit, defaultRequest: request } = amounts;
  if (ratio !== undefined && ratio.compare(Quantity.parse('1')) < 0) {
    refuse('maxLimitRequestRatio', ratio, `ratio ${String(ratio)} is less than 1`);
  }
  if (ratio !== undefined && min !== undefined && max !== undefined) {
    const ratioMax = Number(max.milliValue()) / Number(min.milliValue());
    const detail = `ratio ${String(ratio)} is greater than max/min = ${ratioMax.toFixed(6)}`;
    if (Number(ratio.milliValue()) / 1000 > ratioMax) refuse('maxLimitRequestRatio', ratio, detail);
  }
  if (!canBeOvercommitted(name) && limit !== undefined && request !== undefined && limit.compare(request) !== 0) {
    const detail = `default value ${String(limit)} must equal to defaultRequest value ${String(request)} in ${name}`;
    refuse('defaultRequest', request, detail);
  }
  return errors;
}
