/**
 * Everything that a node reports, and what becomes of it: a log line, a Kubernetes Event, a metric. A kind of notice without a
 * row does not compile. No value of a Secret is in any of them.
 */
import { type ObjectNotice } from '../../objects/object-manager.ts';
import { MountletError, messageOf } from '../../base/errors.ts';
import type { ReflectorNotice } from '../../client/reflector.ts';
import type { SubPathNotice } from '../../disk/pods/live-sub-paths.ts';
import type { NodeServerNotice } from '../../node-server/node-handler.ts';
import type { EventNotice, EventObject, EventSink, NewEvent } from '../../node/event-recorder.ts';
import type { NodeNotice as ReportNotice } from '../../node/own-node.ts';
import type { PluginNotice } from '../../plugins/plugin.ts';
import type { PodNotice } from '../../pods/loop/loop-parts.ts';
import type { FolderNotice } from '../../pods/sources/manifests-folder.ts';
import type { ReclaimFailed } from '../../reclaim/eviction-loop.ts';
import type { PodProblem } from '../../runtimes/process/process-runtime.ts';
import type { VolumeNotice } from '../../volumes/notices.ts';
import type { RuntimeNotice } from '../machine/process-runtime.ts';
import type { CsiNotice } from './node-csi.ts';
import type { LocalPathNotice } from './node-local-path.ts';
import type { NodeMetrics } from './node-metrics.ts';
import type { ServingCertificateNotice } from './serving-certificate.ts';

export type NodeNotice =
  | ReflectorNotice
  | SubPathNotice
  | EventNotice
  | ReportNotice
  | ServingCertificateNotice
  | NodeServerNotice
  | ObjectNotice
  | PluginNotice
  | PodNotice
  | FolderNotice
  | Exclude<VolumeNotice, { readonly kind: 'PodEvent' }>
  | PodEventNotice
  /** Emitted once: this machine cannot do it, and what happens instead. */
  | { readonly kind: 'SubPathUpdatesUnavailable'; readonly message: string }
  | ({ readonly kind: 'ContainerProblem' } & PodProblem)
  | ({ readonly kind: 'NodeEvent' } & NewEvent)
  /** A volume kind that this node was given and cannot use; the others work. */
  | { readonly kind: 'PluginRefused' | 'ControlUnavailable'; readonly message: string }
  /** Emitted once, by a node that sees to Services itself. */
  | { readonly kind: 'ServicesUnavailable'; readonly message: string }
  | RuntimeNotice
  | LocalPathNotice
  | CsiNotice
  /** Emitted once: thresholds that this node was given and does not watch. */
  | { readonly kind: 'ThresholdsUnwatched'; readonly signals: readonly string[] }
  | ReclaimFailed;

/** Of a volume, or of a pod and its containers, which also say what exactly is meant. */
type PodEventNotice = Extract<VolumeNotice, { readonly kind: 'PodEvent' }> &
  Partial<Pick<EventObject, 'fieldPath' | 'resourceVersion'> & Pick<NewEvent, 'annotations'>>;

export type NotifyNode = (notice: NodeNotice) => void;

export type LogLevel = 'debug' | 'info' | 'warning' | 'error';

/** What machines filter on; the message has the same in words. */
interface LogFields {
  /** `namespace/name`, or a UID where the name is unknown. */
  readonly pod?: string;
  readonly volume?: string;
  readonly object?: string;
  readonly version?: string;
  readonly error?: string;
}

export interface LogLine extends LogFields {
  readonly level: LogLevel;
  readonly kind: string;
  readonly message: string;
}

type Of<Kind extends NodeNotice['kind']> = Extract<NodeNotice, { readonly kind: Kind }>;

interface Row<Notice> {
  /** Silent: it is a metric or an Event alone, or is reported by another notice. */
  readonly level: LogLevel | 'silent' | ((notice: Notice) => LogLevel | 'silent');
  readonly line?: (notice: Notice) => string;
  readonly fields?: (notice: Notice) => LogFields;
  readonly event?: (notice: Notice) => NewEvent | undefined;
  readonly metric?: (notice: Notice, metrics: NodeMetrics) => void;
}

const message = ({ message: text }: { readonly message: string }): string => text;
const errorField = ({ error }: { readonly error: unknown }): LogFields => ({ error: messageOf(error) });
const levelOfEvent = ({ type }: Pick<NewEvent, 'type'>): LogLevel => (type === 'Warning' ? 'warning' : 'info');
const warning = { level: 'warning', line: message } as const;

