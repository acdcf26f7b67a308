/**
 * When a disk counts as short: thresholds as the kubelet's configuration writes them, read and checked in its words. Whether one is
 * met is decided in disk-pressure.ts. Memory and process ids are not watched here: their thresholds are checked and then ignored.
 */
import { Quantity, QuantityError } from '../kube/values/quantity.ts';
import { parseDurationMs } from '../kube/values/times.ts';

export type Signal = 'nodefs.available' | 'nodefs.inodesFree' | 'imagefs.available' | 'imagefs.inodesFree';

const watched: readonly Signal[] = ['nodefs.available', 'nodefs.inodesFree', 'imagefs.available', 'imagefs.inodesFree'];
/** The thresholds of a container's file system are always those of the node's or the images', whatever is configured. */
const ignored = [
  'memory.available',
  'pid.available',
  'allocatableMemory.available',
  'containerfs.available',
  'containerfs.inodesFree',
];

/** An amount, or a part of the capacity: 0.1. */
type Amount = { readonly quantity: Quantity } | { readonly part: number };

export interface Threshold {
  readonly signal: Signal;
  /** Met when less than this is available. */
  readonly below: Amount;
  /** What has to be available beyond that before it counts as resolved. */
  readonly minimumReclaim: Amount;
  /** How long it has to be met before pods are evicted; zero: a hard threshold. */
  readonly graceMs: number;
}

type Texts = Readonly<Record<string, string>>;

export interface ThresholdTexts {
  readonly evictionHard?: Texts | undefined;
  readonly evictionSoft?: Texts | undefined;
  readonly evictionSoftGracePeriod?: Texts | undefined;
  readonly evictionMinimumReclaim?: Texts | undefined;
  /** `evictionHard` replaces only the defaults of the signals that it names, not all of them. */
  readonly mergeDefaultEvictionSettings?: boolean | undefined;
}

/** The kubelet's. */
const defaultHard: Texts = {
  'memory.available': '100Mi',
  'nodefs.available': '10%',
  'nodefs.inodesFree': '5%',
  'imagefs.available': '15%',
  'imagefs.inodesFree': '5%',
};

interface Reserve {
  readonly resource: string;
  readonly amount: Amount;
}

const reservedResources: Readonly<Record<string, string>> = {
  'memory.available': 'memory',
  'nodefs.available': 'ephemeral-storage',
};

export interface Thresholds {
  /** Hard ones first, since they end pods sooner. */
  readonly given: readonly Threshold[];
  /** Those that hold where `evictionHard` is not given. */
  readonly defaults: readonly Threshold[];
  /** What hard thresholds keep from pods, by resource: those that were given, and the defaults as above. */
  readonly reserves: { readonly given: readonly Reserve[]; readonly defaults: readonly Reserve[] };
  /** Signals with a threshold that has no effect. */
  readonly unwatched: readonly string[];
}

/** Reports what is wrong in `problems`. */
export function readThresholds(texts: ThresholdTexts, problems: string[]): Thresholds {
  const report = (field: string, problem: string): void => void problems.push(`${field}: ${problem}`);
  const { evictionHard, evictionSoft = {}, evictionSoftGracePeriod = {}, evictionMinimumReclaim = {} } = texts;
  const graces = entriesOf('evictionSoftGracePeriod', evictionSoftGracePeriod, report, parseGrace);
  const reclaims = entriesOf('evictionMinimumReclaim', evictionMinimumReclaim, report, parseReclaim);
  const thresholds = (field: string, list: Texts, graceOf: (signal: string) => number): readonly Threshold[] =>
    [...entriesOf(field, list, report, parseThreshold)].flatMap(([signal, below]) => {
      const known = watched.find((one) => one === signal);
      if (known === undefined || below === undefined) return [];
      return [{ signal: known, below, minimumReclaim: reclaims.get(signal) ?? none, graceMs: graceOf(signal) }];
    });
  for (const signal of Object.keys(evictionSoft)) {
    if (evictionSoftGracePeriod[signal] === undefined)
      report('evictionSoft', `grace period must be specified for the soft eviction threshold ${signal}`);
  }
  const soft = thresholds('evictionSoft', evictionSoft, (signal) => graces.get(signal) ?? 0);
  const merged = texts.mergeDefaultEvictionSettings === true ? { ...defaultHard, ...evictionHard } : evictionHard;
  const reserves = (list: Texts): readonly Reserve[] =>
    [...entriesOf('', list, () => {}, parseThreshold)].flatMap(([signal, amount]) => {
      const resource = reservedResources[signal];
      return resource === undefined || amount === undefined ? [] : [{ resource, amount }];
    });
  return {
    given: [...thresholds('evictionHard', merged ?? {}, () => 0), ...soft],
    defaults: merged === undefined ? thresholds('evictionHard', defaultHard, () => 0) : [],
    reserves: { given: reserves(merged ?? {}), defaults: merged === undefined ? reserves(defaultHard) : [] },
    unwatched: ignored.filter((signal) => [evictionHard, evictionSoft].some((list) => list?.[signal] !== undefined)),
  };
}

