/** A whole list, fetched in pages: all of one moment, or none. */
import type { ListPage } from './api-answer.ts';
import { ExpiredError } from './api-errors.ts';
import { AnswerUnreadableError } from './transport-errors.ts';

interface PageQuery {
  readonly resourceVersion: string;
  readonly limit: number;
  readonly continue: string;
}

export interface WholeList<T> {
  readonly objects: readonly T[];
  readonly resourceVersion: string;
  /** The server has more objects than it gives at once. */
  readonly isPaged: boolean;
}

const pageSizeDefault = 500;

/**
 * Pages are served from the server's disk and not from its memory, so at a version that it has in memory they are asked for only
 * where it has shown that it cannot else. 0 is everything at once.
 */
export function pageSizeAt(resourceVersion: string, hasSentPages: boolean): number {
  const isAtKnownVersion = resourceVersion !== '' && resourceVersion !== '0';
  return isAtKnownVersion && !hasSentPages ? 0 : pageSizeDefault;
}

// Five million objects at the usual size; a list that is longer never ends.
const pagesMax = 10_000;

/** `limit` 0 asks for everything at once. */
export async function listAll<T>(
  page: (query: PageQuery) => Promise<ListPage<T>>,
  resourceVersion: string,
  limit: number,
): Promise<WholeList<T>> {
  const first = await page({ resourceVersion, limit, continue: '' });
  if (first.continueToken === '') {
    return { objects: first.items, resourceVersion: first.resourceVersion, isPaged: false };
  }
  const objects = [...first.items];
  let { continueToken } = first;
  for (let pages = 1; continueToken !== ''; pages++) {
    if (pages >= pagesMax) throw new AnswerUnreadableError('list', `it has more than ${pagesMax} pages`);
    try {
      // Without a version: that of the first page is in the token.
      const next = await page({ resourceVersion: '', limit, continue: continueToken });
      for (const item of next.items) objects.push(item);
      ({ continueToken } = next);
    } catch (error) {
      if (!(error instanceof ExpiredError)) throw error;
      // We were too slow: the moment of the first page is forgotten. All at once cannot be too slow.
      const whole = await page({ resourceVersion, limit: 0, continue: '' });
      return { objects: whole.items, resourceVersion: whole.resourceVersion, isPaged: true };
    }
  }
  return { objects, resourceVersion: first.resourceVersion, isPaged: true };
}
