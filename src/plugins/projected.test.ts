import assert from 'node:assert/strict';
import { test } from 'node:test';
import { MountletError } from '../base/errors.ts';
import type { ClusterTrustBundle } from '../kube/kinds/cluster-trust-bundle.ts';
import type { ProjectedVolumeSource, VolumeProjection } from '../kube/kinds/pod/volume.ts';
import { commonRunAsUser } from '../kube/references/pod-references.ts';
import { base64, testPod } from '../testing/worlds/volume-node.ts';
import {
  type PodCertificateRequest,
  type PodTokenRequest,
  type ProjectedSources,
  type ProjectedVolume,
  collectProjected,
} from './projected.ts';

const { signal } = new AbortController();

function pem(text: string): string {
  return `-----BEGIN CERTIFICATE-----\n${base64(text)}\n-----END CERTIFICATE-----\n`;
}
function bundle(name: string, signerName: string, labels: Record<string, string>, text: string): ClusterTrustBundle {
  return { metadata: { name, labels }, spec: { signerName, trustBundle: pem(text) } };
}
const bundles = [
  bundle('example', '', {}, 'named'),
  bundle('s:live', 'example.com/s', { env: 'live' }, 'live'),
  bundle('s:test', 'example.com/s', { env: 'test' }, 'test'),
];

const asked: (PodTokenRequest | PodCertificateRequest)[] = [];
const sources: ProjectedSources = {
  configMaps: {
    get: async (namespace, name) =>
      namespace === 'shop' && name === 'web' ? { metadata: { name }, data: { a: 'config', b: 'B' } } : undefined,
  },
  secrets: {
    get: async (namespace, name) =>
      namespace === 'shop' && name === 'tls' ? { metadata: { name }, data: { a: base64('secret') } } : undefined,
  },
  nodes: { get: async () => ({ metadata: { name: 'node' }, status: { allocatable: { cpu: '4' } } }) },
  tokens: {
    async get(request) {
      asked.push(request);
      return 'token';
    },
    forgetPod: () => undefined,
  },
  trustBundles: {
    get: async (name) => bundles.find(({ metadata }) => metadata.name === name),
    list: async (signerName) => bundles.filter(({ spec }) => spec.signerName === signerName),
  },
  podCertificates: {
    async get(request) {
      asked.push(request);
      return { privateKey: Buffer.from('KEY\n'), certificateChain: Buffer.from('CHAIN\n') };
    },
  },
};

type Shown = Record<string, string>;
async function collect(
  projections: VolumeProjection[],
  more: Partial<ProjectedVolumeSource> = {},
  volume: Partial<ProjectedVolume> = {},
  from = sources,
): Promise<Shown> {
  const source = { defaultMode: 0o644, sources: projections, ...more };
  const payload = await collectProjected(from, { pod: testPod(), volumeName: 'all', source, ...volume }, signal);
  const entries = [...payload].map(([path, { data, mode, uid }]) => {
    const text = Buffer.from(data).toString();
    return [path, `${text} ${mode.toString(8)}${uid === undefined ? '' : ` ${uid}`}`] as const;
  });
  return Object.fromEntries(entries);
}

const token: VolumeProjection = { serviceAccountToken: { path: 'token' } };

const merges: { it: string; projections: VolumeProjection[]; files: Shown }[] = [
  { it: 'no sources give no files', projections: [], files: {} },
  { it: 'an empty source gives nothing', projections: [{}, token], files: { token: 'token 644' } },
  {
    it: 'a later source wins a path',
    projections: [{ secret: { name: 'tls' } }, { configMap: { name: 'web' } }],
    files: { a: 'config 644', b: 'B 644' },
  },
  {
    it: 'of a source with two members one is taken, Secrets first',
    projections: [{ configMap: { name: 'web' }, secret: { name: 'tls' } }],
    files: { a: 'secret 644' },
  },
  {
    it: 'optional covers missing objects and missing keys',
    projections: [
      { configMap: { name: 'gone', optional: true } },
      { secret: { name: 'tls', optional: true, items: [{ key: 'gone', path: 'x' }] } },
    ],
    files: {},
  },
  {
    it: 'the volume that admission adds to every pod',
    projections: [
      { serviceAccountToken: { path: 'token', expirationSeconds: 3607 } },
      { configMap: { name: 'web', items: [{ key: 'a', path: 'ca.crt' }] } },
      { downwardAPI: { items: [{ path: 'namespace', fieldRef: { fieldPath: 'metadata.namespace' } }] } },
    ],
    files: { token: 'token 644', 'ca.crt': 'config 644', namespace: 'shop 644' },
  },
];
for (const { it, projections, files } of merges) {
  test(`projected: ${it}`, async () => {
    assert.deepEqual(await collect(projections), files);
  });
}