/** As a configuration writes it. */
export function amountText(amount: Amount): string {
  return 'part' in amount ? `${Number((amount.part * 100).toPrecision(6))}%` : String(amount.quantity);
}

const none: Amount = { quantity: Quantity.zero() };

function entriesOf<T>(
  field: string,
  texts: Texts,
  report: (field: string, problem: string) => void,
  parse: (signal: string, text: string) => T,
): ReadonlyMap<string, T> {
  const values = new Map<string, T>();
  for (const [signal, text] of Object.entries(texts)) {
    try {
      if (![...watched, ...ignored].includes(signal)) report(field, `unsupported eviction signal ${signal}`);
      else values.set(signal, parse(signal, text));
    } catch (error) {
      if (!(error instanceof QuantityError)) throw error;
      report(field, error.message);
    }
  }
  return values;
}

/** Undefined: it is switched off. */
function parseThreshold(signal: string, text: string): Amount | undefined {
  if (text === '0%' || text === '100%') return undefined;
  if (text.endsWith('%')) {
    const part = parsePart(text);
    if (part < 0) throw new QuantityError(`eviction percentage threshold ${signal} must be >= 0%: ${text}`);
    if (part > 1) throw new QuantityError(`eviction percentage threshold ${signal} must be <= 100%: ${text}`);
    return { part };
  }
  const quantity = Quantity.parse(text);
  if (quantity.sign() <= 0)
    throw new QuantityError(`eviction threshold ${signal} must be positive: ${String(quantity)}`);
  return { quantity };
}

function parseReclaim(signal: string, text: string): Amount {
  if (text.endsWith('%')) {
    const part = parsePart(text);
    if (part <= 0) throw new QuantityError(`eviction percentage minimum reclaim ${signal} must be positive: ${text}`);
    return { part };
  }
  const quantity = Quantity.parse(text);
  if (quantity.sign() < 0) throw new QuantityError(`negative eviction minimum reclaim specified for ${signal}`);
  return { quantity };
}

/** With the precision of the kubelet, so that the amounts in messages are the same. */
function parsePart(text: string): number {
  const number = text.slice(0, -1);
  if (!/^[+-]?(\d+\.?\d*|\.\d+)$/.test(number)) throw new QuantityError(`${JSON.stringify(text)} is not a percentage`);
  return Math.fround(Math.fround(Number(number)) / 100);
}

function parseGrace(_signal: string, text: string): number {
  const ms = parseDurationMs(text);
  if (ms === undefined) throw new QuantityError(`${JSON.stringify(text)} is not a duration, such as 1m30s`);
  if (ms < 0) {
    throw new QuantityError(`invalid eviction grace period specified: ${text}, must be a positive value`);
  }
  return ms;
}

export function amountOf(amount: Amount, capacity: number): number {
  return 'quantity' in amount ? Number(amount.quantity.value()) : Math.trunc(capacity * amount.part);
}
