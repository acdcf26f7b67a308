/** Rules for a pod's containers of all three kinds. What a container runs is not judged: that is the runtime's business. */
import {
  type FieldError,
  addErrors,
  duplicateField,
  forbiddenField,
  invalidField,
  invalidFields,
  notFoundField,
  placedAt,
  placedBelow,
  requiredField,
  tooManyField,
  unsupportedField,
} from '../../schema/field-errors.ts';
import { asPrefix } from '../../schema/metadata-validation.ts';
import type { FieldPath } from '../../schema/schema.ts';
import {
  backstepProblems,
  configMapKeyProblems,
  dnsLabelProblems,
  dnsSubdomainProblems,
  environmentVariableNameProblems,
} from '../../values/names.ts';
import { portNameProblems, portProblems } from '../../values/network-names.ts';
import type { Container, EnvironmentSource, EnvironmentVariable, EphemeralContainer } from './container.ts';
import { deviceErrors, mountErrors } from './mount-validation.ts';
import type { PodSpec } from './pod-spec.ts';
import { type ProbeContext, lifecycleErrors, probeErrors } from './probe-validation.ts';
import { environmentFields, fieldReferenceErrors, resourceFieldReferenceErrors } from './projected-validation.ts';
import { containerResourceErrors } from './resource-validation.ts';
import { securityContextErrors } from './security-context-validation.ts';
import { pullPolicyErrors } from './volume-validation.ts';
import type { Volume } from './volume.ts';

/** What the rules of a container need to know of its pod. */
interface ContainerContext {
  readonly spec: PodSpec;
  /** The pod's volumes that have no error themselves. */
  readonly volumes: ReadonlyMap<string, Volume>;
  readonly claimNames: ReadonlySet<string>;
}

const messagePolicies = ['File', 'FallbackToLogsOnError'];

const protocols = ['SCTP', 'TCP', 'UDP'];

const probes = ['livenessProbe', 'readinessProbe', 'startupProbe'] as const;

/** In the order of the API's own type, which it walks through. */
const neverEphemeral = [
  'ports',
  'resources',
  'resizePolicy',
  'restartPolicy',
  'restartPolicyRules',
  ...probes,
  'lifecycle',
] as const satisfies readonly (keyof Container)[];

export function containerErrors(context: ContainerContext, path: FieldPath): FieldError[] {
  const { containers } = context.spec;
  if (containers.length === 0) return [requiredField(path)];
  const errors: FieldError[] = [];
  const names = new Set<string>();
  for (const [index, container] of containers.entries()) {
    const here = [...path, index];
    addErrors(errors, commonErrors(container, context, here));
    if (names.has(container.name)) errors.push(duplicateField([...here, 'name'], container.name));
    names.add(container.name);
    addErrors(errors, lifeErrors(container, context.spec, here), restartPolicyErrors(container, here));
  }
  return [...errors, ...hostPortErrors(containers, path)];
}

export function initContainerErrors(context: ContainerContext, path: FieldPath): FieldError[] {
  const { containers, initContainers = [] } = context.spec;
  const errors: FieldError[] = [];
  const names = new Set(containers.map(({ name }) => name));
  for (const [index, container] of initContainers.entries()) {
    const here = [...path, index];
    const isSidecar = container.restartPolicy === 'Always';
    addErrors(errors, commonErrors(container, context, here), restartPolicyErrors(container, here));
    if (names.has(container.name)) errors.push(duplicateField([...here, 'name'], container.name));
    if (container.name !== '') names.add(container.name);
    // Init containers run one after the other, so each is checked alone, and the API server then calls it the first.
    addErrors(errors, placedBelow(here, [...path, 0], hostPortErrors([container], path)));
    addErrors(errors, isSidecar ? lifeErrors(container, context.spec, here) : shortLifeErrors(container, here));
  }
  return errors;
}

export function ephemeralContainerErrors(context: ContainerContext, path: FieldPath): FieldError[] {
  const { containers, initContainers = [], ephemeralContainers = [] } = context.spec;
  const errors: FieldError[] = [];
  const others = new Set([...containers, ...initContainers].map(({ name }) => name));
  const names = new Set(others);
  for (const [index, container] of ephemeralContainers.entries()) {
    const here = [...path, index];
    addErrors(errors, commonErrors(container, context, here), imageSpaceErrors(container, here));
    if (names.has(container.name)) errors.push(duplicateField([...here, 'name'], container.name));
    names.add(container.name);
    const target = container.targetContainerName ?? '';
    if (target !== '' && !others.has(target)) errors.push(notFoundField([...here, 'targetContainerName'], target));
    addErrors(errors, notForEphemeralErrors(container, here));
  }
  return errors;
}

