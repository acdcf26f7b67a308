/** Versions of one server's objects grow and may be compared as numbers; what is no number says nothing and counts as 0. */
export function isOlder(version: string | undefined, than: string | undefined): boolean {
  return numberOf(version) < numberOf(than);
}

function numberOf(version = ''): bigint {
  return /^\d+$/.test(version) ? BigInt(version) : 0n;
}
