/** Runs `mountlet apiserver` in a process of its own. */
import assert from 'node:assert/strict';
import type { ChildProcess } from 'node:child_process';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { createInterface } from 'node:readline';
import type { Authority } from '../src/apiserver/identity/certificates.ts';
import { nodeIdentity } from '../src/testing/servers/test-api-server.ts';
import { program } from './mountlet-program.ts';

export interface RunningApiServer {
  readonly process: ChildProcess;
  readonly url: string;
  readonly kubeconfig: string;
  /** The lines it has printed so far. */
  readonly stdout: readonly string[];
  readonly stderr: () => string;
  /** Asks it to stop and resolves to its exit code. */
  stop(): Promise<number | null>;
  /** kill -9; resolves when it is gone. */
  kill(): Promise<void>;
}

/** Resolves when it says that it is ready; rejects when it ends before. */
export async function startApiServerProgram(
  directory: string,
  {
    listen = '127.0.0.1:0',
    nodeArguments = [],
    args = [],
  }: { listen?: string; nodeArguments?: readonly string[]; args?: readonly string[] } = {},
): Promise<RunningApiServer> {
  const child = spawn(
    process.execPath,
    [...nodeArguments, program, 'apiserver', '--data', directory, '--listen', listen, ...args],
    { stdio: ['ignore', 'pipe', 'pipe'] },
  );
  const exited = new Promise<number | null>((resolve) => child.once('exit', (code) => resolve(code)));
  let stderr = '';
  child.stderr.setEncoding('utf8').on('data', (text: string) => (stderr += text));
  const stdout: string[] = [];
  const lines = createInterface({ input: child.stdout }).on('line', (line) => stdout.push(line));
  const [line] = (await Promise.race([
    once(lines, 'line'),
    exited.then((code) => assert.fail(`the server ended with ${code} before it was ready: ${stderr}`)),
  ])) as [string];
  const [, url, kubeconfig] = /^API server is ready at (\S+); try: kubectl --kubeconfig (\S+) /.exec(line) ?? [];
  assert.ok(url !== undefined && kubeconfig !== undefined, line);
  const end = (signal: NodeJS.Signals): Promise<number | null> => {
    child.kill(signal);
    return exited;
  };
  return {
    process: child,
    url,
    kubeconfig,
    stdout,
    stderr: () => stderr,
    stop: () => end('SIGTERM'),
    kill: () => end('SIGKILL').then(() => undefined),
  };
}

/** Of the server whose data are in the directory. */
export function readAuthority(directory: string): Authority {
  return JSON.parse(readFileSync(join(directory, 'pki', 'authority.json'), 'utf8')) as Authority;
}

/** The kubeconfig of a node, as the administrator of a cluster would make it. */
export function writeNodeKubeconfig(server: RunningApiServer, directory: string, node: string): string {
  const text = JSON.parse(readFileSync(server.kubeconfig, 'utf8')) as { users: { user: object }[] };
  const { certificatePem, keyPem } = nodeIdentity({ authority: readAuthority(directory) }, node);
  const base64 = (pem: string): string => Buffer.from(pem).toString('base64');
  const user = { 'client-certificate-data': base64(certificatePem), 'client-key-data': base64(keyPem) };
  const kubeconfig = join(dirname(directory), `${node}.kubeconfig`);
  writeFileSync(kubeconfig, JSON.stringify({ ...text, users: text.users.map((entry) => ({ ...entry, user })) }));
  return kubeconfig;
}
