/** What this machine can log in to registries with: files of docker, and programs of its operator. */
import { execFile } from 'node:child_process';
import { accessSync, constants, readdirSync, statSync } from 'node:fs';
import { homedir } from 'node:os';
import { extname, join, resolve } from 'node:path';
import type { Clock } from '../../base/clock.ts';
import { errorCode, messageOf, OperatingError } from '../../base/errors.ts';
import { type CredentialProvider, readCredentialProviders } from '../../pods/images/credential-provider-config.ts';
import { type CredentialProviderFailed, CredentialProviders } from '../../pods/images/credential-providers.ts';
import type { NodeLogins } from '../../pods/images/image-puller.ts';
import { NodeLoginFiles } from '../../pods/images/node-login-files.ts';
import { readRegularFile } from './manifests-folder-reader.ts';

interface NodeLoginsDeps {
  readonly clock: Clock;
  /** Of this process: providers find their proxies and their own settings there. */
  readonly environment: Readonly<Record<string, string | undefined>>;
  readonly notify: (notice: CredentialProviderFailed) => void;
}

/** Where providers are configured, and the directory of their programs. */
interface ProviderPlaces {
  readonly configuration: string;
  readonly programs: string;
}

/** Much more than the logins of all registries of one node take. */
const fileBytesMax = 1024 * 1024;
/** A provider may have to try a request twice, but not for ever. */
const providerMsMax = 60_000;
const outputBytesMax = 1024 * 1024;
/** Of what a provider said before it failed. */
const complaintCharactersMax = 1_000;

/** In the order in which they are tried. Providers that still run when the signal aborts are ended. */
export async function openNodeLogins(
  { clock, environment, notify }: NodeLoginsDeps,
  rootDirectory: string,
  places: ProviderPlaces | undefined,
  signal: AbortSignal,
): Promise<readonly NodeLogins[]> {
  const directories = { root: rootDirectory, working: resolve('.'), home: homedir() };
  const files = new NodeLoginFiles({ clock, read: (path) => readRegularFile(path, fileBytesMax) }, directories);
  if (places === undefined) return [files];
  const providers = await readProviders(places);
  const run = (provider: CredentialProvider, input: string): Promise<string> =>
    runProvider(join(places.programs, provider.name), provider, environment, input, signal);
  return [files, new CredentialProviders({ clock, run, notify }, providers)];
}

async function readProviders({ configuration, programs }: ProviderPlaces): Promise<readonly CredentialProvider[]> {
  const { providers, problems } = readCredentialProviders(await configurationFiles(configuration));
  if (problems.length > 0) throw new OperatingError('CredentialProvidersUnusable', problems.join('\n'));
  if (!isThere(programs)) throw unusable(`plugin binary directory ${programs} did not exist`);
  for (const { name } of providers) {
    const program = join(programs, name);
    try {
      accessSync(program, constants.X_OK);
    } catch (error) {
      if (errorCode(error) === 'ENOENT') throw unusable(`plugin binary executable ${program} did not exist`);
      throw unusable(`error inspecting binary executable ${program}: ${messageOf(error)}`);
    }
  }
  return providers;
}

/** A directory stands for the files in it. */
async function configurationFiles(path: string): Promise<readonly { readonly path: string; readonly text: string }[]> {
  try {
    const isDirectory = statSync(path).isDirectory();
    const names = isDirectory ? readdirSync(path, { withFileTypes: true }) : [];
    const found = names
      .filter((entry) => !entry.isDirectory() && ['.json', '.yaml', '.yml'].includes(extname(entry.name)))
      .map(({ name }) => join(path, name))
      .toSorted();
    const files = isDirectory ? found : [path];
    return await Promise.all(
      files.map(async (file) => ({ path: file, text: await readRegularFile(file, fileBytesMax) })),
    );
  } catch (error) {
    throw unusable(`Cannot read the configuration of credential providers "${path}": ${messageOf(error)}`);
  }
}

function isThere(directory: string): boolean {
  return statSync(directory, { throwIfNoEntry: false })?.isDirectory() ?? false;
}

function unusable(message: string): OperatingError {
  return new OperatingError('CredentialProvidersUnusable', message);
}

function runProvider(
  program: string,
  { args, env }: CredentialProvider,
  environment: Readonly<Record<string, string | undefined>>,
  input: string,
  signal: AbortSignal,
): Promise<string> {
  return new Promise((done, fail) => {
    const options = {
      env: { ...environment, ...env },
      timeout: providerMsMax,
      maxBuffer: outputBytesMax,
      killSignal: 'SIGKILL',
      signal,
    } as const;
    const child = execFile(program, [...args], options, (error, output, complaint) => {
      if (error === null) done(output);
      else fail(new OperatingError('CredentialProviderFailed', `${whyItFailed(error)}${said(complaint)}`));
    });
    // It may answer without reading what it is asked.
    child.stdin?.on('error', () => {});
    child.stdin?.end(input);
  });
}

/** Not the message of the error, which has the whole command. */
function whyItFailed(error: Error & { readonly code?: unknown; readonly killed?: boolean }): string {
  if (error.code === 'ERR_CHILD_PROCESS_STDIO_MAXBUFFER') return `it printed more than ${outputBytesMax} bytes`;
  if (error.killed === true) return `it took longer than ${providerMsMax / 1000} seconds`;
  return typeof error.code === 'number'
    ? `it ended with exit code ${error.code}`
    : `it was not run: ${String(error.code)}`;
}

function said(complaint: string): string {
  const text = complaint.trim().slice(0, complaintCharactersMax);
  return text === '' ? '' : `: ${text}`;
}
