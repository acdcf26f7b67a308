/**
 * What workloads cost, on a whole machine with `mountlet up`: a Deployment of 100 from its creation to Ready against 100 pods that are
 * created by hand, in turns, so that noise of the machine meets both alike; a rolling update of it; and what the process spends when
 * nothing happens, with 1,000 objects. Its pods have no program: they idle, as those of the `pause` image.
 *
 * `npm run bench -- workloads`
 */
import { loadavg } from 'node:os';
import { setTimeout as sleep } from 'node:timers/promises';
import { pods } from '../src/client/api/resource-reference.ts';
import type { ResourceReference } from '../src/client/api/resource-reference.ts';
import type { Pod } from '../src/kube/kinds/pod/pod.ts';
import type { Deployment } from '../src/kube/kinds/workloads/deployment.ts';
import type { KubeObject } from '../src/kube/schema/kind.ts';
import { BenchMachine } from './bench-machine.ts';
import { median, timedMs } from './measuring.ts';

const namespace = 'default';
const crowd = 100;
const rounds = 5;
const pollMs = 50;
/** Several times what loops of seconds need to be seen. */
const idleMs = 30_000;
/** What was begun by the creation of the objects ends first, also the collection of what that left in memory. */
const settleMs = 60_000;
const limitMs = 1_200_000;

const stop = new AbortController();
const signal = AbortSignal.any([stop.signal, AbortSignal.timeout(limitMs)]);
for (const name of ['SIGINT', 'SIGTERM'] as const) process.on(name, () => stop.abort(new Error(`ended by ${name}`)));
const say = (line: string): void => void process.stdout.write(`${line}\n`);
const load = (): string => `load ${(loadavg()[0] ?? 0).toFixed(1)}`;

const reference = (group: string, kind: string, plural: string): ResourceReference => {
  return { group, version: 'v1', kind, plural, isNamespaced: true };
};
const deployments = reference('apps', 'Deployment', 'deployments');
const podSpec = { terminationGracePeriodSeconds: 0, containers: [{ name: 'main', image: 'none' }] };

function deployment(name: string, replicas: number): KubeObject {
  const labels = { app: name };
  const template = { metadata: { labels }, spec: podSpec };
  return {
    metadata: { name },
    spec: { replicas, selector: { matchLabels: labels }, template },
  } as unknown as KubeObject;
}

const machine = await BenchMachine.start(['maxPods: 300'], [], signal);
const { client } = machine;

async function until(isDone: () => Promise<boolean>): Promise<void> {
  while (!(await isDone())) await sleep(pollMs, undefined, { signal });
}

async function listed(): Promise<readonly Pod[]> {
  return (await client.list(pods, { namespace }, signal)).items as readonly Pod[];
}

const allReady = (): Promise<void> =>
  until(async () => {
    const isReady = ({ status }: Pod): boolean =>
      status?.conditions?.some(({ type, status: value }) => type === 'Ready' && value === 'True') === true;
    return (await listed()).filter(isReady).length === crowd;
  });
const allGone = (): Promise<void> => until(async () => (await listed()).length === 0);

interface Cost {
  readonly tookMs: number;
  /** Of the whole process, API server, loops and node: the share that other programs of the machine do not distort. */
  readonly cpuMs: number;
}

async function costOf(work: () => Promise<void>): Promise<Cost> {
  const { cpuMs } = machine.spent();
  const tookMs = await timedMs(work);
  return { tookMs, cpuMs: machine.spent().cpuMs - cpuMs };
}

async function byHand(): Promise<Cost> {
  const names = Array.from({ length: crowd }, (_, index) => `pod-${index}`);
  const cost = await costOf(async () => {
    await Promise.all(
      names.map((name) => client.create(pods, { namespace }, { metadata: { name }, spec: podSpec }, signal)),
    );
    await allReady();
  });
  await Promise.all(names.map((name) => client.delete(pods, { namespace, name }, undefined, signal)));
  await allGone();
  return cost;
}

async function byDeployment(): Promise<Cost> {
  const cost = await costOf(async () => {
    await client.create(deployments, { namespace }, deployment('web', crowd), signal);
    await allReady();
  });
  await client.delete(deployments, { namespace, name: 'web' }, undefined, signal);
  await allGone();
  return cost;
}

