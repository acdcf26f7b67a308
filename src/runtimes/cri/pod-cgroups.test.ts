import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdirSync, readFileSync, readdirSync, rmSync, rmdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { systemClock } from '../../base/clock.ts';
import { temporaryDirectory } from '../../testing/machine/temporary-directory.ts';
import { PodCgroups } from './pod-cgroups.ts';

const machine = '/sys/fs/cgroup';
const needsCgroups = ((): string | false => {
  const probe = join(machine, 'memory', `mountlet-probe-${process.pid}`);
  try {
    mkdirSync(probe);
    rmdirSync(probe);
    return false;
  } catch {
    return 'needs version 1 cgroups that it may change';
  }
})();

function groups(t: TestContext, directory = machine, version: 1 | 2 = 1): { cgroups: PodCgroups; problems: string[] } {
  const problems: string[] = [];
  const report = (problem: string): void => void problems.push(problem);
  const kill = (pid: number): void => void process.kill(pid, 'SIGKILL');
  const cgroups = new PodCgroups(
    { clock: systemClock, kill, report },
    { directory, driver: 'cgroupfs', version, podPidsMax: 200 },
  );
  t.after(async () => await cgroups.remove(uidOf(t), AbortSignal.timeout(60_000)));
  return { cgroups, problems };
}

const uidOf = (t: TestContext): string => `test-${process.pid}-${t.name.length}`;
const read = (...path: string[]): string => readFileSync(join(machine, ...path), 'utf8').trim();
const resources = { cpuMilliRequested: 100, cpuMilliMax: 200, memoryBytesMax: 64 * 1024 * 1024 };

test('a burstable pod has a group with its limits in every hierarchy', { skip: needsCgroups }, async (t) => {
  const { cgroups, problems } = groups(t);
  const uid = uidOf(t);
  await cgroups.make({ uid, qosClass: 'Burstable', resources });
  await cgroups.make({ uid, qosClass: 'Burstable', resources });
  assert.deepEqual(problems, []);
  const group = `kubepods/burstable/pod${uid}`;
  for (const name of readdirSync(machine)) assert.ok(existsSync(join(machine, name, group)), name);
  assert.equal(read('cpu', group, 'cpu.shares'), '102');
  assert.equal(read('cpu', group, 'cpu.cfs_quota_us'), '20000');
  assert.equal(read('memory', group, 'memory.limit_in_bytes'), String(64 * 1024 * 1024));
  assert.equal(read('pids', group, 'pids.max'), '200');
  assert.equal(read('cpuset', group, 'cpuset.cpus'), read('cpuset', 'cpuset.cpus'));
  assert.ok(Number(read('cpu/kubepods/burstable/cpu.shares')) >= 102);
});

test('what still runs in a group is killed when the pod goes', { skip: needsCgroups }, async (t) => {
  const { cgroups } = groups(t);
  const uid = uidOf(t);
  await cgroups.make({ uid, qosClass: 'BestEffort', resources: {} });
  const group = join(machine, 'memory/kubepods/besteffort', `pod${uid}`);
  assert.equal(readFileSync(join(machine, 'cpu/kubepods/besteffort', `pod${uid}`, 'cpu.shares'), 'utf8'), '2\n');
  assert.equal(read('cpu/kubepods/besteffort/cpu.shares'), '2');
  mkdirSync(join(group, 'left-over'));
  const left = spawn('sleep', ['1000']);
  writeFileSync(join(group, 'left-over', 'cgroup.procs'), String(left.pid));
  const exited = once(left, 'exit');
  await cgroups.remove(uid, AbortSignal.timeout(60_000));
  assert.deepEqual(await exited, [null, 'SIGKILL']);
  for (const name of readdirSync(machine)) {
    assert.ok(!existsSync(join(machine, name, 'kubepods/besteffort', `pod${uid}`)), name);
  }
});

test('a guaranteed pod is directly below all pods', { skip: needsCgroups }, async (t) => {
  const { cgroups } = groups(t);
  await cgroups.make({ uid: uidOf(t), qosClass: 'Guaranteed', resources });
  assert.ok(existsSync(join(machine, 'memory/kubepods', `pod${uidOf(t)}`)));
});

test('a program that may make no groups says so once and goes on without', async (t) => {
  const { cgroups, problems } = groups(t, '/sys/kernel', 2);
  await cgroups.make({ uid: 'a', qosClass: 'Burstable', resources });
  await cgroups.make({ uid: 'b', qosClass: 'Burstable', resources });
  assert.equal(cgroups.driver, 'none');
  assert.equal(problems.length, 1);
  assert.match(problems[0] ?? '', /^Cannot make the cgroup "\/kubepods\/burstable\/poda", so pods run without limits/);
});

test('a group that cannot be made fails its pod, and no other', async (t) => {
  const root = temporaryDirectory(t);
  const { cgroups, problems } = groups(t, root, 2);
  writeFileSync(join(root, 'kubepods'), 'in the way');
  const pod = { uid: uidOf(t), qosClass: 'Burstable', resources } as const;
  await assert.rejects(cgroups.make(pod), { name: 'RuntimeError', reason: 'PodGroupFailed' });
  assert.equal(cgroups.driver, 'cgroupfs');
  rmSync(join(root, 'kubepods'));
  await cgroups.make(pod);
  assert.ok(existsSync(join(root, 'kubepods/burstable', `pod${pod.uid}`)));
  assert.deepEqual(problems, []);
});

test('version 2: controllers that cannot be handed down do not keep a pod from running', async (t) => {
  const root = temporaryDirectory(t);
  writeFileSync(join(root, 'cgroup.controllers'), 'cpu memory\n');
  mkdirSync(join(root, 'cgroup.subtree_control')); // nobody can write to it
  const { cgroups, problems } = groups(t, root, 2);
  await cgroups.make({ uid: 'u', qosClass: 'BestEffort', resources: {} });
  assert.ok(existsSync(join(root, 'kubepods/besteffort/podu')));
  assert.deepEqual(problems, []);
});

test('version 2: controllers are handed down and limits are in its files', async (t) => {
  const root = temporaryDirectory(t);
  const at = (path: string): string => join(root, path);
  for (const path of ['.', 'kubepods', 'kubepods/burstable', 'kubepods/burstable/podu']) {
    mkdirSync(at(path), { recursive: true });
    writeFileSync(at(`${path}/cgroup.controllers`), 'cpu memory pids\n');
    writeFileSync(at(`${path}/cgroup.subtree_control`), path === '.' ? 'cpu\n' : '');
    for (const file of ['cpu.weight', 'cpu.max', 'memory.max', 'pids.max']) writeFileSync(at(`${path}/${file}`), '');
  }
  const { cgroups, problems } = groups(t, root, 2);
  await cgroups.make({ uid: 'u', qosClass: 'Burstable', resources });
  assert.deepEqual(problems, []);
  const text = (path: string): string => readFileSync(at(path), 'utf8');
  assert.equal(text('cgroup.subtree_control'), '+memory +pids');
  assert.equal(text('kubepods/burstable/cgroup.subtree_control'), '+cpu +memory +pids');
  assert.equal(text('kubepods/burstable/podu/cgroup.subtree_control'), '');
  assert.equal(text('kubepods/burstable/cpu.weight'), '4', 'as much as its pods together');
  assert.equal(text('kubepods/burstable/podu/cpu.weight'), '4');
  assert.equal(text('kubepods/burstable/podu/cpu.max'), '20000 100000');
  assert.equal(text('kubepods/burstable/podu/memory.max'), String(64 * 1024 * 1024));
  assert.equal(text('kubepods/burstable/podu/pids.max'), '200');
});