/** Only for pods, not for templates: some people put a lone space there, to be filled in later. */
export function imageSpaceErrors({ image = '' }: Container, path: FieldPath): FieldError[] {
  if (image === image.trim()) return [];
  return [invalidField([...path, 'image'], image, 'must not have leading or trailing whitespace')];
}

function commonErrors(container: Container, context: ContainerContext, path: FieldPath): FieldError[] {
  const { name, image = '', terminationMessagePolicy: messagePolicy = '', securityContext } = container;
  const { spec, volumes, claimNames } = context;
  const messagePolicyPath = [...path, 'terminationMessagePolicy'];
  const errors = name === '' ? [requiredField([...path, 'name'])] : [];
  if (name !== '') errors.push(...invalidFields([...path, 'name'], name, dnsLabelProblems(name)));
  if (image === '') errors.push(requiredField([...path, 'image']));
  if (messagePolicy === '') errors.push(requiredField(messagePolicyPath));
  else if (!messagePolicies.includes(messagePolicy)) {
    errors.push(unsupportedField(messagePolicyPath, messagePolicy, messagePolicies));
  }
  return [
    ...errors,
    ...portErrors(container.ports ?? [], [...path, 'ports']),
    ...environmentErrors(container.env ?? [], [...path, 'env']),
    ...environmentSourceErrors(container.envFrom ?? [], [...path, 'envFrom']),
    ...mountErrors(container, volumes, [...path, 'volumeMounts']),
    ...deviceErrors(container, volumes, [...path, 'volumeDevices']),
    ...pullPolicyErrors(container.imagePullPolicy ?? '', [...path, 'imagePullPolicy']),
    ...containerResourceErrors(container.resources ?? {}, claimNames, [...path, 'resources']),
    ...resizePolicyErrors(container, spec, [...path, 'resizePolicy']),
    ...securityContextErrors(securityContext, spec.hostUsers !== false, [...path, 'securityContext']),
  ];
}

function lifeErrors(container: Container, spec: PodSpec, path: FieldPath): FieldError[] {
  const context: ProbeContext = { graceSeconds: spec.terminationGracePeriodSeconds, os: spec.os?.name };
  const { lifecycle } = container;
  return [
    ...(lifecycle === undefined ? [] : lifecycleErrors(lifecycle, context, [...path, 'lifecycle'])),
    ...probes.flatMap((kind) => probeErrors(kind, container[kind], context, [...path, kind])),
  ];
}

function shortLifeErrors(container: Container, path: FieldPath): FieldError[] {
  const errors = (['lifecycle', ...probes] as const)
    .filter((field) => container[field] !== undefined)
    .map((field) =>
      forbiddenField([...path, field], 'may not be set for init containers without restartPolicy=Always'),
    );
  for (const [index, { restartPolicy }] of (container.resizePolicy ?? []).entries()) {
    if (restartPolicy !== 'RestartContainer') continue;
    const detail = "must not be set to 'RestartContainer' for non-sidecar initContainers";
    errors.push(invalidField([...path, 'resizePolicy', index, 'restartPolicy'], restartPolicy, detail));
  }
  return errors;
}

function notForEphemeralErrors(container: EphemeralContainer, path: FieldPath): FieldError[] {
  const detail = 'cannot be set for an Ephemeral Container';
  const errors = neverEphemeral
    .filter((field) => isSet(container[field]))
    .map((field) => forbiddenField([...path, field], detail));
  for (const [index, mount] of (container.volumeMounts ?? []).entries()) {
    for (const field of ['subPath', 'subPathExpr'] as const) {
      if (mount[field]) errors.push(forbiddenField([...path, 'volumeMounts', index, field], detail));
    }
  }
  return errors;
}

function isSet(value: unknown): boolean {
  return value !== undefined && (typeof value !== 'object' || value === null || Object.keys(value).length > 0);
}

type Ports = NonNullable<Container['ports']>;

