/**
 * Tells pods what names mean: those of the cluster from what the API says, others from the machine's own servers. It listens at
 * the machine's address in the network of its pods, to them and to the machine itself. What it holds for its clients is bounded, for
 * all of them together and for each.
 */
import { randomInt } from 'node:crypto';
import { type Socket as DatagramSocket, createSocket } from 'node:dgram';
import { once } from 'node:events';
import { type AddressInfo, type Server, type Socket, createServer } from 'node:net';
import { onAbort } from '../base/abort.ts';
import { OperatingError, errorCode } from '../base/errors.ts';
import { type DnsForwarder, type DnsTransport, forwardQuery } from './dns-forwarder.ts';
import {
  type DnsRecord,
  type Labels,
  type Query,
  type Reply,
  codes,
  datagramBytesMax,
  messageBytesMax,
  nameBytes,
  readAnswers,
  readQuery,
  types,
  writeQuery,
  writeReply,
} from './dns-message.ts';
import { meaningOf } from './dns-names.ts';
import { framed, readMessages } from './dns-stream.ts';
import type { ServiceDirectory } from './service-directory.ts';

interface DnsServerSettings {
  readonly address: string;
  /** `cluster.local`; empty: the cluster has no names. */
  readonly domain: string;
  /** A connection over which nothing comes for so long is closed. */
  readonly idleMs: number;
}

interface DnsServerDeps {
  /** Undefined while nothing is known yet. */
  readonly directory: () => ServiceDirectory | undefined;
  readonly isClient: (address: string) => boolean;
  readonly forwarder: DnsForwarder;
}

/** Of all clients, and of one. */
const forwardedMax = { all: 512, each: 64 };
const connectionsMax = { all: 128, each: 16 };
/** How often a name may stand for another one. */
const aliasesMax = 8;
const portTriesMax = 10;

export class DnsServer {
  readonly #settings: DnsServerSettings;
  readonly #deps: DnsServerDeps;
  readonly #domain: Labels;
  readonly #forwarded = new Slots(forwardedMax);
  readonly #connections = new Slots(connectionsMax);
  readonly #stop = new AbortController();

  constructor(settings: DnsServerSettings, deps: DnsServerDeps) {
    this.#settings = settings;
    this.#deps = deps;
    this.#domain = settings.domain.split('.').filter((label) => label !== '');
  }

  /** The port at which it listens, over UDP and TCP. Any free one: on many machines another server has the usual one. */
  async listen(): Promise<number> {
    const { address } = this.#settings;
    for (let tries = 1; ; tries += 1) {
      const streams = createServer((socket) => void this.#converse(socket).catch(() => socket.destroy()));
      const datagrams = createSocket('udp4');
      try {
        streams.listen(0, address);
        await once(streams, 'listening');
        const { port } = streams.address() as AddressInfo;
        datagrams.bind(port, address);
        await once(datagrams, 'listening');
        this.#serve(streams, datagrams);
        return port;
      } catch (error) {
        streams.close();
        datagrams.close();
        if (errorCode(error) !== 'EADDRINUSE' || tries === portTriesMax) throw error;
      }
    }
  }

  close(): void {
    this.#stop.abort();
  }

  #serve(streams: Server, datagrams: DatagramSocket): void {
    // Of one client or one packet: whoever asked will ask again.
    for (const one of [streams, datagrams]) one.on('error', () => {});
    datagrams.on('message', (message, { address, port }) => {
      if (!this.#deps.isClient(address)) return;
      void this.#reply(message, address, (reply) => datagrams.send(reply, port, address, () => {}));
    });
    onAbort(this.#stop.signal, () => {
      streams.close();
      datagrams.close();
    });
  }

  async #reply(message: Buffer, client: string, send: (reply: Buffer) => void): Promise<void> {
    const reply = await this.#answer(message, 'udp', client);
    if (reply !== undefined && !this.#stop.signal.aborted) send(reply);
  }

