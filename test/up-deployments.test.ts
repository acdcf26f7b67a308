/** Deployments, ReplicaSets and ReplicationControllers under `mountlet up`, with kubectl: what people do with them, and what they see. */
import assert from 'node:assert/strict';
import { createInterface } from 'node:readline';
import { after, before, describe, test } from 'node:test';
import { eventually } from './kubectl-program.ts';
import { containerOf } from './manifests.ts';
import { testedRuntime } from './tested-runtime.ts';
import { UpMachine, withNode } from './up-program.ts';

const machine = new UpMachine();
before(async () => void (withNode.skip === false && (await machine.start('--node-name', 'here'))));
after(async () => {
  // Else the pods of a test that has failed come back as often as they are deleted.
  if (withNode.skip === false)
    await machine.kubectl.run('delete deploy,rs,rc,jobs --all --cascade=foreground'.split(' '));
  await machine.end();
});

/** Ends at once when it is told to: a Deployment that kubectl makes leaves its pods thirty seconds. */
const idle = 'trap "exit 0" TERM; sleep 1000 & wait';

const read = (object: string, path: string): Promise<string> =>
  machine.kubectl.ok(['get', ...object.split(' '), '-o', `jsonpath=${path}`]);
const images = (app: string): Promise<string> => read(`pods -l app=${app}`, '{.items[*].spec.containers[0].image}');
const uids = async (selector: string): Promise<readonly string[]> =>
  (await read(`pods -l ${selector}`, '{.items[*].metadata.uid}')).split(' ').filter((uid) => uid !== '');
const create = (name: string, replicas: number): Promise<string> =>
  machine.kubectl.ok([
    'create',
    'deployment',
    name,
    '--image=main:1',
    `--replicas=${replicas}`,
    '--',
    'sh',
    '-c',
    idle,
  ]);

async function fails(line: string, says: RegExp): Promise<void> {
  const { code, stderr } = await machine.kubectl.run(line.split(' '));
  assert.notEqual(code, 0, line);
  assert.match(stderr, says);
}

async function rolledOut(name: string): Promise<void> {
  const said = await machine.kubectl.ok(`rollout status deploy/${name} --timeout=100s`);
  assert.match(said, new RegExp(`deployment "${name}" successfully rolled out\n$`));
}

/** `1 <none>` for each version. */
async function history(name: string): Promise<readonly string[]> {
  const [, , ...lines] = (await machine.kubectl.ok(`rollout history deploy/${name}`)).trimEnd().split('\n');
  return lines.map((line) => line.trim().replace(/ +/, ' '));
}

