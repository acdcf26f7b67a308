/** The conditions of a node, from those it had and what is wrong with it now. Ready comes last, as old control planes expect. */
import type { Node } from '../kube/kinds/node.ts';

export type NodeCondition = NonNullable<NonNullable<Node['status']>['conditions']>[number];

interface NodeConditions {
  readonly conditions: readonly NodeCondition[];
  /** Reasons of the Events that tell what changed. */
  readonly changes: readonly string[];
}

/** Nothing is evicted here, so a node is never under pressure; schedulers still want to be told. */
const pressures = [
  {
    type: 'MemoryPressure',
    reason: 'KubeletHasSufficientMemory',
    message: 'kubelet has sufficient memory available',
    change: 'NodeHasSufficientMemory',
  },
  {
    type: 'DiskPressure',
    reason: 'KubeletHasNoDiskPressure',
    message: 'kubelet has no disk pressure',
    change: 'NodeHasNoDiskPressure',
  },
  {
    type: 'PIDPressure',
    reason: 'KubeletHasSufficientPID',
    message: 'kubelet has sufficient PID available',
    change: 'NodeHasSufficientPID',
  },
] as const;

/** Conditions of others stay as they are and where they are. */
export function nodeConditions(
  before: readonly NodeCondition[],
  problems: readonly string[],
  time: string,
): NodeConditions {
  const conditions = [...before];
  const changes: string[] = [];
  const put = (next: Omit<NodeCondition, 'lastHeartbeatTime' | 'lastTransitionTime'>): NodeCondition | undefined => {
    const index = conditions.findIndex(({ type }) => type === next.type);
    const old = conditions[index];
    const since = old?.status === next.status ? old.lastTransitionTime : undefined;
    const condition = { ...next, lastHeartbeatTime: time, lastTransitionTime: since ?? time };
    if (old === undefined) conditions.push(condition);
    else conditions[index] = condition;
    return old;
  };
  for (const { type, reason, message, change } of pressures) {
    if (put({ type, status: 'False', reason, message })?.status !== 'False') changes.push(change);
  }
  const isReady = problems.length === 0;
  const status = isReady ? 'True' : 'False';
  const [reason, message] = isReady
    ? ['KubeletReady', 'kubelet is posting ready status']
    : ['KubeletNotReady', aggregated(problems)];
  const old = put({ type: 'Ready', status, reason, message });
  // A node that is new was never anything else.
  if (old !== undefined && old.status !== status) changes.push(isReady ? 'NodeReady' : 'NodeNotReady');
  return { conditions, changes };
}

export function isReadyNode({ status }: Node): boolean {
  return status?.conditions?.find(({ type }) => type === 'Ready')?.status === 'True';
}

/** As Go joins errors: one as it is, more of them in brackets, none twice. */
function aggregated(problems: readonly string[]): string {
  const different = [...new Set(problems)];
  return different.length === 1 ? different.join('') : `[${different.join(', ')}]`;
}
