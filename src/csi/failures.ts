/**
 * What went wrong with a driver: which codes say that nothing was done, and the driver's own words, made safe to show. A driver
 * is not part of this program: its text may have any characters in it, and the Secrets that it was given.
 */
import { MountletError } from '../base/errors.ts';
import { GrpcError } from '../grpc/grpc-error.ts';
import { goJson, goQuote } from '../kube/values/go-text.ts';
import type { ClassifiedFailure, FailureClass } from '../plugins/plugin.ts';

/** A failure of the node's own part, or a driver's failure in the words around it. */
export class CsiError extends MountletError implements ClassifiedFailure {
  readonly reason = 'CsiVolumeFailed';
  readonly failureClass: FailureClass;
  constructor(failureClass: FailureClass, message: string) {
    super(message);
    this.failureClass = failureClass;
  }
}

/** The words before the messages of the plugin itself, which users know from the kubelet. */
export function csiError(failureClass: FailureClass, message: string): CsiError {
  return new CsiError(failureClass, `kubernetes.io/csi: ${message}`);
}

/** What a driver answered, or that it did not. It has no cause: that would have the words of the driver as they were. */
export class DriverError extends MountletError implements ClassifiedFailure {
  readonly reason = 'DriverFailed';
  readonly code: GrpcError['code'];
  readonly failureClass: FailureClass;
  constructor(code: GrpcError['code'], words: string) {
    super(`rpc error: code = ${goCode(code)} desc = ${words}`);
    this.code = code;
    this.failureClass = mayBeGoingOn.has(code) ? 'uncertain' : 'final';
  }
}

/** Every other code says that the call is over and had no effect. */
const mayBeGoingOn: ReadonlySet<GrpcError['code']> = new Set([
  'CANCELLED',
  'DEADLINE_EXCEEDED',
  'UNAVAILABLE',
  'RESOURCE_EXHAUSTED',
  'ABORTED',
]);

/** `FailedPrecondition`: the name that Go prints. */
function goCode(code: GrpcError['code']): string {
  if (code === 'CANCELLED') return 'Canceled';
  return code
    .split('_')
    .map((word) => (word === 'OK' ? word : `${word[0] ?? ''}${word.slice(1).toLowerCase()}`))
    .join('');
}

/** `secrets` are the values that the driver was given with the call. */
export function driverError(thrown: unknown, secrets: readonly string[]): DriverError {
  if (thrown instanceof DriverError) return thrown;
  // Not an answer at all: whether the driver did anything is unknown.
  if (!(thrown instanceof GrpcError)) return new DriverError('UNAVAILABLE', 'the call of the driver failed');
  // The call's own deadline, which the library words in its own way, may pass an instant before ours.
  const isLate = thrown.code === 'DEADLINE_EXCEEDED' && thrown.message.startsWith('Deadline exceeded after');
  return isLate ? timedOut() : new DriverError(thrown.code, safeText(thrown.message, secrets));
}

export function timedOut(): DriverError {
  return new DriverError('DEADLINE_EXCEEDED', 'context deadline exceeded');
}

/** Of all of a driver: what its last calls were given. Each of them is looked for in every error of it. */
const rememberedCharactersMax = 64 * 1024;

/**
 * The Secrets that one driver was given. It keeps them, and may say at a later call what it was given at an earlier one: a mount
 * command that fails with its password in it, say. In memory alone, so that a start begins with none.
 */
export class GivenSecrets {
  readonly #values = new Set<string>();
  #characters = 0;

