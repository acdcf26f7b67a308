import type { EventSink, PodEvent } from '../pods/event-sink.ts';

/** Keeps the events that were recorded, to be read as lines: `Warning Failed main: Error: …`. */
export class RecordedEvents implements EventSink {
  readonly events: PodEvent[] = [];

  record(event: PodEvent): void {
    this.events.push(event);
  }

  lines(): string[] {
    return this.events.map(({ type, reason, container, message }) =>
      [type, reason, ...(container === undefined ? [] : [`${container}:`]), message].join(' '),
    );
  }
}
