/** Evictions and `kubectl drain` with a real kubectl: PodDisruptionBudgets are counted and kept to. */
import assert from 'node:assert/strict';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { type RunningApiServer, startApiServerProgram } from './api-server-program.ts';
import { Kubectl, eventually, noKubectl } from './kubectl-program.ts';
import type { Ran } from './mountlet-program.ts';

const directory = mkdtempSync(join(tmpdir(), 'mountlet-test-'));
const options = { skip: noKubectl };
let server: RunningApiServer;
let kubectl: Kubectl;

const run = (line: string, input = ''): Promise<Ran> => kubectl.run(line.split(' '), { input });

async function succeeds(line: string, input = ''): Promise<string> {
  const { code, stdout, stderr } = await run(line, input);
  assert.equal(code, 0, `kubectl ${line}\n${stdout}${stderr}`);
  return stdout;
}

/** On the node, and ready or not, as its agent would say. */
async function runningPod(name: string, labels: Record<string, string>, ready = 'True', owner?: object): Promise<void> {
  const pod = {
    apiVersion: 'v1',
    kind: 'Pod',
    metadata: { name, labels, ...(owner && { ownerReferences: [owner] }) },
    spec: { nodeName: 'one', containers: [{ name: 'a', image: 'b' }] },
  };
  await succeeds('create -f -', JSON.stringify(pod));
  const status = { phase: 'Running', conditions: [{ type: 'Ready', status: ready }] };
  await succeeds(`patch pod ${name} --subresource=status -p ${JSON.stringify({ status })}`);
}

function evict(name: string, more: object = {}): Promise<Ran> {
  const eviction = { apiVersion: 'policy/v1', kind: 'Eviction', metadata: { name }, ...more };
  return run(`create --raw /api/v1/namespaces/default/pods/${name}/eviction -f -`, JSON.stringify(eviction));
}

async function allowed(budget: string, disruptions: number): Promise<void> {
  const shown = 'jsonpath={.status.disruptionsAllowed}/{.status.observedGeneration}';
  await eventually(async () => {
    const [now, generation] = (await succeeds(`get pdb ${budget} -o ${shown}`)).split('/');
    assert.ok(now === String(disruptions) && generation !== '', `${budget} allows ${now}`);
  });
}

before(async () => {
  if (noKubectl !== false) return;
  // Its node never reports: the pods there would not stay ready.
  const args = ['--controllers=*,-node-lifecycle-controller'];
  server = await startApiServerProgram(join(directory, 'data'), { args });
  kubectl = new Kubectl(server.kubeconfig);
  await succeeds('create -f -', JSON.stringify({ apiVersion: 'v1', kind: 'Node', metadata: { name: 'one' } }));
});
after(async () => {
  if (noKubectl === false) await server.stop();
  rmSync(directory, { recursive: true, force: true });
});

const atOnce = { deleteOptions: { gracePeriodSeconds: 0 } };

test(
  'an eviction spends what was counted, is refused when nothing is left, and a dry run spends nothing',
  options,
  async () => {
    for (const name of ['web-0', 'web-1', 'web-2']) await runningPod(name, { app: 'web' });
    await succeeds('create pdb web --selector=app=web --min-available=2');
    await allowed('web', 1);
    const condition = 'jsonpath={.status.conditions[0].type}={.status.conditions[0].reason}';
    assert.equal(await succeeds(`get pdb web -o ${condition}`), 'DisruptionAllowed=SufficientPods');
    const tried = await evict('web-0', { deleteOptions: { dryRun: ['All'] } });
    assert.equal(tried.code, 0, tried.stderr);
    assert.equal((await evict('web-0', atOnce)).code, 0);
    assert.equal((await run('get pod web-0')).code, 1);
    await allowed('web', 0);
    const refused = await evict('web-1', atOnce);
    assert.match(refused.stderr, /Cannot evict pod as it would violate the pod's disruption budget/);
    assert.equal((await run('get pod web-1')).code, 0);
    await succeeds('patch pdb web -p {"spec":{"minAvailable":"50%"}}');
    // Without an owner there is no whole to take a part of: nothing may go, and an Event says why.
    await eventually(async () => assert.match(await succeeds('get events --no-headers'), /UnmanagedPods/));
    await succeeds('delete pdb web');
  },
);

test('the owner says how many pods there should be, and without one of a known kind its pods do', options, async () => {
  const owner = { apiVersion: 'example.com/v1', kind: 'Farm', name: 'farm', uid: 'f', controller: true };
  for (const name of ['cow-0', 'cow-1']) await runningPod(name, { app: 'cow' }, 'True', owner);
  await succeeds('create pdb cow --selector=app=cow --max-unavailable=50%');
  await allowed('cow', 1);
});

test('pods that serve nobody go whatever a budget says, and two budgets are one too many', options, async () => {
  await runningPod('db-0', { app: 'db' });
  await runningPod('db-1', { app: 'db' }, 'False');
  await succeeds('create pdb db --selector=app=db --min-available=1');
  await allowed('db', 0);
  assert.equal((await evict('db-1', atOnce)).code, 0, 'not ready, and enough others are');
  await succeeds('create pdb db2 --selector=app=db --min-available=1');
  const refused = await evict('db-0', atOnce);
  assert.match(refused.stderr, /more than one PodDisruptionBudget, which the eviction subresource does not support/);
  await succeeds('patch pod db-0 --subresource=status -p {"status":{"phase":"Succeeded"}}');
  assert.equal((await evict('db-0', atOnce)).code, 0);
});

test('kubectl drain waits for a budget, and goes on when it allows more', options, async () => {
  await succeeds('delete pdb --all');
  for (const name of ['cow-0', 'cow-1', 'web-1', 'web-2']) await evict(name, atOnce);
  for (const name of ['shop-0', 'shop-1']) await runningPod(name, { app: 'shop' });
  await succeeds('create pdb shop --selector=app=shop --min-available=1');
  await allowed('shop', 1);
  const drain = kubectl.start('drain one --force --grace-period=0 --timeout=100s'.split(' '));
  let output = '';
  for (const stream of [drain.stdout, drain.stderr]) stream?.on('data', (bytes: Buffer) => (output += String(bytes)));
  const ended = new Promise<number | null>((resolve) => drain.once('close', resolve));
  await eventually(() => assert.match(output, /error when evicting pods\/"shop-\d".*\(will retry after 5s\)/));
  assert.equal((await succeeds('get pods -l app=shop -o name')).trim().split('\n').length, 1);
  await runningPod('shop-2', { app: 'shop' });
  await succeeds('patch pdb shop -p {"spec":{"minAvailable":0}}');
  assert.equal(await ended, 0, output);
  assert.match(output, /node\/one drained/);
});
