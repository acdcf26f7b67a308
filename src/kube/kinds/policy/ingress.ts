/** Ingresses, which say how requests from outside come to Services, and the classes of what carries that out. */
import {
  type FieldError,
  forbiddenField,
  invalidField,
  invalidFields,
  requiredField,
} from '../../schema/field-errors.ts';
import { tooLongField, unsupportedField } from '../../schema/field-errors.ts';
import { resourceKind } from '../../schema/kind.ts';
import { objectFields } from '../../schema/meta.ts';
import { immutableErrors, validateObjectMeta, validateObjectMetaUpdate } from '../../schema/metadata-validation.ts';
import {
  type FieldPath,
  type Of,
  atomic,
  described,
  int32,
  list,
  object,
  required,
  string,
} from '../../schema/schema.ts';
import {
  dnsLabelProblems,
  dnsSubdomainProblems,
  pathSegmentProblems,
  wildcardSubdomainProblems,
} from '../../values/names.ts';
import { addressProblems, parseIpAddress, portNameProblems, portProblems } from '../../values/network-names.ts';

const backend = described(
  {
    text: 'Where requests go: a port of a Service, or another object.',
    fields: { service: 'A Service of the namespace.', resource: 'Another object of the namespace.' },
  },
  object({
    service: object({ name: required(string), port: object({ name: string, number: int32 }) }),
    resource: atomic(object({ apiGroup: string, kind: required(string), name: required(string) })),
  }),
);
type Backend = Of<typeof backend>;

const ingressShape = described(
  {
    text: 'How requests from outside come to Services. Nothing in this server acts on it.',
    fields: { spec: 'What goes where.', status: 'Where it can be reached.' },
  },
  object({
    ...objectFields,
    spec: object({
      ingressClassName: string,
      defaultBackend: backend,
      tls: list(object({ hosts: list(string), secretName: string })),
      rules: list(
        object({
          host: string,
          http: object({
            paths: required(list(object({ path: string, pathType: string, backend: required(backend) }))),
          }),
        }),
      ),
    }),
    status: object({
      loadBalancer: object({
        ingress: list(
          object({
            ip: string,
            hostname: string,
            ports: list(object({ port: required(int32), protocol: required(string), error: string })),
          }),
        ),
      }),
    }),
  }),
);
export interface Ingress extends Of<typeof ingressShape> {}
type IngressSpec = NonNullable<Ingress['spec']>;
type HttpPath = NonNullable<NonNullable<IngressSpec['rules']>[number]['http']>['paths'][number];

export const ingressKind = resourceKind<Ingress>({
  group: 'networking.k8s.io',
  kind: 'Ingress',
  plural: 'ingresses',
  shortNames: ['ing'],
  namespaced: true,
  shape: ingressShape,
  validate: (ingress) => [...ingressErrors(ingress), ...classErrors(ingress)],
  validateUpdate: (ingress, old) => [
    ...validateObjectMetaUpdate(ingress.metadata, old.metadata),
    ...ingressErrors(ingress),
  ],
  wire: {
    Ingress: '1 metadata ObjectMeta, 2 spec IngressSpec, 3 status IngressStatus',
    IngressSpec: '4 ingressClassName?, 1 defaultBackend? IngressBackend, 2 tls [IngressTLS], 3 rules [IngressRule]',
    IngressTLS: '1 hosts [string], 2 secretName',
    IngressRule: '1 host, 2 ...IngressRuleValue',
    IngressRuleValue: '1 http? HTTPIngressRuleValue',
    HTTPIngressRuleValue: '1 paths [HTTPIngressPath]',
    HTTPIngressPath: '1 path, 3 pathType?, 2 backend! IngressBackend',
    IngressBackend: '4 service? IngressServiceBackend, 3 resource? TypedLocalObjectReference',
    IngressServiceBackend: '1 name!, 2 port ServiceBackendPort',
    ServiceBackendPort: '1 name, 2 number int',
    IngressStatus: '1 loadBalancer IngressLoadBalancerStatus',
    IngressLoadBalancerStatus: '1 ingress [IngressLoadBalancerIngress]',
    IngressLoadBalancerIngress: '1 ip, 2 hostname, 4 ports [IngressPortStatus]',
    IngressPortStatus: '1 port! int, 2 protocol!, 3 error?',
  },
});