describe('Deployments', { concurrency: 3 }, () => {
  test('a Deployment is made, scaled, and rolled forward and back, with kubectl', withNode, async () => {
    const { kubectl } = machine;
    assert.equal(await create('web', 2), 'deployment.apps/web created\n');
    await rolledOut('web');
    assert.match(await kubectl.ok('get deploy web --no-headers'), /^web +2\/2 +2 +2 +\d+s\n$/);
    assert.equal(await kubectl.ok('wait deploy/web --for=condition=Available'), 'deployment.apps/web condition met\n');

    assert.equal(await kubectl.ok('scale deploy web --replicas=3'), 'deployment.apps/web scaled\n');
    await kubectl.until('deploy/web', '{.status.availableReplicas}', '3');
    await fails('scale deploy web --current-replicas=1 --replicas=4', /Expected replicas to be 1, was 3/);
    await kubectl.ok('scale deploy web --current-replicas=3 --replicas=2 --timeout=100s');

    assert.match(await kubectl.ok('set image deploy/web main=main:2'), /^deployment.apps\/web image updated$/m);
    await rolledOut('web');
    await eventually(async () => assert.equal(await images('web'), 'main:2 main:2'));
    await kubectl.ok('annotate deploy web kubernetes.io/change-cause=second');
    await eventually(async () => assert.deepEqual(await history('web'), ['1 <none>', '2 second']));
    assert.match(await kubectl.ok('rollout history deploy/web --revision=1'), /Image:\s+main:1\n/);

    assert.equal(await kubectl.ok('rollout undo deploy/web'), 'deployment.apps/web rolled back\n');
    await rolledOut('web');
    await eventually(async () => assert.deepEqual(await history('web'), ['2 second', '3 <none>']));
    assert.equal(await kubectl.ok('rollout undo deploy/web --to-revision=2'), 'deployment.apps/web rolled back\n');
    await rolledOut('web');
    await eventually(async () => assert.deepEqual(await history('web'), ['3 <none>', '4 second']));
    await eventually(async () => assert.equal(await images('web'), 'main:2 main:2'));
    await fails('rollout undo deploy/web --to-revision=9', /unable to find specified revision 9 in history/);

    const replaced = await uids('app=web');
    assert.equal(await kubectl.ok('rollout restart deploy/web'), 'deployment.apps/web restarted\n');
    await rolledOut('web');
    await eventually(async () => {
      const now = await uids('app=web');
      assert.deepEqual([now.length, now.filter((uid) => replaced.includes(uid))], [2, []]);
    });
    assert.match(await kubectl.ok('describe deploy web'), /NewReplicaSet: +web-\w+ \(2\/2 replicas created\)/);
    await kubectl.ok('delete deploy web');
    await eventually(async () => assert.deepEqual(await uids('app=web'), []));
  });

  test('a Deployment that is paused changes nothing until it is resumed', withNode, async () => {
    const { kubectl } = machine;
    await create('held', 1);
    await rolledOut('held');
    await kubectl.ok('set image deploy/held main=main:2');
    await rolledOut('held');
    await eventually(async () => assert.equal(await images('held'), 'main:2'));
    assert.equal(await kubectl.ok('rollout pause deploy/held'), 'deployment.apps/held paused\n');
    await fails('rollout pause deploy/held', /is already paused/);
    await fails('rollout undo deploy/held', /cannot rollback a paused deployment/);
    await fails('rollout restart deploy/held', /can't restart paused deployment/);
    await kubectl.ok('set image deploy/held main=main:3');
    const generation = await read('deploy held', '{.metadata.generation}');
    await kubectl.until('deploy/held', '{.status.observedGeneration}', generation);
    assert.equal(await images('held'), 'main:2');
    assert.deepEqual(await history('held'), ['1 <none>', '2 <none>']);
    assert.equal(await kubectl.ok('rollout resume deploy/held'), 'deployment.apps/held resumed\n');
    await fails('rollout resume deploy/held', /is not paused/);
    await rolledOut('held');
    await eventually(async () => assert.equal(await images('held'), 'main:3'));
    await kubectl.ok('delete deploy held');
  });

  test('a label without a value in the template is a new version', withNode, async () => {
    const { kubectl } = machine;
    await kubectl.until('node/here', '{.status.conditions[?(@.type=="Ready")].status}', 'True');
    await kubectl.ok('label node here fast=');
    await create('fast', 1);
    await rolledOut('fast');
    const generation = Number(await read('deploy fast', '{.metadata.generation}'));
    for (const part of [{ spec: { nodeSelector: { fast: '' } } }, { metadata: { labels: { plain: '' } } }]) {
      await kubectl.ok(['patch', 'deploy', 'fast', '-p', JSON.stringify({ spec: { template: part } })]);
      await rolledOut('fast');
    }
    assert.equal(Number(await read('deploy fast', '{.metadata.generation}')), generation + 2);
    await eventually(async () => assert.deepEqual(await history('fast'), ['1 <none>', '2 <none>', '3 <none>']));
    await eventually(async () => {
      const [uid, ...others] = await uids('app=fast,plain=');
      assert.ok(uid !== undefined && others.length === 0);
      assert.deepEqual(await uids('app=fast'), [uid]);
    });
    await kubectl.ok('delete deploy fast');
  });

  test('what a Deployment leaves behind is scaled by itself, and the next one adopts it', withNode, async () => {
    const { kubectl } = machine;
    await create('kept', 1);
    await rolledOut('kept');
    await kubectl.ok('delete deploy kept --cascade=orphan');
    const set = await read('rs -l app=kept', '{.items[*].metadata.name}');
    await eventually(async () => assert.equal(await read(`rs ${set}`, '{.metadata.ownerReferences}'), ''));
    const [first = ''] = await uids('app=kept');
    assert.equal(await kubectl.ok(`scale rs ${set} --replicas=2`), `replicaset.apps/${set} scaled\n`);
    await eventually(async () => assert.equal(await read(`rs ${set}`, '{.status.availableReplicas}'), '2'));
    const both = await uids('app=kept');
    assert.ok(both.includes(first), String(both));
    await create('kept', 2);
    await rolledOut('kept');
    const owner = await read('deploy kept', '{.metadata.uid}');
    assert.equal(await read('rs -l app=kept', '{.items[*].metadata.ownerReferences[*].uid}'), owner);
    assert.deepEqual((await uids('app=kept')).toSorted(), both.toSorted());
    await kubectl.ok('delete deploy kept');
    await eventually(async () => assert.deepEqual(await uids('app=kept'), []));
  });

  test('whoever deletes a ReplicationController or a Job and says nothing more leaves its pods', withNode, async () => {
    const { kubectl } = machine;
    const template = (app: string, spec: object): object => ({
      metadata: { labels: { app } },
      spec: { terminationGracePeriodSeconds: 0, containers: [containerOf({ script: 'sleep 1000' })], ...spec },
    });
    await kubectl.apply(
      {
        apiVersion: 'v1',
        kind: 'ReplicationController',
        metadata: { name: 'old' },
        spec: { replicas: 1, template: template('old', {}) },
      },
      {
        apiVersion: 'batch/v1',
        kind: 'Job',
        metadata: { name: 'sum' },
        spec: { template: template('sum', { restartPolicy: 'Never' }) },
      },
    );
    assert.equal(await kubectl.ok('scale rc old --replicas=2'), 'replicationcontroller/old scaled\n');
    await eventually(async () => assert.equal(await read('rc old', '{.status.readyReplicas}'), '2'));
    await kubectl.until('job/sum', '{.status.ready}', '1');
    const left = [...(await uids('app=old')), ...(await uids('app=sum'))];
    await kubectl.ok('delete --raw /api/v1/namespaces/default/replicationcontrollers/old');
    await kubectl.ok('delete --raw /apis/batch/v1/namespaces/default/jobs/sum');
    await eventually(async () => {
      assert.equal(await kubectl.ok('get rc,jobs --ignore-not-found -o name'), '');
      const path = '{.items[*].metadata.ownerReferences}{.items[*].metadata.finalizers}';
      assert.equal(await read('pods -l app=old', path), '');
      assert.equal(await read('pods -l app=sum', path), '');
    });
    assert.deepEqual([...(await uids('app=old')), ...(await uids('app=sum'))], left);
    const phases = async (app: string): Promise<string> => read(`pods -l app=${app}`, '{.items[*].status.phase}');
    assert.deepEqual([await phases('old'), await phases('sum')], ['Running Running', 'Running']);
    // kubectl asks for more.
    await kubectl.apply({
      apiVersion: 'batch/v1',
      kind: 'Job',
      metadata: { name: 'gone' },
      spec: { template: template('gone', { restartPolicy: 'Never' }) },
    });
    await kubectl.until('job/gone', '{.status.ready}', '1');
    await kubectl.ok('delete job gone');
    await eventually(async () => assert.deepEqual(await uids('app=gone'), []));
    await kubectl.ok('delete pods -l app=old');
    await kubectl.ok('delete pods -l app=sum');
  });

  test('kubectl port-forward svc/NAME reaches a pod of the Service', withNode, async (t) => {
    const { kubectl } = machine;
    const container = containerOf({ script: testedRuntime().httpServer(8080, 'hello') });
    const probed = { ...container, readinessProbe: { tcpSocket: { port: 8080 }, periodSeconds: 1 } };
    await kubectl.apply({
      apiVersion: 'apps/v1',
      kind: 'Deployment',
      metadata: { name: 'answers' },
      spec: {
        replicas: 2,
        selector: { matchLabels: { app: 'answers' } },
        template: {
          metadata: { labels: { app: 'answers' } },
          spec: { terminationGracePeriodSeconds: 0, containers: [probed] },
        },
      },
    });
    await kubectl.ok('expose deploy answers --port=80 --target-port=8080');
    await rolledOut('answers');
    const forward = kubectl.start(['port-forward', 'svc/answers', ':80']);
    t.after(() => forward.kill('SIGKILL'));
    let local: string | undefined;
    for await (const line of createInterface({ input: forward.stdout ?? process.stdin })) {
      [, local] = /127\.0\.0\.1:(\d+) -> 8080/.exec(line) ?? [];
      if (local !== undefined) break;
    }
    assert.ok(local !== undefined, 'it says which port it has taken');
    assert.equal(await (await fetch(`http://127.0.0.1:${local}/`)).text(), 'hello');
    await kubectl.ok('delete service,deploy answers');
  });
});
