/** What a node tells, as lines for people and machines. Pure. What is routine, or is told otherwise, is no line. */
import { MountletError, messageOf } from '../../base/errors.ts';
import type { NodeNotice } from './node-notices.ts';

export interface LogLine {
  readonly level: 'info' | 'warning' | 'error';
  readonly message: string;
}

export function logLine(notice: NodeNotice): LogLine | undefined {
  switch (notice.kind) {
    case 'PodEvent':
    case 'ObjectEvent':
      return { level: levelOf(notice.type), message: `${nameOf(notice)}: ${notice.reason}: ${notice.message}` };
    case 'ContainerProblem':
    case 'PodWarning':
      return {
        level: 'warning',
        message: `pod ${notice.namespace}/${notice.podName}: ${notice.reason}: ${notice.message}`,
      };
    case 'VolumeMounted': {
      const { pod, outerNames, files, tookMs } = notice;
      const what = files > 0 ? `, ${count(files, 'file')}` : '';
      return info(`volume ${pod.namespace}/${pod.name}:${outerNames.join(',')} mounted in ${ms(tookMs)}${what}`);
    }
    case 'VolumeRefreshed': {
      const { pod, outerNames, files, tookMs, trace } = notice;
      const objects = [
        ...new Set(
          trace.changes.map(({ object, resourceVersion }) => {
            const version = resourceVersion === undefined ? '' : ` at version ${resourceVersion}`;
            return `${object.kind} ${object.name}${version}`;
          }),
        ),
      ];
      const because = objects.length === 0 ? '' : ` to ${objects.join(', ')}`;
      const volume = `${pod.namespace}/${pod.name}:${outerNames.join(',')}`;
      return info(`volume ${volume} updated${because} in ${ms(tookMs)}, ${count(files, 'file')}`);
    }
    case 'TaskFailed': {
      const { task, error, retryMs } = notice;
      return { level: 'error', message: `${task} failed and is tried again in ${ms(retryMs)}: ${traceOf(error)}` };
    }
    case 'PodStepFailed':
      return { level: 'warning', message: `pod ${notice.fullName.replace('_', ' in namespace ')}: ${notice.message}` };
    case 'HousekeepingFailed':
      return { level: 'warning', message: `${notice.what}: ${notice.message}` };
    case 'MirrorFailed':
    case 'SubPathLost':
    case 'SubPathNotUpdated':
    case 'SubPathUpdatesUnavailable':
    case 'MemoryElsewhere':
    case 'GroupImpossible':
    case 'OwnerImpossible':
      return { level: 'warning', message: notice.message };
    case 'StatusNotSent':
    case 'StatusRefused':
      return { level: 'warning', message: `status of pod ${notice.pod}: ${notice.message}` };
    case 'ManifestRefused': {
      const kept = notice.keepsLastGood ? '; what it said before still holds' : '';
      return { level: 'error', message: `${notice.file}: ${notice.message}${kept}` };
    }
    case 'ManifestsUnreadable':
      return { level: 'error', message: `${notice.path}: ${notice.message}` };
    case 'WatchFailed':
      return notice.isExpected ? undefined : warning(`${notice.what}: ${messageOf(notice.error)}`);
    case 'TokenRefreshFailed':
      return warning(`the old token is used further: ${messageOf(notice.error)}`);
    case 'EventLost':
      return warning(`an event was lost: ${notice.event.reason}`);
    case 'EventUnwritten':
      return warning(`an event was not written: ${messageOf(notice.error)}`);
    case 'NodeRequestFailed':
      return { level: 'error', message: `request ${notice.path}: ${messageOf(notice.error)}` };
    case 'NodeRegistrationFailed':
    case 'NodeStatusFailed':
    case 'NodeLeaseFailed':
      return warning(`node ${notice.name}: ${messageOf(notice.error)}`);
    case 'MachineUnreadable':
      return warning(messageOf(notice.error));
    case 'ImmutableObjectReplaced':
      return info(`${notice.resource} ${notice.id.namespace}/${notice.id.name} was immutable and is another one now`);
    default:
      return undefined;
  }
}

function nameOf(notice: NodeNotice & { readonly kind: 'PodEvent' | 'ObjectEvent' }): string {
  if (notice.kind === 'PodEvent') return `pod ${notice.pod.namespace}/${notice.pod.name}`;
  return `${notice.object.kind} ${notice.object.name}`;
}

function levelOf(type: 'Normal' | 'Warning'): LogLine['level'] {
  return type === 'Warning' ? 'warning' : 'info';
}

const info = (message: string): LogLine => ({ level: 'info', message });
const warning = (message: string): LogLine => ({ level: 'warning', message });

/** What was not foreseen is a bug, and a bug is found by its stack. */
function traceOf(error: unknown): string {
  return error instanceof MountletError
    ? error.message
    : error instanceof Error
      ? (error.stack ?? error.message)
      : String(error);
}

function ms(tookMs: number): string {
  return tookMs < 1_000 ? `${Math.max(1, Math.round(tookMs))} ms` : `${(tookMs / 1_000).toFixed(1)} s`;
}

function count(number: number, what: string): string {
  return `${number} ${what}${number === 1 ? '' : 's'}`;
}
