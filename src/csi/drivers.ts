/**
 * The CSI drivers that are registered with this node. A driver is known from the moment its registration is accepted until its
 * registration socket goes; volumes that it has mounted stay mounted meanwhile, and calls about them fail until it is back.
 */
import type { Client } from '@grpc/grpc-js';
import { CoalescingTopic } from '../base/coalescing-queue.ts';
import { MountletError } from '../base/errors.ts';
import { socketChannel } from '../grpc/grpc-channel.ts';
import { type GrpcClient, grpcClient } from '../grpc/grpc-client.ts';
import { Node } from '../grpc/messages/csi_pb.ts';
import type { ClassifiedFailure } from '../plugins/plugin.ts';

/** The calls of a driver's Node service. */
export type DriverNode = GrpcClient<(typeof Node)['method']>;

export interface RegisteredDriver {
  readonly name: string;
  /** The path of the driver's own socket. */
  readonly endpoint: string;
  /** Of the registration protocol, `1.0.0`; not of the driver. */
  readonly version: string;
}

export interface Registration {
  /** False once it was removed, or replaced by another of the same name. */
  isCurrent(): boolean;
  /** Has no effect on one that has replaced it; answers whether it had one. */
  remove(): boolean;
}

/** Nothing was decided: the driver may register at any time, so the call is to be repeated. */
class DriverNotFoundError extends MountletError implements ClassifiedFailure {
  readonly reason = 'DriverNotFound';
  readonly failureClass = 'transient';
  constructor(name: string) {
    super(`driver name ${name} not found in the list of registered CSI drivers`);
  }
}

/** gRPC's own default, which all drivers are written for. */
const answerBytesMax = 4 * 1024 * 1024;

interface Entry {
  readonly driver: RegisteredDriver;
  readonly channel: Client;
  readonly node: DriverNode;
}

export class CsiDrivers {
  readonly #entries = new Map<string, Entry>();
  readonly #changes = new CoalescingTopic<string>();
  readonly #settled = new AbortController();

  /** Replaces one of the same name. */
  register(driver: RegisteredDriver): Registration {
    const channel = socketChannel(driver.endpoint, { answerBytesMax });
    const entry = { driver, channel, node: grpcClient(Node, channel) };
    this.#entries.get(driver.name)?.channel.close();
    this.#entries.set(driver.name, entry);
    this.#changes.publish(driver.name);
    const isCurrent = (): boolean => this.#entries.get(driver.name) === entry;
    return { isCurrent, remove: () => isCurrent() && this.#remove(driver.name, entry) };
  }

  /** Throws DriverNotFoundError. To be asked for each call anew: a driver may be replaced between two. */
  node(name: string): DriverNode {
    const entry = this.#entries.get(name);
    if (entry === undefined) throw new DriverNotFoundError(name);
    return entry.node;
  }

  /** Those that were there at the start have registered, or have failed to. */
  settled(): void {
    this.#settled.abort();
  }

  /** Resolves when the driver is registered, when those of the start have settled, or when the signal aborts. */
  async whenSettled(name: string, signal: AbortSignal): Promise<void> {
    if (this.#entries.has(name) || this.#settled.signal.aborted) return;
    const over = AbortSignal.any([signal, this.#settled.signal]);
    for await (const changed of this.#changes.follow(over)) if (changed === name) return;
  }

  get(name: string): RegisteredDriver | undefined {
    return this.#entries.get(name)?.driver;
  }

  names(): readonly string[] {
    return [...this.#entries.keys()].sort();
  }

  /** The names of drivers that come, go or are replaced, from this call on. */
  follow(signal: AbortSignal): AsyncIterable<string> {
    return this.#changes.follow(signal);
  }

  close(): void {
    for (const [name, entry] of this.#entries) this.#remove(name, entry);
  }

  #remove(name: string, { channel }: Entry): boolean {
    this.#entries.delete(name);
    // Calls under way go on to their end.
    channel.close();
    this.#changes.publish(name);
    return true;
  }
}

/** What a driver says, as part of one line for people: it may be anything of any length. */
export function driverText(text: string, charactersMax = 1024): string {
  return text.slice(0, charactersMax).replace(/[\p{Cc}\u2028\u2029]+/gu, ' ');
}
