/** The names of a cluster, asked for over real sockets, with a server of the machine that is the test's own. */
import assert from 'node:assert/strict';
import { createSocket } from 'node:dgram';
import { once } from 'node:events';
import { type AddressInfo, type Socket, connect, createServer } from 'node:net';
import { type TestContext, test } from 'node:test';
import fc from 'fast-check';
import { systemClock } from '../base/clock.ts';
import type { EndpointSlice } from '../kube/kinds/endpoint-slice.ts';
import type { Service } from '../kube/kinds/service.ts';
import {
  type DnsRecord,
  addressRecord,
  codes,
  isReplyTo,
  nameBytes,
  readAnswers,
  readQuery,
  types,
  writeQuery,
  writeReply,
} from './dns-message.ts';
import { DnsServer } from './dns-server.ts';
import { framed, readMessages } from './dns-stream.ts';
import { ServiceDirectory } from './service-directory.ts';

const ipv4 = '127.0.0.1';
const labels = (name: string): string[] => name.split('.').filter((label) => label !== '');

function service(name: string, spec: Service['spec']): Service {
  return { metadata: { name, namespace: 'shop' }, spec };
}

const manyAddresses = Array.from({ length: 200 }, (_, index) => `10.1.0.${index + 1}`);
const endpoint = (address: string, hostname = ''): NonNullable<EndpointSlice['endpoints']>[number] => ({
  addresses: [address],
  hostname,
});

function slice(of: string, endpoints: EndpointSlice['endpoints']): EndpointSlice {
  return {
    metadata: { name: of, namespace: 'shop', labels: { 'kubernetes.io/service-name': of } },
    addressType: 'IPv4',
    ports: [{ name: 'db', protocol: 'TCP', port: 5432 }],
    ...(endpoints && { endpoints }),
  };
}

const headless = { clusterIP: 'None', ports: [{ name: 'db', port: 5432 }] };
const directory = new ServiceDirectory(
  [
    service('web', {
      clusterIP: '10.96.7.1',
      ports: [
        { name: 'http', port: 80 },
        { name: 'dns', protocol: 'UDP', port: 53 },
      ],
    }),
    service('db', headless),
    service('many', headless),
    service('empty', headless),
    service('outside', { type: 'ExternalName', externalName: 'Far.example.com.' }),
    service('alias', { type: 'ExternalName', externalName: 'db.shop.svc.cluster.local' }),
    service('loop', { type: 'ExternalName', externalName: 'loop.shop.svc.cluster.local' }),
  ],
  [
    slice('db', [
      endpoint('10.1.0.1', 'db-0'),
      endpoint('10.1.0.2'),
      { ...endpoint('10.1.0.3', 'db-2'), conditions: { ready: false } },
    ]),
    slice(
      'many',
      manyAddresses.map((address) => endpoint(address)),
    ),
  ],
);

/** A server of the machine: `far.example.com` has an address behind another name, `silent` is never answered, others do not exist. */
async function upstream(t: TestContext): Promise<number> {
  const answer = (message: Buffer): Buffer | undefined => {
    const query = readQuery(message);
    assert.ok(query !== undefined && 'name' in query);
    const name = query.name.join('.');
    if (name === 'silent') return undefined;
    const owner = labels('real.example.com');
    const answers: DnsRecord[] = [
      { type: types.cname, data: nameBytes(owner) },
      { ...addressRecord('192.0.2.80'), owner },
    ];
    return writeReply(
      query,
      name === 'far.example.com' ? { code: codes.done, answers } : { code: codes.noName, answers: [] },
      512,
    );
  };
  const converse = async (socket: Socket): Promise<void> => {
    for await (const message of readMessages(socket)) socket.write(framed(answer(message) ?? Buffer.alloc(0)));
  };
  const streams = createServer((socket) => void converse(socket)).listen(0, ipv4);
  await once(streams, 'listening');
  const { port } = streams.address() as AddressInfo;
  const datagrams = createSocket('udp4').bind(port, ipv4);
  const isFree = await once(datagrams, 'listening').then(
    () => true,
    () => false,
  );
  if (!isFree) {
    streams.close();
    datagrams.close();
    return await upstream(t); // with another number
  }
  datagrams.on('message', (message, from) => {
    const reply = answer(message);
    // Others may answer too, for all that is known of the network.
    datagrams.send(Buffer.from('no message'), from.port, from.address);
    if (reply !== undefined) datagrams.send(reply, from.port, from.address);
  });
  t.after(() => {
    streams.close();
    datagrams.close();
  });
  return port;
}

interface Asker {
  readonly port: number;
  send(message: Buffer): Promise<Buffer>;
}

