/** A request's body as plain data, whichever of the accepted formats it is in. What the data means is not known here. */
import { messageOf } from '../../base/errors.ts';
import { parseYamlDocuments } from '../../kube/manifests/yaml-documents.ts';
import { isRecord } from '../../kube/schema/equality.ts';
import { StatusError, entityTooLarge } from '../status.ts';
import { decodeProtobuf } from '../wire/decode-protobuf.ts';
import { UnsupportedMediaTypeError, bodyTypeOf, jsonType, protobufType, yamlType } from '../wire/media-types.ts';
import { type JsonBody, JsonError, parseJsonBody } from './json-body.ts';

export function parseBody(
  bytes: Buffer,
  contentType: string | undefined,
  expected: { readonly apiVersion: string; readonly kind: string },
): JsonBody {
  switch (mediaTypeOf(() => bodyTypeOf(contentType))) {
    case jsonType:
      return parseJsonBody(bytes.toString('utf8'));
    case yamlType:
      return parseYamlBody(bytes.toString('utf8'));
    case protobufType:
      try {
        return { value: decodeProtobuf(bytes, expected).object, duplicates: [] };
      } catch (error) {
        throw new JsonError(messageOf(error));
      }
  }
}

/** No larger object is stored. The parser takes a hundred times the memory of its text. */
const yamlLengthMax = 1.5 * 1024 * 1024;

/** Also what an apply patch is in; JSON is YAML too, but parsed as JSON a hundred times as fast. */
export function parseYamlBody(text: string): JsonBody {
  if (text.trimStart().startsWith('{')) {
    try {
      return parseJsonBody(text);
    } catch (error) {
      if (!(error instanceof JsonError)) throw error;
    }
  }
  if (text.length > yamlLengthMax) throw entityTooLarge(`limit is ${yamlLengthMax} for YAML; send it as JSON`);
  const [document] = parseYamlDocuments(text);
  const problem = document?.problems[0];
  if (problem !== undefined) throw new JsonError(`yaml: line ${problem.position.line}: ${problem.message}`);
  return { value: withoutBigIntegers(document?.value), duplicates: [] };
}

/** A type that is not read here is a refusal with the API's own words. */
export function mediaTypeOf<T>(read: () => T): T {
  try {
    return read();
  } catch (error) {
    if (error instanceof UnsupportedMediaTypeError) throw new StatusError(415, error.reason, error.message);
    throw error;
  }
}

/** JSON knows no larger numbers than JavaScript does; what an object carries along must be printable as JSON. */
function withoutBigIntegers(value: unknown): unknown {
  if (typeof value === 'bigint') return Number(value);
  if (Array.isArray(value)) return value.map(withoutBigIntegers);
  if (!isRecord(value)) return value;
  return Object.fromEntries(Object.entries(value).map(([key, item]) => [key, withoutBigIntegers(item)]));
}