function ingressErrors({ metadata, spec = {} }: Ingress): FieldError[] {
  const { defaultBackend, rules = [], tls = [], ingressClassName } = spec;
  const path = ['spec'];
  const missing = 'either `defaultBackend` or `rules` must be specified';
  return [
    ...validateObjectMeta(metadata, { name: dnsSubdomainProblems, scope: 'namespace' }),
    ...(rules.length === 0 && defaultBackend === undefined ? [invalidField(path, rules, missing)] : []),
    ...(defaultBackend ? backendErrors(defaultBackend, [...path, 'defaultBackend']) : []),
    ...rules.flatMap(({ host = '', http }, index) => [
      ...hostErrors(host, [...path, 'rules', index, 'host']),
      ...(http ? pathErrors(http.paths, [...path, 'rules', index, 'http', 'paths']) : []),
    ]),
    ...tls.flatMap(({ hosts = [], secretName = '' }, index) => [
      ...hosts.flatMap((host, at) => nameErrors(host, [...path, 'tls', index, 'hosts', at])),
      ...(secretName === ''
        ? []
        : invalidFields([...path, 'tls', index, 'secretName'], secretName, dnsSubdomainProblems(secretName))),
    ]),
    ...(ingressClassName === undefined
      ? []
      : invalidFields([...path, 'ingressClassName'], ingressClassName, dnsSubdomainProblems(ingressClassName))),
  ];
}

const classAnnotation = 'kubernetes.io/ingress.class';

/** The annotation is older than the field. */
function classErrors({ metadata: { annotations = {} }, spec }: Ingress): FieldError[] {
  const named = Object.hasOwn(annotations, classAnnotation) ? annotations[classAnnotation] : undefined;
  if (named === undefined || spec?.ingressClassName === undefined || named === spec.ingressClassName) return [];
  const detail = 'must match `ingressClassName` when both are specified';
  return [invalidField(['annotations', classAnnotation], named, detail)];
}

function hostErrors(host: string, path: FieldPath): FieldError[] {
  if (host === '') return [];
  const isAddress = parseIpAddress(host) !== undefined;
  return [
    ...(isAddress ? [invalidField(path, host, 'must be a DNS name, not an IP address')] : []),
    ...nameErrors(host, path),
  ];
}

function nameErrors(host: string, path: FieldPath): FieldError[] {
  return invalidFields(path, host, host.includes('*') ? wildcardSubdomainProblems(host) : dnsSubdomainProblems(host));
}

const pathTypes = ['Exact', 'ImplementationSpecific', 'Prefix'];
const badSequences = ['//', '/./', '/../', '%2f', '%2F'];
const badEnds = ['/..', '/.'];

function pathErrors(paths: readonly HttpPath[], path: FieldPath): FieldError[] {
  if (paths.length === 0) return [requiredField(path)];
  return paths.flatMap(({ path: given = '', pathType, backend: target }, index) => {
    const here = [...path, index];
    if (pathType === undefined) return [requiredField([...here, 'pathType'], 'pathType must be specified')];
    const refuse = (detail: string): FieldError => invalidField([...here, 'path'], given, detail);
    const isExactly = pathType === 'Exact' || pathType === 'Prefix';
    return [
      ...(pathTypes.includes(pathType) ? [] : [unsupportedField([...here, 'pathType'], pathType, pathTypes)]),
      ...(pathTypes.includes(pathType) && (isExactly || given !== '') && !given.startsWith('/')
        ? [refuse('must be an absolute path')]
        : []),
      ...(isExactly
        ? badSequences.filter((one) => given.includes(one)).map((one) => refuse(`must not contain '${one}'`))
        : []),
      ...(isExactly
        ? badEnds.filter((one) => given.endsWith(one)).map((one) => refuse(`cannot end with '${one}'`))
        : []),
      ...backendErrors(target, [...here, 'backend']),
    ];
  });
}

function backendErrors({ service, resource }: Backend, path: FieldPath): FieldError[] {
  if (service !== undefined && resource !== undefined) {
    return [invalidField(path, '', 'cannot set both resource and service backends')];
  }
  if (resource !== undefined) return referenceErrors(resource, [...path, 'resource']);
  if (service === undefined) return [invalidField(path, '', 'resource or service backend is required')];
  const { name, port: { name: portName = '', number = 0 } = {} } = service;
  const here = [...path, 'service'];
  return [
    ...(name === ''
      ? [requiredField([...here, 'name'])]
      : invalidFields([...here, 'name'], name, dnsLabelProblems(name))),
    ...(portName !== '' && number !== 0 ? [invalidField(path, '', 'cannot set both port name & port number')] : []),
    ...(portName === '' && number === 0 ? [requiredField(path, 'port name or number is required')] : []),
    ...(portName !== '' && number === 0
      ? invalidFields([...here, 'port', 'name'], portName, portNameProblems(portName))
      : []),
    ...(portName === '' && number !== 0
      ? invalidFields([...here, 'port', 'number'], number, portProblems(number))
      : []),
  ];
}

interface Reference {
  readonly apiGroup?: string;
  readonly kind: string;
  readonly name: string;
}

function referenceErrors(reference: Reference, path: FieldPath): FieldError[] {
  const { apiGroup } = reference;
  return [
    ...(apiGroup === undefined ? [] : invalidFields([...path, 'apiGroup'], apiGroup, dnsSubdomainProblems(apiGroup))),
    ...(['kind', 'name'] as const).flatMap((field) =>
      reference[field] === ''
        ? [requiredField([...path, field])]
        : invalidFields([...path, field], reference[field], pathSegmentProblems(reference[field])),
    ),
  ];
}