const rows: { readonly [Kind in NodeNotice['kind']]: Row<Of<Kind>> } = {
  // Pods
  PodEvent: {
    level: levelOfEvent,
    line: ({ pod, reason, message: text }) => `pod ${nameOf(pod)}: ${reason}: ${text}`,
    fields: ({ pod }) => ({ pod: nameOf(pod) }),
    event: ({ type, pod, reason, message: text, fieldPath, resourceVersion, annotations }) => {
      return { object: { ...podObject(pod), fieldPath, resourceVersion }, type, reason, message: text, annotations };
    },
  },
  PodStepFailed: {
    level: ({ hasEvent }) => (hasEvent ? 'debug' : 'warning'),
    line: ({ fullName, message: text }) => `pod ${slashed(fullName)}: ${text}`,
    fields: ({ fullName }) => ({ pod: slashed(fullName) }),
  },
  PodWarning: podProblem(),
  ContainerProblem: podProblem(),
  MirrorFailed: {
    level: 'warning',
    line: ({ pod, message: text }) => `static pod ${pod}: ${text}`,
    fields: ({ pod }) => ({ pod }),
  },
  StatusNotSent: statusProblem(),
  StatusRefused: statusProblem(),
  CredentialProviderFailed: {
    level: 'warning',
    line: ({ provider, image, message: text }) => `credential provider ${provider} gave no login for ${image}: ${text}`,
  },
  HousekeepingFailed: { level: 'warning', line: ({ what, message: text }) => `${what}: ${text}` },
  ManifestRefused: {
    level: 'error',
    line: ({ message: text, keepsLastGood }) => `${text}${keepsLastGood ? '; what it said before still holds' : ''}`,
  },
  ManifestAccepted: { level: 'info', line: ({ file }) => `${file} is valid again` },
  PodRepeated: {
    level: 'warning',
    line: ({ pod, files }) => `pod ${pod} is in ${files.join(' and ')}: that of ${files.at(-1) ?? ''} counts`,
    fields: ({ pod }) => ({ pod }),
  },
  ManifestsUnreadable: { level: 'error', line: ({ path, message: text }) => `${path}: ${text}` },
  TaskFailed: {
    level: 'error',
    line: ({ task, error, retryMs }) => `${task} failed and is tried again in ${ms(retryMs)}: ${traceOf(error)}`,
    fields: errorField,
  },

  // Volumes
  ObjectEvent: {
    level: levelOfEvent,
    line: ({ object, reason, message: text }) => `${object.kind} ${object.name}: ${reason}: ${text}`,
    fields: ({ object }) => ({ object: `${object.kind} ${object.name}` }),
    event: ({ type, object, reason, message: text }) => {
      const namespace = object.namespace === '' ? undefined : object.namespace;
      return { object: { apiVersion: 'v1', ...object, namespace }, type, reason, message: text };
    },
  },
  VolumeMounted: {
    level: 'info',
    line: ({ pod, podVolumeNames, files, tookMs }) =>
      `volume ${nameOf(pod)}:${podVolumeNames.join(',')} mounted in ${ms(tookMs)}${files > 0 ? `, ${count(files, 'file')}` : ''}`,
    fields: ({ pod, volume }) => ({ pod: nameOf(pod), volume }),
    metric: ({ plugin, tookMs }, metrics) => metrics.mounted(plugin, tookMs),
  },
  VolumeRefreshed: {
    level: ({ changed }) => (changed ? 'info' : 'debug'),
    line: ({ pod, podVolumeNames, changed, files, tookMs, trace }) => {
      const volume = `volume ${nameOf(pod)}:${podVolumeNames.join(',')}`;
      const objects = changedObjects(trace);
      // A label of the object, say: nothing was written.
      if (!changed) return `${volume} has the content of ${objects.join(', ')} already`;
      const because = objects.length === 0 ? '' : ` to ${objects.join(', ')}`;
      return `${volume} updated${because} in ${ms(tookMs)}, ${count(files, 'file')}`;
    },
    fields: ({ pod, volume, trace: { changes } }) => {
      const last = changes.at(-1);
      return {
        pod: nameOf(pod),
        volume,
        ...(last && { object: `${last.object.kind} ${last.object.name}` }),
        ...(last?.resourceVersion !== undefined && { version: last.resourceVersion }),
      };
    },
    metric: ({ plugin, tookMs }, metrics) => metrics.updated(plugin, tookMs),
  },
  VolumeUnmounted: {
    level: 'debug',
    line: message,
    fields: ({ podUid, pod, volume }) => ({ pod: pod === undefined ? podUid : nameOf(pod), volume }),
  },
  VolumeDetached: { level: 'debug', line: message, fields: ({ volume }) => ({ volume }) },
  OperationEnded: {
    level: 'silent',
    metric: (notice, metrics) => metrics.operationEnded(notice),
  },
  OperationFailed: {
    level: ({ hasEvent }) => (hasEvent ? 'silent' : 'warning'),
    line: ({ operation, volume, error, retryAt, stuck }) =>
      `${operation} of volume ${volume}: ${messageOf(error)}${heldBy(stuck)}; tried again at ${new Date(retryAt).toISOString()}`,
    event: ({ pod, stuck }) =>
      stuck &&
      pod && {
        object: podObject(pod),
        type: 'Warning',
        reason: 'FailedUnMount',
        message: `${stuck.message}${heldBy(stuck)}`,
      },
    fields: ({ podUid, pod, volume, error }) => ({
      ...(podUid !== undefined && { pod: pod === undefined ? podUid : nameOf(pod) }),
      volume,
      ...errorField({ error }),
    }),
  },
  VolumeNotGrown: { ...warning, fields: ({ pod, volume }) => ({ pod: nameOf(pod), volume }) },
  // Its pod has an Event with the same.
  VolumeNotProcessed: {
    level: 'debug',
    line: ({ pod, podVolumeName, message: text }) => `volume ${nameOf(pod)}:${podVolumeName}: ${text}`,
    fields: ({ pod }) => ({ pod: nameOf(pod) }),
  },
  DesiredStateComplete: { level: 'silent' },
  VolumeReconstructed: {
    level: ({ problem }) => (problem === undefined ? 'debug' : 'warning'),
    line: ({ path, problem }) =>
      `found ${path}${problem === undefined ? '' : `, which cannot be taken over: ${problem}`}`,
    fields: ({ podUid: pod, volume }) => ({ pod, ...(volume !== undefined && { volume }) }),
    metric: ({ problem }, metrics) => metrics.reconstructed(problem),
  },
  EntrySkipped: { level: 'warning', line: ({ path, message: text }) => `${path} is left alone: ${text}` },
  ReconstructionProblem: {
    level: 'warning',
    line: ({ volume, message: text }) => (volume === '' ? text : `volume ${volume}: ${text}`),
    fields: ({ volume }) => (volume === '' ? {} : { volume }),
  },
  ReconstructionFinished: {
    level: ({ volumes }) => (volumes === 0 ? 'debug' : 'info'),
    line: ({ volumes, failed }) =>
      `${count(volumes, 'volume')} of an earlier process found${failed === 0 ? '' : `, ${failed} of them unusable`}`,
  },
  NodeStatusUnread: {
    level: 'warning',
    line: ({ message: text }) => `nothing is unmounted until the Node object can be read: ${text}`,
  },
  NodeStatusApplied: { level: 'debug', line: ({ volumes }) => `the Node object lists ${count(volumes, 'volume')}` },
  FailedVolumeCleaned: {
    level: ({ problem }) => (problem === undefined ? 'info' : 'warning'),
    line: ({ podUid, volumeName, problem }) =>
      `volume ${volumeName} of the unknown pod ${podUid} ${problem === undefined ? 'was cleaned up' : `cannot be cleaned up: ${problem}`}`,
    fields: ({ podUid: pod }) => ({ pod }),
    metric: ({ problem }, metrics) => metrics.failedVolumeCleaned(problem),
  },
  OrphanedPodKept: { ...warning, fields: ({ podUid: pod }) => ({ pod }) },
  OrphanedPodRemoved: {
    level: 'debug',
    line: ({ path }) => `removed ${path}`,
    fields: ({ podUid: pod }) => ({ pod }),
  },
  OrphanedPodErrors: {
    level: 'warning',
    line: ({ first, count: errors }) => `${first}${errors > 1 ? ` (and ${errors - 1} more like it)` : ''}`,
  },
  OrphansSwept: {
    level: 'silent',
    metric: ({ candidates, withProblems }, metrics) => metrics.orphansSwept(candidates, withProblems),
  },
  SubPathUpdated: { level: 'debug', line: message },
  SubPathLost: warning,
  SubPathNotUpdated: warning,
  SubPathUpdatesUnavailable: warning,
  PluginRefused: { level: 'error', line: message },
  ControlUnavailable: warning,
  ServicesUnavailable: warning,
  RuntimeChosen: { level: 'info', line: message },
  ThresholdsUnwatched: {
    level: 'warning',
    line: ({ signals }) => `eviction thresholds that evict nothing here: ${signals.join(', ')}`,
  },
  ReclaimFailed: { level: 'warning', line: ({ message: text }) => `cannot make room on the disk: ${text}` },
  RuntimeLimited: warning,
  ControllerFailed: {
    level: 'warning',
    line: ({ controller, object, error }) => `${controller}: ${object}: ${messageOf(error)}`,
    fields: errorField,
  },
  LocalPathForbidden: {
    level: 'error',
    line: ({ missing, wanted }) =>
      `--local-path makes no volumes: the credentials of this node do not allow it to ${missing.join(', ')}. ` +
      `Grant them a ClusterRole with ${wanted.join('; ')}, or give the agent a kubeconfig that has it`,
  },
  DriverRegistered: {
    level: 'info',
    line: ({ driver, socket }) => `CSI driver ${driver} registered at ${socket}`,
  },
  CsiControllerServes: {
    level: 'info',
    line: ({ driver, socket }) => `CSI controller ${driver} runs on ${socket}`,
  },
  CsiControllerUnreachable: warning,
  DriverUnregistered: {
    level: 'info',
    line: ({ driver, socket }) => `CSI driver ${driver} is gone: ${socket} was removed`,
  },
  DriverNotRegistered: {
    level: 'warning',
    line: ({ socket, message: text, retryMs }) => `${socket}: ${text}; tried again in ${ms(retryMs)}`,
  },
  DriverNotRecorded: {
    level: 'warning',
    line: ({ driver, message: text, retryMs }) =>
      `the cluster has old facts about CSI driver ${driver}: ${text}; tried again in ${ms(retryMs)}`,
  },
  CsiNodeFailed: { level: 'warning', line: ({ message: text, retryMs }) => `${text}; tried again in ${ms(retryMs)}` },
  CsiNodeReplaced: { level: 'info', line: message },
  CsiNodesUnavailable: warning,
  MemoryElsewhere: warning,
  GroupImpossible: warning,
  OwnerImpossible: warning,
  DeviceFormatted: { level: 'info', line: message },
  DeviceRepaired: { level: 'warning', line: message },

  // The API server and its objects
  WatchFailed: {
    level: ({ isExpected }) => (isExpected ? 'debug' : 'warning'),
    line: ({ what, error }) => `${what}: ${messageOf(error)}`,
    fields: errorField,
  },
  InitialEventsUnavailable: {
    level: 'debug',
    line: ({ what, error }) => `${what}: listed instead of streamed: ${messageOf(error)}`,
    fields: errorField,
  },
  WatchEventSkipped: { level: 'warning', line: ({ what, problem }) => `${what}: an event was skipped: ${problem}` },
  ObjectWatchStopped: {
    level: 'debug',
    line: ({ resource, id, because }) => `${resource} ${nameOf(id)} is not watched: it is ${because}`,
    fields: ({ resource, id }) => ({ object: `${resource} ${nameOf(id)}` }),
  },
  ObjectCheckFailed: {
    level: 'warning',
    line: ({ resource, id, error }) => `${resource} ${nameOf(id)}: ${messageOf(error)}`,
    fields: ({ resource, id, error }) => ({ object: `${resource} ${nameOf(id)}`, ...errorField({ error }) }),
  },
  ImmutableObjectReplaced: {
    level: 'info',
    line: ({ resource, id }) => `${resource} ${nameOf(id)} was immutable and is another one now`,
    fields: ({ resource, id }) => ({ object: `${resource} ${nameOf(id)}` }),
  },
  TokenRefreshFailed: {
    level: 'warning',
    line: ({ error }) => `the old token is used further: ${messageOf(error)}`,
    fields: errorField,
  },
  TokenWithoutLifetime: {
    level: 'warning',
    line: () => 'the API server issued a token without saying for how long: it is used until it expires',
  },
  EventLost: { level: 'warning', line: ({ event }) => `an event was lost: ${event.reason}` },
  EventUnwritten: {
    level: 'warning',
    line: ({ error }) => `an event was not written: ${messageOf(error)}`,
    fields: errorField,
  },
  NodeEvent: {
    level: 'debug',
    line: ({ object, reason, message: text }) => `node ${object.name}: ${reason}: ${text}`,
    event: ({ object, type, reason, message: text }) => ({ object, type, reason, message: text }),
  },
  ServingCertificateIssued: {
    level: 'info',
    line: ({ until }) => `the cluster has signed the certificate of this node's server; it is good until ${until}`,
  },
  ServingCertificateUnsigned: {
    level: 'warning',
    line: ({ why }) =>
      `${why}: until then logs and commands are served with a certificate of this node's own making, which API servers that verify nodes refuse`,
  },
  NodeRegistered: {
    level: 'debug',
    line: ({ name, isNew }) => `node ${name} ${isNew ? 'registered' : 'was registered before'}`,
  },
  NodeRegistrationFailed: nodeFailure(),
  NodeStatusFailed: nodeFailure(),
  NodeLeaseFailed: nodeFailure(),
  MachineUnreadable: { level: 'warning', line: ({ error }) => messageOf(error), fields: errorField },
  NodeRequestServed: {
    level: 'debug',
    line: ({ method, path, user, code, tookMs }) =>
      `${method} ${path} by ${user || 'nobody'}: ${code} in ${ms(tookMs)}`,
  },
  NodeRequestFailed: {
    level: 'error',
    line: ({ path, error }) => `request ${path}: ${messageOf(error)}`,
    fields: errorField,
  },
};

