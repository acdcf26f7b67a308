/**
 * Makes JSON of a request body in protobuf, as a Go server would print the same object. Answers are never in protobuf:
 * every client that sends it also accepts JSON.
 */
import { MountletError } from '../../base/errors.ts';
import { type Field, type Message, messageNameOf, messages, scalarTypes } from './protobuf-messages.ts';
import { MalformedProtobufError, ProtobufReader, wireTypes } from './protobuf-reader.ts';
import { type Json, decodeScalar, isZero, zeroOf } from './protobuf-scalars.ts';

interface DecodedProtobuf {
  readonly apiVersion: string;
  readonly kind: string;
  readonly object: { readonly [key: string]: Json };
}

/** The kind is not one that this server reads in protobuf. */
export class UnknownProtobufKindError extends MountletError {
  readonly reason = 'UnknownKind';
  constructor(apiVersion: string, kind: string) {
    super(`no kind "${kind}" is registered for version "${apiVersion}"`);
  }
}

/** "k8s" and a zero byte: what follows is an envelope that names the kind and holds the object's bytes. */
const magic = Buffer.from([0x6b, 0x38, 0x73, 0x00]);
type MutableObject = { [key: string]: Json };

/**
 * `expected` stands in for what the envelope leaves empty. Throws a MalformedProtobufError or an UnknownProtobufKindError
 * and nothing else, whatever the bytes.
 */
export function decodeProtobuf(
  body: Uint8Array,
  expected: { readonly apiVersion: string; readonly kind: string } = { apiVersion: '', kind: '' },
): DecodedProtobuf {
  const envelope = openEnvelope(body);
  const apiVersion = envelope.apiVersion === '' ? expected.apiVersion : envelope.apiVersion;
  const kind = envelope.kind === '' ? expected.kind : envelope.kind;
  const name = messageNameOf(apiVersion, kind);
  if (name === undefined) throw new UnknownProtobufKindError(apiVersion, kind);
  const object: MutableObject = { apiVersion, kind };
  readFields(name, envelope.raw, object);
  fillIn(name, object);
  return { apiVersion, kind, object };
}

function openEnvelope(body: Uint8Array): { apiVersion: string; kind: string; raw: Uint8Array } {
  if (body.length === 0) throw new MalformedProtobufError('empty data');
  if (!magic.equals(body.subarray(0, magic.length))) {
    throw new MalformedProtobufError(
      `provided data does not appear to be a protobuf message, expected prefix [${magic.join(' ')}]`,
    );
  }
  if (body.length === magic.length) throw new MalformedProtobufError('empty body');
  const result = { apiVersion: '', kind: '', raw: new Uint8Array() as Uint8Array };
  forEachField(new ProtobufReader(body.subarray(magic.length)), (field, reader) => {
    if (field === 1) {
      forEachField(new ProtobufReader(reader.bytes()), (part, typeMeta) => {
        if (part === 1) result.apiVersion = typeMeta.string();
        else if (part === 2) result.kind = typeMeta.string();
        else return false;
        return true;
      });
    } else if (field === 2) result.raw = reader.bytes();
    else return false;
    return true;
  });
  return result;
}

/** Visits the length-delimited fields; `visit` says whether it read the value, all others are skipped. */
function forEachField(reader: ProtobufReader, visit: (field: number, reader: ProtobufReader) => boolean): void {
  while (!reader.done) {
    const tag = reader.tag();
    if (tag.wireType !== wireTypes.bytes || !visit(tag.field, reader)) reader.skip(tag);
  }
}

/** Adds to `into`: a message that comes twice is merged, as the format asks for. */
function readFields(name: string, bytes: Uint8Array, into: MutableObject): void {
  const message = messageNamed(name);
  const reader = new ProtobufReader(bytes);
  while (!reader.done) {
    const tag = reader.tag();
    const field = message.get(tag.field);
    if (field === undefined) reader.skip(tag);
    else decodeField(field, tag.wireType, reader, into);
  }
}

/** Done last, and only for messages that are there: or one that says nothing would look as if it did. */
function fillIn(name: string, object: MutableObject): void {
  for (const { name: key, type, presence } of messageNamed(name).values()) {
    if (key === undefined) fillIn(type, object);
    else if (presence === 'always' && !Object.hasOwn(object, key)) object[key] = emptyOf(type);
  }
}

function emptyOf(type: string): Json {
  if (scalarTypes.has(type)) return zeroOf(type);
  const message: MutableObject = {};
  fillIn(type, message);
  return message;
}

function decodeField(field: Field, wireType: number, reader: ProtobufReader, into: MutableObject): void {
  const { name, type, form, presence } = field;
  if (wireType !== wireTypeOf(field) && !(form === 'list' && type === 'int' && wireType === wireTypes.bytes)) {
    throw new MalformedProtobufError(`wrong wire type ${wireType} for field ${field.number} (${name ?? type})`);
  }
  if (name === undefined) return readFields(type, reader.bytes(), into);
  switch (form) {
    case 'list':
      (into[name] as Json[] | undefined) ??= [];
      return decodeItems(type, wireType, reader, into[name] as Json[]);
    case 'map':
      into[name] ??= Object.create(null) as MutableObject;
      return decodeEntry(type, reader.bytes(), into[name] as MutableObject);
    default: {
      const value = scalarTypes.has(type)
        ? decodeScalar(type, reader)
        : decodeNested(type, reader.bytes(), presence, into[name] as MutableObject | undefined);
      if (value === undefined || (presence !== 'sent' && isZero(value))) delete into[name];
      else into[name] = value;
    }
  }
}

function decodeNested(
  type: string,
  bytes: Uint8Array,
  presence: Field['presence'],
  value: MutableObject = {},
): MutableObject {
  readFields(type, bytes, value);
  if (presence === 'sent' || !isZero(value)) fillIn(type, value);
  return value;
}

function decodeItems(type: string, wireType: number, reader: ProtobufReader, items: Json[]): void {
  if (type === 'int' && wireType === wireTypes.bytes) {
    // Packed: senders of newer protobuf dialects may write all numbers in one piece.
    const packed = new ProtobufReader(reader.bytes());
    while (!packed.done) items.push(packed.integer());
    return;
  }
  items.push(scalarTypes.has(type) ? (decodeScalar(type, reader) ?? null) : decodeNested(type, reader.bytes(), 'sent'));
}

/** A map is a list of messages {1 key, 2 value}; either may be missing and is then empty. */
function decodeEntry(type: string, bytes: Uint8Array, into: MutableObject): void {
  let key = '';
  let value: Json | undefined;
  forEachField(new ProtobufReader(bytes), (field, reader) => {
    if (field === 1) key = reader.string();
    else if (field === 2) value = decodeScalar(type, reader);
    else return false;
    return true;
  });
  into[key] = value ?? zeroOf(type);
}

function wireTypeOf({ type, form }: Field): number {
  return form !== 'map' && (type === 'int' || type === 'bool') ? wireTypes.varint : wireTypes.bytes;
}

function messageNamed(name: string): Message {
  const message = messages.get(name);
  if (message === undefined) throw new Error(`no table for message ${name}`);
  return message;
}
