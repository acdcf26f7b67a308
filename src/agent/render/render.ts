/**
 * Renders pods once: reads and checks all manifests, puts each pod's volumes on disk, and says what its containers see.
 * Everything is checked before anything is written; a pod that fails leaves nothing new behind and harms no other.
 */
import { existsSync, realpathSync, rmdirSync } from 'node:fs';
import { hostname } from 'node:os';
import { join } from 'node:path';
import { OperatingError } from '../../base/errors.ts';
import { systemMounts } from '../../disk/mounts/mounts.ts';
import { makeDirectories, requirePodDirectories } from '../../disk/paths/directories.ts';
import { type OwnerNames, listDirectory, ownerNames, visibleFiles } from '../../disk/paths/directory-listing.ts';
import { lockDirectory } from '../../disk/paths/directory-lock.ts';
import { removeTree } from '../../disk/paths/remove-tree.ts';
import type { Pod } from '../../kube/kinds/pod/pod.ts';
import { podKind } from '../../kube/kinds/pod/pod.ts';
import { type ManifestFile, type Manifests, readManifests } from '../../kube/manifests/manifests.ts';
import { podDirectory } from '../../kube/values/node-layout.ts';
import { renderContainers, renderCredentials } from './container-rendering.ts';
import { PodVolumes, type PreparedVolume, yieldAndCheck } from './pod-volumes.ts';
import { RenderClaims } from './render-claims.ts';
import { type RenderNode, type Note, renderNode } from './render-node.ts';
import { type PodFailure, PodStartError, type RenderedPod, type RenderedVolume } from './rendered-pod.ts';

export interface RenderSettings {
  readonly files: readonly ManifestFile[];
  /** Absolute. */
  readonly root: string;
  /** Of objects that name none; absent: `default`. */
  readonly namespace?: string;
  /** Names, or `namespace/name`, of the pods to render; absent or none: all. */
  readonly pods?: readonly string[];
  /** Take volumes down instead of putting them up. */
  readonly clean?: boolean;
  /** What this machine is called where no manifest says so; absent: its host name. */
  readonly nodeName?: string;
  /** A directory in memory that belongs to the user, if there is one: XDG_RUNTIME_DIR. */
  readonly runtimeDirectory?: string | undefined;
  /** The user who renders; absent: that of this process. */
  readonly uid?: number;
}

export interface RenderResult {
  readonly pods: readonly RenderedPod[];
  readonly failures: readonly PodFailure[];
  readonly owners: OwnerNames;
}

/** `note` is called with a sentence for each thing that a user should know in addition to the result. */
export async function render(
  given: RenderSettings,
  note: (text: string) => void,
  signal: AbortSignal,
): Promise<RenderResult> {
  const { namespace = 'default', pods: wanted = [], clean = false } = given;
  const { nodeName = hostname().toLowerCase(), runtimeDirectory, uid = process.geteuid?.() ?? 0 } = given;
  const manifests = readManifests(given.files, namespace);
  const chosen = choosePods(manifests, wanted, namespace);
  const noteOnce = once(note);
  const made = makeDirectories(given.root);
  // Mount points are known by their real paths.
  const settings = { root: realpathSync(given.root), nodeName, runtimeDirectory, uid };
  try {
    const lock = lockDirectory(settings.root);
    try {
      const mounts = systemMounts({ temporaryDirectory: settings.root });
      const claims = new RenderClaims(manifests, noteOnce);
      const pods: RenderedPod[] = [];
      const failures: PodFailure[] = [];
      for (const pod of chosen) {
        await yieldAndCheck(signal);
        const node = renderNode(manifests, claims, pod, settings, mounts, noteOnce);
        if (clean) await cleanPod(node, signal);
        else {
          const result = await renderPod(node, signal);
          if ('messages' in result) failures.push(result);
          else pods.push(result);
        }
      }
      return { pods, failures, owners: ownerNames() };
    } finally {
      lock.release();
    }
  } finally {
    removeEmpty(settings.root, made);
  }
}

