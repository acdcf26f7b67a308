/** Whether this machine can give pods networks of their own, found out by trying it in a namespace that is gone afterwards. */
import { getSystemErrorName } from 'node:util';
import { messageOf } from '../../../base/errors.ts';
import { type NetlinkRequest, netlinkBatch, readNetlinkFailure, requests } from '../../../linux/netlink.ts';
import { loadProcesses } from '../../../linux/processes.ts';
import { runShortProgram, statusSocket } from '../../../linux/short-program.ts';
import { errnoText } from '../../../linux/system-call-error.ts';
import { type Architecture, type CompiledProgram, SystemProgram, readFailure } from '../../../linux/system-program.ts';
import { frameRules, loadRules, packetRules } from './packet-rules.ts';
import { openNetlink, sendToKernel } from './pod-interface.ts';
import { networkNames } from './subnet.ts';

const networkNamespace = 0x40000000;
const trialMsMax = 5_000;
const [bridgeIndex, mac] = [1000, '0a:58:0a:00:00:01'];

const trial: readonly NetlinkRequest[] = [
  requests.newBridge({ name: 'bridge', mac, index: bridgeIndex }),
  requests.newPair({ name: 'one', mac, index: bridgeIndex + 1 }, { name: 'other' }),
  requests.connectToBridge('other', bridgeIndex),
];

/** Why it cannot; undefined when it can. */
export async function networkProblem(architecture: Architecture, signal: AbortSignal): Promise<string | undefined> {
  const program = trialProgram(architecture);
  const message = await runShortProgram(loadProcesses(), program, [], trialMsMax, signal);
  const report = message?.bytes ?? Buffer.alloc(0);
  const failure = readNetlinkFailure(report, trial) ?? readFailure(report, program.steps);
  if (failure !== undefined) {
    return `the kernel refuses to ${failure.what}: ${errnoText(getSystemErrorName(-failure.errno))}`;
  }
  const [names, subnet] = [networkNames('/trial'), '10.0.0.0'];
  const rules = packetRules({ names, subnet, hostPorts: [], machinePorts: [443] });
  try {
    await loadRules(''); // finds out whether nft is there: behind unshare nobody would say so
    await loadRules(frameRules(names, subnet) + rules, 'unshare', '--net', '--');
    return undefined;
  } catch (thrown) {
    return messageOf(thrown);
  }
}

function trialProgram(architecture: Architecture): CompiledProgram {
  const program = new SystemProgram(statusSocket + 1);
  program.call('unshare', [networkNamespace], { what: 'make a network namespace' });
  sendToKernel(program, openNetlink(program), netlinkBatch(trial, 0), statusSocket);
  program.call('exit', [0]);
  return program.compile(architecture, statusSocket);
}
