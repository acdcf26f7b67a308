/** The program: arguments in, exit code out. Each command loads what it needs when it is called, so that help is instant. */
import { Command, CommanderError } from 'commander';
import { addAgentCommands } from './agent-command.ts';
import { addApiServerCommand } from './apiserver-command.ts';
import { exitCode } from './exit-code.ts';
import { endBecauseOf, handleFailures } from './failures.ts';
import { addObjectCommands } from './object-commands.ts';
import { addRenderCommand } from './render-command.ts';
import { addUpCommand } from './up-command.ts';
import { version } from './version.ts';

const program = new Command('mountlet')
  .description('Kubernetes configuration on disk, as the kubelet would put it there')
  .version(version, '-V, --version', 'print the version')
  .helpOption('-h, --help', 'print this help')
  .helpCommand('help [command]', 'print the help of a command')
  .showSuggestionAfterError()
  .configureOutput({ outputError: (text, write) => write(text) })
  .exitOverride();

addUpCommand(program);
addAgentCommands(program);
addRenderCommand(program);
addApiServerCommand(program);
addObjectCommands(program);

handleFailures();
try {
  if (process.argv.length <= 2) program.outputHelp();
  else await program.parseAsync();
} catch (error) {
  if (!(error instanceof CommanderError)) endBecauseOf(error);
  process.exitCode = error.exitCode === 0 ? exitCode.done : exitCode.wrongUsage;
}