  async #converse(socket: Socket): Promise<void> {
    const client = socket.remoteAddress ?? '';
    socket.on('error', () => {}); // reading says it
    const stopListening = onAbort(this.#stop.signal, () => void socket.destroy());
    try {
      if (!this.#deps.isClient(client)) return;
      socket.setTimeout(this.#settings.idleMs, () => socket.destroy());
      await this.#connections.use(client, async () => {
        for await (const message of readMessages(socket)) {
          const reply = await this.#answer(message, 'tcp', client);
          if (reply === undefined) break;
          // Who does not read gets nothing more.
          if (!socket.write(framed(reply))) await once(socket, 'drain', { signal: this.#stop.signal });
        }
      });
    } finally {
      stopListening();
      socket.destroy();
    }
  }

  /** Undefined: whoever sent it gets no answer. Never rejects. */
  async #answer(message: Buffer, over: DnsTransport, client: string): Promise<Buffer | undefined> {
    const query = readQuery(message);
    if (query === undefined) return undefined;
    if ('refusal' in query) return query.refusal;
    const bytesMax = over === 'udp' ? datagramBytesMax : messageBytesMax;
    const forward: Forward = (asked) =>
      this.#forwarded.use(client, () => forwardQuery(asked, over, this.#deps.forwarder, this.#stop.signal));
    try {
      const reply = await this.#replyTo(query, forward);
      return reply === undefined ? await passOn(message, forward) : writeReply(query, reply, bytesMax);
    } catch {
      return writeReply(query, { code: codes.failed, answers: [] }, bytesMax);
    }
  }

  /** Undefined: others know. */
  async #replyTo({ name: asked, type }: Query, forward: Forward): Promise<Reply | undefined> {
    const directory = this.#deps.directory();
    if (directory === undefined) return { code: codes.failed, answers: [] };
    const zone = this.#domain;
    const answers: DnsRecord[] = [];
    let name = asked;
    while (answers.length <= aliasesMax) {
      const owner = answers.length === 0 ? {} : { owner: name };
      const meaning = meaningOf(name, type, directory, zone);
      if (meaning.kind === 'noName') return { code: codes.noName, answers, zone };
      if (meaning.kind === 'records') {
        return {
          code: codes.done,
          answers: [...answers, ...meaning.records.map((one) => ({ ...one, ...owner }))],
          zone,
        };
      }
      if (meaning.kind === 'elsewhere') {
        if (answers.length === 0) return undefined;
        const { code, data } = readAnswers(await forward(writeQuery(randomInt(idMax), name, type)), type);
        return { code, answers: [...answers, ...data.map((bytes) => ({ type, data: bytes, ...owner }))] };
      }
      answers.push({ type: types.cname, data: nameBytes(meaning.target), ...owner });
      // Programs do not follow it themselves when they want an address.
      if (type !== types.a && type !== types.aaaa) return { code: codes.done, answers, zone };
      name = meaning.target;
    }
    return { code: codes.failed, answers: [] };
  }
}

type Forward = (query: Buffer) => Promise<Buffer>;

const idMax = 2 ** 16;

/** Under a number of our own: the client's may be easy to guess. */
async function passOn(message: Buffer, forward: Forward): Promise<Buffer> {
  const asked = Buffer.from(message);
  asked.writeUInt16BE(randomInt(idMax), 0);
  const answer = Buffer.from(await forward(asked));
  message.copy(answer, 0, 0, 2);
  return answer;
}

/** What is under way, of all clients and of each: one that asks for too much does not keep others from being answered. */
class Slots {
  readonly #max: { readonly all: number; readonly each: number };
  readonly #used = new Map<string, number>();
  #all = 0;

  constructor(max: { readonly all: number; readonly each: number }) {
    this.#max = max;
  }

  async use<T>(client: string, act: () => Promise<T>): Promise<T> {
    const used = this.#used.get(client) ?? 0;
    if (used >= this.#max.each || this.#all >= this.#max.all) {
      throw new OperatingError('TooManyQuestions', `Cannot answer ${client}: too many of its questions wait`);
    }
    this.#count(client, 1);
    try {
      return await act();
    } finally {
      this.#count(client, -1);
    }
  }

  #count(client: string, more: number): void {
    const used = (this.#used.get(client) ?? 0) + more;
    this.#all += more;
    if (used === 0) this.#used.delete(client);
    else this.#used.set(client, used);
  }
}
