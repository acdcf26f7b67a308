/** `mountlet doctor`: what this machine can and cannot do, and what that means. */
import { diagnose } from '../agent/doctor.ts';
import { exitCode } from './exit-code.ts';
import { showJson } from './rendered-list.ts';
import { showText } from './show-text.ts';
import { colorsFor, telling } from './talk.ts';

export interface DoctorOptions {
  readonly output?: 'json';
}

/** Fails where no pod can run, so that scripts can ask. */
export function doctorCommand({ output }: DoctorOptions): Promise<number> {
  return telling(async () => {
    const diagnosis = await diagnose();
    const { findings, limitations, isUsable } = diagnosis;
    const done = isUsable ? exitCode.done : exitCode.failed;
    if (output === 'json') {
      process.stdout.write(`${showJson(diagnosis)}\n`);
      return done;
    }
    const colors = colorsFor(process.stdout);
    const width = Math.max(...findings.map(({ name }) => name.length));
    for (const { name, available, consequence } of findings) {
      const mark = available ? colors.green('yes') : colors.yellow('no ');
      process.stdout.write(`${mark}  ${name.padEnd(width)}  ${showText(consequence)}\n`);
    }
    process.stdout.write('\nWhat pods do not have here:\n');
    for (const text of limitations) process.stdout.write(`  - ${text}\n`);
    return done;
  });
}
