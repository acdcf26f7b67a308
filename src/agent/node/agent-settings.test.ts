import assert from 'node:assert/strict';
import { test } from 'node:test';
import {
  type AgentConfiguration,
  AgentSettingsError,
  agentSettings,
  readAgentConfiguration,
  requireSettings,
} from './agent-settings.ts';

const machine = { nodeName: 'here', rootDirectory: '/var/lib/mountlet' };
const head = 'apiVersion: mountlet.dev/v1alpha1\nkind: AgentConfiguration\n';

test("an agent without settings has the kubelet's", () => {
  const settings = agentSettings({}, machine);
  const { syncMs, strategy, port, podsMax, leaseSeconds, logBytesMax, requestsPerSecond } = settings;
  assert.deepEqual(
    { syncMs, strategy, port, podsMax, leaseSeconds, logBytesMax, requestsPerSecond },
    {
      syncMs: 60_000,
      strategy: 'Watch',
      port: 10_250,
      podsMax: 110,
      leaseSeconds: 40,
      logBytesMax: 10 * 1024 * 1024,
      requestsPerSecond: 50,
    },
  );
  assert.equal(settings.rootDirectory, '/var/lib/mountlet');
  assert.equal(settings.manifestsDirectory, undefined);
});

test('a configuration file is read with names that the kubelet has too', () => {
  const text = `${head}syncFrequency: 30s\nconfigMapAndSecretChangeDetectionStrategy: Cache\nstaticPodPath: /etc/pods\nsubPathUpdates: false\n`;
  const settings = agentSettings(readAgentConfiguration('agent.yaml', text), machine);
  assert.equal(settings.syncMs, 30_000);
  assert.equal(settings.strategy, 'Cache');
  assert.equal(settings.manifestsDirectory, '/etc/pods');
  assert.equal(settings.subPathUpdates, false);
});

test('with a container runtime logs are where the machine keeps them, unless the user says otherwise', () => {
  const given = { ...machine, containerLogs: '/var/log/pods' };
  const logsOf = (said: AgentConfiguration): string | undefined => agentSettings(said, given).logsDirectory;
  assert.equal(logsOf({}), undefined);
  assert.equal(logsOf({ runtime: 'auto' }), undefined);
  assert.equal(logsOf({ runtime: 'cri' }), '/var/log/pods');
  assert.equal(logsOf({ containerRuntimeEndpoint: 'unix:///run/c.sock' }), '/var/log/pods');
  assert.equal(logsOf({ runtime: 'cri', podLogsDir: '/logs' }), '/logs');
});

const pulls: readonly { readonly given: AgentConfiguration; readonly atOnce: number }[] = [
  { given: {}, atOnce: 1 },
  { given: { serializeImagePulls: false }, atOnce: Infinity },
  { given: { maxParallelImagePulls: 3 }, atOnce: 3 },
  { given: { maxParallelImagePulls: 1 }, atOnce: 1 },
  { given: { serializeImagePulls: false, maxParallelImagePulls: 1 }, atOnce: 1 },
];
for (const { given, atOnce } of pulls) {
  test(`with ${JSON.stringify(given)} images are pulled ${atOnce} at once`, () => {
    const { pullsAtOnceMax, pullsPerSecond, pullsBurst } = agentSettings(given, machine);
    assert.deepEqual(
      { pullsAtOnceMax, pullsPerSecond, pullsBurst },
      { pullsAtOnceMax: atOnce, pullsPerSecond: 5, pullsBurst: 10 },
    );
    assert.equal(agentSettings({ registryPullQPS: 0 }, machine).pullsPerSecond, Infinity);
  });
}

test('who names a container runtime uses it, unless another is asked for', () => {
  const endpoint = 'unix:///run/crio/crio.sock';
  assert.equal(agentSettings({}, machine).runtime, 'process');
  assert.equal(agentSettings({ containerRuntimeEndpoint: endpoint }, machine).runtime, 'cri');
  assert.equal(agentSettings({ containerRuntimeEndpoint: endpoint, runtime: 'auto' }, machine).runtime, 'auto');
});

test('an empty configuration file says nothing', () => {
  assert.deepEqual(readAgentConfiguration('agent.yaml', '# nothing yet\n'), {});
});

const badFiles = [
  { it: 'of another kind', text: 'kind: Pod\n', says: /agent\.yaml: it must have apiVersion: mountlet\.dev/ },
  {
    it: 'with an unknown field',
    text: `${head}syncFrequenzy: 1s\n`,
    says: /agent\.yaml: syncFrequenzy: unknown field/,
  },
  { it: 'with a wrong type', text: `${head}port: "1"\n`, says: /agent\.yaml: port: expected a whole number/ },
  { it: 'that is not YAML', text: `${head}a: [\n`, says: /agent\.yaml: line \d+: / },
  { it: 'of two documents', text: `${head}---\n${head}`, says: /more than one document/ },
];
for (const { it, text, says } of badFiles) {
  test(`a configuration file ${it} is refused with its name and the field`, () => {
    assert.throws(() => readAgentConfiguration('agent.yaml', text), { name: AgentSettingsError.name, message: says });
  });
}

