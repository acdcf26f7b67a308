/**
 * Kubernetes quantities (`500m`, `1.5Gi`, `12e6`) with exact arithmetic, in the API server's syntax and canonical form.
 * A quantity is mantissa × 10^scale. What a quantity means (a limit, a size) is not known here.
 */
import { MountletError } from '../../base/errors.ts';
import { qualifiedNameProblems } from './names.ts';

export type QuantityFormat = 'DecimalSI' | 'BinarySI' | 'DecimalExponent';

export class QuantityError extends MountletError {
  readonly reason = 'InvalidQuantity';
}

const wrongFormat = "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'";
const wrongNumber = 'unable to parse numeric part of quantity';
const wrongSuffix = "unable to parse quantity's suffix";

/** Nothing smaller than a nano unit is kept: it is rounded up, away from zero. */
const scaleMin = -9;
const milli = -3;
const int64Max = 2n ** 63n - 1n;
/** `1e999999999` is short to write and takes a gigabyte to add to one. No real quantity comes near this exponent. */
const exponentMax = 1000;
/** The same for one that is written out: arithmetic takes the square of its length. */
const lengthMax = 1000;
const tooLong = `quantities must not be longer than ${lengthMax} characters`;

const decimalSuffixes: Readonly<Record<string, number>> = {
  n: -9,
  u: -6,
  m: -3,
  '': 0,
  k: 3,
  M: 6,
  G: 9,
  T: 12,
  P: 15,
  E: 18,
};
const binarySuffixes: readonly string[] = ['', 'Ki', 'Mi', 'Gi', 'Ti', 'Pi', 'Ei'];

export class Quantity {
  readonly mantissa: bigint;
  readonly scale: number;
  readonly format: QuantityFormat;
  /** The text it was parsed from, where the API server would repeat that text instead of its own form. */
  readonly #asWritten: string | undefined;

  constructor(mantissa: bigint, scale: number, format: QuantityFormat, asWritten?: string) {
    this.mantissa = mantissa;
    this.scale = scale;
    this.format = format;
    this.#asWritten = asWritten;
  }

  static zero(format: QuantityFormat = 'DecimalSI'): Quantity {
    return new Quantity(0n, 0, format);
  }

  /** Takes a JSON value; space around the text is ignored, as the API server does. Throws `QuantityError`. */
  static parse(value: string | number): Quantity {
    return parseText(String(value).trim());
  }

  isZero(): boolean {
    return this.mantissa === 0n;
  }

  sign(): -1 | 0 | 1 {
    if (this.mantissa === 0n) return 0;
    return this.mantissa < 0n ? -1 : 1;
  }

  /** Whole units, rounded away from zero, held within 64 bits. */
  value(): bigint {
    return this.#in(0);
  }

  /** Thousandths, rounded away from zero, held within 64 bits. */
  milliValue(): bigint {
    return this.#in(milli);
  }

  compare(other: Quantity): -1 | 0 | 1 {
    const difference = this.sign() - other.sign();
    if (difference !== 0) return difference < 0 ? -1 : 1;
    if (this.mantissa === 0n) return 0;
    // Quantities of different size are distinguished without writing out their zeros.
    const magnitude = digitsOf(this.mantissa).length + this.scale - (digitsOf(other.mantissa).length + other.scale);
    if (magnitude !== 0) return magnitude > 0 === this.mantissa > 0n ? 1 : -1;
    const [a, b] = aligned(this, other);
    if (a === b) return 0;
    return a < b ? -1 : 1;
  }

  equals(other: Quantity): boolean {
    return this.compare(other) === 0;
  }

  /** The sum keeps the format of the first summand, or of the second where the first is zero. */
  plus(other: Quantity): Quantity {
    const format = this.isZero() ? other.format : this.format;
    if (this.isZero()) return new Quantity(other.mantissa, other.scale, format);
    if (other.isZero()) return new Quantity(this.mantissa, this.scale, format);
    const [a, b, scale] = aligned(this, other);
    return new Quantity(a + b, scale, format);
  }

  /** The API server stores no resource finer than a thousandth. */
  roundUpToMilli(): Quantity {
    return this.scale >= milli ? this : new Quantity(divideUp(this.mantissa, milli - this.scale), milli, this.format);
  }

  toString(): string {
    return this.#asWritten ?? this.#canonical();
  }

  toJSON(): string {
    return this.toString();
  }