function choosePods(manifests: Manifests, wanted: readonly string[], namespace: string): readonly Pod[] {
  const pods = manifests.all(podKind);
  requireDifferentUids(pods);
  if (pods.length === 0) {
    const others = manifests.passedOver.size === 0 ? '' : ` (not ${[...manifests.passedOver].join(', ')})`;
    const cure = `give at least one Pod or a workload with a pod template${others}`;
    throw new OperatingError('NoSuchPod', `Cannot find a pod in these manifests: ${cure}`);
  }
  if (wanted.length === 0) return pods;
  const missing = wanted.find((name) => !pods.some((pod) => isCalled(pod, name)));
  if (missing !== undefined) {
    const known = pods.map(({ metadata }) => showName(metadata.namespace, metadata.name, namespace)).join(', ');
    throw new OperatingError('NoSuchPod', `Cannot find pod "${missing}" in these manifests: they have ${known}`);
  }
  return pods.filter((pod) => wanted.some((name) => isCalled(pod, name)));
}

/** A pod's directory is named after its uid: two pods of one uid would write over each other. */
function requireDifferentUids(pods: readonly Pod[]): void {
  const seen = new Map<string, Pod>();
  for (const pod of pods) {
    const { uid = '' } = pod.metadata;
    const other = seen.get(uid);
    if (other !== undefined) {
      const names = [other, pod].map(({ metadata }) => `"${metadata.namespace}/${metadata.name}"`).join(' and ');
      throw new OperatingError(
        'SameUid',
        `Cannot tell pods ${names} apart: both have metadata.uid "${uid}"; give them different ones, or none`,
      );
    }
    seen.set(uid, pod);
  }
}

function once(note: (text: string) => void): Note {
  const noted = new Set<string>();
  return (text, topic = text) => {
    if (!noted.has(topic)) note(text);
    noted.add(topic);
  };
}

function isCalled({ metadata: { namespace, name } }: Pod, wanted: string): boolean {
  return wanted === name || wanted === `${namespace}/${name}`;
}

function showName(namespace: string | undefined, name: string, usual: string): string {
  return namespace === usual ? name : `${namespace}/${name}`;
}

/** Directories of a rendering in which nothing was rendered go as they came. */
function removeEmpty(root: string, made: readonly string[]): void {
  for (const directory of [join(root, 'pods'), ...made]) {
    try {
      rmdirSync(directory);
    } catch {
      // In use, which is what it is for.
    }
  }
}

/**
 * One pod: sets up its volumes, works out what its containers see and lists the result. A pod that could not start is reported
 * with the kubelet's message, and what this call made for it is removed.
 */
async function renderPod(node: RenderNode, signal: AbortSignal): Promise<RenderedPod | PodFailure> {
  const { namespace = '', name, uid = '' } = node.pod.metadata;
  requirePodDirectories(podDirectory(node.root, uid));
  const volumes = new PodVolumes(node);
  try {
    const prepared = await volumes.prepare(signal);
    const containers = await renderContainers(node, prepared, signal);
    const pullCredentials = await renderCredentials(node, signal);
    await volumes.removeOthers(prepared, signal);
    const directory = podDirectory(node.root, uid);
    return { namespace, name, uid, directory, volumes: prepared.map(describeVolume), ...containers, pullCredentials };
  } catch (error) {
    await volumes.undo();
    if (error instanceof PodStartError) return { namespace, name, messages: error.messages };
    throw error;
  }
}

/** Takes a pod's volumes down and removes its directory. */
async function cleanPod(node: RenderNode, signal: AbortSignal): Promise<void> {
  const directory = podDirectory(node.root, node.pod.metadata.uid ?? '');
  requirePodDirectories(directory);
  if (!existsSync(directory)) return;
  await new PodVolumes(node).removeOthers([], signal);
  removeTree(directory);
  node.note(`removed ${directory}`);
}

function describeVolume({ name, plugin, source, path = '' }: PreparedVolume): RenderedVolume {
  const described = { name, plugin: plugin.name, path };
  // Content that follows objects is the plugin's own; what else a volume holds may be large and is not ours to list.
  if (plugin.follows?.(source) === undefined) return { ...described, files: [] };
  const content = listDirectory(path);
  return { ...described, content, files: visibleFiles(content) };
}
