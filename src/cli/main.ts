/** The program: arguments in, exit code out. Each command loads what it needs when it is called, so that help is instant. */
import { Command, CommanderError, InvalidArgumentError, Option } from 'commander';
import { dnsLabelProblems } from '../kube/names.ts';
import { exitCode } from './exit-code.ts';
import type { RenderOptions } from './render.ts';
import { version } from './version.ts';

const program = new Command('mountlet')
  .description('Kubernetes configuration on disk, as the kubelet would put it there')
  .version(version, '-V, --version', 'print the version')
  .helpOption('-h, --help', 'print this help')
  .helpCommand('help [command]', 'print the help of a command')
  .showSuggestionAfterError()
  .configureOutput({ outputError: (text, write) => write(text) })
  .exitOverride();

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

function namespace(name: string): string {
  const [problem] = dnsLabelProblems(name);
  if (problem !== undefined) throw new InvalidArgumentError(problem);
  return name;
}

/** A script whose variable is not set gives an empty text, which would mean the current directory. */
function notEmpty(path: string): string {
  if (path === '') throw new InvalidArgumentError('It is empty.');
  return path;
}

// Whoever reads our output may have read enough (`| head`): that is no failure of ours.
process.stdout.on('error', (error: NodeJS.ErrnoException) => {
  if (error.code !== 'EPIPE') throw error;
  process.exit(exitCode.done);
});

try {
  if (process.argv.length <= 2) program.outputHelp();
  else await program.parseAsync();
} catch (error) {
  if (!(error instanceof CommanderError)) throw error;
  process.exitCode = error.exitCode === 0 ? exitCode.done : exitCode.wrongUsage;
}
