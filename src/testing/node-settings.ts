/** A node called `here` on a small machine: what tests of what it tells the cluster begin with. */
import type { MachineFacts } from '../node/machine-facts.ts';
import type { NodeSettings } from '../node/node-settings.ts';

export const nodeSettings: NodeSettings = {
  nodeName: 'here',
  nodeLabels: {},
  taints: [],
  podsMax: 110,
  port: 10_250,
  controllerAttaches: true,
  providerId: '',
  kubeletVersion: 'v1.33.0+mountlet',
  runtimeVersion: 'process://0.1.0',
  registersNode: true,
  nodeStatusUpdateMs: 10_000,
  nodeStatusReportMs: 300_000,
};

export const smallMachine: MachineFacts = {
  capacity: { cpu: '2', memory: '2048Ki', 'ephemeral-storage': '10Gi' },
  internalAddresses: ['192.0.2.1'],
  machineId: 'm1',
  systemUuid: 's1',
  bootId: 'b1',
  kernelVersion: '6.8.0',
  osImage: 'Linux From Scratch',
  operatingSystem: 'linux',
  architecture: 'amd64',
};
