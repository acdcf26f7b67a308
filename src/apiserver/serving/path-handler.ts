/** All paths that are not resources: discovery, OpenAPI, health, version, metrics, the keys of tokens. Read-only. */
import { goQuote } from '../../kube/values/go-text.ts';
import type { Discovery, Document } from '../documents/discovery.ts';
import { type OpenApiDocuments, openApiV2Type } from '../documents/openapi.ts';
import { methodNotAllowed } from '../model/status.ts';
import type { Exchange, RawReply } from '../rest/api-request.ts';
import { acceptedForm } from '../rest/representation.ts';
import type { PathRequest } from '../rest/request-info.ts';
import { contentTypeOf, discoveryConversions } from '../wire/media-types.ts';
import { askedMs } from './open-requests.ts';

export interface PathDeps {
  readonly discovery: Discovery;
  readonly openApi: OpenApiDocuments;
  readonly version: VersionInfo;
  readonly livenessChecks: readonly HealthCheck[];
  readonly readinessChecks: readonly HealthCheck[];
  metrics(): Promise<{ readonly contentType: string; readonly text: string }>;
  /** By path: what relying parties read about tokens. */
  readonly openIdDocuments: ReadonlyMap<string, { readonly contentType: string; readonly body: string }>;
}

export interface VersionInfo {
  readonly major: string;
  readonly minor: string;
  /** `v1.34.0+mountlet`; must parse as a semantic version behind its v. */
  readonly gitVersion: string;
  readonly platform: string;
}

interface PathExchange {
  readonly exchange: Exchange;
  readonly info: PathRequest;
  readonly query: URLSearchParams;
}

const json = { 'content-type': 'application/json' };
const text = { 'content-type': 'text/plain; charset=utf-8', 'x-content-type-options': 'nosniff' };

export const pageNotFound: RawReply = { kind: 'raw', code: 404, headers: text, body: '404 page not found\n' };

export async function handlePath(deps: PathDeps, { exchange, info, query }: PathExchange): Promise<RawReply> {
  askedMs(query); // all of it is answered at once, but what is no duration is refused as everywhere
  const path = info.path.replace(/(?<=.)\/+$/, '');
  const found = await find(deps, path, exchange, query);
  if (found === undefined) return pageNotFound;
  if (info.verb !== 'get' && info.verb !== 'head') throw methodNotAllowed();
  return found;
}

async function find(
  deps: PathDeps,
  path: string,
  exchange: Exchange,
  query: URLSearchParams,
): Promise<RawReply | undefined> {
  const [, first = '', second = ''] = path.split('/');
  switch (first) {
    case '':
      return raw(json, JSON.stringify({ paths: pathsOf(deps) }));
    case 'api':
    case 'apis':
      return discover(deps.discovery, path, exchange);
    case 'healthz':
    case 'livez':
    case 'readyz': {
      const checks = first === 'readyz' ? deps.readinessChecks : deps.livenessChecks;
      // Names of checks have slashes.
      const name = path.slice(first.length + 2);
      const report = name === '' ? healthReport(first, checks, query) : singleReport(name, checks);
      return report && { kind: 'raw', code: report.code, headers: text, body: report.body };
    }
    case 'version':
      return second === '' ? raw(json, JSON.stringify(versionDocument(deps.version), undefined, 2)) : undefined;
    case 'metrics': {
      const metrics = await deps.metrics();
      return second === '' ? raw({ 'content-type': metrics.contentType }, metrics.text) : undefined;
    }
    case 'openapi':
      return openApi(deps, path, query);
    default: {
      const document = deps.openIdDocuments.get(path);
      return (
        document &&
        raw({ 'content-type': document.contentType, 'cache-control': 'public, max-age=3600' }, document.body)
      );
    }
  }
}

function raw(headers: Readonly<Record<string, string>>, body: string | Buffer): RawReply {
  return { kind: 'raw', code: 200, headers, body };
}

