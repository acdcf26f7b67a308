/**
 * Random registrations, updates, changes and faults against every strategy. Whatever happened: once the server is back, every
 * registered object is the server's, every listener got every change, and nothing else is kept or watched.
 */
import { type ObjectManager } from './object-manager.ts';
import { objectManagers } from './api-objects.ts';
import assert from 'node:assert/strict';
import { setMaxListeners } from 'node:events';
import { test } from 'node:test';
import fc from 'fast-check';
import type { ConfigMap } from '../kube/kinds/config-map.ts';
import type { Pod } from '../kube/kinds/pod/pod.ts';
import type { Secret } from '../kube/kinds/secret.ts';
import { aContainer, aPod } from '../testing/fakes/builders.ts';
import { FakeClock, settle } from '../testing/fakes/fake-clock.ts';
import { ScriptedObjectSource } from '../testing/fakes/scripted-object-source.ts';

// More than the number of objects from which a namespace is watched as a whole.
const names = Array.from({ length: 13 }, (_, index) => `c${index}`);
const namespaces = ['shop', 'bank'];
const minuteMs = 60_000;

interface Step {
  readonly kind: string;
  readonly pod: number;
  readonly names: readonly string[];
  readonly isShown: boolean;
  readonly namespace: string;
  readonly name: string;
  readonly isImmutable: boolean;
  readonly passMs: number;
}

const step: fc.Arbitrary<Step> = fc.record({
  kind: fc.oneof(
    { weight: 4, arbitrary: fc.constantFrom('register', 'put') },
    { weight: 2, arbitrary: fc.constantFrom('unregister', 'remove', 'read', 'pass', 'back') },
    { weight: 1, arbitrary: fc.constantFrom('away', 'blink', 'refuse', 'allow', 'hold', 'release') },
  ),
  pod: fc.nat(5),
  names: fc.oneof(fc.subarray(names), fc.subarray(names, { minLength: 10 })),
  isShown: fc.boolean(),
  namespace: fc.constantFrom(...namespaces),
  name: fc.constantFrom(...names),
  isImmutable: fc.boolean(),
  passMs: fc.constantFrom(10, 1_000, 20_000, 2 * minuteMs, 7 * minuteMs),
});

/** One node that shows what it reads: it reads when a pod comes and when a change is reported, never otherwise. */
class World {
  readonly source = new ScriptedObjectSource<ConfigMap>();
  readonly clock = new FakeClock();
  readonly manager: ObjectManager<ConfigMap>;
  readonly pods = new Map<
    number,
    { readonly namespace: string; readonly names: readonly string[]; isShown: boolean }
  >();
  readonly shown = new Map<string, string>();
  readonly #stop = new AbortController();
  readonly #tasks: Promise<void>[] = [];

