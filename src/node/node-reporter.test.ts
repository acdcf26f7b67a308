import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import type { ApiClient } from '../client/api/api-client.ts';
import type { ApiObject, ResourceReference } from '../client/api/resource-reference.ts';
import type { Node } from '../kube/kinds/node.ts';
import { nodeSettings, smallMachine } from '../testing/fakes/builders.ts';
import { ObservedClock } from '../testing/fakes/fake-clock.ts';
import { nodeIdentity, runningApiServer } from '../testing/servers/test-api-server.ts';
import { memoryStore } from '../testing/servers/stores.ts';
import type { NewEvent } from './event-recorder.ts';
import { NodeReporter } from './node-reporter.ts';
import type { MachineFacts, NodeSettings, RuntimeFacts } from './node-status.ts';
import { type NodeNotice, OwnNode, nodeResource } from './own-node.ts';

const { signal } = new AbortController();

interface World {
  readonly reporter: NodeReporter;
  readonly clock: ObservedClock;
  readonly events: NewEvent[];
  readonly notices: NodeNotice[];
  readonly reported: (readonly string[])[];
  /** Verbs of the requests, in order. */
  readonly requests: string[];
  /** What the node would say of itself; tests change it. */
  readonly facts: {
    machine: () => MachineFacts;
    problems: readonly string[];
    volumesInUse: readonly string[] | undefined;
    runtime: RuntimeFacts;
  };
  readonly ownNode: OwnNode;
  readonly stop: () => Promise<void>;
}

function reporting(
  t: TestContext,
  client: ApiClient,
  settings: Partial<NodeSettings> = {},
  problems: readonly string[] = [],
): World {
  const clock = new ObservedClock(Date.UTC(2026, 0, 1));
  const events: NewEvent[] = [];
  const notices: NodeNotice[] = [];
  const reported: (readonly string[])[] = [];
  const requests: string[] = [];
  const facts: World['facts'] = {
    machine: () => smallMachine,
    problems,
    volumesInUse: undefined,
    runtime: {},
  };
  const random = (): number => 0.75;
  const counted = countedClient(client, requests);
  const ownNode = new OwnNode('here', { client, clock, random, notify: () => {} });
  const reporter = new NodeReporter(
    {
      client: counted,
      heartbeat: counted,
      ownNode,
      events: { record: (event) => void events.push(event) },
      machine: () => facts.machine(),
      problems: () => facts.problems,
      volumesInUse: () => facts.volumesInUse,
      isUnderDiskPressure: () => false,
      runtime: () => facts.runtime,
      reportedInUse: (names) => void reported.push(names),
      clock,
      random,
      notify: (notice) => void notices.push(notice),
    },
    { ...nodeSettings, ...settings },
  );
  const end = new AbortController();
  const running = reporter.run(end.signal);
  const stop = async (): Promise<void> => {
    end.abort();
    await running;
  };
  t.after(stop);
  return { reporter, clock, events, notices, reported, requests, facts, ownNode, stop };
}

type Counted = Pick<ApiClient, 'get' | 'create' | 'patch'>;

function countedClient(client: ApiClient, requests: string[]): Counted {
  const count = <A extends readonly unknown[], R>(verb: string, act: (...args: A) => R): ((...args: A) => R) => {
    return (...args) => {
      requests.push(verb);
      return act(...args);
    };
  };
  return {
    get: count('get', client.get.bind(client)),
    create: count('create', client.create.bind(client)),
    patch: count('patch', client.patch.bind(client)),
  };
}

const reasons = (events: readonly NewEvent[]): readonly string[] => events.map(({ reason }) => reason);
const readyOf = ({ status }: Node): string | undefined => status?.conditions?.at(-1)?.status;

function own<T extends ApiObject>(client: ApiClient, resource: ResourceReference<T>): Promise<T> {
  return client.get(resource, { name: 'here' }, signal);
}

/** The next period of looking, as the clock of tests has it: 10 s and 3 % of chance. */
const lookMs = 10_300;

test('a node registers with its own credentials, reports and is ready', async (t) => {
  const server = await runningApiServer(t);
  const { clock, events, notices, requests } = reporting(t, server.client({}, nodeIdentity(server, 'here')), {
    nodeLabels: { tier: 'front' },
  });
  assert.equal(await clock.nextSleep(), lookMs);
  const node = await own(server.client(), nodeResource);
  assert.equal(readyOf(node), 'True');
  assert.equal(node.metadata.labels?.['tier'], 'front');
  assert.equal(node.status?.nodeInfo?.osImage, 'Linux From Scratch');
  assert.deepEqual(reasons(events), [
    'Starting',
    'NodeHasSufficientMemory',
    'NodeHasNoDiskPressure',
    'NodeHasSufficientPID',
  ]);
  assert.equal(events[1]?.message, 'Node here status is now: NodeHasSufficientMemory');
  assert.deepEqual([events[0]?.object.uid, events[1]?.object.uid], ['here', node.metadata.uid]);
  assert.deepEqual(notices, [{ kind: 'NodeRegistered', name: 'here', isNew: true }]);
  assert.deepEqual(requests, ['create', 'patch']);
});

