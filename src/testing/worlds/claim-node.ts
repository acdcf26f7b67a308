/**
 * A node for claims, without a machine: it mounts what the claims of its pods are bound to, lets each pod write a line into each
 * volume, and unmounts when the pod ends. Its disk outlives it, and sees what must never happen.
 */
import { WorkQueue } from '../../controllers/cluster/work-queue.ts';
import { coreKind, unlessRefused } from '../../controllers/cluster/cluster.ts';
import type { LocalDirectories } from '../../controllers/storage/local-path.ts';
import type { Pod } from '../../kube/kinds/pod/pod.ts';
import type { PersistentVolumeClaim } from '../../kube/kinds/storage/persistent-volume-claim.ts';
import type { PersistentVolume } from '../../kube/kinds/storage/persistent-volume.ts';
import { isTerminated } from '../../kube/references/claims.ts';
import { boundClaim, claimNameOf, specOfClaim } from '../../kube/references/volume-spec.ts';
import type { KubeObject } from '../../kube/schema/kind.ts';
import type { PartyDeps } from './storage-world.ts';

const localRoot = '/local';

type Effect = <Result>(text: string, act: () => Promise<Result>) => Promise<Result>;

interface Mount {
  readonly podKey: string;
  readonly podUid: string;
  readonly path: string;
}

export class ClaimDisk {
  readonly violations: string[] = [];
  readonly mounts = new Map<string, Mount>();
  /** Lines by path. Directories of the user are there without being made. */
  readonly #content = new Map<string, string[]>();
  /** What was written for a claim, by UID. */
  readonly #written = new Map<string, string[]>();
  readonly #isClaimed: (volumeName: string) => boolean;
  readonly #runs: (podUid: string) => boolean;

  /** A claim names the volume; the pod is there and has not ended. */
  constructor(isClaimed: (volumeName: string) => boolean, runs: (podUid: string) => boolean) {
    this.#isClaimed = isClaimed;
    this.#runs = runs;
  }

