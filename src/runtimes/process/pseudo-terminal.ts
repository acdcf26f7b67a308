/**
 * A terminal pair for commands that want one. The system calls Node does not offer are bound with koffi, which is loaded by
 * the first use.
 */
import { closeSync, constants, openSync } from 'node:fs';
import { createRequire } from 'node:module';
import type * as Koffi from 'koffi'; // the type alone: the module is loaded on demand
import { RuntimeError, type TerminalSize } from '../runtime.ts';

export interface PseudoTerminal {
  /** What the terminal shows, and what is typed. The caller closes it. */
  readonly master: number;
  /** What the command has as its terminal. The caller closes it after the start. */
  readonly slave: number;
}

const requests = { unlock: 0x40045431, number: 0x80045430, setSize: 0x5414 } as const; // TIOCSPTLCK, TIOCGPTN, TIOCSWINSZ

type Control = (descriptor: number, request: number, argument: Buffer) => number;

export function openPseudoTerminal(): PseudoTerminal {
  const control = loadControl();
  const master = openSync('/dev/ptmx', constants.O_RDWR | constants.O_NOCTTY);
  const number = Buffer.alloc(4);
  if (control(master, requests.unlock, Buffer.alloc(4)) !== 0 || control(master, requests.number, number) !== 0) {
    closeSync(master);
    throw new RuntimeError('Cannot make a terminal: is devpts mounted at /dev/pts?');
  }
  const slave = openSync(`/dev/pts/${number.readUInt32LE(0)}`, constants.O_RDWR | constants.O_NOCTTY);
  return { master, slave };
}

/** Of either side. A terminal that is gone by now needs no size. */
export function setTerminalSize(descriptor: number, { columns, rows }: TerminalSize): void {
  const size = Buffer.alloc(8);
  size.writeUInt16LE(Math.min(rows, 0xffff), 0);
  size.writeUInt16LE(Math.min(columns, 0xffff), 2);
  loadControl()(descriptor, requests.setSize, size);
}

function loadControl(): Control {
  const koffi = createRequire(import.meta.url)('koffi') as typeof Koffi;
  return koffi.load(null).func('ioctl', 'int', ['int', 'ulong', 'void *']);
}
