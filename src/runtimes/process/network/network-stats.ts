/** What the interfaces of a pod have carried, as the kernel counts it for the namespace of one of its processes. */
import { readFileSync } from 'node:fs';
import type { NetworkStats } from '../../runtime.ts';

/** Undefined for a process that has ended. */
export function networkStats(pid: number, atMs: number): NetworkStats | undefined {
  try {
    return { atMs, interfaces: interfacesIn(readFileSync(`/proc/${pid}/net/dev`, 'utf8')) };
  } catch {
    return undefined;
  }
}

/** Two lines of heads, then `name: received bytes, packets, errors … 8 numbers, sent bytes, packets, errors …`. */
export function interfacesIn(table: string): NetworkStats['interfaces'] {
  return table.split('\n').flatMap((line) => {
    const [, name, numbers = ''] = /^\s*([^\s:]+):\s*(.*)$/.exec(line) ?? [];
    if (name === undefined || name === 'lo') return [];
    const [receivedBytes = 0, , receiveErrors = 0, , , , , , sentBytes = 0, , sendErrors = 0] = numbers
      .split(/\s+/)
      .map(Number);
    return [{ name, receivedBytes, receiveErrors, sentBytes, sendErrors }];
  });
}
