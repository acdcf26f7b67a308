/**
 * Messages of DNS, as far as a node has to read and write them: the header and the one question of a query, answers of a few
 * types, and the addresses in another server's answer. Everything that is read was sent by a pod, or by whoever answers in the name
 * of a server: a message that breaks a rule is no message. Why not a library: docs/decisions/0025.
 */

export const types = { a: 1, cname: 5, soa: 6, ptr: 12, aaaa: 28, srv: 33 } as const;
export const codes = { done: 0, malformed: 1, failed: 2, noName: 3, notImplemented: 4, refused: 5 } as const;

/** `['web', 'default', 'svc', 'cluster', 'local']`, in lower case. */
export type Labels = readonly string[];

export interface Query {
  readonly id: number;
  /** What it wants of a server that asks others, as it is repeated in the answer. */
  readonly recursionDesired: boolean;
  readonly name: Labels;
  readonly type: number;
  /** As it was sent, in the sender's own case. */
  readonly question: Buffer;
}

export interface DnsRecord {
  /** Absent: the name that was asked for. */
  readonly owner?: Labels;
  readonly type: number;
  readonly data: Buffer;
}

export interface Reply {
  readonly code: number;
  readonly answers: readonly DnsRecord[];
  /** Of the zone that says so: `code` is its word, and whoever keeps answers may keep this one. */
  readonly zone?: Labels;
}

const headerBytes = 12;
const nameBytesMax = 255;
const labelBytesMax = 63;
const internet = 1;
const flags = { reply: 0x8000, authoritative: 0x0400, truncated: 0x0200, recursionDesired: 0x0100, recursion: 0x0080 };
const opcodes = 0x7800;
/** Over UDP, to a client that asked for no more. */
export const datagramBytesMax = 512;
export const messageBytesMax = 65_535;
/** Pods come and go. */
const ttlSeconds = 5;

/** Undefined: not to be answered at all. A number: the code that it is refused with. */
export function readQuery(message: Buffer): Query | { readonly refusal: Buffer } | undefined {
  if (message.length < headerBytes) return undefined;
  const [id, bits] = [message.readUInt16BE(0), message.readUInt16BE(2)];
  if ((bits & flags.reply) !== 0) return undefined;
  const recursionDesired = (bits & flags.recursionDesired) !== 0;
  const refuse = (code: number): { readonly refusal: Buffer } => ({
    refusal: header(id, flags.reply | (bits & (opcodes | flags.recursionDesired)) | code, [0, 0, 0]),
  });
  if ((bits & opcodes) !== 0) return refuse(codes.notImplemented);
  const name = readName(message, headerBytes);
  if (message.readUInt16BE(4) !== 1 || name === undefined) return refuse(codes.malformed);
  const end = name.end + 4;
  if (end > message.length) return refuse(codes.malformed);
  if (message.readUInt16BE(name.end + 2) !== internet) return refuse(codes.refused);
  const question = Buffer.from(message.subarray(headerBytes, end));
  return { id, recursionDesired, name: name.labels, type: message.readUInt16BE(name.end), question };
}

/** Without compression, which a question has no use for. */
function readName(message: Buffer, start: number): { readonly labels: Labels; readonly end: number } | undefined {
  const labels: string[] = [];
  for (let at = start; at < message.length && at - start < nameBytesMax;) {
    const length = message.readUInt8(at);
    at += 1;
    if (length === 0) return { labels, end: at };
    if (length > labelBytesMax || at + length > message.length) return undefined;
    labels.push(message.toString('latin1', at, at + length).toLowerCase());
    at += length;
  }
  return undefined;
}

/** What does not fit is left out, and the client told to ask again over TCP. */
export function writeReply(
  { id, recursionDesired, question }: Query,
  { code, answers, zone }: Reply,
  bytesMax: number,
): Buffer {
  const bits = flags.reply | flags.recursion | (recursionDesired ? flags.recursionDesired : 0) | code;
  const authority = zone !== undefined && answers.length === 0 ? [recordBytes(startOfZone(zone))] : [];
  const parts: Buffer[] = [];
  let size = headerBytes + question.length + authority.reduce((sum, { length }) => sum + length, 0);
  for (const answer of answers) {
    const bytes = recordBytes(answer);
    if (size + bytes.length > bytesMax) break;
    size += bytes.length;
    parts.push(bytes);
  }
  const truncated = parts.length < answers.length ? flags.truncated : 0;
  const authoritative = zone === undefined ? 0 : flags.authoritative;
  const first = header(id, bits | truncated | authoritative, [1, parts.length, authority.length]);
  return Buffer.concat([first, question, ...parts, ...authority]);
}

