/**
 * Pods of a whole node, `mountlet up --runtime cri`, on a containerd of its own with real runc and CNI plugins: from the answer
 * of the API server to a bound pod until it is Ready, and from its deletion until it is gone; one at a time and a crowd at once.
 * Beside them, on the same containerd, run the bare calls that no node can do without; ratios are to those. Then what the node
 * and its runtime cost when nothing happens, and first of all what one call costs.
 *
 * `--crowd N` and `--idle N` are the numbers of pods; `--calls` prints which calls a pod takes.
 */
import { loadavg } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { parseArgs } from 'node:util';
import { configMaps, pods } from '../src/client/api/resource-reference.ts';
import { type Containerd, containerdSkip, startContainerd } from '../src/testing/machine/containerd.ts';
import { busyboxImage } from '../src/testing/machine/oci-image.ts';
import { type RelayedCall, startRuntimeRelay } from '../src/testing/servers/runtime-relay.ts';
import { BarePods, CpuMeter } from './bare-pods.ts';
import { BenchMachine } from './bench-machine.ts';
import { median, timedMs } from './measuring.ts';

const { values: options } = parseArgs({
  options: {
    crowd: { type: 'string', default: '50' },
    idle: { type: 'string', default: '100' },
    calls: { type: 'boolean', default: false },
  },
});
const [crowd, idle] = [Number(options.crowd), Number(options.idle)];
const single = 15;
const callRounds = 2_000;
const idleMs = 20_000;
const limitMs = 900_000;
const namespace = 'default';
const image = busyboxImage({ name: 'docker.io/library/bench:1' });

const say = (line: string): void => void process.stdout.write(`${line}\n`);
const skip = containerdSkip();
if (skip !== false) {
  say(`skipped: ${skip}`);
  process.exit(0);
}
const stop = new AbortController();
const signal = AbortSignal.any([stop.signal, AbortSignal.timeout(limitMs)]);
for (const name of ['SIGINT', 'SIGTERM'] as const) process.on(name, () => stop.abort(new Error(`ended by ${name}`)));
const closing: (() => unknown)[] = [];
const atEnd = { after: (act: () => unknown): void => void closing.unshift(act) };

interface Spent {
  readonly ms: number;
  /** Of whoever calls, and of the runtime with all that it starts. */
  readonly callerMs: number;
  readonly runtimeMs: number;
}

/** One after the other for so many rounds, then medians; or all at once, then for each. */
interface Figures {
  readonly start: Spent;
  readonly removal: Spent;
}

async function measured(meter: CpuMeter, callerMs: () => number, work: () => Promise<unknown>): Promise<Spent> {
  const [callerBefore, runtimeBefore] = [callerMs(), meter.spentMs()];
  const ms = await timedMs(work);
  return { ms, callerMs: callerMs() - callerBefore, runtimeMs: meter.spentMs() - runtimeBefore };
}

const ownMs = (): number => {
  const { user, system } = process.cpuUsage();
  return (user + system) / 1_000;
};

async function callCost(containerd: Containerd): Promise<void> {
  const callOptions = { timeoutMs: 5_000, signal };
  for (const [name, call] of [
    ['Version', () => containerd.runtime.version({}, callOptions)],
    ['ListContainers', () => containerd.runtime.listContainers({}, callOptions)],
  ] as const) {
    for (let round = 0; round < 300; round += 1) await call();
    const before = ownMs();
    const ms = await timedMs(async () => {
      for (let round = 0; round < callRounds; round += 1) await call();
    });
    const each = (total: number): string => ((total * 1_000) / callRounds).toFixed(0);
    say(`one call of ${name}: ${each(ms)} µs, ${each(ownMs() - before)} µs of processor time in the caller`);
  }
}

/** Resolves when as many pods as are named are in the state. */
class PodWatch {
  readonly #states = new Map<string, 'ready' | 'gone' | 'there'>();
  #changed: () => void = () => {};

