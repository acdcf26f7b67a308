/** How something is to be deleted: from the request's body, or from its query where it has none. */
import { type FieldError, invalidField, unsupportedField } from '../../kube/schema/field-errors.ts';
import { type DeleteOptions, deleteOptions } from '../../kube/schema/meta.ts';
import { decode } from '../../kube/schema/schema.ts';
import { badRequest, invalid } from '../status.ts';
import { dryRunErrors } from './write-options.ts';

const policies = ['Foreground', 'Background', 'Orphan'];

export function deleteOptionsOf(json: unknown): DeleteOptions {
  const { value, problems } = decode(deleteOptions, json);
  const wrong = problems.find(({ kind }) => kind === 'type');
  if (wrong !== undefined) {
    throw badRequest(
      `DeleteOptions in version "v1" cannot be handled as a DeleteOptions: ${wrong.path.join('.')}: ${wrong.message}`,
    );
  }
  return checked(value);
}

export function deleteOptionsOfQuery(query: URLSearchParams): DeleteOptions {
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
