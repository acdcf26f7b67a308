/**
 * From a new claim, with a pod that uses it, to the volume mounted at the pod's path, through a whole `mountlet up` and a driver whose
 * storage costs next to nothing. Beside it, in the same run, the same calls of the driver with as many durable writes of the same
 * API server, one after the other for each claim: what no control plane can do without. Ratios are to that. The driver answers
 * no NodePublishVolume before all volumes are mounted: the start of containers is in neither.
 *
 * `npm run bench -- csi`; `--crowd N` is the number of claims at once.
 */
import { mkdirSync, mkdtempSync, rmdirSync, rmSync } from 'node:fs';
import { loadavg, tmpdir } from 'node:os';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import type { DescMethod, Message, MessageInitShape } from '@bufbuild/protobuf';
import { create } from '@bufbuild/protobuf';
import {
  type ResourceReference,
  configMaps,
  nodes,
  persistentVolumeClaims,
  persistentVolumes,
  pods,
  storageClasses,
  volumeAttachments,
} from '../src/client/api/resource-reference.ts';
import { systemMounts } from '../src/disk/mounts/mounts.ts';
import { socketChannel } from '../src/grpc/grpc-channel.ts';
import { grpcClient } from '../src/grpc/grpc-client.ts';
import {
  Controller,
  ControllerServiceCapability_RPC_Type as ControllerCan,
  Identity,
  Node,
  NodeServiceCapability_RPC_Type as NodeCan,
  type NodePublishVolumeRequest,
  type NodeUnpublishVolumeRequest,
  PluginCapability_Service_Type as PluginCan,
} from '../src/grpc/messages/csi_pb.ts';
import { Registration } from '../src/grpc/messages/registration_pb.ts';
import type { Node as NodeObject } from '../src/kube/kinds/node.ts';
import { serveMessages } from '../src/testing/servers/grpc-server.ts';
import { BenchMachine } from './bench-machine.ts';
import { median, timedMs } from './measuring.ts';

const { values: options } = parseArgs({ options: { crowd: { type: 'string', default: '100' } } });
const crowd = Number(options.crowd);
const single = 15;
const crowdRounds = 3;
const limitMs = 600_000;
const namespace = 'default';
const driverName = 'bench.csi.example.com';
/** About the size of a PersistentVolume. */
const filler = 'x'.repeat(1_500);

const say = (line: string): void => void process.stdout.write(`${line}\n`);
const signal = AbortSignal.timeout(limitMs);
const directory = mkdtempSync(join(tmpdir(), 'mountlet-bench-csi-'));
const socket = join(directory, 'csi.sock');
const mounts = systemMounts();

interface Call {
  readonly method: DescMethod;
  readonly request: Message;
}

/** Volumes are one directory: what is measured is the way to them. */
class BenchDriver {
  calls: Call[] = [];
  #published = 0;
  #awaited = 0;
  #reached: () => void = () => {};
  #all: Promise<void> = Promise.resolve();