  async follow({ client }: BenchMachine): Promise<void> {
    for await (const { type, object } of await client.watch(pods, { namespace }, signal)) {
      const { metadata, status } = object as unknown as {
        readonly metadata: { readonly name: string };
        readonly status?: { readonly conditions?: readonly { readonly type: string; readonly status: string }[] };
      };
      const isReady = status?.conditions?.some(
        (condition) => condition.type === 'Ready' && condition.status === 'True',
      );
      this.#states.set(metadata.name, type === 'DELETED' ? 'gone' : isReady === true ? 'ready' : 'there');
      this.#changed();
    }
  }

  async until(names: readonly string[], state: 'ready' | 'gone'): Promise<void> {
    while (!names.every((name) => this.#states.get(name) === state)) {
      await new Promise<void>((resolve, reject) => {
        this.#changed = resolve;
        signal.addEventListener('abort', () => reject(signal.reason), { once: true });
      });
    }
  }
}

class NodePods {
  readonly #machine: BenchMachine;
  readonly #watch = new PodWatch();
  readonly #following: Promise<void>;

  constructor(machine: BenchMachine) {
    this.#machine = machine;
    this.#following = this.#watch.follow(machine);
    this.#following.catch(() => {}); // it ends with the machine
  }

  readonly spentMs = (): number => this.#machine.spent().cpuMs;

