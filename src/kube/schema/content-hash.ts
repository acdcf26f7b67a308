/** A short name for some content: equal content has an equal hash. */
import { isRecord } from './equality.ts';

/** FNV-1a of 128 bits: the same on every run and every machine, and no protection against a forger. */
const offset = 0x6c62272e07bb014262b821756295c58dn;
const prime = 0x0000000001000000000000000000013bn;

export function fnvHash(text: string): string {
  let hash = offset;
  for (const byte of Buffer.from(text)) hash = BigInt.asUintN(128, (hash ^ BigInt(byte)) * prime);
  return hash.toString(16).padStart(32, '0');
}

/** The same text for the same content, in whatever order its fields were written. */
export function canonicalJson(value: unknown): string {
  return JSON.stringify(value, (_key, part: unknown) => {
    if (!isRecord(part)) return part;
    return Object.fromEntries(Object.entries(part).toSorted(([a], [b]) => (a < b ? -1 : 1)));
  });
}
