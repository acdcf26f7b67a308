/** Pods of the process runtime that listen and ask, for tests of their network. */
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { connect } from 'node:net';
import { dirname, join } from 'node:path';
import { text } from 'node:stream/consumers';
import { systemClock } from '../../base/clock.ts';
import { networkNames } from '../../runtimes/process/network/subnet.ts';
import type { ProcessRuntimeSettings } from '../../runtimes/process/process-runtime.ts';
import type { PodRequest } from '../../runtimes/runtime.ts';
import { ProcessSandboxes } from './process-sandboxes.ts';

export const port = 8080;

export async function openWithNode(
  t: { after(act: () => Promise<void>): void },
  settings: Partial<ProcessRuntimeSettings> = {},
): Promise<ProcessSandboxes> {
  // Scripts in pods are run by this Node, wherever it is.
  return await ProcessSandboxes.open(t, { hostPaths: [dirname(process.execPath)], ...settings });
}

export async function addressOf(sandboxes: ProcessSandboxes, pod: string): Promise<string> {
  const [address = ''] = (await sandboxes.runtime.get(pod))?.ips ?? [];
  return address;
}

export const script = (source: string): string[] => [process.execPath, '-e', source];
export const answering = (word: string, where = '0.0.0.0', at = port): string[] =>
  script(
    `require('net').createServer((s) => s.end('${word} to ' + s.remoteAddress)).listen(${at}, '${where}', () => console.log('listens'))`,
  );
/** For what nobody answers; what somebody does may take long on a busy machine. */
export const briefMs = 700;
export const asking = (host: string, at: number, from = '', patienceMs = 30_000): string[] =>
  script(
    `const s = require('net').connect({ host: '${host}', port: ${at}, timeout: ${patienceMs}, localAddress: '${from}' || undefined });
     s.on('data', (d) => console.log(String(d))); s.on('error', (e) => console.log(e.code)); s.on('timeout', () => { console.log('nothing'); s.destroy() })`,
  );

/** A pod whose only container listens. */
export async function server(
  sandboxes: ProcessSandboxes,
  uid: string,
  request: Partial<PodRequest> = {},
  where = '0.0.0.0',
): Promise<string> {
  await sandboxes.pod({ uid, ...request });
  const id = await sandboxes.start(uid, { command: answering(uid, where) });
  while (!(await sandboxes.output(uid, id)).includes('listens')) await systemClock.sleep(5);
  return await addressOf(sandboxes, uid);
}

export async function ask(host: string, at: number): Promise<string> {
  return await text(connect({ host, port: at, timeout: 2_000 }));
}

/** Everything of ours on the machine. */
export function traces(directory: string): string[] {
  const { bridge, table, endPrefix } = networkNames(join(directory, 'state'));
  const interfaces = readFileSync('/proc/net/dev', 'utf8').split('\n');
  const { stdout } = spawnSync('nft', ['list', 'tables'], { encoding: 'utf8' });
  return [
    ...interfaces
      .map((line) => line.trim().split(':')[0] ?? '')
      .filter((name) => name === bridge || name.startsWith(endPrefix)),
    ...stdout.split('\n').filter((line) => line.includes(table)),
  ];
}

export async function untilNothing(directory: string): Promise<void> {
  for (
    const until = Date.now() + 120_000;
    Date.now() < until && traces(directory).length > 0;
    await systemClock.sleep(20)
  );
  assert.deepEqual(traces(directory), []);
}
