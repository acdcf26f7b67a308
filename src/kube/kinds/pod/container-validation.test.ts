import assert from 'node:assert/strict';
import { test } from 'node:test';
import { decoded, messagesOf } from '../../../testing/fakes/builders.ts';
import { type FieldError, placeOf } from '../../schema/field-errors.ts';
import { validatePod } from './pod-validation.ts';
import { defaultPod, podShape } from './pod.ts';

const label =
  "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')";
const subdomain =
  "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";
const variableName = "a valid environment variable name must consist only of printable ASCII characters other than '='";
const configKey =
  "a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. 'key.name',  or 'KEY_NAME',  or 'key-name', regex used for validation is '[-._a-zA-Z0-9]+')";
const c = 'spec.containers[0]';

interface Case {
  readonly it: string;
  /** Fields of the pod's only container. */
  readonly container?: object;
  readonly spec?: object;
  readonly errors: readonly string[];
}

const environment: readonly Case[] = [
  {
    it: 'takes any printable name for a variable but one with an equals sign',
    container: { env: [{ name: 'a b!' }, { name: '1' }, { name: '' }, { name: 'A=B' }, { name: 'ü' }] },
    errors: [
      `${c}.env[2].name: Required value`,
      `${c}.env[3].name: Invalid value: "A=B": ${variableName}`,
      `${c}.env[4].name: Invalid value: "ü": ${variableName}`,
    ],
  },
  {
    it: 'takes one source for a variable, and none besides a value',
    container: {
      env: [
        { name: 'A', valueFrom: {} },
        { name: 'B', value: 'x', valueFrom: { configMapKeyRef: { name: 'a', key: 'b' } } },
        { name: 'C', valueFrom: { configMapKeyRef: { name: 'a', key: 'b' }, secretKeyRef: { name: 'a', key: 'b' } } },
        { name: 'D', value: '', valueFrom: { secretKeyRef: { name: 'a', key: 'b' } } },
      ],
    },
    errors: [
      `${c}.env[0].valueFrom: Invalid value: "": must specify one of: \`fieldRef\`, \`resourceFieldRef\`, \`configMapKeyRef\`, \`secretKeyRef\` or \`fileKeyRef\``,
      `${c}.env[1].valueFrom: Invalid value: "": may not be specified when \`value\` is not empty`,
      `${c}.env[2].valueFrom: Invalid value: "": may not have more than one field specified at a time`,
    ],
  },
  {
    it: 'holds references of variables to names and keys',
    container: {
      env: [
        { name: 'A', valueFrom: { configMapKeyRef: { name: 'B', key: '' } } },
        { name: 'B', valueFrom: { secretKeyRef: { name: '', key: 'a b' } } },
      ],
    },
    errors: [
      `${c}.env[0].valueFrom.configMapKeyRef.name: Invalid value: "B": ${subdomain}`,
      `${c}.env[0].valueFrom.configMapKeyRef.key: Required value`,
      `${c}.env[1].valueFrom.secretKeyRef.name: Invalid value: "": ${subdomain}`,
      `${c}.env[1].valueFrom.secretKeyRef.key: Invalid value: "a b": ${configKey}`,
    ],
  },
  {
    it: 'lets variables see other fields than files',
    container: {
      env: [
        { name: 'A', valueFrom: { fieldRef: { fieldPath: 'metadata.labels' } } },
        { name: 'B', valueFrom: { fieldRef: { fieldPath: 'spec.host' } } },
        { name: 'C', valueFrom: { fieldRef: { fieldPath: 'status.phase' } } },
        { name: 'D', valueFrom: { fieldRef: { fieldPath: "metadata.labels['app']" } } },
        { name: 'E', valueFrom: { resourceFieldRef: { resource: 'limits.cpu' } } },
      ],
    },
    errors: ['metadata.labels', 'status.phase'].map(
      (path, index) =>
        `${c}.env[${index * 2}].valueFrom.fieldRef.fieldPath: Unsupported value: "${path}": supported values: "metadata.name", "metadata.namespace", "metadata.uid", "spec.nodeName", "spec.serviceAccountName", "status.hostIP", "status.hostIPs", "status.podIP", "status.podIPs"`,
    ),
  },
  {
    it: 'reads variables only from files of emptyDirs that exist',
    spec: { volumes: [{ name: 'e' }, { name: 's', secret: { secretName: 'x' } }] },
    container: {
      env: [
        { name: 'A', valueFrom: { fileKeyRef: { volumeName: 'e', path: 'f', key: 'K' } } },
        { name: 'B', valueFrom: { fileKeyRef: { volumeName: 's', path: 'f', key: 'K' } } },
        { name: 'C', valueFrom: { fileKeyRef: { volumeName: 'gone', path: 'f', key: 'K' } } },
        { name: 'D', valueFrom: { fileKeyRef: { volumeName: 'E', path: 'a/../b', key: 'a=b' } } },
        { name: 'F', valueFrom: { fileKeyRef: { volumeName: 'e', path: '', key: '' } } },
      ],
    },
    errors: [
      `${c}.env[3].valueFrom.fileKeyRef.key: Invalid value: "a=b": ${variableName}`,
      `${c}.env[3].valueFrom.fileKeyRef.volumeName: Invalid value: "E": ${label}`,
      `${c}.env[3].valueFrom.fileKeyRef.path: Invalid value: "a/../b": must not contain '..'`,
      `${c}.env[4].valueFrom.fileKeyRef.key: Required value`,
      `${c}.env[4].valueFrom.fileKeyRef.path: Required value`,
      `${c}.env[1].valueFrom.fileKeyRef.volumeName: Invalid value: "s": referenced volume must be of type emptyDir`,
      `${c}.env[2].valueFrom.fileKeyRef.volumeName: Not found: "gone"`,
      `${c}.env[3].valueFrom.fileKeyRef.volumeName: Not found: "E"`,
    ],
  },
  {
    it: 'takes one object for each envFrom, and does not say which entry it means',
    container: {
      envFrom: [
        { prefix: 'P_', configMapRef: { name: 'a' } },
        { prefix: 'a=', secretRef: { name: '' } },
        {},
        { configMapRef: { name: 'a' }, secretRef: { name: 'B' } },
      ],
    },
    errors: [
      `${c}.envFrom[1].prefix: Invalid value: "a=": ${variableName}`,
      `${c}.envFrom[1].secretRef.name: Required value`,
      `${c}.envFrom: Invalid value: "": must specify one of: \`configMapRef\` or \`secretRef\``,
      `${c}.envFrom[3].secretRef.name: Invalid value: "B": ${subdomain}`,
      `${c}.envFrom: Invalid value: "": may not have more than one field specified at a time`,
    ],
  },
];

