/**
 * What nodes and pods use now, in the form of metrics-server, which clusters otherwise run for it. Nodes count, and are asked only
 * when somebody asks here. A rate needs two samples: where no older one is kept, a second is taken after a moment.
 */
import { withDeadline } from '../../base/abort.ts';
import type { Clock } from '../../base/clock.ts';
import { aggregated, messageOf } from '../../base/errors.ts';
import type { Pod } from '../../kube/kinds/pod/pod.ts';
import { type Of, decode, list, number, object, required, string } from '../../kube/schema/schema.ts';
import { Quantity, type ResourceList } from '../../kube/values/quantity.ts';
import { showDuration, timestamp } from '../../kube/values/times.ts';
import { type KubeObject, type Resource, apiVersionOf } from '../model/resource.ts';
import { selectionOf } from '../model/selection.ts';
import { StatusError, notFound, resourceName } from '../model/status.ts';
import { objectKey, objectPrefix, parseStored } from '../model/stored-objects.ts';
import type { Store } from '../store/store.ts';
import type { ApiRequest, Handler } from './api-request.ts';
import { listOptions } from './list-options.ts';
import type { NodeConnector } from './pod-subresources.ts';

interface UsageMetricsDeps {
  readonly store: Store;
  readonly clock: Clock;
  readonly nodes: NodeConnector | undefined;
  readonly stopping: AbortSignal;
}

/** Between the two samples of a rate: closer ones say little, and older ones say how it was and not how it is. */
const windowMsMin = 1_000;
const windowMsMax = 30_000;
/** For both samples. A node that takes longer is left out. */
const answerMsMax = 10_000;
const path = '/stats/summary?only_cpu_and_memory=true';

const nodes = { group: '', plural: 'nodes', namespaced: false };
const pods = { group: '', plural: 'pods', namespaced: true };

export function usageMetricsHandler(deps: UsageMetricsDeps): Handler {
  const samples = new NodeSamples(deps);
  return async (request) => {
    const { info, resource } = request;
    const selected = selectedObjects(deps.store, request);
    const nodeOf = ({ metadata, ...rest }: KubeObject): string =>
      resource.namespaced ? ((rest as Pick<Pod, 'spec'>).spec.nodeName ?? '') : metadata.name;
    const names = new Set(selected.map(nodeOf).filter((name) => name !== ''));
    const { measured, problems } = await samples.take(names);
    const shown = selected.flatMap((one) => {
      const found = measured.get(nodeOf(one));
      const usage = found && (resource.namespaced ? podUsage(one, found) : nodeUsage(found));
      return usage === undefined ? [] : [JSON.stringify({ ...head(one, resource, deps.clock.now()), ...usage })];
    });
    const [first] = shown;
    if (first === undefined && problems.length > 0)
      throw new StatusError(503, 'ServiceUnavailable', aggregated(problems));
    if (info.name === '') return { kind: 'list', items: shown, metadata: { resourceVersion: '' } };
    if (first === undefined) throw notFound(resourceName(resource), info.name);
    return { kind: 'object', code: 200, text: first };
  };
}

/** The nodes or pods that a request is about, as they are stored. */
function selectedObjects(store: Store, { info, served, query }: ApiRequest): readonly KubeObject[] {
  const kind = served.namespaced ? pods : nodes;
  if (info.name !== '') {
    const stored = store.get(objectKey(kind, info.namespace, info.name));
    return stored === undefined ? [] : [parseStored(stored.value)];
  }
  const selection = selectionOf(served, listOptions(query, false));
  return store
    .list({ prefix: objectPrefix(kind, info.namespace) })
    .items.map(({ value }) => parseStored(value))
    .filter((one) => selection.matches(one));
}

function head({ metadata }: KubeObject, resource: Resource, nowMs: number): KubeObject {
  const { name, namespace, labels } = metadata;
  return {
    kind: resource.kind,
    apiVersion: apiVersionOf(resource),
    metadata: {
      name,
      ...(namespace !== undefined && { namespace }),
      creationTimestamp: timestamp(nowMs),
      ...(labels && { labels }),
    },
  };
}

/** What is read of a node's summary. */
const usageFields = {
  startTime: required(string),
  cpu: object({ time: required(string), usageNanoCores: number, usageCoreNanoSeconds: required(number) }),
  memory: object({ workingSetBytes: required(number) }),
};
const summaryShape = object({
  node: required(object(usageFields)),
  pods: list(
    object({
      podRef: required(object({ name: required(string), namespace: required(string) })),
      containers: list(object({ name: required(string), ...usageFields })),
    }),
  ),
});
type Summary = Of<typeof summaryShape>;
type Counters = Summary['node'];

interface Sample {
  readonly atMs: number;
  readonly summary: Summary;
}

interface Measured {
  readonly before: Sample;
  readonly now: Sample;
}

class NodeSamples {
  readonly #deps: UsageMetricsDeps;
  /** The samples of the last rate. */
  readonly #known = new Map<string, Measured>();
  /** Who asks meanwhile gets the same. */
  readonly #running = new Map<string, Promise<Measured>>();