  readonly #answers: Readonly<Record<string, (request: never) => Record<string, unknown>>> = {
    getPluginInfo: () => ({ name: driverName, vendorVersion: '1' }),
    getPluginCapabilities: () => ({
      capabilities: [{ type: { case: 'service', value: { type: PluginCan.CONTROLLER_SERVICE } } }],
    }),
    probe: () => ({ ready: true }),
    getInfo: () => ({ type: 'CSIPlugin', name: driverName, endpoint: socket, supportedVersions: ['1.0.0'] }),
    notifyRegistrationStatus: () => ({}),
    controllerGetCapabilities: () => ({
      capabilities: [ControllerCan.CREATE_DELETE_VOLUME, ControllerCan.PUBLISH_UNPUBLISH_VOLUME].map((type) => ({
        type: { case: 'rpc', value: { type } },
      })),
    }),
    createVolume: ({ name, capacityRange }: { name: string; capacityRange?: { requiredBytes: bigint } }) => ({
      volume: { volumeId: name, capacityBytes: capacityRange?.requiredBytes ?? 0n },
    }),
    deleteVolume: () => ({}),
    controllerPublishVolume: () => ({}),
    controllerUnpublishVolume: () => ({}),
    nodeGetInfo: () => ({ nodeId: 'bench' }),
    nodeGetCapabilities: () => ({
      capabilities: [{ type: { case: 'rpc', value: { type: NodeCan.STAGE_UNSTAGE_VOLUME } } }],
    }),
    nodeStageVolume: () => ({}),
    nodeUnstageVolume: () => ({}),
    nodePublishVolume: ({ targetPath }: NodePublishVolumeRequest) => {
      mkdirSync(targetPath);
      mounts.bind(join(directory, 'content'), targetPath, { readOnly: false, options: [] });
      return {};
    },
    nodeUnpublishVolume: ({ targetPath }: NodeUnpublishVolumeRequest) => {
      mounts.unmount(targetPath);
      rmdirSync(targetPath);
      return {};
    },
  };

  async serve(registrySocket: string): Promise<{ stop(): void }> {
    const act = async (method: DescMethod, request: Message): Promise<MessageInitShape<DescMethod['output']>> => {
      const answer = this.#answers[method.localName]?.(request as never) ?? {};
      if ('volumeId' in request || method.localName === 'createVolume') this.calls.push({ method, request });
      if (method.localName === 'nodePublishVolume') await this.#publishedOne();
      return create(method.output, answer);
    };
    const own = await serveMessages(socket, [Identity, Controller, Node], act);
    const registration = await serveMessages(registrySocket, [Registration], act);
    return { stop: () => [own, registration].forEach((server) => server.forceShutdown()) };
  }

  /** Resolves when so many volumes more are mounted. */
  async published(count: number): Promise<void> {
    this.#awaited = this.#published + count;
    this.#all = new Promise<void>((resolve) => (this.#reached = resolve));
    await this.#all;
  }

  #publishedOne(): Promise<void> {
    this.#published += 1;
    if (this.#published === this.#awaited) this.#reached();
    return this.#all;
  }
}

interface Took {
  readonly ms: number;
  /** Of `mountlet up`. */
  readonly cpuMs: number;
}

interface Run extends Took {
  readonly calls: readonly Call[];
  /** Of all clients of the API server, Events included. */
  readonly writes: number;
}

const namesOf = (kind: string, count: number): string[] =>
  Array.from({ length: count }, (_, index) => `${kind}-${index}`);

async function revision({ client }: BenchMachine): Promise<number> {
  const { resourceVersion } = await client.list(configMaps, { namespace, limit: 1 }, signal);
  return Number(resourceVersion);
}

async function measured(machine: BenchMachine, work: () => Promise<unknown>): Promise<Took> {
  const before = machine.spent().cpuMs;
  const ms = await timedMs(work);
  return { ms, cpuMs: machine.spent().cpuMs - before };
}

async function byNode(machine: BenchMachine, driver: BenchDriver, names: readonly string[]): Promise<Run> {
  const { client } = machine;
  const before = await revision(machine);
  driver.calls = [];
  const took = await measured(machine, async () => {
    const mounted = driver.published(names.length);
    await Promise.all(
      names.map(async (name) => {
        const spec = {
          storageClassName: 'bench',
          accessModes: ['ReadWriteOnce'],
          resources: { requests: { storage: '1Mi' } },
        };
        await client.create(persistentVolumeClaims, { namespace }, { metadata: { name }, spec }, signal);
        const podSpec = {
          terminationGracePeriodSeconds: 0,
          automountServiceAccountToken: false,
          containers: [
            {
              name: 'main',
              image: 'none',
              command: ['/bin/sleep', '1000'],
              volumeMounts: [{ name: 'data', mountPath: '/data' }],
            },
          ],
          volumes: [{ name: 'data', persistentVolumeClaim: { claimName: name } }],
        };
        await client.create(pods, { namespace }, { metadata: { name }, spec: podSpec }, signal);
      }),
    );
    await mounted;
  });
  const calls = [...driver.calls];
  const writes = (await revision(machine)) - before;
  await removed(machine, names);
  return { ...took, calls, writes };
}

/** With what follows by itself: nothing of it is left to be done while something else is measured. */
async function removed({ client }: BenchMachine, names: readonly string[]): Promise<void> {
  const until = async (isSo: () => Promise<boolean>): Promise<void> => {
    while (!(await isSo())) await new Promise((resolve) => setTimeout(resolve, 50));
  };
  const isGone = async (kind: ResourceReference): Promise<boolean> =>
    (await client.list(kind, kind.isNamespaced ? { namespace } : {}, signal)).items.length === 0;
  for (const kind of [pods, persistentVolumeClaims]) {
    await Promise.all(names.map((name) => client.delete(kind, { namespace, name }, undefined, signal)));
    await until(() => isGone(kind));
  }
  for (const kind of [volumeAttachments, persistentVolumes]) await until(() => isGone(kind));
  await until(async () => {
    const { items } = await client.list(nodes, {}, signal);
    return items.every((item) => {
      const { volumesInUse = [], volumesAttached = [] } = (item as NodeObject).status ?? {};
      return volumesInUse.length + volumesAttached.length === 0;
    });
  });
}

