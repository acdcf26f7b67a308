/** A process runtime in a directory of its own, with everything it started taken away after the test. */
import { mkdirSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Writable } from 'node:stream';
import { systemClock } from '../../base/clock.ts';
import { openProcessRuntime } from '../../runtimes/process/machine.ts';
import {
  type PodProblem,
  type ProcessRuntime,
  type ProcessRuntimeSettings,
  defaultProcessRuntimeSettings,
} from '../../runtimes/process/process-runtime.ts';
import type {
  ContainerRequest,
  ContainerSecurity,
  ContainerState,
  ExecRequest,
  PodRequest,
  RuntimeMount,
} from '../../runtimes/runtime.ts';

export type ExitedState = Extract<ContainerState, { readonly kind: 'exited' }>;

/** For what has to happen soon: a test that waits for longer has found a failure. */
export const soon = (): AbortSignal => AbortSignal.timeout(120_000);

export class ProcessSandboxes {
  readonly directory: string;
  /** What the runtime has reported of its pods. */
  readonly problems: PodProblem[];
  runtime: ProcessRuntime;
  readonly #settings: Partial<ProcessRuntimeSettings>;
  #started = 0;

  private constructor(
    directory: string,
    settings: Partial<ProcessRuntimeSettings>,
    runtime: ProcessRuntime,
    problems: PodProblem[],
  ) {
    this.directory = directory;
    this.#settings = settings;
    this.problems = problems;
    this.runtime = runtime;
  }

  static async open(
    test: { after(act: () => Promise<void>): void },
    settings: Partial<ProcessRuntimeSettings> = {},
    directory = mkdtempSync(join(tmpdir(), 'mountlet-sandboxes-')),
  ): Promise<ProcessSandboxes> {
    const problems: PodProblem[] = [];
    const sandboxes = new ProcessSandboxes(
      directory,
      settings,
      await openRuntime(directory, settings, problems),
      problems,
    );
    test.after(async () => {
      try {
        for (const { uid } of await sandboxes.runtime.list()) await sandboxes.runtime.removePod(uid, soon());
      } finally {
        await sandboxes.runtime.close(); // open, it would keep the program of the test from ending
        rmSync(directory, { recursive: true, force: true });
      }
    });
    return sandboxes;
  }