  /** Those of provisioned volumes. */
  get directoryNames(): readonly string[] {
    return [...this.#content.keys()].filter((path) => path.startsWith(`${localRoot}/`)).map((path) => path.slice(7));
  }

  linesOf(path: string): readonly string[] {
    return this.#content.get(path) ?? [];
  }

  directories(effect: Effect): LocalDirectories {
    const pathOf = (name: string): string => `${localRoot}/${name}`;
    return {
      pathOf,
      make: (name) =>
        effect(`make directory ${name}`, async () => {
          if (!this.#content.has(pathOf(name))) this.#content.set(pathOf(name), []);
        }),
      list: () => Promise.resolve(this.directoryNames),
      removeEmpty: (name) =>
        effect(`remove directory ${name} if it is empty`, async () => {
          if (this.linesOf(pathOf(name)).length === 0) this.#content.delete(pathOf(name));
        }),
      remove: (name) =>
        effect(`remove directory ${name}`, async () => {
          const path = pathOf(name);
          // A mount left by a pod that has ended has no owner.
          if ([...this.mounts.values()].some((mount) => mount.path === path && this.#runs(mount.podUid)))
            this.#violated(`${path} is removed and mounted`);
          if (this.#isClaimed(name)) this.#violated(`${path} is removed while its claim lives`);
          this.#content.delete(path);
        }),
    };
  }

  mount(id: string, mount: Mount): void {
    if (mount.path.startsWith(localRoot) && !this.#content.has(mount.path))
      this.#violated(`${mount.path} is not there`);
    this.mounts.set(id, mount);
  }

  /** A pod reads what is there and adds a line, once. */
  write(path: string, claimUid: string, podUid: string): void {
    const lines = this.#content.get(path) ?? [];
    const written = this.#written.get(claimUid) ?? [];
    const missing = written.filter((line) => !lines.includes(line));
    if (missing.length > 0) this.#violated(`${path} has lost ${missing.join()}`);
    if (path.startsWith(localRoot) && lines.length !== written.length) this.#violated(`${path} has lines of others`);
    const line = `${claimUid} ${podUid}`;
    if (written.includes(line)) return;
    this.#content.set(path, [...lines, line]);
    this.#written.set(claimUid, [...written, line]);
  }

  /** All that was ever written for a claim. */
  writtenFor(claimUid: string): readonly string[] {
    return this.#written.get(claimUid) ?? [];
  }

  #violated(what: string): void {
    this.violations.push(what);
  }
}

export async function runClaimNode(deps: PartyDeps, nodeName: string, signal: AbortSignal): Promise<void> {
  const cluster = deps.clusterFor('node', signal);
  const { disk, effect } = deps;
  const queue = new WorkQueue('node', deps);
  const [pods, claims, volumes] = ['Pod', 'PersistentVolumeClaim', 'PersistentVolume'].map((name) =>
    coreKind(cluster, name),
  ) as [ReturnType<typeof coreKind>, ReturnType<typeof coreKind>, ReturnType<typeof coreKind>];
  const waiting = new Set<string>();
  const touchWaiting = (): void => {
    for (const key of waiting) queue.touch(key);
  };

  const unmount = async (podKey: string, exceptUid?: string): Promise<void> => {
    for (const [id, mount] of disk.mounts) {
      if (mount.podKey !== podKey || mount.podUid === exceptUid) continue;
      await effect(`unmount ${id}`, async () => void disk.mounts.delete(id));
    }
  };
  const start = async (key: string, pod: Pod): Promise<boolean> => {
    const uid = pod.metadata.uid ?? '';
    for (const volume of pod.spec.volumes ?? []) {
      const name = claimNameOf(pod, volume);
      if (name === undefined) continue;
      const claim = await cluster.get(cluster.keyOf(claims, pod.metadata.namespace ?? '', name));
      let spec: PersistentVolume | undefined;
      try {
        const bound = boundClaim(pod, volume, claim as PersistentVolumeClaim | undefined);
        const found = (await cluster.get(cluster.keyOf(volumes, '', bound.volumeName))) as PersistentVolume | undefined;
        spec = specOfClaim(pod, volume, { mounted: false, asDevice: false }, bound, found).persistentVolume;
      } catch {
        signal.throwIfAborted();
        return false;
      }
      const path = spec.spec.local?.path ?? spec.spec.hostPath?.path ?? '';
      await effect(`mount ${path}`, async () =>
        disk.mount(`${uid}/${volume.name}`, { podKey: key, podUid: uid, path }),
      );
      await effect(`write ${path}`, async () => disk.write(path, claim?.metadata.uid ?? '', uid));
    }
    return true;
  };
  const setRunning = (key: string, uid: string | undefined): Promise<void> =>
    unlessRefused(
      cluster.update(
        key,
        (object) =>
          object.metadata.uid === uid ? ({ ...object, status: { phase: 'Running' } } as KubeObject) : object,
        'status',
      ),
      404,
    );
  const look = async (key: string): Promise<void> => {
    const pod = (await cluster.get(key)) as Pod | undefined;
    waiting.delete(key);
    await unmount(key, pod?.metadata.uid);
    if (pod === undefined || pod.spec.nodeName !== nodeName) return;
    const { uid } = pod.metadata;
    if (pod.metadata.deletionTimestamp !== undefined) {
      await unmount(key);
      return unlessRefused(cluster.delete(key, uid === undefined ? {} : { uid }, { gracePeriodSeconds: 0 }), 404, 409);
    }
    if (isTerminated(pod)) return unmount(key);
    if (pod.status?.phase === 'Running') return;
    waiting.add(key);
    if (await start(key, pod)) {
      waiting.delete(key);
      await setRunning(key, uid);
    }
  };
  const stops = [
    cluster.watch(pods, ({ key }) => queue.touch(key)),
    cluster.watch(claims, touchWaiting),
    cluster.watch(volumes, touchWaiting),
  ];
  // What an earlier life left mounted may belong to a pod that has gone meanwhile.
  for (const { podKey } of disk.mounts.values()) queue.touch(podKey);
  try {
    await queue.run(look, signal);
  } finally {
    for (const stop of stops) stop();
  }
}
