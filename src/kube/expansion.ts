/**
 * `$(NAME)` references in environment values, commands and `subPathExpr`. One pass from left to right; what a reference
 * brings in is never looked at again. `$$` stands for one `$`, and nothing else has a meaning: not `${NAME}`, not `\`.
 */
import { MountletError } from '../base/errors.ts';
import { compareByteOrder } from './values/byte-order.ts';

export type Variables = Pick<ReadonlyMap<string, string>, 'has' | 'get'>;

export class MissingVariablesError extends MountletError {
  readonly reason = 'MissingVariables';

  constructor(names: Iterable<string>) {
    super(`missing value for ${[...names].toSorted(compareByteOrder).join(', ')}`);
  }
}

/** A name that no map has stays as it was written. The first map that has it decides, also with an empty value. */
export function expand(text: string, ...maps: readonly Variables[]): string {
  return replaceReferences(text, (name) => maps.find((map) => map.has(name))?.get(name) ?? `$(${name})`);
}

/** Every name must have a value that is not empty: a hole in a path would lead somewhere else. */
export function expandSubPath(expression: string, variables: Variables): string {
  const missing = new Set<string>();
  const expanded = replaceReferences(expression, (name) => {
    const value = variables.get(name) ?? '';
    if (value === '') missing.add(name);
    return value;
  });
  if (missing.size > 0) throw new MissingVariablesError(missing);
  return expanded;
}

function replaceReferences(text: string, valueOf: (name: string) => string): string {
  const lastClose = text.lastIndexOf(')');
  let result = '';
  let done = 0;
  for (let at = text.indexOf('$'); at >= 0 && at + 1 < text.length; at = text.indexOf('$', done)) {
    result += text.slice(done, at);
    const next = text[at + 1];
    if (next === '(' && at < lastClose) {
      // The first `)` ends the name, whatever stands before it: `$(A$(B))` asks for `A$(B`.
      const close = text.indexOf(')', at);
      result += valueOf(text.slice(at + 2, close));
      done = close + 1;
    } else {
      result += next === '$' ? '$' : `$${next}`;
      done = at + 2;
    }
  }
  return result + text.slice(done);
}
