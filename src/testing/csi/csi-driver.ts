/**
 * A storage driver for tests, with its controller, node and registration: volumes are sparse files on loop devices. It really
 * mounts, it survives being killed, and it fails, hangs, lies and dies as its script says. `test/fixtures/csi-driver-program.ts`
 * runs it as a process.
 */
import { randomUUID } from 'node:crypto';
import { mkdirSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout } from 'node:timers/promises';
import { type DescMethod, type JsonObject, type Message, create, fromJson, toJson } from '@bufbuild/protobuf';
import { Controller, Identity, Node } from '../../grpc/messages/csi_pb.ts';
import { Registration } from '../../grpc/messages/registration_pb.ts';
import { CallFailure, serveMessages } from '../servers/grpc-server.ts';
import { DriverLog, type LogLine, type LoggedRequest } from './driver-log.ts';
import { type Called, type DriverScript, type Fault, FaultCounts } from './driver-script.ts';
import { driverServices } from './driver-services.ts';
import { VolumeTable } from './driver-volumes.ts';

export interface CsiDriverSettings {
  readonly name: string;
  readonly nodeId: string;
  /** One storage: drivers of several nodes share it, with its volumes and its log. */
  readonly directory: string;
  readonly socket: string;
  /** Where it makes itself known to a node; without it, it does not. */
  readonly registrationSocket?: string;
  readonly services?: readonly ('controller' | 'node')[];
}

export interface CsiDriver {
  readonly log: DriverLog;
  /** Drops its connections and its sockets; what is mounted stays. */
  stop(): void;
}

export interface DriverEffects {
  /** Asked at each call. */
  readonly script: () => DriverScript;
  /** Where a script lets the process die. */
  readonly die: () => void;
  /** What a promise of it delays is the call, before its work or before its answer. */
  readonly watch?: ((call: Called, moment: 'asked' | 'answered') => Promise<unknown> | void) | undefined;
}

export async function startCsiDriver(settings: CsiDriverSettings, effects: DriverEffects): Promise<CsiDriver> {
  const { name, nodeId, directory, socket, registrationSocket, services = ['controller', 'node'] } = settings;
  mkdirSync(directory, { recursive: true });
  const volumes = new VolumeTable(directory);
  if (services.includes('node')) volumes.addNode(nodeId);
  const log = new DriverLog(directory);
  const stagingDirectory = join(directory, 'staged', encodeURIComponent(nodeId));
  const handlers = {
    ...driverServices({ name, nodeId, stagingDirectory, volumes, script: effects.script }),
    getInfo: () => ({ type: 'CSIPlugin', name, endpoint: socket, supportedVersions: ['1.0.0'] }),
    notifyRegistrationStatus: () => ({}),
  };
  const calls = new DriverCalls(nodeId, handlers, log, effects);
  const act = (method: DescMethod, request: Message): Promise<Message> => calls.act(method, request);
  // A process that was killed leaves its sockets.
  for (const path of [socket, registrationSocket]) if (path !== undefined) rmSync(path, { force: true });
  const parts = { controller: Controller, node: Node };
  const servers = [await serveMessages(socket, [Identity, ...services.map((one) => parts[one])], act)];
  if (registrationSocket !== undefined) servers.push(await serveMessages(registrationSocket, [Registration], act));
  return {
    log,
    stop() {
      for (const server of servers) server.forceShutdown();
      for (const path of [socket, registrationSocket]) if (path !== undefined) rmSync(path, { force: true });
    },
  };
}

type Handlers = Readonly<Record<string, (request: never, signal: AbortSignal) => unknown>>;

class DriverCalls {
  readonly #nodeId: string;
  readonly #handlers: Handlers;
  readonly #log: DriverLog;
  readonly #effects: DriverEffects;
  readonly #faults: FaultCounts;
  readonly #busy = new Set<string>();
  // The number of a process comes again on a node of its own.
  readonly #run = randomUUID().slice(0, 8);
  #count = 0;

  constructor(nodeId: string, handlers: Handlers, log: DriverLog, effects: DriverEffects) {
    this.#nodeId = nodeId;
    this.#handlers = handlers;
    this.#log = log;
    this.#effects = effects;
    this.#faults = new FaultCounts(log.faultCounts());
  }

