/**
 * All of a store in one file, as of one commit. It is written beside the one it replaces and renamed when it is on disk, so a
 * file of that name is always whole. A backup is a snapshot too.
 *
 *   mountlet store   mark: state | changes, oldest first, consecutive | mark: objects | objects in the order of their keys | mark: end
 *
 * An object is the row of the change that made it what it is, so a change that is compacted becomes an object without being
 * opened: nothing here decrypts, and a damaged row stays a damaged row.
 */
import { type FileHandle, open, rename, rm } from 'node:fs/promises';
import { dirname } from 'node:path';
import { errorCode } from '../../base/errors.ts';
import { compareByteOrder } from '../../kube/values/go-text.ts';
import { type LogRecord, type Row, encodeRow, rowAt } from './row.ts';
import { syncPath } from './sync-path.ts';

export const snapshotName = 'snapshot';
const magic = Buffer.from('mountlet store\n');
const format = 2;
/** What is read, and written, in one turn of the event loop: well below a millisecond of work. */
const turnBytes = 256 * 1024;
/** So that the last sync does not hold up the disk for everybody else. */
const syncBytes = 8 * 1024 * 1024;

export interface StoreState {
  readonly revision: number;
  /** Changes up to and including this one are not kept. */
  readonly compactedRevision: number;
  /** Of the last commit that is in it; later ones are in the log. */
  readonly sequence: number;
}

export const initialState: StoreState = { revision: 0, compactedRevision: 0, sequence: 0 };

/** Reading rejects where the file is not a snapshot or is damaged; the journal says what to do then. */
export class Snapshot {
  readonly #file: FileHandle;
  readonly #path: string;
  readonly state: StoreState;
  readonly sizeBytes: number;
  readonly #start: number;

  private constructor(file: FileHandle, path: string, state: StoreState, sizeBytes: number, start: number) {
    this.#file = file;
    this.#path = path;
    this.state = state;
    this.sizeBytes = sizeBytes;
    this.#start = start;
  }

  /** Undefined when there is no file. Whatever replaces the file later, this one is read to its end. */
  static async open(path: string): Promise<Snapshot | undefined> {
    let file: FileHandle;
    try {
      file = await open(path, 'r');
    } catch (thrown) {
      if (errorCode(thrown) === 'ENOENT') return undefined;
      throw thrown;
    }
    try {
      const bytes = await readAt(file, 0, 1024);
      const row = rowAt(bytes, magic.length);
      if (!bytes.subarray(0, magic.length).equals(magic) || row === undefined || typeof row === 'number')
        throw new Error(`"${path}" is not a snapshot of a store`);
      const state = JSON.parse(row.key) as StoreState & { readonly format: number };
      if (state.format !== format) throw new Error(`it has format ${state.format}, and this version knows ${format}`);
      const { size } = await file.stat();
      return new Snapshot(file, path, state, size, magic.length + row.bytes.length);
    } catch (thrown) {
      await file.close();
      throw thrown;
    }
  }

  /** All rows in their order, some at a time. Throws where the file is not as it was written; values are not checked. */
  async *rows(): AsyncGenerator<{ readonly part: 'changes' | 'objects'; readonly rows: readonly Row[] }> {
    let part: 'changes' | 'objects' = 'changes';
    let [expected, lastKey, count] = [this.state.compactedRevision + 1, '', 0];
    for await (const batch of this.#allRows()) {
      const rows: Record<typeof part, Row[]> = { changes: [], objects: [] };
      for (const row of batch) {
        const { type, key, revision } = row;
        if (type === 'mark' && key === 'end' && part === 'objects' && revision === count) {
          if (rows.changes.length > 0) yield { part: 'changes', rows: rows.changes };
          return yield { part, rows: rows.objects };
        }
        if (type === 'mark' && key === 'objects' && part === 'changes' && expected === this.state.revision + 1)
          part = 'objects';
        else if (part === 'changes' && type !== 'mark' && revision === expected) expected += 1;
        else if (part === 'objects' && type === 'put' && compareByteOrder(key, lastKey) > 0) lastKey = key;
        else throw new Error(`"${this.#path}" is damaged: its rows are out of order`);
        if (type !== 'mark') rows[part].push(row);
        count += 1;
      }
      if (rows.changes.length > 0) yield { part: 'changes', rows: rows.changes };
      if (rows.objects.length > 0) yield { part: 'objects', rows: rows.objects };
    }
    throw new Error(`"${this.#path}" is damaged: its end is missing`);
  }

  close(): Promise<void> {
    return this.#file.close();
  }

  async *#allRows(): AsyncGenerator<readonly Row[]> {
    for (let offset = this.#start, wanted = turnBytes; offset < this.sizeBytes;) {
      const bytes = await readAt(this.#file, offset, Math.min(wanted, this.sizeBytes - offset));
      if (bytes.length === 0) return;
      const rows: Row[] = [];
      let end = 0;
      let row = rowAt(bytes, end);
      for (; typeof row === 'object'; row = rowAt(bytes, end)) {
        rows.push(row);
        end += row.bytes.length;
      }
      if (row === undefined) throw new Error(`"${this.#path}" is damaged at byte ${offset + end}`);
      if (offset + end + row > this.sizeBytes && offset + end < this.sizeBytes)
        throw new Error(`"${this.#path}" is damaged: its end is missing`);
      offset += end;
      wanted = Math.max(turnBytes, row);
      yield rows;
    }
  }
}

