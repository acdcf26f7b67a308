/** Programs of system calls that do one thing and end: a socket in another namespace, a trial. They say what came of it in one message. */
import { closeSync, constants, openSync } from 'node:fs';
import { onAbort } from '../base/abort.ts';
import type { Message, Processes } from './processes.ts';
import type { CompiledProgram } from './system-program.ts';

/** Such a program has nothing at 0 to 2, this socket, and after it the descriptors it is given. */
export const statusSocket = 3;
export const firstGiven = 4;
const killSignal = 9;

/** Its first message; an empty one when it ended without, none when that took too long. */
export async function runShortProgram(
  processes: Processes,
  { image }: CompiledProgram,
  given: readonly number[],
  msMax: number,
  signal: AbortSignal,
): Promise<Message | undefined> {
  signal.throwIfAborted();
  const [ours, theirs] = processes.socketPair();
  const nothing = openSync('/dev/null', constants.O_RDWR);
  let pid: number;
  try {
    pid = processes.start(image, [nothing, nothing, nothing, theirs, ...given]);
  } catch (thrown) {
    processes.close(ours);
    throw thrown;
  } finally {
    closeSync(nothing);
    processes.close(theirs);
  }
  const stopListening = onAbort(signal, () => void processes.kill(pid, killSignal));
  try {
    processes.setReceiveTimeout(ours, msMax);
    const message = await processes.receive(ours);
    if (signal.aborted && message?.descriptor !== undefined) processes.close(message.descriptor);
    signal.throwIfAborted();
    return message;
  } finally {
    stopListening();
    processes.kill(pid, killSignal); // nothing more is expected of it
    await processes.ended(pid);
    processes.close(ours);
  }
}
