/** The kinds that say something about what a pod sees, one entry each: how to read, complete and check them. */
import {
  type ClusterTrustBundle,
  clusterTrustBundleShape,
  validateClusterTrustBundle,
} from '../kinds/cluster-trust-bundle.ts';
import { type ConfigMap, configMapShape, defaultConfigMap, validateConfigMap } from '../kinds/config-map.ts';
import { type Node, defaultNode, nodeShape, validateNode } from '../kinds/node.ts';
import { type Pod, defaultPod, podShape, validatePod } from '../kinds/pod/pod.ts';
import { type Secret, defaultSecret, secretShape, validateSecret } from '../kinds/secret.ts';
import { type ServiceAccount, serviceAccountShape, validateServiceAccount } from '../kinds/service-account.ts';
import { type Service, defaultService, serviceShape, validateService } from '../kinds/service.ts';
import {
  type PersistentVolumeClaim,
  defaultPersistentVolumeClaim,
  persistentVolumeClaimShape,
  validatePersistentVolumeClaim,
} from '../kinds/storage/persistent-volume-claim.ts';
import {
  type PersistentVolume,
  defaultPersistentVolume,
  persistentVolumeShape,
  validatePersistentVolume,
} from '../kinds/storage/persistent-volume.ts';
import { type FieldError, invalidField } from '../schema/field-errors.ts';
import type { ObjectMeta } from '../schema/meta.ts';
import type { FieldPath, Shape } from '../schema/schema.ts';
import { podUidProblems } from '../values/names.ts';
import { identifyPod } from './pod-identity.ts';

export interface ObjectKind<T = unknown> {
  readonly kind: string;
  readonly apiVersions: readonly string[];
  readonly namespaced: boolean;
  readonly shape: Shape<T>;
  /** What the API server fills in before it looks whether the object is valid. */
  complete(object: T): T;
  validate(object: T): readonly FieldError[];
  /** Where the user wrote what the completed object has at `path`, if that is elsewhere. */
  writtenAt?(path: FieldPath, json: Readonly<Record<string, unknown>>): FieldPath;
}

const core = { apiVersions: ['v1'], namespaced: true };
const cluster = { apiVersions: ['v1'], namespaced: false };

export const podKind: ObjectKind<Pod> = {
  ...core,
  kind: 'Pod',
  shape: podShape,
  complete: (object) => identifyPod(withServiceAccount(defaultPod(object))),
  validate: (object) => [...validateUid(object), ...validatePod(object).filter((error) => !isOfCreation(error))],
};

export const configMapKind: ObjectKind<ConfigMap> = {
  ...core,
  kind: 'ConfigMap',
  shape: configMapShape,
  complete: defaultConfigMap,
  validate: (object) => validateConfigMap(object),
};

export const secretKind: ObjectKind<Secret> = {
  ...core,
  kind: 'Secret',
  shape: secretShape,
  complete: defaultSecret,
  validate: (object) => validateSecret(object),
  writtenAt([field = '', ...rest], { stringData }) {
    const isText =
      field === 'data' && typeof stringData === 'object' && Object.hasOwn(stringData ?? {}, String(rest[0]));
    return [isText ? 'stringData' : field, ...rest];
  },
};

export const serviceKind: ObjectKind<Service> = {
  ...core,
  kind: 'Service',
  shape: serviceShape,
  complete: defaultService,
  validate: (object) => validateService(object),
};

export const serviceAccountKind: ObjectKind<ServiceAccount> = {
  ...core,
  kind: 'ServiceAccount',
  shape: serviceAccountShape,
  complete: (object) => object,
  validate: (object) => validateServiceAccount(object),
};

export const claimKind: ObjectKind<PersistentVolumeClaim> = {
  ...core,
  kind: 'PersistentVolumeClaim',
  shape: persistentVolumeClaimShape,
  complete: defaultPersistentVolumeClaim,
  validate: (object) => validatePersistentVolumeClaim(object),
};

export const persistentVolumeKind: ObjectKind<PersistentVolume> = {
  ...cluster,
  kind: 'PersistentVolume',
  shape: persistentVolumeShape,
  complete: defaultPersistentVolume,
  validate: (object) => validatePersistentVolume(object),
};

export const nodeKind: ObjectKind<Node> = {
  ...cluster,
  kind: 'Node',
  shape: nodeShape,
  complete: defaultNode,
  validate: (object) => validateNode(object),
};

export const trustBundleKind: ObjectKind<ClusterTrustBundle> = {
  apiVersions: ['certificates.k8s.io/v1', 'certificates.k8s.io/v1beta1', 'certificates.k8s.io/v1alpha1'],
  namespaced: false,
  kind: 'ClusterTrustBundle',
  shape: clusterTrustBundleShape,
  complete: (object) => object,
  validate: (object) => validateClusterTrustBundle(object),
};

export const objectKinds: readonly ObjectKind<{ readonly metadata: ObjectMeta }>[] = [
  podKind,
  configMapKind,
  secretKind,
  serviceKind,
  serviceAccountKind,
  claimKind,
  persistentVolumeKind,
  nodeKind,
  trustBundleKind,
];

/** Every pod runs as some service account; admission names the one that each namespace has. */
function withServiceAccount(object: Pod): Pod {
  if ((object.spec.serviceAccountName ?? '') !== '') return object;
  return { ...object, spec: { ...object.spec, serviceAccountName: 'default', serviceAccount: 'default' } };
}

/** An API server makes uids itself; one that a user wrote becomes the name of a directory and is looked at first. */
function validateUid({ metadata: { uid = '' } }: Pod): readonly FieldError[] {
  return podUidProblems(uid).map((problem) => invalidField(['metadata', 'uid'], uid, problem));
}

/** A manifest may be that of a pod that runs already, as `kubectl get -o yaml` prints it, and to which some were added. */
function isOfCreation({ kind, path }: FieldError): boolean {
  return kind === 'Forbidden' && path.length === 2 && path[1] === 'ephemeralContainers';
}
