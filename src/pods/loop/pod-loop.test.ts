import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Pod } from '../../kube/kinds/pod/pod.ts';
import { RuntimeError } from '../../runtimes/runtime.ts';
import { type PodParts, aConfigMap, aContainer, aPod } from '../../testing/fakes/builders.ts';
import { viewDeps } from '../../testing/worlds/container-world.ts';
import { PodWorld } from '../../testing/worlds/pod-world.ts';

const uid = '5f3a7c3e-0000-4000-8000-000000000001';
const pending = (parts: PodParts = {}): Pod =>
  aPod({ terminationGracePeriodSeconds: 30, status: { phase: 'Pending' }, ...parts });
const deleted = (pod: Pod, seconds = 30): Pod => ({
  ...pod,
  metadata: { ...pod.metadata, deletionTimestamp: '2026-01-01T00:00:00Z', deletionGracePeriodSeconds: seconds },
});
const staticAnnotations = { 'kubernetes.io/config.hash': uid };
const fromFile = (metadata: object = {}): Pod => pending({ metadata: { annotations: staticAnnotations, ...metadata } });

test('a pod is registered, gets its volumes, starts and is reported as running', async () => {
  const world = new PodWorld();
  world.api.put(pending());
  await world.rest();
  assert.deepEqual(world.steps.slice(0, 2), ['register web', 'mounted web']);
  assert.equal(world.runtime.show(uid), 'ready: main#0 running');
  assert.equal(world.show(), 'Running Ready=True main=running');
  assert.equal(world.loop.podNamed('shop', 'web')?.status?.phase, 'Running');
  assert.equal(world.loop.runtimePodOf(uid)?.containers[0]?.state.kind, 'running');
  const { podIP, hostIP, startTime, qosClass } = world.api.find('web')?.status ?? {};
  assert.deepEqual(
    [podIP, hostIP, startTime, qosClass],
    ['10.1.0.1', '192.0.2.1', '2026-08-20T18:59:46Z', 'BestEffort'],
  );
  await world.stop();
});

test('no container starts before the volumes are there, and a pod deleted meanwhile never starts', async () => {
  const world = new PodWorld();
  let mounted = (): void => {};
  world.mounting = new Promise((resolve) => (mounted = resolve));
  world.api.put(pending());
  await world.rest();
  assert.equal(world.runtime.show(uid), 'gone');
  assert.equal(world.show(), 'Pending Ready=False main=ContainerCreating');
  world.api.put(deleted(pending()));
  mounted();
  await world.rest();
  assert.equal(world.runtime.show(uid), 'gone');
  assert.equal(world.api.find('web'), undefined);
  await world.stop();
});

