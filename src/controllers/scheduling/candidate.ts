/** A pod that waits for a node, and what the scheduler has to know of it. */
import type { Pod } from '../../kube/kinds/pod/pod.ts';
import { claimNamesOf } from '../../kube/references/claims.ts';
import type { StorageView } from '../storage/storage-view.ts';
import { csiVolumesOf } from '../storage/volume-placement.ts';
import { type PodNeeds, needsOf } from './node-rooms.ts';
import type { WaitingPod } from './scheduling-queue.ts';

/** As pods name it that are its own. */
export const schedulerName = 'default-scheduler';

export interface Candidate extends WaitingPod {
  /** Without what only a node reads. */
  readonly pod: Pod;
  readonly needs: PodNeeds;
  readonly hasVolumes: boolean;
  /** Why it waits, as its condition says. */
  reported: string | undefined;
}

export function candidateOf(key: string, pod: Pod, storage: StorageView): Candidate {
  const { metadata, spec, status } = pod;
  const needs = needsOf(pod);
  const hasVolumes = claimNamesOf(pod).length > 0 || csiVolumesOf([pod], storage).size > 0;
  const requests = [...needs.requests].map(([name, amount]) => `${name}=${amount}`);
  const { priority = 0, nodeSelector, affinity, tolerations } = spec;
  const asked = [priority, nodeSelector, affinity?.nodeAffinity, tolerations, requests, needs.ports];
  const known = status?.conditions?.find(({ type }) => type === 'PodScheduled');
  return {
    key,
    // Who else uses its claims, and where its volumes are, is a pod's own affair.
    group: JSON.stringify([...asked, hasVolumes && key]),
    priority,
    createdMs: Date.parse(metadata.creationTimestamp ?? '') || 0,
    pod: { metadata, spec: { ...spec, containers: [], initContainers: [] } },
    needs,
    hasVolumes,
    reported: known?.status === 'False' && known.reason === 'Unschedulable' ? known.message : undefined,
  };
}

export function isPending({ metadata, spec }: Pod): boolean {
  return (
    (spec.nodeName ?? '') === '' &&
    metadata.deletionTimestamp === undefined &&
    (spec.schedulerName ?? schedulerName) === schedulerName &&
    (spec.schedulingGates ?? []).length === 0
  );
}
