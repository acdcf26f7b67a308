import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';
import { isDeepStrictEqual } from 'node:util';
import { stringify } from 'yaml';
import type { RuntimeImages } from '../../runtimes/runtime.ts';
import { type AgentSettings, agentSettings, readAgentConfiguration } from './agent-settings.ts';
import { type KubeletField, kubeletFields } from './kubelet-configuration.ts';
import { servedConfiguration } from './node-serving.ts';

const machine = { nodeName: 'here', rootDirectory: '/var/lib/mountlet' };
const head = 'apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n';

function read(text: string): { settings: ReturnType<typeof agentSettings>; unused: readonly string[] } {
  const unused: string[] = [];
  const given = readAgentConfiguration('/etc/kubernetes/kubelet.yaml', `${head}${text}`, (fields) => {
    unused.push(...fields);
  });
  return { settings: agentSettings(given, machine), unused };
}

/** As kubeadm writes it for a node: zero durations are defaults, and so are zero buffers. */
const kubeadm = `
authentication:
  anonymous:
    enabled: false
  webhook:
    cacheTTL: 0s
    enabled: true
  x509:
    clientCAFile: /etc/kubernetes/pki/ca.crt
authorization:
  mode: Webhook
  webhook:
    cacheAuthorizedTTL: 0s
    cacheUnauthorizedTTL: 0s
cgroupDriver: systemd
clusterDNS:
- 10.96.0.10
clusterDomain: cluster.local
containerRuntimeEndpoint: unix:///var/run/containerd/containerd.sock
cpuManagerReconcilePeriod: 0s
crashLoopBackOff: {}
evictionPressureTransitionPeriod: 0s
fileCheckFrequency: 0s
healthzBindAddress: 127.0.0.1
healthzPort: 10248
httpCheckFrequency: 0s
imageMaximumGCAge: 0s
imageMinimumGCAge: 0s
logging:
  flushFrequency: 0
  options:
    json:
      infoBufferSize: "0"
    text:
      infoBufferSize: "0"
  verbosity: 0
memorySwap: {}
nodeStatusReportFrequency: 0s
nodeStatusUpdateFrequency: 0s
resolvConf: /run/systemd/resolve/resolv.conf
rotateCertificates: true
runtimeRequestTimeout: 0s
shutdownGracePeriod: 0s
shutdownGracePeriodCriticalPods: 0s
staticPodPath: /etc/kubernetes/manifests
streamingConnectionIdleTimeout: 0s
syncFrequency: 0s
volumeStatsAggPeriod: 0s
`;

test('a file as kubeadm writes it is read; only what it asks for beyond the defaults is named', () => {
  const { settings, unused } = read(kubeadm);
  assert.deepEqual(unused, ['rotateCertificates: credentials are taken from the kubeconfig as they are']);
  const { runtime, containerRuntimeEndpoint, cgroupDriver, clusterDns, resolvConf, manifestsDirectory } = settings;
  assert.deepEqual(
    { runtime, containerRuntimeEndpoint, cgroupDriver, clusterDns, resolvConf, manifestsDirectory },
    {
      runtime: 'cri',
      containerRuntimeEndpoint: 'unix:///var/run/containerd/containerd.sock',
      cgroupDriver: 'systemd',
      clusterDns: ['10.96.0.10'],
      resolvConf: '/run/systemd/resolve/resolv.conf',
      manifestsDirectory: '/etc/kubernetes/manifests',
    },
  );
  assert.equal(settings.serving.clientAuthorityFile, '/etc/kubernetes/pki/ca.crt');
  assert.deepEqual(settings.serving.health, { host: '127.0.0.1', port: 10_248 });
  const { syncMs, fileCheckMs, nodeStatusReportMs } = settings;
  assert.deepEqual([syncMs, fileCheckMs, nodeStatusReportMs], [60_000, 20_000, 300_000]);
});

