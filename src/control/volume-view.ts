/** One volume of one pod as users see it: what it is, how far it is and what it holds. The same on both ends of the socket. */
import { type Of, boolean, integer, list, object, required, string } from '../kube/schema/schema.ts';

export const volumeViewShape = object({
  apiVersion: required(string),
  kind: required(string),
  /** The name is that of the pod and that of the volume, with a dot between: the latter never has one. */
  metadata: required(object({ name: required(string), namespace: required(string), creationTimestamp: string })),
  spec: required(
    object({
      podName: required(string),
      podUid: required(string),
      volumeName: required(string),
      plugin: string,
      claimName: string,
    }),
  ),
  status: required(
    object({
      /** Mounted, Uncertain (it may be mounted, and is set up again), Waiting, or Unmounting. */
      state: required(string),
      /** What keeps it from being as it should. */
      message: string,
      /** Mounted, but with content that is older than what the pod should see. */
      isStale: boolean,
      claimPhase: string,
      path: string,
      devicePath: string,
      /** What its content comes from, with the version that is on disk where that is certain. */
      objects: list(object({ kind: required(string), name: string, resourceVersion: string })),
      usedBytes: integer,
      capacityBytes: integer,
    }),
  ),
});
export interface VolumeView extends Of<typeof volumeViewShape> {}

export interface VolumeQuery {
  /** Undefined: of all namespaces. */
  readonly namespace?: string | undefined;
}
