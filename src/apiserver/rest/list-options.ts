/** The query parameters of lists and watches, parsed and checked against each other. */
import { isRecord } from '../../kube/schema/equality.ts';
import { type FieldError, forbiddenField, unsupportedField } from '../../kube/schema/field-errors.ts';
import { goQuote } from '../../kube/values/go-text.ts';
import { badRequest, invalid } from '../model/status.ts';

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

/** As Go reads booleans of a query: all but `false` and `0`. */
function isTrue(text: string | null): boolean {
  return text !== null && text.toLowerCase() !== 'false' && text !== '0';
}

/** Where the next page of a list begins. Clients hand back its text, which has the API's own form because some tools read it. */
export interface ContinueToken {
  /** The snapshot all pages are of; -1 for one that is gone: the rest then comes from now. */
  readonly revision: number;
  /** The last key of the page before, without the list's prefix. */
  readonly after: string;
}

const version = 'meta.k8s.io/v1';

export function encodeContinue({ revision, after }: ContinueToken): string {
  return Buffer.from(JSON.stringify({ v: version, rv: revision, start: `${after}\0` })).toString('base64url');
}

export function decodeContinue(text: string): ContinueToken {
  const refuse = (detail: string): Error => badRequest(`invalid continue token: continue key is not valid${detail}`);
  let json: unknown;
  try {
    if (!/^[A-Za-z0-9_-]+$/.test(text)) throw new SyntaxError('not base64');
    json = JSON.parse(Buffer.from(text, 'base64url').toString('utf8'));
  } catch {
    throw refuse('');
  }
  if (!isRecord(json)) throw refuse('');
  if (json['v'] !== version) throw refuse(': server does not recognize this encoded version');
  const { rv, start } = json;
  if (typeof rv !== 'number' || !Number.isSafeInteger(rv) || rv === 0 || rv < -1) {
    throw refuse(`: incorrect encoded start resourceVersion (version ${version})`);
  }
  if (typeof start !== 'string' || start === '') throw refuse(`: encoded start key empty (version ${version})`);
  const after = start.replace(/\0$/, '');
  if (
    after.length > 1024 ||
    after.includes('\0') ||
    after.split('/').some((part) => part === '' || /^\.\.?$/.test(part))
  ) {
    throw refuse('');
  }
  return { revision: rv, after };
}