/** From the edit until as many new pods are available, and no old one is left. */
async function rollingUpdate(): Promise<number> {
  await client.create(deployments, { namespace }, deployment('web', crowd), signal);
  await allReady();
  const place = { namespace, name: 'web' };
  return await timedMs(async () => {
    const now = (await client.get(deployments, place, signal)) as Deployment;
    const { template } = now.spec;
    const metadata = { ...template.metadata, annotations: { version: '2' } };
    const { resourceVersion: _any, ...own } = now.metadata;
    const changed = { ...now, metadata: own, spec: { ...now.spec, template: { ...template, metadata } } };
    await client.update(deployments, place, changed, signal);
    await until(async () => {
      const { metadata: latest, status = {} } = (await client.get(deployments, place, signal)) as Deployment;
      const { observedGeneration, replicas, updatedReplicas, availableReplicas } = status;
      const isSeen = observedGeneration === latest.generation && observedGeneration !== now.metadata.generation;
      return isSeen && [replicas, updatedReplicas, availableReplicas].every((count) => count === crowd);
    });
  });
}

/** The share of a core over some time in which nobody asks for anything. */
async function idle(what: string): Promise<void> {
  await sleep(settleMs, undefined, { signal });
  const before = machine.spent();
  await sleep(idleMs, undefined, { signal });
  const after = machine.spent();
  const cpu = ((after.cpuMs - before.cpuMs) / idleMs) * 100;
  const wakeUps = ((after.wakeUps - before.wakeUps) / idleMs) * 1_000;
  const { residentKiB, heapKiB } = await machine.memory();
  const memory = `${(residentKiB / 1024).toFixed(0)} MiB resident, ${(heapKiB / 1024).toFixed(0)} MiB of heap`;
  say(`idle, ${what}: ${cpu.toFixed(2)} % of a core, ${wakeUps.toFixed(0)} wake-ups a second; ${memory}; ${load()}`);
}

/** 1,000 objects: 200 Deployments and their ReplicaSets, 100 StatefulSets, 100 suspended CronJobs, 200 ConfigMaps and Secrets. */
async function fill(): Promise<void> {
  const create = async (
    resource: ResourceReference,
    count: number,
    make: (name: string) => KubeObject,
  ): Promise<void> => {
    for (let index = 0; index < count; index += 1) {
      await client.create(resource, { namespace }, make(`${resource.plural}-${index}`), signal);
    }
  };
  await create(deployments, 200, (name) => deployment(name, 0));
  await create(reference('apps', 'StatefulSet', 'statefulsets'), 100, (name) => deployment(name, 0));
  const template = { spec: { ...podSpec, restartPolicy: 'Never' } };
  const spec = { schedule: '* * * * *', suspend: true, jobTemplate: { spec: { template } } };
  await create(reference('batch', 'CronJob', 'cronjobs'), 100, (name) => ({ metadata: { name }, spec }) as KubeObject);
  for (const [kind, plural] of [
    ['ConfigMap', 'configmaps'],
    ['Secret', 'secrets'],
  ] as const) {
    await create(
      reference('', kind, plural),
      200,
      (name) => ({ metadata: { name }, data: { key: 'dmFsdWU=' } }) as KubeObject,
    );
  }
}

try {
  await idle('empty');
  const [hand, deployed]: [Cost[], Cost[]] = [[], []];
  await byHand(); // warm
  for (let round = 0; round < rounds; round += 1) {
    hand.push(await byHand());
    deployed.push(await byDeployment());
  }
  const shown = (costs: readonly Cost[]): string =>
    costs.map(({ tookMs, cpuMs }) => `${tookMs.toFixed(0)} (${cpuMs.toFixed(0)})`).join(', ');
  const ratio = (of: keyof Cost): string =>
    median(hand.map((cost, index) => (deployed[index]?.[of] ?? NaN) / cost[of])).toFixed(2);
  say(
    `until ${crowd} pods are Ready, in ms (of processor time): by hand ${shown(hand)}; a Deployment ${shown(deployed)}`,
  );
  say(
    `  ratio of each pair, median: ${ratio('tookMs')} x (target <= 1.3), of processor time ${ratio('cpuMs')} x; ${load()}`,
  );
  await fill();
  await idle('1,000 objects (target < 1 %)');
  const rollingMs = await rollingUpdate();
  say(`rolling update of ${crowd}, a quarter at a time: ${rollingMs.toFixed(0)} ms; ${load()}`);
  await idle(`1,000 objects and ${crowd} pods that run`);
  await client.delete(deployments, { namespace, name: 'web' }, undefined, signal);
  await allGone();
} finally {
  await machine.stop();
}
