/** Real sandboxes as root: what a container is, sees, prints and how it ends. As an ordinary user: ordinary-user.test.ts. */
import assert from 'node:assert/strict';
import { execFileSync, spawnSync } from 'node:child_process';
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  readdirSync,
  rmSync,
  rmdirSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { PassThrough } from 'node:stream';
import { type TestContext, test } from 'node:test';
import { setImmediate as tick } from 'node:timers/promises';
import type { ContainerRequest, ContainerStats } from '../runtime.ts';
import { processNamed } from '../../linux/process-table.ts';
import { directoryForDevices, foreignLoopDevice, needsDevices, sparseFile } from '../../testing/machine/devices.ts';
import {
  ProcessSandboxes,
  collector,
  containerRequest,
  mount,
  podRequest,
  security,
  soon,
} from '../../testing/machine/process-sandboxes.ts';

const skip = process.getuid?.() === 0 ? false : 'needs root: ordinary-user.test.ts has what holds for others';
/** Seconds of sleep that no other program of this machine asks for: its processes are found by them. */
const nap = `${7_000_000 + process.pid}`;

async function open(t: TestContext): Promise<{ sandboxes: ProcessSandboxes; pod: string }> {
  const sandboxes = await ProcessSandboxes.open(t);
  return { sandboxes, pod: await sandboxes.pod() };
}

test('a container ends with its exit code, and its log has both streams line by line', { skip }, async (t) => {
  const { sandboxes, pod } = await open(t);
  const id = await sandboxes.start(pod, {
    command: ['sh', '-c', 'echo out; echo err >/dev/stderr; printf unfinished; exit 42'],
  });
  const state = await sandboxes.ended(pod, id);
  assert.equal(state.exitCode, 42);
  assert.equal(state.reason, 'Error');
  assert.ok(state.finishedAtMs >= state.startedAtMs - 1000);
  const lines = (await sandboxes.log(pod, id))
    .trimEnd()
    .split('\n')
    .toSorted((a, b) => a.slice(31).localeCompare(b.slice(31)));
  assert.deepEqual(
    lines.map((line) => line.replace(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{9}Z /, '')),
    ['stderr F err', 'stdout F out', 'stdout P unfinished'],
  );
});

test('variables reach the command as they are, and nothing interprets them on the way', { skip }, async (t) => {
  const { sandboxes, pod } = await open(t);
  const values: Readonly<Record<string, string>> = {
    LINES: 'one\ntwo\n\n',
    QUOTES: `'"\`$(touch /pwned)\${HOME} \\n \\`,
    EMPTY: '',
    IFS: 'x',
    PATH: '/usr/bin:/bin',
    LD_PRELOAD: '/no/such/library.so',
    ENV: '/etc/passwd',
    'dotted.name-too': 'a = b',
    M_INIT: 'mine',
    mountlet_text: 'mine',
    OPTIND: 'not a number',
    UNICODE: 'zażółć 🐟',
  };
  const { output, state } = await sandboxes.run(pod, '', {
    command: ['cat', '/proc/self/environ'],
    environment: Object.entries(values).map(([name, value]) => ({ name, value })),
  });
  assert.equal(state.exitCode, 0, output);
  const seen = Object.fromEntries(
    output
      .replace(/^ERROR: ld\.so: .*\n/gm, '') // the container's own programs try, and ours must not
      .split('\0')
      .filter((entry) => entry.includes('='))
      .map((entry) => [entry.slice(0, entry.indexOf('=')).replace(/^.*\n/s, ''), entry.slice(entry.indexOf('=') + 1)]),
  );
  assert.deepEqual(seen, { ...values, HOME: '/root', HOSTNAME: 'web-0' });
});

test('arguments reach the command as they are, and no builtin of a shell answers for it', { skip }, async (t) => {
  const { sandboxes, pod } = await open(t);
  const args = ['a b', '', '\n', '$(id)', "'", '-n', '*', '--'];
  const { output } = await sandboxes.run(pod, '', { command: ['printf'], args: ['[%s]', ...args] });
  assert.equal(output.replace(/\n$/, ''), args.map((word) => `[${word}]`).join(''));
});

test('secret values are in no file of the runtime and in no command line of its processes', { skip }, async (t) => {
  const { sandboxes, pod } = await open(t);
  const secret = 'correct-horse-battery-staple';
  const id = await sandboxes.start(pod, {
    environment: [{ name: 'PASSWORD', value: secret }],
    args: ['sh', '-c', `: ${secret}-argument; exec sleep infinity`],
  });
  await sandboxes.exec(id, ['true']);
  const files = readdirSync(sandboxes.directory, { recursive: true, withFileTypes: true }).filter((entry) =>
    entry.isFile(),
  );
  assert.ok(files.length > 3);
  for (const file of files) {
    assert.ok(!readFileSync(join(file.parentPath, file.name)).includes(secret), `${file.parentPath}/${file.name}`);
  }
  assert.deepEqual(
    commandLines().filter((line) => line.includes(secret) && !line.includes('-argument')),
    [],
  );
  assert.equal((await sandboxes.exec(id, ['sh', '-c', 'echo "$PASSWORD"'])).output, `${secret}\n`);
});

