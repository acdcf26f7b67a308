import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { containerNamed } from '../../kube/kinds/pod/pod-spec.ts';
import type { Pod } from '../../kube/kinds/pod/pod.ts';
import type { ContainerState, RuntimeContainer, RuntimePod } from '../../runtimes/runtime.ts';
import { type PodParts, aContainer, aPod } from '../../testing/fakes/builders.ts';
import { type ContainerPlan, type ProbeVerdicts, planContainers } from './plan-containers.ts';
import { containerHash, hashAnnotation, newestInSandbox } from './runtime-containers.ts';

/** `a running`, `a exited 1`, `a created`, `a old` (from before the pod's shared part was made), newest first. */
function aRuntimePod(pod: Pod, text: string, state: RuntimePod['state'] = 'ready'): RuntimePod {
  const containers = text === '' ? [] : text.split(', ').map((one, index) => aRuntimeContainer(pod, one, index));
  return { uid: 'u', namespace: 'shop', name: 'web', state, createdAtMs: 100, ips: [], containers };
}

function aRuntimeContainer(pod: Pod, text: string, index: number): RuntimeContainer {
  const [name = '', kind, code] = text.split(' ');
  const spec = containerNamed(pod, name) ?? aContainer({ name });
  const state: ContainerState =
    kind === 'running'
      ? { kind, createdAtMs: 200, startedAtMs: 200, pid: 1 }
      : kind === 'created' || kind === 'unknown'
        ? { kind, createdAtMs: 200 }
        : {
            kind: 'exited',
            createdAtMs: kind === 'old' ? 50 : 200,
            startedAtMs: 200,
            finishedAtMs: 300,
            exitCode: Number(code ?? 0),
            reason: kind === 'oom' ? 'OOMKilled' : '',
            message: '',
          };
  const hash = code === 'changed' ? 'other' : containerHash(spec);
  return {
    id: `${name}-${index}`,
    name,
    attempt: 0,
    image: '',
    imageId: '',
    state,
    logPath: '',
    labels: {},
    annotations: { [hashAnnotation]: hash },
  };
}

test('what a container belongs to is told by its sandbox, where the runtime says it, and not by the clock', () => {
  const pod = aPod({ initContainers: [aContainer({ name: 'prepare' })] });
  const found = aRuntimePod(pod, 'main old, prepare old, prepare exited');
  const containers = found.containers.map((one, index) => ({ ...one, sandboxId: index < 2 ? 'new' : 'before' }));
  const names = (sandboxId: string): readonly (string | undefined)[] =>
    ['main', 'prepare'].map((name) => newestInSandbox({ ...found, sandboxId, containers }, name)?.id);
  assert.deepEqual(names('new'), ['main-0', 'prepare-1']);
  assert.deepEqual(names('before'), [undefined, 'prepare-2']);
});

function show({ killPod, createSandbox, reset, kill, startInit, startEphemeral, start }: ContainerPlan): string {
  return [
    killPod ? 'killPod' : '',
    createSandbox ? 'createSandbox' : '',
    ...reset.map((id) => `reset ${id}`),
    ...kill.map(({ name, reason }) => `kill ${name} (${reason})`),
    ...startInit.map((name) => `init ${name}`),
    ...startEphemeral.map((name) => `ephemeral ${name}`),
    ...start.map((name) => `start ${name}`),
  ]
    .filter((word) => word !== '')
    .join(', ');
}

const named = (...names: string[]): Pod['spec']['containers'] => names.map((name) => aContainer({ name }));
const sidecar = (name: string, parts: object = {}): Pod['spec']['containers'][number] =>
  aContainer({ name, restartPolicy: 'Always', ...parts });
const two: PodParts = { containers: named('a', 'b') };
const withInit: PodParts = { initContainers: named('i', 'j'), containers: named('a') };
const probe = { exec: { command: ['true'] } };
const withSidecar: PodParts = {
  initContainers: [sidecar('s', { startupProbe: probe, livenessProbe: probe }), aContainer({ name: 'j' })],
  containers: named('a'),
};