const honoured: readonly { readonly text: string; readonly has: object }[] = [
  { text: 'syncFrequency: 30s', has: { syncMs: 30_000 } },
  { text: 'staticPodPath: manifests', has: { manifestsDirectory: '/etc/kubernetes/manifests' } },
  { text: 'configMapAndSecretChangeDetectionStrategy: Cache', has: { strategy: 'Cache' } },
  { text: 'nodeStatusUpdateFrequency: 20s', has: { nodeStatusUpdateMs: 20_000, nodeStatusReportMs: 20_000 } },
  { text: 'podPidsLimit: 100', has: { podPidsMax: 100 } },
  { text: 'podPidsLimit: -1', has: { podPidsMax: undefined } },
  { text: 'eventRecordQPS: 0', has: { eventsPerSecond: Infinity } },
  { text: 'registryPullQPS: 0', has: { pullsPerSecond: Infinity } },
  { text: 'serializeImagePulls: false\nmaxParallelImagePulls: 4', has: { pullsAtOnceMax: 4 } },
  { text: 'podLogsDir: /var/log/pods', has: { logsDirectory: '/var/log/pods' } },
  { text: 'registerWithTaints: []', has: { taints: [] } },
  { text: 'registerNode: false', has: { registersNode: false } },
  { text: 'crashLoopBackOff: {maxContainerRestartPeriod: 5s}', has: { restartBackOffMsMax: 5_000 } },
  { text: '', has: { failsOnCgroupV1: false, taints: undefined, runtime: 'process' } },
  { text: 'containerLogMaxSize: 5Mi', has: { logBytesMax: 5 * 1024 * 1024 } },
  { text: 'containerLogMaxSize: "-1"', has: { logBytesMax: Number.MAX_SAFE_INTEGER } },
  { text: 'failCgroupV1: true', has: { failsOnCgroupV1: true } },
];
for (const { text, has } of honoured) {
  test(`of a kubelet's file, ${JSON.stringify(text)} is honoured`, () => {
    const { settings, unused } = read(text);
    const found = Object.fromEntries(Object.keys(has).map((key) => [key, settings[key as keyof typeof settings]]));
    assert.deepEqual([found, unused], [has, []]);
  });
}

test('who may ask the node, and how the connection is protected, is as in the file', () => {
  const { settings, unused } = read(
    'authentication: {anonymous: {enabled: true}, webhook: {enabled: false}}\nauthorization: {mode: AlwaysAllow}\n' +
      'tlsMinVersion: VersionTLS13\ntlsCertFile: tls.crt\ntlsPrivateKeyFile: tls.key\nstreamingConnectionIdleTimeout: 1h\n' +
      'tlsCipherSuites: [TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256, TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256, TLS_AES_128_GCM_SHA256]',
  );
  assert.deepEqual(unused, []);
  const newest = 'TLS_AES_128_GCM_SHA256:TLS_AES_256_GCM_SHA384:TLS_CHACHA20_POLY1305_SHA256';
  assert.deepEqual(settings.serving, {
    isEnabled: true,
    certificate: { file: '/etc/kubernetes/tls.crt', keyFile: '/etc/kubernetes/tls.key' },
    requestsCertificate: false,
    minVersion: 'TLSv1.3',
    ciphers: `${newest}:ECDHE-RSA-AES128-GCM-SHA256:ECDHE-ECDSA-CHACHA20-POLY1305`,
    clientAuthorityFile: undefined,
    reviewsTokens: false,
    allowsAnonymous: true,
    allowsAll: true,
    streamIdleMs: 3_600_000,
    health: undefined,
  });
});

const refused: readonly { readonly text: string; readonly says: RegExp }[] = [
  {
    text: 'maxpods: 1\nauthentication: {oidc: {}}',
    says: /: strict decoding error: unknown field "maxpods", unknown field "authentication.oidc"$/,
  },
  { text: 'maxPods: 1\nmaxPods: 2', says: /kubelet.yaml: line 4: Map keys must be unique/ },
  { text: 'maxPods: many', says: /: maxPods: expected / },
  { text: 'authorization: {mode: ABAC}', says: /authorization\.mode: "ABAC" must be one of Webhook, AlwaysAllow/ },
  { text: 'tlsMinVersion: VersionTLS9', says: /tlsMinVersion: / },
  { text: 'tlsCipherSuites: [TLS_RSA_WITH_RC4_128_SHA]', says: /tlsCipherSuites\[0\]: .* is not known/ },
  { text: 'tlsCertFile: /a', says: /tlsCertFile: "\/a" needs tlsPrivateKeyFile/ },
  { text: 'crashLoopBackOff: {maxContainerRestartPeriod: 10m}', says: /must be between 1s and 300s/ },
  { text: 'syncFrequency: often', says: /syncFrequency: "often" must be a duration/ },
  { text: 'healthzPort: 70000', says: /healthzPort: 70000 must be between 0 and 65535/ },
  { text: 'healthzBindAddress: here', says: /healthzBindAddress: "here" must be / },
  { text: 'containerLogMaxSize: much', says: /containerLogMaxSize: "much" must be a quantity above zero/ },
  { text: 'imageGCHighThresholdPercent: 70', says: /imageGCLowThresholdPercent: 80 must be less than/ },
];
for (const { text, says } of refused) {
  test(`a kubelet's file with ${JSON.stringify(text)} is refused`, () => {
    assert.throws(() => read(text), { reason: 'InvalidSettings', message: says });
  });
}

