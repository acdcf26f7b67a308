/** Volumes that show a Secret as files, in memory. */
import type { Payload } from '../disk/writer/payload.ts';
import type { SecretVolumeSource } from '../kube/kinds/pod/volume.ts';
import { inlineSpec } from '../kube/references/volume-spec.ts';
import type { SecretReader } from './object-readers.ts';
import { ObjectNotFoundError, type VolumePlugin } from './plugin.ts';
import { type ProjectionVolumes, projectionAttributes } from './projection-volume.ts';
import { secretPayload } from './secret-payload.ts';

export function secretPlugin(secrets: SecretReader, volumes: ProjectionVolumes): VolumePlugin<SecretVolumeSource> {
  return {
    name: 'kubernetes.io/secret',
    sourceOf: ({ volume }) => volume?.secret,
    requiresRemount: true,
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
