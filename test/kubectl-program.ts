/** Real kubectl as a user has it, in processes of its own: it finishes, it fails, or it goes on and is read line by line. */
import assert from 'node:assert/strict';
import type { ChildProcess } from 'node:child_process';
import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import type { ClientHttp2Stream } from 'node:http2';
import { dirname } from 'node:path';
import { AdminClient } from './admin-client.ts';
import type { Ran } from './mountlet-program.ts';

/** Of what the tests ask for, Debian's 1.20 has neither `events` nor `wait --for=jsonpath`, and no WebSockets. */
const oldest = 32;

export const noKubectl: string | false = whyNoKubectl();

function whyNoKubectl(): string | false {
  // `npm test` has asked already: a process for each file of tests takes its time.
  const version =
    process.env['MOUNTLET_TEST_KUBECTL'] ?? spawnSync('kubectl', ['version', '--client']).stdout?.toString();
  const [, minor] = /\b[vV]?1\.(\d+)\./.exec(version ?? '') ?? [];
  if (minor === undefined) return 'needs kubectl on the PATH';
  return Number(minor) >= oldest ? false : `needs kubectl 1.${oldest} or newer, not 1.${minor}: npm test fetches one`;
}

/** For what has to happen at all: a busy machine may take its time, and a test that waits for longer has found a failure. */
export const patienceMs = 120_000;

/** kubectl lives too briefly for a garbage collector: without one it costs a quarter less. */
export const withoutCollector = { GOGC: 'off', GOMEMLIMIT: '256MiB' };

export interface KubectlOptions {
  readonly input?: string | Buffer;
  readonly env?: Readonly<Record<string, string>>;
}

/** Runs kubectl to its end, and again where it has failed by itself. */
export async function runToEnd(start: () => ChildProcess, input: string | Buffer): Promise<Ran> {
  for (;;) {
    const child = start();
    const output = { stdout: [] as Buffer[], stderr: [] as Buffer[] };
    for (const name of ['stdout', 'stderr'] as const) {
      child[name]?.on('data', (bytes: Buffer) => output[name].push(bytes));
    }
    const timer = setTimeout(() => child.kill('SIGKILL'), patienceMs);
    child.stdin?.on('error', () => {});
    child.stdin?.end(input);
    const [code] = (await once(child, 'close')) as [number | null];
    clearTimeout(timer);
    const stderr = Buffer.concat(output.stderr).toString();
    // kubectl drops what a server sends before it has made its own streams, on a machine that is busy enough.
    if (stderr.includes('Unknown stream id')) continue;
    return { code, stdout: Buffer.concat(output.stdout).toString(), stderr };
  }
}

export class Kubectl {
  readonly #kubeconfig: string;
  readonly #under: readonly string[];

  /** `under` are the words of a program that runs another, such as nsenter. */
  constructor(kubeconfig: string, under: readonly string[] = []) {
    this.#kubeconfig = kubeconfig;
    this.#under = under;
  }

  start(args: readonly string[], env: KubectlOptions['env'] = {}): ChildProcess {
    return this.startProgram('kubectl', args, env);
  }