  constructor(deps: UsageMetricsDeps) {
    this.#deps = deps;
  }

  async take(
    names: ReadonlySet<string>,
  ): Promise<{ readonly measured: ReadonlyMap<string, Measured>; readonly problems: readonly string[] }> {
    this.#forgetOld();
    const measured = new Map<string, Measured>();
    const problems: string[] = [];
    const ask = async (name: string): Promise<void> => {
      try {
        measured.set(name, await this.#measure(name));
      } catch (error) {
        problems.push(`the usage of node ${JSON.stringify(name)} cannot be read: ${messageOf(error)}`);
      }
    };
    await Promise.all([...names].map(ask));
    return { measured, problems };
  }

  #measure(name: string): Promise<Measured> {
    const running = this.#running.get(name) ?? this.#twoSamples(name).finally(() => this.#running.delete(name));
    this.#running.set(name, running);
    return running;
  }

  async #twoSamples(name: string): Promise<Measured> {
    const { clock, stopping } = this.#deps;
    const known = this.#known.get(name);
    if (known !== undefined && clock.now() - known.now.atMs < windowMsMin) return known;
    const late = (): Error => new Error(`no answer within ${answerMsMax / 1000} s`);
    return await withDeadline(clock, answerMsMax, late, stopping, async (signal) => {
      const first = await this.#sample(name, signal);
      const usable = [known?.before, known?.now].find((one) => one && first.atMs - one.atMs <= windowMsMax);
      if (usable === undefined) await clock.sleep(windowMsMin, signal);
      const now = usable === undefined ? await this.#sample(name, signal) : first;
      const measured = { before: usable ?? first, now };
      this.#known.set(name, measured);
      return measured;
    });
  }

  async #sample(name: string, signal: AbortSignal): Promise<Sample> {
    if (this.#deps.nodes === undefined) throw new Error('this server has no way to nodes');
    const text = await this.#deps.nodes.read(name, path, signal);
    // A node may say more than this server knows.
    const { value, problems } = decode(summaryShape, JSON.parse(text));
    const wrong = problems.find(({ kind }) => kind === 'type');
    if (wrong !== undefined) throw new Error(`${wrong.path.join('.')}: ${wrong.message}`);
    return { atMs: this.#deps.clock.now(), summary: value };
  }

  #forgetOld(): void {
    const now = this.#deps.clock.now();
    for (const [name, { now: last }] of this.#known) if (now - last.atMs > windowMsMax) this.#known.delete(name);
  }
}

interface Usage {
  readonly atMs: number;
  readonly windowMs: number;
  readonly usage: ResourceList;
}

function nodeUsage({ before, now }: Measured): object | undefined {
  const used = usageOf(before.summary.node, now.summary.node);
  return used && { ...timesOf(used), usage: used.usage };
}

/** By name, since that of a static pod is all that its node and its mirror have in common. */
function podUsage({ metadata }: KubeObject, { before, now }: Measured): object | undefined {
  const containersIn = ({ summary }: Sample): NonNullable<NonNullable<Summary['pods']>[number]['containers']> =>
    summary.pods?.find(({ podRef }) => podRef.name === metadata.name && podRef.namespace === metadata.namespace)
      ?.containers ?? [];
  const earlier = containersIn(before);
  const containers = containersIn(now).flatMap((one) => {
    const used = usageOf(
      earlier.find(({ name }) => name === one.name),
      one,
    );
    return used === undefined ? [] : [{ name: one.name, used }];
  });
  const [first] = containers;
  if (first === undefined) return undefined;
  return { ...timesOf(first.used), containers: containers.map(({ name, used }) => ({ name, usage: used.usage })) };
}

function timesOf({ atMs, windowMs }: Usage): { readonly timestamp: string; readonly window: string } {
  return { timestamp: timestamp(atMs), window: showDuration(windowMs) };
}

/** What began after the first sample counts from its beginning. */
function usageOf(before: Counters | undefined, { startTime, cpu, memory }: Counters): Usage | undefined {
  if (cpu === undefined || memory === undefined) return undefined;
  const same = before?.startTime === startTime ? before.cpu : undefined;
  const atMs = Date.parse(cpu.time);
  const windowMs = atMs - Date.parse(same?.time ?? startTime);
  if (Number.isNaN(windowMs)) return undefined;
  const nanoseconds = cpu.usageCoreNanoSeconds - (same?.usageCoreNanoSeconds ?? 0);
  // A node that counts more rarely than it is asked knows its rate better.
  const nanoCores = windowMs > 0 ? (nanoseconds * 1_000) / windowMs : (cpu.usageNanoCores ?? 0);
  const usage = {
    cpu: String(new Quantity(BigInt(Math.max(0, Math.round(nanoCores))), -9, 'DecimalSI')),
    memory: String(new Quantity(BigInt(Math.round(memory.workingSetBytes)), 0, 'BinarySI')),
  };
  return { atMs, windowMs, usage };
}
