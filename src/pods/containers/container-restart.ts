/** Whether a container that is not running should run. */
import { type AnyContainer, isSidecar } from '../../kube/kinds/pod/pod-spec.ts';
import type { Pod } from '../../kube/kinds/pod/pod.ts';
import type { RuntimeContainer } from '../../runtimes/runtime.ts';

export function shouldStart(container: AnyContainer, pod: Pod, latest: RuntimeContainer | undefined): boolean {
  if (pod.metadata.deletionTimestamp !== undefined) return false;
  if (latest === undefined) return true;
  switch (latest.state.kind) {
    case 'running':
      return false;
    case 'created':
      // Whoever made it failed to start it.
      return true;
    case 'exited':
      return restartsAfter(container, pod, latest.state.exitCode);
  }
}

export function restartsAfter(container: AnyContainer, { spec }: Pod, exitCode: number): boolean {
  if (container.restartPolicy === undefined) return policyAllows(spec.restartPolicy ?? 'Always', exitCode);
  const rule = (container.restartPolicyRules ?? []).find(({ exitCodes }) => {
    const listed = exitCodes?.values?.includes(exitCode) ?? false;
    return exitCodes?.operator === 'NotIn' ? !listed : exitCodes?.operator === 'In' && listed;
  });
  return rule?.action === 'Restart' || policyAllows(container.restartPolicy, exitCode);
}

/** Whether a container that the node itself ends, because a probe failed, is started again. */
export function restartsOnFailure(container: AnyContainer, { spec }: Pod): boolean {
  return isSidecar(container) || (container.restartPolicy ?? spec.restartPolicy ?? 'Always') !== 'Never';
}

function policyAllows(policy: string, exitCode: number): boolean {
  return policy === 'Always' || (policy === 'OnFailure' && exitCode !== 0);
}
