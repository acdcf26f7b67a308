/** GET of one object, and of its status, which is the object again. */
import type { Clock } from '../../base/clock.ts';
import { objectKey } from '../object-key.ts';
import { notFound, resourceName } from '../status.ts';
import type { Handler } from './api-request.ts';
import { parseResourceVersion } from './list-options.ts';
import { waitForRevision } from './wait-for-revision.ts';
import type { RequestStore } from './write-context.ts';

export function getHandler({ store, clock }: { readonly store: RequestStore; readonly clock: Clock }): Handler {
  return async (request) => {
    const { info, resource, query } = request;
    const version = parseResourceVersion(query.get('resourceVersion') ?? '');
    if (version !== undefined && version > store.revision) {
      // The signal is asked for only here: it has its price, and most reads never wait.
      await waitForRevision(store, version, clock, request.signal);
    }
    const stored = store.get(objectKey(resource, info.namespace, info.name));
    if (stored === undefined) throw notFound(resourceName(resource), info.name);
    return { kind: 'object', code: 200, text: stored.value };
  };
}
