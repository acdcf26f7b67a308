/** Which form of an answer a client asked for in its Accept header. Clauses that mean nothing to us are passed over. */
import { notAcceptable } from '../status.ts';

export interface Representation {
  readonly format: 'json' | 'yaml';
  readonly as: 'object' | 'table' | 'metadata';
  /** Of the group meta.k8s.io, for tables and metadata. */
  readonly version: 'v1' | 'v1beta1';
  readonly isPretty: boolean;
}

const offered = ['application/json', 'application/yaml'];
const conversions: Readonly<Record<string, Representation['as']>> = {
  Table: 'table',
  PartialObjectMetadata: 'metadata',
  PartialObjectMetadataList: 'metadata',
};

export function negotiate(accept: string | undefined, query: URLSearchParams, userAgent = ''): Representation {
  const isPretty = asksForPretty(query, userAgent);
  for (const { type, parameters } of clausesOf(accept ?? '')) {
    const format = formatOf(type);
    const conversion = conversionOf(parameters);
    if (format !== undefined && conversion !== undefined) return { format, ...conversion, isPretty };
  }
  throw notAcceptable(offered);
}

export interface Clause {
  readonly type: string;
  readonly parameters: ReadonlyMap<string, string>;
}

/** In the order of preference: by q, then as written. An empty header accepts anything. */
export function clausesOf(accept: string): readonly Clause[] {
  const clauses = accept
    .split(',')
    .map((text) => {
      const [type = '', ...rest] = text.split(';').map((part) => part.trim());
      const parameters = new Map<string, string>();
      for (const part of rest) {
        const mark = part.indexOf('=');
        if (mark > 0) parameters.set(part.slice(0, mark).toLowerCase(), part.slice(mark + 1).replace(/^"|"$/g, ''));
      }
      return { type: type.toLowerCase(), parameters };
    })
    .filter(({ type }) => type !== '');
  if (clauses.length === 0) return [{ type: '*/*', parameters: new Map() }];
  return clauses.filter((clause) => quality(clause) > 0).sort((a, b) => quality(b) - quality(a));
}

function quality({ parameters }: Clause): number {
  const value = Number(parameters.get('q') ?? 1);
  return Number.isNaN(value) ? 1 : value;
}

function formatOf(type: string): Representation['format'] | undefined {
  if (type === 'application/json' || type === '*/*' || type === 'application/*') return 'json';
  return type === 'application/yaml' ? 'yaml' : undefined;
}

function conversionOf(parameters: ReadonlyMap<string, string>): Pick<Representation, 'as' | 'version'> | undefined {
  const name = parameters.get('as');
  if (name === undefined) return { as: 'object', version: 'v1' };
  const version = parameters.get('v') ?? 'v1';
  const as = Object.hasOwn(conversions, name) ? conversions[name] : undefined;
  if (as === undefined || (parameters.get('g') ?? 'meta.k8s.io') !== 'meta.k8s.io') return undefined;
  return version === 'v1' || version === 'v1beta1' ? { as, version } : undefined;
}

/** People who look at the API with a browser or curl want lines. */
function asksForPretty(query: URLSearchParams, userAgent: string): boolean {
  const asked = query.get('pretty');
  if (asked !== null) return asked !== 'false' && asked !== '0';
  return /^(curl|Wget|Mozilla\/5\.0)/.test(userAgent);
}
