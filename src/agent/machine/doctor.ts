/** What this machine can do for pods and their volumes, found out by trying, and what follows from it. */
import { execFile } from 'node:child_process';
import { existsSync, mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { delimiter, isAbsolute, join } from 'node:path';
import { promisify } from 'node:util';
import { systemClock } from '../../base/clock.ts';
import { messageOf } from '../../base/errors.ts';
import { missingPackages } from '../../disk/devices/programs.ts';
import { systemMounts } from '../../disk/mounts/mounts.ts';
import { replaceableMounts } from '../../disk/mounts/replaceable-mounts.ts';
import { networkProblem } from '../../runtimes/process/network/network-trial.ts';
import { findCriRuntime } from '../../runtimes/cri/open-cri-runtime.ts';
import { programDirectories, readMounts } from '../../runtimes/process/sandbox/host-files.ts';
import { type HostFacts, hostFindings } from './host-findings.ts';
import { whyNoContainerRuntime } from './chosen-runtime.ts';
import { type Finding, examineMachine, findPowers, limitations } from '../../runtimes/process/machine.ts';

interface Diagnosis {
  readonly findings: readonly Finding[];
  /** What no machine can do with this runtime and this user. */
  readonly limitations: readonly string[];
  /** Pods can run here. */
  readonly isUsable: boolean;
}

/** Another thing to examine is another entry here. */
export async function diagnose(containerRuntimeEndpoint: string, searchPath: string): Promise<Diagnosis> {
  const findings = [
    ...examineMachine(),
    ...hostFindings(readHostFacts(searchPath)),
    await examineNetwork(),
    await examineContainerRuntime(containerRuntimeEndpoint),
    ...examineVolumes(),
    await examineKubectl(),
  ];
  return {
    findings,
    limitations: limitations(findPowers()).map(({ text }) => text),
    isUsable: findings.some(({ name, available }) => ['namespaces', containerRuntime].includes(name) && available),
  };
}

function readHostFacts(searchPath: string): HostFacts {
  return {
    isRoot: findPowers().kind === 'root',
    rootPropagation: readMounts().findLast(({ mountPoint }) => mountPoint === '/')?.propagation ?? 'private',
    directories: readdirSync('/', { withFileTypes: true })
      .filter((entry) => entry.isDirectory())
      .map(({ name }) => `/${name}`),
    programDirectories: searchPath.split(delimiter).filter((path) => isAbsolute(path) && existsSync(path)),
    shownDirectories: programDirectories,
    missingPackages: missingPackages(existsSync),
  };
}

const containerRuntime = 'container runtime';

async function examineContainerRuntime(endpoint: string): Promise<Finding> {
  try {
    const signal = AbortSignal.timeout(trialMsMax);
    const { name, version, networkProblem: noNetwork } = await findCriRuntime(endpoint, systemClock, signal);
    const use = `--runtime cri runs pods with images in ${name} ${version} at ${endpoint}`;
    const consequence =
      noNetwork === undefined ? `${use}.` : `${use}; only those with the machine's network: ${noNetwork}`;
    return { name: containerRuntime, available: true, consequence };
  } catch (error) {
    const cure = 'Start one there, or name its socket with --container-runtime-endpoint.';
    const consequence = `Pods run without images: ${whyNoContainerRuntime(error)}.`;
    return { name: containerRuntime, available: false, consequence, cure };
  }
}

async function examineNetwork(): Promise<Finding> {
  const { kind, architecture } = findPowers();
  const problem =
    kind === 'user'
      ? 'a network for each pod takes root'
      : await networkProblem(architecture, AbortSignal.timeout(trialMsMax));
  const forwarding = (await dropsForwarded())
    ? 'Another firewall of this machine drops what is forwarded, so that they reach other machines only if it permits interfaces named ml-*.'
    : 'net.ipv4.ip_forward is set for the first of them.';
  return {
    name: 'pod networks',
    available: problem === undefined,
    consequence:
      problem === undefined
        ? `Pods have addresses and ports of their own, and with the process runtime the Services of mountlet up answer. ${forwarding}`
        : `All pods have the network of the machine, and Services do not answer: ${problem}`,
  };
}

/** As Docker sets it up: a rule that accepts a packet in one table does not keep it from being dropped in another. */
async function dropsForwarded(): Promise<boolean> {
  const chain = ['list', 'chain', 'ip', 'filter', 'FORWARD'];
  const answer = await promisify(execFile)('nft', chain, { timeout: trialMsMax }).catch(() => undefined);
  return / policy drop;/.test(answer?.stdout ?? '');
}

/** Of a trial that takes milliseconds. */
const trialMsMax = 10_000;

function examineVolumes(): readonly Finding[] {
  const mounts = systemMounts();
  const noMounts = mounts.unavailable;
  const beneath = replaceableMounts(mounts).unavailable;
  const noSwap = noMounts ?? tryNoSwap();
  return [
    {
      name: 'mounts',
      available: noMounts === undefined,
      consequence:
        noMounts === undefined
          ? 'Secrets get a tmpfs of their own, and subPaths are bind mounts.'
          : `Secrets are kept in a private directory in memory instead of a mount: ${noMounts}`,
    },
    {
      name: 'tmpfs noswap',
      available: noSwap === undefined,
      consequence:
        noSwap === undefined ? 'Secrets are never swapped out.' : `Secrets may be swapped to disk: ${noSwap}`,
    },
    {
      name: 'mount beneath',
      available: beneath === undefined,
      consequence:
        beneath === undefined
          ? 'subPath mounts follow updates.'
          : `subPath mounts keep the content they began with: ${beneath}`,
    },
  ];
}

function tryNoSwap(): string | undefined {
  const mounts = systemMounts();
  const directory = mkdtempSync(join(tmpdir(), 'mountlet-doctor-'));
  try {
    const { noSwap } = mounts.mountTmpfs(directory, { sizeBytes: 4096n });
    mounts.unmount(directory);
    return noSwap ? undefined : 'the kernel does not know noswap (Linux 6.4 and later, outside of user namespaces)';
  } catch (error) {
    return messageOf(error);
  } finally {
    rmSync(directory, { recursive: true, force: true });
  }
}

/** A kubectl that has to ask a server for its version must not keep anyone waiting. */
const kubectlMsMax = 5_000;

async function examineKubectl(): Promise<Finding> {
  const answer = await promisify(execFile)('kubectl', ['version', '--client', '--output=json'], {
    timeout: kubectlMsMax,
    killSignal: 'SIGKILL',
  }).catch(() => undefined);
  const [, version = ''] = /"gitVersion": *"([^"]+)"/.exec(answer?.stdout ?? '') ?? [];
  return {
    name: 'kubectl',
    available: answer !== undefined,
    consequence:
      answer === undefined ? 'Use mountlet apply and mountlet get instead, or install it.' : `Version ${version}.`,
  };
}
