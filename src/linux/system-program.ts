/**
 * Compiles a list of system calls into a tiny static program (ELF), for what has to happen between fork and exec: entering
 * namespaces, mounting, giving up privileges. JavaScript cannot run there, a shell costs a process for every step and can be
 * tricked, and a program on disk would have to be built for every machine.
 *
 * The program is data and one loop. A step holds the number of a system call, its six arguments, and where to go on:
 *
 *     result = call(step.number, step.arguments)
 *     result = 0                                     the next step
 *     result > 0    RESULT = result;                 the step `afterPositive`, usually the next
 *     result < 0    FAILURE = [step, result];        the step `afterError`, usually one that reports it
 *
 * It starts with an address space of its own: inspecting the process shows these steps and nothing else. Descriptors are
 * numbered at compile time, because the program starts with exactly the ones it was given and Linux hands out the lowest
 * free number. Strings and structures stand behind the steps, at addresses that are known when the program is written.
 */

export type Architecture = 'x64' | 'arm64';

export function isArchitecture(name: string): name is Architecture {
  return name === 'x64' || name === 'arm64';
}

/** Numbers on x64 and arm64. From 424 on they are the same everywhere. */
const callNumbers = {
  read: [0, 63],
  write: [1, 64],
  close: [3, 57],
  ioctl: [16, 29],
  ppoll: [271, 73],
  socket: [41, 198],
  connect: [42, 203],
  sendto: [44, 206],
  recvfrom: [45, 207],
  sendmsg: [46, 211],
  clone: [56, 220],
  execve: [59, 221],
  exit: [231, 94],
  chdir: [80, 49],
  fchdir: [81, 50],
  fchown: [93, 55],
  umask: [95, 166],
  setsid: [112, 157],
  capset: [126, 91],
  rt_sigaction: [13, 134],
  pivot_root: [155, 41],
  prctl: [157, 167],
  mount: [165, 40],
  umount2: [166, 39],
  sethostname: [170, 161],
  openat: [257, 56],
  mkdirat: [258, 34],
  symlinkat: [266, 36],
  fchmodat: [268, 53],
  unshare: [272, 97],
  dup3: [292, 24],
  setgroups: [116, 159],
  setresuid: [117, 147],
  setresgid: [119, 149],
  setns: [308, 268],
  seccomp: [317, 277],
  open_tree: [428, 428],
  move_mount: [429, 429],
  pidfd_open: [434, 434],
  close_range: [436, 436],
  openat2: [437, 437],
  mount_setattr: [442, 442],
} as const satisfies Record<string, readonly [number, number]>;

type CallName = keyof typeof callNumbers;

/** Bytes in the program's data; as an argument it stands for their address. */
interface Datum {
  readonly offset: number;
}

/** A place between steps; as a destination it stands for the step that follows it. */
export interface Label {
  step: number | undefined;
}

type Argument = number | bigint | Datum;

interface StepOptions {
  /** For the message when it fails, as a user would say it: `mount "/etc/config"`. */
  readonly what?: string;
  /** Where to go on after an error; `'ignore'` is the next step. */
  readonly onError?: Label | 'ignore';
  readonly onPositive?: Label;
}

/** A step that failed and stopped the program. */
export interface StepFailure {
  readonly call: CallName;
  readonly what: string;
  /** Positive. */
  readonly errno: number;
}

interface Step {
  readonly call: CallName;
  readonly arguments: readonly Argument[];
  readonly what: string;
  readonly onError: Label | 'ignore';
  readonly onPositive: Label | undefined;
}

export interface CompiledProgram {
  readonly image: Buffer;
  /** What the 16 bytes of a failure report mean. */
  readonly steps: readonly { readonly call: CallName; readonly what: string }[];
}

const codeAddress = 0x400000;
const dataAddress = 0x600000;
const pageBytes = 4096;
const resultOffset = 0;
const failureOffset = 8;
const stepsOffset = 0x20;
const stepBytes = 72;
export const resultBytes = 8;
export const failureBytes = 16;

/** The first word of each line. */
function assembled(listing: string): Buffer {
  const lines = listing.trim().split('\n');
  return Buffer.from(lines.map((line) => line.trim().split(' ')[0]).join(''), 'hex');
}

