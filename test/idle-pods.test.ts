/** Pods whose containers only their images could run, on a node whose runtime has none: everybody is told. */
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, realpathSync, rmSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { test } from 'node:test';
import { startApiServerProgram } from './api-server-program.ts';
import { Kubectl, eventually } from './kubectl-program.ts';
import { endProcessesOf } from './left-behind.ts';
import { pod } from './manifests.ts';
import { mountlet, program } from './mountlet-program.ts';
import { UpMachine, withNode } from './up-program.ts';

/** As the documentation of Kubernetes has it, but for the number of replicas, which takes a controller. */
const nginx = pod('nginx', { name: 'nginx', image: 'nginx:1.14.2', ports: [{ containerPort: 80 }] });
const condition = 'jsonpath={.status.conditions[?(@.type=="mountlet.dev/Idle")].status}';

test(
  'up: an idle pod says so to kubectl describe, in its Events, in a condition and in a column',
  withNode,
  async (t) => {
    const machine = new UpMachine();
    t.after(() => machine.end());
    const { directory } = await machine.start();
    const host = mkdtempSync(join(tmpdir(), 'mountlet-test-'));
    t.after(() => rmSync(host, { recursive: true, force: true }));
    const { kubectl } = machine;
    const missing = join(host, 'missing', 'made');
    await kubectl.apply(
      nginx,
      pod('arguments', { image: 'registry.example/server:2', args: ['touch', '/tmp/ran'] }),
      pod(
        'prepared',
        { script: 'exec sleep 3600' },
        { initContainers: [{ name: 'prepare', image: 'registry.example/init:1' }] },
      ),
      pod(
        'works',
        { image: 'busybox', script: 'exec sleep 3600', volumeMounts: [{ name: 'host', mountPath: '/host' }] },
        { volumes: [{ name: 'host', hostPath: { path: missing } }] },
      ),
    );
    await kubectl.until('pod/nginx', '{.status.containerStatuses[0].ready}', 'true');
    await kubectl.running('arguments', 'works');
    await kubectl.until('pod/prepared', '{.status.initContainerStatuses[0].state.waiting.reason}', 'ImageRequired');

    const described = await eventually(async () => {
      const text = await kubectl.ok('describe pod nginx');
      assert.match(
        text,
        /Warning +ContainerIdle .*Image "nginx:1.14.2" is not used: this runtime has no images. Container nginx has no command, so it only idles: give it a command/,
      );
      return text;
    });
    assert.match(described, /mountlet.dev\/Idle +True/);
    assert.doesNotMatch(described, /Pulled|Pulling|already present/);
    const message = 'jsonpath={.status.conditions[?(@.type=="mountlet.dev/Idle")].message}';
    assert.equal(
      await kubectl.ok(['get', 'pod', 'nginx', '-o', message]),
      'this runtime has no images; containers without a command only idle: [nginx]',
    );

    const imageId = 'jsonpath={.status.containerStatuses[0].imageID}';
    assert.equal(await kubectl.ok(['get', 'pod', 'nginx', '-o', imageId]), '', 'there is no image');

    assert.equal(await kubectl.ok(['get', 'pod', 'arguments', '-o', condition]), 'True');
    await assert.rejects(kubectl.exec('arguments', 'test', '-e', '/tmp/ran'), 'its arguments were not run');

    const initialized = 'jsonpath={.status.conditions[?(@.type=="Initialized")].status}';
    assert.equal(await kubectl.ok(['get', 'pod', 'prepared', '-o', initialized]), 'False');
    assert.match(await kubectl.ok('describe pod prepared'), /init container prepare has no command: what it should do/);

    assert.equal(await kubectl.ok(['get', 'pod', 'works', '-o', condition]), '');
    await eventually(async () => {
      const words = /Normal +ImageNotUsed .*Image "busybox" is not used: .* runs "sh" of this machine/;
      assert.match(await kubectl.ok('describe pod works'), words);
    });
    assert.equal(statSync(missing).mode & 0o777, 0o755, 'a hostPath of no type is made');

    const kubeconfig = join(directory, 'kubeconfig');
    const rows = mountlet(['get', 'pods', '--kubeconfig', kubeconfig]).stdout.split('\n');
    assert.match(rows[0] ?? '', /^NAME +READY +STATUS +RESTARTS +AGE +IDLE$/);
    assert.match(rows.find((row) => row.startsWith('nginx')) ?? '', / Idle$/);
    assert.match(rows.find((row) => row.startsWith('prepared')) ?? '', /Init:ImageRequired .* Idle$/);
    assert.match(rows.find((row) => row.startsWith('works')) ?? '', / <none>$/);
    assert.match(await kubectl.ok('get pods -o wide'), / IDLE\n/);
    await kubectl.ok('delete pods nginx arguments prepared');
    assert.doesNotMatch(mountlet(['get', 'pods', '--kubeconfig', kubeconfig]).stdout, /IDLE/);
    assert.equal(await kubectl.ok(['get', 'nodes', '-o', 'jsonpath={.items[0].spec.taints}']), '');
  },
);

test("agent: others' pods do not come without a toleration, and an idle one is never ready", withNode, async (t) => {
  const directory = realpathSync(mkdtempSync(join(tmpdir(), 'mountlet-test-')));
  const server = await startApiServerProgram(join(directory, 'api'));
  const kubectl = new Kubectl(server.kubeconfig);
  const where = ['--kubeconfig', server.kubeconfig, '--root-dir', join(directory, 'node'), '--node-name', 'here'];
  const how = ['--node-ip', '127.0.0.1', '--port', '0', '--address', '127.0.0.1', '--drain'];
  const agent = spawn(process.execPath, [program, 'agent', ...where, ...how], { stdio: ['ignore', 'pipe', 'ignore'] });
  const exited = once(agent, 'exit');
  t.after(async () => {
    agent.kill('SIGTERM');
    await exited;
    await server.kill();
    endProcessesOf(directory);
    rmSync(directory, { recursive: true, force: true });
  });
  await once(createInterface({ input: agent.stdout }), 'line');
  const tolerations = [{ key: 'mountlet.dev/no-images', operator: 'Exists' }];
  await kubectl.apply(
    nginx,
    pod('idle', { name: 'web', image: 'nginx:1.14.2' }, { tolerations }),
    pod('works', { script: 'exec sleep 3600' }, { tolerations }),
  );
  const taint = 'jsonpath={.items[0].spec.taints[0].key}:{.items[0].spec.taints[0].effect}';
  await eventually(async () =>
    assert.equal(await kubectl.ok(['get', 'nodes', '-o', taint]), 'mountlet.dev/no-images:NoSchedule'),
  );
  await kubectl.until('pod/works', '{.status.containerStatuses[0].ready}', 'true');
  await kubectl.until('pod/nginx', '{.status.conditions[0].reason}', 'Unschedulable');
  await kubectl.running('idle');
  const [status, reason, message] = ['status', 'reason', 'message'].map(
    (field) => `jsonpath={.status.conditions[?(@.type=="Ready")].${field}}`,
  );
  const ask = (path = ''): Promise<string> => kubectl.ok(['get', 'pod', 'idle', '-o', path]);
  assert.deepEqual(
    [await ask(status), await ask(reason), await ask(message)],
    [
      'False',
      'ContainersNotReady',
      'containers with unready status: [web], containers that only idle, since this runtime has no images: [web]',
    ],
  );
  assert.match(await kubectl.ok('get pod idle'), /idle +0\/1 +Running/);
});