/** Undefined for what has no line. */
export function logLine(notice: NodeNotice): LogLine | undefined {
  const { level, line, fields } = rowOf(notice);
  const decided = typeof level === 'function' ? level(notice) : level;
  if (decided === 'silent' || line === undefined) return undefined;
  return { level: decided, kind: notice.kind, message: line(notice), ...fields?.(notice) };
}

export function eventSink(recorder: EventSink): NotifyNode {
  return (notice) => {
    const { event } = rowOf(notice);
    const made = event?.(notice);
    if (made !== undefined) recorder.record(made);
  };
}

export function metricSink(metrics: NodeMetrics): NotifyNode {
  return (notice) => rowOf(notice).metric?.(notice, metrics);
}

/** The table's type pairs each kind with its own row, which a lookup by a union of kinds cannot express. */
function rowOf(notice: NodeNotice): Row<NodeNotice> {
  return rows[notice.kind] as Row<NodeNotice>;
}

function podProblem(): Row<PodProblem> {
  const podOf = ({ namespace, podName: name, podUid: uid }: PodProblem): PodName & { readonly uid: string } => ({
    namespace,
    name,
    uid,
  });
  return {
    level: 'warning',
    line: (problem) => `pod ${nameOf(podOf(problem))}: ${problem.reason}: ${problem.message}`,
    fields: (problem) => ({ pod: nameOf(podOf(problem)) }),
    event: (problem) => {
      const { reason, message: text } = problem;
      return { object: podObject(podOf(problem)), type: 'Warning', reason, message: text };
    },
  };
}