test('no default mode is an error', async () => {
  const volume = { pod: testPod(), volumeName: 'all', source: { sources: [token] } };
  await assert.rejects(collectProjected(sources, volume, signal), {
    message: 'no defaultMode used, not even the default value for it',
  });
});

test('all sources are read, and every failure is reported', async () => {
  const failing: VolumeProjection[] = [
    { secret: { name: 'x' } },
    token,
    { configMap: { name: 'y' } },
    { configMap: { name: 'web', items: [{ key: 'z', path: 'z' }] } },
    {
      downwardAPI: {
        items: [
          { path: 'p', fieldRef: { fieldPath: 'p' } },
          { path: 'q', fieldRef: { fieldPath: 'q' } },
        ],
      },
    },
    { secret: { name: 'x' } },
  ];
  await assert.rejects(collect(failing), {
    message:
      '[secret "x" not found, configmap "y" not found, configmap references non-existent config key: z, unsupported fieldPath: p, unsupported fieldPath: q]',
  });
  await assert.rejects(collect(failing.slice(0, 2)), { message: 'secret "x" not found', reason: 'ObjectNotFound' });
});

class Unreachable extends MountletError {
  readonly reason = 'Unreachable';
}

test('a failure that is not "not found" fails an optional source too', async () => {
  const failure = new Unreachable('connection refused');
  const get = async (): Promise<never> => {
    throw failure;
  };
  const from = { ...sources, configMaps: { get } };
  await assert.rejects(collect([{ configMap: { name: 'web', optional: true } }], {}, {}, from), {
    message: 'connection refused',
  });
});

test('an unexpected error is not hidden in a list', async () => {
  const bug = new TypeError('a bug');
  const get = async (): Promise<never> => {
    throw bug;
  };
  await assert.rejects(
    collect([{ secret: { name: 'x' } }, { configMap: { name: 'y' } }], {}, {}, { ...sources, configMaps: { get } }),
    bug,
  );
});

const user = (runAsUser: number): Partial<ProjectedVolume> => {
  const pod = testPod({ containers: [{ name: 'app', securityContext: { runAsUser } }] });
  return { pod, fsUser: commonRunAsUser(pod) };
};
const certificate = { podCertificate: { signerName: 's', keyType: 'ED25519', keyPath: 'key' } };
const trust = { clusterTrustBundle: { name: 'example', path: 'ca' } };
/** Tokens, trust bundles and certificates, each with its file: one rule for all. */
const credentials = [
  { kind: 'token', path: 'token', projection: token, withUser: { serviceAccountToken: { path: 'token', user: 9 } } },
  {
    kind: 'trust bundle',
    path: 'ca',
    projection: trust,
    withUser: { clusterTrustBundle: { ...trust.clusterTrustBundle, user: 9 } },
  },
  {
    kind: 'certificate',
    path: 'key',
    projection: certificate,
    withUser: { podCertificate: { ...certificate.podCertificate, user: 9 } },
  },
];
for (const { kind, path, projection, withUser } of credentials) {
  const ending = async (
    from: VolumeProjection,
    more: Partial<ProjectedVolumeSource>,
    volume: Partial<ProjectedVolume>,
  ): Promise<string> => /(?<= )\d+( \d+)?$/.exec((await collect([from], more, volume))[path] ?? '')?.[0] ?? '';

  test(`mode of a ${kind}`, async () => {
    assert.equal(await ending(projection, {}, {}), '644');
    assert.equal(await ending(projection, {}, { fsGroup: 2000 }), '600');
    assert.equal(await ending(projection, {}, user(1000)), '600 1000');
    assert.equal(await ending(projection, { defaultMode: 0o444 }, user(0)), '600 0');
  });

  test(`owner of a ${kind}: source, then volume, then run-as user`, async () => {
    assert.equal(await ending(withUser, { defaultUser: 8 }, user(7)), '600 9');
    assert.equal(await ending(projection, { defaultUser: 8 }, user(7)), '600 8');
    assert.equal(await ending(projection, {}, user(7)), '600 7');
  });
}

test('what the token source does not say is left for the API server to decide', async () => {
  asked.length = 0;
  const pod = testPod({ serviceAccountName: 'robot' });
  await collect([token], {}, { pod });
  await collect([{ serviceAccountToken: { path: 'token', audience: 'vault', expirationSeconds: 600 } }], {}, { pod });
  const { uid = '' } = pod.metadata;
  const common = { namespace: 'shop', serviceAccountName: 'robot', pod: { name: 'web', uid } };
  assert.deepEqual(asked, [
    { ...common, audiences: [], expirationSeconds: undefined },
    { ...common, audiences: ['vault'], expirationSeconds: 600 },
  ]);
});

