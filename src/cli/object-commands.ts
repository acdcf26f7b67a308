/** How `mountlet apply` and `mountlet get` are called. What they do is loaded when they are. */
import type { Command } from 'commander';
import { Option } from 'commander';
import type { ApplyOptions } from './apply.ts';
import { notEmpty } from './arguments.ts';
import type { GetOptions } from './get.ts';

export function addObjectCommands(program: Command): void {
  withCluster(program.command('apply'))
    .summary('create or update the objects of these manifests on an API server')
    .description('Server-side apply, as `kubectl apply --server-side --force-conflicts`, for machines without kubectl.')
    .requiredOption('-f, --filename <paths...>', 'manifests: files, directories of them, or - for standard input')
    .action(async (options: ApplyOptions) => {
      const { applyCommand } = await import('./apply.ts');
      process.exitCode = await applyCommand(options);
    });

  withCluster(program.command('get <type> [names...]'))
    .summary('print objects of an API server: pods, configmaps, cm, nodes ...')
    .option('-A, --all-namespaces', 'of all namespaces')
    .option('-l, --selector <labels>', 'only those with these labels: app=web,tier!=test')
    .addOption(new Option('-o, --output <format>', 'how to print').choices(['wide', 'json', 'yaml', 'name']))
    .addHelpText('after', '\nExamples:\n  mountlet get pods\n  mountlet get cm web -o yaml')
    .action(async (type: string, names: string[], options: GetOptions) => {
      const { getCommand } = await import('./get.ts');
      process.exitCode = await getCommand(type, names, options);
    });
}

function withCluster(command: Command): Command {
  return command
    .option('-n, --namespace <name>', "namespace of objects that name none (default: the kubeconfig's)", notEmpty)
    .option(
      '--kubeconfig <file>',
      'which cluster (default: $KUBECONFIG, ~/.kube/config, then mountlet up on this machine)',
      notEmpty,
    )
    .option('--context <name>', 'which context of the kubeconfig', notEmpty)
    .exitOverride();
}
