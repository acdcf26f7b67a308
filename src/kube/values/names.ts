/**
 * What the API allows as a name, a key, a label or a path, with the API server's own words for what is wrong. Every rule
 * returns its problems, none when the value is fine. Which rule holds for which field is said by the validation files.
 */
export type Problems = readonly string[];

const label = '[a-z0-9]([-a-z0-9]*[a-z0-9])?';
const subdomain = String.raw`${label}(\.${label})*`;
const qualifiedPart = '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]';
const labelValue = `(${qualifiedPart})?`;
const configMapKey = '[-._a-zA-Z0-9]+';

const labelPattern = new RegExp(`^${label}$`);
const subdomainPattern = new RegExp(`^${subdomain}$`);
const qualifiedPartPattern = new RegExp(`^${qualifiedPart}$`);
const labelValuePattern = new RegExp(`^${labelValue}$`);
const configMapKeyPattern = new RegExp(`^${configMapKey}$`);

const labelBytesMax = 63;
const subdomainBytesMax = 253;
/** The longest file name Linux takes; a pod's UID names its directory. */
const fileNameBytesMax = 255;

/** Names of volumes, containers and namespaces. */
export function dnsLabelProblems(value: string): Problems {
  const problems = tooLong(value, labelBytesMax, 'characters');
  if (labelPattern.test(value)) return problems;
  if (subdomainPattern.test(value)) return [...problems, 'must not contain dots'];
  const rule =
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character";
  return [...problems, withPattern(rule, label, 'my-name', '123-abc')];
}

/** Names of most objects: pods, ConfigMaps, Secrets, nodes. */
export function dnsSubdomainProblems(value: string): Problems {
  return subdomainProblems(value, 'characters');
}

/** A host of many: `*.example.com`. */
export function wildcardSubdomainProblems(value: string): Problems {
  const problems = tooLong(value, subdomainBytesMax, 'characters');
  const pattern = String.raw`\*\.${subdomain}`;
  if (new RegExp(`^${pattern}$`).test(value)) return problems;
  const rule =
    "a wildcard DNS-1123 subdomain must start with '*.', followed by a valid DNS subdomain, which must consist of lower case alphanumeric characters, '-' or '.' and end with an alphanumeric character";
  return [...problems, withPattern(rule, pattern, '*.example.com')];
}

/** Keys of labels and annotations: a name with an optional domain in front, `example.com/name`. */
export function qualifiedNameProblems(value: string): Problems {
  const rule = withPattern(
    "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character",
    qualifiedPart,
    'MyName',
    'my.name',
    '123-abc',
  );
  const parts = value.split('/');
  if (parts.length > 2) {
    return [`a valid label key ${rule} with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')`];
  }
  const problems: string[] = [];
  const [prefix, name = ''] = parts.length === 2 ? parts : [undefined, value];
  if (prefix === '') problems.push('prefix part must be non-empty');
  else if (prefix !== undefined) {
    problems.push(...subdomainProblems(prefix, 'bytes').map((problem) => `prefix part ${problem}`));
  }
  if (name === '') problems.push('name part must be non-empty');
  else problems.push(...tooLong(name, labelBytesMax, 'bytes').map((problem) => `name part ${problem}`));
  if (!qualifiedPartPattern.test(name)) problems.push(`name part ${rule}`);
  return problems;
}

export function labelValueProblems(value: string): Problems {
  const problems = tooLong(value, labelBytesMax, 'bytes');
  if (labelValuePattern.test(value)) return problems;
  const rule =
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character";
  return [...problems, withPattern(rule, labelValue, 'MyValue', 'my_value', '12345')];
}

