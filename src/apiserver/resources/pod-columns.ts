/**
 * The table of pods. A pod's status is one word, and which word it is depends on all of its containers: while it
 * starts, on the first init container that is not done; later, on the first container that has something to say.
 */
import { type ContainerStatus, idleCondition } from '../../kube/kinds/pod/pod-status.ts';
import type { Pod } from '../../kube/kinds/pod/pod.ts';
import { environmentCondition } from '../../kube/references/environment.ts';
import { ageSince } from '../../kube/values/times.ts';
import { ageColumn, nameColumn, orNone, text, wide } from '../model/columns.ts';
import type { Column, RowCondition } from '../model/resource.ts';

export const podColumns: readonly Column<Pod>[] = [
  nameColumn,
  text('Ready', 'How many containers are ready, of how many.', (pod) => {
    const { ready, total } = summaryOf(pod);
    return `${ready}/${total}`;
  }),
  text('Status', 'What the pod does, or what keeps it from doing it.', (pod) => summaryOf(pod).reason),
  text('Restarts', 'How often containers were started again, and when last.', (pod, now) => {
    const { restarts, lastRestart } = summaryOf(pod);
    return restarts === 0 || lastRestart === '' ? String(restarts) : `${restarts} (${ageSince(lastRestart, now)} ago)`;
  }),
  ageColumn,
  wide('IP', 'The first address of the pod.', ({ status }) => orNone(status?.podIPs?.[0]?.ip)),
  wide('Node', 'The node the pod runs on.', ({ spec }) => orNone(spec.nodeName)),
  wide('Nominated Node', 'The node where room is made for the pod.', ({ status }) => orNone(status?.nominatedNodeName)),
  wide('Readiness Gates', 'How many of the further conditions for being ready hold, of how many.', readinessGates),
  wide('Environment', 'Whether variables of running containers are still what their objects say.', environmentOf),
  wide('Idle', 'Whether containers do nothing, because the node has no images for them.', idleOf),
];

/** Nodes of mountlet report it; for others it is unknown. */
function environmentOf({ status }: Pod): string {
  const condition = status?.conditions?.find(({ type }) => type === environmentCondition);
  return condition === undefined ? '<none>' : condition.status === 'False' ? 'Stale' : 'Current';
}

function idleOf({ status }: Pod): string {
  return status?.conditions?.some(({ type, status: is }) => type === idleCondition && is === 'True')
    ? 'Idle'
    : '<none>';
}

export function podRowConditions({ status }: Pod): readonly RowCondition[] {
  const completed = (reason: string, message: string): RowCondition[] => [
    { type: 'Completed', status: 'True', reason, message },
  ];
  if (status?.phase === 'Succeeded') return completed('Succeeded', 'The pod has completed successfully.');
  return status?.phase === 'Failed' ? completed('Failed', 'The pod failed.') : [];
}

interface PodSummary {
  readonly reason: string;
  readonly ready: number;
  readonly total: number;
  readonly restarts: number;
  readonly lastRestart: string;
}

function summaryOf(pod: Pod): PodSummary {
  const { spec, status = {} } = pod;
  const sidecars = new Set(
    (spec.initContainers ?? []).filter(({ restartPolicy }) => restartPolicy === 'Always').map(({ name }) => name),
  );
  const start = startOf(pod, sidecars);
  const isInitialized = hasCondition(pod, 'Initialized');
  const running =
    start.reason === undefined || isInitialized ? runOf(pod, start.reason ?? firstReason(pod)) : undefined;
  const initStatuses = status.initContainerStatuses ?? [];
  // Containers that only prepared the pod are of no interest once it runs.
  const counted =
    running === undefined
      ? start.visited
      : [...start.visited.filter(({ name }) => sidecars.has(name)), ...(status.containerStatuses ?? [])];
  return {
    reason: endOf(pod) ?? running?.reason ?? start.reason ?? firstReason(pod),
    ready: readySidecars(initStatuses.slice(0, start.visited.length), sidecars) + (running?.ready ?? 0),
    total: spec.containers.length + sidecars.size,
    restarts: counted.reduce((sum, { restartCount }) => sum + restartCount, 0),
    lastRestart: lastOf(counted.map(({ lastState }) => lastState?.terminated?.finishedAt ?? '')),
  };
}

