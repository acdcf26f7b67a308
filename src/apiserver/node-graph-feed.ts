/** Keeps the graph of what nodes may read up to date with the store. */
import type { Pod } from '../kube/kinds/pod/pod.ts';
import type { PersistentVolume } from '../kube/kinds/storage/persistent-volume.ts';
import { NodeGraph } from './identity/node-graph.ts';
import { objectPrefix, placeOfKey } from './object-key.ts';
import type { Change, ListResult, Store } from './store/store.ts';
import { parseStored } from './stored-value.ts';

const podPrefix = objectPrefix({ group: '', plural: 'pods', namespaced: true });
const volumePrefix = objectPrefix({ group: '', plural: 'persistentvolumes', namespaced: false });

export function followNodeGraph(store: Store): { readonly graph: NodeGraph; readonly unfollow: () => void } {
  const graph = new NodeGraph();
  const unfollow = store.subscribe((changes) => {
    for (const change of changes) apply(graph, change);
  });
  // A pod that cannot be read gives its node no rights.
  const read = (prefix: string): ListResult => store.list({ prefix, leavesOutDamaged: true });
  for (const { value } of read(podPrefix).items) graph.podChanged(parseStored(value) as Pod);
  for (const { value } of read(volumePrefix).items) {
    graph.persistentVolumeChanged(parseStored(value) as PersistentVolume);
  }
  return { graph, unfollow };
}

function apply(graph: NodeGraph, { type, key, value }: Change): void {
  if (key.startsWith(podPrefix)) {
    const { namespace, name } = placeOfKey(key);
    if (type === 'delete') graph.podDeleted(namespace, name);
    // A pod without a node, which may be a large one, gives nobody any rights.
    else if (value.includes('"nodeName":"')) graph.podChanged(parseStored(value) as Pod);
  } else if (key.startsWith(volumePrefix)) {
    if (type === 'delete') graph.persistentVolumeDeleted(placeOfKey(key).name);
    else graph.persistentVolumeChanged(parseStored(value) as PersistentVolume);
  }
}
