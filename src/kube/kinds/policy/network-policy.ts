/** NetworkPolicies: which traffic of pods is allowed. */
import {
  type FieldError,
  forbiddenField,
  invalidField,
  invalidFields,
  requiredField,
} from '../../schema/field-errors.ts';
import { unsupportedField } from '../../schema/field-errors.ts';
import { resourceKind } from '../../schema/kind.ts';
import { labelSelector, objectFields } from '../../schema/meta.ts';
import {
  validateLabelSelector,
  validateObjectMeta,
  validateObjectMetaUpdate,
} from '../../schema/metadata-validation.ts';
import {
  type FieldPath,
  type Of,
  described,
  intOrString,
  int32,
  list,
  object,
  required,
  string,
} from '../../schema/schema.ts';
import { dnsSubdomainProblems } from '../../values/names.ts';
import { isSubnetWithin, portNameProblems, portProblems, subnetProblems } from '../../values/network-names.ts';

const port = object({ protocol: string, port: intOrString, endPort: int32 });
const peer = object({
  podSelector: labelSelector,
  namespaceSelector: labelSelector,
  ipBlock: object({ cidr: required(string), except: list(string) }),
});
type Port = Of<typeof port>;
type Peer = Of<typeof peer>;

const networkPolicyShape = described(
  {
    text: 'Which traffic of pods is allowed. Nothing in this server enforces it.',
    fields: { spec: 'Which pods, and which traffic.' },
  },
  object({
    ...objectFields,
    spec: object({
      podSelector: labelSelector,
      ingress: list(object({ ports: list(port), from: list(peer) })),
      egress: list(object({ ports: list(port), to: list(peer) })),
      policyTypes: list(string),
    }),
  }),
);
export interface NetworkPolicy extends Of<typeof networkPolicyShape> {}

export const networkPolicyKind = resourceKind<NetworkPolicy>({
  group: 'networking.k8s.io',
  kind: 'NetworkPolicy',
  plural: 'networkpolicies',
  shortNames: ['netpol'],
  namespaced: true,
  shape: networkPolicyShape,
  complete: defaultPolicy,
  validate: ({ metadata, spec = {} }) => [
    ...validateObjectMeta(metadata, { name: dnsSubdomainProblems, scope: 'namespace' }),
    ...specErrors(spec, ['spec']),
  ],
  validateUpdate: ({ metadata, spec = {} }, old) => [
    ...validateObjectMetaUpdate(metadata, old.metadata),
    ...specErrors(spec, ['spec']),
  ],
  wire: {
    NetworkPolicy: '1 metadata ObjectMeta, 2 spec NetworkPolicySpec',
    NetworkPolicySpec: `
      1 podSelector! LabelSelector, 2 ingress [NetworkPolicyIngressRule], 3 egress [NetworkPolicyEgressRule],
      4 policyTypes [string]`,
    NetworkPolicyIngressRule: '1 ports [NetworkPolicyPort], 2 from [NetworkPolicyPeer]',
    NetworkPolicyEgressRule: '1 ports [NetworkPolicyPort], 2 to [NetworkPolicyPeer]',
    NetworkPolicyPort: '1 protocol?, 2 port? IntOrString, 3 endPort? int',
    NetworkPolicyPeer: '1 podSelector? LabelSelector, 2 namespaceSelector? LabelSelector, 3 ipBlock? IPBlock',
    IPBlock: '1 cidr!, 2 except [string]',
  },
});

type Spec = NonNullable<NetworkPolicy['spec']>;

function defaultPolicy(policy: NetworkPolicy): NetworkPolicy {
  const { ingress, egress, policyTypes = [], podSelector = {} } = policy.spec ?? {};
  const withProtocol = (ports: readonly Port[]): readonly Port[] =>
    ports.map((one) => ({ ...one, protocol: one.protocol ?? 'TCP' }));
  const implied = (egress ?? []).length > 0 ? ['Ingress', 'Egress'] : ['Ingress'];
  return {
    ...policy,
    spec: {
      podSelector,
      ...(ingress && {
        ingress: ingress.map((rule) => ({ ...rule, ...(rule.ports && { ports: withProtocol(rule.ports) }) })),
      }),
      ...(egress && {
        egress: egress.map((rule) => ({ ...rule, ...(rule.ports && { ports: withProtocol(rule.ports) }) })),
      }),
      policyTypes: policyTypes.length > 0 ? policyTypes : implied,
    },
  };
}

