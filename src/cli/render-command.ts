/** How `mountlet render` is called. What it does is loaded when it is. */
import type { Command } from 'commander';
import { InvalidArgumentError, Option } from 'commander';
import { dnsLabelProblems } from '../kube/values/names.ts';
import type { RenderOptions } from './render.ts';
import { notEmpty } from './arguments.ts';

export function addRenderCommand(program: Command): void {
  program
    .command('render')
    .summary('write what the pods of these manifests would see into a directory, once')
    .description(
      'Reads manifests (pods, workloads with a pod template, ConfigMaps, Secrets, Nodes, Services, ServiceAccounts, ' +
        'PersistentVolumes and claims), puts the volumes of every pod on disk in the layout of the kubelet, and prints ' +
        'the files, variables and mounts of each container. A pod that could not start is an error.',
    )
    .requiredOption('-f, --filename <paths...>', 'manifests: files, directories of them, or - for standard input')
    .option('-n, --namespace <name>', 'namespace of objects that name none', namespace, 'default')
    .option('--pod <names...>', 'only these pods (name or namespace/name)', [])
    .option(
      '--root <dir>',
      'where to put the volumes (default: a directory of your user, or of the system as root)',
      notEmpty,
    )
    .option('--clean', 'take the volumes of these pods down again instead')
    .option('--show-secrets', 'print values that come from Secrets instead of ***')
    .addOption(new Option('-o, --output <format>', 'how to print').choices(['tree', 'json', 'yaml']).default('tree'))
    .addHelpText(
      'after',
      '\nExamples:\n  mountlet render -f app.yaml\n  mountlet render -f manifests/ --pod web -o json\n  helm template . | mountlet render -f -',
    )
    .exitOverride()
    .action(async (options: RenderOptions) => {
      const { renderCommand } = await import('./render.ts');
      process.exitCode = await renderCommand(options);
    });
}

function namespace(name: string): string {
  const [problem] = dnsLabelProblems(name);
  if (problem !== undefined) throw new InvalidArgumentError(problem);
  return name;
}
