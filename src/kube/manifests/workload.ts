/**
 * The pods that a workload's controller would make, one for each workload: Deployment, StatefulSet and the rest carry
 * a pod template, and everything else in them is left to the controller.
 */
import type { PodSpec } from '../kinds/pod/pod-spec.ts';
import type { Pod, PodTemplateSpec } from '../kinds/pod/pod.ts';
import type { ObjectMeta } from '../schema/meta.ts';
import type { FieldPath } from '../schema/schema.ts';

export interface WorkloadKind {
  readonly kind: string;
  readonly apiVersions: readonly string[];
  readonly template: FieldPath;
  /** What its controller calls the pod; the first of several where it numbers them. */
  podName(workload: string): string;
  podLabels?(workload: string): Readonly<Record<string, string>>;
  /** Where it lists the claims that each pod gets one of. */
  readonly claimTemplates?: FieldPath;
}

const apps = ['apps/v1'];

const batch = ['batch/v1'];

const sameName = (workload: string): string => workload;

const jobLabels = (name: string): Record<string, string> => ({
  'batch.kubernetes.io/job-name': name,
  'job-name': name,
});

export const workloadKinds: readonly WorkloadKind[] = [
  { kind: 'Deployment', apiVersions: apps, template: ['spec', 'template'], podName: sameName },
  { kind: 'ReplicaSet', apiVersions: apps, template: ['spec', 'template'], podName: sameName },
  { kind: 'DaemonSet', apiVersions: apps, template: ['spec', 'template'], podName: sameName },
  {
    kind: 'StatefulSet',
    apiVersions: apps,
    template: ['spec', 'template'],
    podName: (workload) => `${workload}-0`,
    claimTemplates: ['spec', 'volumeClaimTemplates'],
    podLabels: (workload) => ({
      'apps.kubernetes.io/pod-index': '0',
      'statefulset.kubernetes.io/pod-name': `${workload}-0`,
    }),
  },
  { kind: 'ReplicationController', apiVersions: ['v1'], template: ['spec', 'template'], podName: sameName },
  { kind: 'Job', apiVersions: batch, template: ['spec', 'template'], podName: sameName, podLabels: jobLabels },
  {
    kind: 'CronJob',
    apiVersions: batch,
    template: ['spec', 'jobTemplate', 'spec', 'template'],
    podName: sameName,
    podLabels: jobLabels,
  },
];

/** The pod of a workload: the template's labels, annotations and spec under the name its controller would give. */
export function podOfWorkload(
  kind: WorkloadKind,
  workload: ObjectMeta,
  template: PodTemplateSpec,
  claimTemplates: readonly string[] = [],
): Pod {
  const { labels, annotations } = template.metadata ?? {};
  const name = kind.podName(workload.name);
  const allLabels = { ...labels, ...kind.podLabels?.(workload.name) };
  return {
    apiVersion: 'v1',
    kind: 'Pod',
    metadata: {
      name,
      ...(workload.namespace === undefined ? {} : { namespace: workload.namespace }),
      ...(Object.keys(allLabels).length === 0 ? {} : { labels: allLabels }),
      ...(annotations === undefined ? {} : { annotations }),
    },
    spec: withClaims(template.spec, name, claimTemplates),
  };
}

/** A claim's volume takes the place of one that the template itself calls by the same name. */
function withClaims(spec: PodSpec, pod: string, claims: readonly string[]): PodSpec {
  if (claims.length === 0) return spec;
  const kept = (spec.volumes ?? []).filter(({ name }) => !claims.includes(name));
  const added = claims.map((name) => ({ name, persistentVolumeClaim: { claimName: `${name}-${pod}` } }));
  return { ...spec, volumes: [...kept, ...added] };
}
