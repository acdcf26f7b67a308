/** StatefulSets, DaemonSets, Jobs and CronJobs under `mountlet up`, with kubectl: what people do with them, and what they see. */
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { canonicalJson } from '../src/kube/schema/equality.ts';
import { eventually } from './kubectl-program.ts';
import { containerOf, mountAt } from './manifests.ts';
import { UpMachine, withNode } from './up-program.ts';

const machine = new UpMachine();
before(async () => void (withNode.skip === false && (await machine.start('--node-name', 'here'))));
after(() => machine.end());

const template = (app: string, script: string, spec: object = {}, container: object = {}): object => ({
  metadata: { labels: { app } },
  spec: { terminationGracePeriodSeconds: 0, containers: [containerOf({ script, ...container })], ...spec },
});
const workload = (kind: string, name: string, spec: object): object => ({
  apiVersion: kind.endsWith('Job') ? 'batch/v1' : 'apps/v1',
  kind,
  metadata: { name },
  spec,
});
const job = (name: string, script: string, spec: object = {}): object =>
  workload('Job', name, { template: template(name, script, { restartPolicy: 'Never' }), ...spec });

/** What there is, without the kind before each name. */
const names = async (line: string): Promise<readonly string[]> => {
  const lines = (await machine.kubectl.ok(`${line} -o name`)).split('\n').filter((name) => name !== '');
  return lines.map((name) => name.replace(/^.*\//, ''));
};
const envOf = (pod: string): Promise<string> => machine.kubectl.exec(pod, 'sh', '-c', 'echo $VERSION');

describe('workloads', { concurrency: 4 }, () => {
  test(
    'a StatefulSet is scaled and rolled, one pod after the other, and each pod keeps its name and claim',
    withNode,
    async () => {
      const { kubectl } = machine;
      const script = 'hostname >>/data/log; sleep 1000';
      await kubectl.apply(
        workload('StatefulSet', 'web', {
          replicas: 2,
          serviceName: 'web',
          selector: { matchLabels: { app: 'web' } },
          template: template(
            'web',
            script,
            {},
            { env: [{ name: 'VERSION', value: '1' }], volumeMounts: [mountAt('data', '/data')] },
          ),
          volumeClaimTemplates: [
            {
              metadata: { name: 'data' },
              spec: { accessModes: ['ReadWriteOnce'], resources: { requests: { storage: '1Mi' } } },
            },
          ],
        }),
      );
      assert.match(
        await kubectl.ok('rollout status sts/web --timeout=100s'),
        /partitioned roll out complete: 2 new pods/,
      );
      assert.deepEqual(await names('get pods -l app=web'), ['web-0', 'web-1']);
      assert.match(await kubectl.ok('get sts web'), /web +2\/2/);
      const { metadata, spec } = await kubectl.json<{
        metadata: { labels: Record<string, string> };
        spec: { hostname: string; subdomain: string };
      }>('get pod web-1');
      assert.deepEqual(
        [spec.hostname, spec.subdomain, metadata.labels['apps.kubernetes.io/pod-index']],
        ['web-1', 'web', '1'],
      );
      assert.match(await kubectl.ok('scale sts web --replicas=3'), /statefulset.apps\/web scaled/);
      await kubectl.until('sts/web', '{.status.availableReplicas}', '3');
      await kubectl.ok('scale sts web --replicas=1');
      await eventually(async () => assert.deepEqual(await names('get pods -l app=web'), ['web-0']));
      assert.deepEqual(await names('get pvc -l app=web'), ['data-web-0', 'data-web-1', 'data-web-2']);
      await kubectl.ok('set env sts/web VERSION=2');
      await kubectl.ok('scale sts web --replicas=2');
      await kubectl.ok('rollout status sts/web --timeout=100s');
      await eventually(async () => assert.deepEqual([await envOf('web-0'), await envOf('web-1')], ['2\n', '2\n']));
      // The first pod's third start: with its second version it found what the first had written.
      await eventually(async () => assert.equal(await kubectl.exec('web-0', 'cat', '/data/log'), 'web-0\nweb-0\n'));
      assert.match(await kubectl.ok('rollout history sts/web'), /\n1 +<none>\n2 +<none>/);
      assert.match(await kubectl.ok('rollout undo sts/web'), /statefulset.apps\/web rolled back/);
      await kubectl.ok('rollout status sts/web --timeout=100s');
      await eventually(async () => assert.deepEqual([await envOf('web-0'), await envOf('web-1')], ['1\n', '1\n']));
      assert.match(await kubectl.ok('rollout history sts/web'), /\n2 +<none>\n3 +<none>/);
      assert.match(await kubectl.ok('rollout restart sts/web'), /statefulset.apps\/web restarted/);
      await kubectl.ok('rollout status sts/web --timeout=100s');
      const events = await kubectl.ok('events --for sts/web');
      assert.match(events, /SuccessfulCreate .*create Claim data-web-0 Pod web-0 in StatefulSet web success/);
      assert.match(events, /SuccessfulDelete .*delete Pod web-2 in StatefulSet web successful/);
      const refused = await kubectl.run([
        'patch',
        'sts',
        'web',
        '--type=merge',
        '-p',
        '{"spec":{"serviceName":"other"}}',
      ]);
      assert.match(refused.stderr, /updates to statefulset spec for fields other than 'replicas', 'ordinals'/);
      await kubectl.ok('delete sts web --cascade=foreground');
      await kubectl.ok('delete pvc -l app=web');
      assert.deepEqual(await names('get pods,controllerrevisions,pvc -l app=web'), []);
    },
  );

  test('a DaemonSet runs on the node, also when it is closed to others, and rolls', withNode, async () => {
    const { kubectl } = machine;
    const env = { env: [{ name: 'VERSION', value: '1' }] };
    const spec = { selector: { matchLabels: { app: 'log' } }, template: template('log', 'sleep 1000', {}, env) };
    await kubectl.apply(workload('DaemonSet', 'log', spec));
    // A node that has just come takes no pods yet, and a set that wants none is rolled out.
    await kubectl.until('ds/log', '{.status.numberReady}', '1');
    assert.match(await kubectl.ok('rollout status ds/log --timeout=100s'), /daemon set "log" successfully rolled out/);
    assert.match(await kubectl.ok('get ds log'), /log +1 +1 +1 +1 +1 +<none>/);
    await kubectl.ok('set env ds/log VERSION=2');
    await kubectl.ok('rollout status ds/log --timeout=100s');
    const pod = async (): Promise<string> =>
      (await names('get pods -l app=log --field-selector=status.phase=Running'))[0] ?? '';
    assert.equal(await envOf(await pod()), '2\n');
    const { metadata, spec: given } = await kubectl.json<{
      metadata: { labels: Record<string, string> };
      spec: { tolerations: { key: string }[] };
    }>(`get pod ${await pod()}`);
    assert.ok(given.tolerations.some(({ key }) => key === 'node.kubernetes.io/unschedulable'));
    assert.deepEqual(Object.keys(metadata.labels).toSorted(), ['app', 'controller-revision-hash']);
    assert.match(await kubectl.ok('rollout history ds/log'), /\n1 +<none>\n2 +<none>/);
    assert.match(await kubectl.ok('rollout undo ds/log --to-revision=1'), /daemonset.apps\/log rolled back/);
    await kubectl.ok('rollout status ds/log --timeout=100s');
    assert.equal(await envOf(await pod()), '1\n');
    const raw = await kubectl.ok('get --raw /apis/apps/v1/controllerrevisions?labelSelector=app%3Dlog');
    const { items } = JSON.parse(raw) as { items: { data: unknown }[] };
    assert.equal(items.length, 2);
    for (const { data } of items) assert.ok(raw.includes(canonicalJson(data)), 'clients compare it as bytes');
    await kubectl.ok('rollout restart ds/log');
    await kubectl.ok('rollout status ds/log --timeout=100s');
    await kubectl.ok(['patch', 'ds', 'log', '-p', '{"spec":{"template":{"spec":{"nodeSelector":{"disk":"fast"}}}}}']);
    await eventually(async () => assert.match(await kubectl.ok('get ds log'), /log +0 +0 +0 +0 +0 +disk=fast/));
    await kubectl.ok('label node here disk=fast');
    await kubectl.until('ds/log', '{.status.numberReady}', '1');
    await kubectl.ok('rollout status ds/log --timeout=100s');
    assert.equal((await names('get pods -l app=log')).length, 1);
    await kubectl.ok('delete ds log --cascade=foreground');
    assert.deepEqual(await names('get pods,controllerrevisions -l app=log'), []);
  });

  test('Jobs complete, fail, and count by index; the finished ones go when their time is over', withNode, async () => {
    const { kubectl } = machine;
    const indexed = { completions: 3, parallelism: 2, completionMode: 'Indexed' };
    await kubectl.apply(
      job('sum', 'echo done', { completions: 2 }),
      job('broken', 'exit 3', { backoffLimit: 0 }),
      job('numbers', 'echo "index $JOB_COMPLETION_INDEX of $(hostname)"', indexed),
      job('short', 'true', { ttlSecondsAfterFinished: 1 }),
      job('judged', 'exit 42', {
        podFailurePolicy: { rules: [{ action: 'FailJob', onExitCodes: { operator: 'In', values: [42] } }] },
      }),
    );
    await kubectl.ok('wait job/sum job/numbers --for=condition=Complete --timeout=100s');
    await kubectl.ok('wait job/broken job/judged --for=condition=Failed --timeout=100s');
    assert.match(await kubectl.ok('get job sum'), /sum +Complete +2\/2/);
    const reasons = await kubectl.ok([
      'get',
      'job',
      'broken',
      'judged',
      '-o',
      'jsonpath={.items[*].status.conditions[?(@.type=="Failed")].reason}',
    ]);
    assert.equal(reasons, 'BackoffLimitExceeded PodFailurePolicy');
    const { status } = await kubectl.json<{ status: Record<string, unknown> }>('get job numbers');
    assert.deepEqual([status['succeeded'], status['completedIndexes'], status['active'] ?? 0], [3, '0-2', 0]);
    const logs = await kubectl.ok('logs -l job-name=numbers --tail=-1');
    assert.deepEqual(
      logs.trim().split('\n').sort(),
      [0, 1, 2].map((index) => `index ${index} of numbers-${index}`),
    );
    const finalizers = await kubectl.ok([
      'get',
      'pods',
      '-l',
      'batch.kubernetes.io/job-name in (sum,numbers,broken,judged)',
      '-o',
      'jsonpath={.items[*].metadata.finalizers}',
    ]);
    assert.equal(finalizers, '');
    await kubectl.ok('wait job/short --for=delete --timeout=100s');
    assert.match(await kubectl.ok('describe job sum'), /Completed .*job-controller +Job completed/);
    const limited = await kubectl.run(['create', '-f', '-'], {
      input: JSON.stringify(job('limited', 'true', { ...indexed, backoffLimitPerIndex: 1 })),
    });
    assert.match(limited.stderr, /Warning: spec\.backoffLimitPerIndex: kept, but/);
    await kubectl.ok('delete job sum broken numbers judged limited');
    await eventually(async () => assert.deepEqual(await names('get pods -l batch.kubernetes.io/job-name=numbers'), []));
  });

  test('a Job is suspended and resumed', withNode, async () => {
    const { kubectl } = machine;
    await kubectl.apply(job('long', 'sleep 1000', { suspend: true }));
    await kubectl.ok('wait job/long --for=condition=Suspended --timeout=100s');
    assert.deepEqual(await names('get pods -l job-name=long'), []);
    await kubectl.ok(['patch', 'job', 'long', '--type=merge', '-p', '{"spec":{"suspend":false}}']);
    await kubectl.until('job/long', '{.status.ready}', '1');
    await kubectl.ok(['patch', 'job', 'long', '--type=merge', '-p', '{"spec":{"suspend":true}}']);
    await eventually(async () => assert.deepEqual(await names('get pods -l job-name=long'), []));
    await kubectl.ok('wait job/long --for=condition=Suspended --timeout=100s');
    assert.match(await kubectl.ok('get job long'), /long +Suspended +0\/1/);
    await kubectl.ok('delete job long');
  });

  test('a CronJob makes the job that is due, and one that is asked for', withNode, async () => {
    const { kubectl } = machine;
    const jobTemplate = { spec: { template: template('tick', 'echo tick', { restartPolicy: 'Never' }) } };
    const spec = { schedule: '0 0 1 * *', timeZone: 'Etc/UTC', suspend: true, jobTemplate };
    await kubectl.apply(workload('CronJob', 'tick', spec));
    const daysAgo = 100;
    const lastScheduleTime = new Date(Date.now() - daysAgo * 86_400_000).toISOString().replace(/\.\d+/, '');
    await kubectl.ok([
      'patch',
      'cronjob',
      'tick',
      '--subresource=status',
      '--type=merge',
      '-p',
      JSON.stringify({ status: { lastScheduleTime } }),
    ]);
    assert.deepEqual(await names('get jobs -l app=tick'), []);
    await kubectl.ok(['patch', 'cronjob', 'tick', '--type=merge', '-p', '{"spec":{"suspend":false}}']);
    await eventually(async () =>
      assert.notEqual(await kubectl.ok(['get', 'cronjob', 'tick', '-o', 'jsonpath={.status.lastSuccessfulTime}']), ''),
    );
    const made = (await names('get jobs')).filter((name) => /^tick-\d+$/.test(name));
    assert.equal(made.length, 1, 'of the times that were missed the last alone');
    assert.match(await kubectl.ok('get cronjob tick'), /tick +0 0 1 \* \* +Etc\/UTC +False +0/);
    assert.match(await kubectl.ok('create job --from=cronjob/tick by-hand'), /job.batch\/by-hand created/);
    await kubectl.ok('wait job/by-hand --for=condition=Complete --timeout=100s');
    assert.equal(await kubectl.ok('logs job/by-hand'), 'tick\n');
    const refused = await kubectl.run([
      'patch',
      'cronjob',
      'tick',
      '--type=merge',
      '-p',
      '{"spec":{"schedule":"60 * * * *"}}',
    ]);
    assert.match(refused.stderr, /end of range \(60\) above maximum \(59\): 60/);
    await kubectl.ok('delete cronjob tick');
    await eventually(async () =>
      assert.deepEqual(
        await names('get jobs'),
        (await names('get jobs')).filter((name) => !/tick|by-hand/.test(name)),
      ),
    );
  });
});
