/** Volumes that show a pod its own fields, in memory. */
import { posix } from 'node:path';
import { MountletError } from '../base/errors.ts';
import type { Payload, PayloadFile } from '../disk/writer/payload.ts';
import type { Pod } from '../kube/kinds/pod/pod.ts';
import type { DownwardApiFile, DownwardApiVolumeSource } from '../kube/kinds/pod/volume.ts';
import { type ResourceList, volumeResourceValue } from '../kube/references/pod-resources.ts';
import { inlineSpec } from '../kube/references/volume-spec.ts';
import { splitSubscript, volumeFieldValue } from '../kube/values/field-path.ts';
import { type NodeReader, nodeAllocatable } from './empty-dir.ts';
import type { Follow, VolumePlugin } from './plugin.ts';
import {
  type ProjectionVolumes,
  combineErrors,
  payloadFile,
  requireDefaultMode,
  projectionAttributes,
} from './projection.ts';

export function downwardApiPlugin(
  nodes: NodeReader,
  volumes: ProjectionVolumes,
): VolumePlugin<DownwardApiVolumeSource> {
  return {
    name: 'kubernetes.io/downward-api',
    sourceOf: ({ volume }) => volume?.downwardAPI,
    follows: ({ items = [] }) => podFollows(items),
    supportsMountOptions: false,
    attributes: () => projectionAttributes,
    setUp(request, signal) {
      const { items = [], defaultMode, defaultUser } = request.source;
      const projection = { pod: request.pod, items, defaultMode, defaultUser };
      return volumes.setUp(request, 'memory', () => collectDownwardApi(nodes, projection, signal), signal);
    },
    tearDown: (request) => volumes.tearDown(request),
    reconstruct: (name) => inlineSpec({ name, downwardAPI: {} }),
  };
}

/** Of a pod's fields only these can change while the pod lives. */
export function podFollows(items: readonly DownwardApiFile[]): readonly Follow[] {
  return items.flatMap(({ fieldRef, resourceFieldRef }): Follow[] => {
    if (fieldRef === undefined) return resourceFieldRef === undefined ? [] : [{ pod: 'resources' }];
    const { path } = splitSubscript(fieldRef.fieldPath) ?? { path: fieldRef.fieldPath };
    if (path === 'metadata.labels') return [{ pod: 'labels' }];
    return path === 'metadata.annotations' ? [{ pod: 'annotations' }] : [];
  });
}

interface DownwardApiProjection {
  readonly pod: Pod;
  readonly items: readonly DownwardApiFile[];
  readonly defaultMode: number | undefined;
  readonly defaultUser: number | undefined;
}

/** Pure. `allocatable` returns what the node has, or throws why that is not known; it is asked only by resource fields. */
export function downwardApiPayload(projection: DownwardApiProjection, allocatable: () => ResourceList): Payload {
  const { pod, items, defaultUser } = projection;
  const defaultMode = requireDefaultMode(projection.defaultMode);
  const files = new Map<string, PayloadFile>();
  const errors: unknown[] = [];
  for (const item of items) {
    try {
      const data = Buffer.from(contentOf(item, pod, allocatable), 'utf8');
      files.set(cleanPath(item.path), payloadFile(data, item.mode ?? defaultMode, item.user ?? defaultUser));
    } catch (error) {
      errors.push(error); // all of them are reported at once
    }
  }
  const [first, ...others] = errors;
  if (first !== undefined) throw combineErrors([first, ...others]);
  return files;
}

export async function collectDownwardApi(
  nodes: NodeReader,
  projection: DownwardApiProjection,
  signal: AbortSignal,
): Promise<Payload> {
  const asksForNode = projection.items.some(
    ({ fieldRef, resourceFieldRef }) => fieldRef === undefined && resourceFieldRef !== undefined,
  );
  const allocatable = asksForNode ? await settle(nodeAllocatable(nodes, signal)) : () => ({});
  return downwardApiPayload(projection, allocatable);
}

function contentOf({ fieldRef, resourceFieldRef }: DownwardApiFile, pod: Pod, allocatable: () => ResourceList): string {
  if (fieldRef !== undefined) return volumeFieldValue(pod, fieldRef.fieldPath);
  return resourceFieldRef === undefined ? '' : volumeResourceValue(pod.spec, resourceFieldRef, allocatable());
}

/** A node that cannot be read is one problem among those of the items, not the end of looking at them. */
async function settle(allocatable: Promise<ResourceList>): Promise<() => ResourceList> {
  try {
    const known = await allocatable;
    return () => known;
  } catch (error) {
    if (!(error instanceof MountletError)) throw error;
    return () => {
      throw error;
    };
  }
}

/** The path is cleaned here already, back-steps within it included; one that still leaves the volume the writer refuses. */
function cleanPath(path: string): string {
  const clean = posix.normalize(path);
  return clean.length > 1 && clean.endsWith('/') ? clean.slice(0, -1) : clean;
}
