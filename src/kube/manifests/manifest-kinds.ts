/** The kinds that say something about what a pod sees, one entry each: how to read, complete and check them. */
import type { ClusterTrustBundle } from '../objects/cluster-trust-bundle.ts';
import { clusterTrustBundle } from '../objects/cluster-trust-bundle.ts';
import type { ConfigMap } from '../objects/config-map.ts';
import { configMap } from '../objects/config-map.ts';
import {
  defaultConfigMap,
  defaultNode,
  defaultPersistentVolume,
  defaultPersistentVolumeClaim,
  defaultSecret,
  defaultService,
} from '../defaults/default-objects.ts';
import { defaultPod } from '../defaults/default-pod.ts';
import type { FieldError } from '../validation/field-errors.ts';
import { invalidField } from '../validation/field-errors.ts';
import type { ObjectMeta } from '../objects/metadata.ts';
import { podUidProblems } from '../values/names.ts';
import type { Node } from '../objects/node.ts';
import { node } from '../objects/node.ts';
import type { PersistentVolume, PersistentVolumeClaim } from '../objects/persistent-volume.ts';
import { persistentVolume, persistentVolumeClaim } from '../objects/persistent-volume.ts';
import { identifyPod } from './pod-identity.ts';
import type { Pod } from '../objects/pod.ts';
import { pod } from '../objects/pod.ts';
import type { FieldPath, Shape } from '../objects/schema.ts';
import type { Secret } from '../objects/secret.ts';
import { secret } from '../objects/secret.ts';
import type { ServiceAccount } from '../objects/service-account.ts';
import { serviceAccount } from '../objects/service-account.ts';
import type { Service } from '../objects/service.ts';
import { service } from '../objects/service.ts';
import { validatePersistentVolumeClaim } from '../validation/validate-claim.ts';
import { validateClusterTrustBundle } from '../validation/validate-cluster-trust-bundle.ts';
import { validateConfigMap } from '../validation/validate-config-map.ts';
import { validateNode } from '../validation/validate-node.ts';
import { validatePersistentVolume } from '../validation/validate-persistent-volume.ts';
import { validatePod } from '../validation/validate-pod.ts';
import { validateSecret } from '../validation/validate-secret.ts';
import { validateServiceAccount } from '../validation/validate-service-account.ts';
import { validateService } from '../validation/validate-service.ts';

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
  shape: pod,
  complete: (object) => identifyPod(withServiceAccount(defaultPod(object))),
  validate: (object) => [...validateUid(object), ...validatePod(object).filter((error) => !isOfCreation(error))],
};

export const configMapKind: ObjectKind<ConfigMap> = {
  ...core,
  kind: 'ConfigMap',
  shape: configMap,
  complete: defaultConfigMap,
  validate: (object) => validateConfigMap(object),
};

export const secretKind: ObjectKind<Secret> = {
  ...core,
  kind: 'Secret',
  shape: secret,
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
  shape: service,
  complete: defaultService,
  validate: (object) => validateService(object),
};

export const serviceAccountKind: ObjectKind<ServiceAccount> = {
  ...core,
  kind: 'ServiceAccount',
  shape: serviceAccount,
  complete: (object) => object,
  validate: (object) => validateServiceAccount(object),
};

export const claimKind: ObjectKind<PersistentVolumeClaim> = {
  ...core,
  kind: 'PersistentVolumeClaim',
  shape: persistentVolumeClaim,
  complete: defaultPersistentVolumeClaim,
  validate: (object) => validatePersistentVolumeClaim(object),
};

export const persistentVolumeKind: ObjectKind<PersistentVolume> = {
  ...cluster,
  kind: 'PersistentVolume',
  shape: persistentVolume,
  complete: defaultPersistentVolume,
  validate: (object) => validatePersistentVolume(object),
};

export const nodeKind: ObjectKind<Node> = {
  ...cluster,
  kind: 'Node',
  shape: node,
  complete: defaultNode,
  validate: (object) => validateNode(object),
};

export const trustBundleKind: ObjectKind<ClusterTrustBundle> = {
  apiVersions: ['certificates.k8s.io/v1', 'certificates.k8s.io/v1beta1', 'certificates.k8s.io/v1alpha1'],
  namespaced: false,
  kind: 'ClusterTrustBundle',
  shape: clusterTrustBundle,
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
