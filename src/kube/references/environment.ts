/**
 * `$(NAME)` references in environment values, commands and `subPathExpr`. One pass from left to right; what a reference
 * brings in is not expanded again. `$$` stands for one `$`, and nothing else has a meaning: not `${NAME}`, not `\`.
 */
import { MountletError, OperatingError } from '../../base/errors.ts';
import { compareByteOrder } from '../values/go-text.ts';

export type Variables = Pick<ReadonlyMap<string, string>, 'has' | 'get'>;

export class MissingVariablesError extends MountletError {
  readonly reason = 'MissingVariables';

  constructor(names: Iterable<string>) {
    super(`missing value for ${[...names].toSorted(compareByteOrder).join(', ')}`);
  }
}

/** A name that no map has stays as it was written. The first map that has it decides, also with an empty value. */
export function expand(text: string, ...maps: readonly Variables[]): string {
  return replaceReferences(text, (name) => maps.find((map) => map.has(name))?.get(name) ?? `$(${name})`);
}

/** Every name must have a value that is not empty: a hole in a path would lead somewhere else. */
export function expandSubPath(expression: string, variables: Variables): string {
  const missing = new Set<string>();
  const expanded = replaceReferences(expression, (name) => {
    const value = variables.get(name) ?? '';
    if (value === '') missing.add(name);
    return value;
  });
  if (missing.size > 0) throw new MissingVariablesError(missing);
  return expanded;
}

function replaceReferences(text: string, valueOf: (name: string) => string): string {
  const lastClose = text.lastIndexOf(')');
  let result = '';
  let done = 0;
  for (let at = text.indexOf('$'); at >= 0 && at + 1 < text.length; at = text.indexOf('$', done)) {
    result += text.slice(done, at);
    const next = text[at + 1];
    if (next === '(' && at < lastClose) {
      // The first `)` ends the name, whatever stands before it: `$(A$(B))` asks for `A$(B`.
      const close = text.indexOf(')', at);
      result += valueOf(text.slice(at + 2, close));
      done = close + 1;
    } else {
      result += next === '$' ? '$' : `$${next}`;
      done = at + 2;
    }
  }
  return result + text.slice(done);
}

/** Environment variables that tell a container where the services of its namespace are. */
export interface VariableService {
  readonly metadata: { readonly name: string; readonly namespace: string };
  readonly spec: { readonly clusterIP?: string; readonly ports?: readonly ServicePort[] };
}

export interface ServicePort {
  readonly name?: string;
  readonly port: number;
  readonly protocol?: string;
}

/** The API server's own service is always included, all others only if the pod wants service links. */
const apiService = 'kubernetes';
const apiNamespace = 'default';

/** The variables of a pod. A service named `kubernetes` in the pod's namespace comes before the API server's own. */
export function serviceVariablesOf(
  services: Iterable<VariableService>,
  pod: { readonly namespace: string; readonly enableServiceLinks: boolean },
): Map<string, string> {
  const chosen = new Map<string, VariableService>();
  for (const service of services) {
    const { name, namespace } = service.metadata;
    if (!hasClusterIp(service)) continue;
    if (namespace === apiNamespace && name === apiService) {
      if (!chosen.has(name)) chosen.set(name, service);
    } else if (namespace === pod.namespace && pod.enableServiceLinks) chosen.set(name, service);
  }
  return new Map(serviceVariables(chosen.values()));
}

/** Name and value of every variable, service by service. Headless services and those without an address have none. */
export function serviceVariables(services: Iterable<VariableService>): (readonly [name: string, value: string])[] {
  return [...services].filter(hasClusterIp).flatMap(variablesOf);
}

function hasClusterIp({ spec: { clusterIP = '' } }: VariableService): boolean {
  return clusterIP !== '' && clusterIP !== 'None';
}

