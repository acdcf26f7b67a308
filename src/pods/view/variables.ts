/**
 * Variables of a container, and the expansion of `$(NAME)` that records where text came from. The rules of the
 * expansion itself are in kube/references/environment.ts; this file adds what a printer needs to know: whether it is a secret.
 */
import { MountletError } from '../../base/errors.ts';
import { type Variables, expand, expandSubPath } from '../../kube/references/environment.ts';

/**
 * Why a container cannot be created from its pod: the message is what the kubelet shows in the container's status. No
 * message holds bytes of a Secret.
 */
export class ContainerConfigError extends MountletError {
  readonly reason = 'CreateContainerConfigError';
}

/** Where a value was taken from. `resourceVersion` shows later whether the object has changed since. */
export type VariableSource =
  | {
      readonly kind: 'ConfigMap' | 'Secret';
      readonly name: string;
      readonly key: string;
      readonly resourceVersion?: string;
    }
  | { readonly kind: 'Service'; readonly name: string }
  | { readonly kind: 'field'; readonly path: string }
  | { readonly kind: 'resource'; readonly resource: string; readonly containerName: string }
  | { readonly kind: 'file'; readonly volumeName: string; readonly path: string; readonly key: string }
  /** Written in the pod; `expands` lists the sources of all variables that were put into it. */
  | { readonly kind: 'value'; readonly expands: readonly VariableSource[] };

export interface Variable {
  readonly name: string;
  readonly value: string;
  readonly source: VariableSource;
  /** The value holds, or may hold, bytes of a Secret, perhaps by way of other variables. Never print it. */
  readonly secret: boolean;
  readonly defect?: Defect;
}

/** What makes a runtime refuse a text: a NUL would end it too early, and requests to runtimes are UTF-8. */
export type Defect = 'NulByte' | 'NotUtf8';

interface Expanded {
  readonly value: string;
  readonly secret: boolean;
  readonly defect?: Defect;
  /** Where the variables in it came from, each source once, in the order of their first use. */
  readonly sources: readonly VariableSource[];
}

export type LookUp = (name: string) => Variable | undefined;

/** Builds its index at the first look-up, which most command lines never make. */
export function lookUpIn(environment: readonly Variable[]): LookUp {
  let byName: ReadonlyMap<string, Variable> | undefined;
  return (name) => (byName ??= new Map(environment.map((variable) => [variable.name, variable]))).get(name);
}

/**
 * Replaces every reference to a variable that `lookUp` knows, and leaves the others as they are written. A reference
 * taints the whole text, even where the variable is empty: that it is empty is a secret too.
 */
export function expandVariables(text: string, lookUp: LookUp, budget: ExpansionBudget): Expanded {
  return remembering(text, lookUp, budget, expand);
}

/** The same for a path, where a variable that is missing or empty is an error: `MissingVariablesError`. */
export function expandPathVariables(text: string, lookUp: LookUp, budget: ExpansionBudget): Expanded {
  return remembering(text, lookUp, budget, expandSubPath);
}

function remembering(
  text: string,
  lookUp: LookUp,
  budget: ExpansionBudget,
  expansion: (text: string, variables: Variables) => string,
): Expanded {
  budget.spend(text.length);
  if (!text.includes('$')) {
    const defect = text.includes('\0') ? ({ defect: 'NulByte' } as const) : undefined;
    return { value: text, secret: false, ...defect, sources: [] };
  }
  const used = new Set<Variable>();
  const value = expansion(text, {
    has: (name) => lookUp(name) !== undefined,
    get(name) {
      const variable = lookUp(name);
      if (variable === undefined) return undefined;
      budget.spend(variable.value.length);
      used.add(variable);
      return variable.value;
    },
  });
  const variables = [...used];
  const sources = new Set(variables.flatMap(({ source }) => (source.kind === 'value' ? source.expands : [source])));
  budget.spend(sources.size);
  const defect = text.includes('\0') ? 'NulByte' : variables.find((variable) => variable.defect)?.defect;
  return {
    value,
    secret: variables.some(({ secret }) => secret),
    ...(defect === undefined ? {} : { defect }),
    sources: [...sources],
  };
}

/**
 * Ten variables that each contain the one before ten times make ten billion copies of the first, and one ConfigMap can be
 * imported under a thousand prefixes. The kernel starts no program whose arguments and environment together are larger than
 * 6 MiB (three quarters of the largest stack it allows for), so nothing useful is lost.
 */
export class ExpansionBudget {
  static readonly charactersMax = 6 * 1024 * 1024;
  readonly #containerName: string;
  #charactersLeft = ExpansionBudget.charactersMax;

  constructor(containerName: string) {
    this.#containerName = containerName;
  }

  spend(characters: number): void {
    this.#charactersLeft -= characters;
    if (this.#charactersLeft >= 0) return;
    throw new ContainerConfigError(
      `Variables and arguments of container "${this.#containerName}" take more than 6 MiB, and no program can start with that much: remove some`,
    );
  }
}
