/** The file of static tokens, as API servers read it: `token,user,uid[,"group1,group2"]` on each line. */
import { MountletError } from '../../base/errors.ts';
import type { StaticToken } from './authentication.ts';

export class StaticTokenError extends MountletError {
  readonly reason = 'InvalidTokenFile';
  /** The line's text is a credential and is not told. */
  constructor(line: number, problem: string) {
    super(`Cannot read line ${line} of the token file: ${problem}; write token,user,uid[,"group1,group2"]`);
  }
}

export function parseStaticTokens(text: string): readonly StaticToken[] {
  return text.split('\n').flatMap((line, index) => {
    if (line.trim() === '') return [];
    const [token = '', name = '', uid, groups = ''] = columns(line.replace(/\r$/, ''), index + 1);
    if (uid === undefined) throw new StaticTokenError(index + 1, 'it has fewer than three columns');
    if (token === '') throw new StaticTokenError(index + 1, 'its token is empty');
    if (name === '') throw new StaticTokenError(index + 1, 'its user is empty');
    return [{ token, user: { name, uid, groups: groups.split(',').filter((group) => group !== '') } }];
  });
}

function columns(line: string, number: number): string[] {
  const found: string[] = [];
  const column = /(?:"((?:[^"]|"")*)"|([^",]*))(,|$)/y;
  for (;;) {
    const match = column.exec(line);
    if (match === null) throw new StaticTokenError(number, 'a quote is not closed or stands inside a column');
    const [, quoted, plain = '', end] = match;
    found.push(quoted === undefined ? plain.trim() : quoted.replaceAll('""', '"'));
    if (end === '') return found;
  }
}
