/**
 * Programs as people run them in pods, under `mountlet up`: configured by ConfigMaps and Secrets, reloaded when those change.
 * They are the machine's own, from Debian's packages. Each
 * pod of root has a network of its own and is asked at its address; those of an ordinary user listen on free ports of loopback.
 */
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, readdirSync } from 'node:fs';
import type { IncomingMessage } from 'node:http';
import { get } from 'node:https';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { issueServerCertificate, makeAuthority } from '../src/apiserver/identity/certificates.ts';
import { eventually, noKubectl, type Kubectl } from './kubectl-program.ts';
import { configMap, mountAt, pod, secret } from './manifests.ts';
import { mountlet } from './mountlet-program.ts';
import { UpMachine, withNode, freePort } from './up-program.ts';

const machine = new UpMachine();
before(async () => void (withNode.skip === false && (await machine.start())));
after(() => machine.end());

const versions = '/usr/lib/postgresql';
const databases = existsSync(versions) ? readdirSync(versions).map((version) => join(versions, version, 'bin')) : [];
/** Where Debian has the programs of its servers. */
const directories = ['/usr/bin', '/usr/sbin', ...databases];

function pathOf(program: string): string | undefined {
  return directories.map((directory) => join(directory, program)).find((path) => existsSync(path));
}

function missing(...programs: readonly string[]): string | false {
  const absent = programs.filter((program) => pathOf(program) === undefined);
  return absent.length === 0 ? false : `needs ${absent.join(' and ')} on this machine`;
}

const withPrograms = (...programs: readonly string[]): { skip: string | boolean } => ({
  skip: withNode.skip === false ? missing(...programs) : withNode.skip,
});

const emptyDirs = (...names: readonly string[]): object[] => names.map((name) => ({ name, emptyDir: {} }));
const fromConfigMap = (name: string): object => ({ name, configMap: { name } });

/** Until the file of a volume has the text inside of the container: only then a reload finds it. */
async function arrives(kubectl: Kubectl, name: string, path: string, text: string): Promise<void> {
  await eventually(async () => assert.ok((await kubectl.exec(name, 'cat', path)).includes(text), `${path}: ${text}`));
}

async function addressOf(kubectl: Kubectl, name: string): Promise<string> {
  return await kubectl.ok(`get pod ${name} -o jsonpath={.status.podIP}`);
}

async function getText(host: string, port: number, path = '/'): Promise<string> {
  const response = await fetch(`http://${host}:${port}${path}`, { headers: { connection: 'close' } });
  return await response.text();
}

/** Over a connection of its own that trusts one authority. */
async function getSecurely(host: string, port: number, ca: string): Promise<{ body: string; version: unknown }> {
  const request = get({ host, port, servername: 'localhost', ca, agent: false });
  const [response] = (await once(request, 'response')) as [IncomingMessage];
  let body = '';
  for await (const text of response.setEncoding('utf8')) body += String(text);
  return { body, version: response.headers['x-version'] };
}

/** A Secret for a server at localhost, and the certificate to check it with. */
function tlsSecret(name: string): { readonly manifest: object; readonly pem: string; readonly ca: string } {
  const validity = { now: Date.now(), days: 2 };
  const authority = makeAuthority(validity);
  const { certificatePem, keyPem } = issueServerCertificate(authority, { ...validity, hosts: ['localhost'] });
  const manifest = { ...secret(name, { 'tls.crt': certificatePem, 'tls.key': keyPem }), type: 'kubernetes.io/tls' };
  return { manifest, pem: certificatePem + keyPem, ca: authority.certificatePem };
}

/**
 * nginx.conf through a subPath, sites in conf.d, certificate and key in a Secret: all three change, then one reload. An ordinary
 * user is the only one of its namespace, root inside, so nginx must not become another; and no subPath follows there.
 */