test('volumes are where the pod wants them, on paths that the machine has and has not', { skip }, async (t) => {
  const { sandboxes, pod } = await open(t);
  const config = sandboxes.volume('config');
  writeFileSync(join(config, 'redis.conf'), 'maxmemory 2mb\n');
  const data = sandboxes.volume('data');
  const odd = '/mnt/a b\n"$(touch /pwned)"';
  const { output, state } = await sandboxes.run(
    pod,
    `cat /etc/config/redis.conf /etc/hosts /data/nested/redis.conf /run/late/redis.conf "$ODD/redis.conf" &&
     echo mine >/data/new && ls /var/run/late && ! echo x >/etc/config/redis.conf && ! ls /pwned`,
    {
      environment: [{ name: 'ODD', value: odd }],
      // Children come before their parents here.
      mounts: [
        mount(config, '/data/nested', { readOnly: true }),
        mount(data, '/data/'),
        mount(config, '/etc/config', { readOnly: true }),
        mount(join(config, 'redis.conf'), '/etc/hosts'),
        mount(config, '/var/run/late'),
        mount(config, odd),
        mount(config, '/tmp/below/../here'),
        mount(config, '/srv/../../../opt/x'),
      ],
    },
  );
  assert.equal(state.exitCode, 0, output);
  // Errors come by a way of their own, so that their place among the lines is not sure.
  assert.match(output.replace(/^(sh|ls): .*\n/gm, ''), /^(maxmemory 2mb\n){5}/);
  assert.equal(readFileSync(join(data, 'new'), 'utf8'), 'mine\n');
  assert.deepEqual(readdirSync(data).toSorted(), ['nested', 'new']);
  assert.ok(!existsSync('/etc/config') && !existsSync('/mnt/a b\n"$(touch ') && !existsSync('/pwned'));
});

test(
  'a raw device is written to, unless it is read-only itself; its mode and owner stay',
  { skip: needsDevices() },
  async (t) => {
    const ground = directoryForDevices(t);
    const { sandboxes, pod } = await open(t);
    const [data, fixed] = [
      foreignLoopDevice(sparseFile(ground, 'data')),
      foreignLoopDevice(sparseFile(ground, 'fixed'), '--read-only'),
    ];
    const before = statSync(data);
    const giving = (hostPath: string, permissions: 'r' | 'mrw'): Partial<ContainerRequest> => ({
      devices: [{ hostPath, containerPath: '/dev/raw', permissions }],
    });
    const written = await sandboxes.run(pod, 'printf mine >/dev/raw && ! chmod 666 /dev/raw', giving(data, 'mrw'));
    assert.equal(written.state.exitCode, 0, written.output);
    assert.deepEqual([statSync(data).mode, statSync(data).uid], [before.mode, before.uid]);
    const looked = await sandboxes.run(pod, 'head -c 1 /dev/raw >/dev/null && ! echo x >/dev/raw', giving(fixed, 'r'));
    assert.equal(looked.state.exitCode, 0, looked.output);
    await assert.rejects(sandboxes.start(pod, giving(data, 'r')), /Device "\/dev\/raw" is to be read-only.*--setro/);
  },
);

