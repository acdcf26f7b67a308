import { ignoreOutputErrors } from './failures.ts';

/** For servers. Resolves at the first SIGINT or SIGTERM. A second one ends the process at once: whoever presses Ctrl-C twice means it. */
export function untilSignal(): Promise<NodeJS.Signals> {
  ignoreOutputErrors();
  return new Promise((resolve) => {
    const stop = (signal: NodeJS.Signals): void => {
      process.off('SIGINT', stop).off('SIGTERM', stop);
      resolve(signal);
    };
    process.on('SIGINT', stop).on('SIGTERM', stop);
  });
}
