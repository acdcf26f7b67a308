/** The wish to attach a volume to a node, and what came of it. */
import { objectFields } from './metadata.ts';
import { any, boolean, integer, map, object, required, string } from './schema.ts';
import type { Of } from './schema.ts';

const volumeError = object({ time: string, message: string, errorCode: integer });

export const volumeAttachment = object({
  ...objectFields,
  spec: required(
    object({
      attacher: required(string),
      source: required(object({ persistentVolumeName: string, inlineVolumeSpec: any })),
      nodeName: required(string),
    }),
  ),
  status: object({
    attached: required(boolean),
    attachmentMetadata: map(string),
    attachError: volumeError,
    detachError: volumeError,
  }),
});
export interface VolumeAttachment extends Of<typeof volumeAttachment> {}
