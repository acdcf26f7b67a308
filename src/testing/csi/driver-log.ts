/**
 * What the test driver was asked, and what it did: one file of JSON lines for all drivers of one storage, which outlives them.
 * From it follows whether a volume was ever used in two places at once, or where it must not be used.
 */
import { appendFileSync, existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import type { JsonObject } from '@bufbuild/protobuf';

/** As JSON, with what is most asked about. */
export interface LoggedRequest extends JsonObject {
  readonly name?: string;
  readonly volumeId?: string;
  readonly nodeId?: string;
  readonly stagingTargetPath?: string;
  readonly targetPath?: string;
  readonly volumeCapability?: { readonly accessMode?: { readonly mode?: string }; readonly block?: JsonObject };
  readonly volumeContext?: Readonly<Record<string, string>>;
}

interface Asked {
  readonly at: 'asked';
  readonly call: string;
  readonly method: string;
  readonly volume: string;
  readonly node: string;
  readonly request: LoggedRequest;
  /** Their names: what they are is never written down. */
  readonly secrets: readonly string[];
  /** A fault does not keep it from being carried out. */
  readonly isWorkedOn: boolean;
  readonly faults: readonly string[];
}

interface Ended {
  readonly at: 'ended';
  readonly call: string;
  /** Unless another fault lost it, `code` is what the caller got. */
  readonly work: 'done' | 'failed' | 'none';
  readonly code: string;
  readonly message: string;
  readonly answer: unknown;
}

/** A node that has ended with all its mounts, as the test says. */
interface NodeLost {
  readonly at: 'lost';
  readonly node: string;
}

export type LogLine = Asked | Ended | NodeLost;

/** `work` and `code` are missing while it is carried out, and for ever when the driver was killed at that. */
export type LoggedCall = Omit<Asked, 'at'> & Partial<Pick<Ended, 'work' | 'code' | 'message' | 'answer'>>;

export class DriverLog {
  readonly #path: string;

  constructor(directory: string) {
    this.#path = join(directory, 'calls.jsonl');
  }

  /** One write: lines of several processes do not mix. */
  write(line: LogLine): void {
    appendFileSync(this.#path, `${JSON.stringify(line)}\n`);
  }

  lines(): LogLine[] {
    if (!existsSync(this.#path)) return [];
    const text = readFileSync(this.#path, 'utf8');
    return text
      .split('\n')
      .slice(0, -1)
      .map((line) => JSON.parse(line) as LogLine);
  }

  calls(): LoggedCall[] {
    const calls = new Map<string, LoggedCall>();
    for (const line of this.lines()) {
      if (line.at === 'asked') calls.set(line.call, line);
      const asked = line.at === 'ended' ? calls.get(line.call) : undefined;
      if (line.at === 'ended' && asked !== undefined) calls.set(line.call, { ...line, ...asked });
    }
    return [...calls.values()];
  }

  faultCounts(): Map<string, number> {
    const counts = new Map<string, number>();
    for (const { faults } of this.calls()) for (const one of faults) counts.set(one, (counts.get(one) ?? 0) + 1);
    return counts;
  }

  /** What is wrong, in sentences; empty when every volume was used as it must be. */
  violations(): string[] {
    return this.#replayed().violations;
  }

  /** What is attached, staged and published, or may be: empty when everything was undone. */
  inUse(): string[] {
    return this.#replayed().inUse();
  }

  #replayed(): Storage {
    const lines = this.lines();
    const attaches = lines.some((line) => line.at === 'asked' && line.method === 'ControllerPublishVolume');
    const storage = new Storage(attaches);
    for (const line of lines) storage.replay(line);
    return storage;
  }
}

interface Use {
  readonly kind: 'attached' | 'staged' | 'published';
  readonly volume: string;
  readonly node: string;
  readonly path: string;
  readonly isShared: boolean;
  readonly begunBy: string;
  /** False between the call and its end, and for ever when the driver died at it: then it may be so. */
  readonly isCertain: boolean;
}

const begins: Readonly<Record<string, Use['kind']>> = {
  ControllerPublishVolume: 'attached',
  NodeStageVolume: 'staged',
  NodePublishVolume: 'published',
};
const ends: Readonly<Record<string, Use['kind']>> = {
  ControllerUnpublishVolume: 'attached',
  NodeUnstageVolume: 'staged',
  NodeUnpublishVolume: 'published',
};

class Storage {
  readonly violations: string[] = [];
  readonly #attaches: boolean;
  readonly #uses = new Map<string, Use>();
  readonly #asked = new Map<string, Asked>();

  constructor(attaches: boolean) {
    this.#attaches = attaches;
  }

  inUse(): string[] {
    return [...this.#uses.values()].map(({ kind, volume, node, path }) =>
      `${volume} ${kind} on ${node} ${path}`.trim(),
    );
  }

  replay(line: LogLine): void {
    if (line.at === 'asked') {
      this.#asked.set(line.call, line);
      if (line.isWorkedOn) this.#check(line);
    } else if (line.at === 'ended') this.#end(line);
    else this.#forget(({ node, kind }) => node === line.node && kind !== 'attached');
  }

  #check(asked: Asked): void {
    const { method, volume, node } = asked;
    const mine = [...this.#uses.values()].filter((use) => use.volume === volume);
    const report = (why: string): void => void this.violations.push(`${method} of ${volume} on ${node}: ${why}`);
    const isHere = (kind: Use['kind']): boolean => mine.some((use) => use.kind === kind && use.node === node);
    const isReady = (kind: Use['kind']): boolean =>
      mine.some((use) => use.kind === kind && use.node === node && use.isCertain);
    const kind = begins[method];
    if (kind !== undefined) {
      const use = useOf(kind, asked);
      const others = mine.filter(
        (other) => other.kind === kind && other.node !== node && !(other.isShared && use.isShared),
      );
      for (const other of others) report(`it is ${kind} on ${other.node}`);
      if (kind === 'staged' && this.#attaches && !isReady('attached')) report('it is not attached');
      if (kind === 'published' && stagingPath(asked) !== '' && !isBlock(asked) && !isReady('staged'))
        report('it is not staged');
      const isAlone = asked.request.volumeCapability?.accessMode?.mode === 'SINGLE_NODE_SINGLE_WRITER';
      const another = mine.find((other) => other.kind === kind && other.node === node && other.path !== use.path);
      if (isAlone && another !== undefined) report(`it is ${kind} at ${another.path}`);
      if (!this.#uses.has(keyOf(use))) this.#uses.set(keyOf(use), use);
    }
    if (method === 'ControllerUnpublishVolume' && (isHere('staged') || isHere('published'))) report('the node uses it');
    if (method === 'NodeUnstageVolume' && isHere('published')) report('it is published');
    if (method === 'NodeExpandVolume' && !isHere('staged') && !isHere('published')) report('it is not in use');
    if (method === 'DeleteVolume') for (const use of mine) report(`it is ${use.kind} on ${use.node}`);
  }

  #end({ call, work }: Ended): void {
    const asked = this.#asked.get(call);
    if (asked === undefined || !asked.isWorkedOn) return;
    const begun = begins[asked.method];
    if (begun !== undefined) {
      const use = this.#uses.get(keyOf(useOf(begun, asked))) ?? useOf(begun, asked);
      // What has failed is undone by the driver. What another call began, or may have begun, stays.
      if (work === 'done') this.#uses.set(keyOf(use), { ...use, isCertain: true });
      else if (use.begunBy === call && !use.isCertain) this.#uses.delete(keyOf(use));
    }
    const ended = ends[asked.method];
    if (ended === undefined || work !== 'done') return;
    const { volume, node, path } = useOf(ended, asked);
    // A volume that is detached without a node's name is detached from all of them.
    this.#forget(
      (use) => use.kind === ended && use.volume === volume && (node === '' || use.node === node) && use.path === path,
    );
  }

  #forget(which: (use: Use) => boolean): void {
    for (const [key, use] of this.#uses) if (which(use)) this.#uses.delete(key);
  }
}

function keyOf({ kind, volume, node, path }: Use): string {
  return JSON.stringify([kind, volume, node, path]);
}

function useOf(kind: Use['kind'], asked: Asked): Use {
  const { volume, node, request } = asked;
  const isShared = request.volumeCapability?.accessMode?.mode?.startsWith('MULTI_NODE_') === true;
  const path = { attached: '', staged: stagingPath(asked), published: request.targetPath ?? '' }[kind];
  return { kind, volume, node, path, isShared, begunBy: asked.call, isCertain: false };
}

function stagingPath({ request }: Asked): string {
  return request.stagingTargetPath ?? '';
}

/** The node passes a staging path for a block volume even when the driver does not stage. */
function isBlock({ request }: Asked): boolean {
  return request.volumeCapability?.block !== undefined;
}
