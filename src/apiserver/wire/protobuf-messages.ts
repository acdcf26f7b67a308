/** Every message that a request may carry in protobuf, and which of them is which kind: collected from the kinds that are served. */
import { metaWire } from '../../kube/schema/meta.ts';
import type { ExchangedKind } from '../model/resource.ts';
import { resources } from '../resources/resources.ts';
import { parseMessage } from './message-notation.ts';
import type { Message } from './message-notation.ts';

const served: readonly ExchangedKind[] = resources.flatMap((resource) => [
  resource,
  ...resource.subresources.flatMap(({ kind }) => kind ?? []),
]);

/** Parsed at start, all together: 250 short texts take a fraction of a millisecond, and a typing error shows at once. */
export const messages: ReadonlyMap<string, Message> = new Map(
  [metaWire, ...served.map(({ wire = {} }) => wire)]
    .flatMap((tables) => Object.entries(tables))
    .map(([name, text]) => [name, parseMessage(text)]),
);

const messageNames: ReadonlyMap<string, string> = new Map(
  served.flatMap(({ group, version, otherVersions = [], kind, wire = {} }) => {
    const [own] = Object.keys(wire);
    if (own === undefined) return [];
    const versions = [version, ...otherVersions];
    return versions.map((one) => [`${group === '' ? one : `${group}/${one}`}/${kind}`, own] as const);
  }),
);

/** The name of the message behind a kind. DeleteOptions come under the version of whatever is to be deleted. */
export function messageNameOf(apiVersion: string, kind: string): string | undefined {
  return kind === 'DeleteOptions' ? kind : messageNames.get(`${apiVersion}/${kind}`);
}

/** For tests that want to try every kind: pairs of apiVersion and kind. */
export function protobufKinds(): readonly (readonly [string, string])[] {
  const pairs = [...messageNames.keys()].map(
    (key) => [key.slice(0, key.lastIndexOf('/')), key.slice(key.lastIndexOf('/') + 1)] as const,
  );
  return [...pairs, ['v1', 'DeleteOptions']];
}
