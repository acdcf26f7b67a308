/** Times as Go prints them, for messages that users know from the kubelet. Durations are in duration.ts. */

/** `2026-08-20 18:59:46.5 +0000 UTC`: trailing zeros of the fraction are left out. */
export function goTime(epochMs: number): string {
  const [date = '', time = ''] = new Date(epochMs).toISOString().split('T');
  const [whole = '', fraction = ''] = time.replace('Z', '').split('.');
  const digits = fraction.replace(/0+$/, '');
  return `${date} ${whole}${digits === '' ? '' : `.${digits}`} +0000 UTC`;
}
