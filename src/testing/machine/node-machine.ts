/**
 * Machines for nodes, as far as a kernel has several: process, mount and network namespaces of their own, joined by a bridge
 * of this one. To kill one is to cut its power: every process ends at once, and its mounts go with them.
 */
import assert from 'node:assert/strict';
import { type ChildProcess, execFileSync, spawn, spawnSync } from 'node:child_process';
import { randomBytes, randomInt } from 'node:crypto';
import { once } from 'node:events';
import { readFileSync, readdirSync } from 'node:fs';
import { networkInterfaces, tmpdir } from 'node:os';
import { createInterface } from 'node:readline';
import type { TestContext } from 'node:test';
import { parseMountTable } from '../../disk/mounts/mount-table.ts';

/** For `skip`: false where such machines can be made, else the reason. */
export function needsNodeMachines(): string | false {
  if (process.geteuid?.() !== 0) return 'needs root: it makes network namespaces';
  const probe = 'ip link add probe type bridge && ip link add probe-1 type veth peer name probe-2';
  const { status, stderr, error } = spawnSync('unshare', [...namespaces, 'nsenter', '--version'], { encoding: 'utf8' });
  if (status !== 0) return `needs unshare and nsenter: ${(error?.message ?? stderr).trim()}`;
  const links = spawnSync('unshare', ['--net', 'sh', '-c', probe], { encoding: 'utf8' });
  return links.status === 0 ? false : `needs the program ip, bridges and veth: ${links.stderr.trim()}`;
}

const namespaces = ['--pid', '--fork', '--kill-child', '--mount', '--propagation', 'slave', '--mount-proc', '--net'];

/**
 * For a shell, first of all in a mount namespace of its own: what other tests have mounted would be kept in use by a copy of it.
 * Some of it goes by itself meanwhile.
 */
export const leaveOthersMounts =
  `awk -v under='${tmpdir()}/' 'index($2, under) == 1 { print $2 }' /proc/mounts | ` +
  'sort -r | xargs -r umount --lazy || :';

// Mounts of the node reach its pods, and not this machine. The init process collects what it inherits while it waits, and ends with the test, which holds the other end of its input.
const init = `
  ${leaveOthersMounts}
  mount --make-rshared /
  exec 3<&0
  cat <&3 >/dev/null &
  echo ready
  wait`;

/** A bridge of this machine with an address for each node. */
export class NodeNetwork {
  readonly bridge = `mt-${randomBytes(2).toString('hex')}`;
  readonly #subnet = freeSubnet();
  readonly #hosts = new Set<number>();

  constructor(test: Pick<TestContext, 'after'>) {
    test.after(() => {
      for (const host of this.#hosts) this.#leave(host);
      spawnSync('ip', ['link', 'delete', this.bridge]);
      const left = readdirSync('/sys/class/net').filter((name) => name.startsWith(this.bridge));
      assert.deepEqual(left, []);
    });
    ip('link', 'add', this.bridge, 'type', 'bridge');
    ip('address', 'add', `${this.address(1)}/24`, 'dev', this.bridge);
    ip('link', 'set', this.bridge, 'up');
  }

  /** 1 is this machine. */
  address(host: number): string {
    return `${this.#subnet}.${host}`;
  }

  join(host: number, pid: number): void {
    if (this.#hosts.has(host)) this.#leave(host);
    this.#hosts.add(host);
    const end = this.#end(host);
    ip('link', 'add', end, 'type', 'veth', 'peer', 'name', 'eth0', 'netns', String(pid));
    ip('link', 'set', end, 'master', this.bridge, 'up');
    const inside = (...args: readonly string[]): Buffer =>
      execFileSync('nsenter', [`--target=${pid}`, '--net', '--', 'ip', ...args]);
    inside('address', 'add', `${this.address(host)}/24`, 'dev', 'eth0');
    for (const name of ['lo', 'eth0']) inside('link', 'set', name, 'up');
    inside('route', 'add', 'default', 'via', this.address(1));
  }

  /** Connections whose end was never acknowledged keep a namespace alive, and its link, for minutes after its processes. */
  #leave(host: number): void {
    spawnSync('ip', ['link', 'delete', this.#end(host)]);
  }

  #end(host: number): string {
    return `${this.bridge}-${host}`;
  }
}

/** Of those that RFC 2544 sets aside for tests of networks. */
function freeSubnet(): string {
  const taken = Object.values(networkInterfaces()).flatMap((addresses = []) => addresses.map(({ address }) => address));
  for (;;) {
    const subnet = `198.18.${randomInt(256)}`;
    if (!taken.some((address) => address.startsWith(`${subnet}.`))) return subnet;
  }
}

function ip(...args: readonly string[]): void {
  execFileSync('ip', args);
}

export class NodeMachine {
  readonly address: string;
  /** Of its first process, as this machine counts. */
  readonly pid: number;
  readonly #process: ChildProcess;

  private constructor(process: ChildProcess, pid: number, address: string) {
    this.#process = process;
    this.pid = pid;
    this.address = address;
  }

  static async start(test: Pick<TestContext, 'after'>, network: NodeNetwork, host: number): Promise<NodeMachine> {
    const child = spawn('unshare', [...namespaces, 'sh', '-ec', init], {
      stdio: 'pipe',
    });
    test.after(() => void child.kill('SIGKILL'));
    let errors = '';
    child.stderr.setEncoding('utf8').on('data', (text: string) => (errors += text));
    const [line] = (await Promise.race([once(createInterface(child.stdout), 'line'), once(child, 'exit')])) as [
      unknown,
    ];
    assert.equal(line, 'ready', `the namespaces of a node were not made: ${errors}`);
    const pid = Number(readFileSync(`/proc/${child.pid}/task/${child.pid}/children`, 'utf8').trim());
    network.join(host, pid);
    return new NodeMachine(child, pid, network.address(host));
  }

  /** Words before a program that is to run on it. */
  get under(): readonly string[] {
    return ['nsenter', `--target=${this.pid}`, '--pid', '--mount', '--net', '--'];
  }

  mountsBelow(directory: string): readonly string[] {
    return parseMountTable(readFileSync(`/proc/${this.pid}/mountinfo`, 'utf8'))
      .map(({ mountPoint }) => mountPoint)
      .filter((path) => path.startsWith(`${directory}/`));
  }

  /** Resolves when nothing runs on it any more. */
  async kill(): Promise<void> {
    if (this.#process.exitCode !== null || this.#process.signalCode !== null) return;
    const ended = once(this.#process, 'exit');
    process.kill(this.pid, 'SIGKILL');
    await ended;
  }
}