interface SnapshotContent {
  readonly base: Snapshot | undefined;
  /** All commits behind those of `base`, in order. */
  readonly records: readonly LogRecord[];
  /** Where it is not that of the last record. */
  readonly state?: StoreState;
  readonly transform?: (row: Row) => Row;
  /** Called now and then while the file grows; throws to give up. */
  readonly checkRoom?: () => Promise<void>;
}

/** The state after these commits. */
export function stateAfter(base: StoreState, records: readonly LogRecord[]): StoreState {
  const last = records.at(-1);
  if (last === undefined) return base;
  const { sequence, compactedRevision } = last;
  return { sequence, compactedRevision, revision: last.rows.at(-1)?.revision ?? base.revision };
}

/** Writes a snapshot of what an older one and the commits since then hold. Resolves to its size when it has its name. */
export async function writeSnapshot(path: string, draft: string, content: SnapshotContent): Promise<number> {
  const { base, records, transform = (row) => row, checkRoom } = content;
  const state = content.state ?? stateAfter(base?.state ?? initialState, records);
  const writer = new SnapshotWriter(await open(draft, 'w', 0o600), checkRoom);
  try {
    await writer.begin(state);
    /** Changes that are compacted, the newest of each key: with the older objects they make the objects. */
    const compacted = new Map<string, Row>();
    const addChange = async (row: Row): Promise<void> => {
      if (row.revision <= state.compactedRevision) compacted.set(row.key, row);
      else await writer.add(transform(row));
    };
    let newer: Row[] | undefined;
    const changesAreDone = async (): Promise<Row[]> => {
      for (const { rows } of records) for (const row of rows) await addChange(row);
      await writer.add(markOf('objects', 0));
      // Taken from the end.
      return [...compacted.values()].toSorted((a, b) => compareByteOrder(b.key, a.key));
    };
    for await (const { part, rows } of base?.rows() ?? []) {
      if (part === 'objects') newer ??= await changesAreDone();
      for (const row of rows) {
        if (newer === undefined) await addChange(row);
        else if (!(await writer.addBefore(row.key, newer, transform))) await writer.add(transform(row));
      }
    }
    newer ??= await changesAreDone();
    await writer.addBefore(undefined, newer, transform);
    const sizeBytes = await writer.end();
    await rename(draft, path);
    syncPath(dirname(path));
    return sizeBytes;
  } catch (thrown) {
    await writer.abandon();
    await rm(draft, { force: true });
    throw thrown;
  }
}

class SnapshotWriter {
  readonly #file: FileHandle;
  readonly #checkRoom: (() => Promise<void>) | undefined;
  #waiting: Buffer[] = [];
  #waitingBytes = 0;
  #count = 0;
  #sizeBytes = 0;
  #syncedBytes = 0;

  constructor(file: FileHandle, checkRoom: (() => Promise<void>) | undefined) {
    this.#file = file;
    this.#checkRoom = checkRoom;
  }

  async begin(state: StoreState): Promise<void> {
    this.#push(magic);
    this.#push(markOf(JSON.stringify({ format, ...state }), 0).bytes);
  }

  /** Not `async`: most rows are only put aside, and a promise for each would cost more than the row. */
  add({ bytes }: Row): Promise<void> | undefined {
    this.#push(bytes);
    this.#count += 1;
    return this.#waitingBytes >= turnBytes ? this.#flush() : undefined;
  }

  /** Adds what comes before `key` of `newer`, which is sorted from its end. True when `key` itself was among it. */
  async addBefore(key: string | undefined, newer: Row[], transform: (row: Row) => Row): Promise<boolean> {
    for (let next = newer.at(-1); next !== undefined; next = newer.at(-1)) {
      const order = key === undefined ? -1 : compareByteOrder(next.key, key);
      if (order > 0) return false;
      newer.pop();
      if (next.type === 'put') await this.add(transform(next));
      if (order === 0) return true;
    }
    return false;
  }

  async end(): Promise<number> {
    await this.add(markOf('end', this.#count));
    await this.#flush();
    await this.#file.sync();
    await this.#file.close();
    return this.#sizeBytes;
  }

  async abandon(): Promise<void> {
    await this.#file.close().catch(() => {});
  }

  #push(bytes: Buffer): void {
    this.#waiting.push(bytes);
    this.#waitingBytes += bytes.length;
  }

  async #flush(): Promise<void> {
    const bytes = Buffer.concat(this.#waiting, this.#waitingBytes);
    this.#waiting = [];
    this.#waitingBytes = 0;
    for (let done = 0; done < bytes.length;) done += (await this.#file.write(bytes, done)).bytesWritten;
    this.#sizeBytes += bytes.length;
    if (this.#sizeBytes - this.#syncedBytes < syncBytes) return;
    this.#syncedBytes = this.#sizeBytes;
    await this.#file.datasync();
    await this.#checkRoom?.();
  }
}

function markOf(key: string, revision: number): Row {
  return encodeRow({ type: 'mark', key, revision, time: 0 }, Buffer.alloc(0));
}

async function readAt(file: FileHandle, offset: number, length: number): Promise<Buffer> {
  const bytes = Buffer.allocUnsafe(length);
  let done = 0;
  while (done < length) {
    const { bytesRead } = await file.read(bytes, done, length - done, offset + done);
    if (bytesRead === 0) break;
    done += bytesRead;
  }
  return bytes.subarray(0, done);
}