const volumes = [
  { name: 'v' },
  { name: 'pvc', persistentVolumeClaim: { claimName: 'a' } },
  { name: 'image', image: { reference: 'nginx' } },
];
const mounts: readonly Case[] = [
  {
    it: 'mounts only volumes that exist, each path once',
    spec: { volumes },
    container: {
      volumeMounts: [
        { name: 'v', mountPath: '/a' },
        { name: 'v', mountPath: '/a' },
        { name: 'gone', mountPath: '' },
        { name: '', mountPath: 'relative:../is fine' },
      ],
    },
    errors: [
      `${c}.volumeMounts[1].mountPath: Invalid value: "/a": must be unique`,
      `${c}.volumeMounts[2].name: Not found: "gone"`,
      `${c}.volumeMounts[2].mountPath: Required value`,
      `${c}.volumeMounts[3].name: Required value`,
      `${c}.volumeMounts[3].name: Not found: ""`,
    ],
  },
  {
    it: 'finds no volume that is itself wrong',
    spec: { volumes: [{ name: 'v', secret: {} }] },
    container: { volumeMounts: [{ name: 'v', mountPath: '/a' }] },
    errors: ['spec.volumes[0].secret.secretName: Required value', `${c}.volumeMounts[0].name: Not found: "v"`],
  },
  {
    it: 'keeps sub paths below their volume, and does not say which mount it means',
    spec: { volumes },
    container: {
      volumeMounts: [
        { name: 'v', mountPath: '/a', subPath: '/x' },
        { name: 'v', mountPath: '/b', subPath: 'x/../y' },
        { name: 'v', mountPath: '/c', subPath: '..baz' },
        { name: 'v', mountPath: '/d', subPath: 'a', subPathExpr: '../$(A)' },
      ],
    },
    errors: [
      `${c}.volumeMounts.subPath: Invalid value: "/x": must be a relative path`,
      `${c}.volumeMounts.subPath: Invalid value: "x/../y": must not contain '..'`,
      `${c}.volumeMounts[3].subPathExpr: Invalid value: "../$(A)": subPathExpr and subPath are mutually exclusive`,
      `${c}.volumeMounts.subPathExpr: Invalid value: "../$(A)": must not contain '..'`,
    ],
  },
  {
    it: 'propagates both ways only for the privileged',
    spec: { volumes },
    container: {
      volumeMounts: [
        { name: 'v', mountPath: '/a', mountPropagation: 'Bidirectional' },
        { name: 'v', mountPath: '/b', mountPropagation: 'Both' },
      ],
    },
    errors: [
      `${c}.volumeMounts.mountPropagation: Forbidden: Bidirectional mount propagation is available only to privileged containers`,
      `${c}.volumeMounts.mountPropagation: Unsupported value: "Both": supported values: "Bidirectional", "HostToContainer", "None"`,
    ],
  },
  {
    it: 'propagates both ways for the privileged',
    spec: { volumes },
    container: {
      securityContext: { privileged: true },
      volumeMounts: [{ name: 'v', mountPath: '/a', mountPropagation: 'Bidirectional' }],
    },
    errors: [],
  },
  {
    it: 'makes a mount read-only all the way down only where it is read-only',
    spec: { volumes },
    container: {
      volumeMounts: [
        { name: 'v', mountPath: '/a', recursiveReadOnly: 'Enabled', mountPropagation: 'HostToContainer' },
        { name: 'v', mountPath: '/b', recursiveReadOnly: 'IfPossible', readOnly: true, mountPropagation: 'None' },
        { name: 'v', mountPath: '/c', recursiveReadOnly: 'Disabled' },
        { name: 'v', mountPath: '/d', recursiveReadOnly: 'Yes' },
      ],
    },
    errors: [
      `${c}.volumeMounts.recursiveReadOnly: Forbidden: may only be specified when readOnly is true`,
      `${c}.volumeMounts.recursiveReadOnly: Forbidden: may only be specified when mountPropagation is None or not specified`,
      `${c}.volumeMounts.recursiveReadOnly: Unsupported value: "Yes": supported values: "Disabled", "Enabled", "IfPossible"`,
    ],
  },
  {
    it: 'knows three bind mount options, each once, and none for images',
    spec: { volumes },
    container: {
      volumeMounts: [
        { name: 'v', mountPath: '/a', bindMountOptions: ['noexec', 'nodev', 'nosuid'] },
        { name: 'v', mountPath: '/b', bindMountOptions: ['noexec', 'noexec', 'exec'] },
        { name: 'image', mountPath: '/c', bindMountOptions: ['nodev'] },
      ],
    },
    errors: [
      `${c}.volumeMounts[1].bindMountOptions[1]: Duplicate value: "noexec"`,
      `${c}.volumeMounts[1].bindMountOptions[2]: Unsupported value: "exec": supported values: "nodev", "noexec", "nosuid"`,
      `${c}.volumeMounts[2].bindMountOptions: Invalid value: ["nodev"]: bindMountOptions may not be used with image volumes`,
    ],
  },
  {
    it: 'keeps devices and mounts apart',
    spec: { volumes },
    container: {
      volumeMounts: [{ name: 'pvc', mountPath: '/dev/x' }],
      volumeDevices: [
        { name: 'pvc', devicePath: '/dev/x' },
        { name: 'v', devicePath: '/dev/../x' },
        { name: 'gone', devicePath: '/dev/y' },
        { name: 'gone', devicePath: '/dev/y' },
        { name: '', devicePath: '' },
      ],
    },
    errors: [
      `${c}.volumeMounts[0].name: Invalid value: "pvc": must not already exist in volumeDevices`,
      `${c}.volumeMounts[0].mountPath: Invalid value: "/dev/x": must not already exist as a path in volumeDevices`,
      `${c}.volumeDevices[0].name: Invalid value: "pvc": must not already exist in volumeMounts`,
      `${c}.volumeDevices[0].devicePath: Invalid value: "/dev/x": must not already exist as a path in volumeMounts`,
      `${c}.volumeDevices[1].name: Invalid value: "v": can only use volume source type of PersistentVolumeClaim or Ephemeral for block mode`,
      `${c}.volumeDevices[1].devicePath: Invalid value: "/dev/../x": can not contain backsteps ('..')`,
      `${c}.volumeDevices[2].name: Not found: "gone"`,
      `${c}.volumeDevices[3].name: Invalid value: "gone": must be unique`,
      `${c}.volumeDevices[3].name: Not found: "gone"`,
      `${c}.volumeDevices[3].devicePath: Invalid value: "/dev/y": must be unique`,
      `${c}.volumeDevices[4].name: Required value`,
      `${c}.volumeDevices[4].name: Not found: ""`,
      `${c}.volumeDevices[4].devicePath: Required value`,
    ],
  },
];

