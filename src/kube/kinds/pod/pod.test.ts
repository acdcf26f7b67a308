import assert from 'node:assert/strict';
import { test } from 'node:test';
import { decoded, messagesOf } from '../../../testing/fakes/builders.ts';
import { placeOf } from '../../schema/field-errors.ts';
import { validatePod, validatePodTemplateSpec } from './pod-validation.ts';
import { defaultPod, defaultPodTemplateSpec, podShape, podTemplateSpec } from './pod.ts';

const label =
  "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')";
const subdomain =
  "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";
const ids = 'must be between 0 and 2147483647, inclusive';
const address = 'must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)';
const containers = [{ name: 'main', image: 'nginx' }];

interface Case {
  readonly it: string;
  readonly spec?: object;
  readonly metadata?: object;
  readonly errors: readonly string[];
}

const cases: readonly Case[] = [
  { it: 'accepts the smallest pod', errors: [] },
  {
    it: 'refuses a token without a service account',
    spec: { volumes: [{ name: 'v', projected: { sources: [{ serviceAccountToken: { path: 'token' } }] } }] },
    errors: [
      'spec.volumes[0].projected.sources[0].serviceAccountToken: Forbidden: must not be specified when serviceAccountName is not set',
    ],
  },
  {
    it: 'accepts a token for an account under its old name',
    spec: {
      serviceAccount: 'robot',
      volumes: [{ name: 'v', projected: { sources: [{ serviceAccountToken: { path: 'token' } }] } }],
    },
    errors: [],
  },
  {
    it: 'holds the policies to their choices',
    spec: { restartPolicy: 'Sometimes', dnsPolicy: 'Mine', preemptionPolicy: 'Always', os: { name: 'plan9' } },
    errors: [
      'spec.restartPolicy: Unsupported value: "Sometimes": supported values: "Always", "OnFailure", "Never"',
      'spec.dnsPolicy: Unsupported value: "Mine": supported values: "ClusterFirstWithHostNet", "ClusterFirst", "Default", "None"',
      'spec.preemptionPolicy: Unsupported value: "Always": supported values: "PreemptLowerPriority", "Never"',
      'spec.os: Unsupported value: "plan9": supported values: "linux", "windows"',
    ],
  },
  {
    it: 'holds names to the rules of names',
    spec: {
      serviceAccountName: 'A',
      nodeName: 'B',
      hostname: 'a.b',
      subdomain: 'C_',
      priorityClassName: 'D',
      runtimeClassName: 'E',
    },
    errors: [
      `spec.serviceAccountName: Invalid value: "A": ${subdomain}`,
      `spec.nodeName: Invalid value: "B": ${subdomain}`,
      'spec.hostname: Invalid value: "a.b": must not contain dots',
      `spec.subdomain: Invalid value: "C_": ${label}`,
      `spec.priorityClassName: Invalid value: "D": ${subdomain}`,
      `spec.runtimeClassName: Invalid value: "E": ${subdomain}`,
    ],
  },
  {
    it: 'holds times to their ranges',
    spec: { activeDeadlineSeconds: 0 },
    errors: ['spec.activeDeadlineSeconds: Invalid value: 0: must be between 1 and 2147483647, inclusive'],
  },
  { it: 'mends a negative time to end', spec: { terminationGracePeriodSeconds: -5 }, errors: [] },
  {
    it: 'holds a security context to its ids and policies',
    spec: {
      securityContext: {
        fsGroup: -1,
        runAsUser: 2147483648,
        runAsGroup: -1,
        supplementalGroups: [1, -1],
        fsGroupChangePolicy: 'Never',
        supplementalGroupsPolicy: 'Loose',
        seLinuxChangePolicy: 'x',
        seccompProfile: { type: '' },
        sysctls: [
          { name: 'A', value: '' },
          { name: 'net.ipv4.a', value: '' },
          { name: 'net.ipv4.a', value: '' },
        ],
      },
    },
    errors: [
      `spec.securityContext.fsGroup: Invalid value: -1: ${ids}`,
      `spec.securityContext.runAsUser: Invalid value: 2147483648: ${ids}`,
      `spec.securityContext.runAsGroup: Invalid value: -1: ${ids}`,
      `spec.securityContext.supplementalGroups[1]: Invalid value: -1: ${ids}`,
      'spec.securityContext.sysctls[0].name: Invalid value: "A": must have at most 253 characters and match regex ^([a-z0-9]([-_a-z0-9]*[a-z0-9])?[\\./])*[a-z0-9]([-_a-z0-9]*[a-z0-9])?$',
      'spec.securityContext.sysctls[2].name: Duplicate value: "net.ipv4.a"',
      'spec.securityContext.fsGroupChangePolicy: Unsupported value: "Never": supported values: "Always", "OnRootMismatch"',
      'spec.securityContext.seccompProfile.type: Required value: type is required when seccompProfile is set',
      'spec.securityContext.supplementalGroupsPolicy: Unsupported value: "Loose": supported values: "Merge", "Strict"',
      'spec.securityContext.seLinuxChangePolicy: Unsupported value: "x": supported values: "MountOption", "Recursive"',
    ],
  },
  {
    it: 'holds host aliases to addresses and names',
    spec: {
      hostAliases: [
        { ip: 'here', hostnames: ['A'] },
        { ip: '010.0.0.1' },
        { ip: '::ffff:1.2.3.4' },
        { ip: 'fe80::1', hostnames: ['a.b'] },
        { ip: '1.2.3.4' },
      ],
    },
    errors: [
      `spec.hostAliases[0].ip: Invalid value: "here": ${address}`,
      `spec.hostAliases[0].hostnames[0]: Invalid value: "A": ${subdomain}`,
      'spec.hostAliases[1].ip: Invalid value: "010.0.0.1": must not have leading 0s',
      'spec.hostAliases[2].ip: Invalid value: "::ffff:1.2.3.4": must not be an IPv4-mapped IPv6 address',
    ],
  },
  {
    it: 'asks for a resolver where the policy gives none',
    spec: { dnsPolicy: 'None', dnsConfig: {} },
    errors: [
      'spec.dnsConfig.nameservers: Required value: must provide at least one DNS nameserver when `dnsPolicy` is None',
    ],
  },
  {
    it: 'holds a resolver to its limits',
    spec: {
      dnsConfig: {
        nameservers: ['1.1.1.1', 'a', '1.1.1.3', '1.1.1.4'],
        searches: ['.', 'a.b.', '_tcp.a', 'A'],
        options: [{ name: 'x' }, { value: 'y' }],
      },
    },
    errors: [
      'spec.dnsConfig.nameservers: Invalid value: ["1.1.1.1","a","1.1.1.3","1.1.1.4"]: must not have more than 3 nameservers',
      `spec.dnsConfig.nameservers[1]: Invalid value: "a": ${address}`,
      `spec.dnsConfig.searches[3]: Invalid value: "A": a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '_', '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '_?[a-z0-9]([-_a-z0-9]*[a-z0-9])?(\\._?[a-z0-9]([-_a-z0-9]*[a-z0-9])?)*')`,
      'spec.dnsConfig.options[1]: Required value: must not be empty',
    ],
  },
  {
    it: 'shares ports with its host as they are',
    spec: {
      hostNetwork: true,
      containers: [{ name: 'a', image: 'b', ports: [{ containerPort: 80 }, { containerPort: 81, hostPort: 82 }] }],
    },
    errors: [
      'spec.containers[0].ports[1].hostPort: Invalid value: 82: must match `containerPort` when `hostNetwork` is true',
    ],
  },
  {
    it: 'shares nothing with its host when its users are its own',
    spec: { hostUsers: false, hostNetwork: true, hostPID: true, hostIPC: true },
    errors: ['hostNetwork', 'HostPID', 'HostIPC'].map((name) => `spec.${name}: Forbidden: when \`hostUsers\` is false`),
  },
  {
    it: 'shares processes with its containers or with its host',
    spec: { shareProcessNamespace: true, hostPID: true },
    errors: [
      'spec.shareProcessNamespace: Invalid value: true: ShareProcessNamespace and HostPID cannot both be enabled',
    ],
  },
  {
    it: 'holds tolerations to their operators',
    spec: {
      tolerations: [
        { key: 'a/b/c', operator: 'Exists', value: 'x' },
        { operator: 'Equal' },
        { key: 'a', effect: 'NoSchedule', tolerationSeconds: 1 },
        { key: 'a', operator: 'Is', effect: 'Never' },
        { operator: 'Exists' },
      ],
    },
    errors: [
      `spec.tolerations[0].key: Invalid value: "a/b/c": a valid label key must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]') with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')`,
      `spec.tolerations[0].operator: Invalid value: "x": value must be empty when \`operator\` is 'Exists'`,
      'spec.tolerations[1].operator: Invalid value: "Equal": operator must be Exists when `key` is empty, which means "match all values and all keys"',
      `spec.tolerations[2].effect: Invalid value: "NoSchedule": effect must be 'NoExecute' when \`tolerationSeconds\` is set`,
      'spec.tolerations[3].operator: Unsupported value: "Is": supported values: "Equal", "Exists"',
      'spec.tolerations[3].effect: Unsupported value: "Never": supported values: "NoSchedule", "PreferNoSchedule", "NoExecute"',
    ],
  },
  {
    it: 'holds affinity to its terms',
    spec: {
      affinity: {
        nodeAffinity: {
          requiredDuringSchedulingIgnoredDuringExecution: { nodeSelectorTerms: [] },
          preferredDuringSchedulingIgnoredDuringExecution: [
            { weight: 0, preference: { matchExpressions: [{ key: 'a', operator: 'Gt' }] } },
          ],
        },
        podAntiAffinity: {
          requiredDuringSchedulingIgnoredDuringExecution: [
            { topologyKey: '', namespaces: ['A'], matchLabelKeys: ['a'] },
          ],
        },
      },
    },
    errors: [
      'spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms: Required value: must have at least one node selector term',
      'spec.affinity.nodeAffinity.preferredDuringSchedulingIgnoredDuringExecution[0].weight: Invalid value: 0: must be in the range 1-100',
      "spec.affinity.nodeAffinity.preferredDuringSchedulingIgnoredDuringExecution[0].preference.matchExpressions[0].values: Required value: must be specified single value when `operator` is 'Lt' or 'Gt'",
      `spec.affinity.podAntiAffinity.requiredDuringSchedulingIgnoredDuringExecution[0].namespace: Invalid value: "A": ${label}`,
      'spec.affinity.podAntiAffinity.requiredDuringSchedulingIgnoredDuringExecution[0].matchLabelKeys: Forbidden: must not be specified when labelSelector is not set',
      'spec.affinity.podAntiAffinity.requiredDuringSchedulingIgnoredDuringExecution[0].topologyKey: Required value: can not be empty',
      'spec.affinity.podAntiAffinity.requiredDuringSchedulingIgnoredDuringExecution[0].topologyKey: Invalid value: "": name part must be non-empty',
      `spec.affinity.podAntiAffinity.requiredDuringSchedulingIgnoredDuringExecution[0].topologyKey: Invalid value: "": name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')`,
    ],
  },
  {
    it: 'holds spread constraints to their rules',
    spec: {
      topologySpreadConstraints: [
        { maxSkew: 0, topologyKey: 'zone', whenUnsatisfiable: 'ScheduleAnyway', minDomains: 1 },
        { maxSkew: 1, topologyKey: 'zone', whenUnsatisfiable: 'ScheduleAnyway' },
        { maxSkew: 1, topologyKey: '', whenUnsatisfiable: 'Maybe', nodeTaintsPolicy: 'x' },
      ],
    },
    errors: [
      'spec.topologySpreadConstraints[0].maxSkew: Invalid value: 0: must be greater than zero',
      'spec.topologySpreadConstraints[0].{topologyKey, whenUnsatisfiable}: Duplicate value: "{zone, ScheduleAnyway}"',
      'spec.topologySpreadConstraints[0].minDomains: Invalid value: 1: can only use minDomains if whenUnsatisfiable=DoNotSchedule, not ScheduleAnyway',
      'spec.topologySpreadConstraints[2].topologyKey: Required value: can not be empty',
      'spec.topologySpreadConstraints[2].whenUnsatisfiable: Unsupported value: "Maybe": supported values: "DoNotSchedule", "ScheduleAnyway"',
      'spec.topologySpreadConstraints[2].nodeTaintsPolicy: Unsupported value: "x": supported values: "Honor", "Ignore"',
    ],
  },
  {
    it: 'fits containers into the pod’s own resources',
    spec: {
      resources: { limits: { cpu: '1', 'example.com/x': '1' }, requests: { cpu: '1' } },
      containers: [
        { name: 'a', image: 'b', resources: { limits: { cpu: '2' }, requests: { cpu: '600m' } } },
        { name: 'c', image: 'd', resources: { requests: { cpu: '600m' } } },
      ],
    },
    errors: [
      'spec.resources.limits[example.com/x]: Unsupported value: "example.com/x": supported values: "cpu", "hugepages-", "memory"',
      'spec.resources.requests[cpu]: Invalid value: "1": must be greater than or equal to aggregate container requests of 1200m',
      'spec.resources.containers[0][cpu].limits: Invalid value: "2": must be less than or equal to pod limits of 1',
    ],
  },
  {
    it: 'holds gates, claims and overhead to their rules',
    spec: {
      nodeName: 'node',
      readinessGates: [{ conditionType: 'a b' }],
      schedulingGates: [{ name: 'a' }, { name: 'a' }],
      resourceClaims: [
        { name: 'a' },
        { name: 'a', resourceClaimName: 'x', resourceClaimTemplateName: 'y' },
        { name: '', resourceClaimName: 'B' },
      ],
      overhead: { disk: '1' },
    },
    errors: [
      'spec.resourceClaims[0]: Invalid value: {"name":"a"}: must specify one of: `resourceClaimName`, `resourceClaimTemplateName`',
      'spec.resourceClaims[1].name: Duplicate value: "a"',
      'spec.resourceClaims[1]: Invalid value: {"name":"a","resourceClaimName":"x","resourceClaimTemplateName":"y"}: at most one of `resourceClaimName` or `resourceClaimTemplateName` may be specified',
      'spec.resourceClaims[2].name: Required value',
      `spec.resourceClaims[2].resourceClaimName: Invalid value: "B": ${subdomain}`,
      `spec.readinessGates[0].conditionType: Invalid value: "a b": name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')`,
      'spec.schedulingGates[1]: Duplicate value: "a"',
      'spec.overhead.limits[disk]: Invalid value: "disk": must be a standard resource type or fully qualified',
      'spec.overhead.limits[disk]: Invalid value: "disk": must be a standard resource for containers',
      'spec.nodeName: Forbidden: cannot be set until all schedulingGates have been cleared',
    ],
  },
  {
    it: 'understands its own annotations',
    metadata: {
      annotations: {
        'kubernetes.io/config.mirror': 'x',
        'controller.kubernetes.io/pod-deletion-cost': '+1',
        'seccomp.security.alpha.kubernetes.io/pod': 'mine',
        'container.apparmor.security.beta.kubernetes.io/gone': 'mine',
      },
    },
    errors: [
      'metadata.annotations[kubernetes.io/config.mirror]: Invalid value: "x": must set spec.nodeName if mirror pod annotation is set',
      'metadata.annotations[controller.kubernetes.io/pod-deletion-cost]: Invalid value: "+1": must be a 32bit integer',
      'metadata.annotations.seccomp.security.alpha.kubernetes.io/pod: Invalid value: "mine": must be a valid seccomp profile',
      'metadata.annotations[container.apparmor.security.beta.kubernetes.io/gone]: Invalid value: "gone": container not found',
      'metadata.annotations[container.apparmor.security.beta.kubernetes.io/gone]: Invalid value: "mine": invalid AppArmor profile name: "mine"',
    ],
  },
  {
    it: 'holds an overridden host name to its rules',
    spec: { hostnameOverride: 'A', setHostnameAsFQDN: true, hostNetwork: true },
    errors: [
      'spec.hostnameOverride: Forbidden: may not be specified when setHostnameAsFQDN is true',
      'spec.hostnameOverride: Forbidden: may not be specified when hostNetwork is true',
      `spec.hostnameOverride: Invalid value: "A": ${subdomain}`,
    ],
  },
  { it: 'tolerates pull secrets without a name', spec: { imagePullSecrets: [{}, { name: '' }] }, errors: [] },
];
for (const { it, spec, metadata, errors } of cases) {
  test(`validatePod ${it}`, () => {
    const json = { metadata: { name: 'web', namespace: 'shop', ...metadata }, spec: { containers, ...spec } };
    assert.deepEqual(messagesOf(validatePod(defaultPod(decoded(podShape, json)))), errors);
  });
}

test('validatePodTemplate prints labels without metadata, and lets ports of the host open', () => {
  const json = {
    metadata: { labels: { 'a b': 'c' } },
    spec: {
      hostNetwork: true,
      containers: [{ name: 'a', image: ' ', ports: [{ containerPort: 80 }] }],
      ephemeralContainers: [{ name: 'e', image: 'b' }],
    },
  };
  const errors = validatePodTemplateSpec(defaultPodTemplateSpec(decoded(podTemplateSpec, json)), ['spec', 'template']);
  assert.deepEqual(messagesOf(errors), [
    `spec.template.labels: Invalid value: "a b": name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')`,
    'spec.template.spec.ephemeralContainers: Forbidden: ephemeral containers not allowed in pod template',
  ]);
  assert.deepEqual(errors[0] && placeOf(errors[0]), ['spec', 'template', 'metadata', 'labels']);
});
