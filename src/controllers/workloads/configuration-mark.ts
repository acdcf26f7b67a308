/**
 * What a workload's pods were last known to use, kept on the workload as a mark, and whether it is time to replace them. Pure.
 *
 * The mark has one word for each object, made from the keys that are used of it. What is new to the template has no word yet and
 * starts nothing; what is in both and differs has changed. The words are keyed: a plain hash of a short password can be guessed.
 */
import { createHmac } from 'node:crypto';
import { type ConfigMap, decodeBase64, encodeBase64 } from '../../kube/kinds/config-map.ts';
import type { Secret } from '../../kube/kinds/secret.ts';
import type { UsedObject } from '../../kube/references/used-keys.ts';
import { canonicalJson } from '../../kube/schema/equality.ts';
import { isOlder } from '../../kube/schema/meta.ts';
import { compareByteOrder } from '../../kube/values/go-text.ts';

export interface SeenContent {
  readonly used: UsedObject;
  readonly found: ConfigMap | Secret | undefined;
}

type Word = SeenContent & {
  /** Of the object and the keys that are used. */
  readonly id: string;
  readonly digest: string;
};

interface Mark {
  /** `KEY:ID=DIGEST,…` */
  readonly text: string;
  /** Differs where the text does. */
  readonly short: string;
  readonly words: readonly Word[];
}

const [idLength, digestLength] = [8, 16];

export function markOf(key: string, contents: readonly SeenContent[]): Mark {
  const keyed = (value: unknown, length: number): string =>
    createHmac('sha256', key).update(canonicalJson(value)).digest('base64url').slice(0, length);
  const words = contents.map(({ used, found }) => {
    const keys = used.keys === undefined ? null : [...used.keys].toSorted(compareByteOrder);
    const id = keyed([used.kind, used.name, keys], idLength);
    return { used, found, id, digest: keyed([id, usedEntries(used, found)], digestLength) };
  });
  const texts = words.map(({ id, digest }) => `${id}=${digest}`).toSorted(compareByteOrder);
  return { text: `${keyed('key', idLength)}:${texts.join(',')}`, short: keyed(texts, digestLength), words };
}

function usedEntries({ kind, keys }: UsedObject, found: SeenContent['found']): object | null {
  if (found === undefined) return null;
  const entries = Object.entries(bytesOf(kind, found)).filter(([key]) => keys === undefined || keys.has(key));
  return Object.fromEntries(entries);
}

/** In base64, of which there is more than one text for the same bytes. */
function bytesOf(kind: UsedObject['kind'], object: ConfigMap | Secret): Readonly<Record<string, string>> {
  const texts = kind === 'ConfigMap' ? object.data : {};
  const bytes = kind === 'ConfigMap' ? (object as ConfigMap).binaryData : object.data;
  return {
    ...mapped(texts, encodeBase64),
    ...mapped(bytes, (text) => decodeBase64(text).toString('base64')),
  };
}

function mapped(entries: ConfigMap['data'], change: (text: string) => string): Readonly<Record<string, string>> {
  return Object.fromEntries(Object.entries(entries ?? {}).map(([key, value]) => [key, change(value)]));
}

/** Pods can start. A workload whose pods cannot is left alone until they can. */
export function isComplete(contents: readonly SeenContent[]): boolean {
  return contents.every(({ used, found }) => {
    if (found === undefined) return !used.isRequired;
    const present = { ...found.data, ...('binaryData' in found ? found.binaryData : {}) };
    return [...used.requiredKeys].every((key) => Object.hasOwn(present, key));
  });
}

/** What has changed since the mark was written. `unknown`: there is none, or it was made with another key. */
export function changedSince(before: string | undefined, { text, words }: Mark): readonly SeenContent[] | 'unknown' {
  const [key, list = ''] = before?.split(':') ?? [];
  if (before === undefined || key !== text.split(':')[0]) return 'unknown';
  const known = new Map(list.split(',').map((word) => [word.slice(0, idLength), word.slice(idLength + 1)] as const));
  return words.filter(({ id, digest }) => (known.get(id) ?? digest) !== digest);
}

// When it is time.

/** After the last change, and at most so long after the first: an edit is seldom one write. */
const quietMs = 2_000;
const quietMsMax = 30_000;
const apartMs = 60_000;
const hourMs = 3_600_000;
const rolloutsPerHourMax = 10;
/** A rollout that never ends may be one that only the new content can end. As long as a Deployment waits for progress. */
const runningMsMax = 600_000;

interface Facts {
  readonly changed: readonly SeenContent[];
  /** When a change was first and last noticed. */
  readonly firstMs: number;
  readonly lastMs: number;
  /** The version at which the template was last changed by anybody, where that was seen. */
  readonly templateVersion: string | undefined;
  /** Of the last hour, in order. */
  readonly rolloutsMs: readonly number[];
  readonly isPaused: boolean;
  readonly isRolling: boolean;
}

type Following =
  /** The pods have it already, or get it without us. */
  | { readonly kind: 'mark' }
  /** Until then, or until something changes. */
  | { readonly kind: 'wait'; readonly untilMs: number | undefined }
  | { readonly kind: 'rollout' };

export function planFollowing(facts: Facts, nowMs: number): Following {
  const { changed, firstMs, lastMs, templateVersion, rolloutsMs, isPaused, isRolling } = facts;
  // Whoever applies configuration and workload together starts a rollout with the template: its pods read what was written before.
  const isIncluded = changed.every(
    ({ found }) => found !== undefined && isOlder(found.metadata.resourceVersion, templateVersion),
  );
  if (isIncluded) return { kind: 'mark' };
  if (isPaused) return { kind: 'wait', untilMs: undefined };
  const [oldest = 0] = rolloutsMs.slice(-rolloutsPerHourMax);
  const untilMs = Math.max(
    Math.min(lastMs + quietMs, firstMs + quietMsMax),
    isRolling ? firstMs + runningMsMax : 0,
    (rolloutsMs.at(-1) ?? -apartMs) + apartMs,
    rolloutsMs.length < rolloutsPerHourMax ? 0 : oldest + hourMs,
  );
  return untilMs > nowMs ? { kind: 'wait', untilMs } : { kind: 'rollout' };
}

/** Times of rollouts as an annotation has them. What is no time, or not of the last hour, is left out. */
export function rolloutTimes(text: string | undefined, nowMs: number): readonly number[] {
  const times = (text ?? '').split(',').map((time) => Date.parse(time));
  return times.filter((time) => time > nowMs - hourMs && time <= nowMs).slice(-rolloutsPerHourMax);
}