  #in(scale: number): bigint {
    const shift = this.scale - scale;
    if (shift <= 0) return within64Bits(divideUp(this.mantissa, -shift));
    const length = digitsOf(this.mantissa).length + shift;
    if (this.mantissa !== 0n && length > 20) return this.mantissa < 0n ? -int64Max - 1n : int64Max;
    return within64Bits(this.mantissa * power(shift));
  }

  #canonical(): string {
    if (this.isZero()) return '0';
    if (this.format === 'BinarySI') {
      const whole = this.#wholeMantissa();
      if (whole !== undefined && (whole <= -1024n || whole >= 1024n)) return canonicalBinary(whole);
    }
    return canonicalDecimal(this.mantissa, this.scale, this.format);
  }

  #wholeMantissa(): bigint | undefined {
    if (this.scale >= 0) return this.mantissa * power(this.scale);
    const unit = power(-this.scale);
    return this.mantissa % unit === 0n ? this.mantissa / unit : undefined;
  }
}

/** What is wrong with a quantity, in the API server's words, or undefined. */
export function quantityProblem(value: string | number): string | undefined {
  try {
    Quantity.parse(value);
    return undefined;
  } catch (error) {
    if (error instanceof QuantityError) return error.message;
    throw error;
  }
}

function parseText(text: string): Quantity {
  if (text === '') throw new QuantityError(wrongFormat);
  if (text.length > lengthMax) throw new QuantityError(tooLong);
  const [head = '', sign, digits = '', fraction = ''] = /^([+-]?)([0-9]*)(?:\.([0-9]*))?/.exec(text) ?? [];
  const suffix = text.slice(head.length);
  if (!/^[eEinumkKMGTP]*[-+]?[0-9]*$/.test(suffix)) throw new QuantityError(wrongFormat);
  const { format, exponent, factor, binaryPlaces } = interpret(suffix);

  // A number without any digit counts as zero, but not where rounding would have to look at it.
  if (digits === '' && fraction === '' && exponent < scaleMin) throw new QuantityError(wrongNumber);
  const magnitude = BigInt(`0${digits}${fraction}`) * factor;
  const scale = exponent - fraction.length;
  const rounded =
    scale < scaleMin
      ? new Quantity(divideUp(magnitude, scaleMin - scale), scaleMin, format)
      : new Quantity(magnitude, scale, format);
  const { mantissa, scale: roundedScale, format: finalFormat } = format === 'BinarySI' ? capped(rounded) : rounded;
  const asWritten = keepsItsText(format, digits, fraction, format === 'BinarySI' ? binaryPlaces : scale)
    ? text
    : undefined;
  return new Quantity(sign === '-' ? -mantissa : mantissa, roundedScale, finalFormat, asWritten);
}

interface Suffix {
  readonly format: QuantityFormat;
  readonly exponent: number;
  readonly factor: bigint;
  /** About how many decimal digits a binary suffix adds. */
  readonly binaryPlaces: number;
}

function interpret(suffix: string): Suffix {
  const decimal = Object.hasOwn(decimalSuffixes, suffix) ? decimalSuffixes[suffix] : undefined;
  if (decimal !== undefined) return { format: 'DecimalSI', exponent: decimal, factor: 1n, binaryPlaces: 0 };
  const step = binarySuffixes.indexOf(suffix);
  if (step > 0) return { format: 'BinarySI', exponent: 0, factor: 1024n ** BigInt(step), binaryPlaces: step * 3 };
  if (!/^[eE][+-]?[0-9]+$/.test(suffix)) throw new QuantityError(wrongSuffix);
  const exponent = Number(suffix.slice(1));
  if (!Number.isSafeInteger(exponent) || exponent > exponentMax) throw new QuantityError(wrongSuffix);
  return { format: 'DecimalExponent', exponent, factor: 1n, binaryPlaces: 0 };
}

/** Binary quantities end at the largest 64-bit number; below one they have no binary form. */
function capped(magnitude: Quantity): Quantity {
  if (magnitude.compare(new Quantity(int64Max, 0, 'BinarySI')) > 0) return new Quantity(int64Max, 0, 'BinarySI');
  const below = !magnitude.isZero() && magnitude.compare(new Quantity(1n, 0, 'BinarySI')) < 0;
  return below ? new Quantity(magnitude.mantissa, magnitude.scale, 'DecimalSI') : magnitude;
}