test('what has no effect is named with its reason, and what asks for what happens here is not', () => {
  const { unused } = read(
    'readOnlyPort: 10255\nfailSwapOn: false\nmemoryManagerPolicy: Static\ncpuCFSQuotaPeriod: 0.1s\n' +
      'featureGates: {SidecarContainers: true, NodeSwap: true}\nlogging: {verbosity: 4}\nsystemReserved: {cpu: "0"}',
  );
  assert.deepEqual(
    unused.map((text) => text.slice(0, text.indexOf(':'))),
    ['readOnlyPort', 'memoryManagerPolicy', 'featureGates.NodeSwap', 'logging.verbosity'],
  );
});

test("the kubelet's own defaults are named where nothing here does them", () => {
  const { unused } = read(
    'authentication: {webhook: {cacheTTL: 2m0s}}\nauthorization: {webhook: {cacheAuthorizedTTL: 5m, cacheUnauthorizedTTL: 30s}}\n' +
      'oomScoreAdj: -999\nhairpinMode: promiscuous-bridge\nmaxOpenFiles: 1000000\nmakeIPTablesUtilChains: true\n' +
      'iptablesMasqueradeBit: 14\niptablesDropBit: 15\nenforceNodeAllocatable: [pods]\nmemorySwap: {swapBehavior: NoSwap}',
  );
  assert.deepEqual(
    unused.map((text) => text.slice(0, text.indexOf(':'))),
    [
      'authentication.webhook.cacheTTL',
      'authorization.webhook.cacheAuthorizedTTL',
      'authorization.webhook.cacheUnauthorizedTTL',
      'oomScoreAdj',
      'hairpinMode',
      'maxOpenFiles',
      'makeIPTablesUtilChains',
      'iptablesMasqueradeBit',
      'iptablesDropBit',
      'enforceNodeAllocatable',
    ],
  );
  assert.deepEqual(read('enforceNodeAllocatable: [none]\nhealthzPort: 0').unused, []);
});

const shownCases = [
  { it: 'no file', text: '', images: undefined },
  { it: 'the file of kubeadm', text: kubeadm, images: {} as RuntimeImages },
  {
    it: 'a file with thresholds',
    text: 'evictionHard: {nodefs.available: 12.5%, imagefs.available: 2Gi}\nhealthzPort: 0',
    images: {} as RuntimeImages,
  },
];
for (const { it, text, images } of shownCases) {
  test(`what is in force with ${it} is shown as a file that means the same`, () => {
    const { settings } = read(text);
    const { kubeletconfig } = servedConfiguration(settings, { images });
    const again = read(stringify(kubeletconfig).replace(/^(apiVersion|kind): .*\n/gm, ''));
    const isSame = (name: keyof AgentSettings): boolean => isDeepStrictEqual(again.settings[name], settings[name]);
    const differing = (Object.keys(settings) as (keyof AgentSettings)[]).filter((name) => !isSame(name));
    // Chosen and defaulted before that, as it is shown.
    const chosen = new Set(['given', 'runtime', 'eviction', 'logsDirectory']);
    assert.deepEqual([differing.filter((name) => !chosen.has(name)), again.unused], [[], []], stringify(kubeletconfig));
  });
}

test('thresholds are shown that hold, and no others', () => {
  const shown = (text: string, images: RuntimeImages | undefined): unknown =>
    servedConfiguration(read(text).settings, { images }).kubeletconfig['evictionHard'];
  const ofImages = {} as RuntimeImages;
  assert.deepEqual(shown('', undefined), {});
  assert.deepEqual(shown('', ofImages), {
    'nodefs.available': '10%',
    'nodefs.inodesFree': '5%',
    'imagefs.available': '15%',
    'imagefs.inodesFree': '5%',
  });
  const given = 'evictionHard: {nodefs.available: 12.5%, imagefs.available: 2Gi, memory.available: 1Gi}';
  assert.deepEqual(shown(given, ofImages), { 'nodefs.available': '12.5%', 'imagefs.available': '2Gi' });
});

