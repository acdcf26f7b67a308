/** Values that JSON writes in another way than protobuf: times, quantities, bytes, and JSON inside protobuf. */
import { MalformedProtobufError, ProtobufReader, wireTypes } from './protobuf-reader.ts';

/** Owned fields of the deepest object there is are some forty levels deep. */
const jsonDepthMax = 200;

export type Json = null | boolean | number | string | Json[] | { [key: string]: Json };

/** Undefined means that the sender said "nothing here", which only times can. */
export function decodeScalar(type: string, reader: ProtobufReader): Json | undefined {
  switch (type) {
    case 'string':
      return reader.string();
    case 'bool':
      return reader.boolean();
    case 'int':
      return reader.integer();
    case 'bytes':
      return reader.bytes().toString('base64');
    case 'Time':
      return timeText(reader.bytes(), 0);
    case 'MicroTime':
      return timeText(reader.bytes(), 6);
    case 'Quantity':
      return onlyString(reader.bytes()) || '0';
    case 'IntOrString':
      return intOrString(reader.bytes());
    case 'RawJson':
      return rawJson(reader.bytes());
    case 'Strings':
      return strings(reader.bytes());
    default:
      throw new Error(`no such scalar: ${type}`);
  }
}

export function zeroOf(type: string): Json {
  switch (type) {
    case 'bool':
      return false;
    case 'int':
    case 'IntOrString':
      return 0;
    case 'Quantity':
      return '0';
    case 'Strings':
      return [];
    default:
      return '';
  }
}

export function isZero(value: Json): boolean {
  if (value === '' || value === 0 || value === false || value === null) return true;
  return typeof value === 'object' && Object.keys(value).length === 0;
}

/** Visits the fields of a small message; a value of a field that `visit` does not take is skipped. */
function read(bytes: Uint8Array, visit: (field: number, wireType: number, reader: ProtobufReader) => boolean): void {
  const reader = new ProtobufReader(bytes);
  while (!reader.done) {
    const tag = reader.tag();
    if (!visit(tag.field, tag.wireType, reader)) reader.skip(tag);
  }
}

/** Whole seconds, or exactly six digits of a fraction. Seconds alone count for Time: its JSON never had more. */
function timeText(bytes: Uint8Array, digits: 0 | 6): string | undefined {
  if (bytes.length === 0) return undefined;
  let seconds = 0;
  let nanos = 0;
  read(bytes, (field, wireType, reader) => {
    if (wireType !== wireTypes.varint) return false;
    if (field === 1) seconds = reader.integer();
    else if (field === 2) nanos = reader.integer();
    else return false;
    return true;
  });
  if (nanos < 0 || nanos > 999_999_999)
    throw new MalformedProtobufError(`${nanos} nanoseconds are no part of a second`);
  // Years 0001 to 9999: what RFC 3339 can write with four digits.
  if (seconds < -62_135_596_800 || seconds > 253_402_300_799) {
    throw new MalformedProtobufError(`a time of ${seconds} seconds has no year of four digits`);
  }
  const whole = new Date(seconds * 1000).toISOString().slice(0, 19);
  if (digits === 0) return `${whole}Z`;
  return `${whole}.${String(Math.floor(nanos / 1000)).padStart(6, '0')}Z`;
}

function onlyString(bytes: Uint8Array): string {
  let text = '';
  read(bytes, (field, wireType, reader) => {
    if (field !== 1 || wireType !== wireTypes.bytes) return false;
    text = reader.string();
    return true;
  });
  return text;
}

/** {1 type: 0 number, 1 text; 2 number; 3 text}. */
function intOrString(bytes: Uint8Array): number | string {
  let isText = false;
  let number = 0;
  let text = '';
  read(bytes, (field, wireType, reader) => {
    if (field === 1 && wireType === wireTypes.varint) isText = reader.integer() === 1;
    else if (field === 2 && wireType === wireTypes.varint) number = reader.integer();
    else if (field === 3 && wireType === wireTypes.bytes) text = reader.string();
    else return false;
    return true;
  });
  return isText ? text : number;
}

/** {1 the bytes of a JSON text}. */
function rawJson(bytes: Uint8Array): Json | undefined {
  const text = onlyString(bytes);
  if (text === '') return undefined;
  let value: Json;
  try {
    value = JSON.parse(text) as Json;
  } catch {
    throw new MalformedProtobufError('a field that holds JSON does not');
  }
  // Printing and comparing it recurse.
  if (isDeeperThan(value, jsonDepthMax))
    throw new MalformedProtobufError('a field that holds JSON is nested too deeply');
  return value;
}

function isDeeperThan(value: Json, levels: number): boolean {
  if (typeof value !== 'object' || value === null) return false;
  return levels === 0 || Object.values(value).some((item) => isDeeperThan(item, levels - 1));
}

function strings(bytes: Uint8Array): string[] {
  const items: string[] = [];
  read(bytes, (field, wireType, reader) => {
    if (field !== 1 || wireType !== wireTypes.bytes) return false;
    items.push(reader.string());
    return true;
  });
  return items;
}
