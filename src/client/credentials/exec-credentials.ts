/**
 * Credentials from a program that the kubeconfig names (`exec`): it is run when there are none, when they expire and when the server
 * refused them. What it prints is never shown.
 */
import { ClientError } from '../transport/transport.ts';
import { spawn } from 'node:child_process';
import { onAbort } from '../../base/abort.ts';
import type { Clock } from '../../base/clock.ts';
import { errorCode, messageOf } from '../../base/errors.ts';
import { type Shape, decode, object, string } from '../../kube/schema/schema.ts';
import type { TlsIdentity } from '../transport/transport.ts';
import { type Entry, kubeconfigError, type KubeconfigExec } from './kubeconfig.ts';

export interface CommandResult {
  readonly code: number | null;
  readonly stdout: string;
}

export interface Command {
  readonly command: string;
  readonly args: readonly string[];
  /** Complete: nothing else is passed on. */
  readonly env: Readonly<Record<string, string>>;
  /** It may ask the user something on the terminal. */
  readonly isInteractive: boolean;
}

/** Rejects when the program cannot be started. What it writes to standard error is for the user. */
type RunCommand = (command: Command, signal: AbortSignal) => Promise<CommandResult>;

export interface ExecDeps {
  readonly run: RunCommand;
  readonly clock: Clock;
  readonly env: Readonly<Record<string, string | undefined>>;
  /** Somebody sits at a terminal. */
  readonly hasTerminal: boolean;
}

export interface ExecResult {
  readonly token?: string | undefined;
  readonly identity?: TlsIdentity | undefined;
}

function execFailure(command: string, problem: string, hint = '', options?: ErrorOptions): ClientError {
  const text = `Cannot get credentials from "${command}": ${problem}${hint === '' ? '' : `\n\n${hint}`}`;
  return new ClientError('ExecCredentialFailed', text, options);
}

const versions = ['client.authentication.k8s.io/v1', 'client.authentication.k8s.io/v1beta1'];
const modes = ['Never', 'IfAvailable', 'Always'];

interface ExecCredentialStatus {
  readonly token?: string;
  readonly clientCertificateData?: string;
  readonly clientKeyData?: string;
  readonly expirationTimestamp?: string;
}
const statusShape: Shape<ExecCredentialStatus> = object({
  token: string,
  clientCertificateData: string,
  clientKeyData: string,
  expirationTimestamp: string,
});
const execCredential = object({ apiVersion: string, kind: string, status: statusShape });

interface Run {
  readonly result: Promise<ExecResult>;
  readonly stop: AbortController;
  waiting: number;
}

export class ExecCredentials {
  readonly #exec: KubeconfigExec;
  readonly #command: string;
  readonly #isInteractive: boolean;
  readonly #deps: ExecDeps;
  readonly #cluster: unknown;
  #result: ExecResult | undefined;
  #expiresAt = Infinity;
  #run: Run | undefined;

  /** `cluster` is passed to the program if its entry asks for that. Throws for an entry that cannot work. */
  constructor(entry: Entry<KubeconfigExec>, cluster: unknown, deps: ExecDeps) {
    const { apiVersion = '', command = '', interactiveMode = '' } = entry.value;
    const fail = (field: string, problem: string): never => {
      throw kubeconfigError(entry.file, `${entry.field}.${field}`, problem);
    };
    if (command === '') fail('command', 'name the program that gives the credentials');
    if (!versions.includes(apiVersion)) fail('apiVersion', `must be one of ${versions.join(', ')}`);
    if (interactiveMode === '' && apiVersion === versions[0])
      fail('interactiveMode', `must be one of ${modes.join(', ')}`);
    if (interactiveMode !== '' && !modes.includes(interactiveMode))
      fail('interactiveMode', `must be one of ${modes.join(', ')}`);
    if (interactiveMode === 'Always' && !deps.hasTerminal)
      fail('interactiveMode', 'is Always, but there is no terminal to ask at');
    this.#exec = entry.value;
    this.#command = command;
    this.#isInteractive = interactiveMode !== 'Never' && deps.hasTerminal;
    this.#cluster = cluster;
    this.#deps = deps;
  }

