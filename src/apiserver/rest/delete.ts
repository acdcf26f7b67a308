/** DELETE of one object or of a collection. */
import type { DeleteOptions } from '../../kube/schema/meta.ts';
import { objectPrefix } from '../object-key.ts';
import { StatusError, badRequest } from '../status.ts';
import { parseStored } from '../stored-value.ts';
import { type ApiRequest, type Handler, type Reply, optionsBytesMax, success } from './api-request.ts';
import { type Deleted, deleteObject } from './delete-object.ts';
import { deleteOptionsOf, deleteOptionsOfQuery } from './delete-options.ts';
import { JsonError } from './json-body.ts';
import { listOptions } from './list-options.ts';
import { parseBody } from './read-body.ts';
import { selectionOf } from './selection.ts';
import type { WriteDeps } from './write-context.ts';

export function deleteHandler(deps: WriteDeps): Handler {
  return async (request) => {
    const { resource, info, user } = request;
    const options = await readDeleteOptions(request);
    const dryRun = isDryRun(request, options);
    const { namespace, name } = info;
    const deleted = await deleteObject(deps, { resource, namespace, name, options, context: { user, dryRun } });
    return answer(request, options, deleted);
  };
}

/** One after the other would wait for the disk each time; all at once would fill its queue. */
const parallelMax = 64;

export function deleteCollectionHandler(deps: WriteDeps): Handler {
  return async (request) => {
    const { resource, served, info, query, user } = request;
    const selection = selectionOf(served, listOptions(query, false));
    const options = await readDeleteOptions(request);
    const context = { user, dryRun: isDryRun(request, options) };
    const { items, revision } = deps.store.list({ prefix: objectPrefix(resource, info.namespace) });
    const chosen = items.map(({ value }) => parseStored(value)).filter((object) => selection.matches(object));
    const texts: string[] = [];
    for (let start = 0; start < chosen.length; start += parallelMax) {
      const deletions = chosen.slice(start, start + parallelMax).map(async ({ metadata }) => {
        const { namespace = '', name } = metadata;
        try {
          texts.push((await deleteObject(deps, { resource, namespace, name, options, context })).text);
        } catch (error) {
          // Someone else was faster.
          if (!(error instanceof StatusError) || error.code !== 404) throw error;
        }
      });
      await Promise.all(deletions);
    }
    return { kind: 'list', items: texts, metadata: { resourceVersion: String(revision) } };
  };
}

async function readDeleteOptions({ exchange, query }: ApiRequest): Promise<DeleteOptions> {
  const bytes = await exchange.readBody(optionsBytesMax);
  if (bytes.length === 0) return deleteOptionsOfQuery(query);
  const expected = { apiVersion: 'v1', kind: 'DeleteOptions' };
  try {
    return deleteOptionsOf(parseBody(bytes, exchange.header('content-type'), expected).value ?? {});
  } catch (error) {
    if (!(error instanceof JsonError)) throw error;
    throw badRequest(`couldn't get version/kind; ${error.message}`);
  }
}

function isDryRun({ query }: ApiRequest, { dryRun = [] }: DeleteOptions): boolean {
  return dryRun.includes('All') || query.getAll('dryRun').includes('All');
}

function answer({ resource, info }: ApiRequest, options: DeleteOptions, { text, uid, removed }: Deleted): Reply {
  // An object that lives on for a while is shown, whatever its kind.
  if (resource.deleteAnswers === 'object' || !removed) {
    return { kind: 'object', code: options.orphanDependents === false && !removed ? 202 : 200, text };
  }
  const { group } = resource;
  return success(200, { name: info.name, ...(group !== '' && { group }), kind: resource.plural, uid });
}