/** The loop. RESULT, FAILURE and the steps stand at the offsets above; rbx and x19 point at the current step. */
const code: Readonly<Record<Architecture, Buffer>> = {
  x64: assembled(`
    bb20006000        start:  mov ebx, steps
    488b03            next:   mov rax, [rbx]
    488b7b08                  mov rdi, [rbx+8]
    488b7310                  mov rsi, [rbx+16]
    488b5318                  mov rdx, [rbx+24]
    4c8b5320                  mov r10, [rbx+32]
    4c8b4328                  mov r8, [rbx+40]
    4c8b4b30                  mov r9, [rbx+48]
    0f05                      syscall
    4885c0                    test rax, rax
    7426                      jz zero
    780e                      js failed
    4889042500006000          mov [RESULT], rax
    488b5b38                  mov rbx, [rbx+56]
    ebce                      jmp next
    48891c2508006000  failed: mov [FAILURE], rbx
    4889042510006000          mov [FAILURE+8], rax
    488b5b40                  mov rbx, [rbx+64]
    ebb8                      jmp next
    4883c348          zero:   add rbx, 72
    ebb2                      jmp next`),
  arm64: assembled(`
    130480d2          start:  movz x19, #0x20
    130ca0f2                  movk x19, #0x60, lsl #16
    140ca0d2                  movz x20, #0x60, lsl #16
    680240f9          next:   ldr x8, [x19]
    608640a9                  ldp x0, x1, [x19, #8]
    628e41a9                  ldp x2, x3, [x19, #24]
    649642a9                  ldp x4, x5, [x19, #40]
    010000d4                  svc #0
    000100b4                  cbz x0, zero
    8000f8b7                  tbnz x0, #63, failed
    800200f9                  str x0, [x20]
    731e40f9                  ldr x19, [x19, #56]
    f7ffff17                  b next
    938200a9          failed: stp x19, x0, [x20, #8]
    732240f9                  ldr x19, [x19, #64]
    f4ffff17                  b next
    73220191          zero:   add x19, x19, #72
    f2ffff17                  b next`),
};

export class SystemProgram {
  readonly #steps: Step[] = [];
  readonly #failed: Label = { step: undefined };
  readonly #descriptors: Set<number>;
  #data: Buffer = Buffer.alloc(16 * 1024);
  #dataBytes = 0;

  /** The program starts with this many descriptors, and with itself as one more, which it closes. */
  constructor(given: number) {
    this.#descriptors = new Set(Array.from({ length: given + 1 }, (_, descriptor) => descriptor));
    this.close(given);
  }

