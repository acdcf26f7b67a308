/** The rules of the kinds that most charts have besides their workloads, each by its exact messages, and their defaults. */
import { testKind } from '../../../testing/fakes/kind-cases.ts';
import { horizontalPodAutoscalerKind } from './horizontal-pod-autoscaler.ts';
import { ingressClassKind, ingressKind } from './ingress.ts';
import { limitRangeKind } from './limit-range.ts';
import { networkPolicyKind } from './network-policy.ts';
import { podDisruptionBudgetKind } from './pod-disruption-budget.ts';
import { priorityClassKind } from './priority-class.ts';
import { resourceQuotaKind } from './resource-quota.ts';

const service = { service: { name: 'web', port: { number: 80 } } };
const rule = (path: object, host?: string): object => ({
  spec: {
    rules: [{ ...(host && { host }), http: { paths: [{ pathType: 'Prefix', path: '/', backend: service, ...path }] } }],
  },
});
const inPath = 'spec.rules[0].http.paths[0]';

testKind(ingressKind, [
  { it: 'takes what most charts have', object: rule({}, 'web.example.com') },
  { it: 'takes a host of many', object: rule({}, '*.example.com') },
  {
    it: 'needs rules or a backend',
    object: { spec: {} },
    errors: ['spec: Invalid value: []: either `defaultBackend` or `rules` must be specified'],
  },
  {
    it: 'needs a path type',
    object: { spec: { rules: [{ http: { paths: [{ backend: service }] } }] } },
    errors: [`${inPath}.pathType: Required value: pathType must be specified`],
  },
  {
    it: 'has paths that say where they lead',
    object: rule({ path: 'a//b' }),
    errors: [
      `${inPath}.path: Invalid value: "a//b": must be an absolute path`,
      `${inPath}.path: Invalid value: "a//b": must not contain '//'`,
    ],
  },
  { it: 'takes any path of an implementation', object: rule({ path: '/a//b', pathType: 'ImplementationSpecific' }) },
  {
    it: 'names the port in one way',
    object: rule({ backend: { service: { name: 'web', port: { name: 'http', number: 80 } } } }),
    errors: [`${inPath}.backend: Invalid value: "": cannot set both port name & port number`],
  },
  {
    it: 'names a port',
    object: rule({ backend: { service: { name: 'web' } } }),
    errors: [`${inPath}.backend: Required value: port name or number is required`],
  },
  {
    it: 'is for names and not for addresses',
    object: rule({}, '10.0.0.1'),
    errors: ['spec.rules[0].host: Invalid value: "10.0.0.1": must be a DNS name, not an IP address'],
  },
  {
    it: 'has one class',
    object: {
      metadata: { name: 'x', namespace: 'shop', annotations: { 'kubernetes.io/ingress.class': 'a' } },
      spec: { ingressClassName: 'b', defaultBackend: service },
    },
    errors: [
      'annotations.kubernetes.io/ingress.class: Invalid value: "a": must match `ingressClassName` when both are specified',
    ],
  },
]);

testKind(ingressClassKind, [
  {
    it: 'has parameters of the cluster by default',
    object: { spec: { controller: 'example.com/x', parameters: { kind: 'P', name: 'p' } } },
    spec: { controller: 'example.com/x', parameters: { kind: 'P', name: 'p', scope: 'Cluster' } },
  },
  {
    it: 'names its program with a domain',
    object: { spec: { controller: 'x' } },
    errors: ['spec.controller: Invalid value: "x": must be a domain-prefixed path (such as "acme.io/foo")'],
  },
  {
    it: 'keeps its program',
    old: { spec: { controller: 'example.com/x' } },
    object: { spec: { controller: 'example.com/y' } },
    errors: ['spec.controller: Invalid value: "example.com/y": field is immutable'],
  },
]);

