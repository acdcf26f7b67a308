/** Signals to processes that are named by id and start time, so that no stranger gets one. */
import { kill as send } from 'node:process';
import { errorCode } from '../../base/errors.ts';
import { isAlive, type ProcessName } from './process-table.ts';

/** Who forks faster than this in a row is ended by the limit on processes, or by the next attempt. */
const roundsMax = 50;

/** A process that is gone, or whose id has another by now, needs no signal. */
export function signalProcess(name: ProcessName, signal: NodeJS.Signals): void {
  if (!isAlive(name)) return;
  try {
    send(name.pid, signal);
  } catch (thrown) {
    if (errorCode(thrown) !== 'ESRCH') throw thrown;
  }
}

/** Kills all that are found, and those that were forked between the look and the kill. */
export function killEvery(find: () => readonly ProcessName[]): void {
  const killed = new Set<string>();
  for (let round = 0; round < roundsMax; round += 1) {
    const fresh = find().filter(({ pid, startTicks }) => !killed.has(`${pid} ${startTicks}`));
    if (fresh.length === 0) return;
    for (const name of fresh) {
      signalProcess(name, 'SIGKILL');
      killed.add(`${name.pid} ${name.startTicks}`);
    }
  }
}