const directions = ['Ingress', 'Egress'];

function specErrors({ podSelector, ingress = [], egress = [], policyTypes = [] }: Spec, path: FieldPath): FieldError[] {
  const rules = [
    ...ingress.map(({ ports, from }, index) => ({ ports, peers: from, at: ['ingress', index], side: 'from' })),
    ...egress.map(({ ports, to }, index) => ({ ports, peers: to, at: ['egress', index], side: 'to' })),
  ];
  const types = [...path, 'policyTypes'];
  return [
    ...validateLabelSelector(podSelector, [...path, 'podSelector']),
    ...rules.flatMap(({ ports = [], peers = [], at, side }) => [
      ...ports.flatMap((one, index) => portErrors(one, [...path, ...at, 'ports', index])),
      ...peers.flatMap((one, index) => peerErrors(one, [...path, ...at, side, index])),
    ]),
    ...(policyTypes.length > directions.length
      ? [invalidField(types, policyTypes, 'may not specify more than two policyTypes')]
      : policyTypes.flatMap((type, index) =>
          directions.includes(type) ? [] : [unsupportedField([...types, index], type, directions)],
        )),
  ];
}

const protocols = ['TCP', 'UDP', 'SCTP'];

function portErrors({ protocol, port: given, endPort }: Port, path: FieldPath): FieldError[] {
  const errors: FieldError[] = [];
  if (protocol !== undefined && !protocols.includes(protocol)) {
    errors.push(unsupportedField([...path, 'protocol'], protocol, protocols));
  }
  const end = [...path, 'endPort'];
  if (typeof given === 'number') {
    errors.push(...invalidFields([...path, 'port'], given, portProblems(given)));
    if (endPort === undefined) return errors;
    if (endPort < given) errors.push(invalidField(end, given, 'must be greater than or equal to `port`'));
    return [...errors, ...invalidFields(end, endPort, portProblems(endPort))];
  }
  if (endPort !== undefined) {
    const detail = `may not be specified when \`port\` is ${given === undefined ? 'not specified' : 'non-numeric'}`;
    errors.push(invalidField(end, endPort, detail));
  }
  return given === undefined
    ? errors
    : [...errors, ...invalidFields([...path, 'port'], given, portNameProblems(given))];
}

function peerErrors({ podSelector, namespaceSelector, ipBlock }: Peer, path: FieldPath): FieldError[] {
  if (podSelector === undefined && namespaceSelector === undefined && ipBlock === undefined) {
    return [requiredField(path, 'must specify a peer')];
  }
  const isMixed = ipBlock !== undefined && (podSelector !== undefined || namespaceSelector !== undefined);
  return [
    ...validateLabelSelector(podSelector, [...path, 'podSelector']),
    ...validateLabelSelector(namespaceSelector, [...path, 'namespaceSelector']),
    ...(ipBlock === undefined ? [] : blockErrors(ipBlock, [...path, 'ipBlock'])),
    ...(isMixed ? [forbiddenField(path, 'may not specify both ipBlock and another peer')] : []),
  ];
}

function blockErrors({ cidr, except = [] }: NonNullable<Peer['ipBlock']>, path: FieldPath): FieldError[] {
  const here = [...path, 'cidr'];
  if (cidr === '') return [requiredField(here)];
  return [
    ...invalidFields(here, cidr, subnetProblems(cidr)),
    ...except.flatMap((one, index) => [
      ...invalidFields([...path, 'except', index], one, subnetProblems(one)),
      ...(isSubnetWithin(one, cidr)
        ? []
        : [invalidField([...path, 'except', index], one, 'must be a strict subset of `cidr`')]),
    ]),
  ];
}
