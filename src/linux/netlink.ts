/**
 * Network interfaces, their addresses and routes, and what the packet filter knows, in the kernel's own messages (netlink).
 * `requests` only writes them, so that a program of system calls can send them in a namespace of its own; NetlinkSocket sends them in the namespace of this process.
 * IPv4 alone.
 */
import { getSystemErrorName, promisify } from 'node:util';
import { SystemCallError } from './system-call-error.ts';
import { loadKoffi } from './system-calls.ts';

/** What socket(2) takes for netlink, routes: `socket(16, 3 | SOCK_CLOEXEC, 0)`. */
export const netlinkSocket = { family: 16, type: 3 | 0o2000000, protocol: 0 } as const;

/** In a new network namespace the loopback interface is always the first. */
export const loopbackIndex = 1;

const types = { newLink: 16, deleteLink: 17, getLink: 18, newAddress: 20, newRoute: 24 } as const;
const flags = { request: 1, acknowledge: 4, replace: 0x100, exclusive: 0x200, create: 0x400 } as const;
const linkAttributes = { address: 1, name: 3, master: 10, info: 18, namespace: 28 } as const;
const linkInfo = { kind: 1, data: 2, masterKind: 4, masterData: 5 } as const;
const returnsFrames = 4; // IFLA_BRPORT_MODE: hairpin
const vethPeer = 1;
const addressAttributes = { address: 1, local: 2, broadcast: 4 } as const;
const routeAttributes = { interface: 4, gateway: 5 } as const;
const up = 1; // IFF_UP
const headerBytes = 16;
const errorType = 2;
const [internet, mainTable, bootProtocol, everywhere, unicast] = [2, 254, 3, 0, 1];
const nameBytesMax = 15;
const [filterProtocol, getTable, tableName] = [12, (10 << 8) | 1, 1]; // NETLINK_NETFILTER, NFT_MSG_GETTABLE, NFTA_TABLE_NAME
const families = { ip: internet, bridge: 7 } as const;
const doneType = 3; // NLMSG_DONE
const wholeList = 0x300; // NLM_F_DUMP
const nested = 0x8000; // NLA_F_NESTED
/** Connections that the kernel tracks: IPCTNL_MSG_CT_*, CTA_*; `by` says what of a tuple has to match. */
const flows = { get: (1 << 8) | 1, delete: (1 << 8) | 2, original: 1, filter: 25 } as const;
const tuple = { addresses: 1, protocol: 2, destination: 2, number: 1, port: 3 } as const;
const by = { destination: 1 << 1, protocol: 1 << 3, port: 1 << 5 } as const;
const udp = 17;

/** The bytes of one request; what was asked is told again by a failure. */
export interface NetlinkRequest {
  readonly what: string;
  readonly type: number;
  readonly flags: number;
  readonly body: Buffer;
}

interface Interface {
  readonly name: string;
  /** `0a:58:0a:d4:00:02` */
  readonly mac: string;
}

