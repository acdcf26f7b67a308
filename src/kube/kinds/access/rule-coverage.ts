/**
 * Whether what somebody wants to grant is within what they hold. A wanted rule stands for all combinations of its verbs, groups,
 * resources and names, and one held rule has to cover each of them.
 *
 * The combinations are not counted out one by one: a rule of a few kilobytes has billions. Items that the same held rules cover are
 * looked at together, which leaves as many combinations as the held rules can tell apart.
 */
import type { PolicyRule } from './role.ts';

interface Coverage {
  /** What no held rule covers, in the order of the wanted rules. */
  readonly missing: readonly PolicyRule[];
  /** There were too many combinations to look at: what is missing is not known in full. */
  readonly isCut: boolean;
}

/** Combinations that are looked at, and verbs that are missing of them: some 10 ms of work. */
const stepsMax = 20_000;
/** Bits that are made for them, one for each held rule: some 100 ms of work. */
const bitsMax = 100_000_000;

/** One bit for each held rule. */
type Holders = bigint;

/** Items, none for any, that the same held rules cover. */
interface Alike {
  readonly items: readonly string[];
  readonly holders: Holders;
}

export function coverage(held: readonly PolicyRule[], wanted: readonly PolicyRule[]): Coverage {
  const heldRules = new HeldRules(held);
  const missing: PolicyRule[] = [];
  let left = stepsMax;
  for (const rule of wanted) {
    const verbs = heldRules.alike('verbs', rule.verbs);
    const add = (holders: Holders, parts: Omit<PolicyRule, 'verbs'>): boolean => {
      const uncovered = verbs.filter((one) => (one.holders & holders) === 0n).flatMap(({ items }) => items);
      left -= verbs.length + uncovered.length;
      if (uncovered.length > 0) missing.push({ ...parts, verbs: inOrderOf(rule.verbs, uncovered) });
      return left > 0;
    };
    if (!eachCombination(heldRules, rule, add) || heldRules.isSpent) return { missing, isCut: true };
  }
  return { missing, isCut: false };
}

/** False when `look` has had enough. */
function eachCombination(
  held: HeldRules,
  { apiGroups = [], resources = [], resourceNames = [], nonResourceURLs = [] }: PolicyRule,
  look: (holders: Holders, parts: Omit<PolicyRule, 'verbs'>) => boolean,
): boolean {
  const plurals = held.alike('resources', resources);
  const names = resourceNames.length > 0 ? held.alike('resourceNames', resourceNames) : [held.ofAnyName()];
  for (const group of held.alike('apiGroups', apiGroups)) {
    for (const plural of plurals) {
      for (const name of names) {
        const parts = { apiGroups: group.items, resources: plural.items };
        const holders = group.holders & plural.holders & name.holders;
        if (!look(holders, name.items.length === 0 ? parts : { ...parts, resourceNames: name.items })) return false;
      }
    }
  }
  const paths = held.alike('nonResourceURLs', nonResourceURLs);
  return paths.every(({ items, holders }) => look(holders, { nonResourceURLs: items }));
}

/** Also for patterns: `/a/*` matches `/a/b/*`. */
export function pathMatches(pattern: string, path: string): boolean {
  return pattern === path || (pattern.endsWith('*') && path.startsWith(pattern.replace(/\*+$/, '')));
}

type Part = keyof PolicyRule;

/** What a rule says in one part; undefined for a rule that is not limited to names. */
type Word = string | undefined;

/** The rules that say a word, by their positions; words of the same rules share a number. */
interface Sayers {
  readonly number: number;
  readonly positions: readonly number[];
}

/** The held rules by their words: an item costs what covers it, and not a look at every rule. */
class HeldRules {
  readonly #held: readonly PolicyRule[];
  readonly #sayers = new Map<Part, ReadonlyMap<Word, Sayers>>();
  readonly #holders = new Map<string, Holders>();
  #bitsLeft = bitsMax;

  constructor(held: readonly PolicyRule[]) {
    this.#held = held;
  }

  /** What was answered since is not complete. */
  get isSpent(): boolean {
    return this.#bitsLeft <= 0;
  }

  alike(part: Part, items: readonly string[]): readonly Alike[] {
    const classes = new Map<string, { readonly items: string[]; readonly sayers: readonly Sayers[] }>();
    for (const item of new Set(items)) {
      const sayers = this.#covering(part, item);
      const key = `${part} ${sayers.map(({ number }) => number).join()}`;
      const known = classes.get(key);
      if (known === undefined) classes.set(key, { items: [item], sayers });
      else known.items.push(item);
    }
    return [...classes].flatMap(([key, { items: together, sayers }]) =>
      this.isSpent ? [] : { items: together, holders: this.#holdersOf(key, sayers) },
    );
  }

  ofAnyName(): Alike {
    const sayers = this.#sayersIn('resourceNames').get(undefined);
    return { items: [], holders: this.#holdersOf('any name', sayers === undefined ? [] : [sayers]) };
  }

  #covering(part: Part, item: string): readonly Sayers[] {
    const sayers = this.#sayersIn(part);
    let words = coveringWords(part, item);
    if (part === 'nonResourceURLs') {
      // A comparison with a pattern takes as long as some bits.
      this.#bitsLeft -= sayers.size * 16;
      words = this.isSpent ? [] : [...sayers.keys()].filter((pattern = '') => pathMatches(pattern, item));
    }
    return words.flatMap((word) => sayers.get(word) ?? []);
  }

  #sayersIn(part: Part): ReadonlyMap<Word, Sayers> {
    let known = this.#sayers.get(part);
    if (known === undefined) this.#sayers.set(part, (known = sayersOf(part, this.#held)));
    return known;
  }

  /** The same words are asked about for many rules. */
  #holdersOf(key: string, sayers: readonly Sayers[]): Holders {
    const known = this.#holders.get(key);
    if (known !== undefined) return known;
    this.#bitsLeft -= this.#held.length;
    const bytes = Buffer.alloc((this.#held.length >> 3) + 1);
    for (const { positions } of sayers) {
      for (const position of positions) bytes[position >> 3] = (bytes[position >> 3] ?? 0) | (1 << (position & 7));
    }
    const holders = BigInt(`0x${bytes.toString('hex')}`);
    this.#holders.set(key, holders);
    return holders;
  }
}

function sayersOf(part: Part, held: readonly PolicyRule[]): ReadonlyMap<Word, Sayers> {
  const positions = new Map<Word, number[]>();
  for (const [position, rule] of held.entries()) {
    const said = rule[part] ?? [];
    const words = part === 'resourceNames' && said.length === 0 ? [undefined] : said;
    for (const word of new Set(words)) {
      const known = positions.get(word);
      if (known === undefined) positions.set(word, [position]);
      else known.push(position);
    }
  }
  const numbers = new Map<string, number>();
  return new Map(
    [...positions].map(([word, own]) => {
      const key = own.join();
      const number = numbers.get(key) ?? numbers.size;
      numbers.set(key, number);
      return [word, { number, positions: own }];
    }),
  );
}

/** The words of a rule that cover an item, but for paths, which have patterns. */
function coveringWords(part: Part, item: string): readonly Word[] {
  if (part === 'resourceNames') return [item, undefined];
  const slash = part === 'resources' ? item.indexOf('/') : -1;
  return slash < 0 ? [item, '*'] : [item, '*', `*${item.slice(slash)}`];
}

function inOrderOf(all: readonly string[], some: readonly string[]): readonly string[] {
  const wanted = new Set(some);
  return [...new Set(all)].filter((item) => wanted.has(item));
}
