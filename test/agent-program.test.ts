/** `mountlet agent` beside others on its machine: one node for a directory, no cluster unless asked, no secrets in containers. */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { mkdirSync, readFileSync, readdirSync, readlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { AgentMachine } from './agent-machine.ts';
import { startApiServerProgram } from './api-server-program.ts';
import { eventually } from './kubectl-program.ts';
import { configMap, mountAt, pod, secret } from './manifests.ts';
import { isRoot, mountlet } from './mountlet-program.ts';
import { UpMachine, withNode } from './up-program.ts';

const asRoot = { skip: isRoot ? false : 'needs root: an ordinary user has no mounts' };

test('a directory has one node: a second one of either kind is refused and harms no pod', withNode, async (t) => {
  const machine = new UpMachine();
  t.after(() => machine.end());
  const { process: first } = await machine.start();
  await machine.kubectl.apply(pod('web'));
  await machine.kubectl.running('web');
  const id = 'jsonpath={.status.containerStatuses[0].containerID}';
  const before = await machine.kubectl.ok(['get', 'pod', 'web', '-o', id]);
  const manifests = join(machine.directory, 'manifests');
  mkdirSync(manifests);
  const root = join(machine.directory, 'state', 'node');
  const agent = mountlet(['agent', '--root-dir', root, '--manifests', manifests, '--port', '0', '--drain']);
  assert.equal(agent.code, 1, agent.stderr);
  assert.match(
    agent.stderr,
    new RegExp(`^error: Cannot use "${root}": process ${first.pid} \\(.*mountlet.js up .*uses it`),
  );
  const config = join(machine.directory, 'config.yaml');
  writeFileSync(config, `apiVersion: mountlet.dev/v1alpha1\nkind: AgentConfiguration\nrootDir: ${root}\n`);
  const state = join(machine.directory, 'other');
  const up = mountlet(['up', '--state', state, '--listen', '127.0.0.1:0', '--config', config, '--drain']);
  assert.equal(up.code, 1, up.stderr);
  assert.match(up.stderr, new RegExp(`process ${first.pid} `));
  assert.equal(await machine.kubectl.exec('web', 'echo', 'alive'), 'alive\n');
  assert.equal(await machine.kubectl.ok(['get', 'pod', 'web', '-o', id]), before, 'the same container');
});

test('by default an agent uses another directory than up, and with manifests it joins no cluster', async (t) => {
  const { code, stdout } = mountlet(['doctor'], { asOrdinaryUser: true });
  if (code !== 0) return t.skip(`needs user namespaces for ordinary users:\n${stdout}`);
  const machine = new AgentMachine(t);
  const directory = machine.directory();
  const manifests = join(directory, 'manifests');
  mkdirSync(manifests);
  // A kubeconfig whose server nothing listens at: an agent that joined would say so.
  const kubeconfig = join(directory, 'kubeconfig');
  const cluster = { name: 'a', cluster: { server: 'https://127.0.0.1:1' } };
  const context = { name: 'a', context: { cluster: 'a' } };
  writeFileSync(kubeconfig, JSON.stringify({ 'current-context': 'a', clusters: [cluster], contexts: [context] }));
  const { ready, stderr } = await machine.start(['--manifests', manifests], {
    env: { KUBECONFIG: kubeconfig, XDG_DATA_HOME: directory },
    asOrdinaryUser: true,
  });
  const pods = join(directory, 'mountlet', 'agent', 'pods');
  assert.equal(ready, `node here without an API server is running; volumes are below ${pods}`);
  assert.match(stderr(), /^note: KUBECONFIG is not used .* give --kubeconfig/);
  const volumes = mountlet(['get', 'volumes'], { env: { XDG_DATA_HOME: directory }, asOrdinaryUser: true });
  assert.deepEqual([volumes.code, volumes.stderr], [0, 'No volumes found in namespace default.\n'], volumes.stdout);
  const work = pod('web', { volumeMounts: [mountAt('work', '/work')] }, { volumes: [{ name: 'work', emptyDir: {} }] });
  writeFileSync(join(manifests, 'pod.yaml'), JSON.stringify(work));
  await eventually(() => {
    const shown = mountlet(['get', 'volumes'], { env: { XDG_DATA_HOME: directory }, asOrdinaryUser: true });
    assert.match(shown.stdout, /^web-here +work +empty-dir +Mounted +<none> +<none> +\S+ +\S+i +\d+/m, shown.stderr);
  });
  const both = mountlet(['agent', '--in-cluster', '--kubeconfig', kubeconfig]);
  assert.equal(both.code, 2, both.stderr);
  const outside = mountlet(['agent', '--in-cluster', '--manifests', manifests], {
    env: { KUBECONFIG: kubeconfig },
  });
  assert.match(outside.stderr, /^error: Cannot tell which API server to use/);
});

/** Where a process listens, as the kernel writes it: `0100007F` is 127.0.0.1. */
function listeningAddresses(pid: number): readonly string[] {
  const sockets = new Set<string>();
  for (const name of readdirSync(`/proc/${pid}/fd`)) {
    try {
      sockets.add(readlinkSync(`/proc/${pid}/fd/${name}`));
    } catch {
      // A file that it has closed meanwhile.
    }
  }
  return ['tcp', 'tcp6'].flatMap((table) =>
    readFileSync(`/proc/${pid}/net/${table}`, 'utf8')
      .split('\n')
      .map((line) => line.trim().split(/\s+/))
      .filter(([, , , state, , , , , , inode]) => state === '0A' && sockets.has(`socket:[${inode}]`))
      .map(([, local = '']) => local.split(':')[0] ?? ''),
  );
}

test('an agent without a cluster serves nobody beyond its machine, and says when it has stopped', async (t) => {
  const { code, stdout } = mountlet(['doctor']);
  if (code !== 0) return t.skip(`no pods on this machine:\n${stdout}`);
  const machine = new AgentMachine(t);
  const directory = machine.directory();
  const agent = machine.spawn([
    'agent',
    '--port',
    '0',
    '--manifests',
    directory,
    '--root-dir',
    join(directory, 'root'),
  ]);
  const said: string[] = [];
  agent.child.stdout?.on('data', (text: Buffer) => said.push(text.toString()));
  await agent.line();
  assert.deepEqual(listeningAddresses(agent.child.pid ?? 0), ['0100007F']);
  agent.child.kill('SIGTERM');
  assert.equal(await agent.ended, 0, agent.stderr());
  const stopped = /^stopped; pods keep running, and the next start adopts them$/m;
  await eventually(() => assert.match(said.join(''), stopped));
});

test('a label that no node may give itself is refused at the start, once', () => {
  const refused = mountlet(['agent', '--node-labels', 'node-role.kubernetes.io/x=', '--kubeconfig', '/nonexistent']);
  assert.equal(refused.code, 1, refused.stderr);
  const says =
    /unknown 'kubernetes\.io' or 'k8s\.io' labels specified with --node-labels: \[node-role\.kubernetes\.io\/x\]/g;
  assert.equal(refused.stderr.match(says)?.length, 1, refused.stderr);
  assert.match(refused.stderr, /^error: /);
});

test('with --log-format json every line of an agent is an object, from its start to its end', async (t) => {
  const { code, stdout } = mountlet(['doctor']);
  if (code !== 0) return t.skip(`no pods on this machine:\n${stdout}`);
  const machine = new AgentMachine(t);
  const directory = machine.directory();
  const manifests = join(directory, 'manifests');
  mkdirSync(manifests);
  const root = join(directory, 'root');
  const format = ['--log-format', 'json', '--log-level', 'debug'];
  const agent = machine.spawn(['agent', '--manifests', manifests, '--root-dir', root, '--port', '0', ...format], {
    env: { KUBECONFIG: '/nonexistent' },
  });
  let said = '';
  agent.child.stdout?.on('data', (text: Buffer) => (said += text.toString()));
  await agent.line();
  agent.child.kill('SIGTERM');
  assert.equal(await agent.ended, 0, agent.stderr());
  await eventually(() => {
    const lines = `${said}${agent.stderr()}`.trimEnd().split('\n');
    const kinds = lines.map((line) => (JSON.parse(line) as { kind: string }).kind);
    assert.deepEqual(
      ['NodeRunning', 'Note', 'NodeStopped'].map((kind) => kinds.filter((one) => one === kind).length),
      [1, 1, 1],
    );
  });
});

test('with --log-format json an error that ends the program is an object too, and so is a bug', async (t) => {
  const missing = mountlet(['agent', '--log-format', 'json', '--config', '/nonexistent.yaml']);
  assert.equal(missing.code, 1);
  const { time, ...said } = JSON.parse(missing.stderr) as { readonly time: string };
  assert.ok(Date.parse(time) > 0);
  const text = '/nonexistent.yaml: there is no such file';
  assert.deepEqual(said, { level: 'error', kind: 'InvalidSettings', message: text });
  const machine = new AgentMachine(t);
  const directory = machine.directory();
  const planted = new URL('../../test/fixtures/reject-on-signal.mjs', import.meta.url).href;
  const { child, stderr } = await machine.start(
    ['--manifests', directory, '--root-dir', join(directory, 'root'), '--log-format', 'json'],
    { env: { NODE_OPTIONS: `--import=${planted}` } },
  );
  const exited = once(child, 'close');
  child.kill('SIGUSR2');
  assert.deepEqual(await exited, [1, null]);
  const last = JSON.parse(stderr().trimEnd().split('\n').at(-1) ?? '') as { kind: string; message: string };
  assert.equal(last.kind, 'UnexpectedFailure');
  assert.match(last.message, /^Error: planted\n/);
});

test('a root container sees no manifests, no kubeconfig and no API server beside it', asRoot, async (t) => {
  // In /opt, which containers see; below /tmp nothing of the machine is there anyway.
  const machine = new AgentMachine(t);
  const [directory, state] = [machine.directory('/opt'), machine.directory()];
  const [manifests, out] = [join(directory, 'manifests'), join(state, 'out')];
  for (const path of [manifests, out]) mkdirSync(path);
  writeFileSync(join(directory, 'visible'), 'visible');
  const server = await startApiServerProgram(join(directory, 'server'));
  machine.own(server.process);
  const token = join(directory, 'token');
  writeFileSync(token, 'hush');
  const { users, ...rest } = JSON.parse(readFileSync(server.kubeconfig, 'utf8')) as { users: object[] };
  const named = [...users, { name: 'other', user: { tokenFile: token } }];
  writeFileSync(server.kubeconfig, JSON.stringify({ ...rest, users: named }));
  const tried = [
    join(directory, 'visible'),
    join(manifests, 'pods.yaml'),
    token,
    server.kubeconfig,
    join(directory, 'server', 'pki', 'authority.json'),
  ];
  const script = `for file in ${tried.join(' ')}; do [ -s $file ] && cat $file >/dev/null && echo $file; done >/out/x; mv /out/x /out/seen; exec sleep infinity`;
  const spy = pod(
    'spy',
    { script, volumeMounts: [mountAt('out', '/out')] },
    { volumes: [{ name: 'out', hostPath: { path: out } }] },
  );
  const objects = [configMap('a', { key: 'value' }), secret('login', { password: 'hush' }), spy];
  writeFileSync(join(manifests, 'pods.yaml'), objects.map((object) => JSON.stringify(object)).join('\n---\n'));
  const root = join(state, 'state', 'node');
  await machine.start(['--manifests', manifests, '--root-dir', root, '--kubeconfig', server.kubeconfig]);
  await eventually(() => assert.equal(readFileSync(join(out, 'seen'), 'utf8'), `${join(directory, 'visible')}\n`));
});