function discover({ documents, aggregated }: Discovery, path: string, exchange: Exchange): RawReply | undefined {
  const plain = documents.get(path);
  if (plain === undefined) return undefined;
  const hasAggregate = aggregated.has(`${path} v2`);
  const form = acceptedForm(exchange.header('accept'), hasAggregate ? discoveryConversions : []);
  if (form.conversion === undefined) return raw({ ...json, vary: 'Accept' }, plain.body);
  const document: Document = aggregated.get(`${path} ${form.conversion.version}`) ?? plain;
  const headers = {
    'content-type': contentTypeOf(form),
    etag: document.etag,
    vary: 'Accept',
    'cache-control': 'public',
  };
  if (exchange.header('if-none-match') === document.etag) return { kind: 'raw', code: 304, headers, body: '' };
  return raw(headers, document.body);
}

const farFutureSeconds = 365 * 24 * 60 * 60;

function openApi({ openApi: documents }: PathDeps, path: string, query: URLSearchParams): RawReply | undefined {
  if (path === '/openapi/v2') return raw({ 'content-type': openApiV2Type }, Buffer.from(documents.version2()));
  if (path === '/openapi/v3') return raw(json, JSON.stringify(documents.index()));
  const name = path.replace(/^\/openapi\/v3\//, '');
  const document = path.startsWith('/openapi/v3/') ? documents.document(name) : undefined;
  if (document === undefined) return undefined;
  const asked = query.get('hash');
  if (asked !== null && asked !== document.hash) {
    const location = `/openapi/v3/${name}?hash=${document.hash}`;
    return { kind: 'raw', code: 301, headers: { location }, body: '' };
  }
  const kept = asked === null ? {} : { 'cache-control': `public, immutable, max-age=${farFutureSeconds}` };
  return raw({ ...json, etag: `"${document.hash}"`, vary: 'Accept', ...kept }, document.json);
}

function pathsOf({ discovery, openIdDocuments }: PathDeps): string[] {
  const others = ['/healthz', '/livez', '/metrics', '/openapi/v2', '/openapi/v3', '/readyz', '/version'];
  return [...discovery.documents.keys(), ...openIdDocuments.keys(), ...others].sort();
}

function versionDocument({ major, minor, gitVersion, platform }: VersionInfo): object {
  return {
    major,
    minor,
    gitVersion,
    gitCommit: '',
    gitTreeState: 'clean',
    buildDate: '1970-01-01T00:00:00Z',
    goVersion: '',
    compiler: '',
    platform,
  };
}

interface HealthCheck {
  readonly name: string;
  isHealthy(): boolean;
}

interface HealthReport {
  readonly code: 200 | 500;
  readonly body: string;
}

/** `endpoint` is healthz, livez or readyz. */
function healthReport(endpoint: string, checks: readonly HealthCheck[], query: URLSearchParams): HealthReport {
  const excluded = new Set(query.getAll('exclude'));
  const lines: string[] = [];
  let isHealthy = true;
  for (const check of checks) {
    if (excluded.delete(check.name)) lines.push(`[+]${check.name} excluded: ok`);
    else if (check.isHealthy()) lines.push(`[+]${check.name} ok`);
    else {
      isHealthy = false;
      lines.push(`[-]${check.name} failed: reason withheld`);
    }
  }
  if (excluded.size > 0) {
    const names = [...excluded].map(goQuote).join(', ');
    lines.push(`warn: some health checks cannot be excluded: no matches for ${names}`);
  }
  if (!isHealthy) return { code: 500, body: `${lines.join('\n')}\n${endpoint} check failed\n` };
  return { code: 200, body: query.has('verbose') ? `${lines.join('\n')}\n${endpoint} check passed\n` : 'ok' };
}

/** One check alone, at /readyz/<name>; undefined where there is none of that name. */
function singleReport(name: string, checks: readonly HealthCheck[]): HealthReport | undefined {
  const check = checks.find((one) => one.name === name);
  if (check === undefined) return undefined;
  return check.isHealthy()
    ? { code: 200, body: 'ok' }
    : { code: 500, body: 'internal server error: reason withheld\n' };
}