function portErrors(ports: Ports, path: FieldPath): FieldError[] {
  const errors: FieldError[] = [];
  const names = new Set<string>();
  for (const [index, { name = '', containerPort, hostPort = 0, protocol = '' }] of ports.entries()) {
    const here = [...path, index];
    const nameProblems = name === '' ? [] : portNameProblems(name);
    errors.push(...invalidFields([...here, 'name'], name, nameProblems));
    if (names.has(name)) errors.push(duplicateField([...here, 'name'], name));
    if (name !== '' && nameProblems.length === 0) names.add(name);
    if (containerPort === 0) errors.push(requiredField([...here, 'containerPort']));
    else errors.push(...invalidFields([...here, 'containerPort'], containerPort, portProblems(containerPort)));
    if (hostPort !== 0) errors.push(...invalidFields([...here, 'hostPort'], hostPort, portProblems(hostPort)));
    if (protocol === '') errors.push(requiredField([...here, 'protocol']));
    else if (!protocols.includes(protocol)) {
      errors.push(unsupportedField([...here, 'protocol'], protocol, protocols));
    }
  }
  return errors;
}

function hostPortErrors(containers: readonly Container[], path: FieldPath): FieldError[] {
  const errors: FieldError[] = [];
  const taken = new Set<string>();
  for (const [index, { ports = [] }] of containers.entries()) {
    for (const [portIndex, { hostPort = 0, protocol = '', hostIP = '' }] of ports.entries()) {
      if (hostPort === 0) continue;
      const address = `${protocol}/${hostIP}/${hostPort}`;
      if (taken.has(address)) {
        errors.push(duplicateField([...path, index, 'ports', portIndex, 'hostPort'], address));
      }
      taken.add(address);
    }
  }
  return errors;
}

/** Rules for when a container is restarted: after it ended, and when its resources change. */
const restartPolicies = ['Always', 'Never', 'OnFailure'];

const restartActions = ['Restart', 'RestartAllContainers'];

const exitCodeOperators = ['In', 'NotIn'];

const ruleCountMax = 20;

const exitCodeCountMax = 255;

const resizableResources = ['cpu', 'memory'];

const resizePolicies = ['NotRequired', 'RestartContainer'];

function restartPolicyErrors(container: Container, path: FieldPath): FieldError[] {
  const { restartPolicy: policy, restartPolicyRules: rules = [] } = container;
  const policyPath = [...path, 'restartPolicy'];
  const rulesPath = [...path, 'restartPolicyRules'];
  const errors: FieldError[] = [];
  if (policy === undefined) {
    if (rules.length === 0) return [];
    errors.push(requiredField(policyPath, 'must specify restartPolicy when restart rules are used'));
  } else if (!restartPolicies.includes(policy)) errors.push(unsupportedField(policyPath, policy, restartPolicies));
  if (rules.length > ruleCountMax) errors.push(tooManyField(rulesPath, rules.length, ruleCountMax));
  for (const [index, { action = '', exitCodes }] of rules.entries()) {
    const here = [...rulesPath, index];
    if (!restartActions.includes(action)) errors.push(unsupportedField([...here, 'action'], action, restartActions));
    if (exitCodes === undefined) {
      errors.push(requiredField([...here, 'exitCodes'], 'must be specified'));
      continue;
    }
    const { operator = '', values = [] } = exitCodes;
    if (!exitCodeOperators.includes(operator)) {
      errors.push(unsupportedField([...here, 'exitCodes', 'operator'], operator, exitCodeOperators));
    }
    if (values.length > exitCodeCountMax) {
      errors.push(tooManyField([...here, 'exitCodes', 'values'], values.length, exitCodeCountMax));
    }
  }
  return errors;
}

function resizePolicyErrors(
  { resizePolicy = [] }: Container,
  { restartPolicy: podPolicy }: PodSpec,
  path: FieldPath,
): FieldError[] {
  const seen = new Set<string>();
  return resizePolicy.flatMap(({ resourceName, restartPolicy }, index) => {
    const here = [...path, index];
    const errors = seen.has(resourceName) ? [duplicateField(here, resourceName)] : [];
    seen.add(resourceName);
    // The API server does not say which entry it means.
    const unplaced = [
      ...choiceErrors(resourceName, resizableResources, path),
      ...choiceErrors(restartPolicy, resizePolicies, path),
    ];
    if (podPolicy === 'Never' && restartPolicy !== 'NotRequired') {
      const detail = "must be 'NotRequired' when pod `restartPolicy` is 'Never'";
      unplaced.push(invalidField(path, restartPolicy, detail));
    }
    return [...errors, ...placedBelow(here, path, unplaced)];
  });
}

function choiceErrors(value: string, supported: readonly string[], path: FieldPath): FieldError[] {
  if (value === '') return [requiredField(path)];
  return supported.includes(value) ? [] : [unsupportedField(path, value, supported)];
}

