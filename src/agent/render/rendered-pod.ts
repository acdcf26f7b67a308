/** What rendering one pod came to: the facts that printers show. Plain data; Secret values are marked, not hidden. */
import { MountletError } from '../../base/errors.ts';
import type { DirectoryEntry, Entry, VisibleFile } from '../../disk/paths/directory-listing.ts';

export type { Entry };

export interface RenderedPod {
  readonly namespace: string;
  readonly name: string;
  readonly uid: string;
  /** Where all of it is on this machine. */
  readonly directory: string;
  readonly volumes: readonly RenderedVolume[];
  readonly initContainers: readonly RenderedContainer[];
  readonly containers: readonly RenderedContainer[];
  readonly ephemeralContainers: readonly RenderedContainer[];
  readonly pullCredentials: readonly RenderedCredential[];
}

export interface RenderedVolume {
  readonly name: string;
  readonly plugin: string;
  /** Where the volume is on this machine. */
  readonly path: string;
  /** What the plugin keeps there; undefined for volumes whose content belongs to others (hostPath, emptyDir, …). */
  readonly content?: DirectoryEntry;
  readonly files: readonly VisibleFile[];
}

export interface RenderedContainer {
  readonly name: string;
  readonly env: readonly RenderedVariable[];
  readonly mounts: readonly RenderedMount[];
}

export interface RenderedVariable {
  readonly name: string;
  readonly value: string;
  /** The value holds bytes of a Secret. */
  readonly secret: boolean;
}

export interface RenderedMount {
  readonly mountPath: string;
  readonly hostPath: string;
  readonly readOnly: boolean;
  readonly subPath?: string;
  /** Only where mounts made later are seen on the other side: `HostToContainer`, `Bidirectional`. */
  readonly mountPropagation?: string;
  /** Only where mounts inside it are read-only too. */
  readonly recursiveReadOnly?: true;
  /** The subPath was expanded from a variable that holds bytes of a Secret, and so the host path may hold them too. */
  readonly secretSubPath: boolean;
}

export interface RenderedCredential {
  readonly registry: string;
  readonly username: string;
  /** The pod's images that it would be tried for. */
  readonly images: readonly string[];
}

/** A pod that could not start, and why, in the kubelet's words. */
export interface PodFailure {
  readonly namespace: string;
  readonly name: string;
  readonly messages: readonly string[];
}

/** Why a pod could not start: a sentence in the kubelet's words for each volume or container that is to blame. */
export class PodStartError extends MountletError {
  readonly reason = 'PodNotStarted';
  readonly messages: readonly string[];

  constructor(messages: readonly string[]) {
    super(messages.join('\n'));
    this.messages = messages;
  }
}
