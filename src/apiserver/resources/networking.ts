/** Ingresses, their classes and NetworkPolicies. They are kept for the programs that act on them; none of those is part of this server. */
import {
  type Ingress,
  type IngressClass,
  ingressClassKind,
  ingressKind,
  validateIngressStatus,
} from '../../kube/kinds/policy/ingress.ts';
import { networkPolicyKind } from '../../kube/kinds/policy/network-policy.ts';
import { formatRequirements, requirementsOf } from '../../kube/values/labels.ts';
import { ageColumn, nameColumn, orNone, text } from '../model/columns.ts';
import { resource, specAndStatus, statusOf } from '../model/resource.ts';

export const ingresses = resource(ingressKind, {
  ...specAndStatus(ingressKind, { loadBalancer: {} }),
  subresources: [statusOf(validateIngressStatus)],
  withoutEffect: 'no request from outside is routed by it',
  columns: [
    nameColumn,
    text('Class', 'The class of what carries it out.', ({ spec }) => spec?.ingressClassName ?? '<none>'),
    text('Hosts', 'The hosts that requests are for.', hostsOf),
    text('Address', 'Where it can be reached.', addressOf),
    text('Ports', 'The ports that are open.', ({ spec }) => ((spec?.tls ?? []).length > 0 ? '80, 443' : '80')),
    ageColumn,
  ],
});

const hostsShown = 3;

function hostsOf({ spec }: Ingress): string {
  const { rules = [] } = spec ?? {};
  const hosts = rules.map(({ host = '' }) => host).filter((host) => host !== '');
  if (hosts.length === 0) return '*';
  const shown = hosts.slice(0, hostsShown).join(',');
  return hosts.length > hostsShown ? `${shown} + ${rules.length - hostsShown} more...` : shown;
}

const addressLengthMax = 16;

function addressOf({ status }: Ingress): string {
  const all = (status?.loadBalancer?.ingress ?? []).map(({ ip = '', hostname = '' }) => ip || hostname);
  const list = [...new Set(all.filter((one) => one !== ''))].sort().join(',');
  return list.length > addressLengthMax ? `${list.slice(0, addressLengthMax - 3)}...` : list;
}

export const ingressClasses = resource(ingressClassKind, {
  ...specAndStatus(ingressClassKind),
  columns: [
    { ...nameColumn, cell: nameOf },
    text('Controller', 'The program that carries out Ingresses of the class.', ({ spec }) => spec?.controller ?? ''),
    text('Parameters', 'The object with further parameters.', parametersOf),
    ageColumn,
  ],
});

function nameOf({ metadata: { name, annotations } }: Pick<IngressClass, 'metadata'>): string {
  return annotations?.['ingressclass.kubernetes.io/is-default-class'] === 'true' ? `${name} (default)` : name;
}

function parametersOf({ spec }: IngressClass): string {
  if (spec?.parameters === undefined) return '<none>';
  const { kind, apiGroup, name } = spec.parameters;
  return `${kind}${apiGroup === undefined ? '' : `.${apiGroup}`}/${name}`;
}

export const networkPolicies = resource(networkPolicyKind, {
  ...specAndStatus(networkPolicyKind),
  withoutEffect: 'all traffic of pods is allowed as before',
  columns: [
    nameColumn,
    text('Pod-Selector', 'The pods it is for.', ({ spec }) =>
      orNone(formatRequirements(requirementsOf(spec?.podSelector ?? {}))),
    ),
    ageColumn,
  ],
});
