/** Labels of its Node that a node may not touch: with them it could draw other people's pods to itself. */
const ownLabels = new Set([
  'kubernetes.io/hostname',
  'kubernetes.io/os',
  'kubernetes.io/arch',
  'beta.kubernetes.io/os',
  'beta.kubernetes.io/arch',
  'beta.kubernetes.io/instance-type',
  'node.kubernetes.io/instance-type',
  'topology.kubernetes.io/zone',
  'topology.kubernetes.io/region',
  'failure-domain.beta.kubernetes.io/zone',
  'failure-domain.beta.kubernetes.io/region',
]);

type Labels = Readonly<Record<string, string>>;

/** Those that were added, removed or changed although they belong to the cluster. */
export function forbiddenLabels(labels: Labels, before: Labels): readonly string[] {
  const changed = [...new Set([...Object.keys(labels), ...Object.keys(before)])].filter(
    (key) => valueOf(labels, key) !== valueOf(before, key),
  );
  return changed.filter(isForbidden);
}

function valueOf(labels: Labels, key: string): string | undefined {
  return Object.hasOwn(labels, key) ? labels[key] : undefined;
}

function isForbidden(key: string): boolean {
  if (isBelow(key, 'node-restriction.kubernetes.io')) return true;
  const isReserved = isBelow(key, 'kubernetes.io') || isBelow(key, 'k8s.io');
  return (
    isReserved && !ownLabels.has(key) && !isBelow(key, 'kubelet.kubernetes.io') && !isBelow(key, 'node.kubernetes.io')
  );
}

/** The part before the slash is the domain itself or ends with it. */
function isBelow(key: string, domain: string): boolean {
  const slash = key.indexOf('/');
  const prefix = slash === -1 ? '' : key.slice(0, slash);
  return prefix === domain || prefix.endsWith(`.${domain}`);
}
