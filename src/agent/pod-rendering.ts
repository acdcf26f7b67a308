/**
 * One pod, once: its volumes are set up, its containers' view is worked out, and what came of it is listed. A pod that
 * could not start is told in the kubelet's words, and what was made for it in this call is taken back.
 */
import { existsSync } from 'node:fs';
import { listDirectory, visibleFiles } from '../disk/paths/directory-listing.ts';
import { removeTree } from '../disk/paths/remove-tree.ts';
import { requirePodDirectories } from '../disk/pod-directories.ts';
import { podDirectory } from '../kube/values/node-layout.ts';
import { renderContainers } from './container-rendering.ts';
import { renderCredentials } from './credential-rendering.ts';
import { PodStartError } from './pod-start-error.ts';
import { PodVolumes, type PreparedVolume } from './pod-volumes.ts';
import type { RenderNode } from './render-node.ts';
import type { PodFailure, RenderedPod, RenderedVolume } from './rendered-pod.ts';

export async function renderPod(node: RenderNode, signal: AbortSignal): Promise<RenderedPod | PodFailure> {
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
export async function cleanPod(node: RenderNode, signal: AbortSignal): Promise<void> {
  const directory = podDirectory(node.root, node.pod.metadata.uid ?? '');
  requirePodDirectories(directory);
  if (!existsSync(directory)) return;
  await new PodVolumes(node).removeOthers([], signal);
  removeTree(directory);
  node.tell(`removed ${directory}`);
}

function describeVolume({ name, plugin, path = '' }: PreparedVolume): RenderedVolume {
  const described = { name, plugin: plugin.name, path };
  // Content that follows objects is the plugin's own; what else a volume holds may be large and is not ours to list.
  if (!plugin.requiresRemount) return { ...described, files: [] };
  const content = listDirectory(path);
  return { ...described, content, files: visibleFiles(content) };
}
