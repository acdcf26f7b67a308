/** Carries out what was planned: finds the operation for an action, lets it run in its turn and tells how it ended. */
import { MountletError, messageOf } from '../../base/errors.ts';
import { podUidOf } from '../mount-id.ts';
import { OperationPanicError, noRetriesMessage } from '../operation-errors.ts';
import type { OperationKey } from '../operation-errors.ts';
import type { Operation, OperationEnd, PendingOperations, Refusal } from '../pending-operations.ts';
import type { OperationAction } from '../volume-actions.ts';
import { podRef } from '../volume-notices.ts';
import type { NotifyVolumes } from '../volume-notices.ts';
import { OperationError } from './operation-error.ts';
import type { OperationKind, OperationTable } from './operation-kind.ts';

/** This node has no operation for what is wanted of it. */
class OperationMissingError extends MountletError {
  readonly reason = 'OperationMissing';
  constructor(kind: string, volume: string) {
    super(`Cannot ${kind} volume "${volume}": this node has no operation for that`);
  }
}

/** An operation that still knows what it is for. */
interface ActionOperation extends Operation {
  readonly action: OperationAction;
  readonly kind: OperationKind<OperationAction>;
}

export class Operations {
  readonly #table: OperationTable;
  readonly #pending: PendingOperations;

  constructor(table: OperationTable, pending: PendingOperations) {
    this.#table = table;
    this.#pending = pending;
  }

  /** In the background. A volume that is busy or backing off is touched again when it is free. */
  start(action: OperationAction): Refusal | undefined {
    // The table has for each kind an operation that takes actions of that kind.
    const kind = (this.#table[action.kind] ?? missing(action.kind)) as OperationKind<OperationAction>;
    const operation: ActionOperation = {
      key: kind.key(action),
      name: kind.name,
      action,
      kind,
      run: (signal) => kind.run(action, signal),
    };
    return this.#pending.start(operation);
  }

  isBusy(volume: string): boolean {
    return this.#pending.isPending({ volume, podUid: '', node: '' });
  }

  forget(volume: string): void {
    this.#pending.forget(volume);
  }
}

/** Tells of every operation that ended: a metric for each, and for a failure a log line and what users see of it. */
export function tellEnd({ operation, tookMs, failure, isClosing }: OperationEnd, notify: NotifyVolumes): void {
  if (failure !== undefined && isClosing) return; // a node that stops is no failure of a pod
  const { name, key } = operation;
  const { action, kind } = operation as ActionOperation;
  const status = failure === undefined ? 'success' : 'fail-unknown';
  notify({ kind: 'OperationEnded', operation: name, volume: key.volume, plugin: pluginOf(action), status, tookMs });
  if (failure === undefined) return;
  const { error, failedAt, delayMs } = failure;
  const message = noRetriesMessage(key, { failedAt, delayMs, lastError: messageOf(error) });
  const podUid = key.podUid === '' && 'mount' in action ? podUidOf(action.mount.pod) : key.podUid;
  const pods = error instanceof OperationPanicError ? [] : (kind.failureEvent?.podsOf(action) ?? []);
  notify({
    kind: 'OperationFailed',
    operation: name,
    volume: key.volume,
    podUid,
    message,
    retryAt: failedAt + delayMs,
    error,
    hasEvent: pods.length > 0,
  });
  if (kind.failureEvent === undefined) return;
  const text = error instanceof OperationError ? error.simple : messageOf(error);
  const reason = (error instanceof OperationError ? error.eventReason : undefined) ?? kind.failureEvent.reason;
  for (const pod of pods) {
    notify({ kind: 'PodEvent', type: 'Warning', pod: podRef(pod), reason, message: text });
  }
}

function pluginOf(action: OperationAction): string {
  if ('mount' in action) return action.mount.plugin.name;
  return 'pluginName' in action ? action.pluginName : action.volume.pluginName;
}

function missing(kind: OperationAction['kind']): OperationKind<OperationAction> {
  return {
    name: kind,
    key: (action): OperationKey => ({
      volume: typeof action.volume === 'string' ? action.volume : action.volume.volume,
      podUid: 'mount' in action ? action.mount.podUid : '',
      node: '',
    }),
    failureEvent: { reason: 'FailedMount', podsOf: (action) => ('mount' in action ? [action.mount.pod] : []) },
    run: (action) =>
      Promise.reject(
        new OperationMissingError(kind, typeof action.volume === 'string' ? action.volume : action.volume.volume),
      ),
  };
}
