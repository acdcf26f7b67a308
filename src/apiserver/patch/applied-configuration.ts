/** Reads the body of a server-side apply: a configuration that is refused as a whole if anything in it does not fit. */
import type { Shape } from '../../kube/objects/schema.ts';
import { goKind } from './go-value.ts';
import { checkDepth, fieldOf, isObject, objectIn } from './json-value.ts';
import type { Json, JsonObject } from './json-value.ts';
import { PatchError } from './patch-error.ts';
import { appliedProblem } from './validate-applied.ts';

interface Expected {
  readonly apiVersion: string;
  readonly kind: string;
  readonly shape: Shape<unknown>;
}

export function readApplied(applied: Json, { apiVersion, kind, shape }: Expected): JsonObject {
  if (!isObject(applied)) {
    const text = `json: cannot unmarshal ${goKind(applied)} into Go value of type map[string]interface {}`;
    throw new PatchError('malformed', `error decoding patch: ${text}`);
  }
  checkDepth(applied);
  if (fieldOf(applied, 'apiVersion') !== apiVersion || fieldOf(applied, 'kind') !== kind) {
    throw new PatchError('malformed', `invalid object type: ${kindText(applied)}`);
  }
  if ((fieldOf(objectIn(applied, 'metadata'), 'managedFields') ?? null) !== null) {
    throw new PatchError('malformed', 'metadata.managedFields must be nil');
  }
  const problem = appliedProblem(applied, shape);
  if (problem === undefined) return applied;
  throw new PatchError('malformed', `failed to create typed patch object (${nameText(applied)}): ${problem}`);
}

/** `shop/web; /v1, Kind=Pod` */
export function nameText(object: JsonObject): string {
  const metadata = objectIn(object, 'metadata');
  return `${textOf(metadata, 'namespace')}/${textOf(metadata, 'name')}; ${kindText(object)}`;
}

/** `/v1, Kind=Pod` or `coordination.k8s.io/v1, Kind=Lease`. */
function kindText(object: JsonObject): string {
  const version = textOf(object, 'apiVersion');
  return `${version.includes('/') ? '' : '/'}${version}, Kind=${textOf(object, 'kind')}`;
}

function textOf(object: JsonObject, name: string): string {
  const value = fieldOf(object, name);
  return typeof value === 'string' ? value : '';
}