const badValues: readonly { readonly given: AgentConfiguration; readonly says: RegExp }[] = [
  { given: { nodeName: 'Not A Name' }, says: /nodeName: "Not A Name" / },
  {
    given: {
      nodeLabels: { 'node-role.kubernetes.io/main': '', 'a.node-restriction.kubernetes.io/b': '', 'x.k8s.io/y': '' },
    },
    says: /^settings: unknown 'kubernetes\.io' or 'k8s\.io' labels specified with --node-labels: \[a\.node-restriction\.kubernetes\.io\/b node-role\.kubernetes\.io\/main x\.k8s\.io\/y\]\n--node-labels in the 'kubernetes\.io' namespace must begin with an allowed prefix \(kubelet\.kubernetes\.io, node\.kubernetes\.io\) or be in the specifically allowed set \(beta\.kubernetes\.io\/arch, .*, topology\.kubernetes\.io\/zone\)$/,
  },
  {
    given: { nodeLabels: { 'a/': '-' } },
    says: /^settings: invalid node labels: 'a\/' - name part must be .*; '-' - a valid label/,
  },
  { given: { rootDir: 'here' }, says: /rootDir: "here" must be an absolute path/ },
  { given: { port: 70_000 }, says: /port: 70000 must be between 0 and 65535/ },
  { given: { syncFrequency: '10' }, says: /syncFrequency: "10" must be a duration/ },
  { given: { syncFrequency: '-1s' }, says: /syncFrequency/ },
  { given: { configMapAndSecretChangeDetectionStrategy: 'watch' }, says: /must be one of Watch, Cache, Get/ },
  { given: { containerLogMaxSize: 'much' }, says: /containerLogMaxSize: "much" must be a quantity/ },
  {
    given: { allowedUnsafeSysctls: ['net.*', 'vm.swappiness'] },
    says: /: "vm.swappiness" is not known to be namespaced$/,
  },
  { given: { maxParallelImagePulls: 0 }, says: /maxParallelImagePulls: 0 must be between 1/ },
  {
    given: { serializeImagePulls: true, maxParallelImagePulls: 2 },
    says: /maxParallelImagePulls: 2 cannot be larger than 1 unless serializeImagePulls is false/,
  },
  { given: { registryPullQPS: -1 }, says: /registryPullQPS: -1 must be between 0/ },
  {
    given: { imageCredentialProviderConfig: '/a' },
    says: /imageCredentialProviderConfig: "\/a" needs imageCredentialProviderBinDir/,
  },
  { given: { kubeReserved: { gpu: '1' } }, says: /kubeReserved\.gpu: "1" cannot be reserved$/ },
  { given: { systemReserved: { cpu: '-1' } }, says: /systemReserved\.cpu: "-1" cannot be negative$/ },
  { given: { evictionHard: { 'disk.free': '1Gi' } }, says: /evictionHard: unsupported eviction signal disk\.free$/ },
  {
    given: { evictionPressureTransitionPeriod: '-1s' },
    says: /evictionPressureTransitionPeriod: "-1s" must be a duration/,
  },
  { given: { evictionMaxPodGracePeriod: -1 }, says: /evictionMaxPodGracePeriod: -1 must be between 0/ },
  { given: { imageGCHighThresholdPercent: 101 }, says: /imageGCHighThresholdPercent: 101 must be between 0 and 100/ },
  {
    given: { imageGCLowThresholdPercent: 85 },
    says: /imageGCLowThresholdPercent: 85 must be less than imageGCHighThresholdPercent 85$/,
  },
  { given: { imageMinimumGCAge: 'old' }, says: /imageMinimumGCAge: "old" must be a duration/ },
  { given: { imageMaximumGCAge: '1m' }, says: /imageMaximumGCAge: "1m" must be greater than imageMinimumGCAge$/ },
  { given: { registerWithTaints: [{ effect: 'Never' }] }, says: /registerWithTaints\[0\]\.key.*\n.*effect: "Never"/ },
];
for (const { given, says } of badValues) {
  test(`settings ${JSON.stringify(given)} are refused`, () => {
    assert.throws(() => agentSettings(given, machine), { name: AgentSettingsError.name, message: says });
  });
}

test('a node may have labels of its own, and of the reserved ones those that are for nodes to set', () => {
  const nodeLabels = { tier: 'front', 'topology.kubernetes.io/zone': 'a', 'pool.node.kubernetes.io/gpu': '1' };
  assert.deepEqual(agentSettings({ nodeLabels }, machine).nodeLabels, nodeLabels);
});

test('thresholds of images and disks are those of the kubelet', () => {
  const { imageCollection, eviction, localStorageCapacityIsolation, volumeStatsMs } = agentSettings({}, machine);
  assert.deepEqual(imageCollection, { highPercent: 85, lowPercent: 80, ageMsMin: 120_000, unusedMsMax: 0 });
  assert.deepEqual([eviction.transitionMs, eviction.podGraceSecondsMax, eviction.given], [300_000, 0, []]);
  assert.equal(eviction.defaults.length, 4);
  assert.deepEqual([localStorageCapacityIsolation, volumeStatsMs], [true, 60_000]);
});

test('all problems are reported at once', () => {
  const problem = /port: .*\nsettings: maxPods: /;
  assert.throws(() => agentSettings({ port: -1, maxPods: 0 }, machine), { message: problem });
});

test('from plain JavaScript: a setting of the wrong type is refused with its name', () => {
  const given = { port: '10250', nodeLabels: ['a'] } as unknown as Parameters<typeof agentSettings>[0];
  assert.throws(
    () => agentSettings(given, { nodeName: 'here', rootDirectory: '/var' }),
    /settings: port: .*\n?settings: nodeLabels: /,
  );
  assert.throws(() => requireSettings('startUp', { stateDirectory: 'state', port: '1' }), {
    message: 'startUp: stateDirectory: must be an absolute path\nstartUp: port: must be an integer',
  });
});