for (const path of ['/', '/..', '//.', '/proc', '/proc/sys', '/proc/self/root']) {
  test(`nothing is mounted at ${path}`, { skip }, async (t) => {
    const { sandboxes, pod } = await open(t);
    const mounts = [mount(sandboxes.volume('v'), path)];
    await assert.rejects(sandboxes.start(pod, { mounts }), { reason: 'RuntimeFailed', message: /^Cannot mount at "/ });
  });
}

test('a volume may cover what the launcher itself needs', { skip }, async (t) => {
  const { sandboxes, pod } = await open(t);
  const bin = sandboxes.volume('bin');
  // Were one of these run with our privileges, it would leave its mark.
  const mark = sandboxes.volume('mark');
  for (const name of ['sh', 'setpriv', 'umount', 'mount', 'unshare']) {
    writeFileSync(join(bin, name), '#!/usr/bin/perl\nopen F, ">/mark/$$"; exit 1', { mode: 0o755 });
  }
  const id = await sandboxes.start(pod, {
    mounts: [mount(bin, '/usr/bin'), mount(mark, '/mark')],
    command: ['/usr/sbin/nologin'],
  });
  assert.equal((await sandboxes.ended(pod, id)).exitCode, 1);
  assert.deepEqual(readdirSync(mark), []);
  assert.match(await sandboxes.output(pod, id), /This account is currently not available/);
});

test('processes have the user and the capabilities that the pod gives', { skip }, async (t) => {
  const { sandboxes, pod } = await open(t);
  const script =
    "id -u; id -g; id -G; grep -E '^(CapEff|CapBnd|NoNewPrivs|SigIgn|SigBlk)' /proc/self/status | tr -d '\\t'";
  const ask = async (given: Parameters<typeof security>[0]): Promise<string> =>
    (await sandboxes.run(pod, script, { security: security(given) })).output.trim().replaceAll('\n', ' ');
  const clean = 'SigBlk:0000000000000000 SigIgn:0000000000000000';
  assert.equal(
    await ask({
      uid: 1000,
      gid: 2000,
      supplementalGroups: [3000, 4000],
      noNewPrivileges: true,
      dropCapabilities: ['ALL'],
    }),
    `1000 2000 2000 3000 4000 ${clean} CapEff:0000000000000000 CapBnd:0000000000000000 NoNewPrivs:1`,
  );
  assert.equal(
    await ask({ dropCapabilities: ['ALL'], addCapabilities: ['NET_BIND_SERVICE'] }),
    `0 0 0 ${clean} CapEff:0000000000000400 CapBnd:0000000000000400 NoNewPrivs:0`,
  );
  assert.equal(await ask({}), `0 0 0 ${clean} CapEff:00000000a00425fb CapBnd:00000000a00425fb NoNewPrivs:0`);
});

test('commands run by exec are the same user with the same capabilities', { skip }, async (t) => {
  const { sandboxes, pod } = await open(t);
  const script = "id -u; id -G; grep -E '^(CapEff|CapBnd|NoNewPrivs)' /proc/self/status | tr -d '\\t'";
  const ask = async (given: Parameters<typeof security>[0]): Promise<string> => {
    const id = await sandboxes.start(pod, { security: security(given) });
    return (await sandboxes.exec(id, ['sh', '-c', script])).output.trim().replaceAll('\n', ' ');
  };
  assert.equal(
    await ask({ uid: 1000, gid: 2000, supplementalGroups: [3000], noNewPrivileges: true, dropCapabilities: ['ALL'] }),
    '1000 2000 3000 CapEff:0000000000000000 CapBnd:0000000000000000 NoNewPrivs:1',
  );
  assert.equal(
    await ask({ dropCapabilities: ['ALL'] }),
    '0 0 CapEff:0000000000000000 CapBnd:0000000000000000 NoNewPrivs:0',
  );
  assert.equal(await ask({}), '0 0 CapEff:00000000a00425fb CapBnd:00000000a00425fb NoNewPrivs:0');
});

test(
  'the root is writable in a layer of the container, or not at all; the machine never changes',
  { skip },
  async (t) => {
    const { sandboxes, pod } = await open(t);
    const script =
      'echo x >/etc/mountlet-was-here; echo "$?"; cat /etc/mountlet-was-here; echo y >/tmp/t && cat /tmp/t';
    assert.equal((await sandboxes.run(pod, script)).output, '0\nx\ny\n');
    const readOnly = await sandboxes.run(pod, script, {
      security: security({ readOnlyRootFilesystem: true }),
    });
    assert.match(readOnly.output, /cannot create .*: Read-only file system\n/);
    assert.doesNotMatch(readOnly.output, /^y$/m); // /tmp belongs to the root: only /dev, /dev/shm and volumes stay writable
    const shared = await sandboxes.run(pod, 'echo z >/dev/shm/t && cat /dev/shm/t; echo t >/run/t || echo no', {
      security: security({ readOnlyRootFilesystem: true }),
    });
    assert.match(shared.output, /^z$/m);
    assert.match(shared.output, /^no$/m);
    assert.ok(!existsSync('/etc/mountlet-was-here'));
  },
);

const hint = ' (containers see the system files of this machine: --host-path DIR adds a directory)';

test('a command that cannot be executed is reported as the engines report it', { skip }, async (t) => {
  const { sandboxes, pod } = await open(t);
  const cases = [
    { command: ['no-such-program'], message: `exec: "no-such-program": executable file not found in $PATH${hint}` },
    { command: ['/no/such'], message: `exec: "/no/such": stat /no/such: no such file or directory${hint}` },
    { command: ['/etc/passwd'], message: `exec: "/etc/passwd": permission denied${hint}` },
    { command: ['cd'], message: `exec: "cd": executable file not found in $PATH${hint}` },
  ];
  for (const [attempt, { command, message }] of cases.entries()) {
    const id = await sandboxes.runtime.createContainer(containerRequest(pod, { command, attempt }));
    await assert.rejects(sandboxes.runtime.startContainer(id, soon()), { message });
    const { exitCode, reason, message: told } = await sandboxes.ended(pod, id);
    assert.deepEqual({ exitCode, reason, told }, { exitCode: 128, reason: 'StartError', told: message });
  }
});

test('a container without a command idles, shows its files and ends at once', { skip }, async (t) => {
  const { sandboxes, pod } = await open(t);
  const config = sandboxes.volume('config');
  writeFileSync(join(config, 'config.yml'), 'a: 1\n');
  const id = await sandboxes.start(pod, { mounts: [mount(config, '/etc/config')] });
  assert.deepEqual(await sandboxes.exec(id, ['cat', '/etc/config/config.yml']), { code: 0, output: 'a: 1\n' });
  await sandboxes.idles(id);
  await sandboxes.runtime.stopContainer(id, 3_600_000, soon());
  assert.equal((await sandboxes.ended(pod, id)).exitCode, 143);
});

test(
  'a container that ignores its stop signal is killed with all it started, daemons included',
  { skip },
  async (t) => {
    const { sandboxes, pod } = await open(t);
    const script = `trap '' TERM; setsid sh -c 'sleep ${nap} & setsid sleep ${nap}' & echo up; while :; do sleep ${nap}; done`;
    const id = await sandboxes.start(pod, { command: ['sh', '-c', script] });
    await sandboxes.exec(id, ['sh', '-c', 'until [ "$(pgrep -c -x sleep)" -ge 3 ]; do :; done']);
    await sandboxes.runtime.stopContainer(id, 50, soon());
    const { exitCode, reason } = await sandboxes.ended(pod, id);
    assert.deepEqual({ exitCode, reason }, { exitCode: 137, reason: 'Error' });
    assert.deepEqual(
      commandLines().filter((line) => line.includes(nap)),
      [],
    );
  },
);

test('a handler of the stop signal decides the exit code', { skip }, async (t) => {
  const { sandboxes, pod } = await open(t);
  const id = await sandboxes.start(pod, {
    command: ['sh', '-c', "trap 'echo bye; exit 9' USR1; touch /tmp/up; while :; do sleep 0.01; done"],
    stopSignal: 'SIGUSR1',
  });
  await sandboxes.exec(id, ['sh', '-c', 'until [ -e /tmp/up ]; do :; done']);
  await sandboxes.runtime.stopContainer(id, 3_600_000, soon());
  assert.equal((await sandboxes.ended(pod, id)).exitCode, 9);
  assert.equal(await sandboxes.output(pod, id), 'bye\n');
});

test('exec: input ends by half, output and codes come back, signals count from 128', { skip }, async (t) => {
  const { sandboxes, pod } = await open(t);
  const id = await sandboxes.start(pod, { workingDirectory: '/usr', environment: [{ name: 'A', value: 'b c' }] });
  const stdin = new PassThrough();
  stdin.end('3\n1\n2\n');
  assert.deepEqual(await sandboxes.exec(id, ['sort'], { stdin }), { code: 0, output: '1\n2\n3\n' });
  assert.deepEqual(await sandboxes.exec(id, ['sh', '-c', 'echo "$A" in $PWD; exit 7']), {
    code: 7,
    output: 'b c in /usr\n',
  });
  assert.equal((await sandboxes.exec(id, ['sh', '-c', 'kill -TERM $$'])).code, 143);
  await assert.rejects(sandboxes.exec(id, ['no-such']), {
    reason: 'CommandStartFailed',
    message: `exec: "no-such": executable file not found in $PATH${hint}`,
  });
  await sandboxes.runtime.stopContainer(id, 0, soon());
  await assert.rejects(sandboxes.exec(id, ['true']), { message: 'container "main" is not running' });
});

test('exec: a terminal has a size that follows the client', { skip }, async (t) => {
  const { sandboxes, pod } = await open(t);
  const id = await sandboxes.start(pod);
  const sizes = new PassThrough({ objectMode: true });
  sizes.write({ columns: 77, rows: 33 });
  const stdin = new PassThrough();
  const script =
    'until [ "$(stty size)" = "33 77" ]; do :; done; echo sized; read line; echo "got $line"; tty -s && exit 4';
  const output = collector();
  output.stream.on('pipe', () => {});
  const running = sandboxes.runtime.exec(
    id,
    { command: ['sh', '-c', script], tty: true, stdin, stdout: output.stream, resizes: sizes },
    soon(),
  );
  stdin.write('hello\r');
  assert.deepEqual(await running, { exitCode: 4 });
  assert.match(output.text(), /sized\r\n(hello\r\n)?got hello\r\n/);
  sizes.end();
});

test('exec: what was printed last on a terminal arrives, however late the spawner looks', { skip }, async (t) => {
  const { sandboxes, pod } = await open(t);
  const flag = sandboxes.volume('flag');
  const id = await sandboxes.start(pod, { mounts: [mount(flag, '/flag')] });
  const spawner = await spawnerPid(sandboxes);
  const output = collector();
  // More than the kernel gives in one read, less than it keeps.
  const lines = 1_500;
  const script = `echo up; until [ -e /flag/go ]; do sleep 0.01; done; seq ${lines}; exit 4`;
  const exec = { command: ['sh', '-c', script], tty: true, stdin: new PassThrough(), stdout: output.stream };
  const running = sandboxes.runtime.exec(id, exec, soon());
  while (!output.text().includes('up')) await tick();
  process.kill(spawner, 'SIGSTOP');
  writeFileSync(join(flag, 'go'), '');
  // A child that has ended and was not waited for.
  while (pidsOf((pid) => new RegExp(`\\) Z ${spawner} `).test(read(`/proc/${pid}/stat`))).length === 0) await tick();
  process.kill(spawner, 'SIGCONT');
  assert.deepEqual(await running, { exitCode: 4 });
  assert.equal(output.text().split('\r\n').length, lines + 2);
});

test('exec: a client that leaves takes its command with it', { skip }, async (t) => {
  const { sandboxes, pod } = await open(t);
  const id = await sandboxes.start(pod);
  const leaving = new AbortController();
  const output = collector();
  const command = ['sh', '-c', `sleep ${nap} & echo up; wait`];
  const running = sandboxes.runtime.exec(id, { command, tty: false, stdout: output.stream }, leaving.signal);
  const failed = assert.rejects(running, { name: 'AbortError' });
  await sandboxes.exec(id, ['sh', '-c', `until pgrep -f "[s]leep ${nap}"; do :; done`]);
  leaving.abort();
  await failed;
  await sandboxes.exec(id, ['sh', '-c', `while pgrep -f "[s]leep ${nap}"; do :; done`]);
  assert.deepEqual(
    commandLines().filter((line) => line.includes(nap)),
    [],
  );
});

test('attach joins the streams of a container', { skip }, async (t) => {
  const { sandboxes, pod } = await open(t);
  const id = await sandboxes.start(pod, {
    command: ['sh', '-c', 'while read line; do echo "got $line"; done; echo over'],
    stdin: true,
    stdinOnce: true,
  });
  const stdin = new PassThrough();
  const stdout = collector();
  const attached = sandboxes.runtime.attach(id, { stdin, stdout: stdout.stream, tty: false }, soon());
  stdin.end('a\nb\n');
  await attached;
  assert.equal(stdout.text(), 'got a\ngot b\nover\n');
  assert.equal((await sandboxes.ended(pod, id)).exitCode, 0);
});

test('a container with a terminal prints through it', { skip }, async (t) => {
  const { sandboxes, pod } = await open(t);
  const { output, state } = await sandboxes.run(pod, 'tty -s && echo yes; echo err >&2; echo "$TERM"; exit 3', {
    tty: true,
  });
  assert.equal(state.exitCode, 3);
  assert.equal(output.replaceAll('\r', ''), 'yes\nerr\nxterm\n');
});

test('containers and their output outlive the runtime and are found again', { skip }, async (t) => {
  const { sandboxes, pod } = await open(t);
  const flag = sandboxes.volume('flag');
  const script = 'echo before; until [ -e /flag/go ]; do sleep 0.01; done; echo meanwhile; exit 5';
  const id = await sandboxes.start(pod, {
    command: ['sh', '-c', script],
    mounts: [mount(flag, '/flag')],
    labels: { a: 'b' },
  });
  const idle = await sandboxes.start(pod, { name: 'idle' });
  const [before] = await sandboxes.runtime.list();
  await sandboxes.runtime.close();
  writeFileSync(join(flag, 'go'), '');
  await sandboxes.reopen();
  assert.equal((await sandboxes.ended(pod, id)).exitCode, 5);
  assert.equal(await sandboxes.output(pod, id), 'before\nmeanwhile\n');
  const [after] = await sandboxes.runtime.list();
  assert.deepEqual({ ...after, containers: [] }, { ...before, containers: [] });
  const find = (name: string): unknown => after?.containers.find((container) => container.name === name);
  assert.deepEqual(
    find('idle'),
    before?.containers.find((container) => container.name === 'idle'),
  );
  assert.deepEqual((await sandboxes.exec(idle, ['echo', 'still here'])).output, 'still here\n');
});

test(
  'a spawner that was killed is said to have taken its containers with it, once nothing is left of them',
  { skip },
  async (t) => {
    const { sandboxes, pod } = await open(t);
    const shared = await sandboxes.pod({ uid: 'shared', shareProcessNamespace: true });
    const host = await sandboxes.pod({ uid: 'host', hostPid: true });
    // A process with much memory takes a while to end.
    const script = `x=$(head -c 50000000 /dev/zero | tr '\\0' x); setsid sleep ${nap} & sleep ${nap} & echo up; wait`;
    const running = await Promise.all(
      [pod, shared, host].map(async (uid) => ({
        uid,
        id: await sandboxes.start(uid, { command: ['sh', '-c', script] }),
      })),
    );
    for (const { uid, id } of running) while (!(await sandboxes.output(uid, id)).includes('up')) await tick();
    const hasGroups = (await usage(sandboxes, pod)).length > 0; // nothing else finds daemons among those of the machine
    const pids = new Map<string, number[]>();
    for (const { uid } of running) {
      const state = (await sandboxes.runtime.get(uid))?.containers[0]?.state;
      const main = state?.kind === 'running' ? (state.pid ?? 0) : 0;
      const root = read(`/proc/${main}/mountinfo`);
      const all = pidsOf((pid) => read(`/proc/${pid}/mountinfo`) === root);
      assert.equal(all.length, 3);
      pids.set(uid, uid === host && !hasGroups ? [main] : all);
    }
    process.kill(await spawnerPid(sandboxes), 'SIGKILL');
    // Whether the runtime has noticed by now or not.
    const first = running[0]?.id ?? '';
    const streams = { tty: false, stdout: new PassThrough() };
    const outcomes = await Promise.allSettled([
      sandboxes.runtime.exec(first, { ...streams, command: ['true'] }, soon()),
      sandboxes.runtime.attach(first, streams, soon()),
    ]);
    for (const outcome of outcomes) {
      const text = outcome.status === 'rejected' ? (outcome.reason as Error).message : 'ended';
      assert.match(text, /^(ended|container "main" is not running)$/);
    }
    await Promise.all(
      running.map(async ({ uid, id }) => {
        const { exitCode, reason, message } = await sandboxes.ended(uid, id);
        assert.deepEqual(
          pids.get(uid)?.filter((pid) => processNamed(pid) !== undefined),
          [],
        );
        assert.deepEqual({ exitCode, reason }, { exitCode: 137, reason: 'Error' });
        assert.match(message, /exit code is unknown/);
      }),
    );
    assert.equal((await sandboxes.runtime.get(pod))?.state, 'notReady');
    await sandboxes.pod();
    assert.equal((await sandboxes.run(pod, 'echo again')).output, 'again\n');
  },
);

test('a spawner that is killed at any moment of a launch leaves nothing', { skip }, async (t) => {
  const { sandboxes } = await open(t);
  for (let round = 0; round < 10; round += 1) {
    const uids = await Promise.all(
      [{}, { shareProcessNamespace: true }, { hostPid: true }].map((pod, index) =>
        sandboxes.pod({ uid: `${round}-${index}`, ...pod }),
      ),
    );
    const spawner = await spawnerPid(sandboxes);
    const started = uids.map((uid) =>
      sandboxes.start(uid, { command: ['sh', '-c', `setsid sleep ${nap} & sleep ${nap}`] }).catch(() => {}),
    );
    await new Promise((resolve) => setTimeout(resolve, round));
    process.kill(spawner, 'SIGKILL');
    await Promise.all(started);
    for (const uid of uids) {
      while ((await sandboxes.runtime.get(uid))?.state === 'ready') await tick(); // its end is noticed
      for (const { id } of (await sandboxes.runtime.get(uid))?.containers ?? []) await sandboxes.ended(uid, id);
    }
    assert.deepEqual(
      commandLines().filter((line) => line.includes(nap)),
      [],
    );
  }
});

test('a signal that reaches a thread of the spawner fails no launch', { skip }, async (t) => {
  const { sandboxes, pod } = await open(t);
  const spawner = await spawnerPid(sandboxes);
  const launched = Promise.all(Array.from({ length: 20 }, () => sandboxes.run(pod, 'echo up')));
  const over = new AbortController();
  void launched.finally(() => over.abort()).catch(() => {});
  while (!over.signal.aborted) {
    for (const thread of readdirSync(`/proc/${spawner}/task`)) {
      // To the thread itself where it takes signals: Linux prefers the one that is named.
      if (Number(thread) !== spawner) process.kill(Number(thread), 'SIGCHLD');
    }
    await tick();
  }
  assert.deepEqual(new Set((await launched).map(({ output }) => output)), new Set(['up\n']));
});

async function spawnerPid({ directory }: ProcessSandboxes): Promise<number> {
  const name = join(directory, 'state');
  return pidsOf((pid) => read(`/proc/${pid}/cmdline`).includes(`\0${name}\0`))[0] ?? 0;
}

test(
  'on a full disk containers start, end and are removed, and exit codes are known after a restart',
  { skip },
  async (t) => {
    const disk = mkdtempSync(join(tmpdir(), 'mountlet-disk-'));
    assert.equal(spawnSync('mount', ['-t', 'tmpfs', '-o', 'size=8m', 'none', disk]).status, 0);
    const sandboxes = await ProcessSandboxes.open(t, {}, join(disk, 'node'));
    t.after(() => {
      spawnSync('umount', [disk]);
      rmdirSync(disk);
    });
    const pod = await sandboxes.pod();
    const before = await sandboxes.start(pod, {
      command: ['sh', '-c', 'until [ -e /tmp/over ]; do sleep 0.01; done; exit 7'],
    });
    const rest = join(disk, 'rest');
    assert.notEqual(spawnSync('dd', ['if=/dev/zero', `of=${rest}`]).status, 0);
    await sandboxes.exec(before, ['touch', '/tmp/over']);
    assert.equal((await sandboxes.ended(pod, before)).exitCode, 7);
    const during = await sandboxes.start(pod, { command: ['sh', '-c', 'exit 8'] });
    assert.equal((await sandboxes.ended(pod, during)).exitCode, 8);
    rmSync(rest);
    await sandboxes.reopen();
    assert.equal((await sandboxes.ended(pod, before)).exitCode, 7);
    spawnSync('dd', ['if=/dev/zero', `of=${rest}`]);
    await sandboxes.runtime.removePod(pod, soon());
    for (const name of ['containers', 'pods']) assert.deepEqual(readdirSync(join(disk, 'node', 'state', name)), []);
  },
);

async function usage({ runtime }: ProcessSandboxes, uid: string): Promise<readonly ContainerStats[]> {
  return (await runtime.stats()).find((pod) => pod.uid === uid)?.containers ?? [];
}

test('a container that uses up its memory is reported as OOMKilled', { skip }, async (t) => {
  const { sandboxes, pod } = await open(t);
  if ((await usage(sandboxes, pod)).length > 0) assert.fail('nothing runs yet');
  const idle = await sandboxes.start(pod, { name: 'idle' });
  const [used] = await usage(sandboxes, pod);
  if (used === undefined) return t.skip('needs control groups: none can be made here');
  assert.ok(used.name === 'idle' && used.memoryBytes > 0 && used.cpuNanoseconds > 0);
  await sandboxes.runtime.stopContainer(idle, 0, soon());
  const { state } = await sandboxes.run(pod, 'exec tail /dev/zero', {
    resources: { memoryBytesMax: 32 * 1024 * 1024 },
  });
  assert.deepEqual([state.exitCode, state.reason], [137, 'OOMKilled']);
});

test('containers of a pod share a host name and IPC, and processes when asked to', { skip }, async (t) => {
  const { sandboxes, pod } = await open(t);
  const namespaces = 'hostname; readlink /proc/self/ns/ipc /proc/self/ns/uts';
  const first = await sandboxes.run(pod, namespaces);
  const second = await sandboxes.run(pod, namespaces, { name: 'other' });
  assert.match(first.output, /^web-0\n/);
  assert.equal(first.output, second.output);

  const shared = await sandboxes.pod({ uid: 'shared', shareProcessNamespace: true });
  const sleeper = await sandboxes.start(shared, { command: ['sleep', nap] });
  const seen = await sandboxes.run(
    shared,
    `pgrep -x -f "sleep ${nap}" >/dev/null && echo seen; setsid sleep ${nap}.5 & exit 6`,
    { name: 'other' },
  );
  assert.deepEqual([seen.output, seen.state.exitCode], ['seen\n', 6]);
  assert.match((await sandboxes.exec(sleeper, ['pgrep', '-f', nap])).output, /^\d+\n/);
  await sandboxes.runtime.stopPod(shared, soon());
  assert.deepEqual(
    commandLines().filter((line) => line.includes(nap)),
    [],
  );
});

test(
  'connect reaches a port of a pod that has the network of the machine, for as long as the pod runs',
  { skip },
  async (t) => {
    const sandboxes = await ProcessSandboxes.open(t);
    const pod = await sandboxes.pod({ hostNetwork: true });
    const server = createServer((socket) => socket.end('hello'));
    t.after(() => server.close());
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    const address = server.address();
    const port = typeof address === 'object' && address !== null ? address.port : 0;
    const socket = await sandboxes.runtime.connect(pod, port, soon());
    assert.equal(Buffer.concat(await socket.toArray()).toString(), 'hello');
    await assert.rejects(sandboxes.runtime.connect(pod, 1, soon()), { code: 'ECONNREFUSED' });
    await assert.rejects(sandboxes.runtime.connect('another', port, soon()), { message: 'the pod is not running' });
    await sandboxes.runtime.stopPod(pod, soon());
    await assert.rejects(sandboxes.runtime.connect(pod, port, soon()), { message: 'the pod is not running' });
  },
);

test('what was started and removed leaves nothing', { skip }, async (t) => {
  const sandboxes = await ProcessSandboxes.open(t);
  const before = traces();
  const pods = await Promise.all(['a', 'b', 'c'].map((uid) => sandboxes.pod({ uid })));
  for (const pod of pods) {
    const [id] = await Promise.all([sandboxes.start(pod), sandboxes.run(pod, 'echo done', { name: 'short' })]);
    await sandboxes.exec(id, ['true']);
    // Created and never started.
    await sandboxes.runtime.createContainer(containerRequest(pod, { name: 'never' }));
  }
  await Promise.all(pods.map((pod) => sandboxes.runtime.removePod(pod, soon())));
  await Promise.all(pods.map((pod) => sandboxes.runtime.removePod(pod, soon())));
  assert.deepEqual(await sandboxes.runtime.list(), []);
  assert.deepEqual(traces(), before);
  const left = readdirSync(sandboxes.directory, { recursive: true, withFileTypes: true })
    .filter((entry) => !entry.name.startsWith('spawner.') && !entry.isDirectory())
    .map((entry) => entry.name);
  assert.deepEqual(left, ['subnet'], 'the same next time');

  function traces(): readonly (readonly string[])[] {
    const mounts = readFileSync('/proc/self/mountinfo', 'utf8').split('\n');
    return [
      mounts.filter((line) => line.includes(sandboxes.directory)),
      commandLines().filter((line) => line.includes(sandboxes.directory)),
    ];
  }
});

test('a malicious container gets nowhere', { skip }, async (t) => {
  const { sandboxes, pod } = await open(t);
  const shared = sandboxes.volume('shared');
  const readOnly = sandboxes.volume('read-only');
  writeFileSync(join(readOnly, 'file'), 'intact');
  const attempts = `
    try() { if "$@" 2>/dev/null; then echo "done: $*"; fi; }
    try cat ${sandboxes.directory}/state/containers/*
    try ls ${sandboxes.directory}/state/pods/x
    try sh -c 'echo x >/ro/file'
    try sh -c 'echo x >/ro/new'
    try mount -o remount,rw /ro
    try umount /ro
    try mount -t tmpfs t /mnt
    try sh -c 'echo c >/proc/sysrq-trigger'
    try sh -c 'echo 1 >/proc/sys/kernel/sysrq'
    try sh -c 'echo x >/sys/kernel/uevent_helper'
    try mkdir /sys/fs/cgroup/memory/x
    try mknod /shared/disk b 254 0
    try mknod /dev/disk b 254 0
    try chroot /proc/1/root/.. ls ${sandboxes.directory}/state/status
    try ls /proc/1/cwd/${sandboxes.directory.slice(1)}/state/status
    try nsenter -t 1 -m true
    try unshare -m true
    for fd in /proc/1/fd/*; do try ls "$fd/"; done
    try hostname evil
    ln -s /etc/shadow /shared/link; ln -s / /shared/root; ln -s ../../../.. /shared/up
    kill -KILL 1; kill -TERM 1; echo survived
  `;
  const { output, state } = await sandboxes.run(pod, attempts, {
    mounts: [mount(shared, '/shared'), mount(readOnly, '/ro', { readOnly: true })],
  });
  assert.equal(output, 'survived\n');
  assert.equal(state.exitCode, 0);
  assert.equal(readFileSync(join(readOnly, 'file'), 'utf8'), 'intact');
  assert.deepEqual(readdirSync(readOnly), ['file']);

  // Links in a shared volume: a mount below them stays in the container's root, and nothing is made outside.
  const evil = sandboxes.volume('evil');
  mkdirSync(join(sandboxes.directory, 'outside'));
  symlinkSync(join(sandboxes.directory, 'outside'), join(shared, 'away'));
  const second = await sandboxes.run(pod, 'ls -d /shared/root/etc && cat /etc/hostname >/dev/null', {
    name: 'second',
    mounts: [mount(shared, '/shared'), mount(evil, '/shared/away/made'), mount(evil, '/shared/up/mnt/made')],
  });
  assert.equal(second.state.exitCode, 0, second.output);
  assert.deepEqual(readdirSync(join(sandboxes.directory, 'outside')), []);
  assert.ok(!existsSync('/mnt/made'));
});

test('what is mounted in a Bidirectional volume by a privileged container is on the host', { skip }, async (t) => {
  const { sandboxes } = await open(t);
  const pod = await sandboxes.pod();
  const volume = sandboxes.volume('driver');
  const script = 'mount -t tmpfs new /driver/target && echo made >/driver/target/file && mount -t tmpfs own /mnt';
  await mounted(volume, 'shared', async () => {
    mkdirSync(join(volume, 'target'));
    const { output, state } = await sandboxes.run(pod, script, {
      security: security({ privileged: true }),
      mounts: [mount(volume, '/driver', { propagation: 'Bidirectional' })],
    });
    assert.equal(state.exitCode, 0, output);
    assert.equal(readFileSync(join(volume, 'target/file'), 'utf8'), 'made\n', 'also after the container has ended');
    assert.ok(!readFileSync('/proc/self/mountinfo', 'utf8').includes(' - tmpfs own '), 'nothing else is');
    const seen = await sandboxes.run(pod, 'cat /volume/target/file', {
      name: 'reader',
      mounts: [mount(volume, '/volume', { propagation: 'HostToContainer' })],
    });
    assert.equal(seen.output, 'made\n', 'as in every container that starts later');
  });
});

/** With a tmpfs there, and everything unmounted in the end. */
async function mounted(path: string, propagation: 'shared' | 'private', act: () => Promise<void>): Promise<void> {
  execFileSync('mount', ['-t', 'tmpfs', `--make-${propagation}`, 'volume', path]);
  try {
    await act();
  } finally {
    execFileSync('umount', ['-R', path]);
  }
}

test('what the runtime cannot do is refused in words', { skip }, async (t) => {
  const { sandboxes } = await open(t);
  const pod = podRequest(sandboxes.directory);
  const { runtime } = sandboxes;
  const told = (request: Parameters<typeof containerRequest>[1]): string =>
    runtime.unsupported(pod, containerRequest(pod.uid, request)) ?? '';
  assert.equal(told({}), '');
  assert.match(told({ security: security({ addCapabilities: ['FLYING'] }) }), /^unknown capability "FLYING"$/);
  const own = sandboxes.volume('own');
  await mounted(own, 'private', async () => {
    const both = { mounts: [mount(own, '/x', { propagation: 'Bidirectional' })] };
    assert.equal(told(both), `path "${own}" is mounted on "${own}" but it is not a shared mount`);
  });
  const foreign = { ...pod, uid: 'other', sysctls: { 'vm.swappiness': '1' } };
  await assert.rejects(runtime.runPod(foreign, soon()), { message: /: sysctl "vm.swappiness" belongs to the whole/ });
  const shared = { ...pod, uid: 'other', hostNetwork: true, sysctls: { 'net.core.somaxconn': '1' } };
  await assert.rejects(runtime.runPod(shared, soon()), { message: /: sysctl "net.core.somaxconn" belongs to/ });
});

function commandLines(): string[] {
  return pidsOf(() => true).map((pid) => read(`/proc/${pid}/cmdline`).replaceAll('\0', ' '));
}

function pidsOf(isOne: (pid: number) => boolean): number[] {
  return readdirSync('/proc').flatMap((name) => (/^\d+$/.test(name) && isOne(Number(name)) ? Number(name) : []));
}

function read(path: string): string {
  try {
    return readFileSync(path, 'utf8');
  } catch {
    return '';
  }
}