export const requests = {
  newBridge: ({ name, mac, index = 0 }: Interface & { readonly index?: number }): NetlinkRequest => ({
    what: `make the bridge ${name}`,
    type: types.newLink,
    flags: flags.create | flags.exclusive,
    body: Buffer.concat([
      link({ index, isUp: true }),
      attribute(linkAttributes.name, text(name)),
      attribute(linkAttributes.address, macBytes(mac)),
      attribute(linkAttributes.info, attribute(linkInfo.kind, text('bridge'))),
    ]),
  }),
  /** Two ends of one cable: the first here, with an index of the caller's choice, the second in another namespace. */
  newPair: (
    own: Interface & { readonly index: number },
    peer: { readonly name: string; readonly namespace?: number },
  ): NetlinkRequest => ({
    what: `make the interfaces ${own.name} and ${peer.name}`,
    type: types.newLink,
    flags: flags.create | flags.exclusive,
    body: Buffer.concat([
      link({ index: own.index, isUp: true }),
      attribute(linkAttributes.name, text(own.name)),
      attribute(linkAttributes.address, macBytes(own.mac)),
      attribute(
        linkAttributes.info,
        attribute(linkInfo.kind, text('veth')),
        attribute(
          linkInfo.data,
          attribute(
            vethPeer,
            link({}),
            attribute(linkAttributes.name, text(peer.name)),
            ...(peer.namespace === undefined ? [] : [attribute(linkAttributes.namespace, number(peer.namespace))]),
          ),
        ),
      ),
    ]),
  }),
  connectToBridge: (name: string, bridgeIndex: number): NetlinkRequest => ({
    what: `connect the interface ${name} to its bridge`,
    type: types.newLink,
    flags: 0,
    body: Buffer.concat([
      link({ isUp: true }),
      attribute(linkAttributes.name, text(name)),
      attribute(linkAttributes.master, number(bridgeIndex)),
    ]),
  }),
  /** Lets a bridge send what comes from this interface back to it. */
  returnFrames: (name: string): NetlinkRequest => ({
    what: `let frames return to ${name}`,
    type: types.newLink,
    flags: 0,
    body: Buffer.concat([
      link({}),
      attribute(linkAttributes.name, text(name)),
      attribute(
        linkAttributes.info,
        attribute(linkInfo.masterKind, text('bridge')),
        attribute(linkInfo.masterData, attribute(returnsFrames, Buffer.from([1]))),
      ),
    ]),
  }),
  setUp: (index: number): NetlinkRequest => ({
    what: 'set up the loopback interface',
    type: types.newLink,
    flags: 0,
    body: link({ index, isUp: true }),
  }),
  /** An address that is there already is a success. */
  addAddress: (index: number, address: string, prefixBits: number): NetlinkRequest => {
    const local = addressBytes(address);
    const broadcast = Buffer.alloc(4);
    broadcast.writeUInt32BE((local.readUInt32BE() | (0xffffffff >>> prefixBits)) >>> 0);
    return {
      what: `add the address ${address}`,
      type: types.newAddress,
      flags: flags.create | flags.replace,
      body: Buffer.concat([
        Buffer.from([internet, prefixBits, 0, everywhere]),
        number(index),
        attribute(addressAttributes.local, local),
        attribute(addressAttributes.address, local),
        attribute(addressAttributes.broadcast, broadcast),
      ]),
    };
  },
  addDefaultRoute: (index: number, gateway: string): NetlinkRequest => ({
    what: `add a route by ${gateway}`,
    type: types.newRoute,
    flags: flags.create,
    body: Buffer.concat([
      Buffer.from([internet, 0, 0, 0, mainTable, bootProtocol, everywhere, unicast, 0, 0, 0, 0]),
      attribute(routeAttributes.gateway, addressBytes(gateway)),
      attribute(routeAttributes.interface, number(index)),
    ]),
  }),
  deleteLink: (name: string): NetlinkRequest => ({
    what: `remove the interface ${name}`,
    type: types.deleteLink,
    flags: 0,
    body: Buffer.concat([link({}), attribute(linkAttributes.name, text(name))]),
  }),
} as const;

/** Of a message about a failed request: its own header, the errno, the header of the request. */
export const netlinkFailureBytes = headerBytes + 4 + headerBytes;

/** Several requests for one send, numbered from `first` on. Without an acknowledgement: what comes back is a failure. */
export function netlinkBatch(batch: readonly NetlinkRequest[], first: number): Buffer {
  return Buffer.concat(batch.map((request, index) => message(request, 0, first + index)));
}

/** What the kernel sent back, where it sent something: the first request that failed, of those numbered from 0 on. */
export function readNetlinkFailure(
  report: Buffer,
  batch: readonly NetlinkRequest[],
): { readonly what: string; readonly errno: number } | undefined {
  if (report.length < netlinkFailureBytes || report.readUInt16LE(4) !== errorType) return undefined;
  const errno = -report.readInt32LE(headerBytes);
  const request = batch[report.readUInt32LE(headerBytes + 4 + 8)];
  return request === undefined || errno === 0 ? undefined : { what: request.what, errno };
}

/** The kernel answers at once, or when it has finished with what others asked of it. */
const answerMsMax = 10_000;
const answerBytesMax = 16 * 1024;

/** For the network namespace that this process is in. Calls wait off the main thread. */
export class NetlinkSocket {
  readonly #descriptor: number;
  readonly #calls: NetlinkCalls;
  #sequence = 0;
  #last: Promise<unknown> = Promise.resolve();

  private constructor(calls: NetlinkCalls, protocol: number) {
    this.#calls = calls;
    this.#descriptor = calls.open(protocol);
  }

  /** For `routes`: interfaces, addresses and routes. For `filters`: the tables of nftables. */
  static open(subject: 'routes' | 'filters'): NetlinkSocket {
    return new NetlinkSocket(bindCalls(), subject === 'routes' ? netlinkSocket.protocol : filterProtocol);
  }

