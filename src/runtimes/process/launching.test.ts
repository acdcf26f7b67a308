/** The pure parts around a launch: identities, capabilities, control groups, how it ends. */
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdirSync, openSync, readFileSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { test } from 'node:test';
import { setImmediate } from 'node:timers/promises';
import { isAlive, processNamed, signalProcess } from '../../linux/process-table.ts';
import { type ChildEnd, loadProcesses } from '../../linux/processes.ts';
import { security } from '../../testing/machine/process-sandboxes.ts';
import { temporaryDirectory } from '../../testing/machine/temporary-directory.ts';
import { Records } from './container-records.ts';
import { endOf, failureText, identityOf } from './container-translation.ts';
import {
  findControlGroups,
  makeGroup,
  noControlGroups,
  ranOutOfMemory,
  sweepGroups,
  usageOf,
} from './control-groups.ts';
import { examineMachine, findPowers, limitations } from './machine.ts';
import { type Powers, execProgram } from './sandbox/container-program.ts';
import { capabilitiesOf, capabilityNames, capabilitySetIn } from './sandbox/security.ts';

const all = (1n << BigInt(capabilityNames.length)) - 1n;
const root: Powers = { uid: 0, gid: 0, kind: 'root', boundingSet: all, permitted: all, architecture: 'x64' };
const ordinary: Powers = { uid: 1000, gid: 1000, kind: 'user', boundingSet: all, permitted: 0n, architecture: 'x64' };

const capabilityCases = [
  { it: 'the default set has no MKNOD', add: [], drop: [], has: 'CHOWN', lacks: 'MKNOD' },
  {
    it: 'what is added is there, with or without its prefix',
    add: ['CAP_SYS_TIME'],
    drop: [],
    has: 'SYS_TIME',
    lacks: 'SYS_ADMIN',
  },
  { it: 'what is dropped is gone', add: [], drop: ['chown'], has: 'KILL', lacks: 'CHOWN' },
  { it: 'of drop ALL and add one, one is left', add: ['KILL'], drop: ['ALL'], has: 'KILL', lacks: 'CHOWN' },
  {
    it: 'of add ALL and drop one, all but one are left',
    add: ['ALL'],
    drop: ['SYS_ADMIN'],
    has: 'SYS_TIME',
    lacks: 'SYS_ADMIN',
  },
];
for (const { it, add, drop, has, lacks } of capabilityCases) {
  test(`capabilities: ${it}`, () => {
    const set = capabilitiesOf({ privileged: false, addCapabilities: add, dropCapabilities: drop }, all);
    assert.ok(set.includes(has) && !set.includes(lacks), set.join());
  });
}

test('capabilities: a container never gets one that this program does not have', () => {
  const bounding = capabilitySetIn('Name:\tnode\nCapBnd:\t000001fffeffffff\n', 'CapBnd');
  const set = capabilitiesOf({ privileged: true, addCapabilities: [], dropCapabilities: [] }, bounding);
  assert.equal(set.length, capabilityNames.length - 1);
  assert.ok(!set.includes('SYS_RESOURCE'));
});

test('a user without a group is in group 0; an ordinary user is root of its namespace', () => {
  const asked = security({ uid: 1000, supplementalGroups: [7], dropCapabilities: ['ALL'], noNewPrivileges: true });
  const identity = identityOf(asked, root);
  assert.deepEqual([identity.uid, identity.gid, identity.groups, identity.capabilities], [1000, 0, [7], []]);
  const mapped = identityOf(asked, ordinary);
  assert.deepEqual([mapped.uid, mapped.gid, mapped.groups], [0, 0, []]);
});

test('a user who is not root has from the start what the pod asks for by name, and nothing else', () => {
  const asked = security({ uid: 1000, addCapabilities: ['NET_BIND_SERVICE'] });
  assert.deepEqual(identityOf(asked, root).ambient, ['NET_BIND_SERVICE']);
  assert.deepEqual(identityOf({ ...asked, uid: 0 }, root).ambient, []);
  assert.deepEqual(identityOf({ ...asked, dropCapabilities: ['NET_BIND_SERVICE'] }, root).ambient, []);
});

const ends = [
  { it: 'success', exitCode: 0, memory: false, want: [0, 'Completed'] },
  { it: 'no memory', exitCode: 137, memory: true, want: [137, 'OOMKilled'] },
  { it: 'another error of one that had used up its memory', exitCode: 1, memory: true, want: [1, 'Error'] },
];
for (const { it, exitCode, memory, want } of ends) {
  test(`a container ends with ${it}`, () => {
    const { reason, ...end } = endOf({ exitCode, finishedAtMs: 7 }, memory);
    assert.deepEqual([end.exitCode, reason], want);
  });
}