testKind(networkPolicyKind, [
  {
    it: 'is for what comes in, over TCP',
    object: { spec: { podSelector: {}, ingress: [{ ports: [{ port: 80 }] }] } },
    spec: { podSelector: {}, ingress: [{ ports: [{ port: 80, protocol: 'TCP' }] }], policyTypes: ['Ingress'] },
  },
  {
    it: 'is also for what goes out where it says so',
    object: { spec: { egress: [{}] } },
    spec: { podSelector: {}, egress: [{}], policyTypes: ['Ingress', 'Egress'] },
  },
  {
    it: 'has ranges of ports and addresses that are some',
    object: {
      spec: {
        ingress: [
          {
            ports: [
              { port: 90, endPort: 80 },
              { port: 'http', endPort: 9 },
            ],
            from: [{}, { ipBlock: { cidr: '10.0.0.0/8', except: ['10.1.0.0/16', '11.0.0.0/16', '10.0.0.0/8'] } }],
          },
          { from: [{ ipBlock: { cidr: '10.0.0.0' }, podSelector: {} }] },
        ],
      },
    },
    errors: [
      'spec.ingress[0].ports[0].endPort: Invalid value: 90: must be greater than or equal to `port`',
      'spec.ingress[0].ports[1].endPort: Invalid value: 9: may not be specified when `port` is non-numeric',
      'spec.ingress[0].from[0]: Required value: must specify a peer',
      'spec.ingress[0].from[1].ipBlock.except[1]: Invalid value: "11.0.0.0/16": must be a strict subset of `cidr`',
      'spec.ingress[0].from[1].ipBlock.except[2]: Invalid value: "10.0.0.0/8": must be a strict subset of `cidr`',
      'spec.ingress[1].from[0].ipBlock.cidr: Invalid value: "10.0.0.0": must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)',
      'spec.ingress[1].from[0]: Forbidden: may not specify both ipBlock and another peer',
    ],
  },
  {
    it: 'knows two directions',
    object: { spec: { policyTypes: ['Up'] } },
    errors: ['spec.policyTypes[0]: Unsupported value: "Up": supported values: "Ingress", "Egress"'],
  },
]);

const scaled = { scaleTargetRef: { apiVersion: 'apps/v1', kind: 'Deployment', name: 'web' }, maxReplicas: 3 };
const cpu = { type: 'Resource', resource: { name: 'cpu', target: { type: 'Utilization', averageUtilization: 80 } } };

testKind(horizontalPodAutoscalerKind, [
  {
    it: 'measures the cpu and keeps one replica',
    object: { spec: scaled },
    spec: { ...scaled, minReplicas: 1, metrics: [cpu] },
  },
  {
    it: 'completes both ways of a behavior',
    object: { spec: { ...scaled, behavior: { scaleDown: { stabilizationWindowSeconds: 60 } } } },
    spec: {
      ...scaled,
      minReplicas: 1,
      metrics: [cpu],
      behavior: {
        scaleUp: {
          stabilizationWindowSeconds: 0,
          selectPolicy: 'Max',
          policies: [
            { type: 'Pods', value: 4, periodSeconds: 15 },
            { type: 'Percent', value: 100, periodSeconds: 15 },
          ],
        },
        scaleDown: {
          stabilizationWindowSeconds: 60,
          selectPolicy: 'Max',
          policies: [{ type: 'Percent', value: 100, periodSeconds: 15 }],
        },
      },
    },
  },
  {
    it: 'has bounds in order',
    object: { spec: { ...scaled, minReplicas: 5 } },
    errors: ['spec.maxReplicas: Invalid value: 3: must be greater than or equal to `minReplicas`'],
  },
  {
    it: 'needs a workload',
    object: { spec: { scaleTargetRef: { kind: '', name: 'a' } } },
    errors: [
      'spec.maxReplicas: Required value: must be set and greater than 0',
      'spec.maxReplicas: Invalid value: 0: must be greater than or equal to `minReplicas`',
      'spec.scaleTargetRef.kind: Required value',
      'spec.scaleTargetRef.apiVersion: Invalid value: "": apiVersion must specify API group',
    ],
  },
  {
    it: 'has metrics of one source each, with a target',
    object: {
      spec: {
        ...scaled,
        metrics: [
          { type: 'Pods' },
          { type: 'Resource', resource: { name: 'cpu', target: { type: 'Utilization' } } },
          { type: 'Moon' },
        ],
      },
    },
    errors: [
      'spec.metrics[0].pods: Required value: must populate information for the given metric source',
      'spec.metrics[1].resource.target.averageUtilization: Required value: must set either a target raw value or a target utilization',
      'spec.metrics[2].type: Unsupported value: "Moon": supported values: "ContainerResource", "External", "Object", "Pods", "Resource"',
    ],
  },
]);

