/**
 * Shapes as OpenAPI schemas. Shapes that have a name (`described`) become components that others refer to; the rest is
 * written out where it is. Merge keys and list types are extensions that kubectl computes its patches from.
 */
import type { Shape } from '../../kube/schema/schema.ts';

export type Json = Readonly<Record<string, unknown>>;

const quantityName = 'io.k8s.apimachinery.pkg.api.resource.Quantity';
const intOrStringName = 'io.k8s.apimachinery.pkg.util.intstr.IntOrString';

const scalars: Readonly<Record<string, Json>> = {
  string: { type: 'string' },
  integer: { type: 'integer', format: 'int64' },
  number: { type: 'number', format: 'double' },
  boolean: { type: 'boolean' },
  bytes: { type: 'string', format: 'byte' },
  time: { type: 'string', format: 'date-time' },
  microTime: { type: 'string', format: 'date-time' },
  any: { type: 'object', 'x-kubernetes-preserve-unknown-fields': true },
};

const sharedComponents: Readonly<Record<string, Json>> = {
  [quantityName]: {
    description: 'An amount: a number with an optional unit, such as 500m, 1.5, 64Mi or 12e6.',
    oneOf: [{ type: 'string' }, { type: 'number' }],
  },
  [intOrStringName]: {
    description: 'A whole number or a text.',
    format: 'int-or-string',
    oneOf: [{ type: 'integer' }, { type: 'string' }],
  },
};

/** Collects the components that the schemas of one document refer to. */
export class SchemaWriter {
  readonly components = new Map<string, Json>();

  /** An object's schema with all its fields, never a reference. */
  whole(shape: Shape<unknown>): Json {
    const fields = shape.fields ?? {};
    const { documentation } = shape;
    const properties = Object.entries(fields).map(([name, field]) => {
      const text = documentation?.fields[name] ?? standardTexts[name];
      return [name, described(this.reference(field), text)] as const;
    });
    // The server completes metadata itself, so it is optional.
    const optional = new Set(['metadata', ...(documentation?.optional ?? [])]);
    const required = Object.keys(fields).filter((name) => fields[name]?.required && !optional.has(name));
    return {
      type: 'object',
      ...(documentation && { description: documentation.text }),
      properties: Object.fromEntries(properties),
      ...(required.length > 0 && { required }),
      ...(shape.isAtomic && { 'x-kubernetes-map-type': 'atomic' }),
    };
  }

  /** How a field's schema is written: by reference where its shape has a name. */
  reference(shape: Shape<unknown>): Json {
    switch (shape.type) {
      case 'quantity':
        return this.#sharedComponent(quantityName);
      case 'intOrString':
        return this.#sharedComponent(intOrStringName);
      case 'list':
        return { type: 'array', items: this.reference(shape.item ?? anything), ...listExtensions(shape) };
      case 'map':
        return {
          type: 'object',
          additionalProperties: this.reference(shape.item ?? anything),
          ...(shape.isAtomic && { 'x-kubernetes-map-type': 'atomic' }),
        };
      case 'object':
        return this.#objectReference(shape);
      default:
        return shape.isShort === true ? { type: 'integer', format: 'int32' } : (scalars[shape.type] ?? {});
    }
  }

  #objectReference(shape: Shape<unknown>): Json {
    const name = shape.documentation?.name;
    if (name === undefined) return this.whole(shape);
    if (!this.components.has(name)) {
      // Before its fields, in case one of them leads back here.
      this.components.set(name, {});
      this.components.set(name, this.whole(shape));
    }
    return { $ref: `#/components/schemas/${name}` };
  }

  #sharedComponent(name: string): Json {
    const component = sharedComponents[name];
    if (component !== undefined) this.components.set(name, component);
    return { $ref: `#/components/schemas/${name}` };
  }
}

const anything: Shape<unknown> = { type: 'any', zero: () => undefined };

const standardTexts: Readonly<Record<string, string>> = {
  apiVersion: 'The version of the API that the object is written in.',
  kind: 'The kind of the object.',
  metadata: 'Name, labels and the rest that every object has.',
};

/** A reference may have no neighbours, so that a text beside it takes a detour. */
function described(schema: Json, text: string | undefined): Json {
  if (text === undefined) return schema;
  return '$ref' in schema ? { description: text, allOf: [schema] } : { ...schema, description: text };
}

function listExtensions(shape: Shape<unknown>): Json {
  const { keys = [], isSet, isAtomic, isReplaced } = shape;
  const hasKeys = keys.length > 0;
  const type = isAtomic === true ? 'atomic' : hasKeys ? 'map' : isSet === true ? 'set' : 'atomic';
  const isMerged = isReplaced !== true && (hasKeys || isSet === true);
  return {
    'x-kubernetes-list-type': type,
    ...(type === 'map' && { 'x-kubernetes-list-map-keys': keys }),
    ...(isMerged && hasKeys && { 'x-kubernetes-patch-merge-key': keys[0] }),
    ...(isMerged && { 'x-kubernetes-patch-strategy': 'merge' }),
  };
}
