/**
 * Writes objects in protobuf as Go clients do, from the tables that the server reads them with: zero values and empty
 * messages are written out unless presence matters. Only tests need it; the server itself never sends protobuf.
 */
import { type Field, messageNameOf, messages, scalarTypes } from '../../apiserver/wire/protobuf-messages.ts';

type JsonObject = { readonly [key: string]: unknown };

/** A whole request body: magic bytes, envelope, object. */
export function encodeProtobuf(object: JsonObject & { readonly apiVersion: string; readonly kind: string }): Buffer {
  const name = messageNameOf(object.apiVersion, object.kind);
  if (name === undefined) throw new TypeError(`no message for ${object.apiVersion}, ${object.kind}`);
  return envelope(object.apiVersion, object.kind, encodeMessage(name, object));
}

export function envelope(apiVersion: string, kind: string, raw: Uint8Array): Buffer {
  const typeMeta = Buffer.concat([delimited(1, apiVersion), delimited(2, kind)]);
  const parts = [delimited(1, typeMeta), delimited(2, raw), delimited(3, ''), delimited(4, '')];
  return Buffer.concat([Buffer.from('k8s\0'), ...parts]);
}

/** One field whose value is bytes, text or a message. */
export function delimited(field: number, content: string | Uint8Array): Buffer {
  const bytes = Buffer.from(content);
  return Buffer.concat([varint((BigInt(field) << 3n) | 2n), varint(BigInt(bytes.length)), bytes]);
}

/** One field whose value is a number. */
export function numeric(field: number, value: number | bigint): Buffer {
  return Buffer.concat([varint(BigInt(field) << 3n), varint(BigInt.asUintN(64, BigInt(value)))]);
}

export function varint(value: bigint): Buffer {
  const bytes: number[] = [];
  for (let rest = value; ; rest >>= 7n) {
    if (rest < 0x80n) return Buffer.from([...bytes, Number(rest)]);
    bytes.push(Number(rest & 0x7fn) | 0x80);
  }
}

function encodeMessage(name: string, object: JsonObject): Buffer {
  const fields = [...(messages.get(name)?.values() ?? [])].sort((a, b) => a.number - b.number);
  return Buffer.concat(fields.flatMap((field) => encodeField(field, object)));
}

function encodeField(field: Field, object: JsonObject): Buffer[] {
  const { number, name, type, form, presence } = field;
  if (name === undefined) return [delimited(number, encodeMessage(type, object))];
  const value = object[name];
  switch (form) {
    case 'list':
      return ((value ?? []) as unknown[]).map((item) => encodeValue(number, type, item));
    case 'map':
      return Object.entries((value ?? {}) as JsonObject).map(([key, item]) =>
        delimited(number, Buffer.concat([delimited(1, key), encodeValue(2, type, item)])),
      );
    default:
      if (value === undefined && (presence === 'sent' || type === 'Time' || type === 'MicroTime')) return [];
      return [encodeValue(number, type, value)];
  }
}

function encodeValue(number: number, type: string, value: unknown): Buffer {
  if (!scalarTypes.has(type)) return delimited(number, encodeMessage(type, (value ?? {}) as JsonObject));
  switch (type) {
    case 'int':
      return numeric(number, (value as number | undefined) ?? 0);
    case 'bool':
      return numeric(number, value === true ? 1 : 0);
    case 'bytes':
      return delimited(number, Buffer.from((value as string | undefined) ?? '', 'base64'));
    case 'Quantity':
      return delimited(number, delimited(1, (value as string | undefined) ?? ''));
    case 'RawJson':
      return delimited(number, delimited(1, JSON.stringify(value)));
    case 'Strings':
      return delimited(number, Buffer.concat((value as string[]).map((item) => delimited(1, item))));
    case 'IntOrString': {
      const isText = typeof value === 'string';
      const parts = [numeric(1, isText ? 1 : 0), numeric(2, isText ? 0 : ((value as number | undefined) ?? 0))];
      return delimited(number, Buffer.concat([...parts, delimited(3, isText ? value : '')]));
    }
    case 'Time':
    case 'MicroTime':
      return delimited(number, encodeTime(value as string));
    default:
      return delimited(number, (value as string | undefined) ?? '');
  }
}

function encodeTime(text: string): Buffer {
  const [, whole = '', fraction = ''] = /^(.*?)(?:\.(\d+))?Z$/.exec(text) ?? [];
  const nanos = Number(fraction.padEnd(9, '0').slice(0, 9));
  return Buffer.concat([numeric(1, Date.parse(`${whole}Z`) / 1000), numeric(2, nanos)]);
}