  /** Rejects with a SystemCallError, whose `path` says what was asked. */
  async ask(request: NetlinkRequest): Promise<void> {
    await this.#exchange(request, flags.acknowledge);
  }

  /** Whether nftables has a table. Of a socket for filters. */
  async hasTable(family: keyof typeof families, name: string): Promise<boolean> {
    const body = Buffer.concat([filterHeader(families[family]), attribute(tableName, Buffer.from(`${name}\0`))]);
    try {
      await this.#exchange({ what: `find the table ${name}`, type: getTable, flags: 0, body }, 0);
      return true;
    } catch (thrown) {
      if (thrown instanceof SystemCallError && thrown.code === 'ENOENT') return false;
      throw thrown;
    }
  }

  /** Where packets of UDP to an address and a port were sent on to is decided anew for the next one. Of a socket for filters. */
  async forgetFlows(address: string, port: number): Promise<void> {
    const wanted = attribute(
      flows.original | nested,
      attribute(tuple.addresses | nested, attribute(tuple.destination, addressBytes(address))),
      attribute(
        tuple.protocol | nested,
        attribute(tuple.number, Buffer.from([udp])),
        attribute(tuple.port, Buffer.from([port >> 8, port & 0xff])),
      ),
    );
    const matching = attribute(flows.filter | nested, attribute(1, number(by.destination | by.protocol | by.port)));
    const what = `find what was sent to port ${port}`;
    const body = Buffer.concat([filterHeader(internet), wanted, matching]);
    for (const found of await this.#list({ what, type: flows.get, flags: wholeList, body })) {
      const original = attributesOf(found.subarray(headerBytes + 4)).find(({ type }) => type === flows.original);
      if (original === undefined) continue;
      const one = Buffer.concat([filterHeader(internet), original.bytes]);
      try {
        await this.ask({ what: `forget what was sent to port ${port}`, type: flows.delete, flags: 0, body: one });
      } catch (thrown) {
        if (!(thrown instanceof SystemCallError) || thrown.code !== 'ENOENT') throw thrown;
      }
    }
  }

  /** Undefined: there is no such interface. */
  async indexOf(name: string): Promise<number | undefined> {
    const body = Buffer.concat([link({}), attribute(linkAttributes.name, text(name))]);
    try {
      const answer = await this.#exchange({ what: `find ${name}`, type: types.getLink, flags: 0, body }, 0);
      return answer.readInt32LE(headerBytes + 4);
    } catch (thrown) {
      if (thrown instanceof SystemCallError && thrown.code === 'ENODEV') return undefined;
      throw thrown;
    }
  }

  close(): void {
    this.#calls.close(this.#descriptor);
  }

