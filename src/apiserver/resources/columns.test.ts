/** 12.2: every column of every kind but pods, whose words have a test of their own. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { decode } from '../../kube/schema/schema.ts';
import { type Resource, apiVersionOf } from '../model/resource.ts';
import { resources } from './resources.ts';

const now = Date.parse('2026-01-01T01:00:00Z');
const metadata = { name: 'x', namespace: 'shop', creationTimestamp: '2026-01-01T00:15:00Z' };

interface Row {
  readonly it?: string;
  readonly object: object;
  /** By column, in order. `*` marks those of `-o wide`. */
  readonly cells: Readonly<Record<string, unknown>>;
}

const status = (value: string): object => ({ conditions: [{ type: 'Ready', status: value }] });
const event = {
  involvedObject: { kind: 'Pod', name: 'web', fieldPath: 'spec.containers{main}' },
  type: 'Warning',
  reason: 'Failed',
  message: ' no \n',
};
const seen = { firstTimestamp: '2026-01-01T00:00:00Z', lastTimestamp: '2026-01-01T00:55:00Z', count: 4 };
const volumeSpec = {
  capacity: { storage: '1024Mi' },
  accessModes: ['ReadWriteMany', 'ReadWriteOnce'],
  persistentVolumeReclaimPolicy: 'Retain',
};
const containers = [
  { name: 'main', image: 'i:1' },
  { name: 'side', image: 'j' },
];
const binding = {
  roleRef: { kind: 'ClusterRole', name: 'view' },
  subjects: [
    { kind: 'User', name: 'ann' },
    { kind: 'User', name: 'bob' },
    { kind: 'Group', name: 'dev' },
    { kind: 'ServiceAccount', namespace: 'shop', name: 'robot' },
  ],
};
const bindingCells = {
  Name: 'x',
  Role: 'ClusterRole/view',
  Age: '45m',
  'Users*': 'ann, bob',
  'Groups*': 'dev',
  'ServiceAccounts*': 'shop/robot',
};
const reviewCells = { Name: 'x', Age: '45m' };

