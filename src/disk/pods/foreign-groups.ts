/**
 * Gives volumes to a group whose server may be gone: where a look into the volume may wait for ever, another process walks it
 * (group-program.ts) and is given up after a while.
 */
import type { Turns } from '../../base/turns.ts';
import { doneElsewhere } from '../devices/foreign-paths.ts';
import type { Programs } from '../devices/programs.ts';
import { isForeign } from '../mounts/mount-table.ts';
import { type GroupChange, type GroupReporting, applyGroup } from '../paths/ownership.ts';

export interface GroupRequest {
  readonly directory: string;
  readonly change: GroupChange;
}

interface AnyGroupDeps {
  readonly programs: Programs;
  readonly turns: Turns;
  readonly reporting: GroupReporting;
}

/** A million files over a network. A change that is given up begins anew, and finds what it has done already in order. */
const walkMsMax = 20 * 60_000;

/** `applyGroup`, wherever the volume is. */
export async function applyAnyGroup(
  request: GroupRequest,
  { programs, turns, reporting }: AnyGroupDeps,
  signal: AbortSignal,
): Promise<void> {
  const { directory, change } = request;
  if (isForeign(directory)) {
    const script = new URL('./group-program.js', import.meta.url);
    await doneElsewhere(programs, { path: directory, script, request, timeoutMs: walkMsMax }, signal);
  } else await applyGroup(turns, directory, change, reporting, signal);
}
