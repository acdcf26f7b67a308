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

/** One bit for each held rule. */
type Holders = bigint;

/** Items, none for any, that the same held rules cover. */
interface Alike {
  readonly items: readonly string[];
  readonly holders: Holders;
}

export function coverage(held: readonly PolicyRule[], wanted: readonly PolicyRule[]): Coverage {
  const missing: PolicyRule[] = [];
  let left = stepsMax;
  for (const rule of wanted) {
    const verbs = alike(held, rule.verbs, (owner, verb) => hasOrAll(owner.verbs, verb));
    const add = (holders: Holders, parts: Omit<PolicyRule, 'verbs'>): boolean => {
      const uncovered = verbs.filter((one) => (one.holders & holders) === 0n).flatMap(({ items }) => items);
      left -= 1 + uncovered.length;
      if (uncovered.length > 0) missing.push({ ...parts, verbs: inOrderOf(rule.verbs, uncovered) });
      return left > 0;
    };
    if (!eachCombination(held, rule, add)) return { missing, isCut: true };
  }
  return { missing, isCut: false };
}

/** False when `look` has had enough. */
function eachCombination(
  held: readonly PolicyRule[],
  { apiGroups = [], resources = [], resourceNames = [], nonResourceURLs = [] }: PolicyRule,
  look: (holders: Holders, parts: Omit<PolicyRule, 'verbs'>) => boolean,
): boolean {
  const groups = alike(held, apiGroups, (owner, group) => hasOrAll(owner.apiGroups, group));
  const plurals = alike(held, resources, resourceCovers);
  const names =
    resourceNames.length > 0
      ? alike(held, resourceNames, isOfName)
      : [{ items: [], holders: holdersOf(held, (owner) => (owner.resourceNames ?? []).length === 0) }];
  for (const group of groups) {
    for (const plural of plurals) {
      for (const name of names) {
        const parts = { apiGroups: group.items, resources: plural.items };
        const holders = group.holders & plural.holders & name.holders;
        if (!look(holders, name.items.length === 0 ? parts : { ...parts, resourceNames: name.items })) return false;
      }
    }
  }
  const paths = alike(held, nonResourceURLs, (owner, path) =>
    (owner.nonResourceURLs ?? []).some((pattern) => pathMatches(pattern, path)),
  );
  return paths.every(({ items, holders }) => look(holders, { nonResourceURLs: items }));
}

/** Also for patterns: `/a/*` matches `/a/b/*`. */
export function pathMatches(pattern: string, path: string): boolean {
  return pattern === path || (pattern.endsWith('*') && path.startsWith(pattern.replace(/\*+$/, '')));
}

function alike(
  held: readonly PolicyRule[],
  items: readonly string[],
  covers: (owner: PolicyRule, item: string) => boolean,
): readonly Alike[] {
  const classes = new Map<Holders, string[]>();
  for (const item of new Set(items)) {
    const holders = holdersOf(held, (owner) => covers(owner, item));
    const known = classes.get(holders);
    if (known === undefined) classes.set(holders, [item]);
    else known.push(item);
  }
  return [...classes].map(([holders, together]) => ({ items: together, holders }));
}

function holdersOf(held: readonly PolicyRule[], covers: (owner: PolicyRule) => boolean): Holders {
  return BigInt(`0b0${held.map((owner) => (covers(owner) ? '1' : '0')).join('')}`);
}

function resourceCovers({ resources = [] }: PolicyRule, resource: string): boolean {
  const slash = resource.indexOf('/');
  return hasOrAll(resources, resource) || (slash >= 0 && resources.includes(`*${resource.slice(slash)}`));
}

function isOfName({ resourceNames = [] }: PolicyRule, name: string): boolean {
  return resourceNames.length === 0 || resourceNames.includes(name);
}

function hasOrAll(list: readonly string[] = [], item: string): boolean {
  return list.includes('*') || list.includes(item);
}

function inOrderOf(all: readonly string[], some: readonly string[]): readonly string[] {
  const wanted = new Set(some);
  return [...new Set(all)].filter((item) => wanted.has(item));
}
