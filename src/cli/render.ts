/** `mountlet render`: options in, the rendering printed, an exit code out. */
import { hostname } from 'node:os';
import { join, resolve } from 'node:path';
import { readSources } from '../agent/machine/manifests-folder-reader.ts';
import { type RenderResult, render } from '../agent/render/render.ts';
import { MountletError } from '../base/errors.ts';
import { defaultStateDirectory } from './options.ts';
import { renderedList, showJson, showYaml } from './rendered-list.ts';
import { renderedTree } from './rendered-tree.ts';
import { colorsFor, exitCode, openStandardInput, report } from './terminal.ts';

export interface RenderOptions {
  readonly filename: readonly string[];
  readonly namespace: string;
  readonly pod: readonly string[];
  readonly root?: string;
  readonly clean?: boolean;
  readonly showSecrets?: boolean;
  readonly output: 'tree' | 'json' | 'yaml';
}

export async function renderCommand(options: RenderOptions): Promise<number> {
  const interrupt = new AbortController();
  const stop = (): void => interrupt.abort();
  // Only once there is something to undo: until then SIGINT must end a read from a pipe at once.
  const listen = (): void =>
    void process.off('SIGINT', stop).off('SIGTERM', stop).on('SIGINT', stop).on('SIGTERM', stop);
  try {
    const files = await readSources(options.filename, () => {
      listen();
      return openStandardInput(interrupt.signal);
    });
    listen();
    const result = await render(
      {
        root: resolve(options.root ?? join(defaultStateDirectory(), 'render')),
        files,
        namespace: options.namespace,
        pods: options.pod,
        clean: options.clean ?? false,
        nodeName: hostname().toLowerCase(),
        runtimeDirectory: process.env['XDG_RUNTIME_DIR'],
        uid: process.geteuid?.() ?? 0,
      },
      (note) => report('note', note),
      interrupt.signal,
    );
    print(result, options);
    for (const { namespace, name, messages } of result.failures) {
      for (const message of messages) report('error', `pod ${namespace}/${name}: ${message}`);
    }
    return result.failures.length > 0 ? exitCode.failed : exitCode.done;
  } catch (error) {
    if (interrupt.signal.aborted) return exitCode.interrupted;
    if (!(error instanceof MountletError)) throw error;
    report('error', error.message);
    return exitCode.failed;
  } finally {
    process.off('SIGINT', stop).off('SIGTERM', stop);
  }
}

function print({ pods, owners }: RenderResult, options: RenderOptions): void {
  const shown = { showSecrets: options.showSecrets ?? false };
  switch (options.output) {
    case 'json':
      process.stdout.write(`${showJson(renderedList(pods, shown))}\n`);
      break;
    case 'yaml':
      process.stdout.write(showYaml(renderedList(pods, shown)));
      break;
    case 'tree':
      process.stdout.write(renderedTree(pods, { ...shown, colors: colorsFor(process.stdout), ...owners }));
      break;
  }
}
