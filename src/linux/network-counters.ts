/** What the interfaces of a network namespace have sent and received. */
import { readFile } from 'node:fs/promises';

interface InterfaceCounters {
  readonly name: string;
  readonly receivedBytes: number;
  readonly receiveErrors: number;
  readonly sentBytes: number;
  readonly sendErrors: number;
}

/** Of the namespace that a process is in: `self`, or its number. None where it has ended. */
export async function readInterfaceCounters(process: 'self' | number): Promise<readonly InterfaceCounters[]> {
  return interfaceCountersOf(await readFile(`/proc/${process}/net/dev`, 'utf8').catch(() => ''));
}

/** From a text like /proc/net/dev, without the loopback; `eth0` first, which is what leads out where there are several. */
export function interfaceCountersOf(text: string): readonly InterfaceCounters[] {
  const all = text.split('\n').flatMap((line) => {
    const [, name = '', rest = ''] = /^\s*([^:\s]+):(.*)$/.exec(line) ?? [];
    if (name === '' || name === 'lo') return [];
    const [received = 0, , receiveErrors = 0, , , , , , sent = 0, , sendErrors = 0] = rest
      .trim()
      .split(/\s+/)
      .map(Number);
    return [{ name, receivedBytes: received, receiveErrors, sentBytes: sent, sendErrors }];
  });
  return all.toSorted((a, b) => Number(b.name === 'eth0') - Number(a.name === 'eth0'));
}
