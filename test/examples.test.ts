/** Every example applies and runs, with the programs that it names. */
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { readdirSync } from 'node:fs';
import { basename, join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { eventually } from './kubectl-program.ts';
import { UpMachine, withNode } from './up-program.ts';

const directory = fileURLToPath(new URL('../../examples/', import.meta.url));
const settings = join(directory, 'agent.yaml');
const manifests = readdirSync(directory)
  .filter((name) => name.endsWith('.yaml') && name !== basename(settings))
  .map((name) => join(directory, name));

const absent = ['nginx', 'redis-server'].filter((program) => spawnSync('which', [program]).status !== 0);
const options = {
  skip: withNode.skip === false && absent.length > 0 ? `needs ${absent.join(' and ')}` : withNode.skip,
};
const machine = new UpMachine();
before(async () => {
  if (options.skip !== false) return;
  await machine.start('--config', settings);
  await machine.kubectl.ok(['apply', ...manifests.flatMap((file) => ['-f', file])]);
});
after(async () => {
  // With its controller its pods would come again.
  if (options.skip === false) await machine.kubectl.ok('delete deployments --all');
  await machine.end();
});

describe('examples', { concurrency: 4 }, () => {
  test('their pods become ready and stay so', options, async () => {
    const { kubectl } = machine;
    await kubectl.ok('rollout status deployment/web --timeout=100s');
    await kubectl.ok('wait pods --all --for=condition=Ready --timeout=100s');
    const restarts = '{.items[*].status.containerStatuses[*].restartCount}';
    assert.equal(await kubectl.ok(['get', 'pods', '-o', `jsonpath=${restarts}`]), '0 0 0 0 0 0');
  });

  test('redis has the settings of its ConfigMap', options, async () => {
    await machine.kubectl.running('redis');
    await eventually(async () => {
      const shown = await machine.kubectl.exec('redis', 'redis-cli', 'config', 'get', 'maxmemory');
      assert.equal(shown, 'maxmemory\n2097152\n');
    });
  });

  test('nginx serves as its ConfigMap says', options, async () => {
    const { kubectl } = machine;
    await kubectl.ok('rollout status deployment/web --timeout=100s');
    const addresses = await kubectl.ok('get pods -l app=web -o jsonpath={.items[*].status.podIP}');
    for (const address of addresses.split(' ')) {
      const shown = await eventually(async () => await (await fetch(`http://${address}:8080/`)).text());
      assert.match(shown, /nginx/);
    }
  });

  test('the API server answers a program with a projected token', options, async () => {
    await machine.kubectl.running('api-client');
    await eventually(async () => assert.match(await machine.kubectl.ok('logs api-client'), /"gitVersion"/));
  });
});
