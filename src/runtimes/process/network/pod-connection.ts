/**
 * Connections to a port as a program in the pod would open it: to the loopback address of the pod's own network namespace. A
 * socket belongs to the namespace it was made in, and this process must not leave its own: a short program enters the pod's,
 * connects and hands the socket over.
 */
import { closeSync, constants, openSync } from 'node:fs';
import { Socket } from 'node:net';
import { getSystemErrorName } from 'node:util';
import { type ProcessName, isAlive } from '../../../linux/process-table.ts';
import { type Processes, loadProcesses } from '../../../linux/processes.ts';
import { firstGiven, runShortProgram, statusSocket } from '../../../linux/short-program.ts';
import {
  type Architecture,
  type CompiledProgram,
  type Label,
  SystemProgram,
  readFailure,
} from '../../../linux/system-program.ts';
import { RuntimeError } from '../../runtime.ts';

const podNamespace = firstGiven;
const networkNamespace = 0x40000000;
const streamSocket = 1 | 0o2000000;
const connectMsMax = 10_000;

export class PodConnections {
  readonly #architecture: Architecture;
  #processes: Processes | undefined;

  constructor(architecture: Architecture) {
    this.#architecture = architecture;
  }

  /** Rejects as `net.connect` does. `holder` is a process of the pod. */
  async connect(holder: ProcessName, port: number, signal: AbortSignal): Promise<Socket> {
    this.#processes ??= loadProcesses();
    const namespace = openSync(`/proc/${holder.pid}/ns/net`, constants.O_RDONLY);
    try {
      // Asked afterwards: the number may be another process's by now.
      if (!isAlive(holder)) throw new RuntimeError('Cannot connect: the pod has ended');
      const program = connectProgram(port, this.#architecture);
      const message = await runShortProgram(this.#processes, program, [namespace], connectMsMax, signal);
      if (message?.descriptor !== undefined) return new Socket({ fd: message.descriptor });
      const failure = message && readFailure(message.bytes, program.steps);
      throw connectError(failure === undefined ? 'ETIMEDOUT' : getSystemErrorName(-failure.errno), port);
    } finally {
      closeSync(namespace);
    }
  }
}

function connectError(code: string, port: number): Error {
  // Where there is no IPv6 the second try says that, and the first was refused.
  const known = ['EAFNOSUPPORT', 'EADDRNOTAVAIL', 'ENETUNREACH'].includes(code) ? 'ECONNREFUSED' : code;
  return Object.assign(new Error(`connect ${known} 127.0.0.1:${port}`), { code: known });
}

/** 127.0.0.1, then ::1. */
function connectProgram(port: number, architecture: Architecture): CompiledProgram {
  const program = new SystemProgram(podNamespace + 1);
  program.call('setns', [podNamespace, networkNamespace], { what: "enter the pod's network" });
  program.close(podNamespace);
  const second: Label = { step: undefined };
  const first = program.open('socket', [2, streamSocket, 0]);
  const four = Buffer.from([2, 0, port >> 8, port & 0xff, 127, 0, 0, 1, ...Array<number>(8).fill(0)]);
  program.call('connect', [first, program.bytes(four), four.length], { onError: second });
  program.sendDescriptor(statusSocket, first);
  program.call('exit', [0]);
  program.mark(second);
  const other = program.open('socket', [10, streamSocket, 0]);
  const six = Buffer.alloc(28);
  six.set([10, 0, port >> 8, port & 0xff]);
  six[23] = 1;
  program.call('connect', [other, program.bytes(six), six.length]);
  program.sendDescriptor(statusSocket, other);
  program.call('exit', [0]);
  return program.compile(architecture, statusSocket);
}