/** Keys of ConfigMaps and Secrets, which become file names. */
export function configMapKeyProblems(value: string): Problems {
  const problems = [...tooLong(value, subdomainBytesMax, 'characters')];
  if (!configMapKeyPattern.test(value)) {
    const rule = "a valid config key must consist of alphanumeric characters, '-', '_' or '.'";
    problems.push(withPattern(rule, configMapKey, 'key.name', 'KEY_NAME', 'key-name'));
  }
  if (value === '.') problems.push("must not be '.'");
  else if (value === '..') problems.push("must not be '..'");
  else if (value.startsWith('..')) problems.push("must not start with '..'");
  return problems;
}

export function environmentVariableNameProblems(value: string): Problems {
  if (value === '') return ['environment variable name must be non-empty'];
  if (/^[ -<>-~]+$/.test(value)) return [];
  return ["a valid environment variable name must consist only of printable ASCII characters other than '='"];
}

/** A name that becomes one segment of a URL. */
export function pathSegmentProblems(value: string): Problems {
  if (value === '.' || value === '..') return [`may not be '${value}'`];
  return ['/', '%'].filter((illegal) => value.includes(illegal)).map((illegal) => `may not contain '${illegal}'`);
}

/** A pod's UID names a directory on the node. The API server does not check it, so a manifest may carry anything. */
export function podUidProblems(value: string): Problems {
  if (value === '') return ['must be non-empty'];
  if (value === '.' || value === '..') return [`must not be '${value}'`];
  const problems = [...tooLong(value, fileNameBytesMax, 'bytes')];
  if (!/^[!-.0-~]+$/.test(value))
    problems.push("must consist only of printable ASCII characters other than ' ' and '/'");
  return problems;
}

/** A path below some directory: relative, without back-steps. `..baz` is a plain name. */
export function descendingPathProblems(path: string): Problems {
  return path.startsWith('/') ? ['must be a relative path', ...backstepProblems(path)] : backstepProblems(path);
}

/** A path of a projected file: descending, and not where the writer keeps its own entries (`..data`). */
export function projectedPathProblems(path: string): Problems {
  const problems = descendingPathProblems(path);
  const reserved = path.startsWith('..') && !path.startsWith('../');
  return reserved ? [...problems, "must not start with '..'"] : problems;
}

/** A path that may be absolute, without back-steps. */
export function backstepProblems(path: string): Problems {
  return path.split('/').includes('..') ? ["must not contain '..'"] : [];
}

function subdomainProblems(value: string, unit: 'bytes' | 'characters'): Problems {
  const problems = tooLong(value, subdomainBytesMax, unit);
  if (subdomainPattern.test(value)) return problems;
  const rule =
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character";
  return [...problems, withPattern(rule, subdomain, 'example.com')];
}

/** `25%` */
export function percentProblems(value: string): Problems {
  if (/^[0-9]+%$/.test(value)) return [];
  const rule = "a valid percent string must be a numeric string followed by an ending '%'";
  return [withPattern(rule, '[0-9]+%', '1%', '93%')];
}

/** Lengths are counted in bytes, whichever word the API server uses for them. */
function tooLong(value: string, bytesMax: number, unit: 'bytes' | 'characters'): Problems {
  return Buffer.byteLength(value) > bytesMax ? [`must be no more than ${bytesMax} ${unit}`] : [];
}

function withPattern(rule: string, pattern: string, ...examples: string[]): string {
  const quoted = examples.map((example) => `'${example}', `).join(' or ');
  return `${rule} (e.g. ${quoted}regex used for validation is '${pattern}')`;
}

// The names the API server completes: `generateName` and five characters more. Where those come from is the caller's choice.

/** Letters and digits that make no words and cannot be mistaken for each other. */
export const generatedNameLetters = 'bcdfghjklmnpqrstvwxz2456789';
export const generatedSuffixLength = 5;
// A name has at most 63 characters where it is a label.
const nameLengthMax = 63;

/** Cut so that the whole is a valid name. */
export function completedName(generateName: string, suffix: string): string {
  return generateName.slice(0, nameLengthMax - generatedSuffixLength) + suffix;
}
