/** How each command is called: its options and help. Its code is loaded when it runs, so that help is instant. */
import { type Command, InvalidArgumentError, Option } from 'commander';
import { dnsLabelProblems } from '../kube/values/names.ts';
import type { AgentOptions, DoctorOptions } from './agent.ts';
import type { ApplyOptions } from './apply.ts';
import type { ApiServerOptions } from './apiserver.ts';
import type { ControllersOptions } from './controllers.ts';
import { logLevels } from './log-printer.ts';
import type { GetOptions } from './object-commands.ts';
import {
  boolean,
  csiController,
  disableForceDetach,
  hostFiles,
  hostPath,
  kubeletInsecure,
  notEmpty,
  runtime,
  runtimeEndpoint,
  subPathUpdates,
  writableLayer,
} from './options.ts';
import type { RenderOptions } from './render.ts';
import type { UpOptions } from './up.ts';

export function addUpCommand(program: Command): void {
  const command = program
    .command('up')
    .argument('[files...]', 'manifests to apply at the start: files, directories of them, or - for standard input')
    .summary('run an API server and a node on this machine: kubectl works at once')
    .description(
      'Runs an API server and a node in one process. Pods run as sandboxed processes of this machine, without images, or with ' +
        '--runtime cri as containers of containerd; volumes and variables are as in a cluster, and changed ConfigMaps and ' +
        'Secrets reach them within milliseconds. Runs until SIGTERM or Ctrl-C; pods keep running and are adopted by the next ' +
        'start, unless --drain is given.',
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
    .option('--apply <paths...>', 'manifests to apply at the start, as FILES');
  withNode(withLoops(command).addOption(csiController))
    .addHelpText(
      'after',
      '\nExample:\n  mountlet up examples/hello.yaml\n  kubectl --kubeconfig /var/lib/mountlet/kubeconfig get pods',
    )
    .exitOverride()
    .action(async (files: string[], options: UpOptions) => {
      const { upCommand } = await import('./up.ts');
      process.exitCode = await upCommand([...files, ...(options.apply ?? [])], options);
    });
}

export function addAgentCommands(program: Command): void {
  const command = program
    .command('agent')
    .summary('run this machine as a node of any Kubernetes cluster, or of none')
    .description(
      'Runs the pods that an API server binds to this node, as sandboxed processes without images, or with --runtime cri as ' +
        'containers of containerd, and keeps their volumes up to date. With --manifests it runs the pods of a folder, and joins ' +
        'a cluster only if --kubeconfig, --context or --in-cluster asks for it. Settings have the names of the kubelet where it ' +
        'has them; those of the command line take precedence over those of --config.',
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
    .option(
      '--config <file>',
      "settings: an AgentConfiguration (mountlet.dev/v1alpha1), or a kubelet's file (kubelet.config.k8s.io/v1beta1)",
      notEmpty,
    )
    .option('--node-name <name>', 'name of the node (default: this host)', notEmpty)
    .option(
      '--root-dir <dir>',
      "where pods' directories go (default: a directory of your user, or of the system as root)",
      notEmpty,
    )
    .option('--node-ip <address>', "the node's address (default: this machine's)", notEmpty)
    .option('--node-labels <labels>', 'labels of the node: a=b,c=d', labels)
    .option(
      '--register-with-taints <taints>',
      "the node's taints at its registration: key=value:Effect,...; an empty text for none (default: " +
        'mountlet.dev/no-images:NoSchedule with the process runtime, which cannot run pods that need their images)',
      taints,
    )
    .option('--manifests <dir>', 'a folder of static pods and their objects (staticPodPath)', notEmpty)
    .option('--sync-frequency <duration>', 'how often everything is looked at though nothing happened (default: 1m0s)')
    .addOption(
      new Option('--change-detection <strategy>', 'configMapAndSecretChangeDetectionStrategy (default: Watch)').choices(
        ['Watch', 'Cache', 'Get'],
      ),
    )
    .option(
      '--image-credential-provider-config <path>',
      'programs that know logins for registries: a CredentialProviderConfig, or a directory of them',
      notEmpty,
    )
    .option('--image-credential-provider-bin-dir <dir>', 'where those programs are', notEmpty)
    .option(
      '--address <ip>',
      "where the node's own server listens (default: 0.0.0.0; without a cluster 127.0.0.1)",
      notEmpty,
    )
    .option('--port <number>', "port of the node's own server (default: 10250)", port)
    .option(
      '--local-path',
      'make volumes for claims of the class local-path that are to be on this node: directories of it. The credentials must allow that',
    );
  withNode(command)
    .exitOverride()
    .action(async (options: AgentOptions) => {
      const { agentCommand } = await import('./agent.ts');
      process.exitCode = await agentCommand(options);
    });

  program
    .command('doctor')
    .summary('say what this machine can and cannot do for pods, and what that means')
    .description('Says what this machine can and cannot do for pods, for the user who asks, and what that means.')
    .addOption(runtimeEndpoint)
    .addOption(new Option('-o, --output <format>', 'how to print').choices(['json']))
    .exitOverride()
    .action(async (options: DoctorOptions) => {
      const { doctorCommand } = await import('./agent.ts');
      process.exitCode = await doctorCommand(options);
    });
}

function labels(text: string): Readonly<Record<string, string>> {
  const pairs = text.split(',').map((pair) => pair.split('='));
  if (pairs.some(({ length }) => length !== 2)) throw new InvalidArgumentError('Write them as a=b,c=d.');
  return Object.fromEntries(pairs as [string, string][]);
}

function taints(text: string): readonly { readonly key: string; readonly value: string; readonly effect: string }[] {
  const found = text.split(',').filter((taint) => taint !== '');
  return found.map((taint) => {
    const [, key, value = '', effect] = /^([^=:]+)(?:=([^:]*))?:(\w+)$/.exec(taint) ?? [];
    if (key === undefined || effect === undefined) throw new InvalidArgumentError('Write them as key=value:Effect.');
    return { key, value, effect };
  });
}

function port(text: string): number {
  if (!/^\d{1,5}$/.test(text)) throw new InvalidArgumentError('It must be a port number.');
  return Number(text);
}

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
    .addOption(new Option('--pod <names...>', 'only these pods (name or namespace/name)').default([], 'all'))
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

export function addApiServerCommand(program: Command): void {
  const apiserver = program
    .command('apiserver')
    .summary('run a Kubernetes-compatible API server on this machine')
    .description(
      'Serves ConfigMaps, Secrets, pods and the other objects a node needs to kubectl and every Kubernetes client, with no ' +
        "cluster behind it. Writes the admin's kubeconfig into its data directory, prints one line when it is ready, and runs " +
        'until SIGTERM or Ctrl-C.',
    )
    .requiredOption('--data <dir>', 'where to keep the objects, keys and the kubeconfig', notEmpty)
    .option('--listen <host:port>', 'where to listen; port 0 takes any free one', '127.0.0.1:6443')
    .option('--verbose', 'print each request');
  withLoops(apiserver)
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
    .usage('<file> --data <dir>')
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
    .usage('<file> --data <dir>')
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
    .usage('--data <dir>')
    .summary('encrypt Secrets with a new key and forget the old ones; stop the server first')
    .description(
      'Encrypts every Secret with a new key and forgets the old ones. Stop the server first. Backups made before need the ' +
        'old keys: keep a copy of pki/encryption.keys with them.',
    )
    .exitOverride()
    .action(async () => {
      const { rotateKeysCommand } = await import('./apiserver.ts');
      process.exitCode = await rotateKeysCommand(apiserver.opts<ApiServerOptions>());
    });
}

export function addControllersCommand(program: Command): void {
  const command = program
    .command('controllers')
    .summary(
      'run the loops of a control plane against any API server: workloads, claims, nodes, namespaces, scheduling, certificates and more',
    )
    .description(
      'Runs what kube-controller-manager and kube-scheduler do, as far as mountlet has it, over HTTP: for an API server whose ' +
        'own are off. Of several such processes one works, which holds the Lease kube-system/mountlet-controllers; the others ' +
        'stand by. A process that loses the lease ends with exit code 1. Runs until SIGTERM or Ctrl-C.',
    )
    .option(
      '--kubeconfig <file>',
      'which cluster (default: $KUBECONFIG, ~/.kube/config, then the cluster this runs in)',
      notEmpty,
    )
    .option('--context <name>', 'which context of the kubeconfig', notEmpty)
    .addOption(
      new Option('--in-cluster', 'the cluster that this runs in as a pod, and no kubeconfig').conflicts([
        'kubeconfig',
        'context',
      ]),
    )
    .addOption(
      boolean(new Option('--leader-elect <boolean>', 'whether one process works while others stand by').default(true)),
    )
    .option(
      '--controllers <list>',
      'which of them: *, NAME and -NAME, or none; * is all but garbage-collector-controller, which watches every kind',
      '*',
    )
    .addOption(csiController)
    .addOption(disableForceDetach);
  withLog(command)
    .addHelpText('after', '\nExample:\n  mountlet controllers --kubeconfig admin.conf --controllers=*,-kube-scheduler')
    .exitOverride()
    .action(async (options: ControllersOptions) => {
      const { controllersCommand } = await import('./controllers.ts');
      process.exitCode = await controllersCommand(options);
    });
}

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
    .summary("print objects of an API server (pods, cm, nodes ...), or the volumes of this machine's node")
    .description(
      'Prints objects as `kubectl get` does, for machines without kubectl. `get volumes` asks the node that runs on this ' +
        'machine instead: how far each volume of its pods is and why, its claim, what it holds, and with -o wide where it is.',
    )
    .option('-A, --all-namespaces', 'of all namespaces')
    .option('-l, --selector <labels>', 'only those with these labels: app=web,tier!=test')
    .addOption(new Option('-o, --output <format>', 'how to print').choices(['wide', 'json', 'yaml', 'name']))
    .option(
      '--root-dir <dir>',
      'get volumes: where the node is, the --state of `up` or the --root-dir of `agent` (default: theirs)',
      notEmpty,
    )
    .addHelpText(
      'after',
      '\nExamples:\n  mountlet get pods\n  mountlet get cm web -o yaml\n  mountlet get volumes -A -o wide',
    )
    .action(async (type: string, names: string[], options: GetOptions) => {
      if (type === 'volumes' || type === 'volume') {
        const { getVolumesCommand } = await import('./get-volumes.ts');
        process.exitCode = await getVolumesCommand(names, options);
        return;
      }
      const { getCommand } = await import('./object-commands.ts');
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

/** The options of commands that run a node. */
function withNode(command: Command): Command {
  command
    .option('--drain', 'end all pods before exiting')
    .addOption(subPathUpdates)
    .addOption(runtime)
    .addOption(runtimeEndpoint)
    .addOption(hostFiles)
    .addOption(hostPath)
    .addOption(writableLayer);
  return withLog(command);
}

/** The loops of commands that run an API server. */
function withLoops(command: Command): Command {
  return command
    .option(
      '--controllers <list>',
      "which loops of kube-controller-manager run: *, NAME and -NAME, or none, to leave the cluster to somebody else's",
      '*',
    )
    .addOption(
      new Option('--scheduler <which>', "who gives pods a node: our scheduler, or none, to leave it to somebody else's")
        .choices(['default', 'none'])
        .default('default'),
    )
    .addOption(disableForceDetach)
    .addOption(kubeletInsecure);
}

function withLog(command: Command): Command {
  return command
    .addOption(
      new Option('--log-format <format>', 'how to print what happens').choices(['text', 'json']).default('text'),
    )
    .addOption(new Option('--log-level <level>', 'the least that is printed').choices(logLevels).default('info'));
}
