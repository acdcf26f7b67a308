/** An API server and the server of a node in this process, with containers that are plain processes: for kubectl and its like. */
import { renameSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import {
  issueNodeClientCertificate,
  issueNodeServingCertificate,
  kubeconfig,
  makeAuthority,
} from '../../apiserver/identity/certificates.ts';
import { StoredObjects } from '../../apiserver/model/stored-objects.ts';
import { NodeProxy } from '../../apiserver/serving/node-proxy.ts';
import { systemClock } from '../../base/clock.ts';
import { nodes, pods } from '../../client/api/resource-reference.ts';
import type { Pod } from '../../kube/kinds/pod/pod.ts';
import type { NodePods } from '../../node-server/container-logs.ts';
import type { NodeAccess } from '../../node-server/node-access.ts';
import type { NodeServerDeps, NodeServerNotice } from '../../node-server/node-handler.ts';
import { type NodeServer, startNodeServer } from '../../node-server/node-server.ts';
import { type StreamLimits, streamLimits } from '../../node-server/streams/protocols.ts';
import { HostProcesses } from '../machine/host-processes.ts';
import { type RunningApiServer, runningApiServer } from './test-api-server.ts';
import { memoryStore } from './stores.ts';

export const goodToken = 'good-token';

export interface RunningNode {
  readonly api: RunningApiServer;
  readonly node: NodeServer;
  readonly nodeDeps: NodeServerDeps;
  readonly notices: readonly NodeServerNotice[];
  readonly processes: HostProcesses;
  /** The administrator's. */
  readonly kubeconfig: string;
  readonly authorityPem: string;
  /** Runs a pod in namespace `default`: a command for each container. */
  addPod(name: string, containers: Readonly<Record<string, readonly string[]>>): Promise<void>;
  /** Ends a container and starts the next one of the same name. */
  restart(pod: string, container: string, command: readonly string[]): Promise<void>;
  setStatus(pod: string, status: Pod['status']): Promise<void>;
  logPath(pod: string, container: string): string;
}

interface Test {
  after(act: () => Promise<void>): void;
}

interface Run {
  readonly id: string;
  readonly previous: string | undefined;
}

/** The good token, or any client certificate, allows everything. */
const openAccess: NodeAccess = {
  authenticate: (token) =>
    Promise.resolve(token === goodToken ? { name: 'bearer', uid: '', groups: [], extra: {} } : undefined),
  authorize: ({ name }) => Promise.resolve(name !== 'nobody'),
  allowsAnonymous: false,
};

export async function runningNode(
  test: Test,
  directory: string,
  limits: Partial<StreamLimits> = {},
): Promise<RunningNode> {
  const now = Date.now();
  const { signal } = new AbortController();
  const store = memoryStore();
  const authority = makeAuthority({ now, days: 1 });
  const authorityPem = authority.certificatePem;
  const proxy = new NodeProxy(
    { clock: systemClock, nodes: new StoredObjects(store) },
    { authorityPem, isInsecure: false, client: issueNodeClientCertificate(authority, { now, days: 1 }) },
  );
  const processes = new HostProcesses();
  const runs = new Map<string, Run>();
  const known = new Map<string, Pod>();
  const notices: NodeServerNotice[] = [];
  const nodePods: NodePods = {
    find(namespace, name) {
      const pod = namespace === 'default' ? known.get(name) : undefined;
      if (pod === undefined) return undefined;
      return {
        pod,
        runningContainer(container) {
          const id = runs.get(`${name}/${container}`)?.id;
          return id !== undefined && processes.isRunning(id) ? id : undefined;
        },
        log: (id) => ({ path: join(directory, `${id}.log`), isRunning: () => processes.isRunning(id) }),
      };
    },
    list: () => [...known.values()],
    running: () => Promise.resolve([...known.values()]),
  };
  const serving = issueNodeServingCertificate(authority, { nodeName: 'here', hosts: ['127.0.0.1'], now, days: 1 });
  const nodeDeps: NodeServerDeps = {
    pods: nodePods,
    runtime: processes,
    access: openAccess,
    clock: systemClock,
    metrics: () => Promise.resolve({ contentType: 'text/plain; version=0.0.4', text: 'up 1\n' }),
    stats: {
      summary: (onlyCpuAndMemory) => Promise.resolve({ onlyCpuAndMemory }),
      resourceMetrics: () => Promise.resolve({ contentType: 'text/plain; version=0.0.4', text: 'used 1\n' }),
    },
    configuration: { kubeletconfig: { maxPods: 7 } },
    notify: (notice) => void notices.push(notice),
  };
  const node = await startNodeServer(
    {
      host: '127.0.0.1',
      port: 0,
      ...serving,
      clientAuthorityPem: authorityPem,
      limits: { ...streamLimits, ...limits },
      minVersion: 'TLSv1.2',
      ciphers: undefined,
    },
    nodeDeps,
  );
  test.after(async () => {
    await node.close();
    await processes.close();
  });
  const api = await runningApiServer(test, store, { authority, nodes: proxy });
  const client = api.client();
  await client.create(nodes, {}, { metadata: { name: 'here' } }, signal);
  await client.patch(
    nodes,
    { name: 'here', subresource: 'status', type: 'merge' },
    {
      status: {
        addresses: [{ type: 'InternalIP', address: '127.0.0.1' }],
        daemonEndpoints: { kubeletEndpoint: { Port: node.address.port } },
      },
    },
    signal,
  );
  const file = join(directory, 'kubeconfig');
  writeFileSync(
    file,
    kubeconfig({ server: api.url, authorityPem, cluster: 'test', user: 'admin', credentials: api.admin }),
  );

  const setStatus = async (name: string, status: Pod['status']): Promise<void> => {
    const place = { namespace: 'default', name, subresource: 'status', type: 'merge' } as const;
    known.set(name, (await client.patch(pods, place, { status }, signal)) as unknown as Pod);
  };
  const running = async (name: string): Promise<void> => {
    const statuses = (known.get(name)?.spec.containers ?? []).map((container) => {
      const run = runs.get(`${name}/${container.name}`);
      const terminated =
        run?.previous === undefined
          ? {}
          : { lastState: { terminated: { exitCode: 1, containerID: `host://${run.previous}` } } };
      return {
        name: container.name,
        image: 'none',
        imageID: '',
        ready: true,
        restartCount: 0,
        containerID: `host://${run?.id}`,
        state: { running: {} },
        ...terminated,
      };
    });
    await setStatus(name, { phase: 'Running', containerStatuses: statuses });
  };
  const start = (name: string, container: string, command: readonly string[]): void => {
    const previous = runs.get(`${name}/${container}`)?.id;
    const id = `${name}-${container}-${previous === undefined ? 0 : 1}`;
    runs.set(`${name}/${container}`, { id, previous });
    processes.start(id, command, join(directory, `${id}.log`));
  };
  return {
    api,
    node,
    nodeDeps,
    notices,
    processes,
    kubeconfig: file,
    authorityPem,
    async addPod(name, containers) {
      const spec = {
        nodeName: 'here',
        automountServiceAccountToken: false,
        containers: Object.keys(containers).map((container) => ({ name: container, image: 'none', stdin: true })),
      };
      const pod = await client.create(pods, { namespace: 'default' }, { metadata: { name }, spec }, signal);
      known.set(name, pod as unknown as Pod);
      for (const [container, command] of Object.entries(containers)) start(name, container, command);
      await running(name);
    },
    async restart(pod, container, command) {
      await processes.stop(runs.get(`${pod}/${container}`)?.id ?? '');
      start(pod, container, command);
      await running(pod);
    },
    setStatus,
    logPath: (pod, container) => join(directory, `${runs.get(`${pod}/${container}`)?.id}.log`),
  };
}

/** As a node does it: the old file gets another name, a new one takes its place. */
export function rotateLog(path: string): void {
  renameSync(path, `${path}.1`);
  writeFileSync(path, '');
}
