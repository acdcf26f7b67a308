/**
 * The folder of manifests as a stream: its content at the start, after every change that has come to rest, and from time
 * to time anyway, because not every file system tells of changes.
 */
import type { Clock } from '../../base/clock.ts';
import { untilAborted } from '../../base/abort.ts';
import { WakeSignal } from '../../base/wake-signal.ts';
import type { FolderReader } from './folder-reader.ts';
import { type FolderContent, type FolderNotice, ManifestsFolder } from './manifests-folder.ts';

interface FolderSourceDeps {
  readonly reader: FolderReader;
  readonly clock: Clock;
  readonly notify: (notice: FolderNotice) => void;
}

interface FolderSourceSettings {
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
  const changed = new WakeSignal();
  const listening = listen(reader, changed, ended);
  const folder = new ManifestsFolder(reader, nodeName, notify);
  try {
    while (!ended.aborted) {
      yield await folder.read(ended);
      if (!(await changed.sleep(rereadPeriodMs, clock, ended))) continue;
      for (let times = 0; times < postponementsMax; times += 1) {
        if (!(await changed.sleep(quietMs, clock, ended))) break;
      }
    }
  } catch (error) {
    if (!ended.aborted) throw error;
  } finally {
    stop.abort();
    await listening;
  }
}

async function listen(reader: FolderReader, changed: WakeSignal, signal: AbortSignal): Promise<void> {
  try {
    for await (const _ of reader.changes(signal)) changed.wake();
  } catch {
    // The folder is read again from time to time, also when nothing tells of its changes.
  }
  await untilAborted(signal);
}
