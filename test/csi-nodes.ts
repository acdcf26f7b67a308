/**
 * A small cluster with shared storage, all of it real programs: the API server, controllers and the driver's controller side on
 * this machine, and nodes in namespaces of their own, each with an agent and the node side of the driver.
 */
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { existsSync, mkdirSync, readdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { issueNodeServingCertificate } from '../src/apiserver/identity/certificates.ts';
import { DriverProcess } from '../src/testing/csi/driver-process.ts';
import type { Fault } from '../src/testing/csi/driver-script.ts';
import type { DriverLog, LoggedCall } from '../src/testing/csi/driver-log.ts';
import { VolumeTable } from '../src/testing/csi/driver-volumes.ts';
import { loopDevicesBelow, needsDevices } from '../src/testing/machine/devices.ts';
import { NodeMachine, NodeNetwork, needsNodeMachines } from '../src/testing/machine/node-machine.ts';
import { AgentMachine, type Spawned } from './agent-machine.ts';
import {
  type RunningApiServer,
  readAuthority,
  startApiServerProgram,
  writeNodeKubeconfig,
} from './api-server-program.ts';
import { Kubectl, eventually } from './kubectl-program.ts';
import { assertNothingLeft, childrenOf, leftBehind } from './left-behind.ts';
import { mountAt, pod } from './manifests.ts';
import { withNode } from './up-program.ts';

export const csiNodesSkip = [withNode.skip, needsDevices('mkfs.ext4'), needsNodeMachines()].find(Boolean) ?? false;

const driverName = 'files.example.com';

interface Node {
  readonly machine: NodeMachine;
  readonly driver: DriverProcess;
  readonly agent: Spawned;
}

export class CsiNodes {
  readonly kubectl: Kubectl;
  readonly log: DriverLog;
  readonly #after: (act: () => unknown) => void;
  readonly #machine: AgentMachine;
  readonly #directory: string;
  readonly #network: NodeNetwork;
  readonly #server: RunningApiServer;
  /** By name; a node keeps its address. */
  readonly #nodes = new Map<string, Node>();
  readonly #hosts = new Map<string, number>();
  readonly #control: DriverProcess;
  #controllers: Spawned | undefined;

  private constructor(
    after: (act: () => unknown) => void,
    machine: AgentMachine,
    directory: string,
    network: NodeNetwork,
    server: RunningApiServer,
  ) {
    this.#after = after;
    this.#machine = machine;
    this.#directory = directory;
    this.#network = network;
    this.#server = server;
    this.#control = this.#driverOf('control', { services: ['controller'], socket: join(directory, 'csi.sock') });
    this.log = this.#control.log;
    this.kubectl = new Kubectl(server.kubeconfig);
  }

  /** `after` is given what undoes everything, the last first. */
  static async start(after: (act: () => unknown) => void, ...names: readonly string[]): Promise<CsiNodes> {
    const machine = new AgentMachine({ after });
    const directory = machine.directory();
    const storage = join(directory, 'storage');
    // For a test that has failed.
    after(() => {
      for (const device of loopDevicesBelow(storage)) spawnSync('losetup', ['--detach', device]);
      const groups = names.flatMap((name) => leftBehind(join(directory, name)).controlGroups);
      for (const group of groups) spawnSync('find', [group, '-depth', '-type', 'd', '-delete']);
    });
    const network = new NodeNetwork({ after });
    const server = await startApiServerProgram(join(directory, 'data'), {
      listen: `${network.address(1)}:0`,
      args: ['--controllers=none', '--scheduler=none'],
    });
    machine.own(server.process);
    const nodes = new CsiNodes(after, machine, directory, network, server);
    await nodes.#control.start();
    await Promise.all([nodes.startControllers(), ...names.map((name) => nodes.startNode(name))]);
    const { kubectl } = nodes;
    await kubectl.apply(
      { apiVersion: 'storage.k8s.io/v1', kind: 'CSIDriver', metadata: { name: driverName }, spec: {} },
      {
        apiVersion: 'storage.k8s.io/v1',
        kind: 'StorageClass',
        metadata: { name: 'shared' },
        provisioner: driverName,
        parameters: { 'csi.storage.k8s.io/fstype': 'ext4' },
      },
    );
    for (const name of names)
      await kubectl.until(`node/${name}`, '{.status.conditions[?(@.type=="Ready")].status}', 'True');
    await eventually(async () => {
      const known = await kubectl.ok('get csinodes -o jsonpath={.items[*].spec.drivers[*].nodeID}');
      assert.deepEqual(known.split(' ').toSorted(), names.map(nodeIdOf));
    });
    return nodes;
  }

  async startControllers(): Promise<void> {
    const { kubeconfig } = this.#server;
    const args = ['controllers', '--kubeconfig', kubeconfig, '--leader-elect=false', '--csi-controller'];
    this.#controllers = this.#machine.spawn([...args, this.#control.settings.socket]);
    await this.#controllers.line();
  }

  async killControllers(): Promise<void> {
    this.#controllers?.child.kill('SIGKILL');
    await this.#controllers?.ended;
  }

  /** For the first time, or after its end: with what is left on its disk. */
  async startNode(name: string): Promise<void> {
    const host = this.#hosts.get(name) ?? this.#hosts.size + 2;
    this.#hosts.set(name, host);
    const machine = await NodeMachine.start({ after: this.#after }, this.#network, host);
    const root = this.#rootOf(name);
    const socket = join(root, 'plugins', driverName, 'csi.sock');
    for (const path of [join(socket, '..'), join(root, 'plugins_registry')]) mkdirSync(path, { recursive: true });
    const registrationSocket = join(root, 'plugins_registry', 'files-reg.sock');
    const driver = this.#driverOf(nodeIdOf(name), { services: ['node'], socket, registrationSocket }, machine.under);
    await driver.start();
    const kubeconfig = writeNodeKubeconfig(this.#server, join(this.#directory, 'data'), name);
    const address = ['--node-ip', machine.address, '--address', machine.address];
    const files = [
      '--kubeconfig',
      kubeconfig,
      '--root-dir',
      root,
      '--config',
      this.#nodeSettings(name, machine.address),
    ];
    const args = ['agent', '--node-name', name, ...address, ...files, '--register-with-taints='];
    const agent = this.#machine.spawn(args, { under: machine.under });
    await agent.line();
    this.#nodes.set(name, { machine, driver, agent });
  }

  /** Its power is cut. */
  async killNode(name: string): Promise<void> {
    const { machine, agent } = this.#node(name);
    await machine.kill();
    await agent.ended;
    this.log.write({ at: 'lost', node: nodeIdOf(name) });
  }

  /** What goes wrong from the next call on: at the driver of a node, or at its controller side. */
  faults(where: string, ...faults: readonly Fault[]): void {
    const driver = where === 'control' ? this.#control : this.#node(where).driver;
    driver.script({ faults });
  }

  calls(method: string, volume: string, node: string): readonly LoggedCall[] {
    return this.log
      .calls()
      .filter((call) => call.method === method && call.volume === volume && call.node === nodeIdOf(node));
  }

  async claim(name: string, accessMode = 'ReadWriteOnce'): Promise<string> {
    const resources = { requests: { storage: '32Mi' } };
    await this.kubectl.apply({
      apiVersion: 'v1',
      kind: 'PersistentVolumeClaim',
      metadata: { name },
      spec: { accessModes: [accessMode], storageClassName: 'shared', resources },
    });
    await this.kubectl.until(`pvc/${name}`, '{.status.phase}', 'Bound');
    return await this.kubectl.ok(
      `get pv -o jsonpath={.items[?(@.spec.claimRef.name=="${name}")].spec.csi.volumeHandle}`,
    );
  }

  /** A pod that adds its name to what is on the volume. */
  async pod(name: string, node: string, claimName: string): Promise<void> {
    const container = {
      script: `echo ${name} >>/data/log; sync /data/log; sleep 1000`,
      volumeMounts: [mountAt('data', '/data')],
    };
    const spec = {
      nodeSelector: { 'kubernetes.io/hostname': node },
      volumes: [{ name: 'data', persistentVolumeClaim: { claimName } }],
      automountServiceAccountToken: false,
    };
    await this.kubectl.apply(pod(name, container, spec));
  }

  /** What pods have written, as one of them sees it. */
  async written(by: string): Promise<string> {
    return await eventually(async () => {
      const names = (await this.kubectl.exec(by, 'cat', '/data/log')).trim().split('\n');
      assert.ok(names.includes(by));
      return names.join(' ');
    });
  }

  /** How often the pod was refused a volume that is elsewhere, and with which words. */
  async refusals(podName: string): Promise<readonly string[]> {
    const which = `involvedObject.name=${podName},reason=FailedAttachVolume`;
    const { items } = await this.kubectl.json<{ items: { message: string; count?: number }[] }>(
      `get events --field-selector ${which}`,
    );
    const waiting = items.filter(({ message }) => message.startsWith('Waiting for detach'));
    return waiting.flatMap(({ message, count = 1 }) => Array<string>(count).fill(message));
  }

  /** Nodes with a VolumeAttachment of the volume's claim; `!` after one that is being deleted. */
  async attachments(claimName: string): Promise<string> {
    const volume = await this.kubectl.ok(`get pvc ${claimName} -o jsonpath={.spec.volumeName}`);
    const { items } = await this.kubectl.json<{
      items: {
        metadata: { deletionTimestamp?: string };
        spec: { nodeName: string; source: { persistentVolumeName: string } };
      }[];
    }>('get volumeattachments');
    return items
      .filter(({ spec }) => spec.source.persistentVolumeName === volume)
      .map(({ metadata, spec }) => spec.nodeName + (metadata.deletionTimestamp === undefined ? '' : '!'))
      .toSorted()
      .join(' ');
  }

  async inUse(node: string): Promise<string> {
    return await this.kubectl.ok(`get node ${node} -o jsonpath={.status.volumesInUse[*]}`);
  }

  /** Deletes every pod and claim, and stops: nothing may be left of them anywhere. */
  async assertNothingStays(): Promise<void> {
    const { kubectl } = this;
    await kubectl.ok('delete pods --all --now');
    await kubectl.ok('delete pvc --all');
    await eventually(async () => assert.equal(await kubectl.ok('get pv,volumeattachments -o name'), ''));
    await eventually(async () => {
      const path = '{.items[*].status.volumesInUse[*]}{.items[*].status.volumesAttached[*].name}';
      assert.equal((await kubectl.ok(`get nodes -o jsonpath=${path}`)).trim(), '');
    });
    assert.deepEqual(new VolumeTable(this.#control.settings.directory).all(), []);
    assert.deepEqual(this.log.inUse(), []);
    assert.deepEqual(this.log.violations(), []);
    for (const [name, { machine, agent }] of this.#nodes) {
      const root = this.#rootOf(name);
      await eventually(() => assert.deepEqual(machine.mountsBelow(root), []));
      for (const pid of childrenOf(agent.child.pid ?? 0)) process.kill(pid, 'SIGTERM');
      assert.equal(await agent.ended, 0, agent.stderr());
      assert.deepEqual(machine.mountsBelow(root), []);
      await machine.kill();
      assertNothingLeft(join(root, '..'));
      const staged = join(root, 'plugins', 'kubernetes.io', 'csi', driverName);
      assert.deepEqual(existsSync(staged) ? readdirSync(staged) : [], []);
    }
    assert.deepEqual(loopDevicesBelow(this.#directory), []);
  }

  #node(name: string): Node {
    return this.#nodes.get(name) ?? assert.fail(`there is no node ${name}`);
  }

  /** With a certificate that the API server believes. */
  #nodeSettings(nodeName: string, address: string): string {
    const { certificatePem, keyPem } = issueNodeServingCertificate(readAuthority(join(this.#directory, 'data')), {
      nodeName,
      hosts: [nodeName, address],
      now: Date.now(),
      days: 1,
    });
    const file = (suffix: string): string => join(this.#directory, `${nodeName}.${suffix}`);
    writeFileSync(file('crt'), certificatePem);
    writeFileSync(file('key'), keyPem);
    const kind = { apiVersion: 'kubelet.config.k8s.io/v1beta1', kind: 'KubeletConfiguration' };
    writeFileSync(file('json'), JSON.stringify({ ...kind, tlsCertFile: file('crt'), tlsPrivateKeyFile: file('key') }));
    return file('json');
  }

  #rootOf(name: string): string {
    return join(this.#directory, name, 'node');
  }

  #driverOf(
    nodeId: string,
    settings: Omit<DriverProcess['settings'], 'name' | 'nodeId' | 'directory'>,
    under: readonly string[] = [],
  ): DriverProcess {
    const directory = join(this.#directory, 'storage');
    return new DriverProcess({ after: this.#after }, { name: driverName, nodeId, directory, ...settings }, under);
  }
}

/** The storage's name of a node is not Kubernetes'. */
function nodeIdOf(name: string): string {
  return `host-${name}`;
}
