/**
 * Env files for `fileKeyRef`: a small part of shell syntax, `NAME='value'`, where single quotes are a must and nothing is
 * expanded. The parser reads no further than the wanted name, so a mistake behind it goes unnoticed, as in the kubelet.
 */
import { MountletError } from '../base/errors.ts';

/** Says where and what, never the content: env files hold passwords. */
export class EnvFileError extends MountletError {
  readonly reason = 'InvalidEnvFile';
}

/** The kubelet reads lines through a buffer of 64 KiB. */
const lineBytesMax = 64 * 1024 - 1;

/** The value of `key`, or an empty string where the file does not have it. Throws `EnvFileError`. */
export function readEnvFileKey(text: string, key: string): string {
  const lines = new Lines(text);
  for (let line = lines.next(); line !== undefined; line = lines.next()) {
    const content = line.replace(/^[ \t]+/, '');
    if (content === '' || content.startsWith('#')) continue;
    const at = `invalid environment variable format at line ${lines.number}`;
    const equals = content.indexOf('=');
    if (equals < 0) throw new EnvFileError(`${at}: missing '='`);
    const name = content.slice(0, equals);
    if (/^[ \t]*$/.test(name)) throw new EnvFileError(`${at}: empty variable name`);
    if (/[ \t]$/.test(name)) throw new EnvFileError(`${at}: whitespace before '=' is not allowed`);
    const value = valueFrom(content.slice(equals + 1), lines, at);
    if (name === key) return value;
  }
  return '';
}

function valueFrom(text: string, lines: Lines, at: string): string {
  // As in a shell: `NAME= 'x'` sets an empty variable, and the rest of the line is something else.
  if (/^[ \t]/.test(text)) return '';
  if (!text.startsWith("'")) throw new EnvFileError(`${at}: value must be enclosed in single quotes`);
  const startLine = lines.number;
  const parts: string[] = [];
  let rest = text.slice(1);
  for (;;) {
    const close = rest.indexOf("'");
    if (close >= 0) {
      parts.push(rest.slice(0, close));
      if (!/^[ \t]*(#|$)/.test(rest.slice(close + 1))) {
        const here = `invalid environment variable format at line ${lines.number}`;
        throw new EnvFileError(`${here}: unexpected content after closing quote`);
      }
      return parts.join('\n');
    }
    parts.push(rest);
    const next = lines.next();
    if (next === undefined) {
      const start = `invalid environment variable format starting at line ${startLine}`;
      throw new EnvFileError(`${start}: unclosed single quote`);
    }
    rest = next;
  }
}

/** Lines without their ends; a carriage return before a newline belongs to the end, also inside quotes. */
class Lines {
  readonly #text: string;
  #position = 0;
  number = 0;

  constructor(text: string) {
    this.#text = text;
  }

  next(): string | undefined {
    if (this.#position >= this.#text.length) return undefined;
    const newline = this.#text.indexOf('\n', this.#position);
    const end = newline < 0 ? this.#text.length : newline;
    const line = this.#text.slice(this.#position, end);
    this.#position = end + 1;
    this.number += 1;
    if (Buffer.byteLength(line) > lineBytesMax) {
      throw new EnvFileError(`invalid environment variable format at line ${this.number}: line is too long`);
    }
    return line.endsWith('\r') ? line.slice(0, -1) : line;
  }
}