  add(values: readonly string[]): void {
    for (const value of values) {
      this.#drop(value);
      this.#values.add(value);
      this.#characters += value.length;
    }
    for (const oldest of this.#values) {
      if (this.#characters <= rememberedCharactersMax) return;
      this.#drop(oldest);
    }
  }

  values(): readonly string[] {
    return [...this.#values];
  }

  #drop(value: string): void {
    if (this.#values.delete(value)) this.#characters -= value.length;
  }
}

const redacted = '[redacted]';
/** Of a driver's text: more would not be read. What is shown can be a little longer than what was said. */
const charactersMax = 4_096;
/**
 * What is shorter is shown. It can be guessed by trying, and often is a setting (`on`, `443`) that stands everywhere in a text:
 * the places where it was taken out would say what it is. A Secret's beginning of this length is hidden where the text ends in it.
 */
const headCharacters = 4;
/** A line of a key or certificate that is shorter says nothing by itself. */
const lineCharactersMin = 8;

/** Without control characters, and without the Secrets in any form that a log would give them. */
export function safeText(given: string, secrets: readonly string[]): string {
  const text = given.slice(0, charactersMax);
  const hidden = hiddenIn(text, secrets);
  let safe = '';
  for (let at = 0; at < text.length; at += 1) {
    if (hidden[at] !== 1) safe += text[at];
    else if (hidden[at - 1] !== 1) safe += redacted;
  }
  const printable = safe.replace(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{Cs}]+/gu, ' ');
  return printable.slice(0, charactersMax).trim();
}

/**
 * A 1 for each character of the text that belongs to a Secret. All are looked for in the text as it was given, so that what
 * replaces one is not searched for another.
 */
function hiddenIn(text: string, secrets: readonly string[]): Uint8Array {
  const hidden = new Uint8Array(text.length);
  const hide = (forms: readonly string[], places: Places): void => {
    for (const form of forms) {
      for (const at of places.of(form)) {
        const end = Math.min(at + form.length, text.length);
        // At the end of the text the beginning of a form counts: the driver, or the limit above, has cut it off.
        if (text.startsWith(form.slice(0, end - at), at)) hidden.fill(1, at, end);
      }
    }
  };
  const [places, linePlaces] = [new Places(text, headCharacters), new Places(text, lineCharactersMin)];
  for (const secret of secrets) {
    // Of what is longer than the text only the beginning can be in it, as a whole character.
    const whole = secret.slice(0, charactersMax).replace(/[\uD800-\uDBFF]$/, '');
    if (whole.trim().length < headCharacters) continue;
    for (const part of new Set([whole, whole.trim()])) hide([...formsOf(part), ...base64Of(part)], places);
    for (const line of secret.split(/\r?\n/)) {
      const part = line
        .trim()
        .slice(0, charactersMax)
        .replace(/[\uD800-\uDBFF]$/, '');
      // A Secret can have as many lines as it has room for, nearly all of which are nowhere in the text.
      if (part.length >= lineCharactersMin && linePlaces.mayHave(part)) hide(formsOf(part), linePlaces);
    }
  }
  return hidden;
}

/** Where in a text which characters begin: as many as something has to share with it to be looked for. */
class Places {
  readonly #length: number;
  readonly #byHead = new Map<string, number[]>();

  constructor(text: string, length: number) {
    this.#length = length;
    for (let at = 0; at + length <= text.length; at += 1) {
      const head = text.slice(at, at + length);
      const known = this.#byHead.get(head);
      if (known === undefined) this.#byHead.set(head, [at]);
      else known.push(at);
    }
  }

  of(form: string): readonly number[] {
    return this.#byHead.get(form.slice(0, this.#length)) ?? [];
  }

  /** False only where no form of it begins anywhere: all forms of plain characters are these. */
  mayHave(part: string): boolean {
    const head = part.slice(0, this.#length);
    return this.#byHead.has(head) || !/^[\w.~-]*$/.test(head);
  }
}

/** As it is, in JSON, as Go quotes it, and in addresses. */
function formsOf(part: string): readonly string[] {
  const inUrl = encodeURIComponent(part);
  const quoted = /^[\w .,:;/+=~-]*$/.test(part) ? [] : [JSON.stringify(part), goQuote(part), goJson(part)];
  return [part, ...quoted.map((form) => form.slice(1, -1)), inUrl, inUrl.replaceAll('%20', '+')];
}

/** Also as a part of something longer, such as `user:password`: each of the three ways in which its bytes can fall. */
function base64Of(part: string): readonly string[] {
  const bytes = Buffer.from(part);
  const whole = bytes.toString('base64');
  const inside = [0, 1, 2].map((before) => {
    const text = Buffer.concat([Buffer.alloc(before), bytes])
      .toString('base64')
      .replace(/=+$/, '');
    // Characters at the edges are also of the bytes beside it.
    return text.slice(before === 0 ? 0 : before + 1, (before + bytes.length) % 3 === 0 ? undefined : -1);
  });
  const forms = [whole, whole.replace(/=+$/, ''), ...inside].filter((form) => form.length >= headCharacters);
  return [...forms, ...forms.map((form) => form.replaceAll('+', '-').replaceAll('/', '_'))];
}
