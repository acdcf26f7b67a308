/** Kubernetes Events out of what the parts of a node tell. */
import type { EventObject, EventSink as Recorder } from '../../node/event-object.ts';
import { podEventObject } from '../../node/event-object.ts';
import type { EventSink } from '../../pods/event-sink.ts';
import { podRef } from '../../volumes/volume-notices.ts';
import type { NodeNotice, NotifyNode } from './node-notices.ts';

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

/** The notices that are meant for users of the cluster. */
export function recordNotice(recorder: Recorder, notice: NodeNotice): void {
  switch (notice.kind) {
    case 'PodEvent': {
      const { type, pod, reason, message } = notice;
      return recorder.record({ object: podObject(pod), type, reason, message });
    }
    case 'ObjectEvent': {
      const { type, object, reason, message } = notice;
      const namespace = object.namespace === '' ? undefined : object.namespace;
      return recorder.record({ object: { apiVersion: 'v1', ...object, namespace }, type, reason, message });
    }
    case 'ContainerProblem':
    case 'PodWarning': {
      const { podUid: uid, namespace, podName: name, reason, message } = notice;
      return recorder.record({ object: podObject({ uid, namespace, name }), type: 'Warning', reason, message });
    }
    default:
  }
}

function podObject(pod: { readonly uid: string; readonly namespace: string; readonly name: string }): EventObject {
  return { apiVersion: 'v1', kind: 'Pod', ...pod };
}
