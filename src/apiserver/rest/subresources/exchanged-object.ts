/** The body of a subresource that exchanges a kind of its own, such as a TokenRequest: read, completed, checked. */
import type { KubeObject, Subresource } from '../../resource.ts';
import { apiVersionOf } from '../../resources.ts';
import { invalid, methodNotAllowed } from '../../status.ts';
import type { ApiRequest } from '../api-request.ts';
import { optionsBytesMax } from '../api-request.ts';
import { readObject } from '../read-object.ts';
import { writeOptions } from '../write-options.ts';
import type { WriteOptions } from '../write-options.ts';

interface Exchanged {
  readonly object: KubeObject;
  readonly options: WriteOptions;
}

export async function readExchanged(
  request: ApiRequest,
  { kind }: Subresource,
  alsoVersions: readonly string[] = [],
): Promise<Exchanged> {
  if (kind?.shape === undefined) throw methodNotAllowed();
  const options = writeOptions('CreateOptions', request.query, request.exchange.header('user-agent') ?? '');
  const expected = { apiVersion: apiVersionOf(kind), kind: kind.kind, shape: kind.shape, alsoVersions };
  const given = await readObject(request, expected, options.fieldValidation, optionsBytesMax);
  const object = kind.complete?.(given) ?? given;
  const errors = kind.validate?.(object) ?? [];
  if (errors.length > 0) throw invalid({ group: kind.group, name: kind.kind }, request.info.name, errors);
  return { object, options };
}
