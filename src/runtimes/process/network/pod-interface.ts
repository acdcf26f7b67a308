/**
 * A pod's end of the network, made by the process that holds the pod's namespaces while it makes them: it sends the kernel
 * messages that were written beforehand, so that nothing else has to enter the namespace, and when the last process of the
 * namespace is gone so are both ends.
 */
import {
  type NetlinkRequest,
  loopbackIndex,
  netlinkBatch,
  netlinkFailureBytes,
  netlinkSocket,
  readNetlinkFailure,
  requests,
} from '../../../linux/netlink.ts';
import type { Label, SystemProgram } from '../../../linux/system-program.ts';
import { macOf, prefixBits } from './subnet.ts';

export interface PodInterface {
  readonly address: string;
  readonly gateway: string;
  /** The name of the other end, which is the machine's. */
  readonly end: string;
  readonly bridgeIndex: number;
}

const name = 'eth0';
/** Chosen, so that messages written beforehand can mean it. Some kernels put tunnels of theirs at the first numbers. */
const index = 1000;
const dontWait = 0x40;

/** What stays with the machine's namespace while the program changes to one of its own. */
interface MachineSide {
  readonly namespace: number;
  readonly socket: number;
}

export function openMachineSide(program: SystemProgram): MachineSide {
  const path = program.text('/proc/self/ns/net');
  const namespace = program.open('openat', [-100, path, 0o2000000, 0], { what: 'open the network namespace' });
  return { namespace, socket: openNetlink(program) };
}

/** To be called inside of the new namespace. */
export function makeInterface(
  program: SystemProgram,
  own: PodInterface,
  machine: MachineSide,
  statusSocket: number,
): void {
  const { inside, outside } = messagesOf(own, machine.namespace);
  const socket = openNetlink(program);
  sendToKernel(program, socket, netlinkBatch(inside, 0), statusSocket);
  sendToKernel(program, machine.socket, netlinkBatch(outside, inside.length), statusSocket);
  for (const descriptor of [socket, machine.socket, machine.namespace]) program.close(descriptor);
}

/** Which of the messages the kernel refused, as the program reported it. */
export function interfaceFailure(
  report: Buffer,
  own: PodInterface,
): { readonly what: string; readonly errno: number } | undefined {
  const { inside, outside } = messagesOf(own, 0);
  return readNetlinkFailure(report, [...inside, ...outside]);
}

function messagesOf(
  { address, gateway, end, bridgeIndex }: PodInterface,
  machineNamespace: number,
): { readonly inside: readonly NetlinkRequest[]; readonly outside: readonly NetlinkRequest[] } {
  return {
    inside: [
      requests.setUp(loopbackIndex),
      requests.newPair({ name, index, mac: macOf(address) }, { name: end, namespace: machineNamespace }),
      requests.addAddress(index, address, prefixBits),
      requests.addDefaultRoute(index, gateway),
    ],
    // A pod that asks for its own hostPort gets its own frames.
    outside: [requests.connectToBridge(end, bridgeIndex), requests.returnFrames(end)],
  };
}

export function openNetlink(program: SystemProgram): number {
  const { family, type, protocol } = netlinkSocket;
  return program.open('socket', [family, type, protocol], { what: 'open a netlink socket' });
}

/** The kernel has done it all when the call returns, and answers only what failed. */
export function sendToKernel(program: SystemProgram, socket: number, bytes: Buffer, statusSocket: number): void {
  const done: Label = { step: undefined };
  const answer = program.bytes(Buffer.alloc(netlinkFailureBytes));
  program.call('sendto', [socket, program.bytes(bytes), bytes.length, 0, 0, 0], { what: 'send to the kernel' });
  program.call('recvfrom', [socket, answer, netlinkFailureBytes, dontWait, 0, 0], { onError: done });
  program.call('write', [statusSocket, answer, netlinkFailureBytes], { onError: 'ignore' });
  program.call('exit', [127]);
  program.mark(done);
}