test('a Node from before is adopted: its labels are corrected, its taints and its own labels stay', async (t) => {
  const server = await runningApiServer(t);
  const admin = server.client();
  const labels = { 'kubernetes.io/arch': 'sparc', team: 'a' };
  const taints = [{ key: 'kept', effect: 'NoSchedule' }];
  const before = { metadata: { name: 'here', labels }, spec: { taints, unschedulable: true } };
  await admin.create(nodeResource, {}, before, signal);
  const { clock, notices, events, requests } = reporting(t, server.client({}, nodeIdentity(server, 'here')));
  await clock.nextSleep();
  const node = await own(admin, nodeResource);
  assert.equal(node.metadata.labels?.['kubernetes.io/arch'], 'amd64');
  assert.equal(node.metadata.labels['team'], 'a');
  assert.ok(node.spec?.taints?.some(({ key }) => key === 'kept'));
  assert.equal(readyOf(node), 'True');
  assert.deepEqual(notices, [{ kind: 'NodeRegistered', name: 'here', isNew: false }]);
  assert.deepEqual(requests, ['create', 'get', 'patch', 'patch']);
  assert.ok(reasons(events).includes('NodeNotSchedulable'));
});

test('with the server away registration is tried after 100 ms, 200 ms and so on up to 7 s, until it works', async (t) => {
  const store = memoryStore();
  const server = await runningApiServer(t, store);
  const client = server.client({}, nodeIdentity(server, 'here'));
  await server.close();
  const { clock, notices } = reporting(t, client);
  const sleeps: number[] = [];
  for (let index = 0; index < 9; index += 1) {
    const ms = await clock.nextSleep();
    sleeps.push(ms);
    if (index < 8) await clock.advance(ms);
  }
  assert.deepEqual(sleeps, [100, 200, 400, 800, 1_600, 3_200, 6_400, 7_000, 7_000]);
  const again = await runningApiServer(t, store, server);
  await clock.advance(7_000);
  assert.equal(await clock.nextSleep(), lookMs);
  assert.equal(readyOf(await own(again.client(), nodeResource)), 'True');
  assert.equal(notices.filter(({ kind }) => kind === 'NodeRegistrationFailed').length, 9);
});

test('a node that is refused and has no Node object reports why it was refused', async (t) => {
  const server = await runningApiServer(t);
  const { clock, notices } = reporting(t, server.client({}, nodeIdentity(server, 'here')), {
    nodeLabels: { 'node-role.kubernetes.io/main': '' },
  });
  await clock.nextSleep();
  const [notice] = notices;
  assert.ok(notice?.kind === 'NodeRegistrationFailed' && notice.error instanceof Error);
  assert.match(notice.error.message, /is not allowed to set the following labels: node-role.kubernetes.io\/main/);
});

test('nothing is sent while nothing changes, until the time of a report has come', async (t) => {
  const server = await runningApiServer(t);
  const { clock, requests } = reporting(t, server.client({}, nodeIdentity(server, 'here')));
  await clock.nextSleep();
  const sentAt: number[] = [];
  const start = clock.now();
  requests.length = 0;
  // The first report is delayed by a quarter of five minutes, the later ones by nothing.
  while (sentAt.length < 3) {
    await clock.advance(lookMs);
    await clock.nextSleep();
    if (requests.length > 0) sentAt.push((clock.now() - start) / lookMs);
    requests.length = 0;
  }
  assert.deepEqual(sentAt, [37, 67, 97]);
});

test('what an older server leaves out of the status is sent once, and again only after another client has written', async (t) => {
  const server = await runningApiServer(t);
  const admin = server.client();
  const client = server.client({}, nodeIdentity(server, 'here'));
  const patch = client.patch.bind(client);
  const known = (body: Node): Node => {
    const { runtimeHandlers: _handlers, ...status } = body.status ?? {};
    return { ...body, status };
  };
  Object.assign(client, {
    patch: (...[resource, place, body, over]: Parameters<ApiClient['patch']>) =>
      patch(resource, place, known(body as Node), over),
  });
  const { clock, facts, requests, ownNode } = reporting(t, client);
  await clock.nextSleep();
  facts.runtime = { handlers: [{ name: 'kata', features: undefined }] };
  requests.length = 0;
  const look = async (): Promise<void> => {
    await clock.advance(lookMs);
    await clock.nextSleep();
  };
  for (let looks = 0; looks < 4; looks += 1) await look();
  assert.deepEqual(requests, ['patch']);
  const labels = { tier: 'front' };
  ownNode.saw(await admin.patch(nodeResource, { name: 'here', type: 'merge' }, { metadata: { labels } }, signal));
  for (let looks = 0; looks < 4; looks += 1) await look();
  assert.deepEqual(requests, ['patch', 'patch']);
});

