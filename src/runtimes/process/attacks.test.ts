/** Containers that mean harm, as root and as an ordinary user: what they hold, what they see and what they can do. */
import assert from 'node:assert/strict';
import {
  closeSync,
  mkdirSync,
  openSync,
  readFileSync,
  readdirSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { systemClock } from '../../base/clock.ts';
import { loadKoffi } from '../../linux/system-calls.ts';
import {
  ProcessSandboxes,
  containerRequest,
  mount,
  podRequest,
  security,
  soon,
} from '../../testing/machine/process-sandboxes.ts';
import type { ContainerRequest, ContainerSecurity } from '../runtime.ts';
import { findPowers } from './machine.ts';
import { capabilityNames } from './sandbox/security.ts';

const skip = process.getuid?.() === 0 ? false : 'needs root: ordinary-user.test.ts has what holds for others';
const hardened = { noNewPrivileges: true, readOnlyRootFilesystem: true, dropCapabilities: ['ALL'] };

async function openSandboxes(
  t: TestContext,
  settings: Parameters<typeof ProcessSandboxes.open>[1] = {},
): Promise<{ sandboxes: ProcessSandboxes; pod: string }> {
  const sandboxes = await ProcessSandboxes.open(t, settings);
  return { sandboxes, pod: await sandboxes.pod() };
}

/** A descriptor that programs started by this one inherit, as a library may have opened it. */
function leak(t: TestContext, path: string): number {
  const control = loadKoffi().load(null).func('fcntl', 'int', ['int', 'int', 'int']);
  const descriptor = openSync(path, 'r+');
  t.after(() => closeSync(descriptor));
  assert.equal(control(descriptor, 2, 0), 0); // F_SETFD without FD_CLOEXEC
  return descriptor;
}

for (const uid of [0, 1000]) {
  test(
    `uid ${uid}: nothing but its streams is open in a container or a command, whatever this program has open`,
    { skip },
    async (t) => {
      const file = join(process.cwd(), 'package.json');
      for (let count = 0; count < 5; count += 1) leak(t, file);
      const { sandboxes, pod } = await openSandboxes(t);
      leak(t, file);
      const script = `exec perl -e 'for (0..255) { my $l = readlink("/proc/$$/fd/$_"); print "$_ $l\\n" if defined $l }'`;
      const owner = { security: security({ uid, ...hardened }) };
      const main = await sandboxes.run(pod, script, owner);
      const id = await sandboxes.start(pod, { name: 'idle', ...owner });
      const command = await sandboxes.exec(id, ['sh', '-c', script]);
      const terminal = await sandboxes.exec(id, ['sh', '-c', script], { tty: true });
      for (const output of [main.output, command.output, terminal.output.replaceAll('\r', '')]) {
        const open = output.trim().split('\n');
        assert.deepEqual(
          open.map((line) => line.split(' ')[0]),
          ['0', '1', '2'],
          output,
        );
        for (const line of open) assert.match(line, /^\d (pipe:|\/dev\/null|\/dev\/pts\/)/);
      }
    },
  );

  test(
    `uid ${uid}: all capability sets, seccomp and no_new_privs are the same in the container and in commands`,
    { skip },
    async (t) => {
      const { sandboxes, pod } = await openSandboxes(t);
      const script = 'grep -E "^(Cap|NoNew|Seccomp:|Groups|Uid|Gid)" /proc/self/status';
      const cases: readonly Partial<ContainerSecurity>[] = [
        {},
        hardened,
        { dropCapabilities: ['ALL'], addCapabilities: ['NET_BIND_SERVICE'] },
        { noNewPrivileges: true },
        { seccomp: { type: 'Unconfined', profile: '' } },
        { privileged: true },
      ];
      for (const [index, given] of cases.entries()) {
        const request = {
          name: `c${index}`,
          security: security({ uid, gid: 7, supplementalGroups: [8, 9], ...given }),
        };
        const main = await sandboxes.run(pod, script, request);
        const id = await sandboxes.start(pod, { ...request, attempt: 100 });
        const command = await sandboxes.exec(id, ['sh', '-c', script]);
        assert.equal(command.output, main.output);
        const field = (name: string): string => new RegExp(`^${name}:\\s*(.*?)\\s*$`, 'm').exec(main.output)?.[1] ?? '';
        const isConfined = given.privileged !== true && given.seccomp?.type !== 'Unconfined';
        assert.equal(field('Seccomp'), isConfined ? '2' : '0');
        assert.equal(field('NoNewPrivs'), given.noNewPrivileges === true ? '1' : '0');
        assert.equal(field('Groups'), '8 9');
        if (given === hardened) {
          for (const set of ['CapInh', 'CapPrm', 'CapEff', 'CapBnd', 'CapAmb'])
            assert.equal(BigInt(`0x${field(set)}`), 0n);
        }
        if (given.addCapabilities !== undefined) {
          for (const set of ['CapPrm', 'CapEff', 'CapBnd']) assert.equal(BigInt(`0x${field(set)}`), 1n << 10n, set);
        }
      }
    },
  );
}

test('a user who is not root can serve a port below 1024 when the pod adds NET_BIND_SERVICE', { skip }, async (t) => {
  const { sandboxes, pod } = await openSandboxes(t);
  const program =
    'use Socket; socket(S, PF_INET, SOCK_STREAM, 0); bind(S, sockaddr_in(943, inet_aton("127.0.0.9"))) ? print "bound\\n" : print "$!\\n"';
  const run = async (given: Partial<ContainerSecurity>): Promise<string> =>
    (await sandboxes.run(pod, `perl -e '${program}'`, { security: security({ uid: 1000, ...given }) })).output;
  assert.equal(await run({ dropCapabilities: ['ALL'], addCapabilities: ['NET_BIND_SERVICE'] }), 'bound\n');
  assert.equal(await run({ dropCapabilities: ['ALL'] }), 'Permission denied\n');
});

test(
  'the program is the first process of its container and gets every signal; a terminal is one',
  { skip },
  async (t) => {
    const { sandboxes, pod } = await openSandboxes(t);
    const script = 'trap "echo reloaded" HUP; echo $$; while :; do sleep 0.05; done';
    const id = await sandboxes.start(pod, { command: ['sh', '-c', script] });
    const printed = async (text: string): Promise<void> => {
      while (!(await sandboxes.output(pod, id)).includes(text)) await systemClock.sleep(5);
    };
    await printed('1\n'); // its trap is set
    await sandboxes.exec(id, ['kill', '-HUP', '1']);
    await printed('reloaded\n');
    assert.match(await sandboxes.output(pod, id), /^1\nreloaded\n/);
    const terminal = await sandboxes.exec(id, ['sh', '-c', 'tty; echo $TERM; echo >/dev/tty; ps -o tty= -p $$'], {
      tty: true,
    });
    assert.match(terminal.output, /^\/dev\/pts\/0\r\nxterm\r\n\r\npts\/0/);
    const owner = await sandboxes.run(pod, 'tty', { tty: true, name: 'tty', security: security({ uid: 1000 }) });
    assert.equal(owner.output.trim(), '/dev/pts/0');
  },
);

test('where processes are shared, the first one has no root, no user and no capabilities', { skip }, async (t) => {
  const sandboxes = await ProcessSandboxes.open(t);
  const pod = await sandboxes.pod({ shareProcessNamespace: true });
  const victim = await sandboxes.start(pod, { name: 'victim', environment: [{ name: 'SECRET', value: 'hush' }] });
  const { output } = await sandboxes.run(
    pod,
    'ls -A /proc/1/root; cat /proc/1/root/etc/passwd; grep -E "^(Uid|Cap(Prm|Eff|Bnd)|Seccomp:)" /proc/1/status; ls /proc/1/fd; echo $$',
    { security: security({ addCapabilities: ['SYS_PTRACE'] }) },
  );
  assert.doesNotMatch(output, /root:x:0|usr|etc\n/);
  assert.match(output, /Uid:\s+65534\s+65534\s+65534\s+65534/);
  assert.equal(output.match(/Cap\w+:\s+0{16}/g)?.length, 3, output);
  assert.match(output, /Seccomp:\s+2/);
  assert.ok(victim);
});

/** Everything here would be an escape, or damage; each line that says `done` is one. */
const attempts = (directory: string): string => `
  try() { if "$@" >/dev/null 2>&1; then echo "done: $*"; fi; }
  try mount -t tmpfs t /mnt
  try mount -o remount,rw /usr
  try umount -l /proc
  try mount --bind /proc/1/root /mnt
  try sh -c 'mknod /dev/shm/disk b 254 0 && head -c 512 /dev/shm/disk'
  try sh -c 'mknod /tmp/disk b 254 0 && head -c 512 /tmp/disk'
  try sh -c 'mknod /work/disk b 254 0 && head -c 512 /work/disk'
  try sh -c 'mknod /tmp/mem c 1 1 && head -c 1 /tmp/mem'
  try sh -c 'echo c >/proc/sysrq-trigger'
  try sh -c 'echo 1 >/proc/sys/kernel/sysrq'
  try sh -c 'echo x >/proc/sys/kernel/core_pattern'
  try sh -c 'echo x >/sys/kernel/uevent_helper'
  try sh -c 'mkdir /sys/fs/cgroup/x || mkdir /sys/fs/cgroup/memory/x'
  try cat /proc/kcore
  try chmod 666 /dev/null
  try chown 0:0 /dev/zero
  try cat /etc/shadow
  try nsenter -t 1 -m -- ls ${directory}
  try unshare -m true
  try unshare -U true
  try unshare -r true
  try hostname evil
  try date -s 2000-01-01
  try dmesg
  try ls ${directory}
  for pid in /proc/[0-9]*; do try ls $pid/root${directory}; try ls $pid/cwd${directory}; done
  try perl -e 'exit(syscall(250, 0, 0) < 0)'
  try perl -e 'exit(syscall(425, 8, 0) < 0 && $!{EPERM})'
  try perl -e 'exit(syscall(304, 0, 0, 0) < 0)'
  try perl -e 'exit(syscall(321, 0, 0, 0) < 0)'
  try perl -e 'exit(syscall(175, 0, 0, 0) < 0)'
  try perl -e 'exit(syscall(169, 0, 0, 0, 0) < 0)'
  try perl -e 'exit(syscall(56, 0x10000000 | 17, 0, 0, 0, 0) < 0)'
  echo over
`;

for (const uid of [0, 1000]) {
  for (const name of capabilityNames) {
    test(`uid ${uid} with capability ${name} alone is refused, or gets nowhere`, { skip }, async (t) => {
      const powers = findPowers();
      if ((powers.boundingSet & (1n << BigInt(capabilityNames.indexOf(name)))) === 0n)
        return t.skip('this machine does not have it to give');
      const { sandboxes, pod } = await openSandboxes(t);
      const request: Partial<ContainerRequest> = {
        security: security({ uid, dropCapabilities: ['ALL'], addCapabilities: [name] }),
        mounts: [mount(sandboxes.volume('work'), '/work')],
      };
      const refusal = sandboxes.runtime.unsupported(podRequest(sandboxes.directory), containerRequest(pod, request));
      if (refusal !== undefined) {
        assert.match(refusal, /^capability ".*" reaches the whole machine/);
        return;
      }
      const { output } = await sandboxes.run(pod, attempts(sandboxes.directory), request);
      assert.equal(output, name === 'SYS_CHROOT' || name === '' ? output.replace(/^done.*\n/gm, '') : 'over\n');
    });
  }

  test(`uid ${uid} with the usual capabilities gets nowhere`, { skip }, async (t) => {
    const { sandboxes, pod } = await openSandboxes(t);
    const mounts = [mount(sandboxes.volume('work'), '/work')];
    const { output } = await sandboxes.run(pod, attempts(sandboxes.directory), { security: security({ uid }), mounts });
    assert.equal(output, 'over\n');
  });
}

const refused: readonly { readonly it: string; readonly given: Partial<ContainerSecurity>; readonly says: RegExp }[] = [
  { it: 'an unknown capability', given: { addCapabilities: ['FLY'] }, says: /unknown capability "FLY"/ },
  { it: 'all capabilities', given: { addCapabilities: ['ALL'] }, says: /takes a privileged container/ },
  {
    it: 'a seccomp profile of its own',
    given: { seccomp: { type: 'Localhost', profile: 'a.json' } },
    says: /seccomp profiles of type Localhost/,
  },
  {
    it: 'an AppArmor profile of its own',
    given: { appArmor: { type: 'Localhost', profile: 'a' } },
    says: /AppArmor profiles/,
  },
  { it: 'an unmasked /proc', given: { procMount: 'Unmasked' }, says: /procMount: Unmasked/ },
  { it: 'SELinux options', given: { seLinux: { user: '', role: '', type: '', level: 's0' } }, says: /SELinux options/ },
];
for (const { it, given, says } of refused) {
  test(`a container that asks for ${it} is refused`, { skip }, async (t) => {
    const { sandboxes, pod } = await openSandboxes(t);
    const request = containerRequest(pod, { security: security(given) });
    assert.match(sandboxes.runtime.unsupported(podRequest(sandboxes.directory), request) ?? '', says);
  });
}

test('a pod that asks for a user namespace is refused', { skip }, async (t) => {
  const { sandboxes, pod } = await openSandboxes(t);
  const asked = podRequest(sandboxes.directory, { hostUsers: false });
  assert.match(sandboxes.runtime.unsupported(asked, containerRequest(pod)) ?? '', /hostUsers: false/);
});

test('of the machine, a container sees the system, everything but what is hidden, or nothing', { skip }, async (t) => {
  const script =
    'for f in /etc/passwd /usr/bin/env /etc/shadow /root/.bashrc /var/lib/dpkg /secret/key; do [ -e $f ] && echo $f; done; ls -A /root /home /var/lib /srv';
  const outside = await ProcessSandboxes.open(t);
  const secret = outside.volume('secret');
  writeFileSync(join(secret, 'key'), 'hush');
  const seen = async (settings: Parameters<typeof openSandboxes>[1]): Promise<string> => {
    const { sandboxes, pod } = await openSandboxes(t, settings);
    return (await sandboxes.run(pod, script)).output;
  };
  assert.match(await seen({}), /^\/etc\/passwd\n\/usr\/bin\/env\n\/home:\n\n\/root:\n\n\/srv:\n\n\/var\/lib:\n$/);
  assert.match(await seen({ hostFiles: 'all' }), /\/etc\/shadow\n[^]*\/var\/lib\/dpkg\n/);
  const { sandboxes, pod } = await openSandboxes(t, { hostPaths: [secret] });
  assert.equal((await sandboxes.run(pod, `cat ${secret}/key`)).output, 'hush');
  await assert.rejects(openSandboxes(t, { hostPaths: ['/no/such'] }), { message: /there is no such path/ });
  const none = await openSandboxes(t, { hostFiles: 'none' });
  await assert.rejects(none.sandboxes.run(none.pod, 'true'), { message: /executable file not found.*--host-path/ });
  const shell = await none.sandboxes.run(none.pod, '', {
    command: ['/lib64/ld-linux-x86-64.so.2', '/bin/ls', '/'],
    mounts: ['/usr', '/lib64', '/lib', '/bin'].map((path) => mount(path, path, { readOnly: true })),
  });
  assert.match(shell.output, /^bin\ndev\netc\n/);
});

test(
  'a volume that reaches our own state shows nothing of it, and one inside of it is refused',
  { skip },
  async (t) => {
    const { sandboxes, pod } = await openSandboxes(t);
    const state = join(sandboxes.directory, 'state');
    const look = `ls -A /host${state}; ls /host${sandboxes.directory}`;
    const around = { mounts: [mount('/', '/host')] };
    // The directory of logs is made while the container is launched.
    assert.match((await sandboxes.run(pod, look, around)).output, /^(logs\n)?state\n$/);
    const privileged = { ...around, security: security({ privileged: true }) };
    assert.match((await sandboxes.run(pod, look, privileged)).output, /^containers\n/);
    const inside = containerRequest(pod, { mounts: [mount(join(state, 'containers'), '/mnt')] });
    assert.match(
      sandboxes.runtime.unsupported(podRequest(sandboxes.directory), inside) ?? '',
      /belongs to mountlet itself/,
    );
  },
);

test('what a container puts in place of its terminals holds up nothing', { skip }, async (t) => {
  const { sandboxes, pod } = await openSandboxes(t);
  const id = await sandboxes.start(pod);
  const { code } = await sandboxes.exec(id, ['sh', '-c', 'rm /dev/ptmx && mkfifo /dev/ptmx']);
  assert.equal(code, 0);
  await assert.rejects(sandboxes.exec(id, ['true'], { tty: true }), { reason: 'CommandStartFailed' });
  assert.equal((await sandboxes.exec(id, ['true'])).code, 0);
});

test('a container that prints without end waits for its log, which stays within its bounds', { skip }, async (t) => {
  const limits = { logSizeBytesMax: 256 * 1024, logFilesMax: 3 };
  const { sandboxes, pod } = await openSandboxes(t, limits);
  const id = await sandboxes.start(pod, {
    command: ['sh', '-c', 'yes aaaaaaaaaaaaaaaaaaaaaaaaaaaaaa & yes b >/dev/stderr'],
  });
  const logs = join(sandboxes.directory, 'logs', pod, 'main');
  const sizes = (): number[] =>
    readdirSync(logs).flatMap((name) => statSync(join(logs, name), { throwIfNoEntry: false })?.size ?? []);
  const rotated = new Set<string>();
  while (rotated.size < 20) {
    for (const name of readdirSync(logs)) rotated.add(name);
    const sum = sizes().reduce((total, size) => total + size, 0);
    assert.ok(sum <= 4 * (limits.logSizeBytesMax + 256 * 1024), `${sum}`);
    await new Promise((resolve) => setTimeout(resolve, 2));
  }
  await sandboxes.runtime.stopContainer(id, 0, soon());
  assert.equal((await sandboxes.run(pod, 'echo still here', { name: 'next' })).output, 'still here\n');
});

test(
  'nothing that a container writes is read: its records are made by the spawner before and after it runs',
  { skip },
  async (t) => {
    const { sandboxes, pod } = await openSandboxes(t);
    const { state } = await sandboxes.run(
      pod,
      'for fd in 3 4 5 6 7 8 9; do echo "namespace mnt:[1]" >&$fd; done 2>/dev/null; truncate -s 1G /proc/1/fd/* 2>/dev/null; exit 3',
      { security: security({ uid: 1000, ...hardened }) },
    );
    assert.equal(state.exitCode, 3);
    for (const name of readdirSync(join(sandboxes.directory, 'state'), { recursive: true, withFileTypes: true })) {
      if (!name.isFile()) continue;
      // The file with its exit code goes as soon as the runtime has it.
      const status = statSync(join(name.parentPath, name.name), { throwIfNoEntry: false });
      assert.ok((status?.size ?? 0) < 1 << 20, name.name);
    }
  },
);

for (const pods of [{}, { shareProcessNamespace: true }, { hostPid: true }]) {
  test(
    `a container that is stopped at any moment of its launch ends with 137 and leaves nothing: ${JSON.stringify(pods)}`,
    { skip },
    async (t) => {
      const sandboxes = await ProcessSandboxes.open(t);
      const uids = Array.from({ length: 30 }, (_, index) => `p${index}`);
      const command = ['sleep', `${1_000_000 + process.pid}`]; // others on this machine sleep too
      await Promise.all(
        uids.map(async (uid, index) => {
          await sandboxes.pod({ uid, ...pods });
          const id = await sandboxes.runtime.createContainer(containerRequest(uid, { command }));
          const started = sandboxes.runtime.startContainer(id, soon()).catch(() => {});
          await new Promise((resolve) => setTimeout(resolve, index % 10));
          await sandboxes.runtime.stopContainer(id, 0, soon());
          await started;
          const { exitCode } = await sandboxes.ended(uid, id);
          assert.equal(exitCode, 137);
          await sandboxes.runtime.removePod(uid, soon());
        }),
      );
      assert.deepEqual(await sandboxes.runtime.list(), []);
      const lines = readdirSync('/proc').filter((pid) => {
        if (!/^\d+$/.test(pid)) return false;
        try {
          return readFileSync(`/proc/${pid}/cmdline`, 'utf8') === command.map((word) => `${word}\0`).join('');
        } catch {
          return false;
        }
      });
      assert.deepEqual(lines, []);
    },
  );
}

test('a link that a container puts where a volume is to be mounted leads nowhere', { skip }, async (t) => {
  const { sandboxes, pod } = await openSandboxes(t);
  const shared = sandboxes.volume('shared');
  const config = sandboxes.volume('config');
  writeFileSync(join(config, 'file'), 'mine');
  mkdirSync(join(shared, 'a'));
  symlinkSync('/etc', join(shared, 'a', 'b'));
  const { output } = await sandboxes.run(pod, 'cat /shared/a/b/inner/file; cat /etc/inner/file', {
    mounts: [mount(shared, '/shared'), mount(config, '/shared/a/b/inner')],
  });
  assert.equal(output, 'minemine'); // in the container's own /etc, where the link leads inside of its root
});