async function open(
  t: TestContext,
  more: { known?: boolean; isClient?: boolean; servers?: readonly string[]; answerMsMax?: number } = {},
): Promise<Asker> {
  const { known = true, isClient = true, servers = ['not an address', ipv4], answerMsMax = 60_000 } = more;
  const server = new DnsServer(
    { address: ipv4, domain: 'cluster.local', idleMs: 60_000 },
    {
      directory: () => (known ? directory : undefined),
      isClient: () => isClient,
      forwarder: { clock: systemClock, port: await upstream(t), answerMsMax, servers: async () => servers },
    },
  );
  const port = await server.listen();
  t.after(() => server.close());
  const socket = createSocket('udp4');
  t.after(() => socket.close());
  return {
    port,
    async send(message) {
      // A datagram may be lost where there are too many.
      const again = setInterval(() => socket.send(message, port, ipv4), 500);
      try {
        socket.send(message, port, ipv4);
        for (;;) {
          const [reply] = (await once(socket, 'message')) as [Buffer];
          if (isReplyTo(reply, message)) return reply;
        }
      } finally {
        clearInterval(again);
      }
    },
  };
}

const shownType: Readonly<Record<number, (data: Buffer) => string>> = {
  [types.a]: (data) => data.join('.'),
  [types.cname]: nameIn,
  [types.ptr]: nameIn,
  [types.srv]: (data) => `${data.readUInt16BE(4)} ${nameIn(data.subarray(6))}`,
};

function nameIn(data: Buffer): string {
  const query = readQuery(Buffer.concat([writeQuery(0, [], 1).subarray(0, 12), data, Buffer.from([0, 1, 0, 1])]));
  return query !== undefined && 'name' in query ? query.name.join('.') : 'no name';
}

/** `10.96.7.1`, or the code where it is an error; several records with a blank between them. */
function shown(reply: Buffer, type: number): string {
  const { code, data } = readAnswers(reply, type);
  return code === codes.done ? data.map((bytes) => shownType[type]?.(bytes)).join(' ') : `code ${code}`;
}

const cases: readonly (readonly [name: string, type: keyof typeof types, answer: string])[] = [
  ['web.shop.svc.cluster.local', 'a', '10.96.7.1'],
  ['WEB.Shop.svc.CLUSTER.local', 'a', '10.96.7.1'],
  ['web.shop.svc.cluster.local', 'aaaa', ''],
  ['web.other.svc.cluster.local', 'a', 'code 3'],
  ['other.shop.svc.cluster.local', 'a', 'code 3'],
  ['constructor.shop.svc.cluster.local', 'a', 'code 3'],
  ['web.shop.pod.cluster.local', 'a', 'code 3'],
  ['shop.svc.cluster.local', 'a', ''],
  ['other.svc.cluster.local', 'a', 'code 3'],
  ['cluster.local', 'a', ''],
  ['_http._tcp.web.shop.svc.cluster.local', 'srv', '80 web.shop.svc.cluster.local'],
  ['_dns._udp.web.shop.svc.cluster.local', 'srv', '53 web.shop.svc.cluster.local'],
  ['_http._udp.web.shop.svc.cluster.local', 'srv', 'code 3'],
  ['_tcp.web.shop.svc.cluster.local', 'srv', ''],
  ['db.shop.svc.cluster.local', 'a', '10.1.0.1 10.1.0.2'],
  ['db-0.db.shop.svc.cluster.local', 'a', '10.1.0.1'],
  ['10-1-0-2.db.shop.svc.cluster.local', 'a', '10.1.0.2'],
  ['db-2.db.shop.svc.cluster.local', 'a', 'code 3'],
  ['a.db-0.db.shop.svc.cluster.local', 'a', 'code 3'],
  [
    '_db._tcp.db.shop.svc.cluster.local',
    'srv',
    '5432 db-0.db.shop.svc.cluster.local 5432 10-1-0-2.db.shop.svc.cluster.local',
  ],
  ['empty.shop.svc.cluster.local', 'a', ''],
  ['outside.shop.svc.cluster.local', 'cname', 'far.example.com'],
  ['outside.shop.svc.cluster.local', 'a', '192.0.2.80'],
  ['alias.shop.svc.cluster.local', 'a', '10.1.0.1 10.1.0.2'],
  ['loop.shop.svc.cluster.local', 'a', 'code 2'],
  ['1.7.96.10.in-addr.arpa', 'ptr', 'web.shop.svc.cluster.local'],
  ['1.0.1.10.in-addr.arpa', 'ptr', 'db-0.db.shop.svc.cluster.local'],
  ['9.9.9.9.in-addr.arpa', 'ptr', 'code 3'],
  ['far.example.com', 'a', '192.0.2.80'],
  ['nothing.example.com', 'a', 'code 3'],
];
test('names of Services, their ports and pods, aliases, addresses, and names of elsewhere', async (t) => {
  const asker = await open(t);
  for (const [name, type, expected] of cases) {
    const reply = await asker.send(writeQuery(77, labels(name), types[type]));
    assert.equal(shown(reply, types[type]), expected, `${name} ${type}`);
  }
});

