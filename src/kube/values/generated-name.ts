/** The names the API server completes: `generateName` and five characters more. Where those come from is the caller's choice. */

/** Letters and digits that make no words and cannot be mistaken for each other. */
export const generatedNameLetters = 'bcdfghjklmnpqrstvwxz2456789';
export const generatedSuffixLength = 5;
// A name has at most 63 characters where it is a label.
const nameLengthMax = 63;

/** Cut so that the whole is a valid name. */
export function completedName(generateName: string, suffix: string): string {
  return generateName.slice(0, nameLengthMax - generatedSuffixLength) + suffix;
}
