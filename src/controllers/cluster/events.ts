/**
 * Kubernetes Events of controllers. What is said of an object again and again is one Event that is counted, not many: a claim that
 * waits says so at every look.
 */
import type { KubeObject } from '../../kube/schema/kind.ts';
import { microTimestamp, timestamp } from '../../kube/values/times.ts';
import { type Cluster, type ControllerDeps, type Kind, coreKind, unlessRefused } from './cluster.ts';

export interface ControllerEvent {
  readonly type: 'Normal' | 'Warning';
  readonly reason: string;
  readonly message: string;
  /** What the controller was about; Events of the scheduler have it. */
  readonly action?: string;
}

/** Events that may be counted further. Older ones are begun anew. */
const rememberedMax = 4_096;
/** An Event is counted at most this often: a claim that is looked at in a tight loop is no reason to write in one. */
const countedEveryMs = 10_000;

interface Remembered {
  readonly name: string;
  count: number;
  writtenAtMs: number;
}

export class ControllerEvents {
  readonly #controller: string;
  readonly #deps: Pick<ControllerDeps, 'clock' | 'random'>;
  readonly #cluster: Cluster;
  readonly #remembered = new Map<string, Remembered>();

  constructor(controller: string, deps: Pick<ControllerDeps, 'clock' | 'random'>, cluster: Cluster) {
    this.#controller = controller;
    this.#deps = deps;
    this.#cluster = cluster;
  }

  async record(kind: Kind, about: KubeObject, event: ControllerEvent): Promise<void> {
    const { uid = '', namespace = '' } = about.metadata;
    const key = JSON.stringify([uid, event.type, event.reason, event.message]);
    const now = this.#deps.clock.now();
    const known = this.#remembered.get(key);
    if (known !== undefined) {
      known.count += 1;
      if (now - known.writtenAtMs < countedEveryMs) return;
      known.writtenAtMs = now;
      const events = coreKind(this.#cluster, 'Event');
      const at = this.#cluster.keyOf(events, namespace === '' ? 'default' : namespace, known.name);
      const { count } = known;
      const counted = (object: KubeObject): KubeObject =>
        ({ ...object, count, lastTimestamp: timestamp(now) }) as KubeObject;
      return unlessRefused(this.#cluster.update(at, counted), 403, 404, 409, 422);
    }
    await this.#create(kind, about, event, key);
  }

  async #create(kind: Kind, about: KubeObject, { action, ...news }: ControllerEvent, key: string): Promise<void> {
    const { clock, random } = this.#deps;
    const { namespace = '', name, uid = '', resourceVersion = '' } = about.metadata;
    const now = clock.now();
    // Events of what belongs to no namespace are kept in this one.
    const home = namespace === '' ? 'default' : namespace;
    const apiVersion = kind.group === '' ? kind.version : `${kind.group}/${kind.version}`;
    const eventName = `${name}.${random.suffix(10)}`;
    const event = {
      metadata: { name: eventName, namespace: home },
      involvedObject: {
        kind: kind.kind,
        ...(namespace !== '' && { namespace }),
        name,
        uid,
        apiVersion,
        resourceVersion,
      },
      ...news,
      source: { component: this.#controller },
      firstTimestamp: timestamp(now),
      lastTimestamp: timestamp(now),
      count: 1,
      reportingComponent: this.#controller,
      reportingInstance: this.#controller,
      ...(action !== undefined && { action, eventTime: microTimestamp(now) }),
    };
    const [oldest] = this.#remembered.keys();
    if (this.#remembered.size >= rememberedMax && oldest !== undefined) this.#remembered.delete(oldest);
    this.#remembered.set(key, { name: eventName, count: 1, writtenAtMs: now });
    // An Event about something that is about to go is not missed.
    await unlessRefused(this.#cluster.create(coreKind(this.#cluster, 'Event'), home, event), 403, 404, 409, 422);
  }
}