async function servesAndReloads(kubectl: Kubectl, kind: 'root' | 'ordinary'): Promise<void> {
  const isAlone = kind === 'root';
  const port = isAlone ? 443 : await freePort();
  const settings = (version: string): object[] => [
    configMap('nginx', {
      'nginx.conf': `user ${kind === 'root' ? 'www-data' : 'root'};
        worker_processes 2;
        error_log /dev/stderr notice;
        events {}
        http { access_log /dev/stdout; add_header X-Version ${version}; include /etc/nginx/conf.d/*.conf; }`,
    }),
    configMap('sites', {
      'site.conf': `server {
        listen ${isAlone ? '0.0.0.0' : '127.0.0.1'}:${port} ssl;
        ssl_certificate /etc/nginx/tls/tls.crt;
        ssl_certificate_key /etc/nginx/tls/tls.key;
        location / { return 200 "site ${version}"; }
      }`,
    }),
  ];
  const first = tlsSecret('site-tls');
  await kubectl.apply(
    ...settings('one'),
    first.manifest,
    pod(
      'nginx',
      {
        command: ['nginx', '-g', 'daemon off;'],
        volumeMounts: [
          mountAt('nginx', '/etc/nginx/nginx.conf', { subPath: 'nginx.conf' }),
          mountAt('sites', '/etc/nginx/conf.d'),
          mountAt('tls', '/etc/nginx/tls', { readOnly: true }),
          mountAt('state', '/var/lib/nginx'),
          mountAt('logs', '/var/log/nginx'),
        ],
        readinessProbe: { tcpSocket: { port }, periodSeconds: 1 },
      },
      {
        volumes: [
          fromConfigMap('nginx'),
          fromConfigMap('sites'),
          { name: 'tls', secret: { secretName: 'site-tls' } },
          ...emptyDirs('state', 'logs'),
        ],
      },
    ),
  );
  await kubectl.ok('wait pod/nginx --for=condition=Ready --timeout=120s');
  const host = isAlone ? await addressOf(kubectl, 'nginx') : '127.0.0.1';
  assert.deepEqual(await getSecurely(host, port, first.ca), { body: 'site one', version: 'one' });

  const second = tlsSecret('site-tls');
  await kubectl.apply(...settings('two'), second.manifest);
  if (kind === 'root') await arrives(kubectl, 'nginx', '/etc/nginx/nginx.conf', 'X-Version two');
  await arrives(kubectl, 'nginx', '/etc/nginx/conf.d/site.conf', 'site two');
  await eventually(async () => {
    const shown = await kubectl.exec('nginx', 'cat', '/etc/nginx/tls/tls.crt', '/etc/nginx/tls/tls.key');
    assert.equal(shown, second.pem);
  });
  assert.equal((await getSecurely(host, port, first.ca)).body, 'site one', 'nothing changes before the reload');
  await kubectl.exec('nginx', 'nginx', '-s', 'reload');
  await eventually(async () =>
    assert.deepEqual(await getSecurely(host, port, second.ca), {
      body: 'site two',
      version: kind === 'root' ? 'two' : 'one',
    }),
  );
  await eventually(async () => assert.match(await kubectl.ok('logs nginx'), /"GET \/ HTTP\/1\.1" 200/));
  assert.equal(await kubectl.ok('get pod nginx -o jsonpath={.status.containerStatuses[0].restartCount}'), '0');
}

/** Redis reads its configuration when it starts: it is stopped, started again by the node, and has kept its data. */
async function keepsDataOverRestart(kubectl: Kubectl): Promise<void> {
  const port = await freePort();
  const settings = (maxmemory: string): object =>
    configMap('redis', {
      'redis.conf': `bind 127.0.0.1\nport ${port}\ndir /data\nappendonly yes\nmaxmemory ${maxmemory}\nlogfile ""\n`,
    });
  const cli = async (...words: readonly string[]): Promise<string> =>
    await kubectl.exec('redis', 'redis-cli', '-p', String(port), ...words);
  await kubectl.apply(
    settings('3mb'),
    pod(
      'redis',
      {
        command: ['redis-server', '/etc/redis/redis.conf'],
        volumeMounts: [mountAt('redis', '/etc/redis'), mountAt('data', '/data')],
        readinessProbe: { exec: { command: ['redis-cli', '-p', String(port), 'ping'] }, periodSeconds: 1 },
      },
      { volumes: [fromConfigMap('redis'), ...emptyDirs('data')], terminationGracePeriodSeconds: 5 },
    ),
  );
  await kubectl.ok('wait pod/redis --for=condition=Ready --timeout=120s');
  assert.equal(await cli('config', 'get', 'maxmemory'), `maxmemory\n${3 * 1024 ** 2}\n`);
  assert.equal(await cli('set', 'color', 'green'), 'OK\n');

  await kubectl.apply(settings('5mb'));
  await arrives(kubectl, 'redis', '/etc/redis/redis.conf', 'maxmemory 5mb');
  await kubectl.run(['exec', 'redis', '--', 'redis-cli', '-p', String(port), 'shutdown']);
  await kubectl.until('pod/redis', '{.status.containerStatuses[0].restartCount}', '1');
  await kubectl.until('pod/redis', '{.status.containerStatuses[0].ready}', 'true');
  assert.equal(await cli('config', 'get', 'maxmemory'), `maxmemory\n${5 * 1024 ** 2}\n`);
  assert.equal(await cli('get', 'color'), 'green\n');
  assert.match(await kubectl.ok('logs redis --previous'), /ready to exit, bye bye/);
}

