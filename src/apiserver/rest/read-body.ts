/** A request's body as plain data, whichever of the accepted formats it is in. What the data means is not known here. */
import { messageOf } from '../../base/errors.ts';
import { parseYamlDocuments } from '../../kube/yaml-documents.ts';
import { unsupportedMediaType } from '../status.ts';
import { JsonError, parseJsonBody } from './json-body.ts';
import type { JsonBody } from './json-body.ts';

export const bodyTypes = ['application/json', 'application/yaml', 'application/vnd.kubernetes.protobuf'] as const;

/** `application/json; charset=utf-8` is application/json. */
export function mediaTypeOf(header: string | undefined): string {
  return (header ?? '').split(';', 1).join('').trim().toLowerCase();
}

/** Decodes protobuf to what the same object would be in JSON. Throws for anything it cannot. */
export type ProtobufDecoder = (bytes: Buffer, expected: { apiVersion: string; kind: string }) => unknown;

export function parseBody(
  bytes: Buffer,
  contentType: string | undefined,
  expected: { apiVersion: string; kind: string },
  decodeProtobuf: ProtobufDecoder,
): JsonBody {
  switch (mediaTypeOf(contentType)) {
    case '':
    case 'application/json':
      return parseJsonBody(bytes.toString('utf8'));
    case 'application/yaml':
      return parseYamlBody(bytes.toString('utf8'));
    case 'application/vnd.kubernetes.protobuf':
      try {
        return { value: decodeProtobuf(bytes, expected), duplicates: [] };
      } catch (error) {
        throw new JsonError(messageOf(error));
      }
    default:
      throw unsupportedMediaType(bodyTypes);
  }
}

/** Also what an apply patch is in; JSON is YAML too, but parsed as JSON a hundred times as fast. */
export function parseYamlBody(text: string): JsonBody {
  if (text.trimStart().startsWith('{')) {
    try {
      return parseJsonBody(text);
    } catch (error) {
      if (!(error instanceof JsonError)) throw error;
    }
  }
  const [document] = parseYamlDocuments(text);
  const problem = document?.problems[0];
  if (problem !== undefined) throw new JsonError(`yaml: line ${problem.position.line}: ${problem.message}`);
  return { value: document?.value, duplicates: [] };
}
