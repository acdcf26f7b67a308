/**
 * The controller side of CSI drivers whose sockets are given: one attacher, provisioner and resizer for each, on the view of storage
 * that all loops share. A driver is asked who it is when it answers, and again after its connection was lost; one that does not
 * answer holds up nothing but itself.
 */
import { setMaxListeners } from 'node:events';
import { type Client, connectivityState } from '@grpc/grpc-js';
import { onAbort } from '../../base/abort.ts';
import { BackOff } from '../../base/back-off.ts';
import { OperatingError, errorCode, messageOf } from '../../base/errors.ts';
import type { ControllerDeps } from '../../controllers/cluster/cluster.ts';
import type { StorageLoop } from '../../controllers/storage/storage.ts';
import type { StorageFollower, StorageView } from '../../controllers/storage/storage-view.ts';
import { VolumeExpander } from '../../controllers/storage/volume-expander.ts';
import { requireServer, socketChannel } from '../../grpc/grpc-channel.ts';
import { GrpcError } from '../../grpc/grpc-error.ts';
import { DriverError, driverError } from '../failures.ts';
import { Attacher } from './attacher.ts';
import { type ControllerDriver, identify } from './controller-driver.ts';
import { Provisioner } from './provisioner.ts';
import { driverGrower } from './resizer.ts';

/** gRPC's own default, which all drivers are written for. */
const answerBytesMax = 4 * 1024 * 1024;
/** A driver is started once, and may take its time; looking for its socket costs next to nothing. */
const retries = { firstMs: 100, msMax: 5_000 };
const dialMs = 10_000;

export type CsiControllerNotice =
  | { readonly kind: 'CsiControllerServes'; readonly driver: string; readonly socket: string }
  /** It is tried again: emitted once for each reason. */
  | { readonly kind: 'CsiControllerUnreachable'; readonly message: string };
type Notify = (notice: CsiControllerNotice) => void;

/** Absolute paths of sockets. */
export function csiControllers(sockets: readonly string[], notify: Notify): StorageLoop {
  return async (deps, view, signal) => {
    /** Names to sockets: two provisioners for one driver would undo what the other does. */
    const served = new Map<string, string>();
    await Promise.all(sockets.map((socket) => new DriverSide(socket, served, deps, view, notify).run(signal)));
  };
}

class DriverSide {
  readonly #socket: string;
  readonly #served: Map<string, string>;
  readonly #deps: ControllerDeps;
  readonly #view: StorageView;
  readonly #notify: Notify;
  /** What was said last: of a driver that cannot be used, or its name. */
  #complaint = '';
  #announced = '';

  constructor(socket: string, served: Map<string, string>, deps: ControllerDeps, view: StorageView, notify: Notify) {
    this.#socket = socket;
    this.#served = served;
    this.#deps = deps;
    this.#view = view;
    this.#notify = notify;
  }

  async run(signal: AbortSignal): Promise<void> {
    const backOff = new BackOff(retries);
    while (!signal.aborted) {
      const channel = socketChannel(this.#socket, { answerBytesMax });
      try {
        await requireServer(this.#socket, dialMs, this.#deps.clock, signal);
        const driver = await identify(channel, signal);
        backOff.reset();
        await this.#serve(driver, channel, signal);
      } catch (error) {
        if (!signal.aborted) this.#complain(error);
      } finally {
        channel.close();
      }
      if (!signal.aborted) await this.#deps.clock.sleep(backOff.next(), signal).catch(() => {});
    }
  }

  /** Until the connection is lost. */
  async #serve(driver: ControllerDriver, channel: Client, signal: AbortSignal): Promise<void> {
    const { name } = driver;
    const other = this.#served.get(name);
    if (other !== undefined) throw new OperatingError('DriverServedTwice', `${name} is served at "${other}" already`);
    this.#served.set(name, this.#socket);
    this.#complaint = '';
    if (name !== this.#announced) {
      this.#notify({ kind: 'CsiControllerServes', driver: name, socket: this.#socket });
    }
    this.#announced = name;
    const stop = new AbortController();
    const over = AbortSignal.any([signal, stop.signal]);
    // Every call listens to it; Node takes more than ten for a leak.
    setMaxListeners(0, over);
    const loops = runDriverLoops(driver, this.#deps, this.#view, over);
    try {
      // A connection that nothing needed for long ends too: then everything is looked at again.
      await Promise.race([lost(channel, over), loops]);
    } finally {
      stop.abort();
      this.#served.delete(name);
      await loops.catch(() => {});
    }
  }

  /** Once for each reason: what gRPC says of one has times in it. */
  #complain(thrown: unknown): void {
    const error = thrown instanceof GrpcError ? driverError(thrown, []) : thrown;
    const reason = error instanceof DriverError ? error.code : messageOf(error);
    if (reason === this.#complaint) return;
    this.#complaint = reason;
    this.#announced = '';
    const message = `Cannot use the CSI driver at "${this.#socket}": ${inWords(error)}; it is tried again until it answers`;
    this.#notify({ kind: 'CsiControllerUnreachable', message });
  }
}

function inWords(error: unknown): string {
  const code = errorCode(error);
  if (code === 'ENOENT') return 'there is no such socket, start the driver or correct the path';
  return code === 'ECONNREFUSED' ? 'nothing listens there, start the driver' : messageOf(error);
}

/** Resolves when the connection has ended, or the signal aborts. */
function lost(client: Client, signal: AbortSignal): Promise<void> {
  const channel = client.getChannel();
  return new Promise((resolve) => {
    const stopListening = onAbort(signal, () => resolve());
    const watch = (): void => {
      const state = channel.getConnectivityState(false);
      if (state !== connectivityState.READY || signal.aborted) {
        stopListening();
        return resolve();
      }
      channel.watchConnectivityState(state, Infinity, () => watch());
    };
    watch();
  });
}

/** The loops of one driver for as long as it answers. */
export async function runDriverLoops(
  driver: ControllerDriver,
  deps: ControllerDeps,
  view: StorageView,
  signal: AbortSignal,
): Promise<void> {
  const attacher: Attacher = new Attacher(driver, deps, view, (volume) => provisioner.volumeChanged(volume), signal);
  const provisioner = new Provisioner(driver, deps, view, (volumeName) => attacher.attachedNode(volumeName), signal);
  const grower = driverGrower(driver, deps.clusterFor('csi-resizer', signal), signal);
  const expanders = grower === undefined ? [] : [new VolumeExpander(grower, deps, view, signal)];
  const own: StorageFollower = {
    claimChanged: (_id, claim) => claim && provisioner.claimChanged(claim),
    volumeChanged(_name, volume) {
      if (volume === undefined) return;
      attacher.volumeChanged(volume);
      provisioner.volumeChanged(volume);
    },
    classChanged: (name) => provisioner.classChanged(name),
  };
  const stops = [own, ...expanders].map((follower) => view.follow(follower));
  try {
    // Nothing is deleted before it is known what is attached.
    stops.push(...(await attacher.start()));
    await Promise.all([attacher, provisioner, ...expanders].map((loop) => loop.run(signal)));
  } finally {
    for (const stop of stops) stop();
  }
}
