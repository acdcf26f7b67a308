/** `mountlet get volumes` against a running `mountlet up`, and what Events say of volumes that nothing here can run. */
import assert from 'node:assert/strict';
import { existsSync, readdirSync, statSync } from 'node:fs';
import { type RequestOptions, request } from 'node:http';
import { createConnection } from 'node:net';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { parse } from 'yaml';
import { eventually } from './kubectl-program.ts';
import { configMap, mountAt, pod as podWith } from './manifests.ts';
import { type Ran, type RunOptions, mountlet } from './mountlet-program.ts';
import { UpMachine, withNode } from './up-program.ts';

const machine = new UpMachine();
const state = join(machine.directory, 'state');
const socketPath = join(state, 'node', 'control', 'node.sock');

/** Without a volume that admission adds. */
const pod: typeof podWith = (name, container, spec) =>
  podWith(name, container, { automountServiceAccountToken: false, ...spec });
const claim = (name: string, spec: object = {}): object => ({
  apiVersion: 'v1',
  kind: 'PersistentVolumeClaim',
  metadata: { name },
  spec: { accessModes: ['ReadWriteOnce'], resources: { requests: { storage: '1Gi' } }, ...spec },
});
const podOf = (name: string, source: object): object =>
  pod(name, { volumeMounts: [mountAt('v', '/v')] }, { volumes: [{ name: 'v', ...source }] });
const iscsi = {
  apiVersion: 'v1',
  kind: 'PersistentVolume',
  metadata: { name: 'san' },
  spec: {
    capacity: { storage: '1Gi' },
    accessModes: ['ReadWriteOnce'],
    storageClassName: 'san',
    iscsi: { targetPortal: '192.0.2.1', iqn: 'iqn.2026-01.com.example:a' },
  },
};

before(async () => {
  if (withNode.skip !== false) return;
  await machine.start();
  const { kubectl } = machine;
  await kubectl.ok('create namespace shop');
  await kubectl.apply(
    configMap('config', { key: 'value' }),
    claim('data'),
    pod(
      'web',
      {
        script: 'head -c 3000000 /dev/zero >/scratch/file; sleep 1000',
        volumeMounts: [mountAt('config', '/config'), mountAt('scratch', '/scratch'), mountAt('data', '/data')],
      },
      {
        volumes: [
          { name: 'config', configMap: { name: 'config' } },
          { name: 'scratch', emptyDir: {} },
          { name: 'data', persistentVolumeClaim: { claimName: 'data' } },
          { name: 'unused', emptyDir: {} },
        ],
      },
    ),
    podOf('late', { secret: { secretName: 'missing' } }),
    iscsi,
    claim('san', { storageClassName: 'san' }),
    podOf('old', { glusterfs: { endpoints: 'gluster', path: 'data' } }),
    podOf('old-claim', { persistentVolumeClaim: { claimName: 'san' } }),
    podOf('moved', { awsElasticBlockStore: { volumeID: 'vol-1' } }),
    podOf('certified', {
      projected: { sources: [{ podCertificate: { signerName: 'example.com/s', keyType: 'ED25519', keyPath: 'key' } }] },
    }),
    // The way to the whole machine that hostPath offers.
    pod('host', { volumeMounts: [mountAt('host', '/host')] }, { volumes: [{ name: 'host', hostPath: { path: '/' } }] }),
  );
  await kubectl.ok('apply -n shop -f -', { input: JSON.stringify(podOf('till', { emptyDir: { medium: 'Memory' } })) });
  await kubectl.running('web', 'host');
  await kubectl.ok('wait -n shop pod/till --for=jsonpath={.status.phase}=Running --timeout=100s');
});
after(() => machine.end());

const get = (args: string, options: RunOptions = {}): Ran =>
  mountlet(['get', 'volumes', '--root-dir', state, ...args.split(' ').filter((word) => word !== '')], options);
/** Rows with these cells, by `pod volume`. */
const rows = (stdout: string): ReadonlyMap<string, Readonly<Record<string, string>>> => {
  const [head = '', ...lines] = stdout.trimEnd().split('\n');
  const names = head.split(/ {3,}/);
  return new Map(
    lines.map((line) => {
      const cells = line.split(/ {3,}/);
      const row = Object.fromEntries(names.map((name, index) => [name, cells[index] ?? '']));
      return [`${row['POD']} ${row['VOLUME']}`, row];
    }),
  );
};

