/** Facts that the managers tell, for logs and metrics. No content of any object is in them. */
import type { TaskFailed } from '../base/run-task.ts';
import type { ObjectId } from './object-id.ts';

export type ObjectNotice =
  | TaskFailed
  | {
      readonly kind: 'ObjectWatchStopped';
      readonly resource: string;
      readonly id: ObjectId;
      readonly because: 'idle' | 'immutable';
    }
  /** An object that cannot change is another one now, or none: it was deleted, and perhaps created again. */
  | { readonly kind: 'ImmutableObjectReplaced'; readonly resource: string; readonly id: ObjectId }
  | { readonly kind: 'ObjectCheckFailed'; readonly resource: string; readonly id: ObjectId; readonly error: unknown }
  /** The old token is used further. */
  | { readonly kind: 'TokenRefreshFailed'; readonly key: string; readonly error: unknown }
  /** The server did not say for how long the token was made, so it is used until it expires. */
  | { readonly kind: 'TokenWithoutLifetime'; readonly key: string };

export type NotifyObjects = (notice: ObjectNotice) => void;
