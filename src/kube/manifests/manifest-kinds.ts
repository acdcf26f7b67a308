/** The kinds that a manifest may hold for a pod to see, and what reading them from a file changes. */
import { createHash } from 'node:crypto';
import { trustBundleKind } from '../kinds/cluster-trust-bundle.ts';
import { configMapKind, defaultConfigMap } from '../kinds/config-map.ts';
import { nodeKind } from '../kinds/node.ts';
import { type Pod, podKind } from '../kinds/pod/pod.ts';
import { secretKind } from '../kinds/secret.ts';
import { serviceAccountKind } from '../kinds/service-account.ts';
import { serviceKind } from '../kinds/service.ts';
import { claimKind } from '../kinds/storage/persistent-volume-claim.ts';
import { persistentVolumeKind } from '../kinds/storage/persistent-volume.ts';
import { storageClassKind } from '../kinds/storage/storage-class.ts';
import { type FieldError, invalidField } from '../schema/field-errors.ts';
import type { KubeObject, ResourceKind } from '../schema/kind.ts';
import type { ObjectMeta } from '../schema/meta.ts';
import type { FieldPath } from '../schema/schema.ts';
import {
  completedName,
  generatedNameLetters as letters,
  generatedSuffixLength,
  podUidProblems,
} from '../values/names.ts';

export interface ManifestKind<T extends KubeObject = KubeObject> extends ResourceKind<T> {
  /** Where the user wrote what the completed object has at `path`, if that is elsewhere. */
  writtenAt?(path: FieldPath, json: Readonly<Record<string, unknown>>): FieldPath;
}

export const podManifest: ManifestKind<Pod> = {
  ...podKind,
  complete: (pod) => identifyPod(withServiceAccount(podKind.complete(pod))),
  validate: (pod) => [...validateUid(pod), ...podKind.validate(pod).filter((error) => !isOfCreation(error))],
};

const secretManifest: typeof secretKind & ManifestKind = {
  ...secretKind,
  writtenAt([field = '', ...rest], { stringData }) {
    const isText =
      field === 'data' && typeof stringData === 'object' && Object.hasOwn(stringData ?? {}, String(rest[0]));
    return [isText ? 'stringData' : field, ...rest];
  },
};

export const manifestKinds: readonly ManifestKind[] = [
  podManifest,
  { ...configMapKind, complete: defaultConfigMap },
  secretManifest,
  serviceKind,
  serviceAccountKind,
  claimKind,
  persistentVolumeKind,
  storageClassKind,
  nodeKind,
  trustBundleKind,
];

/** Every pod runs as some service account; admission names the one that each namespace has. */
function withServiceAccount(pod: Pod): Pod {
  if ((pod.spec.serviceAccountName ?? '') !== '') return pod;
  return { ...pod, spec: { ...pod.spec, serviceAccountName: 'default', serviceAccount: 'default' } };
}

/** An API server makes uids itself; one that a user wrote becomes the name of a directory and is checked first. */
function validateUid({ metadata: { uid = '' } }: Pod): readonly FieldError[] {
  return podUidProblems(uid).map((problem) => invalidField(['metadata', 'uid'], uid, problem));
}

/** A manifest may be that of a running pod, as `kubectl get -o yaml` prints it, and such a pod may have ephemeral containers. */
function isOfCreation({ kind, path }: FieldError): boolean {
  return kind === 'Forbidden' && path.length === 2 && path[1] === 'ephemeralContainers';
}

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

/** A UUID of version 8 (made from other data): a hash of the object's name, as random ones would differ at each run. */
export function uidOf(namespace: string, name: string): string {
  const bytes = digest(namespace, name);
  bytes[6] = ((bytes[6] ?? 0) & 0x0f) | 0x80;
  bytes[8] = ((bytes[8] ?? 0) & 0x3f) | 0x80;
  return bytes.toString('hex', 0, 16).replace(/^(.{8})(.{4})(.{4})(.{4})(.{12})$/, '$1-$2-$3-$4-$5');
}

function digest(namespace: string, name: string): Buffer {
  return createHash('sha256').update(`${namespace}/${name}`).digest();
}