const rows: Readonly<Record<string, readonly Row[]>> = {
  'v1 configmaps': [
    { object: { data: { a: '', b: '' }, binaryData: { c: '' } }, cells: { Name: 'x', Data: 3, Age: '45m' } },
  ],
  'v1 secrets': [
    { object: { type: 'Opaque', data: { a: '' } }, cells: { Name: 'x', Type: 'Opaque', Data: 1, Age: '45m' } },
  ],
  'v1 serviceaccounts': [{ object: {}, cells: { Name: 'x', Age: '45m' } }],
  'v1 namespaces': [{ object: { status: { phase: 'Active' } }, cells: { Name: 'x', Status: 'Active', Age: '45m' } }],
  'coordination.k8s.io/v1 leases': [
    { object: { spec: { holderIdentity: 'me' } }, cells: { Name: 'x', Holder: 'me', Age: '45m' } },
  ],
  'v1 nodes': [
    {
      it: 'a bare node',
      object: {},
      cells: {
        Name: 'x',
        Status: 'Unknown',
        Roles: '<none>',
        Age: '45m',
        Version: '',
        'Internal-IP*': '<none>',
        'External-IP*': '<none>',
        'OS-Image*': '<unknown>',
        'Kernel-Version*': '<unknown>',
        'Container-Runtime*': '<unknown>',
      },
    },
    {
      it: 'a node with everything',
      object: {
        metadata: {
          ...metadata,
          labels: {
            'node-role.kubernetes.io/worker': '',
            'node-role.kubernetes.io/': '',
            'kubernetes.io/role': 'edge',
          },
        },
        spec: { unschedulable: true },
        status: {
          ...status('True'),
          addresses: [
            { type: 'InternalIP', address: '10.0.0.1' },
            { type: 'ExternalIP', address: '1.2.3.4' },
          ],
          nodeInfo: {
            kubeletVersion: 'v1.36.0',
            osImage: 'Linux',
            kernelVersion: '6.1',
            architecture: 'amd64',
            containerRuntimeVersion: 'c://2',
          },
        },
      },
      cells: {
        Name: 'x',
        Status: 'Ready,SchedulingDisabled',
        Roles: 'edge,worker',
        Age: '45m',
        Version: 'v1.36.0',
        'Internal-IP*': '10.0.0.1',
        'External-IP*': '1.2.3.4',
        'OS-Image*': 'Linux',
        'Kernel-Version*': '6.1 (amd64)',
        'Container-Runtime*': 'c://2',
      },
    },
    { it: 'a node that is not ready', object: { status: status('Unknown') }, cells: { Status: 'NotReady' } },
  ],
  'v1 events': [
    {
      it: 'an event of old',
      object: { ...event, ...seen, source: { component: 'kubelet', host: 'n1' } },
      cells: {
        'Last Seen': '5m',
        Type: 'Warning',
        Reason: 'Failed',
        Object: 'pod/web',
        'Subobject*': 'spec.containers{main}',
        'Source*': 'kubelet, n1',
        Message: 'no',
        'First Seen*': '60m',
        'Count*': 4,
        'Name*': 'x',
      },
    },
    {
      it: 'an event of the new form',
      object: {
        ...event,
        involvedObject: { kind: 'Node' },
        eventTime: '2026-01-01T00:59:00.000000Z',
        reportingComponent: 'agent',
      },
      cells: { 'Last Seen': '60s', Object: 'node', 'Source*': 'agent', 'First Seen*': '60s', 'Count*': 1 },
    },
    {
      it: 'a series',
      object: { ...event, ...seen, series: { count: 9, lastObservedTime: '2026-01-01T00:59:30.000000Z' } },
      cells: { 'Last Seen': '30s', 'Count*': 9 },
    },
    { it: 'an event without time', object: event, cells: { 'Last Seen': '<unknown>', 'First Seen*': '<unknown>' } },
  ],
  'events.k8s.io/v1 events': [
    {
      object: {
        regarding: event.involvedObject,
        note: 'no',
        reason: 'Failed',
        type: 'Warning',
        deprecatedCount: 4,
        deprecatedLastTimestamp: seen.lastTimestamp,
        deprecatedFirstTimestamp: seen.firstTimestamp,
        deprecatedSource: { component: 'kubelet' },
      },
      cells: {
        'Last Seen': '5m',
        Type: 'Warning',
        Reason: 'Failed',
        Object: 'pod/web',
        'Subobject*': 'spec.containers{main}',
        'Source*': 'kubelet',
        Message: 'no',
        'First Seen*': '60m',
        'Count*': 4,
        'Name*': 'x',
      },
    },
  ],
  'v1 persistentvolumes': [
    {
      it: 'a volume in use',
      object: {
        spec: {
          ...volumeSpec,
          claimRef: { namespace: 'shop', name: 'c' },
          storageClassName: 'fast',
          volumeMode: 'Block',
          volumeAttributesClassName: 'gold',
        },
        status: { phase: 'Bound', reason: 'r' },
      },
      cells: {
        Name: 'x',
        Capacity: '1Gi',
        'Access Modes': 'RWO,RWX',
        'Reclaim Policy': 'Retain',
        Status: 'Bound',
        Claim: 'shop/c',
        StorageClass: 'fast',
        VolumeAttributesClass: 'gold',
        Reason: 'r',
        Age: '45m',
        'VolumeMode*': 'Block',
      },
    },
    {
      it: 'a volume about to end',
      object: { metadata: { ...metadata, deletionTimestamp: metadata.creationTimestamp }, spec: {} },
      cells: {
        Capacity: '0',
        Status: 'Terminating',
        Claim: '',
        StorageClass: '',
        VolumeAttributesClass: '<unset>',
        'VolumeMode*': '<unset>',
      },
    },
  ],
  'v1 persistentvolumeclaims': [
    {
      it: 'a bound claim',
      object: {
        spec: { volumeName: 'pv', storageClassName: 'fast', volumeMode: 'Filesystem' },
        status: { phase: 'Bound', capacity: { storage: '2Gi' }, accessModes: ['ReadWriteOncePod'] },
      },
      cells: {
        Name: 'x',
        Status: 'Bound',
        Volume: 'pv',
        Capacity: '2Gi',
        'Access Modes': 'RWOP',
        StorageClass: 'fast',
        VolumeAttributesClass: '<unset>',
        Age: '45m',
        'VolumeMode*': 'Filesystem',
      },
    },
    {
      it: 'a claim of a class by annotation',
      object: {
        metadata: { ...metadata, annotations: { 'volume.beta.kubernetes.io/storage-class': 'old' } },
        spec: {},
        status: { phase: 'Pending' },
      },
      cells: { Status: 'Pending', Capacity: '', 'Access Modes': '', StorageClass: 'old' },
    },
  ],
  'discovery.k8s.io/v1 endpointslices': [
    {
      it: 'a full slice',
      object: {
        addressType: 'IPv4',
        ports: [{ name: 'web', port: 80 }, { name: 'any' }],
        endpoints: [1, 2, 3, 4].map((last) => ({ addresses: [`10.0.0.${last}`] })),
      },
      cells: {
        Name: 'x',
        AddressType: 'IPv4',
        Ports: '80,any',
        Endpoints: '10.0.0.1,10.0.0.2,10.0.0.3 + 1 more...',
        Age: '45m',
      },
    },
    {
      it: 'an empty slice',
      object: { addressType: 'IPv4', ports: [] },
      cells: { Name: 'x', AddressType: 'IPv4', Ports: '<unset>', Endpoints: '<unset>', Age: '45m' },
    },
  ],
  'v1 services': [
    {
      it: 'a plain service',
      object: {
        spec: {
          type: 'ClusterIP',
          clusterIPs: ['10.0.0.1'],
          ports: [
            { port: 80, protocol: 'TCP' },
            { port: 53, protocol: 'UDP', nodePort: 3053 },
          ],
          selector: { b: '2', a: '1' },
        },
      },
      cells: {
        Name: 'x',
        Type: 'ClusterIP',
        'Cluster-IP': '10.0.0.1',
        'External-IP': '<none>',
        'Port(s)': '80/TCP,53:3053/UDP',
        Age: '45m',
        'Selector*': 'a=1,b=2',
      },
    },
    {
      it: 'a bare service',
      object: { spec: { type: 'NodePort' } },
      cells: { 'Cluster-IP': '<none>', 'Port(s)': '<none>', 'Selector*': '<none>' },
    },
    {
      it: 'a name',
      object: { spec: { type: 'ExternalName', externalName: 'e.com' } },
      cells: { 'External-IP': 'e.com' },
    },
    { it: 'a waiting balancer', object: { spec: { type: 'LoadBalancer' } }, cells: { 'External-IP': '<pending>' } },
    {
      it: 'a balancer',
      object: {
        spec: { type: 'LoadBalancer', externalIPs: ['9.9.9.9'] },
        status: { loadBalancer: { ingress: [{ hostname: 'b' }, { ip: '1.1.1.1' }] } },
      },
      cells: { 'External-IP': '1.1.1.1,b,9.9.9.9' },
    },
  ],
  'v1 endpoints': [
    { it: 'none', object: {}, cells: { Name: 'x', Endpoints: '<none>', Age: '45m' } },
    {
      it: 'more than three',
      object: {
        subsets: [{ addresses: [{ ip: '10.0.0.1' }, { ip: 'fd00::1' }], ports: [{ port: 80 }, { port: 81 }] }],
      },
      cells: { Endpoints: '10.0.0.1:80,[fd00::1]:80,10.0.0.1:81 + 1 more...' },
    },
    {
      it: 'without ports',
      object: { subsets: [{ addresses: [{ ip: '10.0.0.1' }] }] },
      cells: { Endpoints: '10.0.0.1' },
    },
  ],
  'v1 limitranges': [{ object: {}, cells: { Name: 'x', 'Created At': '2026-01-01T00:15:00Z' } }],
  'apps/v1 controllerrevisions': [
    {
      object: { data: {}, revision: 2 },
      cells: { Name: 'x', Controller: '<none>', Revision: 2, Age: '45m' },
    },
  ],
  'v1 podtemplates': [
    {
      object: { template: { spec: { containers: [{ name: 'a', image: 'b' }] } } },
      cells: { Name: 'x', Containers: 'a', Images: 'b', 'Pod Labels': '<none>' },
    },
  ],
  'autoscaling/v2 horizontalpodautoscalers': [
    {
      object: {
        spec: {
          scaleTargetRef: { kind: 'Deployment', name: 'web' },
          minReplicas: 1,
          maxReplicas: 3,
          metrics: [
            { type: 'Resource', resource: { name: 'cpu', target: { type: 'Utilization', averageUtilization: 80 } } },
            { type: 'Pods', pods: { metric: { name: 'a' }, target: { type: 'AverageValue', averageValue: '2' } } },
            { type: 'Moon' },
          ],
        },
        status: {
          currentReplicas: 2,
          currentMetrics: [{ type: 'Resource', resource: { name: 'cpu', current: { averageUtilization: 12 } } }],
        },
      },
      cells: {
        Name: 'x',
        Reference: 'Deployment/web',
        Targets: 'cpu: 12%/80%, <unknown>/2 + 1 more...',
        MinPods: '1',
        MaxPods: 3,
        Replicas: 2,
        Age: '45m',
      },
    },
  ],
  'networking.k8s.io/v1 ingresses': [
    {
      object: { spec: { defaultBackend: {} } },
      cells: { Name: 'x', Class: '<none>', Hosts: '*', Address: '', Ports: '80', Age: '45m' },
    },
    {
      it: 'several hosts with certificates',
      object: {
        spec: { ingressClassName: 'nginx', tls: [{}], rules: ['a', 'b', 'c', 'd'].map((host) => ({ host })) },
        status: { loadBalancer: { ingress: [{ ip: '192.168.100.1' }, { hostname: 'balancer' }] } },
      },
      cells: {
        Name: 'x',
        Class: 'nginx',
        Hosts: 'a,b,c + 1 more...',
        Address: '192.168.100.1...',
        Ports: '80, 443',
        Age: '45m',
      },
    },
  ],
  'networking.k8s.io/v1 ingressclasses': [
    {
      object: {
        metadata: { ...metadata, annotations: { 'ingressclass.kubernetes.io/is-default-class': 'true' } },
        spec: { controller: 'example.com/x', parameters: { apiGroup: 'example.com', kind: 'P', name: 'p' } },
      },
      cells: { Name: 'x (default)', Controller: 'example.com/x', Parameters: 'P.example.com/p', Age: '45m' },
    },
  ],
  'networking.k8s.io/v1 networkpolicies': [
    {
      object: { spec: { podSelector: { matchLabels: { app: 'web' } } } },
      cells: { Name: 'x', 'Pod-Selector': 'app=web', Age: '45m' },
    },
  ],
  'rbac.authorization.k8s.io/v1 roles': [{ object: {}, cells: { Name: 'x', 'Created At': '2026-01-01T00:15:00Z' } }],
  'rbac.authorization.k8s.io/v1 clusterroles': [
    { object: {}, cells: { Name: 'x', 'Created At': '2026-01-01T00:15:00Z' } },
  ],
  'rbac.authorization.k8s.io/v1 rolebindings': [{ object: binding, cells: bindingCells }],
  'rbac.authorization.k8s.io/v1 clusterrolebindings': [{ object: binding, cells: bindingCells }],
  'scheduling.k8s.io/v1 priorityclasses': [
    {
      object: { value: 5, preemptionPolicy: 'Never' },
      cells: { Name: 'x', Value: 5, 'Global-Default': false, Age: '45m', PreemptionPolicy: 'Never' },
    },
  ],
  'storage.k8s.io/v1 csistoragecapacities': [
    {
      object: { storageClassName: 'fast', capacity: '1Gi' },
      cells: { Name: 'x', StorageClassName: 'fast', Capacity: '1Gi', Age: '45m' },
    },
  ],
  'storage.k8s.io/v1 volumeattributesclasses': [
    { object: { driverName: 'a.b' }, cells: { Name: 'x', DriverName: 'a.b', Age: '45m' } },
  ],
  'policy/v1 poddisruptionbudgets': [
    {
      object: { spec: { minAvailable: '50%' } },
      cells: { Name: 'x', 'Min Available': '50%', 'Max Unavailable': 'N/A', 'Allowed Disruptions': 0, Age: '45m' },
    },
  ],
  'v1 resourcequotas': [
    {
      object: { status: { hard: { pods: '4', 'limits.cpu': '2' }, used: { pods: '1' } } },
      cells: { Name: 'x', Request: 'pods: 1/4', Limit: 'limits.cpu: 0/2', Age: '45m' },
    },
  ],
  'storage.k8s.io/v1 storageclasses': [
    {
      object: { provisioner: 'a/b' },
      cells: {
        Name: 'x',
        Provisioner: 'a/b',
        ReclaimPolicy: 'Delete',
        VolumeBindingMode: 'Immediate',
        AllowVolumeExpansion: false,
        Age: '45m',
      },
    },
    {
      it: 'the default class',
      object: {
        provisioner: 'a/b',
        metadata: { ...metadata, annotations: { 'storageclass.kubernetes.io/is-default-class': 'true' } },
      },
      cells: { Name: 'x (default)' },
    },
  ],
  'storage.k8s.io/v1 csinodes': [
    { object: { spec: { drivers: [{ name: 'd', nodeID: 'n' }] } }, cells: { Name: 'x', Drivers: 1, Age: '45m' } },
  ],
  'storage.k8s.io/v1 csidrivers': [
    {
      it: 'a bare driver',
      object: { spec: {} },
      cells: {
        Name: 'x',
        AttachRequired: true,
        PodInfoOnMount: false,
        StorageCapacity: false,
        TokenRequests: '<unset>',
        RequiresRepublish: false,
        Modes: '<none>',
        Age: '45m',
      },
    },
    {
      it: 'a driver with tokens',
      object: {
        spec: {
          tokenRequests: [{ audience: 'a' }, { audience: 'b' }],
          volumeLifecycleModes: ['Persistent', 'Ephemeral'],
        },
      },
      cells: { TokenRequests: 'a,b', Modes: 'Persistent,Ephemeral' },
    },
  ],
  'storage.k8s.io/v1 volumeattachments': [
    {
      object: {
        spec: { attacher: 'd', source: { persistentVolumeName: 'pv' }, nodeName: 'n' },
        status: { attached: true },
      },
      cells: { Name: 'x', Attacher: 'd', PV: 'pv', Node: 'n', Attached: true, Age: '45m' },
    },
  ],
  'metrics.k8s.io/v1beta1 nodes': [
    {
      object: { timestamp: '2026-01-01T00:00:00Z', window: '1s', usage: { cpu: '100m', memory: '1Mi' } },
      cells: { Name: 'x', cpu: '100m', memory: '1Mi', Window: '1s' },
    },
  ],
  'metrics.k8s.io/v1beta1 pods': [
    {
      it: 'its containers together',
      object: {
        timestamp: '2026-01-01T00:00:00Z',
        window: '1s',
        containers: ['1', '2'].map((name) => ({ name, usage: { cpu: '100m', memory: '1Mi' } })),
      },
      cells: { Name: 'x', cpu: '200m', memory: '2Mi', Window: '1s' },
    },
  ],
  'node.k8s.io/v1 runtimeclasses': [{ object: { handler: 'h' }, cells: { Name: 'x', Handler: 'h', Age: '45m' } }],
  'certificates.k8s.io/v1 certificatesigningrequests': [
    {
      object: { spec: { request: '', signerName: 'a.b/c', username: 'jane', expirationSeconds: 86_400 } },
      cells: {
        Name: 'x',
        Age: '45m',
        SignerName: 'a.b/c',
        Requestor: 'jane',
        RequestedDuration: '24h',
        Condition: 'Pending',
      },
    },
    {
      object: {
        spec: { request: '', signerName: 'a.b/c' },
        status: { conditions: ['Approved', 'Failed'].map((type) => ({ type, status: 'True' })), certificate: 'AAAA' },
      },
      cells: { Requestor: '', RequestedDuration: '<none>', Condition: 'Approved,Failed,Issued' },
    },
  ],
  'certificates.k8s.io/v1 clustertrustbundles': [
    { object: { spec: { signerName: 'a/b', trustBundle: '' } }, cells: { Name: 'x', SignerName: 'a/b' } },
  ],
  'certificates.k8s.io/v1beta1 clustertrustbundles': [
    { object: { spec: { trustBundle: '' } }, cells: { Name: 'x', SignerName: '<none>' } },
  ],
  'v1 replicationcontrollers': [
    {
      object: {
        spec: { replicas: 3, selector: { a: 'b' }, template: { spec: { containers } } },
        status: { replicas: 2, readyReplicas: 1 },
      },
      cells: { Name: 'x', Desired: 3, Current: 2, Ready: 1, Age: '45m', ...ofTemplate('a=b') },
    },
  ],
  'apps/v1 replicasets': [
    {
      object: {
        spec: { replicas: 3, selector: { matchLabels: { a: 'b' } }, template: { spec: { containers } } },
        status: { replicas: 2, readyReplicas: 1 },
      },
      cells: { Name: 'x', Desired: 3, Current: 2, Ready: 1, Age: '45m', ...ofTemplate('a=b') },
    },
  ],
  'apps/v1 deployments': [
    {
      object: {
        spec: {
          replicas: 3,
          selector: { matchExpressions: [{ key: 'a', operator: 'In', values: ['c', 'b'] }] },
          template: { spec: { containers } },
        },
        status: { replicas: 4, updatedReplicas: 2, readyReplicas: 3, availableReplicas: 1 },
      },
      cells: { Name: 'x', Ready: '3/3', 'Up-to-date': 2, Available: 1, Age: '45m', ...ofTemplate('a in (b,c)') },
    },
    {
      it: 'without a status',
      object: { spec: { replicas: 0, template: { spec: { containers: [] } } } },
      cells: { Ready: '0/0', 'Up-to-date': 0, Available: 0, 'Containers*': '', 'Selector*': '<none>' },
    },
  ],
  'apps/v1 statefulsets': [
    {
      object: { spec: { replicas: 3, template: { spec: { containers } } }, status: { replicas: 3, readyReplicas: 2 } },
      cells: { Name: 'x', Ready: '2/3', Age: '45m', 'Containers*': 'main,side', 'Images*': 'i:1,j' },
    },
  ],
  'apps/v1 daemonsets': [
    {
      object: {
        spec: {
          selector: { matchLabels: { a: 'b' } },
          template: { spec: { containers, nodeSelector: { disk: 'fast', arch: 'x' } } },
        },
        status: {
          desiredNumberScheduled: 5,
          currentNumberScheduled: 4,
          numberReady: 3,
          updatedNumberScheduled: 2,
          numberAvailable: 1,
        },
      },
      cells: {
        Name: 'x',
        Desired: 5,
        Current: 4,
        Ready: 3,
        'Up-to-date': 2,
        Available: 1,
        'Node Selector': 'arch=x,disk=fast',
        Age: '45m',
        ...ofTemplate('a=b'),
      },
    },
    {
      it: 'for all nodes',
      object: { spec: { template: { spec: { containers: [] } } } },
      cells: { Desired: 0, 'Node Selector': '<none>' },
    },
  ],
  'batch/v1 jobs': [
    {
      it: 'one that runs',
      object: {
        spec: { completions: 3, selector: { matchLabels: { a: 'b' } }, template: { spec: { containers } } },
        status: { succeeded: 1, startTime: '2026-01-01T00:58:00Z' },
      },
      cells: { Name: 'x', Status: 'Running', Completions: '1/3', Duration: '2m', Age: '45m', ...ofTemplate('a=b') },
    },
    {
      it: 'one that has ended',
      object: {
        spec: { parallelism: 1, template: { spec: { containers } } },
        status: {
          succeeded: 1,
          startTime: '2026-01-01T00:58:00Z',
          completionTime: '2026-01-01T00:58:10Z',
          conditions: [
            { type: 'SuccessCriteriaMet', status: 'True' },
            { type: 'Complete', status: 'True' },
          ],
        },
      },
      cells: { Status: 'Complete', Completions: '1/1', Duration: '10s', 'Selector*': '<none>' },
    },
    {
      it: 'a work queue that is suspended',
      object: {
        spec: { parallelism: 2, template: { spec: { containers } } },
        status: { conditions: [{ type: 'Suspended', status: 'True' }] },
      },
      cells: { Status: 'Suspended', Completions: '0/1 of 2', Duration: '' },
    },
  ],
  'batch/v1 cronjobs': [
    {
      object: {
        spec: { schedule: '@hourly', suspend: false, jobTemplate: { spec: { template: { spec: { containers } } } } },
        status: { active: [{ name: 'a' }], lastScheduleTime: '2026-01-01T00:30:00Z' },
      },
      cells: {
        Name: 'x',
        Schedule: '@hourly',
        Timezone: '<none>',
        Suspend: 'False',
        Active: 1,
        'Last Schedule': '30m',
        Age: '45m',
        ...ofTemplate('<none>'),
      },
    },
    {
      it: 'that never ran',
      object: {
        spec: {
          schedule: '@hourly',
          suspend: true,
          timeZone: 'Asia/Tokyo',
          jobTemplate: { spec: { template: { spec: { containers } } } },
        },
      },
      cells: { Timezone: 'Asia/Tokyo', Suspend: 'True', Active: 0, 'Last Schedule': '<none>' },
    },
  ],
  'v1 bindings': [{ object: {}, cells: reviewCells }],
  'authentication.k8s.io/v1 tokenreviews': [{ object: {}, cells: reviewCells }],
  'authentication.k8s.io/v1 selfsubjectreviews': [{ object: {}, cells: reviewCells }],
  'authorization.k8s.io/v1 subjectaccessreviews': [{ object: {}, cells: reviewCells }],
  'authorization.k8s.io/v1 localsubjectaccessreviews': [{ object: {}, cells: reviewCells }],
  'authorization.k8s.io/v1 selfsubjectaccessreviews': [{ object: {}, cells: reviewCells }],
  'authorization.k8s.io/v1 selfsubjectrulesreviews': [{ object: {}, cells: reviewCells }],
};

