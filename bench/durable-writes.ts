/**
 * Durable writes of a kibibyte by 1 and by 64 clients, each of which waits for its answer before it writes again. Contestants
 * take turns, round by round, so that noise of the machine meets all alike. The clients are this process, of all of them: where
 * cores are few they take part of what is measured. Processor time is that of the server alone, and hardly moves with noise.
 */
import { readFileSync } from 'node:fs';
import { median, writesPerSecond, type Write } from './measuring.ts';

export interface Contestant {
  readonly name: string;
  readonly write: Write;
  /** Of the server, where that is a process of its own. */
  readonly pid?: number;
  /** The others are printed as multiples of it. */
  readonly isMeasure?: boolean;
}

const roundMs = 1_500;
const rounds = 5;
// A server lives for weeks: what counts is how fast it is once its code is compiled, which takes some ten thousand writes.
const warmUpMs = 4_000;
const warmUpClients = 64;

interface Result {
  readonly contestant: Contestant;
  readonly perSecond: number[];
  readonly cpuMicros: number[];
}

export async function measureDurableWrites(
  contestants: readonly Contestant[],
  say: (line: string) => void,
): Promise<void> {
  for (const { write } of contestants) await writesPerSecond(warmUpClients, warmUpMs, write);
  for (const clients of [1, 64]) {
    const results = contestants.map((contestant): Result => ({ contestant, perSecond: [], cpuMicros: [] }));
    for (let round = 0; round < rounds; round += 1) {
      for (const result of results) await runRound(result, clients);
    }
    const measures = results.filter(({ contestant }) => contestant.isMeasure === true);
    for (const result of results) say(line(result, clients, measures));
  }
}

async function runRound({ contestant, perSecond, cpuMicros }: Result, clients: number): Promise<void> {
  const { write, pid } = contestant;
  const before = cpuMicrosOf(pid);
  let count = 0;
  const rate = await writesPerSecond(clients, roundMs, (client, turn) => {
    count += 1;
    return write(client, turn);
  });
  perSecond.push(rate);
  cpuMicros.push((cpuMicrosOf(pid) - before) / count);
}

function line({ contestant, perSecond, cpuMicros }: Result, clients: number, measures: readonly Result[]): string {
  const rate = median(perSecond);
  const cpu = contestant.pid === undefined ? '' : `   ${median(cpuMicros).toFixed(0).padStart(4)} µs of CPU each`;
  const compared = contestant.isMeasure === true ? [] : measures;
  const ratios = compared.map((one) => `   ${(rate / median(one.perSecond)).toFixed(2)} x ${one.contestant.name}`);
  const head = `durable writes, ${String(clients).padStart(2)} clients   ${contestant.name.padEnd(18)}`;
  return `${head} ${rate.toFixed(0).padStart(6)}/s${cpu}${ratios.join('')}`;
}

// Linux counts in hundredths of a second, on every architecture that Node runs on.
const microsPerTick = 10_000;

/** Of all threads, in user and in kernel mode; NaN where there is no such process. */
function cpuMicrosOf(pid: number | undefined): number {
  if (pid === undefined) return NaN;
  const fields = readFileSync(`/proc/${pid}/stat`, 'utf8')
    .replace(/^.*\) /s, '')
    .split(' ');
  return (Number(fields[11]) + Number(fields[12])) * microsPerTick;
}
