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
  { given: { registerWithTaints: [{ effect: 'Never' }] }, says: /registerWithTaints\[0\]\.key.*\n.*effect: "Never"/ },
];
for (const { given, says } of badValues) {
  test(`settings ${JSON.stringify(given)} are refused`, () => {
    assert.throws(() => agentSettings(given, machine), { name: AgentSettingsError.name, message: says });
  });
}

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
