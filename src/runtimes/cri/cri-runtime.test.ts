/** The runtime over a real containerd. What no runtime does on command is in open-cri-runtime.test.ts. */
import assert from 'node:assert/strict';
import { existsSync, mkdirSync, readdirSync, readlinkSync, realpathSync, symlinkSync } from 'node:fs';
import { join } from 'node:path';
import { type TestContext, after, before, describe, test } from 'node:test';
import { systemClock } from '../../base/clock.ts';
import { type Containerd, containerdSkip, startContainerd } from '../../testing/machine/containerd.ts';
import { busyboxImage } from '../../testing/machine/oci-image.ts';
import { containerRequest, podRequest } from '../../testing/machine/process-sandboxes.ts';
import { temporaryDirectory } from '../../testing/machine/temporary-directory.ts';
import { type ContainerRequest, type PodRequest, RuntimeError, type RuntimePod } from '../runtime.ts';
import type { CriRuntime } from './cri-runtime.ts';
import { openCriRuntime } from './open-cri-runtime.ts';

const image = busyboxImage({ name: 'docker.io/library/busybox:1' });
const { signal } = new AbortController();
const uidLabel = 'io.kubernetes.pod.uid';

describe('the runtime over containerd', { skip: containerdSkip() }, () => {
  let containerd: Containerd;
  const closing: (() => Promise<void>)[] = [];

  before(async () => {
    containerd = await startContainerd({ after: (act) => closing.push(act) });
    await containerd.import(image);
  });
  after(async () => {
    for (const close of closing) await close();
  });

  type Command = Partial<ContainerRequest> & { readonly command: readonly string[] };

  interface World {
    readonly directory: string;
    readonly pod: PodRequest;
    readonly runtime: CriRuntime;
    /** Another one for the same pods, as after a restart of this program. */
    readonly open: () => Promise<CriRuntime>;
    readonly container: (request: Command) => ContainerRequest;
    readonly start: (request: Command) => Promise<string>;
    /** Follows the changes of the runtime until the pod is as the test wants it. */
    readonly until: (isSo: (pod: RuntimePod | undefined) => boolean) => Promise<RuntimePod | undefined>;
  }

  let pods = 0;

  async function world(t: TestContext, request: Partial<PodRequest> = {}): Promise<World> {
    const directory = realpathSync(temporaryDirectory(t));
    mkdirSync(join(directory, 'pods'));
    pods += 1;
    const uid = `cri-runtime-${process.pid}-${pods}`;
    const labels = { [uidLabel]: uid };
    const logDirectory = join(directory, 'logs', `shop_web_${uid}`);
    const pod = podRequest(directory, { uid, labels, logDirectory, ...request });
    const open = async (): Promise<CriRuntime> => {
      const opened = await openCriRuntime(
        {
          endpoint: containerd.endpoint,
          cgroupDriver: 'cgroupfs',
          podPidsMax: undefined,
          logLimits: { bytesMax: 10_000_000, filesMax: 5 },
          logRoot: join(directory, 'logs'),
          logLinks: join(directory, 'containers'),
          podsDirectory: join(directory, 'pods'),
        },
        { clock: systemClock, report: assert.fail },
        signal,
      );
      t.after(() => opened.close());
      return opened;
    };
    const runtime = await open();
    const container: World['container'] = (more) =>
      containerRequest(uid, { imageId: image.config.digest, image: image.name, labels, stopSignal: '', ...more });
    return {
      directory,
      pod,
      runtime,
      open,
      container,
      async start(more) {
        const id = await runtime.createContainer(container(more), pod, signal);
        await runtime.startContainer(id, signal);
        return id;
      },
      async until(isSo) {
        const over = new AbortController();
        const changes = runtime.changes(over.signal);
        const now = await runtime.get(uid, signal);
        if (isSo(now)) return now;
        for await (const changed of changes) {
          const seen = changed === uid ? await runtime.get(uid, signal) : undefined;
          if (changed === uid && isSo(seen)) return seen;
        }
        return undefined;
      },
    };
  }

  function stateOf(pod: RuntimePod | undefined, name = 'main'): string {
    const state = pod?.containers.find((one) => one.name === name)?.state;
    return state?.kind === 'exited' ? `exited ${state.exitCode} ${state.reason}` : (state?.kind ?? 'gone');
  }

  test('a pod gets an address, runs its containers, ends, is made again, and leaves nothing', async (t) => {
    const { pod, runtime, start, until, directory } = await world(t);
    const made = await runtime.runPod(pod, signal);
    assert.equal(made.state, 'ready');
    assert.ok(made.ips[0]?.startsWith(containerd.addresses), made.ips.join());
    assert.deepEqual(await runtime.runPod(pod, signal), made, 'a pod that is ready is not made again');

    await start({ command: ['sh', '-c', 'exit 3'] });
    const ended = await until((one) => stateOf(one).startsWith('exited'));
    assert.equal(stateOf(ended), 'exited 3 Error');
    await start({ name: 'long', command: ['sleep', '1000'] });
    const running = await until((one) => stateOf(one, 'long') === 'running');
    assert.deepEqual(
      running?.containers.map(({ name, image: from, logPath }) => [name, from, logPath]),
      [
        ['long', image.name, join(pod.logDirectory, 'long/0.log')],
        ['main', image.name, join(pod.logDirectory, 'main/0.log')],
      ],
    );

    const links = (): string[] => readdirSync(join(directory, 'containers'));
    const [, mainId = ''] = running?.containers.map(({ id }) => id) ?? [];
    assert.equal(links().length, 2);
    const mainLink = join(directory, 'containers', `web_shop_main-${mainId}.log`);
    assert.equal(readlinkSync(mainLink), join(pod.logDirectory, 'main/0.log'));

    await runtime.stopPod(pod.uid, signal);
    await runtime.stopPod(pod.uid, signal);
    const stopped = await runtime.get(pod.uid, signal);
    assert.equal(stopped?.state, 'notReady');
    assert.deepEqual(stopped.ips, made.ips, 'a pod that has ended keeps its address');
    assert.match(stateOf(stopped, 'long'), /^exited 137/);

    const again = await runtime.runPod(pod, signal);
    assert.equal(again.state, 'ready');
    const { items } = await containerd.runtime.listPodSandbox({}, { timeoutMs: 5_000, signal });
    const attempts = items
      .filter(({ labels }) => labels[uidLabel] === pod.uid)
      .map(({ metadata }) => metadata?.attempt);
    assert.deepEqual(attempts.toSorted(), [0, 1]);
    const sandboxes = async (): Promise<number> => {
      const filter = { labelSelector: { [uidLabel]: pod.uid } };
      return (await containerd.runtime.listPodSandbox({ filter }, { timeoutMs: 5_000, signal })).items.length;
    };
    await runtime.removeReplaced(signal);
    assert.equal(await sandboxes(), 2, 'containers of the first are still there');
    for (const { id } of again.containers) await runtime.removeContainer(id, signal);
    assert.deepEqual(links(), [], 'a link goes with its container');
    symlinkSync(join(directory, 'logs/gone/main/0.log'), mainLink);
    await runtime.removeReplaced(signal);
    assert.deepEqual(links(), [], 'and without its log');
    assert.equal(await sandboxes(), 1);
    assert.equal((await runtime.get(pod.uid, signal))?.state, 'ready');

    await runtime.removePod(pod.uid, signal);
    await runtime.removePod(pod.uid, signal);
    assert.equal(await runtime.get(pod.uid, signal), undefined);
    assert.deepEqual(await containerd.leftAtLast(), []);
    assert.ok(!existsSync(pod.logDirectory));
    assert.ok(!existsSync(`/sys/fs/cgroup/cpu/kubepods/besteffort/pod${pod.uid}`));
    assert.ok(existsSync(directory));
  });

  test('pods of other clients of the runtime are neither seen nor touched', async (t) => {
    const { pod, runtime } = await world(t, { hostNetwork: true });
    const options = { timeoutMs: 60_000, signal };
    const { podSandboxId } = await containerd.runtime.runPodSandbox(
      {
        config: {
          metadata: { name: 'theirs', namespace: 'other', uid: 'theirs' },
          linux: { securityContext: { namespaceOptions: { network: 2, pid: 1 } } },
        },
      },
      options,
    );
    const made = await runtime.runPod(pod, signal);
    assert.deepEqual(made.ips, [], 'with the network of the host its addresses are the node’s');
    assert.deepEqual(
      (await runtime.list(signal)).map(({ uid }) => uid),
      [pod.uid],
    );
    await runtime.removePod(pod.uid, signal);
    const { status } = await containerd.runtime.podSandboxStatus({ podSandboxId }, options);
    assert.equal(status?.state, 0);
    await containerd.runtime.removePodSandbox({ podSandboxId }, options);
  });

  test('a container that cannot start says why, without what may be secret', async (t) => {
    const { pod, runtime, container } = await world(t, { hostNetwork: true });
    await runtime.runPod(pod, signal);
    const request = container({ command: ['/no/such/hunter2'], program: '/no/such/$$$(PASSWORD)' });
    const id = await runtime.createContainer(request, pod, signal);
    await assert.rejects(runtime.startContainer(id, signal), (error: Error) => {
      assert.ok(error instanceof RuntimeError);
      assert.match(error.message, /\/no\/such\/\$\$\$\(PASSWORD\).*no such file or directory/);
      assert.ok(!error.message.includes('hunter2') && error.cause === undefined);
      return true;
    });
    const made = await runtime.get(pod.uid, signal);
    assert.match(stateOf(made), /^exited 128 StartError/);
    assert.match(JSON.stringify(made?.containers), /"message":"the runtime cannot start .*\$\(PASSWORD\)/);
    assert.doesNotMatch(JSON.stringify(made?.containers), /hunter2/);
    await runtime.removeContainer(id, signal);
    await runtime.removeContainer(id, signal);
    await runtime.stopContainer(id, 0, signal);
    await runtime.removePod(pod.uid, signal);
  });

  test('an unknown handler is refused by the runtime', async (t) => {
    const { pod, runtime } = await world(t, { hostNetwork: true, runtimeHandler: 'kata' });
    await assert.rejects(runtime.runPod(pod, signal), /no runtime for "kata" is configured/);
    assert.equal(await runtime.get(pod.uid, signal), undefined);
    await runtime.list(signal);
    assert.ok(
      !existsSync(`/sys/fs/cgroup/cpu/kubepods/besteffort/pod${pod.uid}`),
      'the cgroup went with the next look',
    );
  });

  test('a runtime that is killed is away for a while; its containers and their ends are found again', async (t) => {
    const { pod, runtime, open, start, until } = await world(t, { hostNetwork: true });
    await runtime.runPod(pod, signal);
    const running = await start({ command: ['sleep', '1000'] });
    await start({ name: 'ending', command: ['sh', '-c', 'sleep 0.2; exit 7'] });
    await containerd.kill();
    await assert.rejects(runtime.get(pod.uid, signal), { name: 'RuntimeError' });
    const changes = runtime.changes(signal);
    await containerd.start();
    for await (const uid of changes) if (uid === pod.uid) break; // published when it is back
    for (const one of [runtime, await open()]) {
      const found = await one.get(pod.uid, signal);
      assert.equal(found?.state, 'ready');
      assert.equal(found.containers.find(({ id }) => id === running)?.state.kind, 'running');
    }
    assert.equal(stateOf(await until((one) => stateOf(one, 'ending') !== 'running'), 'ending'), 'exited 7 Error');
    await runtime.removePod(pod.uid, signal);
    assert.deepEqual(await containerd.leftAtLast(), []);
  });
});
