/** Volumes that show a Secret as files, in memory. */
import type { Payload } from '../disk/writer/payload.ts';
import type { SecretVolumeSource } from '../kube/kinds/pod/volume.ts';
import type { Secret } from '../kube/kinds/secret.ts';
import { inlineSpec } from '../kube/references/volume-spec.ts';
import { ObjectNotFoundError, type VolumePlugin } from './plugin.ts';
import { type KeyProjection, type ProjectionVolumes, projectKeys, projectionAttributes } from './projection.ts';

export interface SecretReader {
  get(namespace: string, name: string, signal: AbortSignal): Promise<Secret | undefined>;
}

export function secretPlugin(secrets: SecretReader, volumes: ProjectionVolumes): VolumePlugin<SecretVolumeSource> {
  return {
    name: 'kubernetes.io/secret',
    sourceOf: ({ volume }) => volume?.secret,
    follows: ({ secretName }) => [{ object: { kind: 'Secret', name: secretName ?? '' } }],
    supportsMountOptions: false,
    attributes: () => projectionAttributes,
    setUp(request, signal) {
      const { pod, source } = request;
      const name = source.secretName ?? '';
      const collect = async (): Promise<Payload> => {
        const secret = await secrets.get(pod.metadata.namespace ?? '', name, signal);
        if (secret === undefined && source.optional !== true) throw new ObjectNotFoundError('secret', name);
        return secretPayload(secret ?? {}, source);
      };
      return volumes.setUp(request, 'memory', collect, signal);
    },
    tearDown: (request) => volumes.tearDown(request),
    // The kubelet's guess. It is good enough to tear the volume down, for which no Secret is read.
    reconstruct: (name) => inlineSpec({ name, secret: { secretName: name } }),
  };
}

/** The files of a Secret; projected volumes use it too. `stringData` is ignored: the API server folds it into `data`. */
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
