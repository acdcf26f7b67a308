/**
 * What a plain YAML scalar means: the reading of go-yaml, which kubectl uses, where it differs from the YAML parser's.
 * Go's own number syntax decides (`0o644` and `0644` are octal, `.` and `e3` are text), dates and base-60 numbers stay
 * text, and `!!binary` is the text it encodes: JSON, which is what becomes of a manifest, has no bytes.
 */
import { isUtf8 } from 'node:buffer';
import type { ScalarTag, Tags } from 'yaml';

const prefix = 'tag:yaml.org,2002:';
const replaced = new Set(['int', 'float', 'binary', 'timestamp', 'omap', 'pairs', 'set'].map((name) => prefix + name));

const integer: ScalarTag = {
  tag: `${prefix}int`,
  default: true,
  test: /^[-+]?(?:0_*(?:[xX]_*[0-9a-fA-F][0-9a-fA-F_]*|[oO]_*[0-7][0-7_]*|[bB]_*[01][01_]*|[0-7_]*)|[1-9][0-9_]*)$/,
  resolve(text) {
    const [, sign = '', digits = ''] = /^([-+]?)(.*)$/.exec(text.replaceAll('_', '')) ?? [];
    const amount = BigInt(/^0[0-7]/.test(digits) ? `0o${digits.slice(1)}` : digits.toLowerCase());
    const value = sign === '-' ? -amount : amount;
    const number = Number(value);
    // A quantity may be larger than a JavaScript number is exact.
    return Number.isSafeInteger(number) ? number : value;
  },
};

const decimal: ScalarTag = {
  tag: `${prefix}float`,
  default: true,
  // Underscores are for what begins with a digit or a sign; `08` comes here because it is no octal number.
  test: /^(?:\.[0-9]+|[-+]\.[0-9][0-9_]*|[-+]?[0-9][0-9_]*(?:\.[0-9_]*)?)(?:[eE][-+]?[0-9]+)?$/,
  resolve(text) {
    const value = Number(text.replaceAll('_', ''));
    return Number.isFinite(value) ? value : text;
  },
};

const notFinite: ScalarTag = {
  tag: `${prefix}float`,
  default: true,
  test: /^(?:[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN))$/,
  resolve: (text) => (/nan/i.test(text) ? Number.NaN : Number(text.replace(/\.inf/i, 'Infinity'))),
};

const binary: ScalarTag = {
  tag: `${prefix}binary`,
  resolve(text, onError) {
    const bytes = Buffer.from(text, 'base64');
    if (!isUtf8(bytes)) onError('!!binary must be UTF-8 text here, use binaryData or data for other bytes');
    return bytes.toString('utf8');
  },
};

/** The parser's tags with ours in the place of those that read otherwise. */
export function kubectlTags(tags: Tags): Tags {
  const kept = tags.filter((tag) => typeof tag === 'string' || !replaced.has(tag.tag));
  return [...kept, integer, decimal, notFinite, binary];
}

/** For writing: text that either reading would take for a number gets quotes. */
export function tagsOfBothReadings(tags: Tags): Tags {
  return [...tags, integer, decimal];
}