  constructor(strategy: string, random: () => number) {
    setMaxListeners(0, this.#stop.signal);
    const { clock, source } = this;
    const secrets = new ScriptedObjectSource<Secret>();
    const deps = { clock, random, notify: () => {}, ownNode: () => undefined, configMaps: source, secrets };
    this.manager = objectManagers(deps, { strategy, syncFrequencyMs: minuteMs }).configMaps;
    this.#tasks.push(this.manager.run(this.#stop.signal), this.#listen());
  }

  async #listen(): Promise<void> {
    for await (const { namespace, name } of this.manager.changes(this.#stop.signal)) this.read(namespace, name);
  }

  /** In the background: a read may wait for time to pass. */
  read(namespace: string, name: string): void {
    const answer = this.manager.get(namespace, name, this.#stop.signal).then(versionOf, String);
    this.#tasks.push(answer.then((version) => void this.shown.set(`${namespace}/${name}`, version)));
  }

  async do({ kind, pod, names: podNames, isShown, namespace, name, isImmutable, passMs }: Step): Promise<void> {
    const { source, clock, manager, pods } = this;
    // A pod keeps its namespace for life.
    const podNamespace = namespaces[pod % 2] ?? '';
    switch (kind) {
      case 'register':
        pods.set(pod, { namespace: podNamespace, names: podNames, isShown });
        manager.registerPod(podOf(pod, podNamespace, podNames, isShown));
        for (const each of podNames) this.read(podNamespace, each);
        break;
      case 'unregister':
        pods.delete(pod);
        manager.unregisterPod(podOf(pod, podNamespace, [], false));
        break;
      case 'put':
        // An immutable object can only be replaced.
        if (source.current({ namespace, name })?.immutable === true) source.remove({ namespace, name });
        source.put({ namespace, name }, { immutable: isImmutable });
        break;
      case 'remove':
        source.remove({ namespace, name });
        break;
      case 'read':
        this.read(namespace, name);
        break;
      case 'pass':
        await clock.advance(passMs);
        break;
      case 'away':
        source.goAway();
        break;
      case 'back':
        source.comeBack();
        break;
      case 'refuse':
        source.refuse((id) => id.name === name);
        break;
      case 'allow':
        source.refuse(() => false);
        break;
      case 'hold':
        source.hold();
        break;
      case 'release':
        source.release();
        break;
      default:
        source.blink();
    }
    await settle(1);
  }

  async calmDown(): Promise<void> {
    this.source.release();
    this.source.refuse(() => false);
    this.source.comeBack();
    // Longer than the longest that anything waits: the check of an immutable object, at most 7.5 minutes and a minute.
    for (let minute = 0; minute < 10; minute += 1) {
      await this.clock.advance(minuteMs);
      await settle();
    }
  }

  get registered(): ReadonlySet<string> {
    return new Set([...this.pods.values()].flatMap((pod) => pod.names.map((name) => `${pod.namespace}/${name}`)));
  }

  get registeredAndShown(): ReadonlySet<string> {
    const shown = [...this.pods.values()].filter(({ isShown }) => isShown);
    return new Set(shown.flatMap((pod) => pod.names.map((name) => `${pod.namespace}/${name}`)));
  }

  onServer(namespace: string, name: string): string {
    const object = this.source.current({ namespace, name });
    return versionOf(object);
  }

  async stop(): Promise<void> {
    this.#stop.abort();
    await Promise.all(this.#tasks);
  }
}

function podOf(index: number, namespace: string, podNames: readonly string[], isShown: boolean): Pod {
  const metadata = { name: `pod-${index}`, uid: `uid-${index}`, namespace };
  return isShown
    ? aPod({ metadata, volumes: podNames.map((name) => ({ name, configMap: { name } })) })
    : aPod({ metadata, containers: [aContainer({ envFrom: podNames.map((name) => ({ configMapRef: { name } })) })] });
}

function versionOf(object: ConfigMap | undefined): string {
  if (object === undefined) return 'missing';
  const { metadata } = object;
  return `${metadata.uid}/${metadata.resourceVersion}`;
}

for (const strategy of ['Watch', 'Cache']) {
  test(`${strategy} ends with the server's objects, has reported every change, and keeps nothing else`, async () => {
    const random = fc.double({ min: 0, max: 1, maxExcluded: true, noNaN: true });
    await fc.assert(
      fc.asyncProperty(fc.array(step, { maxLength: 40 }), random, async (steps, chance) => {
        const world = new World(strategy, () => chance);
        try {
          for (const each of steps) await world.do(each);
          await world.calmDown();
          const { registered, registeredAndShown, manager, source } = world;
          if (strategy === 'Watch') {
            for (const id of registeredAndShown) {
              const [namespace = '', name = ''] = id.split('/');
              assert.equal(world.shown.get(id), world.onServer(namespace, name), `${id} was not told`);
            }
          }
          for (const namespace of namespaces) {
            for (const name of names) {
              const answer = await manager.get(namespace, name, new AbortController().signal).then(versionOf, String);
              const isRegistered = registered.has(`${namespace}/${name}`);
              if (isRegistered) assert.equal(answer, world.onServer(namespace, name));
              else assert.match(answer, /not registered/);
            }
          }
          for (const scopeWatched of source.watched) {
            assert.ok(
              [...registered].some((id) => id === scopeWatched || id.startsWith(`${scopeWatched}/`)),
              `${scopeWatched} is watched for nobody`,
            );
          }
          assert.equal(new Set(source.watched).size, source.watched.length, 'one thing is watched twice');
        } finally {
          await world.stop();
        }
        assert.deepEqual(world.source.watched, []);
      }),
      { numRuns: 40 },
    );
  });
}
