/** What a node's registration, status and lease have to tell besides their result. */
import type { TaskFailed } from '../base/run-task.ts';

export type NodeNotice =
  | TaskFailed
  | { readonly kind: 'NodeRegistered'; readonly name: string; readonly isNew: boolean }
  | {
      readonly kind: 'NodeRegistrationFailed';
      readonly name: string;
      readonly error: unknown;
      readonly retryMs: number;
    }
  | { readonly kind: 'MachineUnreadable'; readonly error: unknown }
  /** All tries of one round failed; the next round comes in its time. */
  | { readonly kind: 'NodeStatusFailed'; readonly name: string; readonly error: unknown }
  | { readonly kind: 'NodeLeaseFailed'; readonly name: string; readonly error: unknown };
