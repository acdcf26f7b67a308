/** Names and uids for pods and workloads that no API server has named. */
import { createHash } from 'node:crypto';
import type { Pod } from '../kinds/pod/pod.ts';
import type { ObjectMeta } from '../schema/meta.ts';
import { completedName, generatedNameLetters as letters, generatedSuffixLength } from '../values/names.ts';

/** Gives a pod what the API server would on create. From the same manifest come the same names, so a second run finds its volumes. */
export function identifyPod(pod: Pod): Pod {
  const { name } = withGeneratedName(pod.metadata, pod.metadata.namespace ?? '');
  const { uid = '' } = pod.metadata;
  const metadata = { ...pod.metadata, name, uid: uid === '' ? uidOf(pod.metadata.namespace ?? '', name) : uid };
  return { ...pod, metadata };
}

/** Completes a generateName where there is no name; what has neither stays without, for validation to say so. */
export function withGeneratedName(metadata: ObjectMeta, namespace: string): ObjectMeta {
  const { name, generateName = '' } = metadata;
  if (name !== '' || generateName === '') return metadata;
  const suffix = [...digest(namespace, generateName).subarray(0, generatedSuffixLength)].map(
    (byte) => letters[byte % letters.length],
  );
  return { ...metadata, name: completedName(generateName, suffix.join('')) };
}

/** A UUID of version 8 (made from other data): a hash of the pod's name, as random ones would differ at each run. */
function uidOf(namespace: string, name: string): string {
  const bytes = digest(namespace, name);
  bytes[6] = ((bytes[6] ?? 0) & 0x0f) | 0x80;
  bytes[8] = ((bytes[8] ?? 0) & 0x3f) | 0x80;
  return bytes.toString('hex', 0, 16).replace(/^(.{8})(.{4})(.{4})(.{4})(.{12})$/, '$1-$2-$3-$4-$5');
}

function digest(namespace: string, name: string): Buffer {
  return createHash('sha256').update(`${namespace}/${name}`).digest();
}
