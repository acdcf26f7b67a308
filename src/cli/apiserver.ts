/** `mountlet apiserver`: runs the API server alone until a signal ends it; or copies and restores its data. */
import { resolve } from 'node:path';
import {
  type EmbeddedApiServer,
  backUpApiServer,
  chosenLoops,
  restoreApiServer,
  rotateApiServerKeys,
  serverLine,
  startEmbeddedApiServer,
} from '../agent/embedded/embedded-api-server.ts';
import { type LoopOptions, parseListen } from './options.ts';
import { report, reportingErrors, untilSignal } from './terminal.ts';

export interface ApiServerOptions extends LoopOptions {
  readonly data: string;
  readonly listen: string;
  readonly verbose?: boolean;
}

export async function apiServerCommand(options: ApiServerOptions): Promise<number> {
  return reportingErrors(async () => {
    const stop = new AbortController();
    const stopped = untilSignal();
    const server: EmbeddedApiServer = await startEmbeddedApiServer(
      {
        directory: resolve(options.data),
        ...parseListen(options.listen),
        loops: chosenLoops(options),
        servicesProblem: () => 'mountlet apiserver has no proxy and no DNS for them, as mountlet up has',
        kubeletInsecure: options.kubeletInsecure === true,
        disablesForceDetachOnTimeout: options.disableForceDetachOnTimeout === true,
      },
      (notice) => {
        if (notice.kind === 'RequestServed') {
          if (options.verbose === true)
            talk(`${notice.method} ${notice.path} ${notice.code} ${notice.tookMs.toFixed(1)}ms ${notice.user}`);
        } else report('error', serverLine(notice).message);
      },
      stop.signal,
    );
    process.stdout.write(
      `API server is ready at ${server.url}; try: kubectl --kubeconfig ${server.kubeconfig} get namespaces\n`,
    );
    await stopped;
    await server.close();
  });
}

export function backupCommand(file: string, { data }: Pick<ApiServerOptions, 'data'>): Promise<number> {
  return reportingErrors(async () => {
    await backUpApiServer(resolve(data), resolve(file));
    talk(
      `copied the objects of ${data} to ${file}; its keys are in ${data}/pki and are not in the copy: keep them too`,
    );
  });
}

export function restoreCommand(file: string, { data }: Pick<ApiServerOptions, 'data'>): Promise<number> {
  return reportingErrors(async () => {
    await restoreApiServer(resolve(file), resolve(data));
    talk(
      `restored ${file} to ${data}; before you start a server there, copy the keys that belong to it to ${data}/pki: ` +
        'without them its Secrets cannot be read, and its tokens and kubeconfigs are void',
    );
  });
}

export function rotateKeysCommand({ data }: Pick<ApiServerOptions, 'data'>): Promise<number> {
  return reportingErrors(async () => {
    const count = await rotateApiServerKeys(resolve(data));
    talk(
      `wrote ${count} ${count === 1 ? 'value' : 'values'} again with a new key; backups made before need the old one`,
    );
  });
}

function talk(text: string): void {
  process.stderr.write(`${text}\n`);
}
