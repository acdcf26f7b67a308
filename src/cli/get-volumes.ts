/** `mountlet get volumes`: the volumes of the pods on this machine's node, as the node itself knows them. */
import { join, resolve } from 'node:path';
import { OperatingError } from '../base/errors.ts';
import { readVolumes } from '../control/control-client.ts';
import type { VolumeView } from '../control/volume-view.ts';
import { ageSince } from '../kube/values/times.ts';
import type { GetOptions } from './object-commands.ts';
import { defaultStateDirectory } from './options.ts';
import { showJson, showYaml } from './rendered-list.ts';
import { reportingErrors, showTable } from './terminal.ts';

const namespaceDefault = 'default';

export function getVolumesCommand(names: readonly string[], options: GetOptions): Promise<number> {
  return reportingErrors(async () => {
    const { selector, rootDir, allNamespaces = false, output } = options;
    if (selector !== undefined) {
      throw new OperatingError('NoLabels', 'Cannot select volumes by labels, as they have none: name pods instead');
    }
    const namespace = allNamespaces ? undefined : (options.namespace ?? namespaceDefault);
    const all = await volumesBelow(resolve(rootDir ?? defaultStateDirectory()), namespace);
    const chosen = names.length === 0 ? all : names.flatMap((name) => named(all, name));
    const volumes = chosen.toSorted((a, b) => (keyOf(a) < keyOf(b) ? -1 : 1));
    if (output === 'json' || output === 'yaml') {
      const list = { apiVersion: 'v1', kind: 'List', metadata: {}, items: volumes };
      process.stdout.write(output === 'json' ? `${showJson(list)}\n` : showYaml(list));
    } else if (output === 'name') {
      for (const { metadata } of volumes) process.stdout.write(`volume/${metadata.name}\n`);
    } else if (volumes.length === 0) {
      process.stderr.write(`No volumes found${namespace === undefined ? '' : ` in namespace ${namespace}`}.\n`);
    } else {
      process.stdout.write(showTable(table(volumes, allNamespaces, output === 'wide')));
    }
  });
}

/** `directory` is the root of a node, or a state directory in which `up` or `agent` keep it. */
async function volumesBelow(directory: string, namespace: string | undefined): Promise<readonly VolumeView[]> {
  const { signal } = new AbortController();
  for (const root of [directory, join(directory, 'node'), join(directory, 'agent')]) {
    const volumes = await readVolumes(root, { namespace }, signal);
    if (volumes !== undefined) return volumes;
  }
  const advice = 'start `mountlet up`, or give --root-dir the --state of `up` or the --root-dir of `agent`';
  throw new OperatingError('NoNode', `Cannot find a node: no node runs in ${directory}; ${advice}`);
}

/** By the name of its pod, or by its own. */
function named(volumes: readonly VolumeView[], name: string): readonly VolumeView[] {
  const found = volumes.filter(({ metadata, spec }) => metadata.name === name || spec.podName === name);
  if (found.length === 0) {
    throw new OperatingError('NoSuchVolume', `Cannot find a volume or a pod with volumes named "${name}" on this node`);
  }
  return found;
}

function keyOf({ metadata }: VolumeView): string {
  return `${metadata.namespace}/${metadata.name}`;
}

interface Column {
  readonly name: string;
  readonly cell: (view: VolumeView, now: number) => string | undefined;
  /** Shown only where some volume has something in it. */
  readonly ifAny?: true;
}

const none = '<none>';
const columns: readonly Column[] = [
  { name: 'POD', cell: ({ spec }) => spec.podName },
  { name: 'VOLUME', cell: ({ spec }) => spec.volumeName },
  { name: 'PLUGIN', cell: ({ spec }) => spec.plugin?.replace(/^kubernetes\.io\//, '') },
  { name: 'STATE', cell: ({ status }) => (status.isStale === true ? `${status.state} (outdated)` : status.state) },
  { name: 'CLAIM', cell: ({ spec }) => spec.claimName },
  { name: 'PHASE', cell: ({ status }) => status.claimPhase },
  { name: 'USED', cell: ({ status }) => showBytes(status.usedBytes) },
  { name: 'CAPACITY', cell: ({ status }) => showBytes(status.capacityBytes) },
  { name: 'AGE', cell: ({ metadata }, now) => ageSince(metadata.creationTimestamp, now) },
];
const wideColumns: readonly Column[] = [
  { name: 'PATH', cell: ({ status }) => status.path },
  { name: 'DEVICE', cell: ({ status }) => status.devicePath },
  { name: 'OBJECTS', cell: ({ status }) => status.objects?.map(showObject).join(',') },
];
const message: Column = { name: 'MESSAGE', cell: ({ status }) => status.message, ifAny: true };

function table(
  volumes: readonly VolumeView[],
  withNamespace: boolean,
  isWide: boolean,
): readonly (readonly string[])[] {
  const all: readonly Column[] = [
    ...(withNamespace ? [{ name: 'NAMESPACE', cell: ({ metadata }: VolumeView) => metadata.namespace }] : []),
    ...columns,
    ...(isWide ? wideColumns : []),
    message,
  ];
  const now = Date.now();
  const shown = all.filter(
    ({ ifAny, cell }) => ifAny !== true || volumes.some((view) => (cell(view, now) ?? '') !== ''),
  );
  return [shown.map(({ name }) => name), ...volumes.map((view) => shown.map(({ cell }) => cell(view, now) || none))];
}

function showObject({
  kind,
  name = '*',
  resourceVersion,
}: NonNullable<VolumeView['status']['objects']>[number]): string {
  return `${kind}/${name}${resourceVersion === undefined ? '' : `@${resourceVersion}`}`;
}

const units = ['', 'Ki', 'Mi', 'Gi', 'Ti', 'Pi', 'Ei'];

/** In the two or three digits that a table has room for: `12Ki`, `1.5Gi`. */
function showBytes(bytes: number | undefined): string | undefined {
  if (bytes === undefined) return undefined;
  const power = bytes < 1024 ? 0 : Math.min(units.length - 1, Math.floor(Math.log2(bytes) / 10));
  const value = bytes / 1024 ** power;
  return `${value < 10 ? Number(value.toFixed(1)) : Math.round(value)}${units[power]}`;
}