function firstReason({ status }: Pod): string {
  const isGated = status?.conditions?.some(
    ({ type, reason }) => type === 'PodScheduled' && reason === 'SchedulingGated',
  );
  return isGated ? 'SchedulingGated' : status?.reason || status?.phase || '';
}

interface Start {
  /** Undefined when every init container is done. */
  readonly reason: string | undefined;
  /** The statuses up to and including the one that is not done. */
  readonly visited: readonly ContainerStatus[];
}

function startOf({ spec, status }: Pod, sidecars: ReadonlySet<string>): Start {
  const statuses = status?.initContainerStatuses ?? [];
  const index = statuses.findIndex((container) => !isDone(container, sidecars));
  const pending = statuses[index];
  if (pending === undefined) return { reason: undefined, visited: statuses };
  const { terminated, waiting } = pending.state ?? {};
  const step = `${index}/${(spec.initContainers ?? []).length}`;
  const waitingFor = waiting?.reason === 'PodInitializing' ? '' : (waiting?.reason ?? '');
  const word = terminated ? endReason(terminated) : waitingFor || step;
  return { reason: `Init:${word}`, visited: statuses.slice(0, index + 1) };
}

function isDone({ name, state, started }: ContainerStatus, sidecars: ReadonlySet<string>): boolean {
  return state?.terminated?.exitCode === 0 || (sidecars.has(name) && started === true);
}

function readySidecars(statuses: readonly ContainerStatus[], sidecars: ReadonlySet<string>): number {
  return statuses.filter(
    ({ name, state, started, ready }) =>
      state?.terminated?.exitCode !== 0 && sidecars.has(name) && started === true && ready,
  ).length;
}

/** From the last container to the first, so that the first one has the last word. */
function runOf(pod: Pod, reasonBefore: string): { readonly reason: string; readonly ready: number } {
  let reason = reasonBefore;
  let failure = '';
  let ready = 0;
  for (const container of (pod.status?.containerStatuses ?? []).toReversed()) {
    const { waiting, terminated, running } = container.state ?? {};
    if (waiting?.reason) reason = waiting.reason;
    else if (terminated) {
      reason = endReason(terminated);
      if (terminated.exitCode !== 0) failure = reason;
    } else if (container.ready && running) ready += 1;
  }
  if (reason !== 'Completed') return { reason, ready };
  if (ready > 0 && hasCondition(pod, 'Ready')) return { reason: 'Running', ready };
  if (failure !== '') return { reason: failure, ready };
  return { reason: ready > 0 ? 'NotReady' : reason, ready };
}

type Terminated = NonNullable<NonNullable<ContainerStatus['state']>['terminated']>;

function endReason({ reason = '', signal = 0, exitCode }: Terminated): string {
  if (reason !== '') return reason;
  return signal === 0 ? `ExitCode:${exitCode}` : `Signal:${signal}`;
}

function endOf({ metadata, status }: Pod): string | undefined {
  if (metadata.deletionTimestamp === undefined) return undefined;
  if (status?.reason === 'NodeLost') return 'Unknown';
  return status?.phase === 'Succeeded' || status?.phase === 'Failed' ? undefined : 'Terminating';
}

function hasCondition({ status }: Pod, wanted: string): boolean {
  return status?.conditions?.some(({ type, status: value }) => type === wanted && value === 'True') ?? false;
}

/** The latest of some times; empty ones do not count. */
function lastOf(times: readonly string[]): string {
  return times.reduce((last, time) => (time !== '' && !(Date.parse(time) <= Date.parse(last)) ? time : last), '');
}

function readinessGates({ spec: { readinessGates: gates = [] }, status }: Pod): string {
  if (gates.length === 0) return '<none>';
  const isTrue = (wanted: string): boolean =>
    status?.conditions?.find(({ type }) => type === wanted)?.status === 'True';
  return `${gates.filter(({ conditionType }) => isTrue(conditionType)).length}/${gates.length}`;
}
