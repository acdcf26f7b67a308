/** GET of one object, and of a collection: one snapshot, in pages if the client wishes, filtered by selectors. */
import type { Clock } from '../../base/clock.ts';
import type { Resource } from '../model/resource.ts';
import { type Selection, selectionOf } from '../model/selection.ts';
import { badRequest, expired, notFound, resourceName } from '../model/status.ts';
import { objectKey, objectPrefix, parseStored } from '../model/stored-objects.ts';
import { CompactedError, FutureRevisionError } from '../store/store-errors.ts';
import type { ListResult, Store, StoredObject } from '../store/store.ts';
import { waitForRevision } from '../watch/store-waits.ts';
import type { Handler, ListMetadata, Reply } from './api-request.ts';
import {
  type ContinueToken,
  type ListOptions,
  decodeContinue,
  encodeContinue,
  listOptions,
  parseResourceVersion,
} from './list-options.ts';
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

// With a selector it is not known beforehand how many must be read for a page.
const chunkSize = 500;

export function listHandler({ store, clock }: { readonly store: RequestStore; readonly clock: Clock }): Handler {
  return async (request): Promise<Reply> => {
    const { info, resource, served, query } = request;
    const options = listOptions(query, false);
    const selection = selectionOf(served, options);
    const from = startOf(options, store);
    if (from.notBefore > store.revision) await waitForRevision(store, from.notBefore, clock, request.signal);
    const prefix = objectPrefix(resource, info.namespace);
    if (isSingle(selection, resource, info.namespace, from)) {
      const stored = store.get(objectKey(resource, info.namespace, selection.name));
      const items = stored !== undefined && selection.matches(parseStored(stored.value)) ? [stored.value] : [];
      return { kind: 'list', items, metadata: { resourceVersion: String(store.revision) } };
    }
    const { items, metadata } = readPage(store, prefix, options, selection, from);
    return { kind: 'list', items: items.map(({ value }) => value), metadata };
  };
}

interface Start {
  /** A snapshot of the past that must be shown, or now. */
  readonly atRevision: number | undefined;
  readonly notBefore: number;
  readonly token: ContinueToken | undefined;
}

function startOf(options: ListOptions, store: Pick<Store, 'revision'>): Start {
  const { resourceVersion, resourceVersionMatch, limit } = options;
  if (options.continue !== '') {
    const token = decodeContinue(options.continue);
    if (resourceVersion !== undefined && resourceVersion !== 0) {
      throw badRequest('specifying resource version is not allowed when using continue');
    }
    if (token.revision > store.revision) throw badRequest('invalid continue token: continue key is not valid');
    return { atRevision: token.revision < 0 ? undefined : token.revision, notBefore: 0, token };
  }
  const isExact = resourceVersionMatch === 'Exact' || (resourceVersionMatch === '' && limit > 0);
  const isGiven = resourceVersion !== undefined && resourceVersion > 0;
  return {
    atRevision: isExact && isGiven ? resourceVersion : undefined,
    notBefore: resourceVersion ?? 0,
    token: undefined,
  };
}

/** A list of one named object is a look-up: this is how nodes ask for their Secrets. */
function isSingle(
  selection: Selection,
  resource: Resource,
  namespace: string,
  { atRevision, token }: Start,
): selection is Selection & { readonly name: string } {
  const isAddress = !resource.namespaced || namespace !== '';
  return selection.name !== undefined && isAddress && atRevision === undefined && token === undefined;
}

interface Page {
  readonly items: readonly StoredObject[];
  readonly metadata: ListMetadata;
}

function readPage(
  store: Pick<Store, 'list'>,
  prefix: string,
  options: ListOptions,
  selection: Selection,
  from: Start,
): Page {
  const limit = options.limit === 0 ? Infinity : options.limit;
  const items: StoredObject[] = [];
  let after = from.token && `${prefix}${from.token.after}`;
  let atRevision = from.atRevision;
  for (;;) {
    const wanted = selection.isEverything ? limit - items.length : chunkSize;
    const chunk = readChunk(store, prefix, after, atRevision, wanted, from.token);
    // All chunks and all pages show what the first one saw.
    atRevision = chunk.revision;
    const metadata = { resourceVersion: String(chunk.revision) };
    for (const [index, item] of chunk.items.entries()) {
      if (!selection.isEverything && !selection.matches(parseStored(item.value))) continue;
      items.push(item);
      const remaining = chunk.items.length - 1 - index + chunk.remaining;
      if (items.length < limit || remaining === 0) continue;
      const token = encodeContinue({ revision: chunk.revision, after: item.key.slice(prefix.length) });
      const count = selection.isEverything ? { remainingItemCount: remaining } : {};
      return { items, metadata: { ...metadata, continue: token, ...count } };
    }
    if (chunk.remaining === 0 || chunk.items.length === 0) return { items, metadata };
    after = chunk.items.at(-1)?.key;
  }
}

function readChunk(
  store: Pick<Store, 'list'>,
  prefix: string,
  after: string | undefined,
  atRevision: number | undefined,
  limit: number,
  token: ContinueToken | undefined,
): ListResult {
  try {
    return store.list({
      prefix,
      ...(after !== undefined && { after }),
      ...(limit !== Infinity && { limit }),
      ...(atRevision !== undefined && { atRevision }),
    });
  } catch (error) {
    if (error instanceof FutureRevisionError) throw badRequest('invalid continue token: continue key is not valid');
    if (!(error instanceof CompactedError)) throw error;
    if (token === undefined) throw expired('The resourceVersion for the provided list is too old.');
    throw expired(
      'The provided continue parameter is too old to display a consistent list result. You can start a new list without the continue parameter, or use the continue token in this response to retrieve the remainder of the results. Continuing with the provided token results in an inconsistent list - objects that were created, modified, or deleted between the time the first chunk was returned and now may show up in the list.',
      encodeContinue({ ...token, revision: -1 }),
    );
  }
}