test('what changed is sent at the next look, with an event, and a touch makes that now', async (t) => {
  const server = await runningApiServer(t);
  const admin = server.client();
  const { clock, facts, events, reporter, requests, reported } = reporting(
    t,
    server.client({}, nodeIdentity(server, 'here')),
  );
  await clock.nextSleep();
  events.length = 0;
  facts.problems = ['the runtime is away'];
  await clock.advance(lookMs);
  await clock.nextSleep();
  assert.equal(readyOf(await own(admin, nodeResource)), 'False');
  await clock.advance(1_000);
  facts.problems = [];
  facts.volumesInUse = ['kubernetes.io/csi/b', 'kubernetes.io/csi/a'];
  reporter.touch();
  await clock.nextSleep();
  const node = await own(admin, nodeResource);
  assert.equal(readyOf(node), 'True');
  assert.deepEqual(node.status?.volumesInUse, ['kubernetes.io/csi/a', 'kubernetes.io/csi/b']);
  assert.deepEqual(reported.at(-1), node.status.volumesInUse);
  assert.deepEqual(reasons(events), ['NodeNotReady', 'NodeReady']);
  assert.deepEqual(requests, ['create', 'patch', 'patch', 'patch']);
});

test('endless touches are answered every 100 ms, and cost nothing while nothing changes', async (t) => {
  const server = await runningApiServer(t);
  const { clock, reporter, requests } = reporting(t, server.client({}, nodeIdentity(server, 'here')));
  assert.equal(await clock.nextSleep(), lookMs);
  for (let index = 0; index < 20; index += 1) reporter.touch();
  assert.equal(await clock.nextSleep(), 100);
  reporter.touch();
  await clock.advance(100);
  assert.equal(await clock.nextSleep(), lookMs);
  assert.deepEqual(requests, ['create', 'patch']);
});

test('a starting node is checked every 100 ms, and its first Ready is sent at once', async (t) => {
  const server = await runningApiServer(t);
  const admin = server.client();
  const identity = nodeIdentity(server, 'here');
  const { clock, facts, events, requests } = reporting(t, server.client({}, identity), {}, ['starting']);
  for (let index = 0; index < 5; index += 1) {
    assert.equal(await clock.nextSleep(), 100);
    await clock.advance(100);
  }
  assert.equal(readyOf(await own(admin, nodeResource)), 'False');
  assert.deepEqual(requests, ['create', 'patch']);
  facts.problems = [];
  await clock.nextSleep();
  await clock.advance(100);
  assert.equal(await clock.nextSleep(), lookMs);
  assert.equal(readyOf(await own(admin, nodeResource)), 'True');
  assert.equal(reasons(events).at(-1), 'NodeReady');
});

test('after two minutes a node that is still not ready is checked as any other', async (t) => {
  const server = await runningApiServer(t);
  const { clock } = reporting(t, server.client({}, nodeIdentity(server, 'here')), {}, ['starting']);
  assert.equal(await clock.nextSleep(), 100);
  await clock.advance(120_000);
  for (;;) if ((await clock.nextSleep()) > 100) break;
});

test('a status that cannot be sent is tried five times, from the second on with what the server has', async (t) => {
  const server = await runningApiServer(t);
  const client = server.client({}, nodeIdentity(server, 'here'));
  const { clock, facts, requests, notices, events } = reporting(t, client);
  await clock.nextSleep();
  await server.client().delete(nodeResource, { name: 'here' }, undefined, signal);
  requests.length = 0;
  events.length = 0;
  facts.problems = ['ill'];
  await clock.advance(lookMs);
  assert.equal(await clock.nextSleep(), lookMs);
  assert.deepEqual(requests, ['patch', 'get', 'get', 'get', 'get']);
  assert.equal(notices.at(-1)?.kind, 'NodeStatusFailed');
  assert.deepEqual(events, []);
});

test('a node that was booted since says so once, and one whose machine cannot be asked is not ready', async (t) => {
  const server = await runningApiServer(t);
  const admin = server.client();
  const { clock, facts, events } = reporting(t, server.client({}, nodeIdentity(server, 'here')));
  await clock.nextSleep();
  events.length = 0;
  facts.machine = () => ({ ...smallMachine, bootId: 'b2' });
  for (let index = 0; index < 2; index += 1) {
    await clock.advance(lookMs);
    await clock.nextSleep();
  }
  assert.deepEqual(
    events.map(({ type, reason, message }) => `${type} ${reason}: ${message}`),
    ['Warning Rebooted: Node here has been rebooted, boot id: b2'],
  );
  facts.machine = () => {
    throw new Error('no such disk');
  };
  await clock.advance(lookMs);
  await clock.nextSleep();
  const { status } = await own(admin, nodeResource);
  assert.equal(status?.conditions?.at(-1)?.message, 'no such disk');
  assert.equal(status.nodeInfo?.bootID, 'b2');
});

test('a node that does not register itself reports into the Node it was given', async (t) => {
  const server = await runningApiServer(t);
  const admin = server.client();
  await admin.create(nodeResource, {}, { metadata: { name: 'here' } }, signal);
  const { clock, requests } = reporting(t, server.client({}, nodeIdentity(server, 'here')), { registersNode: false });
  await clock.nextSleep();
  assert.equal(readyOf(await own(admin, nodeResource)), 'True');
  assert.deepEqual(requests, ['get', 'patch']);
});