  /** As after a restart of the program; containers go on meanwhile. */
  async reopen(): Promise<void> {
    await this.runtime.close();
    this.runtime = await openRuntime(this.directory, this.#settings, this.problems);
  }

  /** A directory outside of the runtime's own, for volumes. */
  volume(name: string): string {
    const path = join(this.directory, 'volumes', name);
    mkdirSync(path, { recursive: true });
    return path;
  }

  async pod(request: Partial<PodRequest> = {}): Promise<string> {
    const pod = podRequest(this.directory, request);
    await this.runtime.runPod(pod, soon());
    return pod.uid;
  }

  async start(podUid: string, request: Partial<ContainerRequest> = {}): Promise<string> {
    this.#started += 1;
    const id = await this.runtime.createContainer(containerRequest(podUid, { attempt: this.#started, ...request }));
    await this.runtime.startContainer(id, soon());
    return id;
  }

  async ended(podUid: string, id: string): Promise<ExitedState> {
    const changes = this.runtime.changes(soon());
    const now = async (): Promise<ContainerState | undefined> =>
      (await this.runtime.get(podUid))?.containers.find((container) => container.id === id)?.state;
    const before = await now();
    if (before?.kind === 'exited') return before;
    for await (const changed of changes) {
      const state = changed === podUid ? await now() : undefined;
      if (state?.kind === 'exited') return state;
    }
    throw new Error('the container did not end');
  }

  /** Until a container without a command ends at a signal: what its first process has no trap for yet, it does not get. */
  async idles(id: string): Promise<void> {
    await this.exec(id, ['sh', '-c', 'until pgrep -x sleep; do :; done']);
  }

  /** Runs a script in a container of its own to its end. */
  async run(
    podUid: string,
    script: string,
    request: Partial<ContainerRequest> = {},
  ): Promise<{ state: ExitedState; output: string }> {
    const id = await this.start(podUid, { command: ['sh', '-c', script], ...request });
    return { state: await this.ended(podUid, id), output: await this.output(podUid, id) };
  }

  /** What a container printed, without the marks of the log. */
  async output(podUid: string, id: string): Promise<string> {
    return (await this.log(podUid, id)).replace(
      /^\S+ std(?:out|err) F ([^\n]*\n)|^\S+ std(?:out|err) P ([^\n]*)\n/gm,
      '$1$2',
    );
  }

  async log(podUid: string, id: string): Promise<string> {
    const container = (await this.runtime.get(podUid))?.containers.find((one) => one.id === id);
    return readFileSync(container?.logPath ?? '', 'utf8');
  }

  async exec(
    id: string,
    command: readonly string[],
    request: Partial<ExecRequest> = {},
  ): Promise<{ code: number; output: string }> {
    const output = collector();
    const streams = { stdout: output.stream, ...(request.tty ? {} : { stderr: output.stream }) };
    const { exitCode } = await this.runtime.exec(id, { command, tty: false, ...streams, ...request }, soon());
    return { code: exitCode, output: output.text() };
  }
}

async function openRuntime(
  directory: string,
  settings: Partial<ProcessRuntimeSettings>,
  problems: PodProblem[],
): Promise<ProcessRuntime> {
  const stateDirectory = join(directory, 'state');
  return await openProcessRuntime(
    { ...defaultProcessRuntimeSettings, stateDirectory, ...settings },
    { clock: systemClock, report: (problem) => problems.push(problem) },
  );
}

export function collector(): { readonly stream: Writable; text(): string } {
  const chunks: Buffer[] = [];
  const stream = new Writable({
    write(chunk: Buffer, _, done) {
      chunks.push(chunk);
      done();
    },
  });
  return { stream, text: () => Buffer.concat(chunks).toString() };
}

export function podRequest(directory: string, request: Partial<PodRequest> = {}): PodRequest {
  const uid = request.uid ?? 'pod-1';
  return {
    uid,
    namespace: 'shop',
    name: 'web',
    hostname: 'web-0',
    hostNetwork: false,
    hostPid: false,
    hostIpc: false,
    shareProcessNamespace: false,
    hostUsers: true,
    sysctls: {},
    labels: {},
    annotations: {},
    resources: {},
    containersTotal: {},
    overhead: {},
    qosClass: 'BestEffort',
    dns: { servers: [], searches: [], options: [] },
    ports: [],
    runtimeHandler: '',
    security: {
      privileged: false,
      uid: undefined,
      gid: undefined,
      supplementalGroups: [],
      supplementalGroupsPolicy: 'Merge',
      seLinux: undefined,
    },
    directory: join(directory, 'pods', uid),
    logDirectory: join(directory, 'logs', uid),
    ...request,
  };
}

export function containerRequest(podUid: string, request: Partial<ContainerRequest> = {}): ContainerRequest {
  return {
    podUid,
    name: 'main',
    attempt: 0,
    image: 'nginx:1.8',
    imageId: 'nginx:1.8',
    command: [],
    args: [],
    program: request.command?.[0] ?? request.args?.[0] ?? '',
    workingDirectory: '',
    environment: [],
    mounts: [],
    devices: [],
    security: security(),
    resources: {},
    stdin: false,
    stdinOnce: false,
    tty: false,
    stopSignal: 'SIGTERM',
    labels: {},
    annotations: {},
    processesOf: undefined,
    logPath: `${request.name ?? 'main'}/${request.attempt ?? 0}.log`,
    ...request,
  };
}

export function security(request: Partial<ContainerSecurity> = {}): ContainerSecurity {
  return {
    uid: undefined,
    username: undefined,
    gid: undefined,
    supplementalGroups: [],
    supplementalGroupsPolicy: 'Merge',
    readOnlyRootFilesystem: false,
    privileged: false,
    noNewPrivileges: false,
    addCapabilities: [],
    dropCapabilities: [],
    seccomp: { type: 'RuntimeDefault', profile: '' },
    appArmor: undefined,
    procMount: 'Default',
    seLinux: undefined,
    ...request,
  };
}

export function mount(hostPath: string, containerPath: string, request: Partial<RuntimeMount> = {}): RuntimeMount {
  return { hostPath, containerPath, readOnly: false, recursiveReadOnly: false, propagation: 'None', ...request };
}
