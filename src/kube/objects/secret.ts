import { objectFields } from './metadata.ts';
import { boolean, bytes, map, object, string } from './schema.ts';
import type { Of } from './schema.ts';

/** `stringData` is for writing only: defaulting folds it into `data`, and no reader ever sees it. */
export const secret = object({
  ...objectFields,
  immutable: boolean,
  data: map(bytes),
  stringData: map(string),
  type: string,
});
export interface Secret extends Of<typeof secret> {}
