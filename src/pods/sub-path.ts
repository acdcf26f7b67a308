/** Which part of a volume a mount asks for: `subPath`, or `subPathExpr` with the container's variables in it. */
import type { VolumeMount } from '../kube/kinds/pod/container.ts';
import { MissingVariablesError } from '../kube/references/environment.ts';
import { ContainerConfigError } from './container-config-error.ts';
import { type ExpansionBudget, type LookUp, expandPathVariables } from './variables.ts';

export interface ResolvedSubPath {
  /** Relative to the volume, without `..`; undefined for the volume itself. */
  readonly path: string | undefined;
  /** It was expanded from a variable that holds a Secret. */
  readonly secret: boolean;
}

export function resolveSubPath(mount: VolumeMount, lookUp: LookUp, budget: ExpansionBudget): ResolvedSubPath {
  const { subPath = '', subPathExpr = '' } = mount;
  const { value, secret } =
    subPathExpr === '' ? { value: subPath, secret: false } : expandExpression(subPathExpr, lookUp, budget);
  // The API server refuses both as well, but what a variable expands to it could not know.
  const shown = secret ? subPathExpr : value;
  if (value.startsWith('/')) throw new ContainerConfigError(`error SubPath \`${shown}\` must not be an absolute path`);
  if (value.split('/').includes('..')) {
    throw new ContainerConfigError(`unable to provision SubPath \`${shown}\`: must not contain '..'`);
  }
  return { path: value === '' ? undefined : value, secret };
}

/** Unlike in a command, a variable that is missing or empty is an error: it would mount more than was meant. */
function expandExpression(
  expression: string,
  lookUp: LookUp,
  budget: ExpansionBudget,
): { readonly value: string; readonly secret: boolean } {
  try {
    return expandPathVariables(expression, lookUp, budget);
  } catch (cause) {
    if (cause instanceof MissingVariablesError) throw new ContainerConfigError(cause.message);
    throw cause;
  }
}
