/** Kubernetes Events out of what the parts of a node tell. */
import type { EventSink } from '../../kube/kinds/pod/pod-event.ts';
import { type EventSink as Recorder, podEventObject } from '../../node/event-recorder.ts';
import { podRef } from '../../volumes/notices.ts';
import type { NotifyNode } from './notices.ts';

/** On a node without an API server nobody could read them. */
export const noRecorder: Recorder = { record: () => {} };

/** `tell` hears of them too: they are the progress of pods. */
export function podEvents(recorder: Recorder, tell: NotifyNode): EventSink {
  return {
    record({ pod, container, type, reason, message }) {
      recorder.record({ object: podEventObject(pod, container), type, reason, message });
      tell({ kind: 'PodEvent', type, pod: podRef(pod), reason, message });
    },
  };
}