/** Rules for a container's environment: `env` and `envFrom`. Whether the objects exist is found out on the node. */
type ValueSource = NonNullable<EnvironmentVariable['valueFrom']>;

type KeyReference = NonNullable<ValueSource['configMapKeyRef']>;

type FileKeyReference = NonNullable<ValueSource['fileKeyRef']>;

function environmentErrors(variables: readonly EnvironmentVariable[], path: FieldPath): FieldError[] {
  return variables.flatMap((variable, index) => [
    ...variableNameErrors(variable.name, [...path, index, 'name']),
    ...valueSourceErrors(variable, [...path, index, 'valueFrom']),
  ]);
}

function environmentSourceErrors(sources: readonly EnvironmentSource[], path: FieldPath): FieldError[] {
  return sources.flatMap((source, index) => {
    const { prefix = '', configMapRef, secretRef } = source;
    const here = [...path, index];
    const errors = prefix === '' ? [] : variableNameErrors(prefix, [...here, 'prefix']);
    if (configMapRef) errors.push(...objectNameErrors(configMapRef.name, [...here, 'configMapRef', 'name']));
    if (secretRef) errors.push(...objectNameErrors(secretRef.name, [...here, 'secretRef', 'name']));
    // The API server does not say which entry it means.
    if (!configMapRef && !secretRef) {
      errors.push(...placedAt(here, [invalidField(path, '', 'must specify one of: `configMapRef` or `secretRef`')]));
    } else if (configMapRef && secretRef) {
      const detail = 'may not have more than one field specified at a time';
      errors.push(...placedAt(here, [invalidField(path, '', detail)]));
    }
    return errors;
  });
}

function variableNameErrors(name: string, path: FieldPath): FieldError[] {
  return name === '' ? [requiredField(path)] : invalidFields(path, name, environmentVariableNameProblems(name));
}

function objectNameErrors(name: string, path: FieldPath): FieldError[] {
  return name === '' ? [requiredField(path)] : invalidFields(path, name, asPrefix(dnsSubdomainProblems)(name));
}

function valueSourceErrors({ value = '', valueFrom }: EnvironmentVariable, path: FieldPath): FieldError[] {
  if (valueFrom === undefined) return [];
  const { fieldRef, resourceFieldRef, configMapKeyRef, secretKeyRef, fileKeyRef } = valueFrom;
  const errors: FieldError[] = [];
  if (fieldRef) errors.push(...fieldReferenceErrors(fieldRef, environmentFields, [...path, 'fieldRef']));
  if (resourceFieldRef) {
    errors.push(...resourceFieldReferenceErrors(resourceFieldRef, 'variable', [...path, 'resourceFieldRef']));
  }
  if (configMapKeyRef) errors.push(...keyReferenceErrors(configMapKeyRef, [...path, 'configMapKeyRef']));
  if (secretKeyRef) errors.push(...keyReferenceErrors(secretKeyRef, [...path, 'secretKeyRef']));
  if (fileKeyRef) errors.push(...fileKeyReferenceErrors(fileKeyRef, [...path, 'fileKeyRef']));
  const count = Object.values(valueFrom).filter((source) => source !== undefined).length;
  if (count === 0) errors.push(invalidField(path, '', noSource));
  else if (value !== '') errors.push(invalidField(path, '', 'may not be specified when `value` is not empty'));
  else if (count > 1) errors.push(invalidField(path, '', 'may not have more than one field specified at a time'));
  return errors;
}

const noSource =
  'must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef`, `secretKeyRef` or `fileKeyRef`';

function keyReferenceErrors({ name, key }: KeyReference, path: FieldPath): FieldError[] {
  return [
    ...invalidFields([...path, 'name'], name, dnsSubdomainProblems(name)),
    ...(key === ''
      ? [requiredField([...path, 'key'])]
      : invalidFields([...path, 'key'], key, configMapKeyProblems(key))),
  ];
}

function fileKeyReferenceErrors({ key, volumeName, path: file }: FileKeyReference, path: FieldPath): FieldError[] {
  const volumePath = [...path, 'volumeName'];
  const filePath = [...path, 'path'];
  return [
    ...variableNameErrors(key, [...path, 'key']),
    ...(volumeName === ''
      ? [requiredField(volumePath)]
      : invalidFields(volumePath, volumeName, dnsLabelProblems(volumeName))),
    ...(file === '' ? [requiredField(filePath)] : invalidFields(filePath, file, backstepProblems(file))),
  ];
}
