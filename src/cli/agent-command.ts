/** How `mountlet agent` and `mountlet doctor` are called. What they do is loaded when they are. */
import type { Command } from 'commander';
import { InvalidArgumentError, Option } from 'commander';
import type { AgentOptions } from './agent.ts';
import { logLevels } from './node-log-printer.ts';
import { notEmpty, hostFiles, hostPath, subPathUpdates, writableLayer } from './arguments.ts';
import type { DoctorOptions } from './doctor.ts';

export function addAgentCommands(program: Command): void {
  program
    .command('agent')
    .summary('run this machine as a node of any Kubernetes cluster, or of none')
    .description(
      'Runs the pods that an API server binds to this node, as sandboxed processes, and keeps their volumes up to date. With ' +
        '--manifests those of a folder, and an API server only if --kubeconfig, --context or --in-cluster asks for it. Settings have the names of the kubelet where it ' +
        'has them; on the command line they go before those of --config.',
    )
    .option(
      '--kubeconfig <file>',
      'which cluster (default: $KUBECONFIG, ~/.kube/config, then the cluster this runs in; with --manifests none)',
      notEmpty,
    )
    .addOption(
      new Option('--in-cluster', 'the cluster that this runs in as a pod, and no kubeconfig').conflicts([
        'kubeconfig',
        'context',
      ]),
    )
    .option('--context <name>', 'which context of the kubeconfig', notEmpty)
    .option('--config <file>', 'settings: apiVersion mountlet.dev/v1alpha1, kind AgentConfiguration', notEmpty)
    .option('--node-name <name>', 'name of the node (default: this host)', notEmpty)
    .option(
      '--root-dir <dir>',
      "where pods' directories go (default: a directory of your user, or of the system as root)",
      notEmpty,
    )
    .option('--node-ip <address>', "the node's address (default: this machine's)", notEmpty)
    .option('--node-labels <labels>', 'labels of the node: a=b,c=d', labels)
    .option('--manifests <dir>', 'a folder of static pods and their objects (staticPodPath)', notEmpty)
    .option('--sync-frequency <duration>', 'how often everything is looked at though nothing happened (default: 1m0s)')
    .addOption(
      new Option('--change-detection <strategy>', 'configMapAndSecretChangeDetectionStrategy (default: Watch)').choices(
        ['Watch', 'Cache', 'Get'],
      ),
    )
    .addOption(
      new Option('--watch-scope <scope>', 'what one watch is about (default: auto)').choices([
        'auto',
        'object',
        'namespace',
      ]),
    )
    .option('--address <ip>', "where the node's own server listens (default: 0.0.0.0)", notEmpty)
    .option('--port <number>', "port of the node's own server (default: 10250)", port)
    .option('--drain', 'end all pods when told to stop')
    .addOption(subPathUpdates)
    .addOption(hostFiles)
    .addOption(hostPath)
    .addOption(writableLayer)
    .addOption(
      new Option('--log-format <format>', 'how to print what happens').choices(['text', 'json']).default('text'),
    )
    .addOption(new Option('--log-level <level>', 'the least that is printed').choices(logLevels).default('info'))
    .exitOverride()
    .action(async (options: AgentOptions) => {
      const { agentCommand } = await import('./agent.ts');
      process.exitCode = await agentCommand(options);
    });

  program
    .command('doctor')
    .summary('say what this machine can and cannot do for pods, and what that means')
    .addOption(new Option('-o, --output <format>', 'how to print').choices(['json']))
    .exitOverride()
    .action(async (options: DoctorOptions) => {
      const { doctorCommand } = await import('./doctor.ts');
      process.exitCode = await doctorCommand(options);
    });
}

function labels(text: string): Readonly<Record<string, string>> {
  const pairs = text.split(',').map((pair) => pair.split('='));
  if (pairs.some(({ length }) => length !== 2)) throw new InvalidArgumentError('Write them as a=b,c=d.');
  return Object.fromEntries(pairs as [string, string][]);
}

function port(text: string): number {
  if (!/^\d{1,5}$/.test(text)) throw new InvalidArgumentError('It is no port.');
  return Number(text);
}