function header(
  id: number,
  bits: number,
  [questions, answers, authorities]: readonly [number, number, number],
): Buffer {
  const bytes = Buffer.alloc(headerBytes);
  for (const [index, value] of [id, bits, questions, answers, authorities].entries())
    bytes.writeUInt16BE(value, index * 2);
  return bytes;
}

/** The name that was asked for always stands at the end of the header. */
const askedName = Buffer.from([0xc0, headerBytes]);

function recordBytes({ owner, type, data }: DnsRecord): Buffer {
  const fields = Buffer.alloc(10);
  fields.writeUInt16BE(type, 0);
  fields.writeUInt16BE(internet, 2);
  fields.writeUInt32BE(ttlSeconds, 4);
  fields.writeUInt16BE(data.length, 8);
  return Buffer.concat([owner === undefined ? askedName : nameBytes(owner), fields, data]);
}

function startOfZone(zone: Labels): DnsRecord {
  const numbers = Buffer.alloc(20);
  for (const [index, value] of [1, 7200, 1800, 86_400, ttlSeconds].entries()) numbers.writeUInt32BE(value, index * 4);
  const data = Buffer.concat([nameBytes(['ns', 'dns', ...zone]), nameBytes(['hostmaster', ...zone]), numbers]);
  return { owner: zone, type: types.soa, data };
}

export function isName(labels: Labels): boolean {
  const sizes = labels.map((label) => Buffer.byteLength(label, 'latin1'));
  return (
    sizes.every((size) => size > 0 && size <= labelBytesMax) &&
    sizes.reduce((sum, size) => sum + size + 1, 1) <= nameBytesMax
  );
}

export function nameBytes(labels: Labels): Buffer {
  const parts = labels.map((label) => Buffer.concat([Buffer.from([label.length]), Buffer.from(label, 'latin1')]));
  return Buffer.concat([...parts, Buffer.alloc(1)]);
}

export function addressRecord(address: string): DnsRecord {
  return { type: types.a, data: Buffer.from(address.split('.').map(Number)) };
}

export function serviceRecord(port: number, weight: number, target: Labels): DnsRecord {
  const numbers = Buffer.alloc(6);
  numbers.writeUInt16BE(weight, 2);
  numbers.writeUInt16BE(port, 4);
  return { type: types.srv, data: Buffer.concat([numbers, nameBytes(target)]) };
}

/** A query of our own. */
export function writeQuery(id: number, name: Labels, type: number): Buffer {
  const rest = Buffer.alloc(4);
  rest.writeUInt16BE(type, 0);
  rest.writeUInt16BE(internet, 2);
  return Buffer.concat([header(id, flags.recursionDesired, [1, 0, 0]), nameBytes(name), rest]);
}

/** Whether a message answers a query, so that nobody else's answer is passed on. */
export function isReplyTo(message: Buffer, query: Buffer): boolean {
  const asked = readQuery(query);
  if (asked === undefined || 'refusal' in asked || message.length < headerBytes + asked.question.length) return false;
  const question = message.subarray(headerBytes, headerBytes + asked.question.length);
  return (
    message.readUInt16BE(0) === asked.id &&
    (message.readUInt16BE(2) & flags.reply) !== 0 &&
    question.toString('latin1').toLowerCase() === asked.question.toString('latin1').toLowerCase()
  );
}

/** The records of one type in an answer, whatever names they have: the last link of a chain of names. */
export function readAnswers(
  message: Buffer,
  type: number,
): { readonly code: number; readonly data: readonly Buffer[] } {
  const code = message.length < headerBytes ? codes.failed : message.readUInt8(3) & 15;
  const data: Buffer[] = [];
  if (code !== codes.done) return { code, data };
  let at = headerBytes;
  for (let left = message.readUInt16BE(4); left > 0; left -= 1) at = skipName(message, at) + 4;
  for (let left = message.readUInt16BE(6); left > 0; left -= 1) {
    at = skipName(message, at);
    if (at + 10 > message.length) break;
    const [kind, end] = [message.readUInt16BE(at), at + 10 + message.readUInt16BE(at + 8)];
    if (end > message.length) break;
    if (kind === type) data.push(Buffer.from(message.subarray(at + 10, end)));
    at = end;
  }
  return { code, data };
}

/** Always further: a name ends with an empty label, or where it goes on elsewhere. */
function skipName(message: Buffer, start: number): number {
  let at = start;
  while (at < message.length) {
    const length = message.readUInt8(at);
    if (length === 0) return at + 1;
    if (length > labelBytesMax) return at + 2;
    at += 1 + length;
  }
  return message.length;
}
