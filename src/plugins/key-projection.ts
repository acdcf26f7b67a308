/** Which keys of an object become which files: the rules that ConfigMap and Secret volumes have in common. */
import type { Payload, PayloadFile } from '../disk/writer/payload.ts';
import type { KeyToPath } from '../kube/kinds/pod/volume.ts';
import { DefaultModeMissingError, KeyMissingError } from './payload-errors.ts';

export interface KeyProjection {
  readonly items?: readonly KeyToPath[] | undefined;
  readonly defaultMode?: number | undefined;
  readonly defaultUser?: number | undefined;
  /** Covers a listed key that the object lacks. */
  readonly optional?: boolean | undefined;
}

interface KeyedContent {
  /** Every key with its bytes, in order; a later one of the same name wins. */
  all(): Iterable<readonly [key: string, data: Buffer]>;
  find(key: string): Buffer | undefined;
  missing(key: string): string;
}

export function projectKeys(content: KeyedContent, projection: KeyProjection): Payload {
  const { items, defaultMode, defaultUser, optional } = projection;
  if (defaultMode === undefined) throw new DefaultModeMissingError();
  const files = new Map<string, PayloadFile>();
  // An empty list means the same as none: the API cannot tell them apart either.
  if (items === undefined || items.length === 0) {
    for (const [key, data] of content.all()) files.set(key, payloadFile(data, defaultMode, defaultUser));
    return files;
  }
  for (const { key, path, mode, user } of items) {
    const data = content.find(key);
    if (data !== undefined) files.set(path, payloadFile(data, mode ?? defaultMode, user ?? defaultUser));
    else if (optional !== true) throw new KeyMissingError(content.missing(key));
  }
  return files;
}

export function payloadFile(data: Uint8Array, mode: number, uid: number | undefined): PayloadFile {
  return uid === undefined ? { data, mode } : { data, mode, uid };
}
