/**
 * Processes that Node's own child_process cannot make or follow: programs of `system-program.ts`, with exactly the descriptors
 * they are given, whose children are ours too. Bound with koffi. `reap` is for a process of its own (the spawner): it takes the
 * end of every child, so nothing else in that process may start children.
 */
import { readdirSync } from 'node:fs';
import { getSystemErrorName } from 'node:util';
import { loadKoffi } from './system-calls.ts';

export interface Processes {
  /**
   * Starts a program with these descriptors as 0, 1, 2 …, and itself as the one after; everything else is closed in it.
   * Signals are at their defaults.
   */
  start(image: Buffer, descriptors: readonly number[]): number;
  /** Children that have ended since the last call. */
  reap(): ChildEnd[];
  /** Resolves when this child has ended. Where `reap` is used it takes their ends. */
  ended(pid: number): Promise<void>;
  kill(pid: number, signal: number): boolean;
  /** A descriptor that means this child whatever its number is used for later. */
  openChild(pid: number): number;
  /** `[read, write]`, neither of which any program inherits. */
  pipe(): [number, number];
  /** Two ends that keep messages apart and can pass descriptors. */
  socketPair(): [number, number];
  /** Waits for a message off the main thread. An empty one means that the other side is closed, none that the time is over or a signal came. */
  receive(socket: number): Promise<Message | undefined>;
  send(socket: number, text: string): void;
  /** How long `receive` waits for a message. */
  setReceiveTimeout(socket: number, ms: number): void;
  setTerminalSize(descriptor: number, columns: number, rows: number): void;
  close(descriptor: number): void;
  /** Closes what came from the program that started this one. What Node itself has opened is marked close-on-exec. */
  closeInherited(): void;
  /** No other process of this user can inspect this one or take its descriptors. */
  protectMemory(): void;
}

export interface ChildEnd {
  readonly pid: number;
  /** 128 + the signal's number for one that was killed. */
  readonly exitCode: number;
}

export interface Message {
  readonly bytes: Buffer;
  readonly descriptor: number | undefined;
}

const closeOnExec = 0o2000000; // O_CLOEXEC, SOCK_CLOEXEC and MFD_CLOEXEC differ
const memoryFileCloseOnExec = 1;
const [unixSockets, sequencedPackets, socketLevel, receiveTimeout] = [1, 5, 1, 20];
const setWindowSize = 0x5414; // TIOCSWINSZ
const [getDescriptorFlags, duplicateAbove] = [1, 1030]; // F_GETFD, F_DUPFD_CLOEXEC
const noHang = 1;
const pidfdOpen = 434; // the same on every architecture; always close-on-exec
const setDumpable = 4;
/** posix_spawn: SETSIGDEF | SETSIGMASK. */
const spawnFlags = 0x04 | 0x08;
const messageBytesMax = 64;

/**
 * Ends this process at once. `process.exit` waits for the threads that compile, and such a thread may be waiting for the main
 * one to collect garbage: then the process never ends (nodejs/node#54918).
 */
export function exitNow(code: number): never {
  loadKoffi().load(null).func('_exit', 'void', ['int'])(code);
  throw new Error('_exit returned');
}

function callError(call: string, errno: number): Error {
  return new Error(`${call}: ${getSystemErrorName(-errno)}`);
}

