/** Where chance comes from, so that tests decide it. */
import { randomInt, randomUUID } from 'node:crypto';

export interface Random {
  uuid(): string;
  /** Letters and digits that make no words and cannot be mistaken for each other. */
  suffix(length: number): string;
}

const alphabet = 'bcdfghjklmnpqrstvwxz2456789';

export const systemRandom: Random = {
  uuid: () => randomUUID(),
  suffix: (length) => Array.from({ length }, () => alphabet[randomInt(alphabet.length)]).join(''),
};

// A name has at most 63 characters where it is a label.
const generatedLengthMax = 63;
const suffixLength = 5;

/** `generateName` and five characters, cut so that the whole is a valid name. */
export function generatedName(base: string, random: Random): string {
  return base.slice(0, generatedLengthMax - suffixLength) + random.suffix(suffixLength);
}
