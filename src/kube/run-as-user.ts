/** Which user a pod's files should belong to when nobody says so. */
import { allContainers } from './kinds/pod/pod-spec.ts';
import type { Pod } from './kinds/pod/pod.ts';

/**
 * The uid every container of the pod runs as, init and ephemeral ones included; a container's own value beats the
 * pod's. One container without a value, or two that differ, means that there is no such user.
 */
export function commonRunAsUser({ spec }: Pick<Pod, 'spec'>): number | undefined {
  const users = new Set(
    allContainers(spec).map(({ securityContext }) => securityContext?.runAsUser ?? spec.securityContext?.runAsUser),
  );
  const [user] = users;
  return users.size === 1 ? user : undefined;
}
