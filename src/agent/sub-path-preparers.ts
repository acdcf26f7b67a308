/** How mounts by subPath are made on this node: as the kubelet does, or so that they follow their volume. */
import type { Mounts } from '../disk/mounts/mounts.ts';
import type { PlacedRestriction } from '../disk/mounts/replaceable-mounts.ts';
import type { LiveSubPaths } from '../disk/paths/live-sub-paths.ts';
import { prepareSubPath } from '../disk/paths/sub-path.ts';
import type { SubPathPreparer } from '../pods/container-mounts.ts';

export function fixedSubPaths(mounts: Mounts): SubPathPreparer {
  return { prepare: async (request) => ({ hostPath: prepareSubPath(request, mounts) }) };
}

interface FollowingSubPathsDeps {
  readonly mounts: Mounts;
  readonly live: LiveSubPaths;
  /** Told once, when the first subPath that could follow does not, because of this machine. */
  readonly tellUnavailable: (message: string) => void;
}

/** Mounts that may follow do; the others, and all where the kernel cannot, are made as the kubelet makes them. */
export function followingSubPaths({ mounts, live, tellUnavailable }: FollowingSubPathsDeps): SubPathPreparer {
  const fixed = fixedSubPaths(mounts);
  let told = false;
  return {
    async prepare(request, signal) {
      if (!request.mayFollow) return fixed.prepare(request, signal);
      if (live.unavailable !== undefined) {
        if (!told) tellUnavailable(`subPath mounts do not follow updates on this machine: ${live.unavailable}`);
        told = true;
        return fixed.prepare(request, signal);
      }
      const restrictions = request.bindMountOptions.filter(isRestriction);
      const hostPath = live.prepare({ ...request, restrictions });
      return hostPath === undefined ? fixed.prepare(request, signal) : { hostPath, follows: true };
    },
    started: (container) => void live.follow(container),
  };
}

function isRestriction(option: string): option is PlacedRestriction {
  return option === 'nosuid' || option === 'nodev' || option === 'noexec';
}