  async start(names: readonly string[]): Promise<void> {
    const spec = {
      nodeName: 'bench',
      terminationGracePeriodSeconds: 2,
      containers: [{ name: 'main', image: 'bench:1', volumeMounts: [{ name: 'config', mountPath: '/etc/config' }] }],
      volumes: [{ name: 'config', configMap: { name: 'config' } }],
    };
    await Promise.all(
      names.map((name) => this.#machine.client.create(pods, { namespace }, { metadata: { name }, spec }, signal)),
    );
    await this.#watch.until(names, 'ready');
  }

  async remove(names: readonly string[]): Promise<void> {
    await Promise.all(names.map((name) => this.#machine.client.delete(pods, { namespace, name }, undefined, signal)));
    await this.#watch.until(names, 'gone');
  }
}

async function nodeMachine(endpoint: string): Promise<BenchMachine> {
  const args = ['--runtime', 'cri', '--container-runtime-endpoint', endpoint];
  const machine = await BenchMachine.start(['maxPods: 200'], [], signal, args);
  const configMap = { metadata: { name: 'config' }, data: { key: 'value' } };
  await machine.client.create(configMaps, { namespace }, configMap, signal);
  return machine;
}

const namesOf = (kind: string, count: number): string[] =>
  Array.from({ length: count }, (_, index) => `${kind}-${index}`);

async function bareFigures(meter: CpuMeter, bare: BarePods, names: readonly string[]): Promise<Figures> {
  let ids: readonly string[] = [];
  const start = await measured(meter, ownMs, async () => {
    ids = await Promise.all(names.map((name) => bare.start(name)));
  });
  const removal = await measured(meter, ownMs, () => Promise.all(ids.map((id) => bare.remove(id))));
  return { start, removal };
}

async function nodeFigures(meter: CpuMeter, node: NodePods, names: readonly string[]): Promise<Figures> {
  const start = await measured(meter, node.spentMs, () => node.start(names));
  const removal = await measured(meter, node.spentMs, () => node.remove(names));
  return { start, removal };
}

function sayFigures(what: string, count: number, node: readonly Figures[], bare: readonly Figures[]): void {
  for (const kind of ['start', 'removal'] as const) {
    const of = (figures: readonly Figures[], pick: (spent: Spent) => number): number =>
      median(figures.map((one) => pick(one[kind])));
    const ms = (figures: readonly Figures[]): number => of(figures, (spent) => spent.ms);
    const cpu = (figures: readonly Figures[]): number =>
      of(figures, (spent) => spent.callerMs + spent.runtimeMs) / count;
    const own = of(node, (spent) => spent.callerMs) / count;
    const times = (a: number, b: number): string => `${(a / b).toFixed(2)} x`;
    say(
      `${what}, ${kind}: ${ms(node).toFixed(0)} ms; bare calls ${ms(bare).toFixed(0)} ms; ${times(ms(node), ms(bare))}\n` +
        `  processor time for each pod: ${cpu(node).toFixed(0)} ms, ${own.toFixed(1)} of them the node's; ` +
        `bare calls ${cpu(bare).toFixed(0)} ms; ${times(cpu(node), cpu(bare))}`,
    );
  }
}

/** Calls that name the pod's sandbox, its container or their requests; the rest are those of the relist and of health. */
function sayCalls(calls: readonly RelayedCall[]): void {
  const counts = new Map<string, number>();
  for (const { method } of calls) counts.set(method, (counts.get(method) ?? 0) + 1);
  const all = [...counts].toSorted(([, a], [, b]) => b - a).map(([method, count]) => `${method} ${count}`);
  say(`  ${all.join(', ')}`);
}

try {
  const containerd = await startContainerd(atEnd);
  await containerd.import(image);
  const meter = new CpuMeter(containerd.pid);
  closing.push(() => meter.remove());
  await callCost(containerd);
  const bare = new BarePods(containerd, image.name, signal);
  const machine = await nodeMachine(containerd.endpoint);
  atEnd.after(() => machine.stop());
  const node = new NodePods(machine);

  const [nodes, bares]: [Figures[], Figures[]] = [[], []];
  await node.start(['warm']);
  for (let round = 0; round < single; round += 1) {
    nodes.push(await nodeFigures(meter, node, [`single-${round}`]));
    bares.push(await bareFigures(meter, bare, [`bare-${round}`]));
  }
  sayFigures(`1 pod, median of ${single}`, 1, nodes, bares);
  const theirs = await bareFigures(meter, bare, namesOf('bare-crowd', crowd));
  sayFigures(`${crowd} pods at once`, crowd, [await nodeFigures(meter, node, namesOf('crowd', crowd))], [theirs]);

  const many = namesOf('idle', idle);
  await node.start(many);
  await sleep(3_000, undefined, { signal });
  const spent = await measured(meter, node.spentMs, () => sleep(idleMs, undefined, { signal }));
  const share = (ms: number): string => `${((ms * 100) / spent.ms).toFixed(1)} %`;
  say(
    `idle with ${idle + 1} pods: the node ${share(spent.callerMs)} of a processor, containerd ${share(spent.runtimeMs)}`,
  );
  await node.remove([...many, 'warm']);
  await machine.stop(); // a runtime serves one node: another would end pods that it does not know

  // A relay would cost time of its own, so what is counted is not what was measured.
  const from = join(containerd.directory, 'relay.sock');
  const relay = await startRuntimeRelay(atEnd, { from, to: containerd.socket });
  const counted = await nodeMachine(relay.endpoint);
  atEnd.after(() => counted.stop());
  const countedPods = new NodePods(counted);
  await countedPods.start(['warm']);
  for (const [kind, count] of [
    ['one', 1],
    ['many', crowd],
  ] as const) {
    const names = namesOf(kind, count);
    for (const act of ['start', 'remove'] as const) {
      const before = relay.calls.length;
      await countedPods[act](names);
      const calls = relay.calls.slice(before);
      say(`calls for each of ${count} pods, ${act}: ${(calls.length / count).toFixed(1)}`);
      if (options.calls) sayCalls(calls);
    }
  }
  const quiet = relay.calls.length;
  await sleep(10_000, undefined, { signal });
  say(`calls in 10 s of a node with one pod: ${relay.calls.length - quiet}`);
  say(`load ${(loadavg()[0] ?? 0).toFixed(1)}`);
} finally {
  for (const act of closing) await act();
}
