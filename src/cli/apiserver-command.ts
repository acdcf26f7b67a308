/** How `mountlet apiserver` is called. What it does is loaded when it is. */
import type { Command } from 'commander';
import type { ApiServerOptions } from './apiserver.ts';
import { notEmpty } from './arguments.ts';

export function addApiServerCommand(program: Command): void {
  const apiserver = program
    .command('apiserver')
    .summary('run a Kubernetes-compatible API server on this machine')
    .description(
      'Serves ConfigMaps, Secrets, pods and the other objects a node needs to kubectl and every Kubernetes client, with no ' +
        "cluster behind it. Writes the admin's kubeconfig into its data directory, prints one line when it is ready, and runs " +
        'until it is told to stop (SIGTERM, Ctrl-C).',
    )
    .requiredOption('--data <dir>', 'where to keep the objects, keys and the kubeconfig', notEmpty)
    .option('--listen <host:port>', 'where to listen; port 0 takes any free one', '127.0.0.1:6443')
    .option('--verbose', 'print each request')
    .addHelpText(
      'after',
      '\nExample:\n  mountlet apiserver --data ./data &\n  kubectl --kubeconfig ./data/kubeconfig create configmap web --from-literal=a=b',
    )
    .exitOverride()
    .action(async (options: ApiServerOptions) => {
      const { apiServerCommand } = await import('./apiserver.ts');
      process.exitCode = await apiServerCommand(options);
    });

  apiserver
    .command('backup <file>')
    .summary('copy all objects into a file, also while a server runs on them')
    .description(
      'Copies all objects into a file, also while a server runs on them. Secrets are encrypted in it; the keys are in pki/ of ' +
        'the data directory and not in the copy. Keep a copy of that directory too, in another place.',
    )
    .exitOverride()
    .action(async (file: string) => {
      const { backupCommand } = await import('./apiserver.ts');
      process.exitCode = await backupCommand(file, apiserver.opts<ApiServerOptions>());
    });

  apiserver
    .command('restore <file>')
    .summary('make a data directory of a backup')
    .description(
      'Makes a data directory of a backup. Copy pki/ of the old data directory into it before you start a server there: ' +
        'without it Secrets cannot be read. Clients of the old server list again.',
    )
    .exitOverride()
    .action(async (file: string) => {
      const { restoreCommand } = await import('./apiserver.ts');
      process.exitCode = await restoreCommand(file, apiserver.opts<ApiServerOptions>());
    });

  apiserver
    .command('rotate-keys')
    .summary('encrypt Secrets with a new key and forget the old ones; stop the server first')
    .exitOverride()
    .action(async () => {
      const { rotateKeysCommand } = await import('./apiserver.ts');
      process.exitCode = await rotateKeysCommand(apiserver.opts<ApiServerOptions>());
    });
}