test('over TCP an answer is whole, and many questions share a connection', async (t) => {
  const asker = await open(t);
  const query = writeQuery(1, labels('many.shop.svc.cluster.local'), types.a);
  const cut = await asker.send(query);
  assert.ok(cut.length <= 512 && (cut.readUInt16BE(2) & 0x0200) !== 0, 'truncated');
  const socket = connect(asker.port, ipv4);
  t.after(() => socket.destroy());
  const other = writeQuery(2, labels('far.example.com'), types.a);
  const bytes = Buffer.concat([framed(query), framed(other)]);
  socket.write(bytes.subarray(0, 1));
  socket.write(bytes.subarray(1));
  const replies: Buffer[] = [];
  for await (const message of readMessages(socket)) if (replies.push(message) === 2) break;
  assert.deepEqual(
    replies.map((reply) => shown(reply, types.a)),
    [manyAddresses.join(' '), '192.0.2.80'],
  );
});

test('until Services are known, and without a server of the machine, a name is asked for again and not said to be missing', async (t) => {
  const query = writeQuery(1, labels('web.shop.svc.cluster.local'), types.a);
  assert.equal(shown(await (await open(t, { known: false })).send(query), types.a), 'code 2');
  const alone = await open(t, { servers: [] });
  assert.equal(shown(await alone.send(writeQuery(1, labels('far.example.com'), types.a)), types.a), 'code 2');
});

test('a server that does not answer is not waited for', async (t) => {
  const asker = await open(t, { answerMsMax: 20 });
  assert.equal(shown(await asker.send(writeQuery(1, ['silent'], types.a)), types.a), 'code 2');
});

test('a client that fills its own share of questions and connections keeps nobody from an answer', async (t) => {
  const asker = await open(t);
  const flood = createSocket('udp4');
  t.after(() => flood.close());
  for (let id = 0; id < 300; id += 1) flood.send(writeQuery(id, ['silent'], types.a), asker.port, ipv4);
  const sockets = Array.from({ length: 40 }, () => connect(asker.port, ipv4));
  t.after(() => sockets.forEach((socket) => socket.destroy()));
  await Promise.all(sockets.map((socket) => once(socket, 'connect')));
  let closed = 0;
  await new Promise<void>((resolve) => {
    for (const socket of sockets) socket.resume().once('close', () => (closed += 1) === 24 && resolve());
  });
  assert.equal(
    shown(await asker.send(writeQuery(1, labels('web.shop.svc.cluster.local'), types.a)), types.a),
    '10.96.7.1',
  );
});

test('bytes of any kind leave the server as it was', async (t) => {
  const asker = await open(t);
  const query = writeQuery(9, labels('web.shop.svc.cluster.local'), types.a);
  const socket = createSocket('udp4');
  t.after(() => socket.close());
  for (const bytes of fc.sample(fc.uint8Array({ maxLength: 1_200 }), 300)) socket.send(bytes, asker.port, ipv4);
  for (let at = 0; at < query.length; at += 1) {
    for (const value of [0, 0x3f, 0xc0, 0xff]) {
      const bent = Buffer.from(query);
      bent[at] = value;
      socket.send(bent.subarray(0, at % 2 === 0 ? bent.length : at + 1), asker.port, ipv4);
    }
  }
  for (const bytes of [Buffer.from([0xff, 0xff, 1]), Buffer.alloc(3), framed(Buffer.from('not a message'))]) {
    const stream = connect(asker.port, ipv4).on('error', () => {});
    stream.end(bytes);
  }
  assert.equal(shown(await asker.send(query), types.a), '10.96.7.1');
});

test('those who are no clients get no answer', async (t) => {
  const asker = await open(t, { isClient: false });
  const socket = connect(asker.port, ipv4);
  const received: Buffer[] = [];
  socket.on('error', () => {}).on('data', (bytes: Buffer) => received.push(bytes));
  socket.write(framed(writeQuery(1, labels('web.shop.svc.cluster.local'), types.a)));
  await once(socket, 'close');
  assert.deepEqual(received, []);
});
