/**
 * From a new claim, with a pod that uses it, to the volume mounted at the pod's path, through a whole `mountlet up` and a driver whose
 * storage costs next to nothing. Beside it, in the same run, the same calls of the driver with as many durable writes of the same
 * API server, one after the other for each claim: what no control plane can do without. Ratios are to that.
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
  persistentVolumeClaims,
  pods,
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
const storageClasses: ResourceReference = {
  group: 'storage.k8s.io',
  version: 'v1',
  kind: 'StorageClass',
  plural: 'storageclasses',
  isNamespaced: false,
};
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
      if (method.parent.typeName.startsWith('csi.')) this.calls.push({ method, request });
      if (method.localName === 'nodePublishVolume') this.#publishedOne();
      return create(method.output, answer);
    };
    const own = await serveMessages(socket, [Identity, Controller, Node], act);
    const registration = await serveMessages(registrySocket, [Registration], act);
    return { stop: () => [own, registration].forEach((server) => server.forceShutdown()) };
  }

  /** Resolves when so many volumes more are mounted. */
  async published(count: number): Promise<void> {
    this.#awaited = this.#published + count;
    await new Promise<void>((resolve) => (this.#reached = resolve));
  }

  #publishedOne(): void {
    this.#published += 1;
    if (this.#published === this.#awaited) this.#reached();
  }
}

interface Run {
  readonly ms: number;
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

async function byNode(machine: BenchMachine, driver: BenchDriver, names: readonly string[]): Promise<Run> {
  const { client } = machine;
  const before = await revision(machine);
  driver.calls = [];
  const ms = await timedMs(async () => {
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
  return { ms, calls, writes };
}

async function removed({ client }: BenchMachine, names: readonly string[]): Promise<void> {
  for (const kind of [pods, persistentVolumeClaims]) {
    await Promise.all(names.map((name) => client.delete(kind, { namespace, name }, undefined, signal)));
    for (;;) {
      const { items } = await client.list(kind, { namespace }, signal);
      if (items.length === 0) break;
      await new Promise((resolve) => setTimeout(resolve, 50));
    }
  }
}

/** The same calls in the same order, for volumes of other names, with the writes spread between them. */
async function byHand(
  machine: BenchMachine,
  names: readonly string[],
  calls: readonly Call[],
  writes: number,
): Promise<number> {
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
  const ms = await timedMs(() => Promise.all(names.map(chain)));
  for (const targetPath of targets)
    await clients.nodeUnpublishVolume({ volumeId: 'x', targetPath }, { timeoutMs: 60_000, signal });
  await Promise.all(names.map((name) => machine.client.delete(configMaps, { namespace, name }, undefined, signal)));
  channel.close();
  return ms;
}

/** Of one claim: those of a crowd come in any order, and a first publication is what they end with. */
async function compare(
  machine: BenchMachine,
  driver: BenchDriver,
  count: number,
  rounds: number,
  goal: number,
): Promise<void> {
  const [node, hand, writes, calls]: [number[], number[], number[], number[]] = [[], [], [], []];
  const { calls: ofOne } = await byNode(machine, driver, ['warm']);
  for (let round = 0; round < rounds; round += 1) {
    const run = await byNode(machine, driver, namesOf(`claim-${round}`, count));
    node.push(run.ms);
    writes.push(run.writes / count);
    calls.push(run.calls.length / count);
    hand.push(await byHand(machine, namesOf(`hand-${round}`, count), ofOne, Math.round(run.writes / count)));
  }
  const [own, bare] = [median(node), median(hand)];
  say(
    `${count} at once, median of ${rounds}: ${own.toFixed(0)} ms; the same ${median(calls).toFixed(1)} calls and ` +
      `${median(writes).toFixed(1)} writes for each claim ${bare.toFixed(0)} ms; ratio ${(own / bare).toFixed(2)} (target <= ${goal})`,
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
