/**
 * Registers the drivers whose registration sockets appear in the node's directory, and removes those whose sockets go. Each socket
 * has a loop of its own, so that one that hangs or lies holds up no other.
 *
 *   socket ──ask──▶ validate ──▶ driver listed ──NodeGetInfo──▶ Node and CSINode written ──▶ plugin notified
 *      ▲                                                                                        │ gone, or replaced by a driver
 *      └───── later each time ◀── any failure: unlisted, plugin notified ◀──────────────────────┘ of a higher version
 *
 * Invariant: what is listed has a loop, which removes it at its end.
 */
import { BackOff } from '../base/back-off.ts';
import { type Pausing, pauseOf } from '../base/clock.ts';
import { OperatingError, messageOf } from '../base/errors.ts';
import { type TaskFailed, runTask } from '../base/run-task.ts';
import { WakeSignal } from '../base/wake-signal.ts';
import { requireServer, socketChannel } from '../grpc/grpc-channel.ts';
import { type GrpcClient, grpcClient } from '../grpc/grpc-client.ts';
import { type PluginInfo, Registration as RegistrationService } from '../grpc/messages/registration_pb.ts';
import { driverError } from './failures.ts';
import { ClusterAwayError } from './csi-node.ts';
import { type CsiDrivers, type Registration, driverText } from './drivers.ts';
import { type DriverInfo, driverInfoOf } from './node-info.ts';
import { validDriver } from './plugin-info.ts';
import { watchPluginSockets } from './plugin-watcher.ts';

/** Where the cluster learns of drivers. */
interface DriverRecords {
  install(driver: string, info: DriverInfo, signal: AbortSignal): Promise<void>;
  remove(driver: string, isBack: () => boolean, signal: AbortSignal): Promise<void>;
}

export type RegistrationNotice =
  | TaskFailed
  | { readonly kind: 'DriverRegistered'; readonly driver: string; readonly socket: string }
  | { readonly kind: 'DriverUnregistered'; readonly driver: string; readonly socket: string }
  | {
      readonly kind: 'DriverNotRegistered';
      readonly socket: string;
      readonly message: string;
      readonly retryMs: number;
    }
  /** A registered driver, whose entry in the cluster is not, or no longer, as it should be. */
  | {
      readonly kind: 'DriverNotRecorded';
      readonly driver: string;
      readonly message: string;
      readonly retryMs: number;
    };

interface RegistrationsDeps extends Pausing {
  readonly drivers: CsiDrivers;
  readonly records: DriverRecords;
  /** How often a driver is asked again how many volumes the node can take; undefined: never. */
  readonly updatePeriodMs: (driver: string) => number | undefined;
  readonly timeouts: typeof registrationTimeouts;
  readonly notify: (notice: RegistrationNotice) => void;
}

const dialMs = 10_000;
export const registrationTimeouts = { infoMs: 1_000, notifyMs: 5_000 };
const nodeInfoMs = 120_000;
/** Far more than a name, a path and some versions take. */
const infoBytesMax = 64 * 1024;
const retries = { firstMs: 500, msMax: 122_000 };

interface Loop {
  readonly identity: string;
  readonly socket: RegistrationSocket;
  readonly stop: AbortController;
  readonly ended: Promise<void>;
}

export class Registrations {
  readonly #deps: RegistrationsDeps;
  readonly #loops = new Map<string, Loop>();
  readonly #ending = new Set<Promise<void>>();
  /** Sockets of the first pass that were not tried yet; undefined before it. */
  #untried: Set<string> | undefined;

  constructor(deps: RegistrationsDeps) {
    this.#deps = deps;
  }

