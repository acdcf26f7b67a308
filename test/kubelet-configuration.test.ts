/** `mountlet agent --config` with a kubelet's file: what it asks for is done, or named. */
import assert from 'node:assert/strict';
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  readdirSync,
  realpathSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { Agent, get } from 'node:https';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { type TestContext, test } from 'node:test';
import type { TLSSocket } from 'node:tls';
import { issueServerCertificate, makeAuthority } from '../src/apiserver/identity/certificates.ts';
import { containerdSkip, startContainerd } from '../src/testing/machine/containerd.ts';
import { busyboxImage } from '../src/testing/machine/oci-image.ts';
import { startApiServerProgram } from './api-server-program.ts';
import { Kubectl, eventually } from './kubectl-program.ts';
import { endProcessesOf } from './left-behind.ts';
import { pod } from './manifests.ts';
import { mountlet, program } from './mountlet-program.ts';
import { freePort, withNode } from './up-program.ts';

const head = { apiVersion: 'kubelet.config.k8s.io/v1beta1', kind: 'KubeletConfiguration' };

class Machine {
  readonly directory = realpathSync(mkdtempSync(join(tmpdir(), 'mountlet-test-')));
  readonly root = join(this.directory, 'node');
  #agent: ChildProcess | undefined;

  constructor(t: TestContext) {
    t.after(async () => {
      if (this.#agent !== undefined && this.#agent.exitCode === null) {
        const exited = once(this.#agent, 'exit');
        this.#agent.kill('SIGTERM');
        await exited;
      }
      endProcessesOf(this.directory);
      rmSync(this.directory, { recursive: true, force: true });
    });
  }

  file(fields: object): string {
    const path = join(this.directory, 'kubelet.yaml');
    writeFileSync(path, JSON.stringify({ ...head, ...fields }));
    return path;
  }

  /** Resolves with what it has said on standard error when it is ready. */
  async start(fields: object, ...args: readonly string[]): Promise<string> {
    const config = ['--config', this.file(fields), '--root-dir', this.root, '--node-name', 'here'];
    const given = ['agent', ...config, '--node-ip', '127.0.0.1', '--drain', ...args];
    const env = { PATH: process.env['PATH'], HOME: '/nonexistent' };
    const child = spawn(process.execPath, [program, ...given], { stdio: ['ignore', 'pipe', 'pipe'], env });
    this.#agent = child;
    let said = '';
    child.stderr.setEncoding('utf8').on('data', (text: string) => (said += text));
    const ended = once(child, 'exit').then(() => assert.fail(`the agent ended before it was ready: ${said}`));
    await Promise.race([once(createInterface({ input: child.stdout }), 'line'), ended]);
    return said;
  }
}

interface Asked {
  readonly code: number | undefined;
  readonly protocol: string | null;
  readonly text: string;
}

function ask(port: number, path: string, options: object = {}, token?: string): Promise<Asked> {
  const headers = token === undefined ? {} : { authorization: `Bearer ${token}` };
  return new Promise((resolve, reject) => {
    const agent = new Agent({ rejectUnauthorized: false, ...options });
    get({ host: '127.0.0.1', port, path, agent, headers }, (response) => {
      const protocol = (response.socket as TLSSocket).getProtocol();
      let text = '';
      response.setEncoding('utf8').on('data', (part: string) => (text += part));
      response.on('end', () => resolve({ code: response.statusCode, protocol, text }));
    }).on('error', reject);
  });
}

function clientOf(kubeconfig: string): object {
  const { users } = JSON.parse(readFileSync(kubeconfig, 'utf8')) as { users: [{ user: Record<string, string> }] };
  const pem = (name: string): Buffer => Buffer.from(users[0].user[name] ?? '', 'base64');
  return { cert: pem('client-certificate-data'), key: pem('client-key-data') };
}

test(
  'a node of a kubelet file runs its static pods, writes its logs there and serves with its certificate',
  withNode,
  async (t) => {
    const machine = new Machine(t);
    const { directory } = machine;
    const [now, days] = [Date.now(), 1];
    const authority = makeAuthority({ now, days });
    const { certificatePem, keyPem } = issueServerCertificate(authority, { hosts: ['127.0.0.1'], now, days });
    writeFileSync(join(directory, 'tls.crt'), certificatePem);
    writeFileSync(join(directory, 'tls.key'), keyPem);
    mkdirSync(join(directory, 'manifests'));
    writeFileSync(
      join(directory, 'manifests', 'web.json'),
      JSON.stringify(pod('web', { script: 'echo hello; exec sleep 3600' })),
    );
    const [port, healthzPort] = [await freePort(), await freePort()];
    const said = await machine.start({
      address: '127.0.0.1',
      port,
      healthzPort,
      healthzBindAddress: '127.0.0.1',
      staticPodPath: 'manifests',
      podLogsDir: 'logs-of-pods',
      tlsCertFile: 'tls.crt',
      tlsPrivateKeyFile: 'tls.key',
      tlsMinVersion: 'VersionTLS13',
      authentication: { anonymous: { enabled: true } },
      authorization: { mode: 'AlwaysAllow' },
      readOnlyPort: 10_255,
      rotateCertificates: true,
      syncFrequency: '0s',
    });
    assert.equal(
      said.slice(0, said.indexOf('as they are') + 11),
      `note: ${join(directory, 'kubelet.yaml')} has settings without effect here:\n` +
        'note:   readOnlyPort: nothing but /healthz is served without TLS\n' +
        'note:   rotateCertificates: credentials are taken from the kubeconfig as they are',
    );
    await eventually(() => {
      const [folder = ''] = readdirSync(join(directory, 'logs-of-pods'));
      const log = readFileSync(join(directory, 'logs-of-pods', folder, 'main', '0.log'), 'utf8');
      assert.match(log, /stdout F hello/);
    });
    const health = await fetch(`http://127.0.0.1:${healthzPort}/healthz`);
    assert.deepEqual([health.status, await health.text()], [200, 'ok'], 'as kubeadm asks');
    assert.equal((await fetch(`http://127.0.0.1:${healthzPort}/pods`)).status, 404);
    const trusting = { ca: authority.certificatePem, rejectUnauthorized: true };
    const answer = await ask(port, '/pods', trusting);
    assert.deepEqual([answer.code, answer.protocol], [200, 'TLSv1.3']);
    assert.match(answer.text, /"web-here"/);
    await assert.rejects(ask(port, '/pods', { ...trusting, maxVersion: 'TLSv1.2' }), /protocol version|handshake/i);
  },
);

test(
  'nobody gets in who is not known, and taints and the provider are registered as the file says',
  withNode,
  async (t) => {
    const machine = new Machine(t);
    const server = await startApiServerProgram(join(machine.directory, 'api'));
    t.after(() => server.kill());
    const kubectl = new Kubectl(server.kubeconfig);
    const port = await freePort();
    await machine.start(
      {
        address: '127.0.0.1',
        port,
        registerWithTaints: [],
        providerID: 'cloud://1',
        maxPods: 7,
        authentication: { webhook: { enabled: false } },
      },
      '--kubeconfig',
      server.kubeconfig,
    );
    assert.equal((await ask(port, '/pods')).code, 401);
    // Until it is ready, it has a taint of the cluster.
    await eventually(async () => {
      const { spec, status } = await kubectl.json<{ spec: object; status: { capacity: { pods: string } } }>(
        'get node here',
      );
      assert.deepEqual([spec, status.capacity.pods], [{ providerID: 'cloud://1' }, '7']);
    });
    assert.equal((await ask(port, '/pods', clientOf(server.kubeconfig))).code, 200, 'a certificate of the cluster');
    const token = (await kubectl.ok('create token default')).trim();
    assert.equal((await ask(port, '/pods', {}, token)).code, 401, 'tokens are not asked about');
    assert.equal((await ask(port, '/configz', {}, token)).code, 401);
    const raw = async (path: string): Promise<string> =>
      await kubectl.ok(['--server', `https://127.0.0.1:${port}`, '--insecure-skip-tls-verify', 'get', '--raw', path]);
    const { kubeletconfig } = JSON.parse(await raw('/configz')) as { kubeletconfig: Record<string, unknown> };
    const { kind, maxPods, providerID, registerWithTaints, syncFrequency } = kubeletconfig;
    const shown = [kind, maxPods, providerID, registerWithTaints, syncFrequency];
    assert.deepEqual(shown, ['KubeletConfiguration', 7, 'cloud://1', [], '1m0s']);
    assert.match(await raw('/stats/summary'), /"nodeName":"here"/);
    assert.match(await raw('/metrics/resource'), /^node_cpu_usage_seconds_total \d/m);
  },
);

test('with an authority of its own in the file, a node knows no client of the cluster', withNode, async (t) => {
  const machine = new Machine(t);
  const server = await startApiServerProgram(join(machine.directory, 'api'));
  t.after(() => server.kill());
  const other = makeAuthority({ now: Date.now(), days: 1 });
  writeFileSync(join(machine.directory, 'ca.crt'), other.certificatePem);
  const port = await freePort();
  const authentication = { x509: { clientCAFile: 'ca.crt' } };
  await machine.start({ address: '127.0.0.1', port, authentication }, '--kubeconfig', server.kubeconfig);
  assert.equal((await ask(port, '/pods', clientOf(server.kubeconfig))).code, 401);
  const token = (await new Kubectl(server.kubeconfig).ok('create token default')).trim();
  assert.equal((await ask(port, '/pods', {}, token)).code, 403, 'a token is asked about');
});

test(
  'a runtime that the file names runs the pods, with its limit of processes',
  { skip: containerdSkip() },
  async (t) => {
    const containerd = await startContainerd(t);
    await containerd.import(busyboxImage({ name: 'docker.io/library/test:1' }));
    const machine = new Machine(t);
    const manifests = join(machine.directory, 'manifests');
    mkdirSync(manifests);
    const web = pod('web', { image: 'test:1', script: 'exec sleep 3600' });
    writeFileSync(join(manifests, 'web.json'), JSON.stringify(web));
    const said = await machine.start({
      address: '127.0.0.1',
      port: await freePort(),
      containerRuntimeEndpoint: containerd.endpoint,
      staticPodPath: manifests,
      podPidsLimit: 123,
    });
    assert.doesNotMatch(said, /without effect/);
    await eventually(() => {
      const trees = ['/sys/fs/cgroup/pids/kubepods', '/sys/fs/cgroup/kubepods'];
      const tree = trees.find((path) => existsSync(path)) ?? '';
      const pods = readdirSync(join(tree, 'besteffort')).filter((name) => name.startsWith('pod'));
      const limits = pods.map((name) => readFileSync(join(tree, 'besteffort', name, 'pids.max'), 'utf8').trim());
      assert.ok(limits.includes('123'), limits.join());
    });
  },
);

test('a file that a kubelet would not take, or that this machine cannot satisfy, is refused by name', (t) => {
  const machine = new Machine(t);
  const refusal = (fields: object): string => {
    const { code, stderr } = mountlet(['agent', '--config', machine.file(fields), '--manifests', machine.directory]);
    assert.equal(code, 1);
    return stderr;
  };
  const file = join(machine.directory, 'kubelet.yaml');
  assert.equal(
    refusal({ maxPods: 1, maxpods: 2, logging: { colour: true } }),
    `error: ${file}: strict decoding error: unknown field "maxpods", unknown field "logging.colour"\n`,
  );
  assert.equal(
    refusal({ tlsCertFile: '/nonexistent', tlsPrivateKeyFile: '/nonexistent' }),
    "error: settings: tlsCertFile: cannot read it: ENOENT: no such file or directory, open '/nonexistent'\n",
  );
  const isVersion1 =
    !readFileSync('/proc/filesystems', 'utf8').includes('cgroup2') ||
    readFileSync('/proc/self/cgroup', 'utf8').includes(':memory:');
  if (isVersion1) assert.match(refusal({ failCgroupV1: true }), /control groups of version 1: failCgroupV1 forbids it/);
});
