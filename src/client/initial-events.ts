/** All objects as the beginning of a watch: read until the server says that they are complete. The watch then goes on. */
import type { Clock } from '../base/clock.ts';
import type { WholeList } from './paged-list.ts';
import type { OurEvent } from './reflection-events.ts';
import { InitialEventsMissingError, VeryShortWatchError, isClosing, veryShortMs } from './reflector-errors.ts';
import type { ApiObject } from './resource-reference.ts';
import { objectKey } from './resource-reference.ts';
import type { WatchEvent, WatchStream } from './watch-stream.ts';

// A server that does not know `sendInitialEvents` ignores it and would keep us waiting for ever.
const initialSilenceMsMax = 10_000;

/** What one reflector found out about a server, so that the others need not wait to find out the same. */
export class InitialEventsSupport {
  /** The server was asked and had nothing to say: it does not know the question. */
  isMissing = false;
}

interface InitialEventsDeps<T> {
  readonly clock: Clock;
  /** For messages. */
  readonly what: string;
  /** Undefined for what is none of our objects. */
  readonly read: (event: WatchEvent) => OurEvent<T> | undefined;
}

/** Undefined when the stream ended before all objects had come. */
export async function readInitialEvents<T extends ApiObject>(
  { clock, what, read }: InitialEventsDeps<T>,
  stream: WatchStream,
): Promise<Omit<WholeList<T>, 'isPaged'> | undefined> {
  const objects = new Map<string, T>();
  const startedAt = clock.now();
  let heardAt = startedAt;
  let events = 0;
  const done = new AbortController();
  const silence = (async () => {
    for (;;) {
      await clock.sleep(heardAt + initialSilenceMsMax - clock.now(), done.signal);
      const silentMs = clock.now() - heardAt;
      if (silentMs >= initialSilenceMsMax) {
        return stream.fail(new InitialEventsMissingError(what, silentMs, events > 0));
      }
    }
  })().catch(() => {});
  try {
    for (;;) {
      const { done: hasEnded, value } = await stream.next();
      if (hasEnded === true) break;
      heardAt = clock.now();
      const event = read(value);
      if (event === undefined) continue;
      events += 1;
      if (event.kind === 'added' || event.kind === 'modified') objects.set(objectKey(event.object), event.object);
      else if (event.kind === 'deleted') objects.delete(objectKey(event.object));
      else if (event.kind === 'bookmark' && event.endsInitialEvents) {
        return { objects: [...objects.values()], resourceVersion: event.resourceVersion };
      }
    }
  } catch (error) {
    if (!isClosing(error)) throw error;
  } finally {
    done.abort('over'); // a reason, because making the usual one costs more than all the rest
    await silence;
  }
  if (events === 0 && clock.now() - startedAt < veryShortMs) throw new VeryShortWatchError(what);
  return undefined;
}
