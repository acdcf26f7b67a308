/** What node warns of while a test runs: listeners that look like a leak, above all. */
import { settle } from './settle.ts';

export async function warningsOf(act: () => Promise<unknown>): Promise<readonly string[]> {
  const warnings: string[] = [];
  const listen = ({ message }: Error): void => void warnings.push(message);
  process.on('warning', listen);
  try {
    await act();
    await settle();
    return warnings;
  } finally {
    process.off('warning', listen);
  }
}
