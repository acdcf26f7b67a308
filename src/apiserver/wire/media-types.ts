/** Which form an answer takes (Accept) and which form a body has (Content-Type), by the rules of an API server. */
import { MountletError } from '../../base/errors.ts';

export const jsonType = 'application/json';
export const yamlType = 'application/yaml';
export const protobufType = 'application/vnd.kubernetes.protobuf';

/** What a real server offers, which is what the text of a refusal names. We accept protobuf and never answer with it. */
const offeredTypes = [jsonType, yamlType, protobufType];
type BodyType = typeof jsonType | typeof yamlType | typeof protobufType;

const patchTypes = {
  json: 'application/json-patch+json',
  merge: 'application/merge-patch+json',
  strategic: 'application/strategic-merge-patch+json',
  apply: 'application/apply-patch+yaml',
} as const;
export type PatchKind = keyof typeof patchTypes;

export class NotAcceptableError extends MountletError {
  readonly reason = 'NotAcceptable';
  readonly code = 406;
  constructor() {
    super(`only the following media types are accepted: ${offeredTypes.join(', ')}`);
  }
}

export class UnsupportedMediaTypeError extends MountletError {
  readonly reason = 'UnsupportedMediaType';
  readonly code = 415;
  constructor(accepted: readonly string[]) {
    super(`the body of the request was in an unknown format - accepted media types include: ${accepted.join(', ')}`);
  }
}

/** Another object than the one asked for, made from it: `as=Table;g=meta.k8s.io;v=v1`. */
export interface Conversion {
  readonly kind: string;
  readonly group: string;
  readonly version: string;
}

export interface AnswerForm {
  readonly type: typeof jsonType | typeof yamlType;
  readonly conversion: Conversion | undefined;
  /** Asked for in the media type itself. */
  readonly pretty: boolean;
}

/** Objects can be had as these; discovery as others. A clause that asks for something else is passed over. */
export const objectConversions: readonly Conversion[] = ['v1', 'v1beta1'].flatMap((version) =>
  ['Table', 'PartialObjectMetadata', 'PartialObjectMetadataList'].map((kind) => ({
    kind,
    group: 'meta.k8s.io',
    version,
  })),
);
export const discoveryConversions: readonly Conversion[] = ['v2', 'v2beta1'].map((version) => ({
  kind: 'APIGroupDiscoveryList',
  group: 'apidiscovery.k8s.io',
  version,
}));

/**
 * The first clause, by quality and then in order, that can be satisfied. A clause for protobuf is answered with JSON if
 * another clause accepts that, as every client's does; one that accepts nothing else is refused.
 */
export function negotiateAnswer(accept: string | undefined, conversions: readonly Conversion[]): AnswerForm {
  if (accept === undefined || accept === '') return { type: jsonType, conversion: undefined, pretty: false };
  for (const clause of acceptClauses(accept)) {
    const type = [jsonType, yamlType].find((offered) => matches(clause, offered));
    const form = type === undefined ? undefined : answerForm(type as AnswerForm['type'], clause, conversions);
    if (form !== undefined) return form;
  }
  throw new NotAcceptableError();
}

interface Clause {
  readonly type: string;
  readonly subtype: string;
  readonly quality: number;
  readonly parameters: ReadonlyMap<string, string>;
}

function answerForm(
  type: AnswerForm['type'],
  { parameters }: Clause,
  conversions: readonly Conversion[],
): AnswerForm | undefined {
  if (!['', 'watch', undefined].includes(parameters.get('stream'))) return undefined;
  const pretty = parameters.get('pretty') === '1';
  if (!['as', 'g', 'v'].some((name) => parameters.has(name))) return { type, conversion: undefined, pretty };
  const conversion = conversions.find(
    ({ kind, group, version }) =>
      kind === parameters.get('as') && group === parameters.get('g') && version === parameters.get('v'),
  );
  return conversion === undefined ? undefined : { type, conversion, pretty };
}

/** The value of the answer's Content-Type. A client picks its decoder by it, so it must be exact. */
export function contentTypeOf({ type, conversion }: AnswerForm): string {
  // Only discovery says in the header what it is: a client tells from it whether it got the aggregated form.
  if (conversion === undefined || conversion.group !== 'apidiscovery.k8s.io') return type;
  return `${type};g=${conversion.group};v=${conversion.version};as=${conversion.kind}`;
}

function acceptClauses(header: string): readonly Clause[] {
  const clauses = header.split(',').flatMap((part): Clause[] => {
    const [range = '', ...rest] = part.split(';').map((item) => item.trim());
    const [type = '', subtype = type === '*' ? '*' : '', ...more] = range.split('/').map((item) => item.trim());
    if (type === '' || subtype === '' || more.length > 0) return [];
    const parameters = new Map(
      rest.flatMap((item) => {
        const [name = '', value, ...extra] = item.split('=').map((text) => text.trim());
        return value === undefined || value === '' || extra.length > 0 ? [] : [[name, value] as const];
      }),
    );
    return [{ type, subtype, quality: qualityOf(parameters.get('q')), parameters }];
  });
  // The sort is stable: equal clauses stay in the client's order, exact ones before patterns.
  return clauses.toSorted((a, b) => b.quality - a.quality || exactness(b) - exactness(a));
}

function qualityOf(text: string | undefined): number {
  if (text === undefined) return 1;
  const quality = Number(text);
  return Number.isFinite(quality) ? quality : 0;
}

function exactness({ type, subtype }: Clause): number {
  return (type === '*' ? 0 : 1) + (subtype === '*' ? 0 : 1);
}

function matches({ type, subtype }: Clause, offered: string): boolean {
  const [offeredType, offeredSubtype] = offered.split('/');
  return (type === '*' && subtype === '*') || (type === offeredType && (subtype === '*' || subtype === offeredSubtype));
}

/** The form of a body; without a header it is JSON. Parameters such as a charset mean nothing. */
export function bodyTypeOf(contentType: string | undefined): BodyType {
  const type = (contentType ?? '').split(';')[0]?.trim().toLowerCase() ?? '';
  if (type === '') {
    if ((contentType ?? '') !== '') throw new UnsupportedMediaTypeError(offeredTypes);
    return jsonType;
  }
  const found = offeredTypes.find((offered) => offered === type);
  if (found === undefined) throw new UnsupportedMediaTypeError(offeredTypes);
  return found as BodyType;
}

/** A patch must say what it is: nothing is guessed from its content. */
export function patchKindOf(contentType: string | undefined): PatchKind {
  const type = (contentType ?? '').split(';')[0]?.trim() ?? '';
  const found = (Object.keys(patchTypes) as PatchKind[]).find((kind) => patchTypes[kind] === type);
  if (found === undefined) throw new UnsupportedMediaTypeError(Object.values(patchTypes));
  return found;
}

/** JSON is indented for people: those who ask for it, and those who come with a browser or a terminal tool. */
export function isPretty(prettyParameter: string | null | undefined, userAgent: string | undefined): boolean {
  if (prettyParameter !== undefined && prettyParameter !== null && prettyParameter !== '') {
    return ['1', 't', 'T', 'TRUE', 'true', 'True'].includes(prettyParameter);
  }
  return /^(?:curl|Wget|Mozilla\/5\.0)/.test(userAgent ?? '');
}
