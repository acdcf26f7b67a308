/**
 * The folder of manifests as a stream: its content at the start, after every change that has come to rest, and from time
 * to time anyway, because not every file system tells of changes.
 */
import type { Clock } from '../../base/clock.ts';
import { untilAborted } from '../../base/until-aborted.ts';
import type { FolderReader } from './folder-reader.ts';
import { ManifestsFolder } from './manifests-folder.ts';
import type { FolderContent, FolderNotice } from './manifests-folder.ts';

export interface FolderSourceDeps {
  readonly reader: FolderReader;
  readonly clock: Clock;
  readonly notify: (notice: FolderNotice) => void;
}

export interface FolderSourceSettings {
  readonly nodeName: string;
  /** `fileCheckFrequency`: 20 s. */
  readonly rereadPeriodMs: number;
  /** How long nothing may happen before a change counts as saved: 100 ms hide an editor's steps and no user's wait. */
  readonly quietMs: number;
}

/** A file that never comes to rest is still read this often, counted in quiet times. */
const postponementsMax = 20;

export async function* folderContents(
  { reader, clock, notify }: FolderSourceDeps,
  { nodeName, rereadPeriodMs, quietMs }: FolderSourceSettings,
  signal: AbortSignal,
): AsyncGenerator<FolderContent> {
  const stop = new AbortController();
  const ended = AbortSignal.any([signal, stop.signal]);
  const changed = new Flag();
  const listening = listen(reader, changed, ended);
  const folder = new ManifestsFolder(reader, nodeName, notify);
  try {
    while (!ended.aborted) {
      changed.lower();
      yield await folder.read(ended);
      const isDue = await firstOf(clock, rereadPeriodMs, changed.raised(), ended);
      for (let times = 0; !isDue && times < postponementsMax; times += 1) {
        changed.lower();
        if (await firstOf(clock, quietMs, changed.raised(), ended)) break;
      }
    }
  } catch (error) {
    if (!ended.aborted) throw error;
  } finally {
    stop.abort();
    await listening;
  }
}

async function listen(reader: FolderReader, changed: Flag, signal: AbortSignal): Promise<void> {
  try {
    for await (const _ of reader.changes(signal)) changed.raise();
  } catch {
    // The folder is read again from time to time, also when nothing tells of its changes.
  }
  await untilAborted(signal);
}

/** Whether the time was over before the flag was raised. */
async function firstOf(clock: Clock, ms: number, raised: Promise<void>, signal: AbortSignal): Promise<boolean> {
  const stop = new AbortController();
  const timeout = clock.sleep(ms, AbortSignal.any([signal, stop.signal])).then(
    () => true,
    () => true,
  );
  const isOver = await Promise.race([timeout, raised.then(() => false)]);
  stop.abort();
  return isOver;
}

class Flag {
  #resolve: () => void = () => {};
  #raised: Promise<void> = new Promise((resolve) => (this.#resolve = resolve));

  raise(): void {
    this.#resolve();
  }

  lower(): void {
    this.#raised = new Promise((resolve) => (this.#resolve = resolve));
  }

  raised(): Promise<void> {
    return this.#raised;
  }
}