/** Where the API server takes the text for canonical at a glance (also `1.500k` and `1E3`), it repeats it unchanged. */
function keepsItsText(format: QuantityFormat, digits: string, fraction: string, places: number): boolean {
  const significant = digits.replace(/^0+/, '') || '0';
  if (format === 'BinarySI') {
    return fraction === '' && significant.length + places <= 14 && BigInt(significant) % 8n !== 0n;
  }
  const shifted = significant + fraction;
  if (shifted.length > 18 || places < scaleMin) return false;
  return places % 3 === 0 && !shifted.endsWith('000') && !shifted.startsWith('0');
}

function canonicalBinary(whole: bigint): string {
  let rest = whole;
  let step = 0;
  while (rest % 1024n === 0n && step < binarySuffixes.length - 1) {
    rest /= 1024n;
    step += 1;
  }
  return `${rest}${binarySuffixes[step] ?? ''}`;
}

function canonicalDecimal(mantissa: bigint, scale: number, format: QuantityFormat): string {
  const digits = digitsOf(mantissa);
  let end = digits.length;
  while (digits[end - 1] === '0') end -= 1;
  // A multiple of three, and no larger than the largest suffix that can say it.
  let exponent = Math.floor((scale + digits.length - end) / 3) * 3;
  if (format !== 'DecimalExponent') exponent = Math.min(exponent, decimalSuffixes['E'] ?? 0);
  const number = digits.slice(0, end) + '0'.repeat(scale + digits.length - end - exponent);
  return `${mantissa < 0n ? '-' : ''}${number}${decimalSuffix(exponent, format)}`;
}

function decimalSuffix(exponent: number, format: QuantityFormat): string {
  if (format === 'DecimalExponent') return exponent === 0 ? '' : `e${exponent}`;
  return Object.entries(decimalSuffixes).find(([, value]) => value === exponent)?.[0] ?? '';
}

function aligned(a: Quantity, b: Quantity): [bigint, bigint, number] {
  const scale = Math.min(a.scale, b.scale);
  return [a.mantissa * power(a.scale - scale), b.mantissa * power(b.scale - scale), scale];
}

/** Divides by a power of ten and rounds away from zero. */
function divideUp(mantissa: bigint, places: number): bigint {
  if (places === 0 || mantissa === 0n) return mantissa;
  const sign = mantissa < 0n ? -1n : 1n;
  if (places > digitsOf(mantissa).length) return sign;
  const divisor = power(places);
  return mantissa / divisor + (mantissa % divisor === 0n ? 0n : sign);
}

function within64Bits(value: bigint): bigint {
  if (value > int64Max) return int64Max;
  return value < -int64Max - 1n ? -int64Max - 1n : value;
}

function power(exponent: number): bigint {
  return 10n ** BigInt(exponent);
}

function digitsOf(mantissa: bigint): string {
  return (mantissa < 0n ? -mantissa : mantissa).toString();
}

/**
 * Lists of resources by name (`limits`, `requests`, `capacity`): what is known of the names, and sums over a pod. Which
 * names a field takes is said by the validation files.
 */
export type ResourceList = Readonly<Record<string, string | number>>;

const hugePagesPrefix = 'hugepages-';

const quotaPrefix = 'requests.';

export function isHugePages(name: string): boolean {
  return name.startsWith(hugePagesPrefix);
}

/** Names without a domain belong to Kubernetes, and so do those of its domain. */
export function isNativeResource(name: string): boolean {
  return !name.includes('/') || name.includes('kubernetes.io/');
}

/** Resources of devices and the like, which others than Kubernetes count: `example.com/gpu`. */
export function isExtendedResource(name: string): boolean {
  if (isNativeResource(name) || name.startsWith(quotaPrefix)) return false;
  return qualifiedNameProblems(`${quotaPrefix}${name}`).length === 0;
}

/** More of it may be promised than there is: of cpu and memory, not of whole pages or devices. */
export function canBeOvercommitted(name: string): boolean {
  return isNativeResource(name) && !isHugePages(name);
}

export function isPodLevelResource(name: string): boolean {
  return name === 'cpu' || name === 'memory' || isHugePages(name);
}

/** Undefined for a quantity that cannot be read: its own error says so, and comparing it says nothing more. */
export function readQuantity(value: string | number | undefined): Quantity | undefined {
  return value === undefined || quantityProblem(value) !== undefined ? undefined : Quantity.parse(value);
}

/** The API server keeps no resource finer than a thousandth. What it would not change keeps the user's own text. */
export function roundUpResources(list: ResourceList): ResourceList {
  return Object.fromEntries(
    Object.entries(list).map(([name, value]) => {
      const quantity = readQuantity(value);
      const rounded = quantity?.roundUpToMilli();
      return [name, rounded === quantity ? value : String(rounded)];
    }),
  );
}