function ofTemplate(selector: string): Readonly<Record<string, string>> {
  return { 'Containers*': 'main,side', 'Images*': 'i:1,j', 'Selector*': selector };
}

function cellsOf(resource: Resource, object: object): Readonly<Record<string, unknown>> {
  const { value, problems } = decode(resource.shape, { metadata, ...object });
  assert.deepEqual(problems, []);
  const entries = resource.columns.map((column) => [
    `${column.name}${column.priority === 1 ? '*' : ''}`,
    column.cell(value, now),
  ]);
  return Object.fromEntries(entries);
}

for (const resource of resources) {
  const name = `${apiVersionOf(resource)} ${resource.plural}`;
  if (name === 'v1 pods') continue;
  for (const [index, { it, object, cells }] of (rows[name] ?? []).entries()) {
    test(`a row of ${name}${it === undefined ? '' : `: ${it}`}`, () => {
      const shown = cellsOf(resource, object);
      // The first case of a kind has all of its columns, in their order.
      if (index === 0) assert.deepEqual(Object.keys(shown), Object.keys(cells));
      assert.deepEqual(Object.fromEntries(Object.keys(cells).map((column) => [column, shown[column]])), cells);
    });
  }
  test(`${name} have a row in this test`, () => assert.ok((rows[name] ?? []).length > 0));
}
