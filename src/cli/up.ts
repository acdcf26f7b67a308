/** `mountlet up`: API server and node in the foreground, until told to stop. */
import { join, resolve } from 'node:path';
import { logLine } from '../agent/node/node-log.ts';
import { readSources } from '../agent/sources.ts';
import type { RunningMachine } from '../agent/up.ts';
import { startUp } from '../agent/up.ts';
import { messageOf } from '../base/errors.ts';
import { drainMs, settingsOf } from './agent.ts';
import { defaultStateDirectory } from './default-directories.ts';
import { parseListen } from './listen-address.ts';
import type { LogFormat } from './node-log-printer.ts';
import { logPrinter } from './node-log-printer.ts';
import { openStandardInput } from './standard-input.ts';
import { telling } from './talk.ts';
import { untilSignal } from './until-signal.ts';
import { followFirstPods } from './up-guide.ts';

export interface UpOptions {
  readonly state?: string;
  readonly listen: string;
  readonly nodeName?: string;
  readonly manifests?: string;
  readonly config?: string;
  readonly apply?: readonly string[];
  readonly drain?: boolean;
  readonly subpathUpdates: boolean;
  readonly logFormat: LogFormat;
}

/** Reached by the API server of this machine alone, so any free port of loopback will do. */
const nodeDefaults = { address: '127.0.0.1', port: 0, nodeIP: '127.0.0.1' };

export function upCommand(options: UpOptions): Promise<number> {
  return telling(async () => {
    const stateDirectory = resolve(options.state ?? defaultStateDirectory());
    const print = logPrinter(options.logFormat);
    const stop = new AbortController();
    const files = await readSources(options.apply ?? [], () => openStandardInput(stop.signal));
    const stopped = untilSignal().then(() => stop.abort());
    const machine = await startUp(
      {
        stateDirectory,
        ...parseListen(options.listen),
        node: settingsOf(options, join(stateDirectory, 'node'), nodeDefaults),
      },
      {
        runtimeDirectory: process.env['XDG_RUNTIME_DIR'],
        uid: process.geteuid?.() ?? 0,
        notify(notice) {
          const line = logLine(notice);
          if (line !== undefined) print(line);
        },
        notifyServer(notice) {
          if (notice.kind !== 'RequestServed') {
            print({ level: 'error', message: `API server: ${notice.kind}: ${messageOf(notice.error)}` });
          }
        },
      },
      stop.signal,
    );
    try {
      await greet(machine, stateDirectory, options);
      for await (const { name, outcome } of files.length > 0 ? machine.apply(files, stop.signal) : []) {
        process.stdout.write(`${name} ${outcome}\n`);
      }
      await Promise.all([machine.node.ended, followFirstPods(machine, stop.signal), stopped]);
    } finally {
      stop.abort();
      await machine.node.ended;
      if (options.drain === true) await machine.node.drain(AbortSignal.timeout(drainMs));
      await machine.close();
    }
  });
}

async function greet({ url, kubeconfig }: RunningMachine, stateDirectory: string, options: UpOptions): Promise<void> {
  if (options.logFormat === 'json') return;
  process.stdout.write(
    `API server is ready at ${url}\n` +
      `  kubeconfig   ${kubeconfig}\n` +
      `  volumes      ${join(stateDirectory, 'node', 'pods')}/<pod uid>/volumes\n`,
  );
}
