/** The command line of a container: `$(NAME)` replaced with the final environment, unknown names left as they are. */
import type { Container, EphemeralContainer } from '../kube/kinds/pod/container.ts';
import { type Defect, ExpansionBudget, type Variable, expandVariables, lookUpIn } from './variables.ts';

interface Argument {
  readonly value: string;
  /** Bytes of a Secret went into it: print `written` instead. */
  readonly secret: boolean;
  /** As the pod has it, before the expansion. */
  readonly written: string;
  readonly defect?: Defect;
}

export interface CommandLine {
  /** Empty: the image's entry point. */
  readonly command: readonly Argument[];
  /** Empty: the image's arguments, unless a command is given. */
  readonly args: readonly Argument[];
}

export function expandCommand(
  { name: containerName, command = [], args = [] }: Container | EphemeralContainer,
  environment: readonly Variable[],
): CommandLine {
  const lookUp = lookUpIn(environment);
  const budget = new ExpansionBudget(containerName);
  const expandArgument = (written: string): Argument => {
    const { sources: _sources, ...expanded } = expandVariables(written, lookUp, budget);
    return { ...expanded, written };
  };
  return { command: command.map(expandArgument), args: args.map(expandArgument) };
}
