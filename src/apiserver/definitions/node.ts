import { nodeShape } from '../../kube/kinds/node.ts';
import type { Definition } from './definition.ts';
import { shapeAt } from './shape-at.ts';

const core = 'io.k8s.api.core.v1';

export const nodeDefinitions: readonly Definition[] = [
  {
    shape: nodeShape,
    text: 'A machine that runs pods.',
    fields: {
      metadata: 'Name, labels and the rest that every object has.',
      spec: 'What others decide about the node.',
      status: 'What the node says of itself.',
    },
  },
  {
    shape: shapeAt(nodeShape, 'spec'),
    name: `${core}.NodeSpec`,
    text: 'What others decide about a node.',
    fields: {
      podCIDR: 'The addresses its pods get.',
      podCIDRs: 'The addresses its pods get, of each family.',
      providerID: 'What the provider of the machine calls it.',
      unschedulable: 'Whether new pods stay away.',
      taints: 'What keeps pods away that do not tolerate it.',
      externalID: 'No longer used.',
      configSource: 'No longer used.',
    },
  },
  {
    shape: shapeAt(nodeShape, 'status'),
    name: `${core}.NodeStatus`,
    text: 'What a node says of itself.',
    fields: {
      capacity: 'What the machine has.',
      allocatable: 'What of it is for pods.',
      phase: 'No longer used.',
      conditions: 'How the node is: Ready, MemoryPressure, DiskPressure, PIDPressure.',
      addresses: 'Where the node is reached.',
      daemonEndpoints: 'The ports of its agents.',
      nodeInfo: 'Its system, kernel and versions.',
      images: 'The images it has.',
      volumesInUse: 'The attachable volumes it uses.',
      volumesAttached: 'The volumes attached to it.',
      runtimeHandlers: 'The ways it can run containers.',
      features: 'What its runtime can do.',
      declaredFeatures: 'What the node says it can do.',
    },
  },
];
