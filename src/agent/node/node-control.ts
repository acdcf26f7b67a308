/** What the control socket of a node shows: the volumes of its pods, from all parts that know something of them. */
import { within } from '../../base/abort.ts';
import type { Clock } from '../../base/clock.ts';
import { startControlServer } from '../../control/control-server.ts';
import type { VolumeView } from '../../control/volume-view.ts';
import { podNamespace } from '../../kube/kinds/pod/pod-identity.ts';
import type { Pod } from '../../kube/kinds/pod/pod.ts';
import { isTerminated } from '../../kube/references/claims.ts';
import { usedVolumes } from '../../kube/references/pod-references.ts';
import { claimNameOf } from '../../kube/references/volume-spec.ts';
import { timestamp } from '../../kube/values/times.ts';
import { loadSystemCalls } from '../../linux/system-calls.ts';
import type { ManagedObject, ObjectManager } from '../../objects/object-manager.ts';
import type { VolumeStatus } from '../../volumes/queries.ts';
import { type PodUid, podUidOf } from '../../volumes/volume-name.ts';
import type { NodeObjects } from './node-objects.ts';
import type { NodeStats } from './node-stats.ts';
import type { NodeVolumes } from './node-volumes.ts';

interface ControlDeps {
  readonly clock: Clock;
  readonly pods: { pods(): readonly Pod[] };
  readonly volumes: NodeVolumes;
  readonly stats: NodeStats;
  readonly objects: Pick<NodeObjects, 'configMaps' | 'secrets'>;
}

/** Resolves with how to close it. */
export function startNodeControl(root: string, uid: number, deps: ControlDeps): Promise<() => Promise<void>> {
  const { peerUid } = loadSystemCalls();
  return startControlServer(
    { root, uid, peerUid },
    { volumes: ({ namespace }, signal) => views(deps, namespace, signal) },
  );
}

const states = { mounted: 'Mounted', uncertain: 'Uncertain', 'not-mounted': 'Waiting' } as const;
/** A little longer than a figure of one volume is waited for. */
const usageMsMax = 6_000;
/** Objects are in memory, unless the node is set to ask for them each time. */
const versionMsMax = 1_000;

async function views(
  deps: ControlDeps,
  namespace: string | undefined,
  signal: AbortSignal,
): Promise<readonly VolumeView[]> {
  const statuses = deps.volumes.manager.queries.statuses();
  const byPod = new Map<PodUid, VolumeStatus[]>();
  for (const status of statuses) byPod.set(status.podUid, [...(byPod.get(status.podUid) ?? []), status]);
  const pods = deps.pods.pods();
  const chosen = pods.filter((pod) => namespace === undefined || podNamespace(pod) === namespace);
  const uids = new Set(pods.map(podUidOf));
  // Of pods that are gone only the uid is known.
  const left = namespace === undefined ? statuses.filter(({ podUid }) => !uids.has(podUid)) : [];
  const found = await Promise.all(chosen.map((pod) => viewsOfPod(deps, pod, byPod.get(podUidOf(pod)) ?? [], signal)));
  return [...found.flat(), ...left.map((status) => leftView(status))];
}

async function viewsOfPod(
  deps: ControlDeps,
  pod: Pod,
  statuses: readonly VolumeStatus[],
  signal: AbortSignal,
): Promise<readonly VolumeView[]> {
  const { queries } = deps.volumes.manager;
  const podUid = podUidOf(pod);
  const { mounted, devices } = usedVolumes(pod);
  const resolutions = queries.resolutionsOf(podUid);
  const paths = queries.mountedVolumesOf(podUid);
  const usage = await within(deps.clock, usageMsMax, deps.stats.source.volumesOf(podUid, signal));
  const volumes = (pod.spec.volumes ?? []).filter(({ name }) => mounted.has(name) || devices.has(name));
  const found = await Promise.all(
    volumes.map(async (volume): Promise<readonly VolumeView[]> => {
      const { name } = volume;
      const status = statuses.find(({ podVolumeNames }) => podVolumeNames.includes(name));
      // What a pod that has ended had mounted is gone.
      if (status === undefined && isTerminated(pod)) return [];
      const { message, claimPhase } = resolutions.get(name) ?? {};
      const { path, link = path } = paths.get(name) ?? {};
      const used = usage?.find((one) => one.name === name);
      const { requestedAt } = status ?? {};
      const created =
        pod.metadata.creationTimestamp ?? (requestedAt === undefined ? undefined : timestamp(requestedAt));
      return [
        viewOf(
          {
            podName: pod.metadata.name,
            podUid,
            volumeName: name,
            plugin: status?.plugin,
            claimName: claimNameOf(pod, volume),
          },
          podNamespace(pod),
          {
            state: states[status?.state ?? 'not-mounted'],
            message: status?.lastError ?? message,
            isStale: status?.isStale,
            claimPhase,
            path: link,
            devicePath: status && queries.devicePathOf(status.volume),
            objects: status && (await objectsOf(deps, pod, status, signal)),
            usedBytes: used?.usedBytes,
            capacityBytes: used?.capacityBytes,
          },
          created,
        ),
      ];
    }),
  );
  // Unwanted, and not unmounted yet.
  return [...found.flat(), ...statuses.filter(({ isWanted }) => !isWanted).map((status) => leftView(status, pod))];
}

function leftView(status: VolumeStatus, pod?: Pod): VolumeView {
  const { podUid, specName, plugin, lastError } = status;
  const podName = pod?.metadata.name ?? podUid;
  const spec = { podName, podUid, volumeName: specName, plugin };
  return viewOf(spec, pod === undefined ? '' : podNamespace(pod), { state: 'Unmounting', message: lastError });
}

/** The version of an object is that on disk unless a newer one is about to be written. */
async function objectsOf(
  { objects }: ControlDeps,
  pod: Pod,
  { objects: shown, state, isStale }: VolumeStatus,
  signal: AbortSignal,
): Promise<VolumeView['status']['objects']> {
  const managers = new Map<string, ObjectManager<ManagedObject>>([
    ['ConfigMap', objects.configMaps],
    ['Secret', objects.secrets],
  ]);
  const limit = AbortSignal.any([signal, AbortSignal.timeout(versionMsMax)]);
  return await Promise.all(
    shown.map(async ({ kind, name }) => {
      const manager = state === 'mounted' && !isStale && name !== undefined ? managers.get(kind) : undefined;
      const reading = manager?.get(podNamespace(pod), name ?? '', limit).catch(() => undefined);
      const resourceVersion = (await reading)?.metadata.resourceVersion;
      return { kind, ...(name !== undefined && { name }), ...(resourceVersion !== undefined && { resourceVersion }) };
    }),
  );
}

type Unset<T> = { readonly [K in keyof T]: T[K] | undefined };

function viewOf(
  spec: Unset<VolumeView['spec']> & Pick<VolumeView['spec'], 'podName' | 'podUid' | 'volumeName'>,
  namespace: string,
  status: Unset<VolumeView['status']> & Pick<VolumeView['status'], 'state'>,
  created?: string,
): VolumeView {
  const name = `${spec.podName}.${spec.volumeName}`;
  // As JSON carries it: without what is not set.
  return JSON.parse(
    JSON.stringify({
      apiVersion: 'mountlet.dev/v1alpha1',
      kind: 'Volume',
      metadata: { name, namespace, creationTimestamp: created },
      spec,
      status,
    }),
  ) as VolumeView;
}
