/** The program: arguments in, exit code out. Each command loads what it needs when it is called, so that help is instant. */
import { createRequire } from 'node:module';
import { Command, CommanderError } from 'commander';
import {
  addAgentCommands,
  addApiServerCommand,
  addControllersCommand,
  addObjectCommands,
  addRenderCommand,
  addUpCommand,
} from './commands.ts';
import { endBecauseOf, exitCode, handleFailures } from './terminal.ts';

const program = new Command('mountlet')
  .description('Kubernetes configuration on disk, as the kubelet would put it there')
  .version(packageVersion(), '-V, --version', 'print the version')
  .helpOption('-h, --help', 'print this help')
  .helpCommand('help [command]', 'print the help of a command')
  .showSuggestionAfterError()
  .showHelpAfterError('Add --help to see what can be given.')
  // The longest option takes half of a line: what it does is still to be in columns.
  .configureHelp({ minWidthToWrap: 30 })
  .configureOutput({ outputError: (text, write) => write(text) })
  .exitOverride();

addUpCommand(program);
addAgentCommands(program);
addRenderCommand(program);
addApiServerCommand(program);
addControllersCommand(program);
addObjectCommands(program);

handleFailures();
try {
  if (process.argv.length <= 2) program.outputHelp();
  else await program.parseAsync();
} catch (error) {
  if (!(error instanceof CommanderError)) endBecauseOf(error);
  process.exitCode = error.exitCode === 0 ? exitCode.done : exitCode.wrongUsage;
}

/** Read from the package, two directories above both the bundle and the compiled file. */
function packageVersion(): string {
  const require = createRequire(import.meta.url);
  for (const path of ['../../package.json', '../../../package.json']) {
    try {
      const found = require(path) as { name?: string; version?: string };
      if (found.name === 'mountlet' && found.version !== undefined) return found.version;
    } catch {
      // The other place, then.
    }
  }
  return 'unknown';
}