interface View {
  readonly kind: string;
  readonly metadata: { readonly name: string; readonly namespace: string };
  readonly spec: { readonly plugin?: string; readonly claimName?: string };
  readonly status: {
    readonly state: string;
    readonly path: string;
    readonly usedBytes: number;
    readonly objects?: readonly { readonly resourceVersion?: string }[];
  };
}

describe('get volumes', { concurrency: 2 }, () => {
  test('shows state, claim, phase and usage of the volumes that containers use', withNode, async () => {
    await eventually(() => {
      const { stdout, stderr, code } = get('');
      assert.equal(code, 0, stderr);
      assert.match(stdout, /^POD +VOLUME +PLUGIN +STATE +CLAIM +PHASE +USED +CAPACITY +AGE +MESSAGE\n/);
      const found = rows(stdout);
      assert.ok(!found.has('web unused'));
      const { AGE: age = '', CAPACITY: capacity = '', ...data } = found.get('web data') ?? {};
      assert.match(`${age} ${capacity}`, /^\d+m?\d*s? \S+[KMGTP]i$/);
      assert.equal(
        `${data['PLUGIN']} ${data['STATE']} ${data['CLAIM']} ${data['PHASE']}`,
        'local-volume Mounted data Bound',
      );
      assert.equal(found.get('web config')?.['STATE'], 'Mounted');
      const late = found.get('late v');
      assert.deepEqual([late?.['STATE'], late?.['CLAIM']], ['Waiting', '<none>']);
      assert.match(late?.['MESSAGE'] ?? '', /secret "missing" not found/);
      assert.match(found.get('old v')?.['MESSAGE'] ?? '', /glusterfs volumes are no longer supported/);
      assert.deepEqual([found.get('old-claim v')?.['CLAIM'], found.get('old-claim v')?.['PHASE']], ['san', 'Bound']);
    });
  });

  test(
    '-o wide adds paths and object versions; json, yaml and name are lists that other programs read',
    withNode,
    async () => {
      const wide = rows(get('-o wide').stdout).get('web config') ?? {};
      assert.ok(existsSync(join(wide['PATH'] ?? '', 'key')));
      const version = await machine.kubectl.ok('get cm config -o jsonpath={.metadata.resourceVersion}');
      assert.equal(wide['OBJECTS'], `ConfigMap/config@${version}`);
      const { items } = JSON.parse(get('web -o json').stdout) as { items: readonly View[] };
      assert.deepEqual(
        items.map(({ kind, metadata, status }) => [kind, metadata.name, status.state]),
        ['web.config', 'web.data', 'web.scratch'].map((name) => ['Volume', name, 'Mounted']),
      );
      await eventually(() => {
        const { items: again } = JSON.parse(get('web.scratch -o json').stdout) as { items: readonly View[] };
        assert.equal(again.length, 1);
        assert.ok((again[0]?.status.usedBytes ?? 0) >= 3_000_000);
      });
      const yaml = parse(get('web -o yaml').stdout) as { items: readonly View[] };
      assert.deepEqual(
        yaml.items.map(({ metadata }) => metadata.name),
        items.map(({ metadata }) => metadata.name),
      );
      assert.equal(get('web -o name').stdout, 'volume/web.config\nvolume/web.data\nvolume/web.scratch\n');
    },
  );

  test('-n and -A choose namespaces, and an empty one says so', withNode, () => {
    assert.deepEqual([...rows(get('-n shop').stdout).keys()], ['till v']);
    assert.match(get('-A').stdout, /^NAMESPACE +POD .*\n(default .*\n)+shop +till +v +empty-dir +Mounted/);
    const { code, stdout, stderr } = get('-n kube-system');
    assert.deepEqual([code, stdout, stderr], [0, '', 'No volumes found in namespace kube-system.\n']);
  });

  test('says what to do where there is no such volume or no node', withNode, () => {
    assert.match(get('nope').stderr, /^error: Cannot find a volume or a pod with volumes named "nope" on this node\n$/);
    assert.match(get('-l a=b').stderr, /^error: Cannot select volumes by labels/);
    const { code, stderr } = mountlet(['get', 'volumes', '--root-dir', '/nonexistent/dir']);
    assert.equal(code, 1);
    assert.match(stderr, /^error: Cannot find a node: no node runs in \/nonexistent\/dir; start `mountlet up`/);
    const foreign = get('', { asOrdinaryUser: true });
    assert.match(
      foreign.stderr,
      /^error: Cannot ask the node in ".*": it is another user's: run this as that user, or as root\n$/,
    );
  });

  test('persistentvolumes are still those of the API server, where volumes are no resource', withNode, async () => {
    const ran = mountlet(['get', 'persistentvolumes', '--kubeconfig', join(state, 'kubeconfig')]);
    assert.match(ran.stdout, /^NAME .*\n(.*\n)*san /);
    const { code, stderr } = await machine.kubectl.run(['get', 'volumes']);
    assert.equal(code, 1);
    assert.match(stderr, /doesn't have a resource type "volumes"/);
  });

  const kinds = [
    {
      name: 'old',
      says: /FailedMount .*no volume plugin matched: glusterfs volumes are no longer supported by Kubernetes: use a CSI driver/,
    },
    {
      name: 'old-claim',
      says: /FailedMount .*no volume plugin matched: iscsi volumes are not supported by this node: use the CSI driver iscsi\.csi\.k8s\.io/,
    },
    {
      name: 'moved',
      says: /FailedAttachVolume .*CSINode \S+ does not contain driver ebs\.csi\.aws\.com/,
    },
    {
      name: 'certified',
      says: /FailedMount .*sources\[0\]\.podCertificate of signer "example\.com\/s": this node requests no certificates for pods/,
    },
  ];
  for (const { name, says } of kinds) {
    test(`an Event of pod ${name} names the kind of volume that nothing here runs, and the way`, withNode, async () => {
      await eventually(async () => assert.match(await machine.kubectl.ok(`events --for pod/${name}`), says));
    });
  }

  test('what Kubernetes fills in for storage of other drivers is filled in', withNode, async () => {
    const { spec } = await machine.kubectl.json<{ spec: { iscsi: object } }>('get pv san');
    assert.deepEqual(spec.iscsi, { ...iscsi.spec.iscsi, lun: 0, iscsiInterface: 'default' });
  });

  test('no container sees the socket, not even with the whole machine mounted', withNode, async () => {
    assert.ok(statSync(socketPath).isSocket());
    assert.deepEqual(
      [statSync(socketPath).mode & 0o777, statSync(join(socketPath, '..')).mode & 0o777],
      [0o600, 0o700],
    );
    await machine.kubectl.exec('host', 'ls', '/host/etc/passwd');
    for (const [name, path] of [
      ['web', socketPath],
      ['host', join('/host', socketPath)],
    ] as const) {
      const { code, stdout } = await machine.kubectl.run(['exec', name, '--', 'ls', path]);
      assert.notEqual(code, 0, stdout);
    }
  });
});

/** Status of one request over the socket, by a short path to it. */
const ask = (options: RequestOptions): Promise<number | undefined> =>
  new Promise((resolve, reject) => {
    const asked = request({ socketPath, path: '/v1/volumes', ...options }, (response) => {
      response.resume();
      resolve(response.statusCode);
    });
    asked.on('error', reject).end();
  });

test('the socket serves reading alone, and nothing without a bound', withNode, async () => {
  assert.equal(await ask({}), 200);
  assert.equal(await ask({ method: 'DELETE' }), 405);
  assert.equal(await ask({ path: '/v1/pods' }), 404);
  assert.equal(await ask({ headers: { a: 'x'.repeat(10_000) } }), 431);
  const open = Array.from({ length: 40 }, () => createConnection(socketPath).on('error', () => {}));
  await eventually(() => assert.ok(open.filter(({ destroyed }) => destroyed).length >= 24));
  for (const socket of open) socket.destroy();
  await eventually(async () => assert.equal(await ask({}), 200));
});

test('a node that was killed leaves its socket to the next one', withNode, async () => {
  await machine.up.kill();
  assert.ok(existsSync(socketPath));
  assert.match(get('').stderr, /no node runs in/);
  await machine.start();
  await eventually(() => assert.equal(rows(get('').stdout).get('web config')?.['STATE'], 'Mounted'));
  assert.deepEqual(readdirSync(join(socketPath, '..')), ['node.sock']);
});