export function validateIngressStatus({ metadata, status }: Ingress, old: Ingress): FieldError[] {
  const path = ['status', 'loadBalancer', 'ingress'];
  return [
    ...validateObjectMetaUpdate(metadata, old.metadata),
    ...(status?.loadBalancer?.ingress ?? []).flatMap(({ ip = '', hostname = '' }, index) => [
      ...(ip === '' ? [] : invalidFields([...path, index, 'ip'], ip, addressProblems(ip))),
      ...(hostname === '' ? [] : invalidFields([...path, index, 'hostname'], hostname, dnsSubdomainProblems(hostname))),
      ...(parseIpAddress(hostname) === undefined
        ? []
        : [invalidField([...path, index, 'hostname'], hostname, 'must be a DNS name, not an IP address')]),
    ]),
  ];
}

const ingressClassShape = described(
  {
    text: 'A kind of program that carries out Ingresses.',
    fields: { spec: 'Which program it is, and its parameters.' },
  },
  object({
    ...objectFields,
    spec: object({
      controller: string,
      parameters: object({
        apiGroup: string,
        kind: required(string),
        name: required(string),
        scope: string,
        namespace: string,
      }),
    }),
  }),
);
export interface IngressClass extends Of<typeof ingressClassShape> {}
type ClassSpec = NonNullable<IngressClass['spec']>;

export const ingressClassKind = resourceKind<IngressClass>({
  group: 'networking.k8s.io',
  kind: 'IngressClass',
  plural: 'ingressclasses',
  namespaced: false,
  shape: ingressClassShape,
  complete: (ingressClass) => {
    const { spec } = ingressClass;
    if (spec?.parameters === undefined) return ingressClass;
    const { parameters } = spec;
    return { ...ingressClass, spec: { ...spec, parameters: { ...parameters, scope: parameters.scope ?? 'Cluster' } } };
  },
  validate: ({ metadata, spec = {} }) => [
    ...validateObjectMeta(metadata, { name: dnsSubdomainProblems, scope: 'cluster' }),
    ...controllerErrors(spec.controller ?? '', ['spec', 'controller']),
    ...parameterErrors(spec.parameters, ['spec', 'parameters']),
  ],
  validateUpdate: ({ metadata, spec = {} }, old) => [
    ...validateObjectMetaUpdate(metadata, old.metadata),
    ...immutableErrors(spec.controller ?? '', old.spec?.controller ?? '', ['spec', 'controller']),
    ...parameterErrors(spec.parameters, ['spec', 'parameters']),
  ],
  wire: {
    IngressClass: '1 metadata ObjectMeta, 2 spec IngressClassSpec',
    IngressClassSpec: '1 controller, 2 parameters? IngressClassParametersReference',
    IngressClassParametersReference: '1 apiGroup?, 2 kind!, 3 name!, 4 scope?, 5 namespace?',
  },
});

const controllerBytesMax = 250;
const httpPath = String.raw`[A-Za-z0-9/\-._~%!$&'()*+,;=:]+`;

/** `example.com/ingress` */
function controllerErrors(controller: string, path: FieldPath): FieldError[] {
  const errors = Buffer.byteLength(controller) > controllerBytesMax ? [tooLongField(path, controllerBytesMax)] : [];
  if (controller === '') return [...errors, requiredField(path)];
  const slash = controller.indexOf('/');
  const [host, rest] = [controller.slice(0, slash), controller.slice(slash + 1)];
  if (slash <= 0 || rest === '') {
    return [...errors, invalidField(path, controller, 'must be a domain-prefixed path (such as "acme.io/foo")')];
  }
  errors.push(...invalidFields(path, host, dnsSubdomainProblems(host)));
  if (new RegExp(`^${httpPath}$`).test(rest)) return errors;
  return [...errors, invalidField(path, rest, `Invalid path (regex used for validation is '${httpPath}')`)];
}

function parameterErrors(parameters: ClassSpec['parameters'], path: FieldPath): FieldError[] {
  if (parameters === undefined) return [];
  const { scope, namespace } = parameters;
  const errors = referenceErrors(parameters, path);
  const scopes = ['Cluster', 'Namespace'];
  const here = [...path, 'namespace'];
  if (scope === undefined) return [...errors, requiredField([...path, 'scope'])];
  if (!scopes.includes(scope)) return [...errors, unsupportedField([...path, 'scope'], scope, scopes)];
  if (scope === 'Cluster') {
    return namespace === undefined
      ? errors
      : [...errors, forbiddenField(here, "`parameters.scope` is set to 'Cluster'")];
  }
  if (namespace === undefined) return [...errors, requiredField(here, "`parameters.scope` is set to 'Namespace'")];
  return [...errors, ...invalidFields(here, namespace, dnsLabelProblems(namespace))];
}
