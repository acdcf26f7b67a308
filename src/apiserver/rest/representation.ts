/**
 * Makes the bytes of an answer: what is stored goes out as it is, unless the client asked for a table, for metadata alone, for
 * YAML or for lines.
 */
import { stringify } from 'yaml';
import { invalidField } from '../../kube/schema/field-errors.ts';
import { type TableOptions, partialObjectMetadata, tableOf } from '../documents/table.ts';
import { type KubeObject, type Resource, apiVersionOf } from '../model/resource.ts';
import { StatusError, invalid } from '../model/status.ts';
import { parseStored } from '../model/stored-objects.ts';
import {
  type AnswerForm,
  type Conversion,
  NotAcceptableError,
  isPretty as asksForPretty,
  negotiateAnswer,
  objectConversions,
  yamlType,
} from '../wire/media-types.ts';
import type { ApiRequest, Reply, Representation } from './api-request.ts';

export interface Encoding {
  readonly representation: Representation;
  /** As the client asked for it: of a view, the view. */
  readonly resource: Resource;
  readonly query: URLSearchParams;
  readonly now: number;
}

interface Encoded {
  readonly contentType: string;
  readonly body: string;
}

type Encodable = Extract<Reply, { kind: 'object' | 'list' | 'status' }>;

export function encodeReply(reply: Encodable, encoding: Encoding): Encoded {
  if (reply.kind === 'status') return encodeText(JSON.stringify(reply.status), encoding.representation);
  return encodeText(
    reply.kind === 'object' ? objectText(reply.text, encoding) : listText(reply, encoding),
    encoding.representation,
  );
}

/** JSON text in the format asked for. */
export function encodeText(json: string, { format, isPretty }: Representation): Encoded {
  if (format === 'yaml') {
    return {
      contentType: 'application/yaml',
      body: stringify(JSON.parse(json), { version: '1.1', aliasDuplicateObjects: false }),
    };
  }
  const body = isPretty ? `${JSON.stringify(JSON.parse(json), undefined, 2)}\n` : json;
  return { contentType: 'application/json', body };
}

/** One object, in whichever form; also what an event of a watch carries. */
export function objectText(text: string, encoding: Encoding, withColumns = true): string {
  const { representation, resource, query, now } = encoding;
  switch (representation.as) {
    case 'object':
      return viewText(text, resource);
    case 'metadata':
      return JSON.stringify(partialObjectMetadata(viewed(text, resource), representation.version));
    case 'table': {
      const object = viewed(text, resource);
      const { resourceVersion = '' } = object.metadata;
      const options = { ...tableOptions(query), version: representation.version, now };
      const shown = withColumns ? options : { ...options, withColumns };
      return JSON.stringify(tableOf(resource, [object], { resourceVersion }, shown));
    }
  }
}

type ListReply = Extract<Reply, { kind: 'list' }>;

function listText({ items, metadata }: ListReply, { representation, resource, query, now }: Encoding): string {
  const { as, version } = representation;
  if (as === 'table') {
    const objects = items.map((text) => viewed(text, resource));
    return JSON.stringify(tableOf(resource, objects, metadata, { ...tableOptions(query), version, now }));
  }
  const isMetadata = as === 'metadata';
  const kind = isMetadata ? 'PartialObjectMetadataList' : `${resource.kind}List`;
  const apiVersion = isMetadata ? `meta.k8s.io/${version}` : apiVersionOf(resource);
  const texts = isMetadata
    ? items.map((text) => JSON.stringify(partialObjectMetadata(viewed(text, resource), version)))
    : items.map((text) => viewText(text, resource));
  // Put together as text: the items were printed when they were stored.
  const head = JSON.stringify({ kind, apiVersion, metadata });
  return `${head.slice(0, -1)},"items":[${texts.join(',')}]}`;
}

function viewText(text: string, { viewOf }: Resource): string {
  return viewOf === undefined ? text : JSON.stringify(viewOf.fromStored(parseStored(text)));
}

function viewed(text: string, { viewOf }: Resource): KubeObject {
  const object = parseStored(text);
  return viewOf === undefined ? object : viewOf.fromStored(object);
}

export function tableOptions(query: URLSearchParams): Pick<TableOptions, 'includeObject' | 'withColumns'> {
  const include = query.get('includeObject') || 'Metadata';
  if (include !== 'Metadata' && include !== 'Object' && include !== 'None') {
    const text = "must be 'Metadata', 'Object', 'None', or empty";
    throw invalid({ group: 'meta.k8s.io', name: 'TableOptions' }, '', [invalidField(['includeObject'], include, text)]);
  }
  return { includeObject: include, withColumns: query.get('noHeaders') !== 'true' };
}

export const plainJson: Representation = { format: 'json', as: 'object', version: 'v1', isPretty: false };

const withoutTables = objectConversions.filter(({ kind }) => kind !== 'Table');

/** By the Accept header and the other hints. Throws a 406. */
export function representationOf(
  { exchange, query }: Pick<ApiRequest, 'exchange' | 'query'>,
  hasTable: boolean,
): Representation {
  const form = acceptedForm(exchange.header('accept'), hasTable ? objectConversions : withoutTables);
  const { conversion } = form;
  return {
    format: form.type === yamlType ? 'yaml' : 'json',
    as: conversion === undefined ? 'object' : conversion.kind === 'Table' ? 'table' : 'metadata',
    version: conversion?.version ?? 'v1',
    isPretty: form.pretty || asksForPretty(query.get('pretty'), exchange.header('user-agent')),
  };
}

export function acceptedForm(accept: string | undefined, conversions: readonly Conversion[]): AnswerForm {
  try {
    return negotiateAnswer(accept, conversions);
  } catch (error) {
    if (error instanceof NotAcceptableError) throw new StatusError(406, error.reason, error.message);
    throw error;
  }
}
