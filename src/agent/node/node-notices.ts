/** All that a node tells of itself. Sinks make log lines, metrics and Kubernetes Events of it; no value of a Secret is in it. */
import type { ReflectorNotice } from '../../client/reflector.ts';
import type { SubPathNotice } from '../../disk/paths/live-sub-paths.ts';
import type { EventNotice } from '../../node/event-recorder.ts';
import type { NodeNotice as ReportNotice } from '../../node/node-notices.ts';
import type { NodeServerNotice } from '../../node-server/node-handler.ts';
import type { ObjectNotice } from '../../objects/object-notices.ts';
import type { PluginNotice } from '../../plugins/plugin.ts';
import type { PodNotice } from '../../pods/pod-parts.ts';
import type { FolderNotice } from '../../pods/sources/manifests-folder.ts';
import type { PodProblem } from '../../runtimes/process/process-runtime.ts';
import type { VolumeNotice } from '../../volumes/volume-notices.ts';

export type NodeNotice =
  | ReflectorNotice
  | SubPathNotice
  | EventNotice
  | ReportNotice
  | NodeServerNotice
  | ObjectNotice
  | PluginNotice
  | PodNotice
  | FolderNotice
  | VolumeNotice
  /** Said once: this machine cannot do it, and what happens instead. */
  | { readonly kind: 'SubPathUpdatesUnavailable'; readonly message: string }
  | ({ readonly kind: 'ContainerProblem' } & PodProblem);

export type NotifyNode = (notice: NodeNotice) => void;
