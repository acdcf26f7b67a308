/**
 * What the atomic writer costs above the system calls that any correct swap needs: mkdir; open, write, fchmod, close for
 * each file; symlink; rename; unlink for each old file; rmdir. The same calls bare in Node and in C are the measure.
 * Rounds of all contestants alternate, so that noise of the machine meets them alike; ratios are of medians in one run.
 */
import { execFileSync } from 'node:child_process';
import {
  closeSync,
  constants,
  existsSync,
  fchmodSync,
  mkdirSync,
  mkdtempSync,
  openSync,
  renameSync,
  rmSync,
  rmdirSync,
  symlinkSync,
  unlinkSync,
  writeSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { AtomicWriter } from '../src/disk/writer/atomic-writer.ts';
import type { Payload } from '../src/disk/writer/payload.ts';

/** Fewer rounds where one takes longer; some seconds in all for each line. */
const roundsOf: Readonly<Record<number, number>> = { 1: 1000, 10: 500, 100: 60 };
const warmUp = 200;
const batches = 10;
const fileSystems = [
  { name: 'tmpfs', under: '/dev/shm' },
  { name: 'disk', under: tmpdir() },
];
const asNodesDo = { keepReplaced: true };
const data = (round: number): Uint8Array => Buffer.alloc(1024, 97 + (round % 26));
const nameOf = (index: number): string => `file-${index}.conf`;

function payloadOf(files: number, round: number, changed = files): Payload {
  return new Map(
    Array.from({ length: files }, (_, index) => [
      nameOf(index),
      { data: data(index >= files - changed ? round : 0), mode: 0o644 },
    ]),
  );
}

function bareWriter(directory: string, files: number): (payload: Payload) => void {
  const names = Array.from({ length: files }, (_, index) => nameOf(index));
  let old: string | undefined;
  let count = 0;
  return (payload) => {
    count += 1;
    const target = `..2026_08_20_18_59_46.${count}`;
    const path = `${directory}/${target}`;
    mkdirSync(path, 0o755);
    for (const [name, { data: bytes }] of payload) {
      const file = openSync(`${path}/${name}`, constants.O_WRONLY | constants.O_CREAT | constants.O_EXCL, 0o600);
      writeSync(file, bytes);
      fchmodSync(file, 0o644);
      closeSync(file);
    }
    symlinkSync(target, `${directory}/..data_tmp`);
    renameSync(`${directory}/..data_tmp`, `${directory}/..data`);
    if (old !== undefined) {
      for (const name of names) unlinkSync(`${old}/${name}`);
      rmdirSync(old);
    }
    old = path;
  };
}

const median = (values: readonly number[]): number => values.toSorted((a, b) => a - b)[values.length >> 1] ?? NaN;

function timed(work: () => void): number {
  const start = process.hrtime.bigint();
  work();
  return Number(process.hrtime.bigint() - start) / 1000;
}

/** The compiled writer.c, or undefined without a compiler. */
function compiledIn(directory: string): string | undefined {
  const source = join(dirname(fileURLToPath(import.meta.url)), '..', '..', 'bench', 'writer.c');
  const program = join(directory, 'writer');
  try {
    execFileSync('cc', ['-O2', '-o', program, source], { stdio: ['ignore', 'ignore', 'inherit'] });
    return program;
  } catch {
    return undefined;
  }
}

interface Row {
  readonly fileSystem: string;
  readonly files: number;
  readonly us: Readonly<Record<'C' | 'bare' | 'changed' | 'oneChanged' | 'unchanged', number>>;
}

function measure(base: string, fileSystem: string, files: number, program: string | undefined): Row {
  const directory = (name: string): string => {
    const path = join(base, `${files}-${name}`);
    mkdirSync(path);
    return path;
  };
  const runs: Record<'C' | 'bare' | 'changed' | 'oneChanged' | 'unchanged', number[]> = {
    C: [],
    bare: [],
    changed: [],
    oneChanged: [],
    unchanged: [],
  };
  const bare = bareWriter(directory('bare'), files);
  const changing = new AtomicWriter(directory('changed'));
  const changingOne = new AtomicWriter(directory('one-changed'));
  const same = new AtomicWriter(directory('unchanged'));
  let round = 0;
  const play = (count: number, keep: boolean): void => {
    for (let i = 0; i < count; i += 1) {
      round += 1;
      const payload = payloadOf(files, round);
      const lastChanged = payloadOf(files, round, 1);
      const unchanged = payloadOf(files, 0);
      const times = {
        bare: timed(() => bare(payload)),
        changed: timed(() => changing.write(payload, asNodesDo)),
        oneChanged: timed(() => changingOne.write(lastChanged, asNodesDo)),
        unchanged: timed(() => same.write(unchanged, asNodesDo)),
      };
      if (!keep) continue;
      for (const key of ['bare', 'changed', 'oneChanged', 'unchanged'] as const) runs[key].push(times[key]);
    }
  };
  const rounds = roundsOf[files] ?? 100;
  play(Math.min(warmUp, rounds), false);
  for (let batch = 0; batch < batches; batch += 1) {
    if (program !== undefined) {
      const inC = directory(`c-${batch}`);
      const printed = execFileSync(program, [inC, String(files), String(rounds / batches + 20)], { encoding: 'utf8' });
      runs.C.push(
        ...printed
          .trim()
          .split('\n')
          .slice(20)
          .map((ns) => Number(ns) / 1000),
      );
    }
    play(rounds / batches, true);
  }
  const { C, bare: bareUs, changed, oneChanged, unchanged } = runs;
  return {
    fileSystem,
    files,
    us: {
      C: median(C),
      bare: median(bareUs),
      changed: median(changed),
      oneChanged: median(oneChanged),
      unchanged: median(unchanged),
    },
  };
}

const heads = [
  'FILE SYSTEM',
  'FILES',
  'C',
  'BARE',
  'CHANGED',
  'ONE CHANGED',
  'UNCHANGED',
  'CHANGED/BARE',
  'CHANGED/C',
  'UNCHANGED/CHANGED',
];

function print(cells: readonly string[]): void {
  process.stdout.write(
    `${cells
      .map((cell, index) => cell.padEnd(Math.max(heads[index]?.length ?? 0, 7)))
      .join('   ')
      .trimEnd()}\n`,
  );
}

process.stdout.write(`Median microseconds of an update of 1 KiB files, node ${process.version}\n`);
print(heads);
for (const { name, under } of fileSystems) {
  if (!existsSync(under)) {
    process.stdout.write(`${name}: ${under} is missing here, not measured\n`);
    continue;
  }
  const base = mkdtempSync(join(under, 'mountlet-bench-'));
  try {
    const program = compiledIn(base);
    if (program === undefined) process.stdout.write('no C compiler (cc) here: the column C stays empty\n');
    for (const files of [1, 10, 100]) {
      const { us } = measure(base, name, files, program);
      print([
        name,
        String(files),
        ...[us.C, us.bare, us.changed, us.oneChanged, us.unchanged].map((value) => value.toFixed(1)),
        ...[us.changed / us.bare, us.changed / us.C, us.unchanged / us.changed].map((ratio) => ratio.toFixed(2)),
      ]);
    }
  } finally {
    rmSync(base, { recursive: true, force: true });
  }
}