  async #exchange(request: NetlinkRequest, added: number): Promise<Buffer> {
    return await this.#inTurn(async () => (await this.#exchangeNow(request, added, false))[0] ?? Buffer.alloc(0));
  }

  async #list(request: NetlinkRequest): Promise<readonly Buffer[]> {
    return await this.#inTurn(() => this.#exchangeNow(request, 0, true));
  }

  /** One after the other: an answer belongs to the request before it. */
  async #inTurn<T>(act: () => Promise<T>): Promise<T> {
    const turn = this.#last.then(act);
    this.#last = turn.catch(() => {});
    return await turn;
  }

  async #exchangeNow(request: NetlinkRequest, added: number, isList: boolean): Promise<Buffer[]> {
    this.#sequence += 1;
    const bytes = message(request, added, this.#sequence);
    const fail = (code: string): never => {
      throw new SystemCallError({ call: 'netlink', path: request.what, code });
    };
    if ((await this.#calls.send(this.#descriptor, bytes)) !== bytes.length) fail('EIO');
    const answers: Buffer[] = [];
    for (;;) {
      const received = Buffer.alloc(answerBytesMax);
      const length = await this.#calls.receive(this.#descriptor, received);
      if (length < headerBytes) return fail('ETIMEDOUT');
      for (const answer of messagesOf(received.subarray(0, length))) {
        if (answer.readUInt32LE(8) !== this.#sequence) continue; // the late answer to a request that was given up
        const type = answer.readUInt16LE(4);
        const errno = type === errorType ? answer.readInt32LE(headerBytes) : 0;
        if (errno !== 0) return fail(getSystemErrorName(errno));
        if (isList && type === doneType) return answers;
        answers.push(answer);
        if (!isList) return answers;
      }
    }
  }
}

interface NetlinkCalls {
  open(protocol: number): number;
  send(descriptor: number, bytes: Buffer): Promise<number>;
  receive(descriptor: number, into: Buffer): Promise<number>;
  close(descriptor: number): void;
}

function bindCalls(): NetlinkCalls {
  const koffi = loadKoffi();
  const library = koffi.load(null);
  const socket = library.func('socket', 'int', ['int', 'int', 'int']);
  const setsockopt = library.func('setsockopt', 'int', ['int', 'int', 'int', 'void *', 'uint']);
  const send = promisify(library.func('send', 'long', ['int', 'void *', 'size_t', 'int']).async);
  const receive = promisify(library.func('recv', 'long', ['int', 'void *', 'size_t', 'int']).async);
  const close = library.func('close', 'int', ['int']);
  return {
    open(protocol) {
      const descriptor = Number(socket(netlinkSocket.family, netlinkSocket.type, protocol));
      if (descriptor < 0) {
        throw new SystemCallError({ call: 'socket', path: 'netlink', code: getSystemErrorName(-koffi.errno()) });
      }
      const time = Buffer.alloc(16);
      time.writeBigInt64LE(BigInt(answerMsMax / 1000), 0);
      setsockopt(descriptor, 1, 20, time, time.length); // SO_RCVTIMEO
      return descriptor;
    },
    send: async (descriptor, bytes) => Number(await send(descriptor, bytes, bytes.length, 0)),
    receive: async (descriptor, into) => Number(await receive(descriptor, into, into.length, 0)),
    close: (descriptor) => void close(descriptor),
  };
}

function message({ type, flags: own, body }: NetlinkRequest, added: number, sequence: number): Buffer {
  const header = Buffer.alloc(headerBytes);
  header.writeUInt32LE(headerBytes + body.length, 0);
  header.writeUInt16LE(type, 4);
  header.writeUInt16LE(flags.request | own | added, 6);
  header.writeUInt32LE(sequence, 8);
  return Buffer.concat([header, body]);
}

/** Of one receive; each begins with its length, and at a multiple of 4. */
function messagesOf(bytes: Buffer): Buffer[] {
  return piecesOf(bytes, headerBytes, (at) => bytes.readUInt32LE(at));
}

function attributesOf(bytes: Buffer): { readonly type: number; readonly bytes: Buffer }[] {
  return piecesOf(bytes, 4, (at) => bytes.readUInt16LE(at)).map((piece) => ({
    type: piece.readUInt16LE(2) & ~nested,
    bytes: piece,
  }));
}

function piecesOf(bytes: Buffer, least: number, lengthAt: (at: number) => number): Buffer[] {
  const pieces: Buffer[] = [];
  for (let at = 0; at + least <= bytes.length;) {
    const length = lengthAt(at);
    if (length < least || at + length > bytes.length) break;
    pieces.push(bytes.subarray(at, at + length));
    at += Math.ceil(length / 4) * 4;
  }
  return pieces;
}

/** struct nfgenmsg */
function filterHeader(family: number): Buffer {
  return Buffer.from([family, 0, 0, 0]);
}

/** struct ifinfomsg */
function link({ index = 0, isUp = false }: { readonly index?: number; readonly isUp?: boolean }): Buffer {
  const bytes = Buffer.alloc(16);
  bytes.writeInt32LE(index, 4);
  bytes.writeUInt32LE(isUp ? up : 0, 8);
  bytes.writeUInt32LE(isUp ? up : 0, 12);
  return bytes;
}

/** Padded to a multiple of 4, as all of them are. */
function attribute(type: number, ...parts: readonly Buffer[]): Buffer {
  const value = Buffer.concat(parts);
  const bytes = Buffer.alloc(4 + Math.ceil(value.length / 4) * 4);
  bytes.writeUInt16LE(4 + value.length, 0);
  bytes.writeUInt16LE(type, 2);
  bytes.set(value, 4);
  return bytes;
}

function number(value: number): Buffer {
  const bytes = Buffer.alloc(4);
  bytes.writeUInt32LE(value);
  return bytes;
}

function text(name: string): Buffer {
  if (name.length > nameBytesMax) throw new SystemCallError({ call: 'netlink', path: name, code: 'ENAMETOOLONG' });
  return Buffer.from(`${name}\0`);
}

function macBytes(mac: string): Buffer {
  return Buffer.from(mac.replaceAll(':', ''), 'hex');
}

export function addressBytes(address: string): Buffer {
  return Buffer.from(address.split('.').map(Number));
}
