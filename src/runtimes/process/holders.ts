/**
 * Processes that only hold something for containers: the namespaces that the containers of a pod share, and, in memory, the files
 * that their roots are made of. In a user namespace nothing can be taken from a process outside of it, so an ordinary
 * user's pods each have a copy of the files of their own.
 */
import { getSystemErrorName } from 'node:util';
import { messageOf } from '../../base/errors.ts';
import { type ProcessName, processNamed } from '../../linux/process-table.ts';
import { errnoText } from '../../linux/system-call-error.ts';
import { readFailure } from '../../linux/system-program.ts';
import { RuntimeError } from '../runtime.ts';
import { failureText } from './container-translation.ts';
import { interfaceFailure } from './network/pod-interface.ts';
import { type Hold, type PodNamespaces, type Powers, holdProgram } from './sandbox/container-program.ts';
import type { HostFilesView } from './sandbox/host-files.ts';
import type { SpawnerClient } from './spawner/spawner-client.ts';

const podPrefix = 'pod-';
const filesPrefix = 'files-';

export class Holders {
  readonly #spawner: SpawnerClient;
  readonly #powers: Powers;
  readonly #work: string;
  readonly #files: HostFilesView;
  #holdingFiles: Promise<void> | undefined;

  constructor(spawner: SpawnerClient, powers: Powers, work: string, files: HostFilesView) {
    this.#spawner = spawner;
    this.#powers = powers;
    this.#work = work;
    this.#files = files;
  }

  /** The pod that a child of the spawner holds; undefined for one that holds none. */
  podOf(id: string): string | undefined {
    return id.startsWith(podPrefix) ? id.slice(podPrefix.length) : undefined;
  }

  isFiles(id: string): boolean {
    return id === this.#filesId;
  }

  /** Whether what a pod's containers share is there. */
  holds(podUid: string): boolean {
    return this.#isAlive(`${podPrefix}${podUid}`);
  }

  /** What a container of the pod joins: the pod's holder, and the one that keeps the files of its root, if there is one. */
  async joinedBy(podUid: string): Promise<readonly string[]> {
    const pod = `${podPrefix}${podUid}`;
    if (this.#files.entries.length === 0) return [pod];
    if (this.#powers.kind === 'user') return [pod, pod];
    this.#holdingFiles ??= this.#holdFiles().finally(() => {
      this.#holdingFiles = undefined;
    });
    await this.#holdingFiles;
    return [pod, this.#filesId];
  }

  /** Undefined for a holder that has ended since. */
  async holdPod(
    uid: string,
    hold: Pick<Hold, 'pod' | 'hostname' | 'sysctls' | 'network'>,
    what: string,
  ): Promise<ProcessName | undefined> {
    const files = this.#powers.kind === 'user' ? { files: this.#files.entries } : {};
    return await this.#hold(`${podPrefix}${uid}`, { purpose: 'pod', ...hold, ...files }, what);
  }

  async endPod(uid: string): Promise<void> {
    await this.end(`${podPrefix}${uid}`);
  }

  async end(id: string): Promise<void> {
    await this.#spawner.forget(id);
  }

  /** An ordinary user whom the machine permits no namespaces is to know that at the start, and not from each pod. */
  async tryNamespaces(): Promise<void> {
    const pod = { hostPid: false, hostIpc: false, hostNetwork: false, shareProcessNamespace: false };
    try {
      await this.#hold('trial', { purpose: 'pod', pod, hostname: '', sysctls: {} }, 'a trial');
    } catch (thrown) {
      throw new RuntimeError(
        `Cannot run containers as an ordinary user: this machine permits no user namespaces (${messageOf(thrown)}); run as root, or ` +
          'ask its administrator for user.max_user_namespaces > 0 and, where they exist, kernel.unprivileged_userns_clone=1 and ' +
          'kernel.apparmor_restrict_unprivileged_userns=0',
        { cause: thrown },
        'NamespacesRefused',
      );
    }
    await this.end('trial');
  }

  async #holdFiles(): Promise<void> {
    if (this.#isAlive(this.#filesId)) return;
    const pod: PodNamespaces = { hostPid: true, hostIpc: true, hostNetwork: true, shareProcessNamespace: false };
    const hold = { purpose: 'files', pod, files: this.#files.entries, hostname: '', sysctls: {} } as const;
    await this.#hold(this.#filesId, hold, 'the files of containers');
  }

  async #hold(id: string, hold: Omit<Hold, 'work'>, what: string): Promise<ProcessName | undefined> {
    const program = holdProgram({ ...hold, work: this.#work }, this.#powers);
    const keepsSpawner = hold.purpose === 'pod';
    const answer = await this.#spawner.start(id, program, {
      stdin: 'none',
      tty: false,
      joins: [],
      keepsSpawner,
      context: {},
    });
    if (answer.outcome === 'started') return processNamed(answer.pid);
    await this.#spawner.forget(id);
    const report = Buffer.from(answer.report, 'hex');
    const refused = hold.network && interfaceFailure(report, hold.network);
    if (refused !== undefined) {
      const code = getSystemErrorName(-refused.errno);
      throw new RuntimeError(`Cannot make the network of ${what}: Cannot ${refused.what}: ${errnoText(code)}`);
    }
    const failure = readFailure(report, program.steps);
    throw new RuntimeError(`Cannot make the namespaces of ${what}: ${failureText(failure, answer)}`);
  }

  #isAlive(id: string): boolean {
    const facts = this.#spawner.get(id);
    return facts?.pid !== undefined && facts.end === undefined;
  }

  get #filesId(): string {
    return `${filesPrefix}${this.#files.name}`;
  }
}
