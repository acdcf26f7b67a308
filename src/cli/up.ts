/** `mountlet up`: API server and node in the foreground, until a signal ends them. */
import { accessSync, constants } from 'node:fs';
import { delimiter, join, resolve } from 'node:path';
import { chosenLoops, serverLine } from '../agent/embedded/embedded-api-server.ts';
import { type RunningMachine, startUp } from '../agent/embedded/up.ts';
import type { AppliedObject } from '../agent/embedded/apply-manifests.ts';
import { readSources } from '../agent/machine/manifests-folder-reader.ts';
import type { LogLevel, LogLine } from '../agent/node/notices.ts';
import { systemClock } from '../base/clock.ts';
import { OperatingError } from '../base/errors.ts';
import { runTask } from '../base/run-task.ts';
import { printApplied } from './apply.ts';
import { settingsOf, stopAtSignal, tellStopped } from './agent.ts';
import { logPrinter, notePrinter, noticePrinter, statePrinter } from './log-printer.ts';
import {
  type LoopOptions,
  type SandboxOptions,
  defaultStateDirectory,
  parseListen,
  secretDirectories,
} from './options.ts';
import { type LogFormat, openStandardInput, reportingErrors } from './terminal.ts';
import { type GuideSettings, showFirstPod } from './up-guide.ts';

export interface UpOptions extends SandboxOptions, LoopOptions {
  readonly state?: string;
  readonly listen: string;
  readonly nodeName?: string;
  readonly manifests?: string;
  readonly config?: string;
  readonly apply?: readonly string[];
  readonly csiController?: readonly string[];
  readonly drain?: boolean;
  readonly subpathUpdates?: boolean;
  readonly logFormat: LogFormat;
  readonly logLevel: LogLevel;
}

/**
 * Reached by the API server of this machine alone, so any free port of loopback will do. That server has no other node, so a high request rate
 * slows down no other client.
 */
const nodeDefaults = { address: '127.0.0.1', port: 0, nodeIP: '127.0.0.1', kubeAPIQPS: 1_000, kubeAPIBurst: 1_000 };

export function upCommand(paths: readonly string[], options: UpOptions): Promise<number> {
  return reportingErrors(async () => {
    const stateDirectory = resolve(options.state ?? defaultStateDirectory());
    const print = logPrinter(options.logFormat, options.logLevel);
    const notify = noticePrinter(print);
    const note = notePrinter(options.logFormat, print);
    const say = (text: string): void => void (options.logFormat === 'text' && process.stdout.write(text));
    const stop = new AbortController();
    const files = await readSources(paths, () => openStandardInput(stop.signal));
    const tell = statePrinter(options.logFormat);
    const stopped = stopAtSignal(stop, options.drain, tell);
    const settings = settingsOf(options, { rootDirectory: join(stateDirectory, 'node') }, nodeDefaults, note);
    if (settings.serving.certificate !== undefined || settings.serving.clientAuthorityFile !== undefined)
      note(
        'tlsCertFile and authentication.x509.clientCAFile have no effect: the API server of this machine issues certificates',
      );
    const listen = parseListen(options.listen);
    const machine = await startUp(
      {
        stateDirectory,
        ...listen,
        node: settings,
        loops: chosenLoops(options),
        csiControllers: options.csiController ?? [],
        kubeletInsecure: options.kubeletInsecure === true,
        disablesForceDetachOnTimeout: options.disableForceDetachOnTimeout === true,
      },
      {
        runtimeDirectory: process.env['XDG_RUNTIME_DIR'],
        uid: process.geteuid?.() ?? 0,
        environment: process.env,
        drains: options.drain ?? false,
        hidden: secretDirectories(),
        notify,
        notifyServer(notice) {
          if (notice.kind !== 'RequestServed') print(serverLine(notice));
        },
      },
      stop.signal,
    );
    try {
      if (options.logFormat === 'json') {
        tell('ServerReady', `API server is ready at ${machine.url}; kubeconfig ${machine.kubeconfig}`);
      }
      say(greet(machine, stateDirectory));
      if (settings.runtime === 'cri' && /^(127\.|::1$|localhost$)/.test(listen.host)) {
        note(
          `pods in a container runtime cannot reach the API server at ${listen.host}: if they have to, give --listen an address of this machine`,
        );
      }
      const guide = guideSettings(stateDirectory);
      const program = guide.hasKubectl ? 'kubectl' : 'npx mountlet';
      if (files.length === 0) say(`  add pods     ${program} apply --kubeconfig ${machine.kubeconfig} -f app.yaml\n`);
      else await applyFiles(machine.apply(files, stop.signal), say, print);
      const show = (ended: AbortSignal): Promise<void> => showFirstPod(machine, guide, say, ended);
      const showing = runTask('the guide', show, { clock: systemClock, notify }, stop.signal);
      await Promise.race([machine.node.ended, stopped]);
      stop.abort();
      await showing;
    } finally {
      stop.abort();
      await Promise.allSettled([machine.node.ended]);
      await machine.close();
      await machine.node.ended;
      tellStopped(tell, options.drain);
    }
  }, options.logFormat);
}

/** Whoever starts it may have made a mistake in one file of many: what is right runs, and the rest is named. */
async function applyFiles(
  objects: AsyncIterable<AppliedObject>,
  say: (text: string) => void,
  print: (line: LogLine) => void,
): Promise<void> {
  const { applied, problems } = await printApplied(objects, say);
  if (applied === 0) throw new OperatingError('ManifestUnusable', problems.join('\n'));
  for (const message of problems) print({ level: 'error', kind: 'ManifestRefused', message });
}

function greet({ url, kubeconfig }: RunningMachine, stateDirectory: string): string {
  return (
    `API server is ready at ${url}\n` +
    `  kubeconfig   ${kubeconfig}\n` +
    `  volumes      ${join(stateDirectory, 'node', 'pods')}/<pod uid>/volumes\n`
  );
}

function guideSettings(stateDirectory: string): GuideSettings {
  return {
    volumesOf: (podUid) => join(stateDirectory, 'node', 'pods', podUid, 'volumes'),
    hasKubectl: (process.env['PATH'] ?? '')
      .split(delimiter)
      .some((directory) => isExecutable(join(directory, 'kubectl'))),
  };
}

/** Looked for and not run: a kubectl may ask the server of $KUBECONFIG, which is this process. */
function isExecutable(path: string): boolean {
  try {
    accessSync(path, constants.X_OK);
    return true;
  } catch {
    return false;
  }
}
