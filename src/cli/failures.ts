/** What becomes of failures that nothing else handles, for all commands. */
import { exitCode } from './exit-code.ts';

/** For every command, before anything else. A server also calls `ignoreOutputErrors`. */
export function handleFailures(): void {
  // Of a rejected promise without an owner too: Node raises both here.
  process.on('uncaughtException', endBecauseOf);
  process.stdout.on('error', (error: NodeJS.ErrnoException) => {
    // Whoever reads our output may have read enough (`| head`): that is no failure of ours.
    if (error.code === 'EPIPE') process.exit(exitCode.done);
    endBecauseOf(error);
  });
  // There is nowhere left to report this.
  process.stderr.on('error', () => {});
}

/** A bug. State in memory cannot be trusted any more; containers are processes of their own, and the next start adopts them. */
export function endBecauseOf(error: unknown): never {
  process.stderr.write(
    `error: unexpected failure\n${error instanceof Error ? (error.stack ?? error.message) : String(error)}\n`,
  );
  process.exit(exitCode.failed);
}

/** Others depend on a server: it goes on when the terminal is gone or the disk behind its output is full. */
export function ignoreOutputErrors(): void {
  process.stdout.removeAllListeners('error').on('error', () => {});
}