function statusProblem(): Row<{ readonly pod: string; readonly message: string }> {
  return {
    level: 'warning',
    line: ({ pod, message: text }) => `status of pod ${slashed(pod)}: ${text}`,
    fields: ({ pod }) => ({ pod: slashed(pod) }),
  };
}

function nodeFailure(): Row<{ readonly name: string; readonly error: unknown }> {
  return { level: 'warning', line: ({ name, error }) => `node ${name}: ${messageOf(error)}`, fields: errorField };
}

interface PodName {
  readonly namespace: string;
  readonly name: string;
}

function nameOf({ namespace, name }: PodName): string {
  return `${namespace}/${name}`;
}

/** `NAME_NAMESPACE` or `NAME_NAMESPACE(UID)`, as the kubelet calls a pod in its messages, in the form of our own lines. */
function slashed(fullName: string): string {
  const [name = '', namespace = ''] = fullName.split(/[_(]/);
  return nameOf({ namespace, name });
}

function podObject({ uid, namespace, name }: PodName & { readonly uid: string }): EventObject {
  return { apiVersion: 'v1', kind: 'Pod', uid, namespace, name };
}

/** Each once, as it was last. */
function changedObjects({ changes }: Of<'VolumeRefreshed'>['trace']): string[] {
  const last = new Map(
    changes.map(({ object, resourceVersion }) => [`${object.kind} ${object.name}`, resourceVersion]),
  );
  return [...last].map(([name, version]) =>
    version === undefined ? `${name} (deleted)` : `${name} at version ${version}`,
  );
}

function heldBy(stuck: { readonly holders: readonly string[] } | undefined): string {
  return stuck === undefined || stuck.holders.length === 0 ? '' : `; held by ${stuck.holders.join('; ')}`;
}

/** What was not foreseen is a bug, and a bug is found by its stack. */
function traceOf(error: unknown): string {
  if (error instanceof MountletError) return error.message;
  return error instanceof Error ? (error.stack ?? error.message) : String(error);
}

function ms(tookMs: number): string {
  return tookMs < 1_000 ? `${Math.max(1, Math.round(tookMs))} ms` : `${(tookMs / 1_000).toFixed(1)} s`;
}

function count(number: number, what: string): string {
  return `${number} ${what}${number === 1 ? '' : 's'}`;
}
