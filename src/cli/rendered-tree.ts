/** Rendered pods as a tree for people: `-o tree`. */
import type { Colors } from 'picocolors/types.js';
import type { Entry, RenderedContainer, RenderedPod, RenderedVolume } from '../agent/render/rendered-pod.ts';
import { type SecretsShown, shownMount, shownValue } from './rendered-list.ts';
import { showText } from './terminal.ts';

interface TreeStyle extends SecretsShown {
  readonly colors: Colors;
  /** The name of a user or group id, for people; the number itself where there is none. */
  readonly userName: (uid: number) => string;
  readonly groupName: (gid: number) => string;
}

interface Branch {
  readonly text: string;
  readonly children: readonly Branch[];
}

export function renderedTree(pods: readonly RenderedPod[], style: TreeStyle): string {
  return pods.map((pod) => `${lines(podBranch(pod, style)).join('\n')}\n`).join('\n');
}

function podBranch(pod: RenderedPod, treeStyle: TreeStyle): Branch {
  const style = { ...treeStyle, showPath: (path: string) => showText(shorten(path, pod.directory)) };
  const { bold, dim } = style.colors;
  const containers = [
    ...pod.initContainers.map((one) => containerBranch('init container', one, style)),
    ...pod.containers.map((one) => containerBranch('container', one, style)),
    ...pod.ephemeralContainers.map((one) => containerBranch('ephemeral container', one, style)),
  ];
  const hasSecretSubPath = [pod.initContainers, pod.containers, pod.ephemeralContainers].some((list) =>
    list.some(({ mounts }) => mounts.some(({ secretSubPath }) => secretSubPath)),
  );
  const credentials = pod.pullCredentials.map(({ registry, username, images }) =>
    leaf(
      `${showText(registry)} ${dim('as')} ${showText(username)}` +
        (images.length > 0 ? dim(` for ${showText(images.join(', '))}`) : ''),
    ),
  );
  return {
    text: `${bold(`pod ${pod.namespace}/${pod.name}`)} ${dim(showText(pod.directory))}`,
    children: [
      ...pod.volumes.map((volume) => volumeBranch(volume, hasSecretSubPath, style)),
      ...containers,
      ...(credentials.length > 0 ? [{ text: bold('pull credentials'), children: credentials }] : []),
    ],
  };
}

/** The pod's directory stands at the top of its tree; paths below it are shown from there on. */
function shorten(path: string, directory: string): string {
  return path.startsWith(`${directory}/`) ? path.slice(directory.length + 1) : path;
}

interface PodStyle extends TreeStyle {
  readonly showPath: (path: string) => string;
}

function volumeBranch(volume: RenderedVolume, hasSecretSubPath: boolean, style: PodStyle): Branch {
  const { bold, cyan, dim } = style.colors;
  const { entries = [] } = volume.content ?? {};
  const kind = volume.plugin.slice(volume.plugin.indexOf('/') + 1);
  return {
    text: `${bold(`volume ${volume.name}`)} ${cyan(kind)} ${dim(style.showPath(volume.path))}`,
    children: (hasSecretSubPath && !style.showSecrets ? withoutSubPaths(entries) : entries).map((entry) =>
      entryBranch(entry, style),
    ),
  };
}

/**
 * A subPath that is missing becomes a directory of its name, and the name may be a Secret's value. Such directories stay
 * empty, and a payload has none that are.
 */
function withoutSubPaths(entries: readonly Entry[]): readonly Entry[] {
  return entries.flatMap((entry): readonly Entry[] => {
    if (entry.kind !== 'directory') return [entry];
    const kept = withoutSubPaths(entry.entries);
    return kept.length === 0 && !entry.name.startsWith('..') ? [] : [{ ...entry, entries: kept }];
  });
}

function entryBranch(entry: Entry, style: TreeStyle): Branch {
  const { blue, cyan, dim } = style.colors;
  const name = showText(entry.name);
  switch (entry.kind) {
    case 'link':
      return leaf(`${cyan(name)} ${dim('->')} ${showText(entry.target)}`);
    case 'directory':
      return {
        text: `${blue(`${name}/`)} ${facts('d', entry, style)}`,
        children: entry.entries.map((child) => entryBranch(child, style)),
      };
    case 'file':
      return leaf(`${name} ${facts('-', entry, style)} ${dim(showSize(entry.sizeBytes))}`);
    case 'other':
      return leaf(`${name} ${facts('?', entry, style)}`);
  }
}

function facts(type: string, { mode, uid, gid }: Entry, { colors, userName, groupName }: TreeStyle): string {
  return colors.dim(`${type}${showPermissions(mode)} ${userName(uid)}:${groupName(gid)}`);
}

function containerBranch(word: string, container: RenderedContainer, style: PodStyle): Branch {
  const { bold, green, dim } = style.colors;
  const env = container.env.map((variable) =>
    leaf(`${green(showText(variable.name))}=${showText(shownValue(variable, style))}`),
  );
  const mounts = container.mounts.map((mount) => {
    const { mountPath, hostPath, readOnly, subPath, mountPropagation, recursiveReadOnly } = shownMount(mount, style);
    const how = [
      readOnly ? `${recursiveReadOnly === true ? 'recursively ' : ''}read-only` : 'writable',
      ...(mountPropagation === undefined ? [] : [mountPropagation]),
      ...(subPath === undefined ? [] : [`subPath ${showText(subPath)}`]),
    ];
    return leaf(`${showText(mountPath)} ${dim('<-')} ${style.showPath(hostPath)} ${dim(`(${how.join(', ')})`)}`);
  });
  return {
    text: bold(`${word} ${container.name}`),
    children: [
      ...(env.length > 0 ? [{ text: 'env', children: env }] : []),
      ...(mounts.length > 0 ? [{ text: 'mounts', children: mounts }] : []),
    ],
  };
}

function leaf(text: string): Branch {
  return { text, children: [] };
}

function lines({ text, children }: Branch): string[] {
  return [
    text,
    ...children.flatMap((child, index) => {
      const last = index === children.length - 1;
      return lines(child).map((line, depth) => {
        if (depth === 0) return `${last ? '└── ' : '├── '}${line}`;
        return `${last ? '    ' : '│   '}${line}`;
      });
    }),
  ];
}

/** `rw-r--r--`, with s and t as ls shows them. */
export function showPermissions(mode: number): string {
  const letters = 'rwxrwxrwx'.split('').map((letter, index) => ((mode >> (8 - index)) & 1 ? letter : '-'));
  const special = (bit: number, index: number, letter: string): void => {
    if (mode & bit) letters[index] = letters[index] === 'x' ? letter : letter.toUpperCase();
  };
  special(0o4000, 2, 's');
  special(0o2000, 5, 's');
  special(0o1000, 8, 't');
  return letters.join('');
}

export function showSize(sizeBytes: number): string {
  const units = ['B', 'KiB', 'MiB', 'GiB'];
  const power = Math.min(units.length - 1, sizeBytes === 0 ? 0 : Math.floor(Math.log2(sizeBytes) / 10));
  const amount = sizeBytes / 1024 ** power;
  return `${Number.isInteger(amount) ? amount : amount.toFixed(1)} ${units[power]}`;
}
