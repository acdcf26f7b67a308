/** The life of pods under `mountlet up`, as kubectl shows it: logs, restarts, hooks, probes, init containers, ends. */
import assert from 'node:assert/strict';
import type { Summary } from '../src/stats/summary.ts';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { after, before, describe, test } from 'node:test';
import { examineMachine } from '../src/runtimes/process/machine.ts';
import type { Pod } from '../src/kube/kinds/pod/pod.ts';
import { eventually } from './kubectl-program.ts';
import { containerOf, mountAt, pod } from './manifests.ts';
import { testedRuntime } from './tested-runtime.ts';
import { UpMachine, freePort, withNode } from './up-program.ts';

const machine = new UpMachine();
before(async () => void (withNode.skip === false && (await machine.start())));
after(() => machine.end());

const state = (path: string): string => `{.status.containerStatuses[0].${path}}`;

// Each has pods of its own, and most of the time is spent waiting.
describe('the life of a pod', { concurrency: 4 }, () => {
  test(
    'what a container prints is its log: the tail, with times, followed, and of the run before',
    withNode,
    async () => {
      const { kubectl } = machine;
      const end = 'until [ -e /tmp/go ]; do sleep 0.1; done; echo last; exit 3';
      const script = `echo one; echo two; echo three; echo aside >&2; ${end}`;
      await kubectl.apply(pod('talks', { script }, { restartPolicy: 'OnFailure' }));
      await kubectl.running('talks');
      await eventually(async () => assert.match(await kubectl.ok('logs talks'), /^aside$/m));
      // The two outputs of a container have no order among them.
      const printed = (await kubectl.ok('logs talks')).split('\n');
      assert.deepEqual(printed.filter((line) => line !== 'aside').join(' '), 'one two three ');
      assert.equal(await kubectl.ok('logs talks --tail=4'), printed.join('\n'));
      assert.match(await kubectl.ok('logs talks --tail=1'), /^[a-z]+\n$/);
      assert.match(
        await kubectl.ok('logs talks --timestamps --tail=1'),
        /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{9}Z [a-z]+\n$/,
      );
      const follower = kubectl.start(['logs', '-f', 'talks', '--tail=1']);
      const closed = once(follower, 'close');
      const lines: string[] = [];
      const reader = createInterface({ input: follower.stdout ?? process.stdin }).on('line', (line) =>
        lines.push(line),
      );
      await once(reader, 'line');
      // The end that it brings about may kill it.
      await kubectl.run(['exec', 'talks', '--', 'touch', '/tmp/go']);
      await closed;
      assert.deepEqual(lines.slice(1), ['last']);
      await kubectl.until('pod/talks', state('restartCount'), '1');
      assert.equal(await kubectl.ok('logs talks --previous --tail=1'), 'last\n');
      assert.equal(await kubectl.ok(`get pod talks -o jsonpath=${state('lastState.terminated.exitCode')}`), '3');
    },
  );

  test(
    'the node serves what its containers use, over HTTPS and under the names of the kubelet',
    withNode,
    async (t) => {
      const groups = examineMachine().find(({ name }) => name === 'control groups');
      if (groups?.available !== true) return t.skip('needs control groups');
      const { kubectl } = machine;
      await kubectl.apply(pod('uses', { script: 'i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done; sleep 1000' }));
      await kubectl.running('uses');
      const port = await kubectl.ok('get nodes -o jsonpath={.items[0].status.daemonEndpoints.kubeletEndpoint.Port}');
      const figure = async (name: string): Promise<number> => {
        const text = await kubectl.ok(['--server', `https://127.0.0.1:${port}`, 'get', '--raw', '/metrics/resource']);
        const series = `${name}{container="main",namespace="default",pod="uses"} `;
        return Number(
          text
            .split('\n')
            .find((line) => line.startsWith(series))
            ?.slice(series.length)
            .split(' ')[0] ?? 0,
        );
      };
      await eventually(async () => assert.ok((await figure('container_cpu_usage_seconds_total')) > 0.01));
      assert.ok((await figure('container_memory_working_set_bytes')) > 0);
      const node = ['--server', `https://127.0.0.1:${port}`, 'get', '--raw'];
      const summary = JSON.parse(await kubectl.ok([...node, '/stats/summary'])) as Summary;
      const uses = summary.pods.find(({ podRef }) => podRef.name === 'uses');
      assert.ok((uses?.containers[0]?.cpu.usageCoreNanoSeconds ?? 0) > 1e7);
      assert.ok((uses?.containers[0]?.memory.rssBytes ?? 0) > 0 && (uses?.memory?.pageFaults ?? 0) > 0);
      assert.ok((uses?.process_stats?.process_count ?? 0) > 0);
      assert.ok((uses?.['ephemeral-storage']?.usedBytes ?? 0) > 0);
      assert.ok((summary.node.fs?.capacityBytes ?? 0) > 0);
      const posted = ['--server', `https://127.0.0.1:${port}`, 'create', '--raw', '/stats/summary', '-f', '-'];
      assert.match(await kubectl.ok(posted, { input: '{}' }), /"nodeName"/);
      const less = await kubectl.ok([...node, '/stats/summary?only_cpu_and_memory=true']);
      assert.doesNotMatch(less, /capacityBytes|"network"/);
      const behind = `/api/v1/${await kubectl.ok('get nodes -o name').then((name) => name.trim().replace('node/', 'nodes/'))}/proxy`;
      assert.match(await kubectl.ok(['get', '--raw', `${behind}/stats/summary`]), /"nodeName":/);
      assert.match(await kubectl.ok(['get', '--raw', `${behind}/configz`]), /"kubeletconfig":/);
      assert.match(
        await kubectl.ok('top nodes'),
        /^NAME +CPU\(cores\) +CPU\(%\) +MEMORY.*\n\S+ +\d+m +\d+% +\d+Mi +\d+%/,
      );
      assert.match(await kubectl.ok('top pods -A --containers'), /^default +uses +main +\d+m +\d+Mi/m);
      assert.match(await kubectl.ok('top pod uses --no-headers'), /^uses +\d+m +\d+Mi/);
    },
  );

  test('a container that crashes again and again is in CrashLoopBackOff', withNode, async () => {
    const { kubectl } = machine;
    await kubectl.apply(pod('crashes', { script: 'exit 1' }));
    await kubectl.until('pod/crashes', state('state.waiting.reason'), 'CrashLoopBackOff');
    await eventually(async () => assert.match(await kubectl.ok('get pod crashes'), /CrashLoopBackOff/));
    await eventually(async () => assert.match(await kubectl.ok('events --for pod/crashes'), /BackOff.*Back-off rest/));
  });

  for (const { restartPolicy, code, phase } of [
    { restartPolicy: 'Never', code: 0, phase: 'Succeeded' },
    { restartPolicy: 'Never', code: 7, phase: 'Failed' },
    { restartPolicy: 'OnFailure', code: 0, phase: 'Succeeded' },
  ]) {
    test(`with restartPolicy ${restartPolicy}, exit code ${code} is the end: ${phase}`, withNode, async () => {
      const { kubectl } = machine;
      const name = `${restartPolicy}-${code}`.toLowerCase();
      await kubectl.apply(pod(name, { script: `exit ${code}` }, { restartPolicy }));
      await kubectl.until(`pod/${name}`, '{.status.phase}', phase);
      assert.equal(
        await kubectl.ok(`get pod ${name} -o jsonpath=${state('state.terminated.exitCode')}${state('restartCount')}`),
        `${code}0`,
      );
    });
  }

  test('init containers run in their order before the containers', withNode, async () => {
    const { kubectl } = machine;
    const work = { volumeMounts: [mountAt('work', '/work')] };
    await kubectl.apply(
      pod(
        'ordered',
        { script: 'cat /work/order; exec sleep infinity', ...work },
        {
          initContainers: ['first', 'second'].map((name) =>
            containerOf({ name, script: `echo ${name} >>/work/order`, ...work }),
          ),
          volumes: [{ name: 'work', emptyDir: {} }],
        },
      ),
    );
    await kubectl.running('ordered');
    await eventually(async () => assert.equal(await kubectl.ok('logs ordered'), 'first\nsecond\n'));
  });

  test('an init container that fails ends a pod that is not restarted', withNode, async () => {
    const { kubectl } = machine;
    const initContainers = [containerOf({ name: 'setup', script: 'echo broken; exit 5' })];
    await kubectl.apply(pod('unborn', {}, { initContainers, restartPolicy: 'Never' }));
    await kubectl.until('pod/unborn', '{.status.phase}', 'Failed');
    assert.match(await kubectl.ok('get pod unborn'), /Init:Error/);
    assert.equal(await kubectl.ok('logs unborn -c setup'), 'broken\n');
  });

  test('hooks run after the start and before the end, inside of the container', withNode, async () => {
    const { kubectl } = machine;
    const told = join(machine.directory, 'told');
    const hook = (word: string): object => ({ exec: { command: ['sh', '-c', `echo ${word} >/told/${word}`] } });
    await kubectl.apply(
      pod(
        'hooked',
        {
          lifecycle: { postStart: hook('started'), preStop: hook('stopping') },
          volumeMounts: [mountAt('told', '/told')],
        },
        {
          terminationGracePeriodSeconds: 30,
          volumes: [{ name: 'told', hostPath: { path: told, type: 'DirectoryOrCreate' } }],
        },
      ),
    );
    await kubectl.running('hooked');
    assert.equal(await kubectl.exec('hooked', 'cat', '/told/started'), 'started\n');
    await kubectl.ok('delete pod hooked');
    assert.ok(existsSync(join(told, 'stopping')));
  });

  test('a pod that does not listen to SIGTERM is killed when its grace is over', withNode, async () => {
    const { kubectl, up } = machine;
    const script = 'trap "echo no" TERM; echo ready; while :; do sleep 0.1; done';
    await kubectl.apply(pod('deaf', { script }, { terminationGracePeriodSeconds: 2 }));
    await eventually(async () => assert.equal(await kubectl.ok('logs deaf'), 'ready\n'));
    const uid = await up.uidOf('deaf');
    await kubectl.ok('delete pod deaf');
    await eventually(() => assert.ok(!existsSync(join(up.directory, 'node/pods', uid))));
  });

  test('a pod that is deleted by force is killed at once: the next one can have its port', withNode, async () => {
    const { kubectl, up } = machine;
    const script = 'trap "" TERM; echo ready; while :; do sleep 0.1; done';
    const ports = [{ containerPort: 80, hostPort: 18_474 }];
    const stubborn = pod('stubborn', { script, ports }, { terminationGracePeriodSeconds: 3600 });
    await kubectl.apply(stubborn);
    await eventually(async () => assert.equal(await kubectl.ok('logs stubborn'), 'ready\n'));
    const uid = await up.uidOf('stubborn');
    await kubectl.ok('delete pod stubborn --grace-period=0 --force');
    await kubectl.apply(stubborn);
    await kubectl.running('stubborn');
    await eventually(() => assert.ok(!existsSync(join(up.directory, 'node/pods', uid))));
    assert.doesNotMatch(up.output(), /status of pod .*stubborn/);
  });

  for (const { kind, probe } of [
    { kind: 'exec', probe: () => ({ exec: { command: ['test', '-e', '/tmp/well'] } }) },
    { kind: 'httpGet', probe: (port: number) => ({ httpGet: { path: '/', port } }) },
    { kind: 'tcpSocket', probe: (port: number) => ({ tcpSocket: { port } }) },
  ]) {
    test(`a pod is ready when its ${kind} probe says so`, withNode, async () => {
      const { kubectl } = machine;
      const port = await freePort(); // pods share the network of the machine
      const name = `probed-${kind.toLowerCase()}`;
      // It neither listens nor has the file before the test says so.
      const script = `until [ -e /tmp/go ]; do sleep 0.1; done; touch /tmp/well; ${testedRuntime().httpServer(port, 'well')}`;
      await kubectl.apply(pod(name, { script, readinessProbe: { ...probe(port), periodSeconds: 1 } }));
      await kubectl.running(name);
      await eventually(async () => assert.match(await kubectl.ok(`events --for pod/${name}`), /Unhealthy.*Readiness/));
      assert.match(await kubectl.ok(`get pod ${name}`), / 0\/1 +Running /);
      await kubectl.exec(name, 'touch', '/tmp/go');
      await kubectl.until(`pod/${name}`, state('ready'), 'true');
    });
  }

  test('a container whose liveness probe fails is started again', withNode, async () => {
    const { kubectl } = machine;
    const command = ['test', '!', '-e', '/tmp/ill'];
    const livenessProbe = { exec: { command }, periodSeconds: 1, timeoutSeconds: 60, failureThreshold: 1 };
    await kubectl.apply(pod('alive', { livenessProbe }));
    await kubectl.running('alive');
    await kubectl.exec('alive', 'touch', '/tmp/ill');
    await kubectl.until('pod/alive', state('restartCount'), '1');
    await kubectl.until('pod/alive', state('ready'), 'true');
    const said = /Killing.*failed liveness probe, will be restarted/;
    await eventually(async () => assert.match(await kubectl.ok('events --for pod/alive'), said));
  });

  for (const { reason, message, container = {}, spec = {} } of [
    {
      reason: 'OutOfcpu',
      message:
        /^Pod was rejected: Node didn't have enough resource: cpu, requested: 1000000, used: \d+, capacity: \d+$/,
      container: { resources: { requests: { cpu: '1000' } } },
    },
    {
      reason: 'NodePorts',
      message: /free ports for the requested pod ports: TCP port 18473 is used by pod "default\/holds-a-port"$/,
      container: { ports: [{ containerPort: 80, hostPort: 18_473 }] },
    },
    {
      reason: 'PodOSNotSupported',
      message: /^Pod was rejected: Failed to admit pod as the OS field doesn't match node OS$/,
      spec: { os: { name: 'windows' } },
    },
    {
      reason: 'SysctlForbidden',
      message: /^Pod was rejected: forbidden sysctl: "kernel.shmmax" not allowlisted$/,
      spec: { securityContext: { sysctls: [{ name: 'kernel.shmmax', value: '1' }] } },
    },
  ]) {
    test(`a pod that the node cannot take fails, where no scheduler kept it away: ${reason}`, withNode, async () => {
      const { kubectl } = machine;
      const nodeName = await kubectl.ok('get nodes -o jsonpath={.items[0].metadata.name}');
      const name = `refused-${reason.toLowerCase()}`;
      if (reason === 'NodePorts') {
        await kubectl.apply(pod('holds-a-port', { ports: [{ containerPort: 18_473 }] }, { hostNetwork: true }));
        await kubectl.running('holds-a-port');
      }
      await kubectl.apply(pod(name, container, { ...spec, nodeName }));
      await kubectl.until(`pod/${name}`, '{.status.reason}', reason);
      const { status } = await kubectl.json<Pod>(`get pod ${name}`);
      assert.equal(status?.phase, 'Failed');
      assert.match(status.message ?? '', message);
      await eventually(async () => assert.match(await kubectl.ok(`events --for pod/${name}`), new RegExp(reason)));
      await kubectl.ok(`delete pod ${name}`);
    });
  }

  test('a pod for which there is no room waits and says so, and runs when another one goes', withNode, async () => {
    const { kubectl } = machine;
    const waits = async (name: string, why: string): Promise<void> => {
      const message = `0/1 nodes are available: 1 ${why}.`;
      await kubectl.until(`pod/${name}`, '{.status.conditions[?(@.type=="PodScheduled")].message}', message);
      await eventually(async () => {
        const described = await kubectl.ok(`describe pod ${name}`);
        assert.ok(described.includes('Warning') && described.includes(`default-scheduler  ${message}`), described);
      });
      assert.match(await kubectl.ok(`get pod ${name}`), / 0\/1 +Pending +0 /);
    };
    const onPort = { ports: [{ containerPort: 80, hostPort: 18_475 }] };
    await kubectl.apply(pod('too-large', { resources: { requests: { cpu: '1000' } } }), pod('first-on-port', onPort));
    await kubectl.running('first-on-port');
    await kubectl.apply(pod('next-on-port', onPort));
    await waits('too-large', 'Insufficient cpu');
    await waits('next-on-port', "node(s) didn't have free ports for the requested pod ports");
    await kubectl.ok('delete pod first-on-port');
    await kubectl.running('next-on-port');
    await kubectl.ok('delete pod too-large next-on-port');
  });

  test('who asks for a place in a way that has no effect is warned', withNode, async () => {
    const { kubectl } = machine;
    const podAntiAffinity = {
      requiredDuringSchedulingIgnoredDuringExecution: [
        { labelSelector: { matchLabels: { app: 'alone' } }, topologyKey: 'kubernetes.io/hostname' },
      ],
    };
    const topologySpreadConstraints = [
      { maxSkew: 1, topologyKey: 'kubernetes.io/hostname', whenUnsatisfiable: 'ScheduleAnyway' },
    ];
    const spec = { affinity: { podAntiAffinity }, topologySpreadConstraints };
    const { stderr } = await kubectl.run(['apply', '-f', '-'], { input: JSON.stringify(pod('alone', {}, spec)) });
    const kept = "kept, but this server's scheduler does not act on it";
    assert.deepEqual(stderr.trim().split('\n').toSorted(), [
      `Warning: spec.affinity.podAntiAffinity: ${kept}`,
      `Warning: spec.topologySpreadConstraints: ${kept}`,
    ]);
    await kubectl.running('alone');
    await kubectl.ok('delete pod alone');
  });

  test('a pod runs with its RuntimeClass, and is refused without one', withNode, async () => {
    const { kubectl } = machine;
    const classy = pod('classy', {}, { runtimeClassName: 'sandboxed' });
    const refused = await kubectl.run(['create', '-f', '-'], { input: JSON.stringify(classy) });
    assert.match(refused.stderr, /"classy" is forbidden: pod rejected: RuntimeClass "sandboxed" not found/);
    await kubectl.apply({
      apiVersion: 'node.k8s.io/v1',
      kind: 'RuntimeClass',
      metadata: { name: 'sandboxed' },
      handler: testedRuntime().handler,
      overhead: { podFixed: { cpu: '10m' } },
    });
    await kubectl.apply(classy);
    await kubectl.running('classy');
    assert.equal(await kubectl.ok('get pod classy -o jsonpath={.spec.overhead.cpu}'), '10m');
  });
});