export function loadProcesses(): Processes {
  const koffi = loadKoffi();
  const library = koffi.load(null);
  const bind = (name: string, result: string, parameters: string[]): ReturnType<typeof library.func> =>
    library.func(name, result, parameters);
  const calls = {
    memfd_create: bind('memfd_create', 'int', ['str', 'uint']),
    write: bind('write', 'long', ['int', 'void *', 'size_t']),
    posix_spawn: bind('posix_spawn', 'int', ['_Out_ int *', 'str', 'void *', 'void *', 'void *', 'void *']),
    actionsInit: bind('posix_spawn_file_actions_init', 'int', ['void *']),
    actionsDup: bind('posix_spawn_file_actions_adddup2', 'int', ['void *', 'int', 'int']),
    actionsCloseFrom: bind('posix_spawn_file_actions_addclosefrom_np', 'int', ['void *', 'int']),
    actionsDestroy: bind('posix_spawn_file_actions_destroy', 'int', ['void *']),
    attributesInit: bind('posix_spawnattr_init', 'int', ['void *']),
    attributesFlags: bind('posix_spawnattr_setflags', 'int', ['void *', 'short']),
    attributesDefault: bind('posix_spawnattr_setsigdefault', 'int', ['void *', 'void *']),
    attributesMask: bind('posix_spawnattr_setsigmask', 'int', ['void *', 'void *']),
    wait4: bind('wait4', 'int', ['int', '_Out_ int *', 'int', 'void *']),
    kill: bind('kill', 'int', ['int', 'int']),
    syscall: bind('syscall', 'long', ['long', 'long', 'long']),
    pipe2: bind('pipe2', 'int', ['_Out_ int *', 'int']),
    socketpair: bind('socketpair', 'int', ['int', 'int', 'int', '_Out_ int *']),
    setsockopt: bind('setsockopt', 'int', ['int', 'int', 'int', 'void *', 'uint']),
    recvmsg: bind('recvmsg', 'long', ['int', 'void *', 'int']),
    ioctl: bind('ioctl', 'int', ['int', 'ulong', 'void *']),
    close: bind('close', 'int', ['int']),
    prctl: bind('prctl', 'int', ['int', 'ulong', 'ulong', 'ulong', 'ulong']),
    fcntl: bind('fcntl', 'int', ['int', 'int', 'int']),
  };
  const check = (name: string, result: number): number => {
    if (result < 0) throw callError(name, koffi.errno());
    return result;
  };
  const pair = (name: string, call: (ends: number[]) => number): [number, number] => {
    const ends = [0, 0];
    check(name, call(ends));
    return [ends[0] ?? -1, ends[1] ?? -1];
  };
  const close = (descriptor: number): void => void calls.close(descriptor);
  // The signal sets of posix_spawn: all at their defaults, none blocked.
  const everySignal = Buffer.alloc(128, 0xff);
  const noSignal = Buffer.alloc(128);
  const attributes = Buffer.alloc(512); // larger than any posix_spawnattr_t
  calls.attributesInit(attributes);
  calls.attributesDefault(attributes, everySignal);
  calls.attributesMask(attributes, noSignal);
  calls.attributesFlags(attributes, spawnFlags);
  // Memory that only an address refers to is collected: what an address points to is in the same buffer.
  const argumentsOfProgram = Buffer.concat([Buffer.alloc(16), Buffer.from('mountlet-launch\0')]);
  argumentsOfProgram.writeBigUInt64LE(koffi.address(argumentsOfProgram) + 16n, 0);
  const noEnvironment = Buffer.alloc(8);

  return {
    start(image, descriptors) {
      const file = check('memfd_create', calls.memfd_create('mountlet', memoryFileCloseOnExec));
      const actions = Buffer.alloc(512);
      const moved: number[] = [];
      try {
        for (let done = 0; done < image.length;) {
          done += check('write', Number(calls.write(file, image.subarray(done), image.length - done)));
        }
        calls.actionsInit(actions);
        // First out of the way, above all targets: a descriptor must not be overwritten before its own turn.
        const own = descriptors.length;
        const free = own + 1;
        for (const [target, descriptor] of [...descriptors, file].entries()) {
          const safe = descriptor < free ? check('fcntl', calls.fcntl(descriptor, duplicateAbove, free)) : descriptor;
          if (safe !== descriptor) moved.push(safe);
          calls.actionsDup(actions, safe, target);
        }
        calls.actionsCloseFrom(actions, free);
        const pid = [0];
        const errno = Number(
          calls.posix_spawn(pid, `/proc/self/fd/${own}`, actions, attributes, argumentsOfProgram, noEnvironment),
        );
        calls.actionsDestroy(actions);
        if (errno !== 0) throw callError('posix_spawn', errno);
        return pid[0] ?? -1;
      } finally {
        close(file);
        for (const descriptor of moved) close(descriptor);
      }
    },
    reap() {
      const ends: ChildEnd[] = [];
      for (;;) {
        const status = [0];
        const pid = Number(calls.wait4(-1, status, noHang, null));
        if (pid <= 0) return ends;
        const word = status[0] ?? 0;
        const signal = word & 0x7f;
        ends.push({ pid, exitCode: signal === 0 ? (word >> 8) & 0xff : 128 + signal });
      }
    },
    ended: (pid) =>
      new Promise((resolve) => {
        calls.wait4.async(pid, [0], 0, null, () => resolve());
      }),
    kill: (pid, signal) => pid > 0 && Number(calls.kill(pid, signal)) === 0, // 0 is our own process group
    openChild: (pid) => check('pidfd_open', Number(calls.syscall(pidfdOpen, pid, 0))),
    pipe: () => pair('pipe2', (ends) => Number(calls.pipe2(ends, closeOnExec))),
    socketPair: () =>
      pair('socketpair', (ends) => Number(calls.socketpair(unixSockets, sequencedPackets | closeOnExec, 0, ends))),
    async receive(socket) {
      // One buffer, as above: a header, its vector of one part, one control message with one descriptor, the message.
      const memory = Buffer.alloc(56 + 16 + 24 + messageBytesMax);
      const [vector, control, bytes] = [56, 72, 96];
      const address = koffi.address(memory);
      memory.writeBigUInt64LE(address + BigInt(vector), 16);
      memory.writeBigUInt64LE(1n, 24);
      memory.writeBigUInt64LE(address + BigInt(control), 32);
      memory.writeBigUInt64LE(BigInt(bytes - control), 40);
      memory.writeBigUInt64LE(address + BigInt(bytes), vector);
      memory.writeBigUInt64LE(BigInt(messageBytesMax), vector + 8);
      const length = await new Promise<number>((resolve, reject) => {
        calls.recvmsg.async(socket, memory, 0x40000000, (error: Error | null, result: number | bigint) => {
          if (error === null) resolve(Number(result)); // MSG_CMSG_CLOEXEC
          else reject(error);
        });
      });
      if (length < 0) return undefined;
      const hasDescriptor = memory.readBigUInt64LE(40) >= 20n && memory.readInt32LE(control + 12) === 1; // SCM_RIGHTS
      return {
        bytes: memory.subarray(bytes, bytes + length),
        descriptor: hasDescriptor ? memory.readInt32LE(control + 16) : undefined,
      };
    },
    send(socket, text) {
      const bytes = Buffer.from(text);
      calls.write(socket, bytes, bytes.length); // one that is gone needs no message
    },
    setReceiveTimeout(socket, ms) {
      const time = Buffer.alloc(16);
      time.writeBigInt64LE(BigInt(Math.floor(ms / 1000)), 0);
      time.writeBigInt64LE(BigInt((ms % 1000) * 1000), 8);
      check('setsockopt', Number(calls.setsockopt(socket, socketLevel, receiveTimeout, time, 16)));
    },
    setTerminalSize(descriptor, columns, rows) {
      const size = Buffer.alloc(8);
      size.writeUInt16LE(Math.min(rows, 0xffff), 0);
      size.writeUInt16LE(Math.min(columns, 0xffff), 2);
      calls.ioctl(descriptor, setWindowSize, size); // a terminal that is gone needs no size
    },
    close,
    closeInherited() {
      for (const name of readdirSync('/proc/self/fd')) {
        const descriptor = Number(name);
        if (descriptor > 2 && Number(calls.fcntl(descriptor, getDescriptorFlags, 0)) === 0) close(descriptor);
      }
    },
    protectMemory: () => void calls.prctl(setDumpable, 0, 0, 0, 0),
  };
}
