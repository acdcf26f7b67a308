/** Which objects a list or watch is about: selectors of labels and fields as one question. */
import { compareByteOrder, goQuote } from '../../kube/values/go-text.ts';
import {
  type LabelRequirement,
  LabelSelectorError,
  labelMatcher,
  parseLabelSelector,
} from '../../kube/values/labels.ts';
import type { KubeObject, Resource } from './resource.ts';
import { badRequest } from './status.ts';

export interface Selection {
  /** Nothing is left out, so that no object needs to be looked at. */
  readonly isEverything: boolean;
  /** The one name that can match, where the selector fixes it. */
  readonly name: string | undefined;
  matches(object: KubeObject): boolean;
}

/** A watch keeps it and every event is compared with it. */
const selectorLengthMax = 32 * 1024;

export function selectionOf(
  served: Resource,
  selectors: { readonly labelSelector: string; readonly fieldSelector: string },
  urlName = '',
): Selection {
  for (const name of ['labelSelector', 'fieldSelector'] as const) {
    if (selectors[name].length > selectorLengthMax) {
      throw badRequest(`${name}: Too long: may not be more than ${selectorLengthMax} characters`);
    }
  }
  const labels = labelsOf(selectors.labelSelector);
  const matchesLabels = labelMatcher(labels);
  const fields = parseFieldSelector(selectors.fieldSelector, served);
  const { viewOf } = served;
  return {
    isEverything: labels.length === 0 && fields.length === 0 && urlName === '',
    name: urlName === '' ? requiredName(fields) : urlName,
    matches: (object) =>
      (urlName === '' || object.metadata.name === urlName) &&
      matchesLabels(object.metadata.labels ?? {}) &&
      // The fields of a view are those of its own form.
      (fields.length === 0 || matchesFields(fields, served, viewOf === undefined ? object : viewOf.fromStored(object))),
  };
}

function labelsOf(text: string): readonly LabelRequirement[] {
  try {
    return parseLabelSelector(text);
  } catch (error) {
    if (error instanceof LabelSelectorError) throw badRequest(error.message);
    throw error;
  }
}

interface FieldTerm {
  readonly field: string;
  readonly operator: '=' | '!=';
  readonly value: string;
}

/**
 * `spec.nodeName=node-1,status.phase!=Failed`: every term must hold. A value may contain `,`, `=` and `\` with a `\` in front.
 * Which fields a kind has is said by its resource.
 */
type FieldSelector = readonly FieldTerm[];

/** Throws a StatusError for what it cannot read, and for a field that the resource does not have. */
export function parseFieldSelector(selector: string, resource: Resource): FieldSelector {
  // In this order it finds the first mistake.
  const terms = splitTerms(selector).sort(compareByteOrder);
  const parsed = terms.filter((term) => term !== '').map((term) => parseTerm(term, selector));
  for (const { field } of parsed) assertKnown(field, resource);
  return parsed;
}

export function matchesFields(selector: FieldSelector, resource: Resource, object: KubeObject): boolean {
  return selector.every(
    ({ field, operator, value }) => (fieldValue(field, resource, object) === value) === (operator === '='),
  );
}

/** The one name that a selector admits: such a list counts as a request for that object, not for all. */
export function requiredName(selector: FieldSelector): string | undefined {
  return selector.find(({ field, operator }) => field === 'metadata.name' && operator === '=')?.value;
}

function fieldValue(field: string, resource: Resource, object: KubeObject): string {
  if (field === 'metadata.name') return object.metadata.name;
  if (field === 'metadata.namespace') return object.metadata.namespace ?? '';
  const read = Object.hasOwn(resource.fields, field) ? resource.fields[field] : undefined;
  return read?.(object) ?? '';
}

function assertKnown(field: string, { fields, namespaced }: Resource): void {
  const hasOwnFields = Object.keys(fields).length > 0;
  if (field === 'metadata.name' || Object.hasOwn(fields, field)) return;
  // Kinds that list their fields leave out the namespace where they have none; the others take it and find nothing.
  if (field === 'metadata.namespace' && (namespaced || !hasOwnFields)) return;
  if (hasOwnFields) throw badRequest(`field label not supported: ${field}`);
  const known = 'only "metadata.name", "metadata.namespace"';
  throw badRequest(`${goQuote(field)} is not a known field selector: ${known}`);
}

function splitTerms(selector: string): string[] {
  return selector.match(/(?:\\[\s\S]?|[^\\,])+/g) ?? [];
}

/** A field's name is taken as it stands, up to the first operator. */
function parseTerm(term: string, selector: string): FieldTerm {
  const [, field, operator, value] = /^([\s\S]*?)(!=|==|=)([\s\S]*)$/.exec(term) ?? [];
  if (field === undefined || value === undefined) {
    throw badRequest(`invalid selector: '${selector}'; can't understand '${term}'`);
  }
  return { field, operator: operator === '!=' ? '!=' : '=', value: unescaped(value) };
}

function unescaped(value: string): string {
  let text = '';
  let isEscaped = false;
  for (const character of value) {
    if (isEscaped) {
      if (!'\\,='.includes(character)) throw invalidEscape(`\\${character}`);
      text += character;
      isEscaped = false;
    } else if (character === '\\') isEscaped = true;
    else if (character === '=' || character === ',') {
      const code = character.charCodeAt(0);
      throw badRequest(`invalid field selector: unescaped character in value: ${code}`);
    } else text += character;
  }
  if (isEscaped) throw invalidEscape('\\');
  return text;
}

function invalidEscape(sequence: string): Error {
  return badRequest(`invalid field selector: invalid escape sequence: ${sequence}`);
}