const others: readonly Case[] = [
  {
    it: 'asks a container for a name and an image',
    container: { name: '', image: '' },
    errors: [`${c}.name: Required value`, `${c}.image: Required value`],
  },
  {
    it: 'holds a container to its choices',
    container: { name: 'A', image: ' nginx', imagePullPolicy: 'x', terminationMessagePolicy: 'x' },
    errors: [
      `${c}.name: Invalid value: "A": ${label}`,
      `${c}.terminationMessagePolicy: Unsupported value: "x": supported values: "File", "FallbackToLogsOnError"`,
      `${c}.imagePullPolicy: Unsupported value: "x": supported values: "Always", "IfNotPresent", "Never"`,
      `${c}.image: Invalid value: " nginx": must not have leading or trailing whitespace`,
    ],
  },
  {
    it: 'holds ports to names, numbers and protocols',
    container: {
      ports: [
        { containerPort: 0 },
        { containerPort: 65536, hostPort: -1, protocol: 'ICMP' },
        { containerPort: 80, name: 'web' },
        { containerPort: 81, name: 'web' },
        { containerPort: 82, name: '-A--this-is-too-long' },
        { containerPort: 83, hostPort: 8080 },
        { containerPort: 84, hostPort: 8080 },
      ],
    },
    errors: [
      `${c}.ports[0].containerPort: Required value`,
      `${c}.ports[1].containerPort: Invalid value: 65536: must be between 1 and 65535, inclusive`,
      `${c}.ports[1].hostPort: Invalid value: -1: must be between 1 and 65535, inclusive`,
      `${c}.ports[1].protocol: Unsupported value: "ICMP": supported values: "SCTP", "TCP", "UDP"`,
      `${c}.ports[3].name: Duplicate value: "web"`,
      `${c}.ports[4].name: Invalid value: "-A--this-is-too-long": must be no more than 15 characters`,
      `${c}.ports[4].name: Invalid value: "-A--this-is-too-long": must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)`,
      `${c}.ports[4].name: Invalid value: "-A--this-is-too-long": must not contain consecutive hyphens`,
      `${c}.ports[4].name: Invalid value: "-A--this-is-too-long": must not begin or end with a hyphen`,
      `${c}.ports[6].hostPort: Duplicate value: "TCP//8080"`,
    ],
  },
  {
    it: 'holds resources to their names, and requests to limits',
    container: {
      resources: {
        limits: { cpu: '1', memory: '-1', gpu: '1', 'example.com/gpu': '1500m', 'hugepages-2Mi': '3Mi', storage: '1' },
        requests: { cpu: '2', 'example.com/gpu': '1', 'example.com/tpu': '1', 'hugepages-2Mi': '2Mi' },
      },
    },
    errors: [
      `${c}.resources.limits[memory]: Invalid value: "-1": must be greater than or equal to 0`,
      `${c}.resources.limits[gpu]: Invalid value: "gpu": must be a standard resource type or fully qualified`,
      `${c}.resources.limits[gpu]: Invalid value: "gpu": must be a standard resource for containers`,
      `${c}.resources.limits[example.com/gpu]: Invalid value: "1500m": must be an integer`,
      `${c}.resources.limits[hugepages-2Mi]: Invalid value: "3Mi": 3Mi is not positive integer multiple of hugepages-2Mi`,
      `${c}.resources.limits[storage]: Invalid value: "storage": must be a standard resource for containers`,
      `${c}.resources.requests: Invalid value: "2": must be less than or equal to cpu limit of 1`,
      `${c}.resources.requests: Invalid value: "1": must be equal to example.com/gpu limit of 1500m`,
      `${c}.resources.limits: Required value: Limit must be set for non overcommitable resources`,
      `${c}.resources.requests: Invalid value: "2Mi": must be equal to hugepages-2Mi limit of 3Mi`,
      `${c}.resources.requests[memory]: Invalid value: "-1": must be greater than or equal to 0`,
      `${c}.resources.requests[gpu]: Invalid value: "gpu": must be a standard resource type or fully qualified`,
      `${c}.resources.requests[gpu]: Invalid value: "gpu": must be a standard resource for containers`,
      `${c}.resources.requests[storage]: Invalid value: "storage": must be a standard resource for containers`,
    ],
  },
  {
    it: 'grants huge pages only along with cpu or memory',
    container: { resources: { limits: { 'hugepages-2Mi': '2Mi' } } },
    errors: [`${c}.resources: Forbidden: HugePages require cpu or memory`],
  },
  {
    it: 'takes claims that the pod has, each once',
    spec: { resourceClaims: [{ name: 'a', resourceClaimName: 'x' }] },
    container: { resources: { claims: [{ name: 'a' }, { name: 'a' }, { name: 'b' }, { name: '' }] } },
    errors: [
      `${c}.resources.claims[1]: Duplicate value: "a"`,
      `${c}.resources.claims[2]: Not found: "b": must be one of the names in pod.spec.resourceClaims: a`,
      `${c}.resources.claims[3]: Required value`,
    ],
  },
  {
    it: 'asks a probe for one handler and sane numbers',
    container: {
      livenessProbe: { periodSeconds: -1, successThreshold: 2 },
      readinessProbe: { exec: {}, tcpSocket: { port: 1 }, terminationGracePeriodSeconds: 1 },
      startupProbe: {
        httpGet: { port: 'No Port', scheme: 'FTP', httpHeaders: [{ name: 'a b', value: '' }] },
        terminationGracePeriodSeconds: 0,
      },
    },
    errors: [
      `${c}.livenessProbe: Required value: must specify a handler type`,
      `${c}.livenessProbe.periodSeconds: Invalid value: -1: must be greater than or equal to 0`,
      `${c}.livenessProbe.successThreshold: Invalid value: 2: must be 1`,
      `${c}.readinessProbe.exec.command: Required value`,
      `${c}.readinessProbe.tcpSocket: Forbidden: may not specify more than 1 handler type`,
      `${c}.readinessProbe.terminationGracePeriodSeconds: Invalid value: 1: must not be set for readinessProbes`,
      `${c}.startupProbe.httpGet.port: Invalid value: "No Port": must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)`,
      `${c}.startupProbe.httpGet.scheme: Unsupported value: "FTP": supported values: "HTTP", "HTTPS"`,
      `${c}.startupProbe.httpGet.httpHeaders: Invalid value: "a b": a valid HTTP header must consist of alphanumeric characters or '-' (e.g. 'X-Header-Name', regex used for validation is '[-A-Za-z0-9]+')`,
      `${c}.startupProbe.terminationGracePeriodSeconds: Invalid value: 0: must be greater than 0`,
    ],
  },
  {
    it: 'lets no hook sleep longer than the pod may take to end',
    container: {
      lifecycle: { preStop: { sleep: { seconds: 31 } }, postStart: { httpGet: { port: 0 } }, stopSignal: 'SIGTERM' },
    },
    errors: [
      `${c}.lifecycle.postStart.httpGet.port: Invalid value: 0: must be between 1 and 65535, inclusive`,
      `${c}.lifecycle.preStop.sleep: Invalid value: 31: must be non-negative and less than terminationGracePeriodSeconds (30)`,
      `${c}.lifecycle.stopSignal: Forbidden: may not be set for containers with empty \`spec.os.name\``,
    ],
  },
  {
    it: 'holds a security context to its ids and profiles',
    container: {
      securityContext: {
        runAsUser: -1,
        runAsGroup: 2147483648,
        procMount: 'Unmasked',
        seccompProfile: { type: 'Localhost' },
        appArmorProfile: { type: 'Own' },
        allowPrivilegeEscalation: false,
        privileged: true,
      },
    },
    errors: [
      `${c}.securityContext.runAsUser: Invalid value: -1: must be between 0 and 2147483647, inclusive`,
      `${c}.securityContext.runAsGroup: Invalid value: 2147483648: must be between 0 and 2147483647, inclusive`,
      `${c}.securityContext.procMount: Invalid value: "Unmasked": \`hostUsers\` must be false to use \`Unmasked\``,
      `${c}.securityContext.seccompProfile.localhostProfile: Required value: must be set when seccomp type is Localhost`,
      `${c}.securityContext: Invalid value: {"runAsUser":-1,"runAsGroup":2147483648,"seccompProfile":{"type":"Localhost"},"appArmorProfile":{"type":"Own"},"privileged":true,"allowPrivilegeEscalation":false,"procMount":"Unmasked"}: cannot set \`allowPrivilegeEscalation\` to false and \`privileged\` to true`,
      `${c}.securityContext.appArmorProfile.type: Unsupported value: "Own": supported values: "Localhost", "RuntimeDefault", "Unconfined"`,
    ],
  },
  {
    it: 'restarts a container by rules that have a policy behind them',
    container: {
      restartPolicyRules: [
        { action: 'Restart', exitCodes: { operator: 'In', values: [42] } },
        { action: 'Stop', exitCodes: { operator: 'Is' } },
        { action: 'RestartAllContainers' },
      ],
      resizePolicy: [
        { resourceName: 'cpu', restartPolicy: 'NotRequired' },
        { resourceName: 'cpu', restartPolicy: 'Never' },
        { resourceName: 'disk', restartPolicy: '' },
      ],
    },
    errors: [
      `${c}.resizePolicy: Unsupported value: "Never": supported values: "NotRequired", "RestartContainer"`,
      `${c}.resizePolicy: Unsupported value: "disk": supported values: "cpu", "memory"`,
      `${c}.resizePolicy: Required value`,
      `${c}.restartPolicy: Required value: must specify restartPolicy when restart rules are used`,
      `${c}.restartPolicyRules[1].action: Unsupported value: "Stop": supported values: "Restart", "RestartAllContainers"`,
      `${c}.restartPolicyRules[1].exitCodes.operator: Unsupported value: "Is": supported values: "In", "NotIn"`,
      `${c}.restartPolicyRules[2].exitCodes: Required value: must be specified`,
    ].toSpliced(0, 0, `${c}.resizePolicy[1]: Duplicate value: "cpu"`),
  },
];