function variablesOf({ metadata, spec }: VariableService): (readonly [string, string])[] {
  const { clusterIP: address = '', ports = [] } = spec;
  const prefix = variableName(metadata.name);
  const variables: (readonly [string, string])[] = [[`${prefix}_SERVICE_HOST`, address]];
  const [first] = ports;
  if (first === undefined) return variables;
  variables.push([`${prefix}_SERVICE_PORT`, String(first.port)]);
  for (const { name = '', port } of ports) {
    if (name !== '') variables.push([`${prefix}_SERVICE_PORT_${variableName(name)}`, String(port)]);
  }
  variables.push([`${prefix}_PORT`, urlOf(address, first)]);
  for (const port of ports) {
    const name = `${prefix}_PORT_${port.port}_${protocolOf(port).toUpperCase()}`;
    variables.push(
      [name, urlOf(address, port)],
      [`${name}_PROTO`, protocolOf(port).toLowerCase()],
      [`${name}_PORT`, String(port.port)],
      [`${name}_ADDR`, address],
    );
  }
  return variables;
}

function urlOf(address: string, port: ServicePort): string {
  const host = address.includes(':') ? `[${address}]` : address;
  return `${protocolOf(port).toLowerCase()}://${host}:${port.port}`;
}

function protocolOf({ protocol = '' }: ServicePort): string {
  return protocol === '' ? 'TCP' : protocol;
}

function variableName(name: string): string {
  return name.replaceAll('-', '_').toUpperCase();
}

// Env files for `fileKeyRef`: a small part of shell syntax, `NAME='value'`, where single quotes are a must and nothing is
// expanded. The parser reads no further than the wanted name, so a mistake behind it goes unnoticed, as in the kubelet.

/** The kubelet reads lines through a buffer of 64 KiB. */
const lineBytesMax = 64 * 1024 - 1;

/** The value of `key`, or an empty string where the file does not have it. Throws a OperatingError. */
export function readEnvFileKey(text: string, key: string): string {
  const lines = new Lines(text);
  for (let line = lines.next(); line !== undefined; line = lines.next()) {
    const content = line.replace(/^[ \t]+/, '');
    if (content === '' || content.startsWith('#')) continue;
    const at = `invalid environment variable format at line ${lines.number}`;
    const equals = content.indexOf('=');
    if (equals < 0) throw new OperatingError('InvalidEnvFile', `${at}: missing '='`);
    const name = content.slice(0, equals);
    if (/^[ \t]*$/.test(name)) throw new OperatingError('InvalidEnvFile', `${at}: empty variable name`);
    if (/[ \t]$/.test(name)) throw new OperatingError('InvalidEnvFile', `${at}: whitespace before '=' is not allowed`);
    const value = valueFrom(content.slice(equals + 1), lines, at);
    if (name === key) return value;
  }
  return '';
}

function valueFrom(text: string, lines: Lines, at: string): string {
  // As in a shell: `NAME= 'x'` sets an empty variable, and the rest of the line is something else.
  if (/^[ \t]/.test(text)) return '';
  if (!text.startsWith("'"))
    throw new OperatingError('InvalidEnvFile', `${at}: value must be enclosed in single quotes`);
  const startLine = lines.number;
  const parts: string[] = [];
  let rest = text.slice(1);
  for (;;) {
    const close = rest.indexOf("'");
    if (close >= 0) {
      parts.push(rest.slice(0, close));
      if (!/^[ \t]*(#|$)/.test(rest.slice(close + 1))) {
        const here = `invalid environment variable format at line ${lines.number}`;
        throw new OperatingError('InvalidEnvFile', `${here}: unexpected content after closing quote`);
      }
      return parts.join('\n');
    }
    parts.push(rest);
    const next = lines.next();
    if (next === undefined) {
      const start = `invalid environment variable format starting at line ${startLine}`;
      throw new OperatingError('InvalidEnvFile', `${start}: unclosed single quote`);
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
      throw new OperatingError(
        'InvalidEnvFile',
        `invalid environment variable format at line ${this.number}: line is too long`,
      );
    }
    return line.endsWith('\r') ? line.slice(0, -1) : line;
  }
}

/** The condition of a pod by which a node says whether variables that were taken from objects are still what the objects say. */
export const environmentCondition = 'mountlet.dev/EnvironmentCurrent';
