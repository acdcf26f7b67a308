/** How the API answers when it has no object to answer with: an error, or the success of a deletion. */
import { integer, list, object, string } from './schema.ts';
import type { Of } from './schema.ts';

export const listMeta = object({
  selfLink: string,
  resourceVersion: string,
  continue: string,
  remainingItemCount: integer,
});
export interface ListMeta extends Of<typeof listMeta> {}

export const status = object({
  apiVersion: string,
  kind: string,
  metadata: listMeta,
  status: string,
  message: string,
  reason: string,
  details: object({
    name: string,
    group: string,
    kind: string,
    uid: string,
    causes: list(object({ reason: string, message: string, field: string })),
    retryAfterSeconds: integer,
  }),
  code: integer,
});
export interface Status extends Of<typeof status> {}
