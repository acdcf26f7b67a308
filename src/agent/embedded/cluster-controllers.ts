/** The loops of a cluster's control plane, over HTTP against any API server, in one of several processes at a time. */
import { randomUUID } from 'node:crypto';
import { hostname } from 'node:os';
import { systemRandom } from '../../apiserver/model/random.ts';
import { systemClock } from '../../base/clock.ts';
import { OperatingError } from '../../base/errors.ts';
import { type TaskFailed, runTask } from '../../base/run-task.ts';
import { apiClientDefaults, connectApiClient } from '../../client/api/api-client.ts';
import type { ClusterAccess } from '../../client/credentials/cluster-access.ts';
import type { ReflectorNotice } from '../../client/reflector.ts';
import { poolDefaults } from '../../client/transport/connection-pool.ts';
import type { Cluster, ControllerFailed } from '../../controllers/cluster/cluster.ts';
import { type LeaderNotice, lead } from '../../controllers/cluster/leader-election.ts';
import type { ForceDetachSetting } from '../../controllers/attachments/attach-detach.ts';
import {
  chooseControllers,
  controllerNames,
  runLoops,
  schedulerName,
  signerNames,
} from '../../controllers/controllers.ts';
import { type CsiControllerNotice, csiControllers } from '../../csi/controller/csi-controllers.ts';
import { SharedCluster } from '../machine/http-cluster.ts';

/** One would watch every kind that the server has, the others have no key to sign with: only who asks for them gets them. */
const offByDefault = ['garbage-collector-controller', ...signerNames];
const lease = { namespace: 'kube-system', name: 'mountlet-controllers' };
/** Several loops share them; kube-controller-manager has a fifth, for clusters with many more clients. */
const rate = { perSecond: 100, burst: 200 };

export type ControllersNotice = ReflectorNotice | ControllerFailed | TaskFailed | LeaderNotice | CsiControllerNotice;

interface ControllersSettings extends ForceDetachSetting {
  readonly names: ReadonlySet<string>;
  readonly leaderElects: boolean;
  /** Sockets of CSI drivers whose controller side runs here; absolute paths. */
  readonly csiControllers: readonly string[];
}

/** As kube-controller-manager reads it: `*`, `NAME`, `-NAME`. None is too few unless there are drivers to serve. */
export function clusterControllers(list: string, hasDrivers: boolean): ReadonlySet<string> {
  const names = chooseControllers(list, [...controllerNames, schedulerName], offByDefault);
  if (names.size > 0 || hasDrivers) return names;
  throw new OperatingError('NoControllers', `Cannot run nothing: --controllers=${list} leaves none`);
}

interface ControllersDeps {
  readonly access: Pick<ClusterAccess, 'endpoint' | 'credentials' | 'transport'>;
  readonly notify: (notice: ControllersNotice) => void;
  /** The loops run. */
  readonly started: () => void;
}

/** Resolves after the signal; rejects when the lease was lost, and then nothing more is written. */
export async function runClusterControllers(
  { names, leaderElects, csiControllers: sockets, disablesForceDetachOnTimeout }: ControllersSettings,
  { access, notify, started }: ControllersDeps,
  signal: AbortSignal,
): Promise<void> {
  const clock = systemClock;
  const client = connectApiClient(
    access,
    clock,
    { ...apiClientDefaults, userAgent: 'mountlet-controllers', rate },
    poolDefaults,
  );
  // Also when the lease is lost: nothing goes on then.
  const ended = new AbortController();
  try {
    const { authorityPem } = await access.endpoint.trust(signal);
    const deps = { client, clock, random: Math.random, notify };
    let shared: SharedCluster | undefined;
    const discover = async (): Promise<void> => {
      shared = await SharedCluster.connect(deps, AbortSignal.any([signal, ended.signal]));
    };
    await runTask('discovery', discover, deps, signal);
    if (shared === undefined) return;
    const cluster: SharedCluster = shared;
    const work = async (requireLease: () => void, until: AbortSignal): Promise<void> => {
      started();
      const clusterFor = (controller: string, over: AbortSignal): Cluster =>
        cluster.for(controller, over, requireLease);
      const parts = { clusterFor, clock, random: systemRandom, notify, authorityPem };
      const provisioners = sockets.length === 0 ? [] : [csiControllers(sockets, notify)];
      await runLoops({ ...parts, disablesForceDetachOnTimeout }, names, until, provisioners);
      if (!until.aborted)
        throw new OperatingError('NoControllers', 'Cannot go on: none of them can run on this API server');
    };
    if (!leaderElects) return await work(() => {}, signal);
    const identity = `${hostname()}_${randomUUID()}`;
    const outcome = await lead(
      {
        clusterFor: (controller, over) => cluster.for(controller, over),
        clock,
        monotonicMs: () => performance.now(),
        random: Math.random,
        notify,
      },
      { ...lease, identity },
      work,
      signal,
    );
    // As kube-controller-manager: what is half known is forgotten, and whoever starts it again gets a process that reads all of it.
    if (outcome === 'lost') {
      const text = `Lost the lease "${lease.namespace}/${lease.name}": another process may lead now; start this one again to stand by`;
      throw new OperatingError('LeaseLost', text);
    }
  } finally {
    ended.abort();
    await client.close();
  }
}
