/**
 * Gives every new pod a service account, the account's pull secrets, and the volume with its token, the cluster's certificate
 * and the namespace, mounted where client libraries look for them.
 */
import type { Clock } from '../../base/clock.ts';
import { isMirrorPod } from '../../kube/kinds/pod/pod-identity.ts';
import type { PodSpec } from '../../kube/kinds/pod/pod-spec.ts';
import type { Pod } from '../../kube/kinds/pod/pod.ts';
import type { ServiceAccount } from '../../kube/kinds/service-account.ts';
import { namesOf, referencesOf } from '../../kube/references/pod-references.ts';
import type { Random } from '../model/random.ts';
import { StoredObjects, objectKey } from '../model/stored-objects.ts';
import type { Store } from '../store/store.ts';
import { waitUntil } from '../watch/store-waits.ts';
import { type AdmissionRequest, type AdmissionStep, isNewPod, refuse } from './admission.ts';

interface Deps {
  readonly store: Pick<Store, 'get' | 'list' | 'subscribe'>;
  readonly clock: Clock;
  readonly random: Random;
}

const serviceAccounts = { group: '', plural: 'serviceaccounts', namespaced: true };
const namespaces = { group: '', plural: 'namespaces', namespaced: false };
// A namespace gets its account a moment after it is created; a faster client waits as long as the API does.
const defaultAccountWaitMs = 2000;
const tokenMountPath = '/var/run/secrets/kubernetes.io/serviceaccount';
const tokenVolumePrefix = 'kube-api-access-';
const tokenSeconds = 3607;
const fileMode = 0o644;

export function serviceAccountAdmission(deps: Deps): AdmissionStep {
  return {
    async prepare(request, ended) {
      const pod = newPod(request);
      if (pod === undefined || isMirrorPod(pod) || accountOf(pod) !== 'default') return;
      const { namespace } = request;
      if (deps.store.get(objectKey(namespaces, '', namespace)) === undefined) return;
      const key = objectKey(serviceAccounts, namespace, 'default');
      const isThere = (): boolean => deps.store.get(key) !== undefined;
      if (!isThere()) await waitUntil(deps.store, isThere, defaultAccountWaitMs, deps.clock, ended.signal);
    },
    admit(request) {
      const pod = newPod(request);
      if (pod === undefined) return undefined;
      if (isMirrorPod(pod)) {
        refuseMirror(request, pod);
        return undefined;
      }
      const name = accountOf(pod);
      const account = new StoredObjects(deps.store).serviceAccount(request.namespace, name);
      if (account === undefined) {
        throw refuse(
          request,
          `error looking up service account ${request.namespace}/${name}: serviceaccount "${name}" not found`,
        );
      }
      return { ...pod, spec: withToken(withAccount(pod.spec, name, account), account, deps.random) };
    },
  };
}

function newPod(request: AdmissionRequest): Pod | undefined {
  return isNewPod(request) ? (request.object as Pod) : undefined;
}

function accountOf({ spec }: Pod): string {
  return spec.serviceAccountName || spec.serviceAccount || 'default';
}

/** A mirror pod is what a node runs anyway; it must not be a way to objects of the API. */
function refuseMirror(request: AdmissionRequest, pod: Pod): void {
  const references = referencesOf(pod);
  const mayNot = (what: string): Error => refuse(request, `a mirror pod may not ${what}`);
  if (namesOf(references, 'ServiceAccount').size > 0) throw mayNot('reference service accounts');
  if (namesOf(references, 'Secret').size > 0) throw mayNot('reference secrets');
  if (references.some(({ kind, via }) => kind === 'ServiceAccount' && via === 'projected')) {
    throw mayNot('use ServiceAccountToken volume projections');
  }
}

function withAccount(spec: PodSpec, name: string, account: ServiceAccount): PodSpec {
  const { imagePullSecrets = [] } = spec;
  const inherited = imagePullSecrets.length === 0 ? (account.imagePullSecrets ?? []) : imagePullSecrets;
  return {
    ...spec,
    serviceAccountName: name,
    serviceAccount: name,
    ...(inherited.length > 0 && { imagePullSecrets: inherited }),
  };
}

type Containers = PodSpec['containers'];
type Volume = NonNullable<PodSpec['volumes']>[number];

function withToken(spec: PodSpec, account: ServiceAccount, random: Random): PodSpec {
  if (!(spec.automountServiceAccountToken ?? account.automountServiceAccountToken ?? true)) return spec;
  const { volumes = [], initContainers, containers } = spec;
  const existing = volumes.find(({ name }) => name.startsWith(tokenVolumePrefix));
  const name = existing?.name ?? `${tokenVolumePrefix}${random.suffix(5)}`;
  const needs = [...(initContainers ?? []), ...containers].some((container) => !hasTokenMount(container));
  if (!needs) return spec;
  return {
    ...spec,
    ...(initContainers && { initContainers: mounted(initContainers, name) }),
    containers: mounted(containers, name),
    volumes: existing === undefined ? [...volumes, tokenVolume(name)] : volumes,
  };
}

function hasTokenMount({ volumeMounts = [] }: Containers[number]): boolean {
  return volumeMounts.some(({ mountPath }) => mountPath === tokenMountPath);
}

function mounted(containers: Containers, name: string): Containers {
  return containers.map((container) =>
    hasTokenMount(container)
      ? container
      : {
          ...container,
          volumeMounts: [...(container.volumeMounts ?? []), { name, readOnly: true, mountPath: tokenMountPath }],
        },
  );
}

function tokenVolume(name: string): Volume {
  return {
    name,
    projected: {
      defaultMode: fileMode,
      sources: [
        { serviceAccountToken: { expirationSeconds: tokenSeconds, path: 'token' } },
        { configMap: { name: 'kube-root-ca.crt', items: [{ key: 'ca.crt', path: 'ca.crt' }] } },
        {
          downwardAPI: {
            items: [{ path: 'namespace', fieldRef: { apiVersion: 'v1', fieldPath: 'metadata.namespace' } }],
          },
        },
      ],
    },
  };
}
