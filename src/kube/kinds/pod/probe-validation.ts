/** Rules for probes and for the hooks of a container's life. */
import {
  type FieldError,
  forbiddenField,
  invalidField,
  invalidFields,
  placedAt,
  requiredField,
  unsupportedField,
} from '../../schema/field-errors.ts';
import { nonNegativeErrors } from '../../schema/metadata-validation.ts';
import type { FieldPath } from '../../schema/schema.ts';
import { headerNameProblems, portNameProblems, portProblems } from '../../values/network-names.ts';
import type { Lifecycle, Probe } from './container.ts';

type LifecycleHandler = NonNullable<Lifecycle['preStop']>;
type HttpGet = NonNullable<Probe['httpGet']>;
type Handler = Pick<Probe, 'exec' | 'httpGet' | 'tcpSocket' | 'grpc'> & Pick<LifecycleHandler, 'sleep'>;

const handlerOrder = ['exec', 'httpGet', 'tcpSocket', 'grpc', 'sleep'] as const;
const numbers = [
  'initialDelaySeconds',
  'timeoutSeconds',
  'periodSeconds',
  'successThreshold',
  'failureThreshold',
] as const;

const signals = [
  'ABRT ALRM BUS CHLD CLD CONT FPE HUP ILL INT IO IOT KILL PIPE POLL PROF PWR QUIT RTMAX RTMIN SEGV STKFLT STOP SYS'.split(
    ' ',
  ),
  'TERM TRAP TSTP TTIN TTOU URG USR1 USR2 VTALRM WINCH XCPU XFSZ'.split(' '),
  Array.from({ length: 14 }, (_, index) => `RTMAX-${index + 1}`),
  Array.from({ length: 15 }, (_, index) => `RTMIN+${index + 1}`),
]
  .flat()
  .map((name) => `SIG${name}`)
  .toSorted();
const windowsSignals = ['SIGKILL', 'SIGTERM'];

export interface ProbeContext {
  /** Undefined where the pod's own value is missing: that error is enough. */
  readonly graceSeconds: number | undefined;
  readonly os: string | undefined;
}

export function probeErrors(
  kind: 'livenessProbe' | 'readinessProbe' | 'startupProbe',
  probe: Probe | undefined,
  context: ProbeContext,
  path: FieldPath,
): FieldError[] {
  if (probe === undefined) return [];
  const errors = handlerErrors(probe, context, path);
  for (const field of numbers) errors.push(...nonNegativeErrors(probe[field] ?? 0, [...path, field]));
  const graceSeconds = probe.terminationGracePeriodSeconds;
  const gracePath = [...path, 'terminationGracePeriodSeconds'];
  if (graceSeconds !== undefined && graceSeconds <= 0) {
    errors.push(invalidField(gracePath, graceSeconds, 'must be greater than 0'));
  }
  if (kind === 'readinessProbe') {
    if (graceSeconds === undefined) return errors;
    return [...errors, invalidField(gracePath, graceSeconds, 'must not be set for readinessProbes')];
  }
  if (probe.successThreshold === 1) return errors;
  return [...errors, invalidField([...path, 'successThreshold'], probe.successThreshold ?? 0, 'must be 1')];
}

export function lifecycleErrors(lifecycle: Lifecycle, context: ProbeContext, path: FieldPath): FieldError[] {
  const { postStart, preStop, stopSignal } = lifecycle;
  return [
    ...(postStart === undefined ? [] : handlerErrors(postStart, context, [...path, 'postStart'])),
    ...(preStop === undefined ? [] : handlerErrors(preStop, context, [...path, 'preStop'])),
    ...(stopSignal === undefined ? [] : stopSignalErrors(stopSignal, context.os, [...path, 'stopSignal'])),
  ];
}

function stopSignalErrors(signal: string, os: string | undefined, path: FieldPath): FieldError[] {
  if (os === undefined) return [forbiddenField(path, 'may not be set for containers with empty `spec.os.name`')];
  if (os !== 'linux' && os !== 'windows') return [];
  const supported = os === 'windows' ? windowsSignals : signals;
  return supported.includes(signal) ? [] : [unsupportedField(path, signal, supported)];
}

function handlerErrors(handler: Handler, context: ProbeContext, path: FieldPath): FieldError[] {
  const [first, ...others] = handlerOrder.filter((name) => handler[name] !== undefined);
  if (first === undefined) return [requiredField(path, 'must specify a handler type')];
  return [
    ...actionErrors(handler, first, context, [...path, first]),
    ...others.map((other) => forbiddenField([...path, other], 'may not specify more than 1 handler type')),
  ];
}

function actionErrors(
  { exec, httpGet, tcpSocket, grpc, sleep }: Handler,
  kind: (typeof handlerOrder)[number],
  { graceSeconds }: ProbeContext,
  path: FieldPath,
): FieldError[] {
  if (kind === 'exec') return (exec?.command ?? []).length === 0 ? [requiredField([...path, 'command'])] : [];
  if (kind === 'httpGet' && httpGet) return httpGetErrors(httpGet, path);
  if (kind === 'tcpSocket' && tcpSocket) return portErrors(tcpSocket.port, [...path, 'port']);
  if (kind === 'grpc' && grpc) {
    return [
      ...portErrors(grpc.port, [...path, 'port']),
      ...(grpc.mode === undefined || ['Plaintext', 'TLS'].includes(grpc.mode)
        ? []
        : [unsupportedField([...path, 'mode'], grpc.mode, ['Plaintext', 'TLS'])]),
    ];
  }
  const seconds = sleep?.seconds ?? 0;
  if (graceSeconds === undefined || (seconds >= 0 && seconds <= graceSeconds)) return [];
  const detail = `must be non-negative and less than terminationGracePeriodSeconds (${graceSeconds})`;
  return placedAt([...path, 'seconds'], [invalidField(path, seconds, detail)]);
}

function httpGetErrors(httpGet: HttpGet, path: FieldPath): FieldError[] {
  const { path: target = '', scheme = '', httpHeaders = [], protocol, host = '' } = httpGet;
  const errors = target === '' ? [requiredField([...path, 'path'])] : [];
  errors.push(...portErrors(httpGet.port, [...path, 'port']));
  if (scheme !== 'HTTP' && scheme !== 'HTTPS') {
    errors.push(unsupportedField([...path, 'scheme'], scheme, ['HTTP', 'HTTPS']));
  }
  for (const [index, { name }] of httpHeaders.entries()) {
    const here = [...path, 'httpHeaders'];
    errors.push(...placedAt([...here, index, 'name'], invalidFields(here, name, headerNameProblems(name))));
  }
  if (protocol === undefined || protocol === 'HTTP1') return errors;
  if (protocol !== 'HTTP2') {
    errors.push(unsupportedField([...path, 'protocol'], protocol, ['HTTP1', 'HTTP2']));
  } else if (scheme !== 'HTTP') {
    errors.push(invalidField([...path, 'protocol'], protocol, 'is only supported with HTTP (H2C)'));
  } else if (host !== '') {
    errors.push(invalidField([...path, 'host'], host, 'must be empty when `protocol` is "HTTP2"'));
  }
  return errors;
}

/** A port by its number, or by the name some container gives it. */
export function portErrors(port: number | string, path: FieldPath): FieldError[] {
  return invalidFields(path, port, typeof port === 'number' ? portProblems(port) : portNameProblems(port));
}
