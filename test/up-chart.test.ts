/**
 * A chart as people have it, as an argument of `mountlet up`, and with kubectl: all of it is taken, all of it runs, and what follows its
 * configuration is rolled out when that changes.
 */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { after, before, describe, test } from 'node:test';
import { eventually } from './kubectl-program.ts';
import { mountlet } from './mountlet-program.ts';
import { UpMachine, withNode } from './up-program.ts';

const chart = fileURLToPath(new URL('../../test/fixtures/chart.yaml', import.meta.url));
const documents = readFileSync(chart, 'utf8').match(/^kind: /gm)?.length;
const machine = new UpMachine();
before(async () => {
  if (withNode.skip !== false) return;
  // As an argument, it is applied when the node takes pods.
  const { output, kubectl } = await machine.start('--node-name', 'here', chart);
  await eventually(() => assert.equal(output().match(/ created$/gm)?.length, documents, output()));
  assert.doesNotMatch(output(), /refused|^error: /m);
  // kubectl has nothing against it either.
  const { stdout, stderr } = await kubectl.run(['apply', '-f', chart, '-n', 'kube-public', '--dry-run=server']);
  assert.equal(stdout.match(/ created \(server dry run\)$/gm)?.length, documents, stderr);
  assert.doesNotMatch(stderr, /^(?!Warning: ).+/m);
});
after(async () => {
  if (withNode.skip !== false) return;
  try {
    // Foreground: everything that was made of them is gone when it returns.
    await machine.kubectl.ok(['delete', '-f', chart, '--cascade=foreground']);
    await machine.kubectl.ok('delete pvc --all');
  } finally {
    await machine.end();
  }
});

const read = async (object: string, path: string): Promise<string> =>
  await machine.kubectl.ok(['get', ...object.split(' '), '-o', `jsonpath=${path}`]);

describe('a chart', { concurrency: 3 }, () => {
  test(
    'runs: the Deployment is available, the StatefulSet ready, claims are bound, the CronJob works',
    withNode,
    async () => {
      const { kubectl } = machine;
      await kubectl.until('sts/shop-database', '{.status.readyReplicas}', '2');
      const claims = ['data-shop-database-0', 'data-shop-database-1', 'shop-uploads'];
      await eventually(async () => {
        assert.equal(await read('pvc', '{.items[*].metadata.name}'), claims.join(' '));
        assert.equal(await read('pvc', '{.items[*].status.phase}'), 'Bound Bound Bound');
      });
      assert.equal(await kubectl.exec('shop-database-1', 'cat', '/data/starts'), 'shop-database-1\n');
      // Due at once.
      const lastScheduleTime = new Date(Date.now() - 120_000).toISOString();
      const patch = JSON.stringify({ status: { lastScheduleTime } });
      await kubectl.ok(['patch', 'cronjob', 'shop-report', '--subresource=status', '--type=merge', '-p', patch]);
      await eventually(async () =>
        assert.match(await read('jobs', '{.items[*].status.succeeded}'), /^1/, await kubectl.ok('get jobs')),
      );
      // Another minute may have begun: its pod has no log yet.
      const logs = 'logs -l app.kubernetes.io/component=report';
      await eventually(async () => assert.match(await kubectl.ok(logs), /^migrated$/m));
      assert.match(await kubectl.ok('get pdb shop-web --no-headers'), /shop-web +N\/A +1 +/);
      // What its pods may do, and where they find each other.
      const mayRead = async (what: string): Promise<string> =>
        (await kubectl.run(['auth', 'can-i', 'get', what, '--as=system:serviceaccount:default:shop'])).stdout;
      assert.deepEqual(
        [await mayRead('configmaps/shop-web'), await mayRead('configmaps/other'), await mayRead('secrets')],
        ['yes\n', 'no\n', 'no\n'],
      );
      const address = await read('service shop-web', '{.spec.clusterIP}');
      assert.match(address, /^10\.96\.\d+\.\d+$/);
      assert.equal(await kubectl.exec('shop-database-0', 'printenv', 'SHOP_WEB_SERVICE_HOST'), `${address}\n`);
    },
  );

  test(
    'is rolled out once when a key changed that its pods use, and not for another key or a label',
    withNode,
    async () => {
      const { kubectl } = machine;
      await kubectl.until('deploy/shop-web', '{.status.availableReplicas}', '2');
      const mark = (): Promise<string> => read('deploy shop-web', '{.metadata.annotations.mountlet\\.dev/config-hash}');
      const sets = async (): Promise<number> => (await read('rs', '{.items[*].metadata.name}')).split(' ').length;
      await eventually(async () => assert.notEqual(await mark(), ''));
      const first = await mark();
      await kubectl.ok('label configmap shop-web tier=front');
      await kubectl.ok(['patch', 'configmap', 'shop-web', '-p', '{"data":{"NOTES.txt":"Somebody reads this."}}']);
      await kubectl.ok(['patch', 'configmap', 'shop-web', '-p', '{"data":{"GREETING":"Good morning"}}']);
      await eventually(async () => assert.notEqual(await mark(), first));
      await kubectl.ok('rollout status deploy/shop-web --timeout=100s');
      assert.equal(await sets(), 2);
      await eventually(async () => {
        assert.equal(await kubectl.ok('exec deploy/shop-web -c web -- printenv GREETING'), 'Good morning\n');
      });
      const said =
        /Normal +RolloutStarted +Deployment\/shop-web +Started a rolling update: keys .* in configmap\/shop-web\n/g;
      await eventually(async () => {
        const events = await kubectl.ok('events --for deploy/shop-web');
        assert.equal(events.match(said)?.length, 1, events);
      });
    },
  );

  test('is shown by mountlet render, from the same file', withNode, () => {
    const root = join(machine.directory, 'render');
    const { code, stdout, stderr } = mountlet(['render', '-f', chart, '--root', root]);
    assert.equal(code, 0, stderr);
    assert.match(stdout, /^pod default\/shop-web /m);
    assert.match(stdout, /GREETING=Welcome\n.*DATABASE_PASSWORD=\*\*\*\n/);
    assert.match(stdout, /^pod default\/shop-database-0 /m);
    assert.match(stdout, /^pod default\/shop-report /m);
    assert.equal(mountlet(['render', '-f', chart, '--root', root, '--clean']).code, 0);
  });
});
