/** Where the next page of a list begins, as text that clients hand back: the API's own form, because some tools look into it. */
import { isRecord } from '../../kube/schema/equality.ts';
import { badRequest } from '../status.ts';

export interface ContinueToken {
  /** The snapshot all pages are of; -1 for one that is gone: the rest then comes from now. */
  readonly revision: number;
  /** The last key of the page before, without the list's prefix. */
  readonly after: string;
}

const version = 'meta.k8s.io/v1';

export function encodeContinue({ revision, after }: ContinueToken): string {
  return Buffer.from(JSON.stringify({ v: version, rv: revision, start: `${after}\0` })).toString('base64url');
}

export function decodeContinue(text: string): ContinueToken {
  const refuse = (detail: string): Error => badRequest(`invalid continue token: continue key is not valid${detail}`);
  let json: unknown;
  try {
    if (!/^[A-Za-z0-9_-]+$/.test(text)) throw new SyntaxError('not base64');
    json = JSON.parse(Buffer.from(text, 'base64url').toString('utf8'));
  } catch {
    throw refuse('');
  }
  if (!isRecord(json)) throw refuse('');
  if (json['v'] !== version) throw refuse(': server does not recognize this encoded version');
  const { rv, start } = json;
  if (typeof rv !== 'number' || !Number.isSafeInteger(rv) || rv === 0 || rv < -1) {
    throw refuse(`: incorrect encoded start resourceVersion (version ${version})`);
  }
  if (typeof start !== 'string' || start === '') throw refuse(`: encoded start key empty (version ${version})`);
  const after = start.replace(/\0$/, '');
  if (
    after.length > 1024 ||
    after.includes('\0') ||
    after.split('/').some((part) => part === '' || /^\.\.?$/.test(part))
  ) {
    throw refuse('');
  }
  return { revision: rv, after };
}