const failures = [
  {
    it: 'a program that is nowhere',
    call: 'execve',
    errno: 2,
    program: 'nginx',
    says: 'exec: "nginx": executable file not found in $PATH',
  },
  {
    it: 'a path that is not there',
    call: 'execve',
    errno: 2,
    program: '/x',
    says: 'exec: "/x": stat /x: no such file or directory',
  },
  {
    it: 'a file that is not executable',
    call: 'execve',
    errno: 13,
    program: '/x',
    says: 'exec: "/x": permission denied',
  },
  {
    it: 'arguments that are too long',
    call: 'execve',
    errno: 7,
    program: 'sh',
    says: 'exec: "sh": argument list too long',
  },
  {
    it: 'a directory that is not there',
    call: 'chdir',
    errno: 2,
    program: 'sh',
    says: 'chdir to cwd ("/w") set in config.json failed: no such file or directory',
  },
  { it: 'a mount', call: 'move_mount', errno: 20, program: 'sh', says: 'Cannot mount "/a": not a directory' },
] as const;
for (const { it, call, errno, program, says } of failures) {
  test(`a launch that fails with ${it} says so, with the program as the pod has it`, () => {
    const names = { program, workingDirectory: '/w', hostFiles: 'all' } as const;
    assert.equal(failureText({ call, what: 'mount "/a"', errno }, {}, names), says);
    const hint = failureText({ call, what: '', errno }, {}, { ...names, hostFiles: 'system' }).includes('--host-path');
    assert.equal(hint, call === 'execve' && errno !== 7);
  });
}

test('control groups of version 1 are below the own group of each controller', (t) => {
  const top = temporaryDirectory(t);
  for (const name of ['memory/me', 'cpu,cpuacct', 'pids']) mkdirSync(join(top, name), { recursive: true });
  const groups = findControlGroups(
    '3:pids:/\n2:memory:/me\n1:cpu,cpuacct:/\n0::/\n',
    ['memory', 'cpu,cpuacct', 'pids']
      .map((name) => `1 2 0:1 / ${top}/${name} rw - cgroup cgroup rw,${name}`)
      .join('\n'),
    'ours',
  );
  assert.deepEqual([groups.version, groups.controllers], [1, ['cpu', 'cpuacct', 'memory', 'pids']]);
  const joined = makeGroup(groups, 'id', { memoryBytesMax: 1000, cpuMilliMax: 250, cpuMilliRequested: 100 });
  assert.deepEqual(
    joined.toSorted(),
    ['cpu,cpuacct', 'memory/me', 'pids'].map((name) => `${top}/${name}/ours/id/tasks`),
  );
  const value = (path: string): string => readFileSync(join(top, path), 'utf8');
  assert.equal(value('memory/me/ours/id/memory.limit_in_bytes'), '1000');
  assert.equal(value('cpu,cpuacct/ours/id/cpu.cfs_quota_us'), '25000');
  assert.equal(value('cpu,cpuacct/ours/id/cpu.shares'), '102');
  writeFileSync(join(top, 'memory/me/ours/id/memory.oom_control'), 'oom_kill_disable 0\nunder_oom 0\noom_kill 2\n');
  assert.equal(ranOutOfMemory(groups, 'id'), true);

  const ours = join(top, 'pids', 'ours');
  mkdirSync(join(ours, 'stray'));
  sweepGroups(groups, (id) => id === 'id');
  assert.ok(existsSync(join(ours, 'id')) && !existsSync(join(ours, 'stray')));
});