describe('real programs', { concurrency: 2 }, () => {
  test('nginx serves TLS and takes its new configuration and certificate', withPrograms('nginx'), async () => {
    await servesAndReloads(machine.kubectl, 'root');
  });

  test(
    'redis has the settings of its ConfigMap, and its data after a restart',
    withPrograms('redis-server'),
    async () => {
      await keepsDataOverRestart(machine.kubectl);
    },
  );

  test(
    'postgresql makes its database as a user of its own and reloads its settings',
    withPrograms('initdb', 'postgres', 'psql'),
    async () => {
      const { kubectl } = machine;
      const [uid, gid] = ['-u', '-g'].map((option) => Number(spawnSync('id', [option, 'postgres']).stdout));
      const port = await freePort();
      const settings = (memory: string): object =>
        configMap('postgres', {
          'postgresql.conf': `listen_addresses = '127.0.0.1'
            port = ${port}
            unix_socket_directories = '/var/run/postgresql'
            work_mem = '${memory}'
            shared_buffers = '16MB'`,
        });
      const directory = '/var/lib/postgresql/data';
      const volumeMounts = [
        mountAt('data', '/var/lib/postgresql'),
        mountAt('run', '/var/run/postgresql'),
        mountAt('postgres', '/etc/postgresql'),
        mountAt('login', '/etc/login'),
      ];
      const query = async (text: string): Promise<string> =>
        await kubectl.exec('postgres', 'psql', '-h', '127.0.0.1', '-p', String(port), '-Atc', text);
      await kubectl.apply(
        settings('5MB'),
        secret('postgres', { password: 'open sesame' }),
        pod(
          'postgres',
          {
            command: [pathOf('postgres'), '-D', directory, '-c', 'config_file=/etc/postgresql/postgresql.conf'],
            env: [
              { name: 'PGUSER', value: 'postgres' },
              { name: 'PGPASSWORD', valueFrom: { secretKeyRef: { name: 'postgres', key: 'password' } } },
            ],
            volumeMounts,
            readinessProbe: {
              exec: { command: ['pg_isready', '-h', '127.0.0.1', '-p', String(port)] },
              periodSeconds: 1,
            },
          },
          {
            initContainers: [
              {
                name: 'initdb',
                image: 'none',
                command: [pathOf('initdb'), '-D', directory, '--auth=scram-sha-256', '--pwfile=/etc/login/password'],
                volumeMounts,
              },
            ],
            securityContext: { runAsUser: uid, runAsGroup: gid, fsGroup: gid, runAsNonRoot: true },
            volumes: [
              fromConfigMap('postgres'),
              { name: 'login', secret: { secretName: 'postgres', defaultMode: 0o440 } },
              ...emptyDirs('data', 'run'),
            ],
            terminationGracePeriodSeconds: 5,
          },
        ),
      );
      await kubectl.ok('wait pod/postgres --for=condition=Ready --timeout=120s');
      assert.equal(await query('show work_mem'), '5MB\n');
      await query('create table colors as select generate_series(1, 20000) as n');

      await kubectl.apply(settings('7MB'));
      await arrives(kubectl, 'postgres', '/etc/postgresql/postgresql.conf', '7MB');
      await kubectl.exec('postgres', 'kill', '-HUP', '1');
      await eventually(async () => assert.equal(await query('show work_mem'), '7MB\n'));
      // Parallel workers share memory below /dev/shm.
      assert.equal(
        await query(
          'set parallel_setup_cost=0; set parallel_tuple_cost=0; set min_parallel_table_scan_size=0; select count(*) from colors',
        ),
        'SET\nSET\nSET\n20000\n',
      );
      const wrong = [
        'exec',
        'postgres',
        '--',
        'env',
        'PGPASSWORD=wrong',
        'psql',
        '-h',
        '127.0.0.1',
        '-p',
        String(port),
      ];
      assert.match((await kubectl.run(wrong)).stderr, /password authentication failed/);
    },
  );

  test(
    'prometheus scrapes the exporter beside it and reloads its targets',
    withPrograms('prometheus', 'prometheus-node-exporter'),
    async () => {
      const { kubectl } = machine;
      const settings = (stage: string): object =>
        configMap('prometheus', {
          'prometheus.yml': `
global: { scrape_interval: 1s }
scrape_configs:
  - job_name: node
    static_configs: [{ targets: ['127.0.0.1:9100'], labels: { stage: ${stage} } }]
`,
        });
      await kubectl.apply(
        settings('one'),
        pod(
          'prometheus',
          [
            {
              command: [
                'prometheus',
                '--config.file=/etc/prometheus/prometheus.yml',
                '--storage.tsdb.path=/prometheus',
                '--web.listen-address=:9090',
              ],
              volumeMounts: [mountAt('prometheus', '/etc/prometheus'), mountAt('data', '/prometheus')],
              readinessProbe: { httpGet: { port: 9090, path: '/-/ready' }, periodSeconds: 1 },
            },
            {
              name: 'exporter',
              command: ['prometheus-node-exporter', '--web.listen-address=127.0.0.1:9100'],
            },
          ],
          {
            securityContext: { runAsUser: 65534, runAsGroup: 65534, fsGroup: 65534, runAsNonRoot: true },
            volumes: [fromConfigMap('prometheus'), ...emptyDirs('data')],
          },
        ),
      );
      await kubectl.ok('wait pod/prometheus --for=condition=Ready --timeout=120s');
      const host = await addressOf(kubectl, 'prometheus');
      const stages = async (): Promise<unknown> => {
        const query = encodeURIComponent('up{job="node"} == 1 and on(instance) node_memory_MemTotal_bytes > 0');
        const answer = JSON.parse(await getText(host, 9090, `/api/v1/query?query=${query}`)) as {
          data: { result: { metric: { stage: string } }[] };
        };
        return answer.data.result.map(({ metric }) => metric.stage);
      };
      await eventually(async () => assert.deepEqual(await stages(), ['one']));

      await kubectl.apply(settings('two'));
      await arrives(kubectl, 'prometheus', '/etc/prometheus/prometheus.yml', 'stage: two');
      await kubectl.exec('prometheus', 'kill', '-HUP', '1');
      await eventually(async () => assert.deepEqual(await stages(), ['two']));
    },
  );

  test('haproxy runs hardened and reloads by a signal to its master', withPrograms('haproxy'), async () => {
    const { kubectl } = machine;
    const [port, lowPort] = [8080, 80];
    const settings = (version: string): object =>
      configMap('haproxy', {
        'haproxy.cfg': `
global
  log stdout format raw local0
defaults
  mode http
  timeout client 5s
  timeout connect 5s
  timeout server 5s
frontend web
  bind :${port}
  bind :${lowPort}
  http-request return status 200 content-type text/plain string "${version}"
`,
      });
    await kubectl.apply(
      settings('one'),
      pod(
        'haproxy',
        {
          command: ['haproxy', '-W', '-f', '/usr/local/etc/haproxy/haproxy.cfg'],
          volumeMounts: [mountAt('haproxy', '/usr/local/etc/haproxy')],
          securityContext: {
            readOnlyRootFilesystem: true,
            allowPrivilegeEscalation: false,
            capabilities: { drop: ['ALL'], add: ['NET_BIND_SERVICE'] },
          },
          livenessProbe: { httpGet: { port, path: '/' }, periodSeconds: 1, timeoutSeconds: 10, failureThreshold: 60 },
        },
        {
          securityContext: {
            runAsUser: 1000,
            runAsGroup: 1000,
            runAsNonRoot: true,
            seccompProfile: { type: 'RuntimeDefault' },
          },
          volumes: [fromConfigMap('haproxy')],
        },
      ),
    );
    await kubectl.running('haproxy');
    const host = await addressOf(kubectl, 'haproxy');
    await eventually(async () => assert.equal(await getText(host, port), 'one'));
    assert.equal(await getText(host, lowPort), 'one');
    const status = await kubectl.exec('haproxy', 'cat', '/proc/1/status');
    assert.match(status, /^Uid:\t1000\t1000\t1000\t1000$/m);
    assert.match(status, /^CapBnd:\t0000000000000400$/m);
    assert.match(status, /^NoNewPrivs:\t1$/m);

    await kubectl.apply(settings('two'));
    await arrives(kubectl, 'haproxy', '/usr/local/etc/haproxy/haproxy.cfg', '"two"');
    await kubectl.exec('haproxy', 'kill', '-USR2', '1');
    for (const one of [port, lowPort]) await eventually(async () => assert.equal(await getText(host, one), 'two'));
    assert.equal(await kubectl.ok('get pod haproxy -o jsonpath={.status.containerStatuses[0].restartCount}'), '0');
  });
});

test('an ordinary user runs nginx and redis, and reloads and restarts them', async (t) => {
  const absent = missing('nginx', 'redis-server');
  if (absent !== false) return t.skip(absent);
  if (noKubectl !== false) return t.skip(noKubectl);
  const { code, stdout } = mountlet(['doctor'], { asOrdinaryUser: true });
  if (code !== 0) return t.skip(`needs user namespaces for ordinary users:\n${stdout}`);
  const ordinary = new UpMachine();
  t.after(() => ordinary.end());
  const { kubectl } = await ordinary.startAsOrdinaryUser();
  await Promise.all([servesAndReloads(kubectl, 'ordinary'), keepsDataOverRestart(kubectl)]);
});
