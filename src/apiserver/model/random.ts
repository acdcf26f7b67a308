/** Where chance comes from, so that tests decide it. */
import { randomInt, randomUUID } from 'node:crypto';
import { completedName, generatedNameLetters as letters, generatedSuffixLength } from '../../kube/values/names.ts';

export interface Random {
  uuid(): string;
  /** Letters and digits that make no words and cannot be mistaken for each other. */
  suffix(length: number): string;
}

export const systemRandom: Random = {
  uuid: () => randomUUID(),
  suffix: (length) => Array.from({ length }, () => letters[randomInt(letters.length)]).join(''),
};

export function generatedName(base: string, random: Random): string {
  return completedName(base, random.suffix(generatedSuffixLength));
}
