/** Times as the API writes them: UTC, whole seconds. */
export function timestamp(timeMs: number): string {
  return new Date(timeMs).toISOString().replace(/\.[0-9]+Z$/, 'Z');
}

/** For the few fields that keep microseconds: `2026-01-02T03:04:05.000000Z`. */
export function microTimestamp(timeMs: number): string {
  return new Date(timeMs).toISOString().replace(/Z$/, '000Z');
}