/** The same calls in the same order, for volumes of other names, with the writes spread between them. */
async function byHand(
  machine: BenchMachine,
  names: readonly string[],
  calls: readonly Call[],
  writes: number,
): Promise<Took> {
  const channel = socketChannel(socket);
  const clients = {
    ...grpcClient(Identity, channel),
    ...grpcClient(Controller, channel),
    ...grpcClient(Node, channel),
  };
  const targets: string[] = [];
  const chain = async (name: string): Promise<void> => {
    const metadata = { name };
    await machine.client.create(configMaps, { namespace }, { metadata, data: { filler } }, signal);
    let written = 1;
    const writeUntil = async (count: number): Promise<void> => {
      for (; written < count; written += 1) {
        const data = { filler, written: String(written) };
        await machine.client.update(configMaps, { namespace, name }, { metadata, data }, signal);
      }
    };
    for (const [index, { method, request }] of calls.entries()) {
      await writeUntil(Math.round((writes * (index + 1)) / calls.length));
      const asked = { ...request } as Record<string, unknown>;
      if ('targetPath' in asked) {
        asked['targetPath'] = join(directory, name);
        targets.push(join(directory, name));
      }
      const call = clients[method.localName as 'nodePublishVolume'];
      await call(asked, { timeoutMs: 60_000, signal });
    }
  };
  const took = await measured(machine, () => Promise.all(names.map(chain)));
  for (const targetPath of targets)
    await clients.nodeUnpublishVolume({ volumeId: 'x', targetPath }, { timeoutMs: 60_000, signal });
  await Promise.all(names.map((name) => machine.client.delete(configMaps, { namespace, name }, undefined, signal)));
  channel.close();
  return took;
}

/** Of one claim: those of a crowd come in any order, and a first publication is what they end with. */
async function compare(
  machine: BenchMachine,
  driver: BenchDriver,
  count: number,
  rounds: number,
  goal: number,
): Promise<void> {
  const [byNodes, byHands]: [Run[], Took[]] = [[], []];
  const { calls: ofOne } = await byNode(machine, driver, ['warm']);
  for (let round = 0; round < rounds; round += 1) {
    const run = await byNode(machine, driver, namesOf(`claim-${round}`, count));
    byNodes.push(run);
    byHands.push(await byHand(machine, namesOf(`hand-${round}`, count), ofOne, Math.round(run.writes / count)));
  }
  const medianOf = <Each extends Took>(runs: readonly Each[], of: (run: Each) => number): number =>
    median(runs.map(of));
  const [own, bare] = [byNodes, byHands].map((runs) => medianOf(runs, ({ ms }) => ms));
  const [ownCpu, bareCpu] = [byNodes, byHands].map((runs) => medianOf(runs, ({ cpuMs }) => cpuMs));
  const calls = medianOf(byNodes, (run) => run.calls.length / count);
  const writes = medianOf(byNodes, (run) => run.writes / count);
  say(
    `${count} at once, median of ${rounds}: ${own?.toFixed(0)} ms; the same ${calls.toFixed(1)} calls and ` +
      `${writes.toFixed(1)} writes for each claim ${bare?.toFixed(0)} ms; ratio ${((own ?? 0) / (bare ?? 0)).toFixed(2)} ` +
      `(target <= ${goal}); processor time ${ownCpu} ms and ${bareCpu} ms`,
  );
}

mkdirSync(join(directory, 'content'));
const driver = new BenchDriver();
const machine = await BenchMachine.start(['maxPods: 200'], [], signal, ['--csi-controller', socket]);
const registry = join(machine.directory, 'state', 'node', 'plugins_registry');
const server = await driver.serve(join(registry, 'bench-reg.sock'));
try {
  const metadata = { name: 'bench' };
  await machine.client.create(storageClasses, {}, { metadata, provisioner: driverName }, signal);
  await compare(machine, driver, 1, single, 1.5);
  await compare(machine, driver, crowd, crowdRounds, 1.2);
  say(`load ${(loadavg()[0] ?? 0).toFixed(1)}`);
} finally {
  await machine.stop();
  server.stop();
  rmSync(directory, { recursive: true, force: true });
}