const restartAll: PodParts = {
  restartPolicy: 'Never',
  initContainers: named('i'),
  containers: [
    aContainer({
      name: 'a',
      restartPolicy: 'Never',
      restartPolicyRules: [{ action: 'RestartAllContainers', exitCodes: { operator: 'In', values: [42] } }],
    }),
    aContainer({ name: 'b' }),
  ],
};

const cases: readonly {
  it: string;
  pod: PodParts;
  has?: string;
  state?: RuntimePod['state'];
  probes?: Record<string, boolean>;
  plan: string;
}[] = [
  { it: 'makes everything for a new pod', pod: two, plan: 'killPod, createSandbox, start a, start b' },
  { it: 'begins with the first init container', pod: withInit, plan: 'killPod, createSandbox, init i' },
  { it: 'does nothing for a pod that runs', pod: two, has: 'a running, b running', plan: '' },
  { it: 'starts what is missing', pod: two, has: 'a running', plan: 'start b' },
  { it: 'starts again what ended', pod: two, has: 'a running, b exited 0', plan: 'start b' },
  { it: 'starts again what was made and never started', pod: two, has: 'a running, b created', plan: 'start b' },
  {
    it: 'leaves what succeeded under OnFailure',
    pod: { ...two, restartPolicy: 'OnFailure' },
    has: 'a running, b exited 0',
    plan: '',
  },
  {
    it: 'starts again what failed under OnFailure',
    pod: { ...two, restartPolicy: 'OnFailure' },
    has: 'a exited 0, b exited 3',
    plan: 'start b',
  },
  {
    it: 'ends a pod of which all containers are done',
    pod: { ...two, restartPolicy: 'Never' },
    has: 'a exited 0, b exited 3',
    plan: 'killPod',
  },
  {
    it: 'heeds a rule of the container before the policy of the pod',
    pod: {
      restartPolicy: 'Never',
      containers: [
        aContainer({
          name: 'a',
          restartPolicy: 'Never',
          restartPolicyRules: [{ action: 'Restart', exitCodes: { operator: 'In', values: [42] } }],
        }),
      ],
    },
    has: 'a exited 42',
    plan: 'start a',
  },
  {
    it: 'ends a container that the runtime lost track of before it starts another',
    pod: two,
    has: 'a unknown, b running',
    plan: 'kill a (unknown), start a',
  },
  {
    it: 'does the same for an init container and a sidecar',
    pod: { initContainers: [sidecar('s'), aContainer({ name: 'i' })], containers: named('a') },
    has: 's unknown, i unknown',
    plan: 'kill s (unknown), kill i (unknown), init s, init i',
  },
  {
    it: 'ends a pod whose init container is lost and must not run twice',
    pod: { ...withInit, restartPolicy: 'Never' },
    has: 'i unknown',
    plan: 'killPod',
  },
  {
    it: 'runs an init container again that lost a process for want of memory',
    pod: withInit,
    has: 'i oom 0',
    plan: 'init i',
  },
  {
    it: 'ends a pod whose init container may not run again and lost a process for want of memory',
    pod: { ...withInit, restartPolicy: 'OnFailure' },
    has: 'i oom 0',
    plan: 'killPod',
  },
  {
    it: 'starts all over when a container wants so, and removes that one last',
    pod: restartAll,
    has: 'a exited 42, b running, i exited 0, a exited 1',
    plan: 'reset a-3, reset b-1, reset i-2, reset a-0',
  },
  {
    it: 'does not start all over for another exit code',
    pod: restartAll,
    has: 'a exited 1, b running, i exited 0',
    plan: '',
  },
  {
    it: 'starts from the first init container when all are gone',
    pod: restartAll,
    has: '',
    plan: 'init i',
  },
  {
    it: 'starts nothing of a pod that is being deleted',
    pod: { ...two, metadata: { deletionTimestamp: '2026-01-01T00:00:00Z' } },
    has: 'a running, b exited 1',
    plan: '',
  },
  {
    it: 'replaces a container whose image changed, whatever the policy',
    pod: { ...two, restartPolicy: 'Never' },
    has: 'a running changed, b running',
    plan: 'kill a (changed), start a',
  },
  {
    it: 'replaces a container whose liveness probe failed',
    pod: two,
    has: 'a running, b running',
    probes: { 'liveness a-0': false },
    plan: 'kill a (livenessProbe), start a',
  },
  {
    it: 'only ends it under Never',
    pod: { ...two, restartPolicy: 'Never' },
    has: 'a running, b running',
    probes: { 'startup a-0': false },
    plan: 'kill a (startupProbe)',
  },
  { it: 'waits for an init container', pod: withInit, has: 'i running', plan: '' },
  { it: 'goes on to the next init container', pod: withInit, has: 'i exited 0', plan: 'init j' },
  { it: 'repeats an init container that failed', pod: withInit, has: 'i exited 1', plan: 'init i' },
  {
    it: 'ends the pod when an init container failed under Never',
    pod: { ...withInit, restartPolicy: 'Never' },
    has: 'i exited 1',
    plan: 'killPod',
  },
  {
    it: 'starts the containers after the last init container',
    pod: withInit,
    has: 'j exited 0, i exited 0',
    plan: 'start a',
  },
  { it: 'relies on the last init container alone', pod: withInit, has: 'j exited 0', plan: 'start a' },
  {
    it: 'runs no init container again once a container was started',
    pod: withInit,
    has: 'a exited 1',
    plan: 'start a',
  },
  {
    it: 'runs init containers again in a new sandbox, though a container ran in the old one',
    pod: withInit,
    has: 'a old 1',
    plan: 'init i',
  },
  { it: 'waits for the startup of a sidecar', pod: withSidecar, has: 's running', plan: '' },
  {
    it: 'goes on when a sidecar is up',
    pod: withSidecar,
    has: 's running',
    probes: { 'startup s-0': true },
    plan: 'init j',
  },
  {
    it: 'restarts a sidecar whose startup probe failed',
    pod: withSidecar,
    has: 's running',
    probes: { 'startup s-0': false },
    plan: 'kill s (startupProbe), init s',
  },
  {
    it: 'restarts a sidecar that ended beside running containers',
    pod: withSidecar,
    has: 'a running, s exited 0',
    plan: 'init s',
  },
  {
    it: 'restarts a sidecar whose liveness probe failed',
    pod: withSidecar,
    has: 'a running, j exited 0, s running',
    probes: { 'startup s-2': true, 'liveness s-2': false },
    plan: 'kill s (livenessProbe), init s',
  },
  {
    it: 'is not kept alive by sidecars',
    pod: { ...withSidecar, restartPolicy: 'Never' },
    has: 'a exited 0, j exited 0, s running',
    probes: { 'startup s-2': true },
    plan: 'killPod',
  },
  {
    it: 'starts an ephemeral container once',
    pod: { ...withInit, ephemeralContainers: [{ name: 'debug' }] },
    has: 'i running',
    plan: 'ephemeral debug',
  },
  {
    it: 'never restarts an ephemeral container',
    pod: { ...two, ephemeralContainers: [{ name: 'debug' }] },
    has: 'debug exited 1, a running, b running',
    plan: '',
  },
  {
    it: 'makes the sandbox again that has gone',
    pod: two,
    has: 'a exited 255, b exited 255',
    state: 'notReady',
    plan: 'killPod, createSandbox, start a, start b',
  },
  {
    it: 'makes no sandbox for a pod that is done',
    pod: { ...two, restartPolicy: 'Never' },
    has: 'a exited 0, b exited 0',
    state: 'notReady',
    plan: 'killPod',
  },
  {
    it: 'makes no sandbox when all succeeded under OnFailure',
    pod: { ...two, restartPolicy: 'OnFailure' },
    has: 'a exited 0, b exited 0',
    state: 'notReady',
    plan: 'killPod',
  },
  {
    it: 'makes the sandbox again for what failed under OnFailure',
    pod: { ...two, restartPolicy: 'OnFailure' },
    has: 'a exited 0, b exited 1',
    state: 'notReady',
    plan: 'killPod, createSandbox, start b',
  },
];
for (const { it, pod: parts, has, state, probes = {}, plan } of cases) {
  test(`planContainers ${it}`, () => {
    const pod = aPod(parts);
    const verdicts: ProbeVerdicts = { get: (kind, id) => probes[`${kind} ${id}`] };
    assert.equal(
      show(planContainers(pod, has === undefined ? undefined : aRuntimePod(pod, has, state), verdicts)),
      plan,
    );
  });
}

