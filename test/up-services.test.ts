/**
 * Services under `mountlet up`: programs as people run them find each other by name. It has a network of its own, so that all of
 * that can be compared with what was there before.
 */
import assert from 'node:assert/strict';
import { type ChildProcess, spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { Kubectl, eventually } from './kubectl-program.ts';
import { configMap, containerOf, mountAt, pod } from './manifests.ts';
import { UpMachine, withNode } from './up-program.ts';

const programs = ['/usr/sbin/nginx', '/usr/bin/redis-server', '/usr/bin/redis-cli', '/usr/bin/curl', '/usr/sbin/nft'];
const absent = programs.filter((path) => !existsSync(path));
const options = {
  skip: withNode.skip === false && absent.length > 0 ? `needs ${absent.join(' and ')} on this machine` : withNode.skip,
};

const nginx = `daemon off; user root; pid /tmp/nginx.pid; error_log /dev/stderr; events {}
  http { access_log off; client_body_temp_path /tmp/body; proxy_temp_path /tmp/proxy; fastcgi_temp_path /tmp/fastcgi;
    uwsgi_temp_path /tmp/uwsgi; scgi_temp_path /tmp/scgi; server { listen 8080; return 200 "$hostname\\n"; } }`;

const service = (name: string, spec: object): object => ({
  apiVersion: 'v1',
  kind: 'Service',
  metadata: { name },
  spec: { selector: { app: name }, ...spec },
});

const web = {
  apiVersion: 'apps/v1',
  kind: 'Deployment',
  metadata: { name: 'web' },
  spec: {
    replicas: 2,
    selector: { matchLabels: { app: 'web' } },
    template: {
      metadata: { labels: { app: 'web' } },
      spec: {
        terminationGracePeriodSeconds: 0,
        containers: [
          containerOf({
            command: ['nginx', '-c', '/config/nginx.conf', '-e', '/dev/stderr'],
            ports: [{ name: 'http', containerPort: 8080 }],
            readinessProbe: { tcpSocket: { port: 8080 }, periodSeconds: 1 },
            volumeMounts: [mountAt('config', '/config')],
          }),
        ],
        volumes: [{ name: 'config', configMap: { name: 'nginx' } }],
      },
    },
  },
};

const redis = pod(
  'redis',
  {
    command: ['redis-server', '--protected-mode', 'no', '--save', '', '--dir', '/tmp'],
    readinessProbe: { tcpSocket: { port: 6379 }, periodSeconds: 1 },
  },
  { labels: { app: 'redis' } },
);

const machine = new UpMachine();
let place: ChildProcess;
let kubectl: Kubectl;

const inPlace = (): string[] => ['nsenter', '-t', `${place.pid}`, '-n', '--'];

function onMachine(...command: readonly string[]): { readonly code: number | null; readonly out: string } {
  const [file = '', ...args] = [...inPlace(), ...command];
  const { status, stdout } = spawnSync(file, args, { encoding: 'utf8' });
  return { code: status, out: stdout };
}

const fetched = (...args: readonly string[]): string[] => ['curl', '-sS', '--max-time', '60', ...args];

/** As `Kubectl.running`, which asks from this program's own network. */
async function running(...names: readonly string[]): Promise<void> {
  await kubectl.ok([
    'wait',
    ...names.map((name) => `pod/${name}`),
    '--for=jsonpath={.status.phase}=Running',
    '--timeout=120s',
  ]);
}

/** What a node must leave as it found it. */
const traces = (): string[] => [
  onMachine('nft', 'list', 'ruleset').out,
  onMachine('sh', '-c', 'tail -n +3 /proc/net/dev | cut -d: -f1').out,
  readFileSync('/proc/self/mountinfo', 'utf8')
    .split('\n')
    .filter((line) => line.includes(machine.directory))
    .join('\n'),
];

before(async () => {
  if (options.skip !== false) return;
  const script = `ip link set lo up && ip link add out type veth peer name far &&
    ip addr add 192.0.2.9/24 dev out && ip link set out up && ip link set far up && ip route add default via 192.0.2.1 &&
    nft add table ip others && nft add chain ip others input '{ type filter hook input priority 0; }' || exit 1
    echo 0 2>/dev/null >/proc/sys/net/bridge/bridge-nf-call-iptables
    echo made; exec sleep infinity`;
  place = spawn('unshare', ['--net', 'sh', '-c', script], { stdio: ['ignore', 'pipe', 'inherit'] });
  assert.ok(place.stdout !== null);
  const [said] = (await once(place.stdout, 'data')) as [Buffer];
  assert.equal(said.toString(), 'made\n');
  kubectl = new Kubectl(join(machine.directory, 'state', 'kubeconfig'), inPlace());
});

after(async () => {
  await machine.end().finally(() => place?.kill('SIGKILL'));
});

test(
  'programs find each other by the names of their Services, over restarts, and nothing is left',
  options,
  async () => {
    const untouched = traces();
    await machine.startUnder(inPlace());
    await kubectl.apply(
      configMap('nginx', { 'nginx.conf': nginx }),
      web,
      redis,
      service('web', { type: 'NodePort', ports: [{ port: 80, targetPort: 'http' }] }),
      service('redis', { clusterIP: 'None', ports: [{ port: 6379 }] }),
      service('nobody', { ports: [{ port: 80 }] }),
    );
    await kubectl.ok('rollout status deployment/web --timeout=120s');
    await kubectl.ok('wait pod/redis --for=condition=Ready --timeout=120s');
    const field = async (path: string): Promise<string> =>
      await kubectl.ok(['get', 'service', 'web', '-o', `jsonpath={.spec.${path}}`]);
    const [address, nodePort] = [await field('clusterIP'), await field('ports[0].nodePort')];
    const pods = async (): Promise<string[]> =>
      (await kubectl.ok('get pods -l app=web -o jsonpath={.items[*].metadata.name}')).split(' ').sort();
    const askedByRedis = async (host: string): Promise<string> =>
      (await kubectl.exec('redis', ...fetched(`http://${host}/`))).trim();
    const seen = async (count: number): Promise<string[]> => {
      const answers = new Set<string>();
      await eventually(async () => {
        answers.add(await askedByRedis('web'));
        assert.equal(answers.size, count);
      });
      return [...answers].sort();
    };

    const first = await pods();
    assert.deepEqual(await seen(2), first, 'each of both');
    for (const host of ['web.default', 'web.default.svc', 'web.default.svc.cluster.local', address]) {
      assert.ok(first.includes(await askedByRedis(host)), host);
    }
    const [one = ''] = first;
    assert.equal(await kubectl.exec(one, 'redis-cli', '-h', 'redis', 'PING'), 'PONG\n');
    assert.equal(
      await kubectl.exec(one, 'redis-cli', '-h', '10-0-0-0.redis', 'PING').catch(() => 'unknown'),
      'unknown',
    );
    assert.ok(first.includes(onMachine(...fetched(`http://${address}/`)).out.trim()), 'from the machine');
    assert.ok(first.includes(onMachine(...fetched(`http://127.0.0.1:${nodePort}/`)).out.trim()), 'at its port');
    assert.ok(first.includes(onMachine(...fetched(`http://192.0.2.9:${nodePort}/`)).out.trim()));
    const refused = await kubectl.run(['exec', 'redis', '--', ...fetched('http://nobody/')]);
    assert.match(refused.stderr, /exit code 7$/m, 'refused, and at once');
    const server = ['-k', 'https://kubernetes.default.svc/version'];
    assert.match(await kubectl.exec('redis', ...fetched(...server)), /"gitVersion": "v1/);
    assert.match(
      await kubectl.exec('redis', 'cat', '/etc/resolv.conf'),
      /^search default\.svc\.cluster\.local svc\.cluster\.local cluster\.local.*\nnameserver 10\.96\.0\.10\noptions ndots:5\n$/,
    );

    // One of them is replaced.
    await kubectl.ok(`delete pod ${one} --now`);
    await kubectl.ok('rollout status deployment/web --timeout=120s');
    const second = await pods();
    await eventually(async () => assert.ok(second.includes(await askedByRedis('web'))));
    assert.deepEqual(await seen(2), second);

    // Without the program what is there goes on, and the next one takes it up.
    await machine.up.kill();
    assert.ok(second.includes(onMachine(...fetched(`http://${address}/`)).out.trim()));
    await machine.startUnder(inPlace(), '--drain');
    await running('redis', ...second);
    await eventually(async () => assert.ok(second.includes(await askedByRedis('web'))));
    const tables = onMachine('nft', 'list', 'tables')
      .out.split('\n')
      .filter((line) => line.includes('mountlet-'));
    assert.equal(tables.length, 3, 'two for pods, one for Services');

    assert.equal(await machine.up.stop(), 0, machine.up.output());
    assert.deepEqual(traces(), untouched);
  },
);

test(
  'what a Service is called and where it leads becomes no rule, and bytes that a pod throws at the server of names keep no other from its names',
  options,
  async (t) => {
    await machine.startUnder(inPlace(), '--drain');
    t.after(async () => assert.equal(await machine.up.stop(), 0));
    await kubectl.apply(pod('loud'), pod('quiet'), service('web', { ports: [{ port: 80 }] }));
    await running('loud', 'quiet');
    const evil = '10.1.1.1 }; flush ruleset; #';
    const slice = {
      apiVersion: 'discovery.k8s.io/v1',
      kind: 'EndpointSlice',
      metadata: { name: 'web-evil', labels: { 'kubernetes.io/service-name': 'web' } },
      addressType: 'IPv4',
      ports: [{ port: 80 }],
    };
    const tries = [
      service('web; flush ruleset', { ports: [{ port: 80 }] }),
      service('evil', { clusterIP: evil, ports: [{ port: 80 }] }),
      service('evil', { type: 'NodePort', ports: [{ port: 80, nodePort: 22 }] }),
      ...[evil, '127.0.0.1', '169.254.169.254'].map((address) => ({ ...slice, endpoints: [{ addresses: [address] }] })),
    ];
    for (const object of tries) {
      const { code, stderr } = await kubectl.run(['apply', '-f', '-'], { input: JSON.stringify(object) });
      assert.ok(code === 1 && /is invalid|Invalid value/.test(stderr), stderr);
    }
    assert.equal(onMachine('nft', 'list', 'table', 'ip', 'others').code, 0);
    const flood = `const { randomBytes } = require('crypto'); const s = require('dgram').createSocket('udp4'); const net = require('net');
    for (let i = 0; i < 3000; i += 1) s.send(randomBytes(1 + (i % 900)), 53, '10.96.0.10', () => i === 2999 && s.close());
    for (let i = 0; i < 50; i += 1) net.connect(53, '10.96.0.10').on('error', () => {}).end(randomBytes(2000));`;
    await kubectl.exec('loud', process.execPath, '-e', flood);
    const address = await kubectl.ok('get service web -o jsonpath={.spec.clusterIP}');
    await eventually(async () =>
      assert.match(await kubectl.exec('quiet', 'getent', 'ahostsv4', 'web'), new RegExp(`^${address} `)),
    );
  },
);