testKind(limitRangeKind, [
  {
    it: 'fills in what containers get',
    object: { spec: { limits: [{ type: 'Container', max: { cpu: '2' }, min: { cpu: '1', memory: '1Mi' } }] } },
    spec: {
      limits: [
        {
          type: 'Container',
          max: { cpu: '2' },
          min: { cpu: '1', memory: '1Mi' },
          default: { cpu: '2' },
          defaultRequest: { cpu: '2', memory: '1Mi' },
        },
      ],
    },
  },
  {
    it: 'has amounts in order',
    object: {
      spec: {
        limits: [
          { type: 'Container', min: { cpu: '2' }, max: { cpu: '1' } },
          { type: 'Pod', default: { cpu: '1' } },
          { type: 'PersistentVolumeClaim' },
          { type: 'Pod', max: { cpu: '1' } },
        ],
      },
    },
    errors: [
      'spec.limits[0].min[cpu]: Invalid value: "2": min value 2 is greater than max value 1',
      'spec.limits[0].defaultRequest[cpu]: Invalid value: "1": min value 2 is greater than default request value 1',
      'spec.limits[0].default[cpu]: Invalid value: "2": min value 2 is greater than default value 1',
      "spec.limits[1].default: Forbidden: may not be specified when `type` is 'Pod'",
      'spec.limits[2].limits: Required value: either minimum or maximum storage value is required, but neither was provided',
      'spec.limits[3].type: Duplicate value: "Pod"',
    ],
  },
]);

testKind(resourceQuotaKind, [
  { it: 'counts what it names', object: { spec: { hard: { pods: '4', 'count/deployments.apps': '2' } } } },
  {
    it: 'counts in whole numbers, and what there is',
    object: { spec: { hard: { pods: '1.5', moons: '1' } } },
    errors: [
      'spec.hard[pods]: Invalid value: "1500m": must be an integer',
      'spec.hard[moons]: Invalid value: "moons": must be a standard resource type or fully qualified',
      'spec.hard[moons]: Invalid value: "moons": must be a standard resource for quota',
    ],
  },
  {
    it: 'has scopes that go together',
    object: { spec: { hard: { secrets: '1' }, scopes: ['BestEffort', 'NotBestEffort', 'Moon'] } },
    errors: [
      'spec.scopes: Invalid value: ["BestEffort","NotBestEffort","Moon"]: unsupported scope applied to resource',
      'spec.scopes: Invalid value: ["BestEffort","NotBestEffort","Moon"]: unsupported scope applied to resource',
      'spec.scopes: Invalid value: ["BestEffort","NotBestEffort","Moon"]: unsupported scope',
      'spec.scopes: Invalid value: ["BestEffort","NotBestEffort","Moon"]: conflicting scopes',
    ],
  },
  {
    it: 'keeps its scopes',
    old: { spec: {} },
    object: { spec: { scopes: ['BestEffort'] } },
    errors: ['spec.scopes: Invalid value: ["BestEffort"]: field is immutable'],
  },
  {
    it: 'selects scopes with operators that fit',
    object: {
      spec: { scopeSelector: { matchExpressions: [{ scopeName: 'PriorityClass', operator: 'In' }] } },
    },
    errors: [
      "spec.scopeSelector.matchExpressions.values: Required value: must be at least one value when `operator` is 'In' or 'NotIn' for scope selector",
    ],
  },
]);

testKind(podDisruptionBudgetKind, [
  { it: 'takes counts and parts', object: { spec: { minAvailable: '50%', selector: {} } } },
  {
    it: 'has one bound, of some pods',
    object: { spec: { minAvailable: -1, maxUnavailable: '120%', unhealthyPodEvictionPolicy: 'Never' } },
    errors: [
      'spec: Invalid value: {"minAvailable":-1,"maxUnavailable":"120%","unhealthyPodEvictionPolicy":"Never"}: minAvailable and maxUnavailable cannot be both set',
      'spec.minAvailable: Invalid value: -1: must be greater than or equal to 0',
      'spec.maxUnavailable: Invalid value: "120%": must not be greater than 100%',
      'spec.unhealthyPodEvictionPolicy: Unsupported value: "Never": supported values: "AlwaysAllow", "IfHealthyBudget"',
    ],
  },
]);

testKind(priorityClassKind, [
  { it: 'takes a number', object: { value: 1000, globalDefault: true } },
  {
    it: 'is below those of the system',
    object: { value: 1_000_000_001 },
    errors: ['value: Forbidden: maximum allowed value of a user defined priority is 1000000000'],
  },
  {
    it: 'takes no name of the system',
    object: { metadata: { name: 'system-x' }, value: 1 },
    errors: [
      "metadata.name: Forbidden: priority class names with 'system-' prefix are reserved for system use only. error: system-x is not a known system priority class",
    ],
  },
  {
    it: 'keeps its number and its policy',
    old: { value: 1 },
    object: { value: 2, preemptionPolicy: 'Never' },
    errors: [
      'value: Forbidden: may not be changed in an update.',
      'preemptionPolicy: Invalid value: "Never": field is immutable',
    ],
  },
]);
