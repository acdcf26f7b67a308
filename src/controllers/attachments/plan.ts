/**
 * Decides what to do about one volume: on which nodes it is attached, detached, or refused. Pure. A step is carried out and the
 * volume is planned again, so a wait is a plan without that step and a time to look again.
 *
 *   none ──attach──▶ uncertain ──the driver confirms──▶ attached       listed: only the node's status says that it is attached.
 *     ▲                  │                                 │           All but none hold the volume: one for a single node is
 *     └─── ending ◀──────┴───────────detach────────────────┘           attached nowhere else before it is back at none.
 */
export interface NodeState {
  readonly isNodePresent: boolean;
  /** The node leaves attaching to a controller. */
  readonly isNodeManaged: boolean;
  readonly isNodeReady: boolean;
  readonly isNodeOutOfService: boolean;
}

export interface AttachmentFacts extends NodeState {
  readonly node: string;
  /** A pod on the node uses the volume. */
  readonly isDesired: boolean;
  readonly state: 'none' | 'listed' | 'uncertain' | 'attached' | 'ending';
  /** What the driver says has failed, of what the state is waiting for. */
  readonly problem: string | undefined;
  /** What was asked for by this process and has not come to an end. */
  readonly operation: { readonly kind: 'attach' | 'detach'; readonly sinceMs: number } | undefined;
  /** After a failure; 0: there was none. */
  readonly retryAtMs: number;
  /** The same for the node's list. */
  readonly listAtMs: number;
  readonly undesiredSinceMs: number;
  readonly isRefusalReported: boolean;
  /** In the node's `volumesAttached`. */
  readonly isListed: boolean;
  /** In the node's `volumesInUse`. */
  readonly isInUse: boolean;
}

export interface PlanContext {
  readonly nowMs: number;
  readonly isForOneNode: boolean;
  /** How long a node that is not ready may keep a volume that no pod uses any more; undefined: for ever. */
  readonly unmountMsMax: number | undefined;
}

export type Step =
  /** Ask for it, or wait for what was asked for before. */
  | { readonly kind: 'attach'; readonly node: string }
  | { readonly kind: 'attached'; readonly node: string }
  /** Without a reason: the driver has said nothing for too long. */
  | { readonly kind: 'attachFailed' | 'detachFailed'; readonly node: string; readonly why: string | undefined }
  /** Another node has it: report that once. */
  | { readonly kind: 'refuse'; readonly node: string; readonly heldBy: readonly string[] }
  /** `isForced`: without reading again whether the node still uses the volume. */
  | { readonly kind: 'detach'; readonly node: string; readonly isForced: boolean }
  /** Nothing of it is left. */
  | { readonly kind: 'forget'; readonly node: string }
  /** Bring the node's `volumesAttached` up to date. */
  | { readonly kind: 'list'; readonly node: string };

interface Plan {
  readonly steps: readonly Step[];
  /** Time alone changes the plan then. */
  readonly lookAgainAtMs: number | undefined;
}

/** As long as Kubernetes waits for a driver to attach or detach. */
export const operationMsMax = 2 * 60_000;
const beingDeleted = 'volume attachment is being deleted';

type Decision = Step | { readonly waitUntilMs: number } | undefined;

export function planVolume(all: readonly AttachmentFacts[], context: PlanContext): Plan {
  const detaching = all.filter(({ isDesired }) => !isDesired).map((one) => planUndesired(one, context));
  const holders = new Set(all.filter(({ state }) => state !== 'none').map(({ node }) => node));
  const attaching = all
    .filter(({ isDesired }) => isDesired)
    .map((one) => {
      const heldBy = context.isForOneNode ? [...holders].filter((node) => node !== one.node) : [];
      const decision = planDesired(one, heldBy, context);
      if (decision !== undefined && 'kind' in decision && decision.kind === 'attach') holders.add(one.node);
      return decision;
    });
  const moving = [...detaching, ...attaching].filter((decision) => decision !== undefined);
  const leaving = new Set(moving.flatMap((one) => ('kind' in one && one.kind === 'detach' ? [one.node] : [])));
  const listing = all
    .filter((one) => one.isNodePresent && !leaving.has(one.node) && one.isListed !== belongsInList(one))
    .map(({ node, listAtMs }) => whenDue(listAtMs, context.nowMs, { kind: 'list', node }));
  // Nodes wait for their lists; that a volume was attached is only told.
  const decisions = [...listing, ...moving];
  const times = decisions.flatMap((decision) => ('waitUntilMs' in decision ? [decision.waitUntilMs] : []));
  return {
    steps: decisions.filter((decision): decision is Step => 'kind' in decision),
    lookAgainAtMs: times.length === 0 ? undefined : Math.min(...times),
  };
}

/** Nodes mount what is listed. What is in use stays: a node that restarts takes what is not listed for not attached. */
export function belongsInList({
  state,
  isListed,
  isInUse,
}: Pick<AttachmentFacts, 'state' | 'isListed' | 'isInUse'>): boolean {
  return state === 'attached' || (isListed && isInUse);
}

function planUndesired(one: AttachmentFacts, { nowMs, unmountMsMax }: PlanContext): Decision {
  const { node, state, problem, operation } = one;
  if (state === 'none') return { kind: 'forget', node };
  if (state === 'ending') {
    // It ends when the driver lets go: nothing more can be asked for.
    if (operation?.kind !== 'detach') return undefined;
    if (problem !== undefined) return { kind: 'detachFailed', node, why: problem };
    return whenDue(operation.sinceMs + operationMsMax, nowMs, { kind: 'detachFailed', node, why: undefined });
  }
  const overdueAtMs = unmountMsMax === undefined || one.isNodeReady ? Infinity : one.undesiredSinceMs + unmountMsMax;
  const isForced = nowMs >= overdueAtMs || one.isNodeOutOfService;
  if (one.isInUse && !isForced) return overdueAtMs === Infinity ? undefined : { waitUntilMs: overdueAtMs };
  return whenDue(one.retryAtMs, nowMs, { kind: 'detach', node, isForced });
}

function planDesired(one: AttachmentFacts, heldBy: readonly string[], { nowMs }: PlanContext): Decision {
  const { node, state, problem, operation } = one;
  if (state === 'attached') return operation || one.retryAtMs > 0 ? { kind: 'attached', node } : undefined;
  if (state === 'ending') {
    if (operation?.kind !== 'detach')
      return whenDue(one.retryAtMs, nowMs, { kind: 'attachFailed', node, why: beingDeleted });
    return whenDue(operation.sinceMs + operationMsMax, nowMs, { kind: 'detachFailed', node, why: undefined });
  }
  if (state === 'uncertain') {
    if (problem !== undefined) return whenDue(one.retryAtMs, nowMs, { kind: 'attachFailed', node, why: problem });
    if (operation === undefined) return whenDue(one.retryAtMs, nowMs, { kind: 'attach', node });
    return whenDue(operation.sinceMs + operationMsMax, nowMs, { kind: 'attachFailed', node, why: undefined });
  }
  // It was there and vanished before the driver had said anything.
  if (operation?.kind === 'attach') return { kind: 'attachFailed', node, why: beingDeleted };
  if (heldBy.length > 0) return one.isRefusalReported ? undefined : { kind: 'refuse', node, heldBy };
  return one.isNodeManaged ? whenDue(one.retryAtMs, nowMs, { kind: 'attach', node }) : undefined;
}

function whenDue(dueAtMs: number, nowMs: number, step: Step): Step | { readonly waitUntilMs: number } {
  return nowMs >= dueAtMs ? step : { waitUntilMs: dueAtMs };
}
