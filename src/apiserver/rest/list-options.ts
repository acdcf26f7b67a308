/** The query parameters of lists and watches, parsed and checked against each other. */
import { type FieldError, forbiddenField, unsupportedField } from '../../kube/schema/field-errors.ts';
import { goQuote } from '../../kube/values/go-text.ts';
import { badRequest, invalid } from '../status.ts';

export interface ListOptions {
  readonly labelSelector: string;
  readonly fieldSelector: string;
  /** 0: no limit. */
  readonly limit: number;
  readonly continue: string;
  /** Undefined: the most recent. 0: any. */
  readonly resourceVersion: number | undefined;
  readonly resourceVersionMatch: '' | 'Exact' | 'NotOlderThan';
  readonly timeoutSeconds: number | undefined;
  readonly allowWatchBookmarks: boolean;
  readonly sendInitialEvents: boolean | undefined;
}

export function listOptions(query: URLSearchParams, isWatch: boolean): ListOptions {
  const match = query.get('resourceVersionMatch') ?? '';
  const version = query.get('resourceVersion') ?? '';
  const token = query.get('continue') ?? '';
  const initial = query.get('sendInitialEvents');
  const given = { match, version, token, hasInitial: initial !== null };
  const errors = isWatch ? watchErrors(given) : listErrors(given);
  if (errors.length > 0) throw invalid({ group: 'meta.k8s.io', name: 'ListOptions' }, '', errors);
  return {
    labelSelector: query.get('labelSelector') ?? '',
    fieldSelector: query.get('fieldSelector') ?? '',
    limit: Math.max(0, wholeNumber(query, 'limit') ?? 0),
    continue: token,
    resourceVersion: parseResourceVersion(version),
    resourceVersionMatch: match === 'Exact' || match === 'NotOlderThan' ? match : '',
    timeoutSeconds: wholeNumber(query, 'timeoutSeconds'),
    allowWatchBookmarks: isTrue(query.get('allowWatchBookmarks')),
    sendInitialEvents: initial === null ? undefined : isTrue(initial),
  };
}

export function parseResourceVersion(text: string): number | undefined {
  if (text === '') return undefined;
  if (!/^\d{1,20}$/.test(text)) {
    throw badRequest(
      `resourceVersion: Invalid value: ${goQuote(text)}: strconv.ParseUint: parsing ${goQuote(text)}: invalid syntax`,
    );
  }
  return Number(text);
}

interface Given {
  readonly match: string;
  readonly version: string;
  readonly token: string;
  readonly hasInitial: boolean;
}

const matchField = ['resourceVersionMatch'];

function listErrors({ match, version, token, hasInitial }: Given): FieldError[] {
  const errors: FieldError[] = [];
  const forbid = (text: string): number => errors.push(forbiddenField(matchField, text));
  if (match !== '') {
    if (version === '') forbid('resourceVersionMatch is forbidden unless resourceVersion is provided');
    if (token !== '') forbid('resourceVersionMatch is forbidden when continue is provided');
    if (match !== 'Exact' && match !== 'NotOlderThan') {
      errors.push(unsupportedField(matchField, match, ['Exact', 'NotOlderThan', '']));
    }
    if (match === 'Exact' && version === '0') {
      forbid('resourceVersionMatch "exact" is forbidden for resourceVersion "0"');
    }
  }
  if (hasInitial) errors.push(forbiddenField(['sendInitialEvents'], 'sendInitialEvents is forbidden for list'));
  return errors;
}

function watchErrors({ match, token, hasInitial }: Given): FieldError[] {
  const errors: FieldError[] = [];
  const forbid = (text: string): number => errors.push(forbiddenField(matchField, text));
  if (hasInitial && match !== 'NotOlderThan') {
    forbid('sendInitialEvents requires setting resourceVersionMatch to NotOlderThan');
  }
  if (match !== '') {
    if (!hasInitial) forbid('resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided');
    if (match !== 'NotOlderThan') errors.push(unsupportedField(matchField, match, ['NotOlderThan']));
    if (token !== '') forbid('resourceVersionMatch is forbidden when continue is provided');
  }
  return errors;
}

function wholeNumber(query: URLSearchParams, name: string): number | undefined {
  const text = query.get(name) ?? '';
  if (text === '') return undefined;
  if (!/^[+-]?\d{1,18}$/.test(text)) {
    throw badRequest(`${name}: strconv.ParseInt: parsing ${goQuote(text)}: invalid syntax`);
  }
  return Number(text);
}

/** As Go reads booleans of a query: anything that is not plainly no. */
function isTrue(text: string | null): boolean {
  return text !== null && text.toLowerCase() !== 'false' && text !== '0';
}
