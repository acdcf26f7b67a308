/** Times and durations as Go prints them, for messages that users know from the kubelet. */

/** `2m2s`, `1.5s`, `500ms`, `0s`. */
export function goDuration(ms: number): string {
  if (ms === 0) return '0s';
  if (Math.abs(ms) < 1000) return `${ms}ms`;
  const sign = ms < 0 ? '-' : '';
  const total = Math.abs(ms);
  const hours = Math.floor(total / 3_600_000);
  const minutes = Math.floor((total % 3_600_000) / 60_000);
  const seconds = (total % 60_000) / 1000;
  const text = `${hours > 0 ? `${hours}h` : ''}${hours > 0 || minutes > 0 ? `${minutes}m` : ''}${seconds}s`;
  return sign + text;
}

/** `2026-08-20 18:59:46.5 +0000 UTC`: trailing zeros of the fraction are left out. */
export function goTime(epochMs: number): string {
  const [date = '', time = ''] = new Date(epochMs).toISOString().split('T');
  const [whole = '', fraction = ''] = time.replace('Z', '').split('.');
  const digits = fraction.replace(/0+$/, '');
  return `${date} ${whole}${digits === '' ? '' : `.${digits}`} +0000 UTC`;
}