/** The fields of the kubelet's type, in its order. */
const upstream =
  'enableServer staticPodPath podLogsDir syncFrequency fileCheckFrequency httpCheckFrequency staticPodURL staticPodURLHeader ' +
  'address port readOnlyPort tlsCertFile tlsPrivateKeyFile tlsCipherSuites tlsCurvePreferences tlsMinVersion rotateCertificates ' +
  'serverTLSBootstrap authentication authorization registryPullQPS registryBurst imagePullCredentialsVerificationPolicy ' +
  'preloadedImagesVerificationAllowlist eventRecordQPS eventBurst enableDebuggingHandlers enableContentionProfiling healthzPort ' +
  'healthzBindAddress oomScoreAdj clusterDomain clusterDNS streamingConnectionIdleTimeout nodeStatusUpdateFrequency ' +
  'nodeStatusReportFrequency nodeLeaseDurationSeconds imageMinimumGCAge imageMaximumGCAge imageGCHighThresholdPercent ' +
  'imageGCLowThresholdPercent volumeStatsAggPeriod kubeletCgroups systemCgroups cgroupRoot cgroupsPerQOS cgroupDriver ' +
  'cpuManagerPolicy singleProcessOOMKill cpuManagerPolicyOptions cpuManagerReconcilePeriod memoryManagerPolicy ' +
  'topologyManagerPolicy topologyManagerScope topologyManagerPolicyOptions qosReserved runtimeRequestTimeout hairpinMode maxPods ' +
  'podCIDR podPidsLimit resolvConf runOnce cpuCFSQuota cpuCFSQuotaPeriod nodeStatusMaxImages maxOpenFiles contentType kubeAPIQPS ' +
  'kubeAPIBurst serializeImagePulls maxParallelImagePulls evictionHard evictionSoft evictionSoftGracePeriod ' +
  'evictionPressureTransitionPeriod evictionMaxPodGracePeriod evictionMinimumReclaim mergeDefaultEvictionSettings podsPerCore ' +
  'enableControllerAttachDetach protectKernelDefaults makeIPTablesUtilChains iptablesMasqueradeBit iptablesDropBit featureGates ' +
  'failSwapOn memorySwap containerLogMaxSize containerLogMaxFiles containerLogMaxWorkers containerLogMonitorInterval ' +
  'configMapAndSecretChangeDetectionStrategy systemReserved kubeReserved reservedSystemCPUs showHiddenMetricsForVersion ' +
  'systemReservedCgroup kubeReservedCgroup enforceNodeAllocatable allowedUnsafeSysctls defaultPodSysctls volumePluginDir providerID ' +
  'kernelMemcgNotification logging enableSystemLogHandler enableSystemLogQuery shutdownGracePeriod shutdownGracePeriodCriticalPods ' +
  'shutdownGracePeriodByPodPriority crashLoopBackOff reservedMemory enableProfilingHandler enableDebugFlagsHandler seccompDefault ' +
  'memoryThrottlingFactor memoryReservationPolicy registerWithTaints registerNode tracing localStorageCapacityIsolation ' +
  'containerRuntimeEndpoint imageServiceEndpoint failCgroupV1 userNamespaces';

test('the table has every field of the kubelet and no other', () => {
  const names = [...new Set(Object.keys(kubeletFields).map((name) => name.split('.')[0]))];
  assert.deepEqual(names, upstream.split(' '));
});

test('the page about the file says of every field what the table says', () => {
  const page = readFileSync(new URL('../../../../docs/kubelet-configuration.md', import.meta.url), 'utf8');
  const rows = Object.entries(kubeletFields).map(
    ([name, field]) => `| \`${name}\` | ${shownDefault(field)} | ${effect(field)} |`,
  );
  assert.equal(
    page.slice(page.indexOf('| field |')).trim(),
    ['| field | default | here |', '|---|---|---|', ...rows].join('\n'),
  );
});

function shownDefault({ default: value }: KubeletField): string {
  return value === undefined || value === '' ? '' : `\`${typeof value === 'string' ? value : JSON.stringify(value)}\``;
}

function effect({ without, note }: KubeletField): string {
  if (without !== undefined) return `without effect: ${without.why}`;
  return note === '' ? 'honoured' : `honoured; ${note}`;
}
