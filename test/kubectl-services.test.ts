/** Services with a real kubectl: made by its commands, shown in its tables, and followed to the pods behind them. */
import assert from 'node:assert/strict';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { type RunningApiServer, startApiServerProgram } from './api-server-program.ts';
import { Kubectl, eventually, noKubectl } from './kubectl-program.ts';

const directory = mkdtempSync(join(tmpdir(), 'mountlet-test-'));
const options = { skip: noKubectl };
let server: RunningApiServer;
let kubectl: Kubectl;

async function succeeds(line: string, input = ''): Promise<string> {
  const { code, stdout, stderr } = await kubectl.run(line.split(' '), { input });
  assert.equal(code, 0, `kubectl ${line}\n${stdout}${stderr}`);
  return stdout;
}

before(async () => {
  if (noKubectl !== false) return;
  server = await startApiServerProgram(join(directory, 'data'));
  kubectl = new Kubectl(server.kubeconfig);
  await succeeds('create -f -', JSON.stringify({ apiVersion: 'v1', kind: 'Node', metadata: { name: 'one' } }));
});

after(async () => {
  if (noKubectl === false) await server.stop();
  rmSync(directory, { recursive: true, force: true });
});

/** Without the ages, which pass. */
async function rows(what: string): Promise<string[]> {
  const text = await succeeds(`get ${what} --no-headers`);
  return text
    .trimEnd()
    .split('\n')
    .map((line) => line.trim().split(/ +/).slice(0, -1).join(' '));
}

test('kubectl creates each kind of service, and shows it', options, async () => {
  await succeeds('create service clusterip plain --tcp=80:8080');
  await succeeds('create service clusterip bare --clusterip=None --tcp=80');
  await succeeds('create service nodeport open --tcp=80 --node-port=30007');
  await succeeds('create service externalname far --external-name=example.com');
  const shown = (await rows('svc plain bare open far')).map((row) => row.replace(/10\.96\.\d+\.\d+/, 'ADDRESS'));
  assert.deepEqual(shown, [
    'plain ClusterIP ADDRESS <none> 80/TCP',
    'bare ClusterIP None <none> 80/TCP',
    'open NodePort ADDRESS <none> 80:30007/TCP',
    'far ExternalName <none> example.com <none>',
  ]);
  const taken = await kubectl.run('create service nodeport other --tcp=80 --node-port=30007'.split(' '));
  assert.match(taken.stderr, /spec\.ports\[0\]\.nodePort: Invalid value: 30007: provided port is already allocated/);
});

test('whoever makes a service learns that this server alone leads nobody to it', options, async () => {
  const { stderr } = await kubectl.run('create service clusterip told --tcp=80'.split(' '));
  const why = 'mountlet apiserver has no proxy and no DNS for them, as mountlet up has';
  assert.match(stderr, new RegExp(`^Warning: Services do not answer on this machine: ${why}; reach pods by `));
});

test('an exposed pod is behind its service as soon as it is ready', options, async () => {
  await succeeds('run web --image=i --port=8080 --overrides={"spec":{"nodeName":"one"}}');
  await succeeds('expose pod web --port=80 --target-port=8080');
  const status = { phase: 'Running', podIP: '10.1.0.7', podIPs: [{ ip: '10.1.0.7' }] };
  const conditions = [{ type: 'Ready', status: 'True' }];
  await succeeds(`patch pod web --subresource=status -p ${JSON.stringify({ status: { ...status, conditions } })}`);
  await eventually(async () => assert.deepEqual(await rows('ep web'), ['web 10.1.0.7:8080']));
  const slices = 'endpointslices -l kubernetes.io/service-name=web';
  await eventually(async () => assert.match((await rows(slices)).join(), /^web-\w+ IPv4 8080 10\.1\.0\.7$/));
  assert.match(await succeeds('describe svc web'), /Endpoints:\s+10\.1\.0\.7:8080/);
  await succeeds('delete svc web');
  await eventually(async () => assert.equal(await succeeds(`get ${slices} -o name`), ''));
});