test('a deleted pod ends, is unmounted, unregistered and only then deleted from the API server and forgotten', async () => {
  const world = new PodWorld();
  world.api.put(pending());
  await world.rest();
  const running = world.api.find('web');
  assert.ok(running);
  let unmounted = (): void => {};
  world.unmounting = new Promise((resolve) => (unmounted = resolve));
  world.api.put(deleted(running));
  await world.rest();
  assert.match(world.runtime.show(uid), /^notReady: main#0 exited 143/);
  assert.ok(world.registered.has(uid), 'its objects are needed until its volumes are gone');
  assert.equal(world.show(), 'Failed Ready=False main=143');
  assert.ok(world.loop.progress.shouldRuntimeBeRemoved(uid));
  unmounted();
  await world.rest();
  assert.deepEqual(world.steps.slice(-2), ['unmounted web', 'unregister web']);
  assert.equal(world.api.find('web'), undefined);
  assert.equal(world.runtime.show(uid), 'gone');
  assert.equal(world.loop.pod(uid), undefined);
  assert.deepEqual(world.notices, []);
  await world.stop();
});

test('a pod that has done its work is reported as succeeded, and its last container is kept', async () => {
  const world = new PodWorld();
  world.api.put(pending({ restartPolicy: 'Never' }));
  await world.rest();
  world.runtime.exit(uid, 'main', 0);
  await world.rest();
  assert.equal(world.show(), 'Succeeded Ready=False main=0');
  assert.equal(world.loop.progress.stateOf(uid), 'finished');
  assert.deepEqual(world.steps.slice(-2), ['unmounted web', 'unregister web']);
  assert.match(world.runtime.show(uid), /main#0 exited 0/, 'its log can still be read');
  await world.restart();
  assert.equal(world.show(), 'Succeeded Ready=False main=0');
  assert.match(world.runtime.show(uid), /^notReady: main#0 exited 0$/, 'nothing is started again');
  await world.stop();
});

test('a container that crashes is in a crash loop that everybody can see, and comes back by itself', async () => {
  const world = new PodWorld();
  world.api.put(pending());
  await world.rest();
  world.runtime.exit(uid, 'main', 1);
  await world.rest();
  assert.equal(world.runtime.show(uid), 'ready: main#1 running, main#0 exited 1');
  world.runtime.exit(uid, 'main', 1);
  await world.rest();
  assert.equal(world.show(), 'Running Ready=False main=CrashLoopBackOff');
  await world.clock.advance(10_000);
  await world.rest();
  assert.equal(world.show(), 'Running Ready=True main=running');
  assert.equal(world.api.find('web')?.status?.containerStatuses?.[0]?.restartCount, 2);
  await world.stop();
});

test('a variable from a missing object is reported at once, and the pod starts when the object is there', async () => {
  const world = new PodWorld();
  const env = [{ name: 'A', valueFrom: { configMapKeyRef: { name: 'x', key: 'k' } } }];
  world.api.put(pending({ containers: [aContainer({ env })] }));
  await world.rest();
  assert.equal(world.show(), 'Pending Ready=False main=CreateContainerConfigError');
  const [status] = world.api.find('web')?.status?.containerStatuses ?? [];
  assert.equal(status?.state?.waiting?.message, 'configmap "x" not found');
  const failures = world.notices.length;
  world.loop.objectChanged('ConfigMap', 'shop', 'other', '7');
  world.loop.objectChanged('ConfigMap', 'bank', 'x', '7');
  await world.rest();
  assert.equal(world.notices.length, failures, 'it does not wait for these');
  world.view = viewDeps({ configMaps: [aConfigMap({ name: 'x', data: { k: 'v' } })] });
  world.loop.objectChanged('ConfigMap', 'shop', 'x', '7');
  await world.rest();
  assert.equal(world.show(), 'Running Ready=True main=running', 'at once, not at the next try');
  await world.stop();
});

test('a pod that cannot start is tried again after ten seconds also when no change is reported', async () => {
  const world = new PodWorld();
  const env = [{ name: 'A', valueFrom: { configMapKeyRef: { name: 'x', key: 'k' } } }];
  world.api.put(pending({ containers: [aContainer({ env })] }));
  await world.rest();
  world.view = viewDeps({ configMaps: [aConfigMap({ name: 'x', data: { k: 'v' } })] });
  await world.clock.advance(10_000);
  await world.rest();
  assert.equal(world.show(), 'Running Ready=True main=running');
  await world.stop();
});

test('variables of an object that changed since are reported as stale, also after a restart of the program', async () => {
  const world = new PodWorld();
  const withVersion = (resourceVersion: string): void => {
    const metadata = { name: 'x', namespace: 'shop', resourceVersion };
    world.view = viewDeps({
      configMaps: [aConfigMap({ name: 'x', data: { k: `secret-${resourceVersion}` }, metadata })],
    });
  };
  const condition = (): unknown => {
    const all = world.api.find('web')?.status?.conditions;
    return all?.find(({ type }) => type === 'mountlet.dev/EnvironmentCurrent')?.status;
  };
  withVersion('5');
  world.api.put(pending({ containers: [aContainer({ envFrom: [{ configMapRef: { name: 'x' } }] })] }));
  await world.rest();
  assert.equal(condition(), 'True');
  withVersion('6');
  world.loop.objectChanged('ConfigMap', 'shop', 'x', '6');
  await world.rest();
  assert.equal(condition(), 'False');
  const message = 'container main has variables from ConfigMap "x", which has changed since the container started';
  assert.equal(world.events.lines().at(-1), `Warning EnvironmentStale main: ${message}`);
  const told = world.events.lines().length;
  await world.restart();
  assert.equal(condition(), 'False', 'the container carries its versions with it');
  assert.equal(world.events.lines().length, told, 'and it is not told again');
  world.runtime.exit(uid, 'main', 1);
  await world.rest();
  assert.equal(condition(), 'True', 'a new container has new variables');
  await world.stop();
});

test('after a restart of the program containers are adopted and nothing is reported again', async () => {
  const world = new PodWorld();
  world.api.put(
    pending({ containers: [aContainer({ readinessProbe: { exec: { command: ['ok'] }, periodSeconds: 10 } })] }),
  );
  await world.rest();
  assert.equal(world.show(), 'Running Ready=True main=running');
  const [calls, events] = [world.runtime.calls.length, world.events.lines().length];
  const patches = world.api.patches.length;
  world.runtime.execute = () => new Promise(() => {});
  await world.restart();
  assert.equal(world.show(), 'Running Ready=True main=running', 'also while its probe has not answered yet');
  assert.deepEqual(
    world.runtime.calls.slice(calls).filter((call) => !call.startsWith('exec')),
    [],
  );
  assert.equal(world.events.lines().length, events);
  assert.equal(world.api.patches.length, patches);
  await world.stop();
});

for (const { restartPolicy, shows } of [
  { restartPolicy: 'Always', shows: 'Running Ready=True main=running restarts=1' },
  { restartPolicy: 'OnFailure', shows: 'Running Ready=True main=running restarts=1' },
  { restartPolicy: 'Never', shows: 'Failed Ready=False main=255 restarts=0' },
]) {
  test(`after a reboot of the machine a pod with restartPolicy ${restartPolicy}: ${shows}`, async () => {
    const world = new PodWorld();
    world.api.put(pending({ restartPolicy }));
    await world.rest();
    await world.stop();
    world.runtime.reboot();
    await world.restart();
    const [container] = world.api.find('web')?.status?.containerStatuses ?? [];
    assert.equal(`${world.show()} restarts=${container?.restartCount}`, shows);
    await world.stop();
  });
}

test('a liveness probe that fails restarts the container, a readiness probe takes it out of service', async () => {
  const world = new PodWorld();
  let answer = 0;
  world.runtime.execute = (_id, [command]) =>
    Promise.resolve(command === 'alive' && answer === 2 ? 1 : command === 'ready' ? answer : 0);
  const probe = (command: string): object => ({ exec: { command: [command] }, periodSeconds: 1, failureThreshold: 1 });
  world.api.put(
    pending({ containers: [aContainer({ livenessProbe: probe('alive'), readinessProbe: probe('ready') })] }),
  );
  await world.rest();
  await world.clock.advance(1000);
  await world.rest();
  assert.equal(world.show(), 'Running Ready=True main=running');
  answer = 1;
  await world.clock.advance(1000);
  await world.rest();
  assert.equal(world.show(), 'Running Ready=False main=running');
  answer = 2;
  await world.clock.advance(1000);
  await world.rest();
  assert.equal(world.runtime.show(uid), 'ready: main#1 running, main#0 exited 143');
  assert.ok(
    world.events.lines().includes('Normal Killing main: Container main failed liveness probe, will be restarted'),
  );
  await world.stop();
});

test('a probe that is cut short because its container ends is not reported', async () => {
  const world = new PodWorld();
  const answers = [0, 137];
  world.runtime.execute = async () => {
    const answer = answers.shift() ?? 0;
    if (answer === 137) world.runtime.exit(uid, 'main', 1);
    return answer;
  };
  const livenessProbe = { exec: { command: ['check'] }, periodSeconds: 1, failureThreshold: 1 };
  world.api.put(pending({ containers: [aContainer({ livenessProbe })] }));
  await world.rest();
  for (let second = 0; second < 3; second += 1) {
    await world.clock.advance(1000);
    await world.rest();
  }
  assert.deepEqual(answers, []);
  assert.equal(world.runtime.show(uid), 'ready: main#1 running, main#0 exited 1');
  assert.doesNotMatch(world.events.lines().join('\n'), /Unhealthy|Killing/);
  await world.stop();
});

test('a pod past its deadline is ended at that moment', async () => {
  const world = new PodWorld();
  world.api.put(pending({ activeDeadlineSeconds: 30 }));
  await world.rest();
  await world.clock.advance(29_000);
  await world.rest();
  assert.equal(world.show(), 'Running Ready=True main=running');
  await world.clock.advance(1000);
  await world.rest();
  assert.equal(world.show(), 'Failed Ready=False main=143');
  assert.equal(world.api.find('web')?.status?.reason, 'DeadlineExceeded');
  await world.stop();
});

test('a pod past its deadline has failed, also when its containers end well', async () => {
  const world = new PodWorld();
  world.runtime.exitCodeOfStopped = 0;
  world.api.put(pending({ activeDeadlineSeconds: 30 }));
  await world.rest();
  await world.clock.advance(30_000);
  await world.rest();
  assert.equal(world.show(), 'Failed Ready=False main=0');
  assert.equal(world.api.find('web')?.status?.reason, 'DeadlineExceeded');
  const told = world.events.lines().filter((line) => line.includes('DeadlineExceeded'));
  assert.equal(told.length, 1, told.join('\n'));
  await world.stop();
});

test('a pod past its deadline is ended at that moment, also while its containers fail to start', async () => {
  const world = new PodWorld();
  world.api.put(pending({ activeDeadlineSeconds: 30, restartPolicy: 'Always' }));
  await world.rest();
  for (const seconds of [1, 11, 0]) {
    world.runtime.exit(uid, 'main', 1);
    await world.rest();
    await world.clock.advance(seconds * 1000);
    await world.rest();
  }
  assert.equal(world.show(), 'Running Ready=False main=CrashLoopBackOff');
  await world.clock.advance(17_000);
  await world.rest();
  assert.equal(world.show(), 'Running Ready=False main=CrashLoopBackOff');
  await world.clock.advance(1_000);
  await world.rest();
  assert.equal(world.api.find('web')?.status?.reason, 'DeadlineExceeded');
  await world.stop();
});

test('a pod has its sandbox and its address in its status while its image is pulled', async () => {
  const world = new PodWorld();
  world.runtime.presentImages = new Set();
  let pulled = (): void => {};
  const { images } = world.runtime;
  assert.ok(images);
  world.runtime.images = {
    ...images,
    pull: (...request) => new Promise<void>((resolve) => (pulled = resolve)).then(() => images.pull(...request)),
  };
  world.api.put(pending());
  await world.rest();
  const { conditions = [], podIP } = world.api.find('web')?.status ?? {};
  assert.equal(conditions.find(({ type }) => type === 'PodReadyToStartContainers')?.status, 'True');
  assert.equal(podIP, '10.1.0.1');
  pulled();
  await world.rest();
  assert.equal(world.show(), 'Running Ready=True main=running');
  await world.stop();
});

test('a pod that the node cannot take is refused', async () => {
  const world = new PodWorld();
  world.admit = () => ({ refusal: { reason: 'OutOfcpu', message: "Node didn't have enough resource: cpu" } });
  world.api.put(pending());
  await world.rest();
  assert.deepEqual(world.events.lines(), ["Warning OutOfcpu Node didn't have enough resource: cpu"]);
  const { phase, reason, message } = world.api.find('web')?.status ?? {};
  assert.deepEqual(
    [phase, reason, message],
    ['Failed', 'OutOfcpu', "Pod was rejected: Node didn't have enough resource: cpu"],
  );
  await world.clock.advance(60_000);
  await world.rest();
  assert.equal(world.runtime.show(uid), 'gone', 'housekeeping does not try it again');
  const refused = world.api.find('web');
  assert.ok(refused);
  world.api.put(deleted(refused));
  await world.rest();
  assert.equal(world.api.find('web'), undefined);
  assert.equal(world.loop.pod(uid), undefined);
  await world.stop();
});

test('pods that were refused, or have ended, take no room on the node; one that ends does until it has', async () => {
  const world = new PodWorld();
  const full = { refusal: { reason: 'OutOfpods', message: 'full' } };
  world.admit = (_pod, others) => (others.length < 1 ? {} : full);
  world.runtime.deaf.add('main');
  const job = (name: string): Pod => pending({ metadata: { name, uid: name }, restartPolicy: 'Never' });
  const start = async (name: string): Promise<string> => {
    world.api.put(job(name));
    await world.rest();
    return world.show(name);
  };
  for (let round = 0; round < 120; round += 1) {
    assert.equal(await start(`job-${round}`), 'Running Ready=True main=running');
    world.runtime.exit(`job-${round}`, 'main', round % 2);
    await world.rest();
  }
  assert.equal(await start('first'), 'Running Ready=True main=running');
  assert.equal(await start('second'), 'Failed Ready=?');
  assert.equal(await start('third'), 'Failed Ready=?', 'two refused ones do not make room either');
  world.api.put(deleted(world.api.find('first') ?? job('first')));
  await world.rest();
  assert.equal(await start('fourth'), 'Failed Ready=?', 'the first still runs');
  await world.clock.advance(30_000);
  await world.rest();
  assert.equal(world.api.find('first'), undefined);
  assert.equal(await start('fifth'), 'Running Ready=True main=running');
  await world.stop();
});

test('after a restart a node with less room refuses the youngest pod, and ends its containers', async () => {
  const world = new PodWorld();
  const born = (name: string, second: number): Pod =>
    pending({ metadata: { name, uid: name, creationTimestamp: `2026-01-01T00:00:0${second}Z` } });
  world.api.put(born('young', 2));
  world.api.put(born('old', 1));
  await world.rest();
  assert.equal(world.show('young'), 'Running Ready=True main=running');
  world.admit = (_pod, others) => (others.length < 1 ? {} : { refusal: { reason: 'OutOfpods', message: 'full' } });
  await world.restart();
  assert.equal(world.show('old'), 'Running Ready=True main=running');
  assert.equal(world.show('young'), 'Failed Ready=?', 'a container that nobody watches is not told of');
  assert.equal(world.runtime.show('young'), 'gone');
  await world.stop();
});

test('a pod that makes room for a critical one fails as preempted, and keeps its grace', async () => {
  const world = new PodWorld();
  world.api.put(pending());
  await world.rest();
  world.admit = (_pod, others) => ({ preempted: others });
  world.api.put(pending({ metadata: { name: 'critical', uid: 'critical' } }));
  await world.rest();
  assert.ok(world.runtime.calls.includes('stopContainer main 30000'));
  const { phase, reason, message } = world.api.find('web')?.status ?? {};
  assert.deepEqual([phase, reason, message], ['Failed', 'Preempting', 'Preempted in order to admit critical pod']);
  assert.equal(world.show('critical'), 'Running Ready=True main=running');
  await world.stop();
});

test('a pod of an unknown RuntimeClass or handler waits, says why, and starts when there is one', async () => {
  const world = new PodWorld();
  world.api.put(pending({ runtimeClassName: 'kata' }));
  await world.rest();
  world.runtimeClasses.set('kata', 'kata-qemu');
  await world.clock.advance(10_000);
  await world.rest();
  assert.equal(world.show(), 'Pending Ready=False main=ContainerCreating');
  assert.deepEqual(world.events.lines(), [
    'Warning FailedCreatePodSandBox Failed to create pod sandbox: runtimeclass.node.k8s.io "kata" not found',
    'Warning FailedCreatePodSandBox Failed to create pod sandbox: no runtime for "kata-qemu" is configured',
  ]);
  world.runtimeClasses.set('kata', 'fake');
  await world.clock.advance(10_000);
  await world.rest();
  assert.equal(world.show(), 'Running Ready=True main=running');
  await world.stop();
});

test('a pod that needs a network of its own waits until the runtime has one, and says why', async () => {
  const world = new PodWorld();
  world.runtime.withoutNetwork = 'container runtime network not ready: NetworkReady=false reason:NoPlugin message:none';
  world.api.put(pending());
  world.api.put(pending({ metadata: { name: 'host', uid: 'host' }, hostNetwork: true }));
  await world.rest();
  assert.equal(world.show('host'), 'Running Ready=True main=running');
  assert.equal(world.show(), 'Pending Ready=False main=ContainerCreating');
  assert.ok(
    world.events
      .lines()
      .includes(
        'Warning NetworkNotReady network is not ready: container runtime network not ready: NetworkReady=false reason:NoPlugin message:none',
      ),
  );
  world.runtime.withoutNetwork = undefined;
  await world.clock.advance(1_000);
  await world.rest();
  assert.equal(world.show(), 'Running Ready=True main=running');
  await world.stop();
});

test('a pod that is made again under its name does not wait for the old one, and neither touches the other', async () => {
  const world = new PodWorld();
  world.api.put(pending());
  await world.rest();
  world.runtime.fail('stopContainer', new RuntimeError('busy'), new RuntimeError('busy'));
  const old = world.api.find('web');
  assert.ok(old);
  world.api.put(deleted(old));
  await world.rest();
  world.api.remove(old);
  world.api.put(pending({ metadata: { uid: 'second' } }));
  await world.rest();
  assert.equal(world.runtime.show('second'), 'ready: main#0 running');
  assert.equal(world.runtime.show(uid), 'ready: main#0 running');
  assert.equal(world.show(), 'Running Ready=True main=running');
  await world.clock.advance(30_000);
  await world.rest();
  assert.equal(world.runtime.show(uid), 'gone');
  assert.equal(world.runtime.show('second'), 'ready: main#0 running');
  assert.equal(world.api.find('web')?.metadata.uid, 'second');
  assert.ok(world.registered.has('second'));
  await world.stop();
});

test('nothing that runs is ended before every source was read', async () => {
  const world = new PodWorld(['api', 'file']);
  await world.runtime.runPod({ uid: 'stray', namespace: 'shop', name: 'stray', runtimeHandler: '' } as never);
  world.api.put(pending());
  await world.rest();
  world.api.remove(pending());
  await world.clock.advance(120_000);
  await world.rest();
  assert.equal(world.runtime.show(uid), 'ready: main#0 running');
  assert.match(world.runtime.show('stray'), /^ready/);
  assert.equal(world.loop.areSourcesReady(), false);
  world.list('file', []);
  await world.rest();
  assert.equal(world.runtime.show('stray'), 'gone');
  assert.equal(world.runtime.show(uid), 'gone');
  await world.stop();
});

test('a static pod is shown by a mirror, which is created again when it is deleted', async () => {
  const world = new PodWorld(['api', 'file']);
  world.list('api', []);
  world.list('file', [fromFile()]);
  await world.rest();
  assert.equal(world.show(), 'Running Ready=True main=running');
  const mirror = world.api.find('web');
  assert.ok(mirror);
  assert.equal(mirror.metadata.annotations?.['kubernetes.io/config.mirror'], uid);
  world.api.remove(mirror);
  await world.rest();
  assert.equal(world.runtime.show(uid), 'ready: main#0 running', 'the pod itself never stopped');
  assert.equal(world.show(), 'Running Ready=True main=running');
  world.list('file', []);
  await world.rest();
  assert.equal(world.runtime.show(uid), 'gone');
  assert.equal(world.api.find('web'), undefined, 'the mirror went with it');
  await world.stop();
});

test('a static pod runs without an API server that knows the node, and is shown when it does', async () => {
  const world = new PodWorld(['api', 'file']);
  world.isNodeKnown = false;
  world.list('api', []);
  world.list('file', [fromFile()]);
  await world.rest();
  assert.equal(world.runtime.show(uid), 'ready: main#0 running');
  assert.equal(world.api.find('web'), undefined);
  assert.equal(world.loop.statusOf(uid)?.phase, 'Running');
  world.isNodeKnown = true;
  world.loop.nodeRegistered();
  await world.rest();
  assert.equal(world.show(), 'Running Ready=True main=running');
  await world.stop();
});

test('a changed manifest: the old pod ends before the new one starts', async () => {
  const world = new PodWorld(['api', 'file']);
  world.list('api', []);
  world.list('file', [fromFile()]);
  await world.rest();
  world.runtime.deaf.add('main');
  world.list('file', [fromFile({ uid: 'next', annotations: { 'kubernetes.io/config.hash': 'next' } })]);
  await world.rest();
  assert.equal(world.runtime.show('next'), 'gone');
  await world.clock.advance(30_000);
  await world.rest();
  assert.equal(world.runtime.show('next'), 'ready: main#0 running');
  assert.equal(world.runtime.show(uid), 'gone');
  assert.equal(world.api.find('web')?.metadata.annotations?.['kubernetes.io/config.mirror'], 'next');
  await world.stop();
});

test('of several pods with one name in a list the first counts, and the others are reported', async () => {
  const world = new PodWorld(['file']);
  world.list('file', [fromFile(), fromFile({ uid: 'twin' })]);
  await world.rest();
  assert.equal(world.runtime.show('twin'), 'gone');
  assert.ok(
    world.events
      .lines()
      .includes(
        'Warning FailedValidation Error validating pod web_shop(twin) from file due to duplicate pod name "web", ignoring',
      ),
  );
  await world.stop();
});

test('a pod whose end fails is reported, and ended again', async () => {
  const world = new PodWorld();
  world.api.put(pending());
  await world.rest();
  world.runtime.fail('stopContainer', new RuntimeError('stuck'));
  const running = world.api.find('web');
  assert.ok(running);
  world.api.put(deleted(running));
  await world.rest();
  assert.ok(world.events.lines().includes('Warning FailedKillPod error killing pod: stuck'));
  assert.ok(world.notices.some(({ kind }) => kind === 'PodStepFailed'));
  await world.clock.advance(10_000);
  await world.rest();
  assert.equal(world.api.find('web'), undefined);
  await world.stop();
});

test('the API server may be away: pods run on, and their status is sent when it is back', async () => {
  const world = new PodWorld();
  world.api.put(pending());
  await world.rest();
  world.api.failure = new Error('connection refused');
  world.runtime.exit(uid, 'main', 1);
  await world.rest();
  world.runtime.exit(uid, 'main', 1);
  await world.rest();
  assert.equal(world.show(), 'Running Ready=True main=running', 'it does not know better');
  world.api.failure = undefined;
  await world.clock.advance(10_000);
  await world.rest();
  assert.equal(world.api.find('web')?.status?.containerStatuses?.[0]?.restartCount, 2);
  await world.stop();
});

test('endContainers ends everything without a word to the API server, and the next start creates everything again', async () => {
  const world = new PodWorld();
  world.api.put(pending());
  await world.rest();
  const patches = world.api.patches.length;
  await world.stop();
  await world.loop.endContainers(5, new AbortController().signal);
  assert.match(world.runtime.show(uid), /^notReady: main#0 exited/);
  assert.equal(world.api.patches.length, patches);
  await world.clock.advance(1000);
  await world.restart();
  assert.match(world.runtime.show(uid), /^ready: main#1 running/);
  await world.stop();
});

test('a hundred pods start and stop with nothing left, and node warns of nothing', async () => {
  const warnings: Error[] = [];
  const hear = (warning: Error): void => void warnings.push(warning);
  process.on('warning', hear);
  const world = new PodWorld();
  const names = Array.from({ length: 100 }, (_, index) => `pod-${index}`);
  for (const name of names) world.api.put(pending({ metadata: { uid: name, name } }));
  await world.rest();
  await world.rest();
  assert.ok(names.every((name) => world.show(name) === 'Running Ready=True main=running'));
  for (const pod of world.api.pods()) world.api.put(deleted(pod));
  for (let turn = 0; turn < 10 && world.api.pods().length > 0; turn += 1) await world.rest();
  await world.rest();
  assert.deepEqual(world.api.pods(), []);
  assert.deepEqual(await world.runtime.list(), []);
  assert.deepEqual([...world.registered], []);
  assert.deepEqual(world.notices, []);
  assert.deepEqual(warnings, []);
  process.off('warning', hear);
  await world.stop();
});

test('a container that ended says why: its message file, or the end of its log where the pod asks for it', async () => {
  const world = new PodWorld();
  const container = aContainer({
    terminationMessagePath: '/dev/termination-log',
    terminationMessagePolicy: 'FallbackToLogsOnError',
  });
  world.api.put(pending({ restartPolicy: 'Never', containers: [container] }));
  const other = { uid: 'other', name: 'other' };
  world.api.put(pending({ metadata: other, restartPolicy: 'Never', containers: [container] }));
  await world.rest();
  world.files.messages.set(`/root/pods/${uid}/containers/main/0`, 'no licence');
  world.files.logs.set('/logs/main/0.log', 'panic: at the disco');
  world.runtime.exit(uid, 'main', 1);
  world.runtime.exit('other', 'main', 1);
  await world.rest();
  const messageOf = (name: string): string | undefined =>
    world.api.find(name)?.status?.containerStatuses?.[0]?.state?.terminated?.message;
  assert.equal(messageOf('web'), 'no licence');
  assert.equal(messageOf('other'), 'panic: at the disco');
  await world.stop();
});

test('a failure while a pod is handed over costs the other pods nothing, and the pod starts all the same', async () => {
  const world = new PodWorld();
  const register = world.registered.has.bind(world.registered);
  let planted = 0;
  world.registered.has = (podUid) => {
    if (podUid === uid && (planted += 1) === 1) assert.fail('planted');
    return register(podUid);
  };
  const other = '5f3a7c3e-0000-4000-8000-000000000002';
  world.list('api', [pending(), pending({ metadata: { name: 'other', uid: other } })]);
  await world.rest();
  assert.equal(world.runtime.show(other), 'ready: main#0 running');
  assert.equal(world.runtime.show(uid), 'ready: main#0 running');
  assert.deepEqual(
    world.notices.map((notice) => notice.kind === 'TaskFailed' && [notice.task, String(notice.error)]),
    [['add of pod web_shop', 'AssertionError [ERR_ASSERTION]: planted']],
  );
  await world.stop();
});

test('a failed assertion in the worker of one pod is retried and stops no other pod', async () => {
  const world = new PodWorld();
  const get = world.runtime.get.bind(world.runtime);
  let isBroken = true;
  world.runtime.get = async (podUid) => {
    if (podUid === uid) assert.ok(!isBroken, 'planted');
    return await get(podUid);
  };
  const other = '5f3a7c3e-0000-4000-8000-000000000002';
  world.list('api', [pending(), pending({ metadata: { name: 'other', uid: other } })]);
  await world.rest();
  assert.deepEqual([world.runtime.show(uid), world.runtime.show(other)], ['gone', 'ready: main#0 running']);
  assert.ok(world.notices.some((notice) => notice.kind === 'PodStepFailed' && !notice.hasEvent));
  isBroken = false;
  await world.clock.advance(15_000);
  await world.rest();
  assert.equal(world.runtime.show(uid), 'ready: main#0 running');
  await world.stop();
});

test('a loop that fails is begun again, and what it missed is found', async () => {
  const world = new PodWorld();
  world.api.put(pending({ restartPolicy: 'Never' }));
  const changes = world.runtime.changes.bind(world.runtime);
  let failures = 0;
  let fail = (): void => {};
  world.runtime.changes = (signal) => {
    if (failures > 0) return changes(signal);
    failures += 1;
    return (async function* () {
      await new Promise<void>((resolve) => (fail = resolve));
      yield* [];
      assert.fail('planted');
    })();
  };
  await world.restart();
  await world.rest();
  world.runtime.exit(uid, 'main', 0);
  await world.rest();
  assert.equal(world.show(), 'Running Ready=True main=running', 'nothing told of the end');
  fail();
  await world.rest();
  await world.clock.advance(100);
  await world.rest();
  assert.equal(world.show(), 'Succeeded Ready=False main=0');
  assert.ok(world.notices.some((notice) => notice.kind === 'TaskFailed' && notice.task === 'changes of the runtime'));
  await world.stop();
});