  async act(method: DescMethod, request: Message): Promise<Message> {
    const { shown, secrets } = withoutSecrets(toJson(method.input, request) as LoggedRequest);
    const volume = shown.volumeId ?? shown.name ?? '';
    const isOfNode = method.parent.name !== 'Controller';
    const node = isOfNode ? this.#nodeId : (shown.nodeId ?? '');
    const called = { method: method.name, volume, node };
    const { fault, matched } = this.#faults.next(this.#effects.script().faults ?? [], called);
    const isBefore = fault !== undefined && (fault.moment ?? 'before') === 'before' && fault.answer === undefined;
    const isWorkedOn = !(isBefore && (fault.code !== undefined || fault.end !== undefined));
    this.#count += 1;
    const call = `${this.#nodeId}/${this.#run}/${this.#count}`;
    const secretNames = Object.keys(secrets);
    const asked: LogLine = {
      at: 'asked',
      call,
      ...called,
      request: shown,
      secrets: secretNames,
      isWorkedOn,
      faults: matched,
    };
    this.#log.write(asked);
    await this.#effects.watch?.(called, 'asked');
    if (isBefore && fault.delayMs !== undefined) await setTimeout(fault.delayMs);
    if (isBefore) killAll(fault);
    // As real drivers do, it refuses a second call for a volume while the first is carried out.
    const isBusy = volume !== '' && this.#busy.has(volume);
    const outcome = isWorkedOn && !isBusy ? await this.#work(method, request, volume) : undefined;
    const told = this.#answer(method, outcome, fault, Object.values(secrets));
    const isFailure = told instanceof CallFailure;
    this.#log.write({
      at: 'ended',
      call,
      work: outcome === undefined ? 'none' : outcome instanceof CallFailure ? 'failed' : 'done',
      code: fault?.end ?? (isFailure ? told.code : 'OK'),
      // As the script has it, before secrets are put into it.
      message: isFailure ? (fault?.message ?? told.message) : '',
      answer: isFailure ? {} : (fault?.answer ?? toJson(method.output, told)),
    });
    await this.#effects.watch?.(called, 'answered');
    if (!isBefore && fault?.delayMs !== undefined) await setTimeout(fault.delayMs);
    if (fault !== undefined && !isBefore) killAll(fault);
    if (fault?.end === 'crash') this.#effects.die();
    if (fault?.end !== undefined) return new Promise(() => {});
    if (isFailure) throw told;
    return told;
  }

  async #work(method: DescMethod, request: Message, volume: string): Promise<Message | CallFailure> {
    this.#busy.add(volume);
    try {
      const handle = this.#handlers[method.localName];
      if (handle === undefined) return new CallFailure('UNIMPLEMENTED', `unknown method ${method.name}`);
      // The work goes on when the caller has gone.
      return create(method.output, (await handle(request as never, new AbortController().signal)) as JsonObject);
    } catch (thrown) {
      return thrown instanceof CallFailure ? thrown : new CallFailure('INTERNAL', (thrown as Error).message);
    } finally {
      this.#busy.delete(volume);
    }
  }

  #answer(
    method: DescMethod,
    outcome: Message | CallFailure | undefined,
    fault: Fault | undefined,
    secrets: readonly string[],
  ): Message | CallFailure {
    const { code, message = `scripted for ${method.name}`, answer } = fault ?? {};
    if (code !== undefined) return new CallFailure(code, message.replaceAll('{secrets}', secrets.join(' ')));
    if (outcome === undefined) return new CallFailure('ABORTED', 'another call for this volume is being carried out');
    if (answer === undefined || outcome instanceof CallFailure) return outcome;
    const lie = JSON.parse(
      JSON.stringify(answer).replaceAll('{secrets}', JSON.stringify(secrets.join(' ')).slice(1, -1)),
    ) as JsonObject;
    return fromJson(method.output, { ...(toJson(method.output, outcome) as JsonObject), ...lie });
  }
}

function killAll({ kills = [] }: Fault): void {
  for (const pid of kills) process.kill(pid, 'SIGKILL');
}

const tokensKey = 'csi.storage.k8s.io/serviceAccount.tokens';

/** Tokens come among the attributes of a volume. */
function withoutSecrets({ secrets, volumeContext, ...rest }: LoggedRequest): {
  readonly shown: LoggedRequest;
  readonly secrets: Readonly<Record<string, string>>;
} {
  if (volumeContext === undefined) return { shown: rest, secrets: (secrets ?? {}) as Record<string, string> };
  const { [tokensKey]: tokens, ...context } = volumeContext;
  const all = { ...(secrets as object), ...(tokens !== undefined && { [tokensKey]: tokens }) };
  return { shown: { ...rest, volumeContext: context }, secrets: all };
}
