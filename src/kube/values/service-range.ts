/** The addresses that a cluster hands out to Services, as `10.96.0.0/16`: IPv4 alone, without the network's own and its last. */
import { isIPv4 } from 'node:net';

export const defaultServiceRange = '10.96.0.0/16';

/** What an API server takes: not so large that all of it could not be looked through, and not without room. */
const prefixes = { min: 12, max: 29 };

export class ServiceRange {
  readonly text: string;
  readonly #network: number;
  readonly #size: number;

  private constructor(text: string, network: number, size: number) {
    this.text = text;
    this.#network = network;
    this.#size = size;
  }

  /** Undefined for what is no such range. */
  static parse(text: string): ServiceRange | undefined {
    const [address = '', digits = '', ...more] = text.split('/');
    const prefix = /^\d{1,2}$/.test(digits) ? Number(digits) : 0;
    if (more.length > 0 || !isIPv4(address) || prefix < prefixes.min || prefix > prefixes.max) return undefined;
    const size = 2 ** (32 - prefix);
    const network = Math.floor(numberOf(address) / size) * size;
    return new ServiceRange(`${textOf(network)}/${prefix}`, network, size);
  }

  /** That of the Service of the API server itself. */
  get first(): string {
    return textOf(this.#network + 1);
  }

  has(address: string): boolean {
    if (!isIPv4(address)) return false;
    const offset = numberOf(address) - this.#network;
    return offset > 0 && offset < this.#size - 1;
  }

  /** All of them, in an order that leaves the low ones to those who ask for one by its number. */
  *candidates(chance: number): Generator<string> {
    for (const number of banded(this.#network + 1, this.#size - 2, { step: 16, min: 16, max: 256 }, chance)) {
      yield textOf(number);
    }
  }
}

export const nodePorts = { first: 30000, last: 32767 };

export function* nodePortCandidates(chance: number): Generator<number> {
  const { first, last } = nodePorts;
  yield* banded(first, last - first + 1, { step: 32, min: 16, max: 128 }, chance);
}

interface Band {
  readonly step: number;
  readonly min: number;
  readonly max: number;
}

/** From somewhere above the lower band on and around, then the lower band. `chance` is a whole number. */
function* banded(first: number, count: number, { step, min, max }: Band, chance: number): Generator<number> {
  const low = count <= min ? 0 : Math.min(Math.max(min, Math.floor(count / step)), max);
  for (const [start, length] of [
    [first + low, count - low],
    [first, low],
  ] as const) {
    for (let index = 0; index < length; index += 1) yield start + ((chance + index) % length);
  }
}

function numberOf(address: string): number {
  return address.split('.').reduce((sum, part) => sum * 256 + Number(part), 0);
}

function textOf(number: number): string {
  return [24, 16, 8, 0].map((shift) => (number >>> shift) & 255).join('.');
}
