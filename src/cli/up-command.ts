/** How `mountlet up` is called. What it does is loaded when it is. */
import type { Command } from 'commander';
import { Option } from 'commander';
import { notEmpty, hostFiles, hostPath, subPathUpdates, writableLayer } from './arguments.ts';
import { logLevels } from './node-log-printer.ts';
import type { UpOptions } from './up.ts';

export function addUpCommand(program: Command): void {
  program
    .command('up')
    .summary('run an API server and a node on this machine: kubectl works at once')
    .description(
      'Runs an API server and a node in one process. Pods run as sandboxed processes of this machine, with their volumes and ' +
        'variables as in a cluster; changed ConfigMaps and Secrets reach them within milliseconds. Runs until it is told to ' +
        'stop (SIGTERM, Ctrl-C); pods go on and are adopted by the next start, unless --drain is given.',
    )
    .option(
      '--state <dir>',
      'where everything is kept (default: a directory of your user, or of the system as root)',
      notEmpty,
    )
    .option('--listen <host:port>', 'where the API server listens; port 0 takes any free one', '127.0.0.1:6443')
    .option('--node-name <name>', 'name of the node (default: this host)', notEmpty)
    .option('--manifests <dir>', 'a folder of static pods and their objects', notEmpty)
    .option('--config <file>', 'settings of the node, as for mountlet agent', notEmpty)
    .option('--apply <paths...>', 'manifests to apply at the start: files or directories')
    .option('--drain', 'end all pods when told to stop')
    .addOption(subPathUpdates)
    .addOption(hostFiles)
    .addOption(hostPath)
    .addOption(writableLayer)
    .addOption(
      new Option('--log-format <format>', 'how to print what happens').choices(['text', 'json']).default('text'),
    )
    .addOption(new Option('--log-level <level>', 'the least that is printed').choices(logLevels).default('info'))
    .addHelpText(
      'after',
      '\nExample:\n  mountlet up --apply examples/hello.yaml\n  kubectl --kubeconfig /var/lib/mountlet/kubeconfig get pods',
    )
    .exitOverride()
    .action(async (options: UpOptions) => {
      const { upCommand } = await import('./up.ts');
      process.exitCode = await upCommand(options);
    });
}
