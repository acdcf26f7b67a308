/** `mountlet apply`: manifests to the API server, for machines without kubectl; and how the outcome is printed, by `mountlet up` too. */
import { type AppliedObject, applyManifests } from '../agent/embedded/apply-manifests.ts';
import { readSources } from '../agent/machine/manifests-folder-reader.ts';
import { type ClusterOptions, clusterClient, discover } from './cluster-client.ts';
import { exitCode, openStandardInput, report, reportingErrors } from './terminal.ts';

export interface ApplyOptions extends ClusterOptions {
  readonly filename: readonly string[];
  readonly namespace?: string;
}

export function applyCommand(options: ApplyOptions): Promise<number> {
  return reportingErrors(async () => {
    const { signal } = new AbortController();
    const files = await readSources(options.filename, () => openStandardInput(signal));
    const { client, namespace } = await clusterClient(options);
    try {
      const kinds = await discover(client, signal);
      const applied = applyManifests(files, options.namespace ?? namespace, client, kinds, signal);
      const { problems } = await printApplied(applied, (text) => process.stdout.write(text));
      for (const line of problems) report('error', line);
      return problems.length === 0 ? exitCode.done : exitCode.failed;
    } finally {
      await client.close();
    }
  });
}

/** Prints what became of each object, and lists those that were refused. */
export async function printApplied(
  objects: AsyncIterable<AppliedObject>,
  print: (text: string) => void,
): Promise<{ readonly applied: number; readonly problems: readonly string[] }> {
  const all: string[] = [];
  let applied = 0;
  let refused = 0;
  for await (const { name, outcome, problems } of objects) {
    if (problems === undefined) {
      print(`${name} ${outcome}\n`);
      applied += 1;
    } else {
      all.push(...problems);
      refused += 1;
    }
  }
  const isPart = refused > 0 && applied > 0;
  const summary = `${refused} of ${refused + applied} objects were refused; the others are applied`;
  return { applied, problems: isPart ? [...all, summary] : all };
}
