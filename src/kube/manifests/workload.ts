/**
 * The pods that a workload's controller would make, one for each workload: Deployment, StatefulSet and the rest carry
 * a pod template, and everything else in them is left to the controller.
 */
import { type Pod, type PodTemplateSpec, podOfTemplate } from '../kinds/pod/pod.ts';
import { ordinalPodName } from '../references/claim-templates.ts';
import type { ObjectMeta } from '../schema/meta.ts';
import type { FieldPath } from '../schema/schema.ts';

export interface WorkloadKind {
  readonly kind: string;
  readonly apiVersions: readonly string[];
  readonly template: FieldPath;
  /** What its controller calls the pod; the one with this ordinal where it numbers them. */
  podName(workload: string, ordinal: number): string;
  podLabels?(workload: string, ordinal: number): Readonly<Record<string, string>>;
  /** Its pods are numbered, and each may get claims of its own. */
  readonly isNumbered?: true;
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
    podName: ordinalPodName,
    isNumbered: true,
    podLabels: (workload, ordinal) => ({
      'apps.kubernetes.io/pod-index': String(ordinal),
      'statefulset.kubernetes.io/pod-name': ordinalPodName(workload, ordinal),
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
  ordinal: number,
): Pod {
  const own = kind.podLabels?.(workload.name, ordinal);
  const { name, namespace } = { ...workload, name: kind.podName(workload.name, ordinal) };
  const metadata = { name, ...(namespace !== undefined && { namespace }), ...(own !== undefined && { labels: own }) };
  return podOfTemplate(template, metadata);
}