  call(
    call: CallName,
    args: readonly Argument[],
    { what = call, onError = this.#failed, onPositive }: StepOptions = {},
  ): void {
    this.#steps.push({ call, arguments: args, what, onError, onPositive });
  }

  /** A call that answers with a new descriptor, which is returned. Such a call must not be one whose errors are ignored. */
  open(call: CallName, args: readonly Argument[], options: { readonly what?: string } = {}): number {
    this.call(call, args, options);
    let descriptor = 0;
    while (this.#descriptors.has(descriptor)) descriptor += 1;
    this.#descriptors.add(descriptor);
    return descriptor;
  }

  close(descriptor: number): void {
    this.#descriptors.delete(descriptor);
    this.call('close', [descriptor]);
  }

  bytes(bytes: Uint8Array): Datum {
    const datum = this.#room(bytes.length);
    this.#data.set(bytes, datum.offset);
    return datum;
  }

  text(text: string): Datum {
    const datum = this.#room(Buffer.byteLength(text) + 1);
    this.#data.write(text, datum.offset);
    return datum;
  }

  /** Words of 64 bits; those that are data stand for their address. */
  words(words: readonly Argument[]): Datum {
    const datum = this.#room(words.length * 8);
    // Addresses are known only when all steps are: they are filled in by `compile`.
    this.#addressed.push({ offset: datum.offset, words });
    return datum;
  }
  readonly #addressed: { readonly offset: number; readonly words: readonly Argument[] }[] = [];

  /** Zeros, at a multiple of 8. */
  #room(bytes: number): Datum {
    const offset = this.#dataBytes;
    this.#dataBytes += Math.ceil(bytes / 8) * 8;
    if (this.#dataBytes > this.#data.length) {
      const larger = Buffer.alloc(2 * this.#dataBytes);
      larger.set(this.#data);
      this.#data = larger;
    }
    return { offset };
  }

  /** Where a step goes on after an error, unless it says otherwise. */
  get failure(): Label {
    return this.#failed;
  }

  /** Places the label here. */
  mark(label: Label): void {
    label.step = this.#steps.length;
  }

  /** Sends the last positive result, a process id, to a socket. */
  reportResult(socket: number): void {
    this.call('write', [socket, dataAddress + resultOffset, resultBytes], { onError: this.#failed });
  }

  /** Passes a descriptor to the other side of a socket. */
  sendDescriptor(socket: number, descriptor: number): void {
    const control = Buffer.alloc(24); // a control message with one descriptor
    control.writeBigUInt64LE(20n, 0);
    control.writeInt32LE(1, 8); // SOL_SOCKET
    control.writeInt32LE(1, 12); // SCM_RIGHTS
    control.writeInt32LE(descriptor, 16);
    const payload = this.words([this.bytes(Buffer.from('d')), 1]);
    const message = this.words([0, 0, payload, 1, this.bytes(control), control.length, 0]);
    this.call('sendmsg', [socket, message, 0], { what: 'hand on a descriptor' });
  }

  compile(architecture: Architecture, statusSocket: number): CompiledProgram {
    this.mark(this.#failed);
    this.call('write', [statusSocket, dataAddress + failureOffset, failureBytes], { onError: 'ignore' });
    this.call('exit', [127]);
    const dataOffset = stepsOffset + this.#steps.length * stepBytes;
    const data = Buffer.alloc(dataOffset + this.#dataBytes);
    data.set(this.#data.subarray(0, this.#dataBytes), dataOffset);
    const write = (argument: Argument, offset: number): void => {
      writeWord(data, typeof argument === 'object' ? dataAddress + dataOffset + argument.offset : argument, offset);
    };
    for (const { offset, words } of this.#addressed) {
      words.forEach((word, index) => write(word, dataOffset + offset + index * 8));
    }
    const stepAddress = (index: number): number => dataAddress + stepsOffset + index * stepBytes;
    this.#steps.forEach(({ call, arguments: args, onError, onPositive }, index) => {
      const [next, at] = [index + 1, stepsOffset + index * stepBytes];
      write(callNumbers[call][architecture === 'x64' ? 0 : 1], at);
      args.forEach((argument, place) => write(argument, at + 8 + place * 8));
      write(stepAddress(onPositive?.step ?? next), at + 56);
      write(stepAddress((onError === 'ignore' ? next : onError.step) ?? next), at + 64);
    });
    return {
      image: executable(architecture, data),
      steps: this.#steps.map(({ call, what }) => ({ call, what })),
    };
  }
}

/** A word of 64 bits. Most are small numbers, which need no BigInt: there are thousands in a program. */
function writeWord(target: Buffer, value: number | bigint, offset: number): void {
  if (typeof value === 'bigint') {
    target.writeBigUInt64LE(BigInt.asUintN(64, value), offset);
    return;
  }
  target.writeUInt32LE(value >>> 0, offset);
  if (value < 0 || value >= 2 ** 32) target.writeInt32LE(Math.floor(value / 2 ** 32), offset + 4);
}

/** What a failure report says; undefined for any other bytes. */
export function readFailure(report: Buffer, steps: CompiledProgram['steps']): StepFailure | undefined {
  if (report.length !== failureBytes) return undefined;
  const index = (Number(report.readBigUInt64LE(0)) - dataAddress - stepsOffset) / stepBytes;
  const step = steps[index];
  return step === undefined ? undefined : { ...step, errno: Number(-report.readBigInt64LE(8)) };
}

/** An ELF file of two segments: the loop, which can be executed, and the data, which can be written. */
function executable(architecture: Architecture, data: Buffer): Buffer {
  const instructions = code[architecture];
  const headerBytes = 64;
  const segmentBytes = 56;
  const codeOffset = headerBytes + 3 * segmentBytes;
  const machine = architecture === 'x64' ? 62 : 183;
  const file = Buffer.alloc(pageBytes + data.length);
  file.set([0x7f, 0x45, 0x4c, 0x46, 2, 1, 1]); // 64 bits, little-endian
  file.writeUInt16LE(2, 16); // an executable at fixed addresses
  file.writeUInt16LE(machine, 18);
  file.writeUInt32LE(1, 20);
  file.writeBigUInt64LE(BigInt(codeAddress + codeOffset), 24); // the first instruction
  file.writeBigUInt64LE(BigInt(headerBytes), 32); // the segments
  file.writeUInt16LE(headerBytes, 52);
  file.writeUInt16LE(segmentBytes, 54);
  file.writeUInt16LE(3, 56);
  const segment = (
    index: number,
    type: number,
    flags: number,
    offset: number,
    address: number,
    bytes: number,
  ): void => {
    const at = headerBytes + index * segmentBytes;
    file.writeUInt32LE(type, at);
    file.writeUInt32LE(flags, at + 4);
    for (const [place, value] of [offset, address, address, bytes, bytes, pageBytes].entries()) {
      file.writeBigUInt64LE(BigInt(value), at + 8 + place * 8);
    }
  };
  const [load, stack, readExecute, readWrite] = [1, 0x6474e551, 5, 6];
  segment(0, load, readExecute, 0, codeAddress, codeOffset + instructions.length);
  segment(1, load, readWrite, pageBytes, dataAddress, data.length);
  segment(2, stack, readWrite, 0, 0, 0); // a stack that cannot be executed
  file.set(instructions, codeOffset);
  file.set(data, pageBytes);
  return file;
}