test('planContainers says in its messages what will happen', () => {
  const pod = aPod({ containers: named('a') });
  const failed: ProbeVerdicts = { get: (kind) => kind !== 'liveness' };
  const [kill] = planContainers(pod, aRuntimePod(pod, 'a running'), failed).kill;
  assert.equal(kill?.message, 'Container a failed liveness probe, will be restarted');
});

/** Does to a model what the plan says: what is started runs. */
function carryOut(pod: Pod, runtimePod: RuntimePod | undefined, plan: ContainerPlan): RuntimePod | undefined {
  const killed = new Set(plan.kill.map(({ id }) => id));
  const end = (container: RuntimeContainer): RuntimeContainer =>
    container.state.kind === 'running' && (plan.killPod || killed.has(container.id))
      ? {
          ...container,
          state: { ...container.state, kind: 'exited', finishedAtMs: 300, exitCode: 137, reason: '', message: '' },
        }
      : container;
  const before = (runtimePod?.containers ?? []).map(end);
  if (plan.killPod && !plan.createSandbox)
    return runtimePod && { ...runtimePod, state: 'notReady', containers: before };
  const names = [...plan.startEphemeral, ...plan.startInit, ...plan.start];
  const started = names.map((name, index) => aRuntimeContainer(pod, `${name} running`, before.length + index));
  return { ...aRuntimePod(pod, ''), containers: [...started.toReversed(), ...before] };
}