for (const { it, container, spec, errors } of [...environment, ...mounts, ...others]) {
  test(`validatePod ${it}`, () => {
    const containers = [{ name: 'main', image: 'nginx', ...container }];
    assert.deepEqual(messagesOf(errorsOf({ containers, ...spec })), errors);
  });
}

test('validatePod wants names of containers unique over all three kinds', () => {
  const errors = errorsOf({
    containers: [named('a'), named('a')],
    initContainers: [named('a'), named('b'), named('b')],
    ephemeralContainers: [named('b'), { ...named('e'), targetContainerName: 'e' }],
  });
  assert.deepEqual(messagesOf(errors), [
    'spec.containers[1].name: Duplicate value: "a"',
    'spec.initContainers[0].name: Duplicate value: "a"',
    'spec.initContainers[2].name: Duplicate value: "b"',
    'spec.ephemeralContainers[0].name: Duplicate value: "b"',
    'spec.ephemeralContainers[1].targetContainerName: Not found: "e"',
    'spec.ephemeralContainers: Forbidden: cannot be set on create',
  ]);
});

test('validatePod wants at least one container', () => {
  assert.deepEqual(messagesOf(errorsOf({ containers: [] })), ['spec.containers: Required value']);
});

test('validatePod gives probes and hooks to sidecars and not to other init containers', () => {
  const probed = { image: 'nginx', livenessProbe: { exec: { command: ['true'] } }, lifecycle: {} };
  const errors = errorsOf({
    containers: [{ name: 'main', image: 'nginx' }],
    initContainers: [
      { name: 'sidecar', restartPolicy: 'Always', ...probed },
      { name: 'step', ...probed },
      { name: 'odd', image: 'nginx', restartPolicy: 'Sometimes' },
    ],
  });
  const detail = 'may not be set for init containers without restartPolicy=Always';
  assert.deepEqual(messagesOf(errors), [
    `spec.initContainers[1].lifecycle: Forbidden: ${detail}`,
    `spec.initContainers[1].livenessProbe: Forbidden: ${detail}`,
    'spec.initContainers[2].restartPolicy: Unsupported value: "Sometimes": supported values: "Always", "Never", "OnFailure"',
  ]);
});

