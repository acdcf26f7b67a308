/** The files a Secret becomes. Pure; shared by secret and projected volumes. */
import type { Payload } from '../disk/writer/payload.ts';
import type { Secret } from '../kube/kinds/secret.ts';
import { type KeyProjection, projectKeys } from './key-projection.ts';

/** `stringData` is not looked at: whoever accepted the Secret has folded it into `data`. */
export function secretPayload({ data = {} }: Pick<Secret, 'data'>, projection: KeyProjection): Payload {
  return projectKeys(
    {
      *all() {
        for (const [key, encoded] of Object.entries(data)) yield [key, Buffer.from(encoded, 'base64')];
      },
      find: (key) => (Object.hasOwn(data, key) ? Buffer.from(data[key] ?? '', 'base64') : undefined),
      missing: (key) => `references non-existent secret key: ${key}`,
    },
    projection,
  );
}