const anyState = fc.constantFrom('running', 'created', 'exited 0', 'exited 1', 'running changed');
const anyPod = fc.record({
  restartPolicy: fc.constantFrom('Always', 'OnFailure', 'Never'),
  sidecars: fc.boolean(),
  states: fc.dictionary(fc.constantFrom('i', 's', 'a', 'b'), anyState),
});

test('planContainers carried out again and again comes to rest, with nothing running twice', () => {
  fc.assert(
    fc.property(anyPod, ({ restartPolicy, sidecars, states }) => {
      const pod = aPod({
        restartPolicy,
        initContainers: [aContainer({ name: 'i' }), ...(sidecars ? [sidecar('s')] : [])],
        containers: named('a', 'b'),
      });
      const has = Object.entries(states)
        .filter(([name]) => name !== 's' || sidecars)
        .map(([name, state]) => `${name} ${state}`);
      let runtimePod: RuntimePod | undefined = aRuntimePod(pod, has.join(', '));
      for (let round = 0; round < 8; round += 1) {
        const plan = planContainers(pod, runtimePod, { get: () => undefined });
        const shown = show(plan);
        if (shown === '' || shown === 'killPod') {
          // An init container that runs is waited for: it ends, and the pod goes on.
          const waiting: RuntimeContainer | undefined = runtimePod?.containers.find(
            ({ name, state }) => name === 'i' && state.kind === 'running',
          );
          if (shown === 'killPod' || waiting === undefined) return;
          runtimePod = runtimePod && {
            ...runtimePod,
            containers: runtimePod.containers.map((one): RuntimeContainer =>
              one === waiting ? aRuntimeContainer(pod, 'i exited 0', 90) : one,
            ),
          };
          continue;
        }
        runtimePod = carryOut(pod, runtimePod, plan);
        const running = (runtimePod?.containers ?? []).filter(({ state }) => state.kind === 'running');
        assert.equal(new Set(running.map(({ name }) => name)).size, running.length, 'nothing runs twice');
      }
      assert.fail('it never came to rest');
    }),
    { numRuns: 300 },
  );
});