test('validatePod keeps ephemeral containers small', () => {
  const errors = errorsOf({
    volumes: [{ name: 'v' }],
    containers: [{ name: 'main', image: 'nginx' }],
    ephemeralContainers: [
      {
        name: 'debug',
        image: 'nginx',
        ports: [{ containerPort: 80 }],
        resources: { limits: { cpu: '1' } },
        startupProbe: { exec: { command: ['true'] } },
        volumeMounts: [
          { name: 'v', mountPath: '/a', subPath: 'x' },
          { name: 'v', mountPath: '/b', subPathExpr: 'x' },
        ],
      },
    ],
  });
  const detail = 'Forbidden: cannot be set for an Ephemeral Container';
  const e = 'spec.ephemeralContainers[0]';
  assert.deepEqual(messagesOf(errors), [
    `${e}.ports: ${detail}`,
    `${e}.resources: ${detail}`,
    `${e}.startupProbe: ${detail}`,
    `${e}.volumeMounts[0].subPath: ${detail}`,
    `${e}.volumeMounts[1].subPathExpr: ${detail}`,
    'spec.ephemeralContainers: Forbidden: cannot be set on create',
  ]);
});

test('errors of mounts that name no index know the mount that is meant', () => {
  const [error] = errorsOf({
    volumes: [{ name: 'v' }],
    containers: [
      {
        name: 'main',
        image: 'a',
        volumeMounts: [
          { name: 'v', mountPath: '/a' },
          { name: 'v', mountPath: '/b', subPath: '/' },
        ],
      },
    ],
  });
  assert.deepEqual(error && placeOf(error), ['spec', 'containers', 0, 'volumeMounts', 1, 'subPath']);
});

test('validatePod survives a manifest with more errors than fit a call', () => {
  const env = Array.from({ length: 150_000 }, () => ({ name: '' }));
  assert.equal(errorsOf({ containers: [{ name: 'main', image: 'a', env }] }).length, env.length);
});

function named(name: string): object {
  return { name, image: 'nginx' };
}

function errorsOf(spec: object): FieldError[] {
  return validatePod(defaultPod(decoded(podShape, { metadata: { name: 'web', namespace: 'shop' }, spec })));
}