  /** Until the signal aborts. Drivers stay listed then, and stay in the CSINode: the next start finds them again. */
  async run(directory: string, signal: AbortSignal): Promise<void> {
    try {
      for await (const sockets of watchPluginSockets(directory, this.#deps.clock, signal)) {
        for (const [path, { identity, stop }] of this.#loops) if (sockets.get(path) !== identity) stop.abort();
        for (const [path, identity] of sockets) {
          if (this.#loops.get(path)?.identity !== identity) this.#begin(path, identity, signal);
        }
        this.#untried ??= new Set(sockets.keys());
        this.#tried('');
      }
    } finally {
      for (const { stop } of this.#loops.values()) stop.abort();
      while (this.#ending.size > 0) await Promise.all(this.#ending);
    }
  }

  /** Asks drivers again what they say of the node: those whose limit may have been wrong, or whose period may have changed. */
  refresh(driver: string): void {
    for (const { socket } of this.#loops.values()) if (socket.driver === driver) socket.refresh();
  }

  /** The API server is back, or something else has changed that failures may have come from. */
  retryNow(): void {
    for (const { socket } of this.#loops.values()) socket.wake();
  }

  /** A socket that was made again waits for the end of its predecessor, so that the driver goes before it comes. */
  #begin(path: string, identity: string, signal: AbortSignal): void {
    const before = this.#loops.get(path);
    const stop = new AbortController();
    const left = (driver: string, mattersToOthers: boolean): void => {
      // Another of its name may have been replaced by it, or have waited for its end. Those that fail do not wake each other.
      if (mattersToOthers) {
        for (const { socket: other } of this.#loops.values()) {
          if (other !== socket && other.driver === driver) other.wake();
        }
      }
      this.#track(this.#forget(driver, signal));
    };
    const socket = new RegistrationSocket(path, this.#deps, left, () => this.#tried(path));
    const run = async (): Promise<void> => {
      await before?.ended;
      const gone = AbortSignal.any([stop.signal, signal]);
      await runTask(`the registration at ${path}`, () => socket.run(gone, signal), this.#deps, gone);
      this.#tried(path);
      if (this.#loops.get(path)?.socket === socket) this.#loops.delete(path);
    };
    const ended = run();
    this.#track(ended);
    this.#loops.set(path, { identity, socket, stop, ended });
  }

  /** Takes a driver out of the cluster, as soon as that works and unless it is back by then. */
  async #forget(driver: string, signal: AbortSignal): Promise<void> {
    const { drivers, records, notify } = this.#deps;
    const isBack = (): boolean => drivers.get(driver) !== undefined;
    const backOff = new BackOff(retries);
    while (!signal.aborted && !isBack()) {
      try {
        return await records.remove(driver, isBack, signal);
      } catch (error) {
        if (signal.aborted) return;
        const retryMs = backOff.next();
        notify({ kind: 'DriverNotRecorded', driver, message: messageOf(error), retryMs });
        await pauseOf(this.#deps)(retryMs, signal).catch(() => {});
      }
    }
  }

  #tried(path: string): void {
    this.#untried?.delete(path);
    if (this.#untried?.size === 0) this.#deps.drivers.settled();
  }

  #track(work: Promise<void>): void {
    const tracked = work.finally(() => this.#ending.delete(tracked));
    this.#ending.add(tracked);
  }
}

class RegistrationSocket {
  readonly #path: string;
  readonly #deps: RegistrationsDeps;
  readonly #left: (driver: string, mattersToOthers: boolean) => void;
  readonly #tried: () => void;
  readonly #woken = new WakeSignal();
  readonly #backOff = new BackOff(retries);
  #registration: Registration | undefined;
  #driver: string | undefined;
  #askedAt = 0;
  /** What it says of the node has to be asked again, or was not recorded. */
  #isStale = false;
  #isAnnounced = false;
  /** Another driver of the name was listed before. */
  #hasReplaced = false;
  #reported: string | undefined;

  /**
   * `left` is called when the driver is listed no more; it matters to others of its name when it was registered, or had taken the
   * place of one that was. `tried` is called after each attempt.
   */
  constructor(
    path: string,
    deps: RegistrationsDeps,
    left: (driver: string, mattersToOthers: boolean) => void,
    tried: () => void,
  ) {
    this.#path = path;
    this.#deps = deps;
    this.#left = left;
    this.#tried = tried;
  }

  get driver(): string | undefined {
    return this.#driver;
  }

  wake(): void {
    this.#woken.wake();
  }

  refresh(): void {
    this.#isStale = true;
    this.wake();
  }

  /** `gone` also aborts with `stopped`, which is the end of the node and not of the driver. */
  async run(gone: AbortSignal, stopped: AbortSignal): Promise<void> {
    while (!gone.aborted) {
      const waitMs = await this.#step(gone);
      this.#tried();
      if (!gone.aborted && waitMs > 0) await this.#woken.sleep(waitMs, this.#deps.clock, gone);
    }
    if (!stopped.aborted) this.#unregister();
  }

  /** Resolves with how long to wait for the next. */
  async #step(signal: AbortSignal): Promise<number> {
    const { notify, clock } = this.#deps;
    const isRegistered = this.#registration?.isCurrent() === true;
    try {
      if (!isRegistered) await this.#register(signal);
      else await this.#refreshIfDue(signal);
    } catch (error) {
      if (signal.aborted) return 0;
      const retryMs = this.#backOff.next();
      const message = messageOf(error);
      const driver = this.#driver;
      // Repeated for hours, one text is said once.
      if (message !== this.#reported) {
        if (this.#registration?.isCurrent() === true && driver !== undefined) {
          notify({ kind: 'DriverNotRecorded', driver, message, retryMs });
        } else notify({ kind: 'DriverNotRegistered', socket: this.#path, message, retryMs });
      }
      this.#reported = message;
      return retryMs;
    }
    this.#backOff.reset();
    this.#reported = undefined;
    const periodMs = this.#deps.updatePeriodMs(this.#driver ?? '') ?? Infinity;
    return Math.max(0, this.#askedAt + periodMs - clock.now());
  }

  async #register(signal: AbortSignal): Promise<void> {
    await requireServer(this.#path, dialMs, this.#deps.clock, signal).catch((error: unknown) => {
      signal.throwIfAborted();
      throw failure(`dial failed at socket ${this.#path}, err: ${messageOf(error)}`);
    });
    const channel = socketChannel(this.#path, { answerBytesMax: infoBytesMax });
    const plugin = grpcClient(RegistrationService, channel);
    try {
      const asked = plugin.getInfo({}, { timeoutMs: this.#deps.timeouts.infoMs, signal });
      const info = await inSafeWords(asked, signal).catch((error: unknown) => {
        signal.throwIfAborted();
        throw failure(`failed to get plugin info using RPC GetInfo at socket ${this.#path}, err: ${messageOf(error)}`);
      });
      await this.#accept(info, plugin, signal);
    } finally {
      channel.close();
    }
  }

  async #accept(
    info: PluginInfo,
    plugin: GrpcClient<(typeof RegistrationService)['method']>,
    signal: AbortSignal,
  ): Promise<void> {
    const options = { timeoutMs: this.#deps.timeouts.notifyMs, signal };
    let away: unknown;
    try {
      await this.#list(info, signal);
    } catch (error) {
      signal.throwIfAborted();
      if (!(error instanceof ClusterAwayError)) {
        this.#unregister();
        const status = { pluginRegistered: false, error: messageOf(error) };
        await plugin.notifyRegistrationStatus(status, options).catch(() => {});
        throw error;
      }
      away = error;
    }
    try {
      const status = { pluginRegistered: true, error: '' };
      await inSafeWords(plugin.notifyRegistrationStatus(status, options), signal);
    } catch (error) {
      signal.throwIfAborted();
      this.#unregister();
      throw failure(`failed to send registration status at socket ${this.#path}, err: ${messageOf(error)}`);
    }
    this.#isAnnounced = true;
    this.#deps.notify({ kind: 'DriverRegistered', driver: info.name, socket: this.#path });
    // The driver works; that the cluster does not know of it yet is another matter, which is tried again.
    if (away !== undefined) throw away;
  }

  async #list(info: PluginInfo, signal: AbortSignal): Promise<void> {
    const { drivers } = this.#deps;
    if (info.type !== 'CSIPlugin') {
      const type = driverText(info.type, 64);
      throw failure(`no handler registered for plugin type: ${type} at socket ${this.#path}`);
    }
    this.#driver = info.name;
    const driver = attempt('plugin validation failed', () =>
      validDriver(info, this.#path, (name) => drivers.get(name)),
    );
    this.#hasReplaced = drivers.get(driver.name) !== undefined;
    this.#registration = drivers.register(driver);
    try {
      await requireServer(driver.endpoint, dialMs, this.#deps.clock, signal);
      await this.#ask(driver.name, signal);
    } catch (error) {
      if (signal.aborted || error instanceof ClusterAwayError) throw error;
      throw failure(`plugin registration failed with err: ${messageOf(error)}`);
    }
  }

  async #refreshIfDue(signal: AbortSignal): Promise<void> {
    const driver = this.#driver ?? '';
    const periodMs = this.#deps.updatePeriodMs(driver) ?? Infinity;
    if (this.#isStale || this.#deps.clock.now() >= this.#askedAt + periodMs) await this.#ask(driver, signal);
  }

  /** Asks the driver for what it says of this node, and records it. */
  async #ask(driver: string, signal: AbortSignal): Promise<void> {
    const { drivers, records, clock } = this.#deps;
    this.#askedAt = clock.now();
    this.#isStale = false;
    try {
      const asked = drivers.node(driver).nodeGetInfo({}, { timeoutMs: nodeInfoMs, signal });
      await records.install(driver, driverInfoOf(await inSafeWords(asked, signal)), signal);
    } catch (error) {
      this.#isStale = true;
      throw error;
    }
  }

  #unregister(): void {
    const driver = this.#driver;
    const wasOurs = this.#registration?.remove() === true;
    this.#registration = undefined;
    if (!wasOurs || driver === undefined) return;
    const wasRegistered = this.#isAnnounced;
    this.#isAnnounced = false;
    if (wasRegistered) this.#deps.notify({ kind: 'DriverUnregistered', driver, socket: this.#path });
    this.#left(driver, wasRegistered || this.#hasReplaced);
  }
}

/** Failures in the words of Go, without the library's times, which would make each late answer another piece of news. */
async function inSafeWords<T>(answer: Promise<T>, signal: AbortSignal): Promise<T> {
  try {
    return await answer;
  } catch (thrown) {
    signal.throwIfAborted();
    throw driverError(thrown, []);
  }
}

function failure(text: string): OperatingError {
  return new OperatingError('DriverNotRegistered', driverText(`RegisterPlugin error -- ${text}`));
}

function attempt<T>(what: string, act: () => T): T {
  try {
    return act();
  } catch (error) {
    throw failure(`${what} with err: ${messageOf(error)}`);
  }
}
