/** Certificates as their users meet them: kubectl, openssl, an API server and an agent in processes of their own. */
import assert from 'node:assert/strict';
import { X509Certificate } from 'node:crypto';
import { readFileSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { makeCertificateRequest } from '../src/apiserver/identity/certificates.ts';
import { AgentMachine } from './agent-machine.ts';
import { type RunningApiServer, startApiServerProgram, writeNodeKubeconfig } from './api-server-program.ts';
import { Kubectl, eventually, noKubectl } from './kubectl-program.ts';

const options = { skip: noKubectl };

interface World {
  readonly machine: AgentMachine;
  readonly directory: string;
  readonly server: RunningApiServer;
  readonly kubectl: Kubectl;
}

async function world(t: TestContext, args: readonly string[] = []): Promise<World> {
  const machine = new AgentMachine(t);
  const directory = machine.directory();
  const server = await startApiServerProgram(join(directory, 'data'), { args });
  machine.own(server.process);
  return { machine, directory, server, kubectl: new Kubectl(server.kubeconfig) };
}

function requestFor(user: string, groups: readonly string[], name: string): { manifest: string; keyPem: string } {
  const { requestPem, keyPem } = makeCertificateRequest({ user, groups, hosts: [] });
  const spec = {
    request: Buffer.from(requestPem).toString('base64'),
    signerName: 'kubernetes.io/kube-apiserver-client',
    usages: ['client auth'],
    expirationSeconds: 3600,
  };
  const object = { apiVersion: 'certificates.k8s.io/v1', kind: 'CertificateSigningRequest', metadata: { name }, spec };
  return { manifest: JSON.stringify(object), keyPem };
}

test('a person who is approved gets a certificate that the API server knows them by', options, async (t) => {
  const { directory, kubectl, server } = await world(t);
  const { manifest, keyPem } = requestFor('jane', ['dev'], 'jane');
  await kubectl.ok('create -f -', { input: manifest });
  const pending = await kubectl.ok('get csr');
  assert.match(pending, /^NAME +AGE +SIGNERNAME +REQUESTOR +REQUESTEDDURATION +CONDITION\n/);
  assert.match(pending, /\njane +\d+s +kubernetes\.io\/kube-apiserver-client +mountlet-admin +60m +Pending\n/);

  assert.match(await kubectl.ok('certificate approve jane'), /jane approved/);
  const issued = await eventually(async () => {
    const text = await kubectl.ok('get csr jane -o jsonpath={.status.certificate}');
    assert.notEqual(text, '');
    return Buffer.from(text, 'base64').toString();
  });
  assert.match(await kubectl.ok('get csr'), / Approved,Issued\n/);
  assert.equal(new X509Certificate(issued).subject, 'O=dev\nCN=jane');
  const [certificateFile, keyFile] = [join(directory, 'jane.crt'), join(directory, 'jane.key')];
  writeFileSync(certificateFile, issued);
  writeFileSync(keyFile, keyPem);
  const shown = JSON.parse(readFileSync(server.kubeconfig, 'utf8')) as { users: { user: object }[] };
  const file = join(directory, 'jane.kubeconfig');
  const user = { 'client-certificate': certificateFile, 'client-key': keyFile };
  writeFileSync(file, JSON.stringify({ ...shown, users: shown.users.map((one) => ({ ...one, user })) }));
  const { stderr } = await new Kubectl(file).run(['get', 'pods']);
  assert.match(stderr, /User "jane" cannot list resource "pods"/);
});

test(
  'what is asked for wrongly, denied or not for a signer is refused in the words of Kubernetes',
  options,
  async (t) => {
    const { kubectl } = await world(t);
    const { manifest } = requestFor('root', ['system:masters'], 'root');
    const masters = await kubectl.run(['create', '-f', '-'], { input: manifest });
    assert.match(
      masters.stderr,
      /use of kubernetes\.io\/kube-apiserver-client signer with system:masters group is not allowed/,
    );

    const wrong = JSON.parse(requestFor('a', [], 'wrong').manifest) as { spec: Record<string, unknown> };
    wrong.spec = {
      ...wrong.spec,
      request: 'AAAA',
      signerName: 'a.b/c',
      usages: ['x', 'any', 'any'],
      expirationSeconds: 1,
    };
    const { stderr } = await kubectl.run(['create', '-f', '-'], { input: JSON.stringify(wrong) });
    assert.match(stderr, /spec\.request: Invalid value: .*PEM block type must be CERTIFICATE REQUEST/);
    assert.match(stderr, /spec\.usages\[0\]: Unsupported value: "x": supported values: "any"/);
    assert.match(stderr, /spec\.usages\[2\]: Duplicate value: "any"/);
    assert.match(stderr, /may not specify a duration less than 600 seconds \(10 minutes\)/);

    await kubectl.ok('create -f -', { input: requestFor('eve', [], 'eve').manifest });
    await kubectl.ok('certificate deny eve');
    assert.match(await kubectl.ok('get csr'), /eve .* Denied\n/);
    const late = await kubectl.run(['certificate', 'approve', 'eve']);
    assert.match(late.stderr, /certificate signing request "eve" is already Denied|mutually exclusive/);
  },
);

const pod = {
  apiVersion: 'v1',
  kind: 'Pod',
  metadata: { name: 'talker' },
  spec: {
    restartPolicy: 'Never',
    tolerations: [{ operator: 'Exists' }],
    containers: [{ name: 'main', image: 'none', command: ['sh', '-c', 'echo a word; exec sleep 3600'] }],
  },
};

test('logs and commands reach the pods of an agent whose certificate the API server has signed', options, async (t) => {
  const { machine, directory, server, kubectl } = await world(t);
  const kubeconfig = writeNodeKubeconfig(server, join(directory, 'data'), 'here');
  const root = join(directory, 'node');
  const start = async (): Promise<Awaited<ReturnType<AgentMachine['start']>>> =>
    await machine.start(['--node-ip', '127.0.0.1', '--kubeconfig', kubeconfig, '--root-dir', root]);
  const agent = await start();
  const file = join(root, 'serving-signed.json');
  const kept = (): string => readFileSync(file, 'utf8');
  assert.equal(await eventually(() => statSync(file).mode & 0o777), 0o600);
  assert.match(await kubectl.ok('get csr'), / system:node:here +<none> +Approved,Issued\n/);
  const said = /the cluster has signed the certificate of this node's server/;
  await eventually(() => assert.match(agent.stderr(), said));

  await kubectl.ok('create -f -', { input: JSON.stringify(pod) });
  await kubectl.ok('wait --for=condition=Ready pod/talker --timeout=100s');
  await eventually(async () => assert.equal(await kubectl.ok('logs talker'), 'a word\n'));
  assert.equal(await kubectl.ok('exec talker -- echo hello'), 'hello\n');

  const before = kept();
  agent.child.kill('SIGTERM');
  await agent.ended;
  await start();
  await eventually(async () => assert.equal(await kubectl.ok('logs talker'), 'a word\n'));
  assert.equal(kept(), before);
});

test(
  'a node that shows a certificate of its own making is believed with --kubelet-insecure alone',
  options,
  async (t) => {
    for (const args of [[], ['--kubelet-insecure']]) {
      const { machine, directory, server, kubectl } = await world(t, args);
      const kubeconfig = writeNodeKubeconfig(server, join(directory, 'data'), 'here');
      const settings = join(directory, 'settings.yaml');
      writeFileSync(
        settings,
        'apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\nserverTLSBootstrap: false\n',
      );
      await machine.start([
        '--node-ip',
        '127.0.0.1',
        '--kubeconfig',
        kubeconfig,
        '--root-dir',
        join(directory, 'node'),
        '--config',
        settings,
      ]);
      await kubectl.ok('create -f -', { input: JSON.stringify(pod) });
      await kubectl.ok('wait --for=condition=Ready pod/talker --timeout=100s');
      await eventually(async () => {
        const { stdout, stderr } = await kubectl.run(['logs', 'talker']);
        if (args.length > 0) assert.equal(stdout, 'a word\n');
        else assert.match(stderr, /tls: failed to verify certificate: x509: certificate signed by unknown authority/);
      });
      assert.equal(await kubectl.ok('get csr -o name'), '');
    }
  },
);
