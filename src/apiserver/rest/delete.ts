/** DELETE of one object or of a collection: an object is removed, or marked so that it ends when nothing holds it any more. */
import { type FieldError, invalidField, unsupportedField } from '../../kube/schema/field-errors.ts';
import { isRecord } from '../../kube/schema/equality.ts';
import { type DeleteOptions, deleteOptions } from '../../kube/schema/meta.ts';
import { decode } from '../../kube/schema/schema.ts';
import { goQuote } from '../../kube/values/go-text.ts';
import { admitAll } from '../admission/admission.ts';
import type { KubeObject, Resource } from '../model/resource.ts';
import { selectionOf } from '../model/selection.ts';
import {
  StatusError,
  badRequest,
  conflict,
  forbidden,
  invalid,
  kindName,
  notFound,
  resourceName,
} from '../model/status.ts';
import { objectKey, objectPrefix, parseStored, storedText } from '../model/stored-objects.ts';
import type { Decision } from '../store/store.ts';
import { type ApiRequest, type Handler, type Reply, optionsBytesMax, success } from './api-request.ts';
import { listOptions } from './list-options.ts';
import { planDeletion } from './plan-deletion.ts';
import { JsonError, parseBody } from './request-body.ts';
import { isSameJson } from './update.ts';
import { type WriteContext, type WriteDeps, dryRunErrors, storableText } from './write-context.ts';

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

/** From the request's body, or from its query where it has none. */
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

const policies = ['Foreground', 'Background', 'Orphan'];

function deleteOptionsOf(json: unknown): DeleteOptions {
  const { kind: given = '', apiVersion = '' } = isRecord(json) ? json : {};
  // What was meant to be kept, as the object in a file, must not be taken for a wish to delete.
  if (given !== '' && given !== 'DeleteOptions') {
    throw badRequest(`no kind ${goQuote(String(given))} is registered for version ${goQuote(String(apiVersion))}`);
  }
  const { value, problems } = decode(deleteOptions, json);
  const wrong = problems.find(({ kind }) => kind === 'type');
  if (wrong !== undefined) {
    throw badRequest(
      `DeleteOptions in version "v1" cannot be handled as a DeleteOptions: ${wrong.path.join('.')}: ${wrong.message}`,
    );
  }
  return checked(value);
}

function deleteOptionsOfQuery(query: URLSearchParams): DeleteOptions {
  const seconds = query.get('gracePeriodSeconds');
  const orphan = query.get('orphanDependents');
  const policy = query.get('propagationPolicy');
  if (seconds !== null && !/^-?\d{1,15}$/.test(seconds))
    throw badRequest(`invalid gracePeriodSeconds: not a whole number`);
  return checked({
    ...(seconds !== null && { gracePeriodSeconds: Number(seconds) }),
    ...(orphan !== null && { orphanDependents: orphan !== 'false' && orphan !== '0' }),
    ...(policy !== null && { propagationPolicy: policy }),
    ...(query.has('dryRun') && { dryRun: query.getAll('dryRun') }),
  });
}

function checked(options: DeleteOptions): DeleteOptions {
  const errors: FieldError[] = [];
  const { propagationPolicy, orphanDependents, dryRun = [] } = options;
  if (propagationPolicy !== undefined && orphanDependents !== undefined) {
    const text = 'orphanDependents and deletionPropagation cannot be both set';
    errors.push(invalidField(['propagationPolicy'], propagationPolicy, text));
  }
  if (propagationPolicy !== undefined && !policies.includes(propagationPolicy)) {
    errors.push(unsupportedField(['propagationPolicy'], propagationPolicy, [...policies, 'nil']));
  }
  errors.push(...dryRunErrors(dryRun));
  if (errors.length > 0) throw invalid({ group: 'meta.k8s.io', name: 'DeleteOptions' }, '', errors);
  return options;
}

interface Deletion {
  readonly resource: Resource;
  readonly namespace: string;
  readonly name: string;
  readonly options: DeleteOptions;
  readonly context: Pick<WriteContext, 'user' | 'dryRun'>;
  /** Changes that belong to the same step, made only if the object is not removed at once. */
  alongside?(object: KubeObject): KubeObject;
}

interface Deleted {
  readonly text: string;
  readonly uid: string;
  readonly removed: boolean;
}

export function deleteObject(deps: WriteDeps, deletion: Deletion): Promise<Deleted> {
  const key = objectKey(deletion.resource, deletion.namespace, deletion.name);
  return deps.store.update(key, (current, revision) => decideDeletion(deps, deletion, current?.value, revision));
}

function decideDeletion(
  deps: WriteDeps,
  deletion: Deletion,
  current: string | undefined,
  revision: number,
): Decision<Deleted> {
  const { resource, namespace, name, options, context } = deletion;
  if (current === undefined) throw notFound(resourceName(resource), name);
  const old = parseStored(current);
  checkPreconditions(resource, old, options);
  const refusal = resource.deletion?.refusal?.(old);
  if (refusal !== undefined) throw forbidden(resourceName(resource), name, refusal);
  const request = { operation: 'DELETE', user: context.user, resource, subresource: '', namespace, name } as const;
  admitAll(deps.admission, { ...request, object: undefined, old });
  const plan = planDeletion(resource, old, options, deps.clock.now());
  const uid = old.metadata.uid ?? '';
  if (plan.kind === 'leave') return { kind: 'keep', result: { text: current, uid, removed: false } };
  const object = plan.kind === 'mark' ? (deletion.alongside?.(plan.object) ?? plan.object) : plan.object;
  const removed = plan.kind === 'remove';
  if (context.dryRun) return { kind: 'keep', result: { text: JSON.stringify(object), uid, removed } };
  if (!removed && isSameJson(object, old)) return { kind: 'keep', result: { text: current, uid, removed } };
  const text = removed ? storedText(object, revision) : storableText(object, revision, current);
  const result = { text, uid, removed };
  return removed ? { kind: 'delete', value: text, result } : { kind: 'put', value: text, result, ending: true };
}

function checkPreconditions(resource: Resource, { metadata }: KubeObject, { preconditions }: DeleteOptions): void {
  const { uid, resourceVersion } = preconditions ?? {};
  // Here, of all places, the API names the kind.
  const refuse = (text: string): Error => conflict(kindName(resource), metadata.name, text);
  if (uid !== undefined && uid !== metadata.uid) {
    throw refuse(
      `the UID in the precondition (${uid}) does not match the UID in record (${metadata.uid}). The object might have been deleted and then recreated`,
    );
  }
  if (resourceVersion !== undefined && resourceVersion !== metadata.resourceVersion) {
    throw refuse(
      `the ResourceVersion in the precondition (${resourceVersion}) does not match the ResourceVersion in record (${metadata.resourceVersion}). The object might have been modified`,
    );
  }
}
