/** Times in a pod's status: UTC, whole seconds. */
export function statusTime(timeMs: number): string {
  return `${new Date(timeMs).toISOString().slice(0, 19)}Z`;
}