test('control groups of version 2: this program steps into a leaf and hands the controllers on', (t) => {
  const top = temporaryDirectory(t);
  mkdirSync(join(top, 'unit'));
  writeFileSync(join(top, 'unit', 'cgroup.controllers'), 'cpu io memory pids\n');
  writeFileSync(join(top, 'unit', 'cgroup.procs'), '42\n');
  const groups = findControlGroups('0::/unit\n', `1 2 0:1 / ${top} rw - cgroup2 cgroup2 rw\n`, 'ours');
  assert.deepEqual([groups.version, groups.controllers], [2, ['cpu', 'memory', 'pids']]);
  assert.equal(readFileSync(join(top, 'unit/mountlet-agent/cgroup.procs'), 'utf8'), '42');
  assert.equal(readFileSync(join(top, 'unit/cgroup.subtree_control'), 'utf8'), '+cpu +memory +pids');
  makeGroup(groups, 'id', { memoryBytesMax: 5, cpuMilliMax: 1500 });
  assert.equal(readFileSync(join(top, 'unit/ours/id/memory.max'), 'utf8'), '5');
  assert.equal(readFileSync(join(top, 'unit/ours/id/cpu.max'), 'utf8'), '150000 100000');
  writeFileSync(join(top, 'unit/ours/id/memory.current'), '300');
  writeFileSync(join(top, 'unit/ours/id/memory.stat'), 'anon 1\ninactive_file 100\n');
  writeFileSync(join(top, 'unit/ours/id/cpu.stat'), 'usage_usec 7\n');
  const { memoryBytes, workingSetBytes, cpuNanoseconds } = usageOf(groups, 'id') ?? {};
  assert.deepEqual([memoryBytes, workingSetBytes, cpuNanoseconds], [300, 200, 7000]);
});

test('without control groups there are no limits, and no failure', () => {
  assert.equal(findControlGroups('', '', 'ours'), noControlGroups);
  assert.deepEqual(makeGroup(noControlGroups, 'id', { memoryBytesMax: 1 }), []);
  assert.equal(usageOf(noControlGroups, 'id'), undefined);
});

test('a process whose first thread has ended runs on, and is killed', async () => {
  const koffi = createRequire(import.meta.url).resolve('koffi');
  const exitThread = process.arch === 'x64' ? 60 : 93;
  const script = `require(${JSON.stringify(koffi)}).load(null).func('long syscall(long, long)')(${exitThread}, 0)`;
  const child = spawn(process.execPath, ['-e', script], { stdio: 'ignore' });
  const pid = child.pid ?? 0;
  while (!readFileSync(`/proc/${pid}/status`, 'utf8').includes('State:\tZ')) await setImmediate();
  const name = processNamed(pid);
  assert.ok(name !== undefined);
  signalProcess(name, 'SIGKILL');
  assert.deepEqual(await once(child, 'exit'), [null, 'SIGKILL']);
  assert.equal(isAlive(name), false);
});

const isRoot = process.getuid?.() === 0;
test('a command is not executed after its spawner has gone', { skip: isRoot ? false : 'needs root' }, async () => {
  const processes = loadProcesses();
  const pod = { hostPid: true, hostIpc: true, hostNetwork: true, shareProcessNamespace: false };
  const command = { words: ['/bin/true'], workingDirectory: '/', environment: [] };
  const powers = findPowers();
  const identity = identityOf(security(), powers);
  const { image } = execProgram({ pod, groups: [], identity, command, tty: false }, powers);
  const exitCodes: number[] = [];
  for (const isGone of [false, true]) {
    const nothing = openSync('/dev/null', 'r+');
    const [ours, theirs] = processes.socketPair();
    if (isGone) processes.close(ours);
    const joined = processes.openChild(process.pid);
    const pid = processes.start(image, [nothing, nothing, nothing, theirs, joined]);
    let end: ChildEnd | undefined;
    while (end?.pid !== pid) {
      end = processes.reap()[0];
      await setImmediate();
    }
    exitCodes.push(end.exitCode);
    for (const descriptor of [nothing, theirs, joined, ...(isGone ? [] : [ours])]) processes.close(descriptor);
  }
  assert.deepEqual(exitCodes, [0, 127]);
});

test('records are found again; what a crash tore is not', (t) => {
  const directory = temporaryDirectory(t);
  const records = new Records<{ a: number }>(directory);
  records.load();
  records.put('one', { a: 1 });
  for (const name of ['../x', '', '.', 'a/b'])
    assert.throws(() => records.put(name, { a: 1 }), { reason: 'RuntimeFailed' });
  writeFileSync(join(directory, 'torn.json'), '{"a":');
  writeFileSync(join(directory, 'two.json.new'), '{}');
  const again = new Records<{ a: number }>(directory);
  again.load();
  assert.deepEqual(again.all(), [{ a: 1 }]);
  assert.ok(!existsSync(join(directory, 'torn.json')) && !existsSync(join(directory, 'two.json.new')));
});

test('the machine is examined in whole sentences', () => {
  const findings = examineMachine();
  assert.deepEqual(
    findings.filter(({ consequence }) => !/^[A-Z].*\.$/.test(consequence)),
    [],
  );
  assert.ok(findings.some(({ name }) => name === 'user namespaces'));
  assert.ok(limitations({ kind: 'user' }).length > limitations({ kind: 'root' }).length);
});
