/** What a plugin says of itself when it registers, and whether it can be a CSI driver of this node. Pure; errors have the kubelet's words. */
import { OperatingError } from '../base/errors.ts';
import type { PluginInfo } from '../grpc/messages/registration_pb.ts';
import { csiDriverErrors } from '../kube/kinds/storage/volume-sources.ts';
import { goQuote } from '../kube/values/go-text.ts';
import { type RegisteredDriver, driverText } from './drivers.ts';

/** The length of an address in the kernel, with its final zero: longer paths would be cut off and lead elsewhere. */
const socketPathBytesMax = 107;
const versionsMax = 32;
const versionCharactersMax = 64;

/** Throws for what cannot be registered. `existing` is the driver of that name, `socket` where the plugin was asked. */
export function validDriver(
  { name, endpoint: given, supportedVersions }: Pick<PluginInfo, 'name' | 'endpoint' | 'supportedVersions'>,
  socket: string,
  existing: (name: string) => RegisteredDriver | undefined,
): RegisteredDriver {
  const endpoint = given === '' ? socket : given;
  try {
    const [problem] = csiDriverErrors(driverText(name), ['name']);
    if (problem !== undefined) throw new OperatingError('InvalidDriver', problem.message);
    const version = supportedVersion(name, supportedVersions, existing(name)?.version);
    return { name, endpoint: socketPath(endpoint), version };
  } catch (cause) {
    const [who, where] = [driverText(name, 64), driverText(endpoint, 256)];
    const message = `validation failed for CSI Driver ${who} at endpoint ${where}: ${(cause as Error).message}`;
    throw new OperatingError('InvalidDriver', message, { cause });
  }
}

/** An absolute path, or a URI of the scheme `unix` with one. */
function socketPath(endpoint: string): string {
  const path = endpoint.replace(/^unix:(\/\/(?=\/))?/, '');
  const isPlain = /^\/(?!\/)/.test(path) && !/\p{Cc}/u.test(path) && !path.split('/').includes('..');
  if (isPlain && Buffer.byteLength(path) <= socketPathBytesMax) return path;
  const rule = `it must be an absolute path of at most ${socketPathBytesMax} bytes without ".."`;
  throw new OperatingError('InvalidDriver', `cannot use the endpoint: ${rule}`);
}

/** The highest of the versions that are supported here, all of which are of the registration protocol. */
function supportedVersion(name: string, given: readonly string[], existing: string | undefined): string {
  const refused = (text: string): OperatingError =>
    new OperatingError(
      'InvalidDriver',
      `kubernetes.io/csi: ValidatePlugin for CSI driver ${goQuote(name)} failed. ${text}`,
    );
  if (given.length === 0) throw refused('Plugin returned an empty list for supported versions');
  const versions = given.slice(0, versionsMax).map((version) => driverText(version, versionCharactersMax));
  const highest = highestVersion(versions);
  const problem = problemOf(versions, highest);
  if (highest === undefined || problem !== undefined) {
    const list = `[${versions.map(goQuote).join(' ')}]`;
    throw refused(`None of the versions specified ${list} are supported. err=${problem}`);
  }
  const other = existing === undefined ? undefined : parseVersion(existing);
  if (other !== undefined && compareVersions(other, highest) >= 0) {
    const text = 'Another driver with the same name is already registered with a higher supported version';
    throw refused(`${text}: ${goQuote(shown(other))}`);
  }
  return shown(highest);
}

type Version = readonly bigint[];

/** Of those before 2: later majors need not be compatible. */
function highestVersion(versions: readonly string[]): Version | undefined {
  return versions
    .flatMap((version) => [parseVersion(version) ?? []])
    .filter(([major]) => major !== undefined && major <= 1n)
    .toSorted(compareVersions)
    .at(-1);
}

function problemOf(versions: readonly string[], highest: Version | undefined): string | undefined {
  if (highest?.[0] === 1n) return undefined;
  if (highest !== undefined) return `highest supported version reported by driver is ${shown(highest)}, must be v1.x`;
  const unreadable = versions.find((version) => parseVersion(version) === undefined);
  const because = unreadable === undefined ? '<nil>' : `could not parse ${goQuote(unreadable)} as version`;
  const list = `[${versions.join(' ')}]`;
  return `could not find a highest supported version from versions (${list}) reported by this driver: ${because}`;
}

/** `v1.2` and `1.2.3-rc.1`: two numbers or more without leading zeros; what follows them does not count. */
function parseVersion(text: string): Version | undefined {
  const [, numbers] = /^\s*v?((?:0|[1-9]\d*)(?:\.(?:0|[1-9]\d*))+)(?![\d.])/.exec(text) ?? [];
  return numbers?.split('.').map(BigInt);
}

function shown(version: Version): string {
  return version.join('.');
}

function compareVersions(one: Version, other: Version): number {
  for (let index = 0; index < Math.max(one.length, other.length); index += 1) {
    const [left, right] = [one[index] ?? 0n, other[index] ?? 0n];
    if (left !== right) return left < right ? -1 : 1;
  }
  return 0;
}
