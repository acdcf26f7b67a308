import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { RuntimePod } from '../../runtimes/runtime.ts';
import { aPod } from '../../testing/fakes/builders.ts';
import { RecordedEvents } from '../../testing/fakes/memory-pod-api.ts';
import { readEnvironmentObjects } from '../containers/runtime-containers.ts';
import { StaleEnvironment } from './stale-environment.ts';

const uid = aPod().metadata.uid ?? '';

function runningWith(label: string, kind: 'running' | 'created' = 'running'): RuntimePod {
  const state =
    kind === 'running' ? ({ kind, createdAtMs: 0, startedAtMs: 0, pid: 1 } as const) : { kind, createdAtMs: 0 };
  const annotations = { 'mountlet.dev/environment-objects': label };
  const container = {
    id: 'c1',
    name: 'main',
    attempt: 0,
    image: '',
    imageId: '',
    logPath: '',
    labels: {},
    annotations,
    state,
  };
  return { uid, namespace: 'shop', name: 'web', state: 'ready', createdAtMs: 0, ips: [], containers: [container] };
}

const used = runningWith('[["Secret","s","5"]]');
const cases: readonly { it: string; runtimePod?: RuntimePod; version?: string | null; shows: string | undefined }[] = [
  { it: 'is not known before the object was looked at', shows: undefined },
  { it: 'is current at the version it was started with', version: '5', shows: 'True' },
  { it: 'is current at an older version, of which only the news is late', version: '4', shows: 'True' },
  {
    it: 'is stale at a newer version',
    version: '10',
    shows: 'False container main has variables from Secret "s", which has changed since the container started',
  },
  {
    it: 'is stale at a version that is not a number',
    version: 'abc',
    shows: 'False container main has variables from Secret "s", which has changed since the container started',
  },
  {
    it: 'is stale when the object is gone',
    version: null,
    shows: 'False container main has variables from Secret "s", which was deleted since the container started',
  },
  {
    it: 'does not count before the container runs',
    runtimePod: runningWith('[["Secret","s","5"]]', 'created'),
    version: '9',
    shows: undefined,
  },
  { it: 'is nothing without variables from objects', runtimePod: runningWith('[]'), version: '9', shows: undefined },
];
for (const { it, runtimePod = used, version, shows } of cases) {
  test(`the environment of a container ${it}`, () => {
    const environment = new StaleEnvironment(new RecordedEvents());
    environment.condition(aPod(), runtimePod, undefined);
    if (version !== undefined) environment.objectChanged('Secret', 'shop', 's', version ?? undefined);
    const { status, message } = environment.condition(aPod(), runtimePod, undefined) ?? {};
    assert.equal(
      status === undefined ? undefined : [status, message].filter((part) => part !== undefined).join(' '),
      shows,
    );
  });
}

test('StaleEnvironment reports each version once, and forgets what no pod uses', () => {
  const events = new RecordedEvents();
  const environment = new StaleEnvironment(events);
  environment.condition(aPod(), used, undefined);
  assert.deepEqual(environment.objectChanged('Secret', 'shop', 's', '6'), [uid]);
  assert.deepEqual(environment.objectChanged('Secret', 'shop', 's', '6'), [], 'nothing new');
  assert.deepEqual(environment.objectChanged('Secret', 'bank', 's', '6'), [], 'of another namespace');
  for (let times = 0; times < 3; times += 1) environment.condition(aPod(), used, undefined);
  assert.equal(events.lines().length, 1);
  environment.objectChanged('Secret', 'shop', 's', '7');
  environment.condition(aPod(), used, undefined);
  assert.equal(events.lines().length, 2);
  environment.forgetPod(uid);
  assert.deepEqual(environment.objectChanged('Secret', 'shop', 's', '8'), []);
});

const labels = ['', '{', '{}', '[1]', '[["Pod","a","1"]]', '[["Secret",1,"1"]]', '[["Secret","a"]]', 'null'];
for (const label of labels) {
  test(`a label that says ${label || 'nothing'} names no object`, () => {
    assert.deepEqual(readEnvironmentObjects({ 'mountlet.dev/environment-objects': label }), []);
  });
}