  /** A program that calls kubectl. */
  startProgram(program: string, args: readonly string[], env: KubectlOptions['env'] = {}): ChildProcess {
    const [file, ...before] = [...this.#under, program];
    return spawn(file, [...before, ...args], {
      stdio: ['pipe', 'pipe', 'pipe'],
      env: {
        PATH: process.env['PATH'],
        HOME: dirname(this.#kubeconfig),
        KUBECONFIG: this.#kubeconfig,
        ...withoutCollector,
        ...env,
      },
    });
  }

  async run(args: readonly string[], { input = '', env = {} }: KubectlOptions = {}): Promise<Ran> {
    return await runToEnd(() => this.start(args, env), input);
  }

  /** What succeeds; anything else is shown. A text is cut at its blanks. */
  async ok(line: string | readonly string[], options: KubectlOptions = {}): Promise<string> {
    const args = typeof line === 'string' ? line.split(' ') : line;
    const { code, stdout, stderr } = await this.run(args, options);
    assert.equal(code, 0, `kubectl ${args.join(' ')}: ${code}\n${stdout.slice(0, 2000)}${stderr}`);
    return stdout;
  }

  async apply(...objects: readonly object[]): Promise<void> {
    await this.ok('apply -f -', { input: JSON.stringify({ apiVersion: 'v1', kind: 'List', items: objects }) });
  }

  async json<T>(line: string): Promise<T> {
    return JSON.parse(await this.ok(`${line} -o json`)) as T;
  }

  /** Follows the object until the path has the value; what it was in the end is shown if it never does. */
  async until(object: string, path: string, value: string, namespace = 'default'): Promise<void> {
    let last: unknown;
    const isSo = (found: unknown): boolean => textAt((last = found), path) === value;
    try {
      await this.#follow(object, namespace, isSo);
    } catch (error) {
      const events = await this.run(['events', '-n', namespace, '--for', object]);
      const status = JSON.stringify((last as { status?: object } | undefined)?.status);
      assert.fail(
        `${object} never had ${path}=${value}: ${String(error)}\n${status}\n${events.stdout}${events.stderr}`,
      );
    }
  }

  async gone(object: string, namespace = 'default'): Promise<void> {
    await this.#follow(object, namespace, (found) => found === undefined);
  }

  /** By a watch of the test's own: `kubectl wait` costs ten times as much, and ends with the server, which may be started again. */
  async #follow(object: string, namespace: string, isIt: (found: unknown) => boolean): Promise<void> {
    const path = pathOf(object, namespace);
    await eventually(async () => {
      const client = await AdminClient.connect({ kubeconfig: this.#kubeconfig });
      const timer = setTimeout(() => client.close(), patienceMs);
      try {
        const { items, metadata } = await client.ask<ObjectList>('GET', path);
        if (isIt(items[0])) return;
        const events = await client.watch(`${path}&watch=true&resourceVersion=${metadata.resourceVersion}`);
        for await (const { type, object: found } of linesOf<WatchEvent>(events)) {
          assert.notEqual(type, 'ERROR', JSON.stringify(found));
          if (isIt(type === 'DELETED' ? undefined : found)) return;
        }
        assert.fail('the watch has ended');
      } finally {
        clearTimeout(timer);
        client.close();
      }
    });
  }

  async running(...pods: readonly string[]): Promise<void> {
    await Promise.all(pods.map((name) => this.until(`pod/${name}`, '{.status.phase}', 'Running')));
  }

  async exec(pod: string, ...command: readonly string[]): Promise<string> {
    return await this.ok(['exec', pod, '--', ...command]);
  }
}

interface ObjectList {
  readonly metadata: { readonly resourceVersion: string };
  readonly items: readonly object[];
}

interface WatchEvent {
  readonly type: string;
  readonly object: object;
}

async function* linesOf<T>(stream: ClientHttp2Stream): AsyncIterable<T> {
  let rest = '';
  for await (const text of stream.setEncoding('utf8')) {
    const lines = (rest + String(text)).split('\n');
    rest = lines.pop() ?? '';
    for (const line of lines) yield JSON.parse(line) as T;
  }
}

const namespaced = new Map([
  ['pod', ['/api/v1', 'pods']],
  ['pvc', ['/api/v1', 'persistentvolumeclaims']],
  ['job', ['/apis/batch/v1', 'jobs']],
  ['sts', ['/apis/apps/v1', 'statefulsets']],
  ['deploy', ['/apis/apps/v1', 'deployments']],
  ['ds', ['/apis/apps/v1', 'daemonsets']],
]);
const ofTheCluster = new Map([
  ['node', '/api/v1/nodes'],
  ['pv', '/api/v1/persistentvolumes'],
  ['namespace', '/api/v1/namespaces'],
]);

/** A list with nothing but `pod/web`. */
function pathOf(object: string, namespace: string): string {
  const [kind = '', name = ''] = object.split('/');
  const [group, plural] = namespaced.get(kind) ?? [];
  const collection = plural === undefined ? ofTheCluster.get(kind) : `${group}/namespaces/${namespace}/${plural}`;
  return `${collection ?? assert.fail(`no path is known for ${kind}`)}?fieldSelector=metadata.name%3D${name}`;
}

/** What kubectl prints for such a path: fields, places in lists, and elements of a type. Empty for what is not there. */
function textAt(object: unknown, path: string): string {
  const steps = [...path.matchAll(/\.(\w+)|\[(\d+)\]|\[\?\(@\.type=="([^"]+)"\)\]/g)];
  assert.equal(`{${steps.map(([step]) => step).join('')}}`, path, 'a path of another form');
  let found = object;
  for (const [, field, index, type] of steps) {
    const list = Array.isArray(found) ? (found as readonly { readonly type?: string }[]) : [];
    if (field !== undefined) found = (found as Readonly<Record<string, unknown>> | null | undefined)?.[field];
    else found = type === undefined ? list[Number(index)] : list.find((element) => element.type === type);
  }
  return typeof found === 'string' ? found : (JSON.stringify(found) ?? '');
}

/** Retries until the assertion passes; the last failure is the test's. For state that emits no changes, such as files. */
export async function eventually<T>(ask: () => T | Promise<T>): Promise<T> {
  const deadline = performance.now() + patienceMs;
  for (let pauseMs = 50; ; pauseMs = Math.min(pauseMs * 1.5, 500)) {
    const askedAt = performance.now();
    try {
      return await ask();
    } catch (error) {
      if (performance.now() > deadline) throw error;
    }
    // Most questions start kubectl: what takes long, as it does on a busy machine, is asked about less often.
    const tookMs = performance.now() - askedAt;
    await new Promise((resolve) => setTimeout(resolve, Math.max(pauseMs, Math.min(2 * tookMs, 2_000))));
  }
}
