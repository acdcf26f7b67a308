/** What commands say beside their data: to standard error, one line for each thing, errors as the user can act on them. */
import { createColors } from 'picocolors';
import { MountletError } from '../base/errors.ts';
import { wantsColor } from './color.ts';
import { exitCode } from './exit-code.ts';
import { showText } from './show-text.ts';

export function colorsFor(stream: { readonly isTTY?: boolean }): ReturnType<typeof createColors> {
  return createColors(wantsColor(process.env, stream.isTTY ?? false));
}

export function tell(kind: 'note' | 'error', text: string): void {
  const colors = colorsFor(process.stderr);
  const word = kind === 'error' ? colors.red('error:') : colors.yellow('note:');
  for (const line of text.split('\n')) process.stderr.write(`${word} ${showText(line)}\n`);
}

/** Runs a command; an error that was foreseen is told, any other is a bug and ends the program with its trace. */
export async function telling(act: () => Promise<number | void>): Promise<number> {
  try {
    return (await act()) ?? exitCode.done;
  } catch (error) {
    if (!(error instanceof MountletError)) throw error;
    tell('error', error.message);
    return exitCode.failed;
  }
}