  /** However many ask at once, the program runs once, and until the last of them has given up. */
  async current(signal: AbortSignal): Promise<ExecResult> {
    signal.throwIfAborted();
    if (this.#result !== undefined && this.#deps.clock.now() < this.#expiresAt) return this.#result;
    const run = (this.#run ??= this.#start());
    run.waiting += 1;
    let stopListening = (): void => {};
    const givenUp = new Promise<never>((_, reject) => {
      stopListening = onAbort(signal, () => reject(signal.reason));
    });
    try {
      return await Promise.race([run.result, givenUp]);
    } finally {
      stopListening();
      run.waiting -= 1;
      if (run.waiting === 0) this.#end(run);
    }
  }

  /** Forgets these, if they are still the current ones. */
  refused(used: ExecResult): void {
    if (this.#result === used) this.#result = undefined;
  }

  #start(): Run {
    const stop = new AbortController();
    return { result: this.#ask(stop.signal), waiting: 0, stop };
  }

  #end(run: Run): void {
    if (this.#run === run) this.#run = undefined;
    run.stop.abort();
    // The result of a stopped program is not awaited.
    run.result.catch(() => {});
  }

  async #ask(signal: AbortSignal): Promise<ExecResult> {
    const { args = [], env = [], installHint, apiVersion, provideClusterInfo } = this.#exec;
    const info = {
      kind: 'ExecCredential',
      apiVersion,
      spec: { ...(provideClusterInfo === true && { cluster: this.#cluster }), interactive: this.#isInteractive },
    };
    const inherited = Object.entries(this.#deps.env).flatMap(([name, value]) =>
      value === undefined ? [] : [[name, value] as const],
    );
    const own = env.map(({ name, value }) => [name, value] as const);
    let result: CommandResult;
    try {
      const environment = { ...Object.fromEntries([...inherited, ...own]), KUBERNETES_EXEC_INFO: JSON.stringify(info) };
      const command = { command: this.#command, args, env: environment, isInteractive: this.#isInteractive };
      result = await this.#deps.run(command, signal);
    } catch (error) {
      if (signal.aborted) throw signal.reason;
      const problem = errorCode(error) === 'ENOENT' ? 'there is no such program' : messageOf(error);
      throw execFailure(this.#command, problem, installHint, { cause: error });
    }
    if (result.code !== 0) throw execFailure(this.#command, `it ended with code ${result.code ?? 'none'}`, installHint);
    return this.#accept(result.stdout);
  }

  #accept(stdout: string): ExecResult {
    const fail = (problem: string): never => {
      throw execFailure(this.#command, problem);
    };
    let json: unknown;
    try {
      json = JSON.parse(stdout);
    } catch {
      return fail('what it printed is no JSON');
    }
    const { value, problems } = decode(execCredential, json);
    const wrong = problems.find(({ kind }) => kind === 'type');
    if (wrong !== undefined) return fail(`${wrong.path.join('.')}: ${wrong.message}`);
    const { kind, apiVersion, status } = value;
    if (kind !== 'ExecCredential') return fail('what it printed is no ExecCredential');
    if (apiVersion !== this.#exec.apiVersion)
      return fail(`it answered in another apiVersion than ${this.#exec.apiVersion}`);
    if (status === undefined) return fail('its answer has no status');
    const { token, clientCertificateData: certificatePem, clientKeyData: keyPem, expirationTimestamp } = status;
    if ((certificatePem === undefined) !== (keyPem === undefined))
      return fail('its answer has a certificate without a key, or a key without a certificate');
    if (token === undefined && certificatePem === undefined)
      return fail('its answer has neither a token nor a certificate');
    const expiresAt = expirationTimestamp === undefined ? Infinity : Date.parse(expirationTimestamp);
    if (Number.isNaN(expiresAt)) return fail('status.expirationTimestamp is no time');
    this.#expiresAt = expiresAt;
    const identity = certificatePem !== undefined && keyPem !== undefined ? { certificatePem, keyPem } : undefined;
    return (this.#result = { token, identity });
  }
}

/** Runs a program to its end and takes what it prints: the one that gives credentials. */
// A token or a certificate with its key has a few kilobytes.
const outputBytesMax = 1024 * 1024;

export const runCommand: RunCommand = ({ command, args, env, isInteractive }, signal) =>
  new Promise((resolve, reject) => {
    const child = spawn(command, args, {
      env,
      signal,
      stdio: [isInteractive ? 'inherit' : 'ignore', 'pipe', 'inherit'],
    });
    const chunks: Buffer[] = [];
    let bytes = 0;
    child.stdout.on('data', (chunk: Buffer) => {
      bytes += chunk.length;
      if (bytes <= outputBytesMax) chunks.push(chunk);
      else child.kill();
    });
    child.on('error', reject);
    child.on('close', (code) => resolve({ code, stdout: Buffer.concat(chunks).toString('utf8') }));
  });
