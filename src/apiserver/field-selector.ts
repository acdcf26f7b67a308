/** Field selectors: `metadata.name=x,status.phase!=Running`. Which fields a kind has is its resource's business. */
import { badRequest } from './status.ts';
import type { KubeObject, Resource } from './resource.ts';

export interface FieldRequirement {
  readonly field: string;
  readonly operator: '=' | '!=';
  readonly value: string;
}

export function parseFieldSelector(text: string): readonly FieldRequirement[] {
  return split(text).map((term) => {
    const match = /^((?:[^\\=!]|\\.)*?)(==|!=|=)((?:[^\\]|\\.)*)$/s.exec(term);
    if (match === null) throw badRequest(`invalid selector: '${text}'; can't understand '${term}'`);
    const [, field = '', operator, value = ''] = match;
    return { field, operator: operator === '!=' ? '!=' : '=', value: unescape(value, text) };
  });
}

/** Refuses fields that the kind does not have. */
export function fieldMatcher(resource: Resource, requirements: readonly FieldRequirement[]): (object: KubeObject) => boolean {
  const tests = requirements.map(({ field, operator, value }) => {
    const read = reader(resource, field);
    return (object: KubeObject) => (read(object) === value) === (operator === '=');
  });
  return (object) => tests.every((test) => test(object));
}

function reader(resource: Resource, field: string): (object: KubeObject) => string {
  if (field === 'metadata.name') return ({ metadata }) => metadata.name;
  if (field === 'metadata.namespace' && resource.namespaced) return ({ metadata }) => metadata.namespace ?? '';
  const own = Object.hasOwn(resource.fields, field) ? resource.fields[field] : undefined;
  if (own !== undefined) return own;
  throw badRequest(
    Object.keys(resource.fields).length > 0
      ? `field label not supported: ${field}`
      : `"${field}" is not a known field selector: only "metadata.name", "metadata.namespace"`,
  );
}

function split(text: string): string[] {
  const terms = text.match(/(?:[^\\,]|\\.)+/gs) ?? [];
  return terms.filter((term) => term !== '');
}

function unescape(value: string, text: string): string {
  if (/(^|[^\\])(\\\\)*\\$/.test(value)) throw badRequest(`invalid field selector: '${text}': ends with a backslash`);
  return value.replace(/\\([\\,=])/g, '$1');
}
