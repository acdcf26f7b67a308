/** /healthz, /livez and /readyz: named checks, all together or one by one, as text for people and probes. */
import { goQuote } from '../kube/values/go-text.ts';

export interface HealthCheck {
  readonly name: string;
  isHealthy(): boolean;
}

interface HealthReport {
  readonly code: 200 | 500;
  readonly body: string;
}

/** `endpoint` is healthz, livez or readyz. */
export function healthReport(endpoint: string, checks: readonly HealthCheck[], query: URLSearchParams): HealthReport {
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
export function singleReport(name: string, checks: readonly HealthCheck[]): HealthReport | undefined {
  const check = checks.find((one) => one.name === name);
  if (check === undefined) return undefined;
  return check.isHealthy()
    ? { code: 200, body: 'ok' }
    : { code: 500, body: 'internal server error: reason withheld\n' };
}