test('the credential bundle is key, then chain; each file only where it has a path', async () => {
  asked.length = 0;
  const podCertificate = { credentialBundlePath: 'bundle', keyPath: 'key', certificateChainPath: 'chain' };
  assert.deepEqual(await collect([{}, { podCertificate }]), {
    bundle: 'KEY\nCHAIN\n 644',
    key: 'KEY\n 644',
    chain: 'CHAIN\n 644',
  });
  assert.deepEqual(await collect([{ podCertificate: { keyPath: '', certificateChainPath: 'chain' } }]), {
    chain: 'CHAIN\n 644',
  });
  const { uid: podUid = '' } = testPod().metadata;
  assert.deepEqual(asked[0], { namespace: 'shop', podName: 'web', podUid, volumeName: 'all', sourceIndex: 1 });
});

const trustCases: {
  it: string;
  from: NonNullable<VolumeProjection['clusterTrustBundle']>;
  texts?: string[];
  fails?: string;
}[] = [
  { it: 'one bundle by name', from: { path: 'ca', name: 'example' }, texts: ['named'] },
  {
    it: 'all of a signer',
    from: { path: 'ca', signerName: 'example.com/s', labelSelector: {} },
    texts: ['live', 'test'],
  },
  {
    it: 'those of a signer that have a label',
    from: { path: 'ca', signerName: 'example.com/s', labelSelector: { matchLabels: { env: 'live' } } },
    texts: ['live'],
  },
  { it: 'nothing found, but optional', from: { path: 'ca', name: 'gone', optional: true }, texts: [] },
  {
    it: 'no selector selects nothing',
    from: { path: 'ca', signerName: 'example.com/s' },
    fails: 'combination of signerName and labelSelector matched zero ClusterTrustBundles',
  },
  {
    it: 'a name that does not exist',
    from: { path: 'ca', name: 'gone' },
    fails: 'while getting ClusterTrustBundle: clustertrustbundle.certificates.k8s.io "gone" not found',
  },
  {
    it: 'neither name nor signer',
    from: { path: 'ca' },
    fails: 'ClusterTrustBundle projection requires either name or signerName to be set',
  },
  {
    it: 'a selector that means nothing',
    from: { path: 'ca', signerName: 's', labelSelector: { matchExpressions: [{ key: 'a', operator: 'Near' }] } },
    fails: 'while parsing label selector: "Near" is not a valid label selector operator',
  },
];
for (const { it, from, texts, fails } of trustCases) {
  test(`trust bundles: ${it}`, async () => {
    if (fails !== undefined) return assert.rejects(collect([{ clusterTrustBundle: from }]), { message: fails });
    const shown = (await collect([{ clusterTrustBundle: from }]))['ca'] ?? 'no file';
    for (const { spec } of bundles) {
      const wanted = (texts ?? []).some((text) => spec.trustBundle === pem(text));
      assert.equal(shown.includes(spec.trustBundle), wanted, spec.trustBundle);
    }
    if (texts?.length === 0) assert.equal(shown, ' 644', 'the file is there, and empty');
  });
}

test('trust bundles: a selector of absurd length is refused', async () => {
  const values = Array.from({ length: 4096 }, (_, i) => `v${String(i).padStart(40, '0')}`);
  const labelSelector = { matchExpressions: [{ key: 'a', operator: 'In', values }] };
  await assert.rejects(
    collect([{ clusterTrustBundle: { path: 'ca', signerName: 'example.com/s', labelSelector } }]),
    /^VolumeError: label selector length \(\d+\) is larger than 102400$/,
  );
});

const standalone = [
  {
    kind: 'token',
    projection: token,
    says: 'failed to fetch token: cannot use TokenManager when kubelet is in standalone mode',
  },
  {
    kind: 'trust bundle',
    projection: trust,
    says: 'ClusterTrustBundle projection is not supported in static kubelet mode',
  },
  {
    kind: 'certificate',
    projection: certificate,
    says: 'sources[0].podCertificate of signer "s": this node requests no certificates for pods: project a Secret instead',
  },
];
for (const { kind, projection, says } of standalone) {
  test(`a node without a cluster has no ${kind}, and says so`, async () => {
    const { configMaps, secrets, nodes } = sources;
    await assert.rejects(collect([projection], {}, {}, { configMaps, secrets, nodes }), { message: says });
    assert.deepEqual(await collect([{ secret: { name: 'tls' } }], {}, {}, { configMaps, secrets, nodes }), {
      a: 'secret 644',
    });
  });
}
